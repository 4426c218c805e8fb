/* SPDX-License-Identifier: MIT */
/* Matrix products through CBLAS, divided among the threads by weft itself (product.h): each
 * part of the grid is one serial call. CBLAS counts in int: larger products are halved until
 * they fit; if the distance of rows exceeds an int, a product is divided until it has one row.
 *
 * CBLAS chooses by processor what it computes. So the base set of x86-64 and the exact set of
 * arm64, whose bits are the same, have exact products (gemm_exact.c), on x86-64 by the widest
 * vectors. A library without CBLAS multiplies strips (gemm_bf16.c).
 *
 * A product of at most FEW rows, as each token of a sample needs, is bound by reading B,
 * which CBLAS would copy first. Here B is read once, along its rows; each number of C is
 * summed in an order that depends on K alone. */
#include "kernels/isa/lanes.h"
#include "kernels/isa/parts.h"
#include "kernels/isa/product.h"

#if defined(WEFT_ISA_EXACT)
static void multiply_many(const product *p) { WEFT_ISA_NAME(wefti_multiply_exact)(p); }
#elif defined(__x86_64__) && !defined(__AVX2__)
static void multiply_many(const product *p) {
    switch (wefti_isa_detect()) {
    case WEFTI_ISA_AVX512: wefti_multiply_exact_avx512(p); break;
    case WEFTI_ISA_AVX2: wefti_multiply_exact_avx2(p); break;
    default: wefti_multiply_exact_base(p);
    }
}
#elif !defined(WEFT_BLAS)
static void multiply_many(const product *p) { WEFT_ISA_NAME(wefti_multiply_strips)(p); }
#else
#include <cblas.h>
#include <limits.h>

/* A stride that fits into CBLAS's int; that of a single row is never used. */
static int stride(int64_t ld, int64_t least) { return (int)(ld < INT_MAX ? ld : least); }

static void call(const product *p) {
    int64_t columns_a = p->ta ? p->M : p->K, columns_b = p->tb ? p->K : p->N;
    cblas_sgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans,
                p->tb ? CblasTrans : CblasNoTrans, (int)p->M, (int)p->N, (int)p->K,
                p->alpha, p->A, stride(p->lda, columns_a), p->B,
                stride(p->ldb, columns_b), p->beta, p->C, stride(p->ldc, p->N));
}
static bool too_large(int64_t n, int64_t ld, bool are_rows) {
    return n > INT_MAX || (are_rows && n > 1 && ld > INT_MAX);
}

static void call_in_parts(const product *p) {
    span m[2] = {{0, p->M / 2}, {p->M / 2, p->M}}, all_m = {0, p->M};
    span n[2] = {{0, p->N / 2}, {p->N / 2, p->N}}, all_n = {0, p->N};
    span k[2] = {{0, p->K / 2}, {p->K / 2, p->K}};
    bool cut_m = too_large(p->M, p->lda, !p->ta) || too_large(p->M, p->ldc, true);
    bool cut_n = too_large(p->N, p->ldb, p->tb);
    bool cut_k = too_large(p->K, p->lda, p->ta) || too_large(p->K, p->ldb, !p->tb);
    if (!cut_m && !cut_n && !cut_k) {
        call(p);
        return;
    }
    for (int i = 0; i < 2; i++) {
        product part = cut_m   ? part_of(p, m[i], all_n)
                       : cut_n ? part_of(p, all_m, n[i])
                               : terms_of(p, k[i]);
        call_in_parts(&part);
    }
}

static void multiply_many(const product *p) { multiply_divided(p, call_in_parts); }
#endif

enum { FEW = 4, LINES = 4, STREAMS = 8 };

#define FEW_INLINE static inline __attribute__((always_inline))

/* One number of C. */
static void put(const product *p, int64_t m, int64_t n, float sum) {
    float *c = (float *)p->C + m * p->ldc + n;
    *c = p->alpha * sum + (p->beta == 0 ? 0 : p->beta * *c);
}

/* C[M,lines] of rows n to n + lines of B, which hold the terms of a column of C. */
FEW_INLINE void dot_lines(const product *p, int M, int lines, int64_t n) {
    const float *A = p->A, *B = (const float *)p->B + n * p->ldb;
    vfloat sum[LINES][FEW] = {{{0}}};
    int64_t k = 0, K = p->K;
    for (; k + LANES <= K; k += LANES)
        for (int i = 0; i < lines; i++)
            for (int m = 0; m < M; m++)
                sum[i][m] += load(B + i * p->ldb + k) * load(A + m * p->lda + k);
    for (int i = 0; i < lines; i++)
        for (int m = 0; m < M; m++) {
            if (k < K)
                sum[i][m] += load_part(B + i * p->ldb + k, K - k) *
                             load_part(A + m * p->lda + k, K - k);
            put(p, m, n + i, lane_sum(sum[i][m]));
        }
}

FEW_INLINE void multiply_lines(const product *p, int M) {
    int64_t n = 0;
    for (; n + LINES <= p->N; n += LINES) dot_lines(p, M, LINES, n);
    for (; n < p->N; n++) dot_lines(p, M, 1, n);
}

/* C[M,N] += alpha A B of terms k to k + terms, each of which is a row of B. */
FEW_INLINE void add_terms(const product *p, int M, int terms, int64_t k) {
    const float *A = (const float *)p->A + k, *B = (const float *)p->B + k * p->ldb;
    int64_t n = 0;
    for (; n + LANES <= p->N; n += LANES)
        for (int m = 0; m < M; m++) {
            float *c = (float *)p->C + m * p->ldc + n;
            vfloat sum = load(c);
            for (int i = 0; i < terms; i++)
                sum += load(B + i * p->ldb + n) * (p->alpha * A[m * p->lda + i]);
            store(c, sum);
        }
    if (n == p->N) return;
    for (int m = 0; m < M; m++) {
        float *c = (float *)p->C + m * p->ldc + n;
        vfloat sum = load_part(c, p->N - n);
        for (int i = 0; i < terms; i++)
            sum += load_part(B + i * p->ldb + n, p->N - n) *
                   (p->alpha * A[m * p->lda + i]);
        store_part(c, sum, p->N - n);
    }
}

FEW_INLINE void multiply_streams(const product *p, int M) {
    int64_t k = 0;
    for (int m = 0; m < M; m++) {
        float *c = (float *)p->C + m * p->ldc;
        for (int64_t n = 0; n < p->N; n++) c[n] = p->beta == 0 ? 0 : p->beta * c[n];
    }
    for (; k + STREAMS <= p->K; k += STREAMS) add_terms(p, M, STREAMS, k);
    for (; k < p->K; k++) add_terms(p, M, 1, k);
}

FEW_INLINE void multiply_rows(const product *p, int M) {
    if (p->tb)
        multiply_lines(p, M);
    else
        multiply_streams(p, M);
}

static void multiply_few(const product *p) {
    switch (p->M) {
    case 1: multiply_rows(p, 1); break;
    case 2: multiply_rows(p, 2); break;
    case 3: multiply_rows(p, 3); break;
    default: multiply_rows(p, FEW); break;
    }
}

static void multiply(const product *p) {
    if (!p->ta && p->M <= FEW)
        multiply_divided(p, multiply_few);
    else
        multiply_many(p);
}

GEMM(wefti_gemm, multiply(&p))
