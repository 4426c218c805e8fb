/* SPDX-License-Identifier: MIT */
/* Matrix products through CBLAS, or by plain loops without it, divided among the threads
 * by weft itself (product.h): each part of the grid is one serial call. CBLAS counts in
 * int: larger products are halved until they fit; if the distance of rows exceeds an int,
 * a product is divided until it has one row. */
#include "kernels/isa/parts.h"
#include "kernels/isa/product.h"

#ifdef WEFT_BLAS
#include <cblas.h>
#endif
#include <limits.h>

#ifdef WEFT_BLAS
/* A stride that fits into CBLAS's int; that of a single row is never used. */
static int stride(int64_t ld, int64_t least) { return (int)(ld < INT_MAX ? ld : least); }

static void call(const product *p) {
    int64_t columns_a = p->ta ? p->M : p->K, columns_b = p->tb ? p->K : p->N;
    cblas_sgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans,
                p->tb ? CblasTrans : CblasNoTrans, (int)p->M, (int)p->N, (int)p->K,
                p->alpha, p->A, stride(p->lda, columns_a), p->B,
                stride(p->ldb, columns_b), p->beta, p->C, stride(p->ldc, p->N));
}
#else
/* Without CBLAS: plain loops, for programs that compute elsewhere and use weft only for
 * the exchange (weft/sync.h). */
static void call(const product *p) {
    const float *A = p->A, *B = p->B;
    for (int64_t m = 0; m < p->M; m++) {
        float *c = (float *)p->C + m * p->ldc;
        for (int64_t n = 0; n < p->N; n++) c[n] = p->beta == 0 ? 0 : p->beta * c[n];
        for (int64_t k = 0; k < p->K; k++) {
            float a = p->alpha * (p->ta ? A[k * p->lda + m] : A[m * p->lda + k]);
            const float *b = B + (p->tb ? k : k * p->ldb);
            int64_t step = p->tb ? p->ldb : 1;
            for (int64_t n = 0; n < p->N; n++) c[n] += a * b[n * step];
        }
    }
}
#endif

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

void WEFT_ISA_NAME(wefti_gemm)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                               float alpha, const float *A, int64_t lda, const float *B,
                               int64_t ldb, float beta, float *C, int64_t ldc) {
    product p = product_of_floats(ta, tb, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
    multiply_divided(&p, call_in_parts);
}
