/* SPDX-License-Identifier: MIT */
/* Matrix products through CBLAS, with our own division of labour: C is cut into a grid of as
 * many tiles as there are threads, each tile one serial call. The grid is a pure function of
 * the shape and the thread count. CBLAS counts in int: what is larger is cut until it fits. */
#include "tensor/isa/parts.h"
#include "tensor/isa/team.h"

#include <cblas.h>
#include <limits.h>

typedef struct product {
    bool ta, tb;
    int64_t M, N, K;
    float alpha, beta;
    const float *A, *B;
    float *C;
    int64_t lda, ldb, ldc;
} product;

/* Rows m.begin..end and columns n.begin..end of the product. */
static product tile(const product *p, span m, span n) {
    product t = *p;
    t.M = m.end - m.begin;
    t.N = n.end - n.begin;
    t.A += p->ta ? m.begin : m.begin * p->lda;
    t.B += p->tb ? n.begin * p->ldb : n.begin;
    t.C += m.begin * p->ldc + n.begin;
    return t;
}

/* The terms k.begin..end of each sum; all but the first part add to C. */
static product terms(const product *p, span k) {
    product t = *p;
    t.K = k.end - k.begin;
    t.A += p->ta ? k.begin * p->lda : k.begin;
    t.B += p->tb ? k.begin : k.begin * p->ldb;
    if (k.begin > 0) t.beta = 1;
    return t;
}

/* A stride that CBLAS can be told; that of a single row is never used. */
static int stride(int64_t ld, int64_t least) {
    return (int)(ld < INT_MAX ? ld : least);
}

static void call(const product *p) {
    int64_t columns_a = p->ta ? p->M : p->K, columns_b = p->tb ? p->K : p->N;
    cblas_sgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans,
                p->tb ? CblasTrans : CblasNoTrans, (int)p->M, (int)p->N, (int)p->K, p->alpha,
                p->A, stride(p->lda, columns_a), p->B, stride(p->ldb, columns_b), p->beta,
                p->C, stride(p->ldc, p->N));
}

/* Too many for an int, or rows that lie too far apart for one. */
static bool too_large(int64_t n, int64_t ld, bool are_rows) {
    return n > INT_MAX || (are_rows && n > 1 && ld > INT_MAX);
}

static void call_in_parts(const product *p) {
    span all_m = {0, p->M}, all_n = {0, p->N};
    product parts[2];
    if (too_large(p->M, p->lda, !p->ta) || too_large(p->M, p->ldc, true)) {
        parts[0] = tile(p, (span){0, p->M / 2}, all_n);
        parts[1] = tile(p, (span){p->M / 2, p->M}, all_n);
    } else if (too_large(p->N, p->ldb, p->tb)) {
        parts[0] = tile(p, all_m, (span){0, p->N / 2});
        parts[1] = tile(p, all_m, (span){p->N / 2, p->N});
    } else if (too_large(p->K, p->lda, p->ta) || too_large(p->K, p->ldb, !p->tb)) {
        parts[0] = terms(p, (span){0, p->K / 2});
        parts[1] = terms(p, (span){p->K / 2, p->K});
    } else {
        call(p);
        return;
    }
    call_in_parts(&parts[0]);
    call_in_parts(&parts[1]);
}

/* Rows of the grid of t tiles that costs least: the multiplications of a tile, and packing
 * its rows and columns, which costs as much as some 32 multiplications per element. */
static int grid_rows(int64_t M, int64_t N, int t) {
    int best = 1;
    double least = 0;
    for (int rows = 1; rows <= t; rows++) {
        if (t % rows > 0) continue;
        double m = (double)M / rows, n = (double)N / (t / rows);
        double cost = m * n + 32 * (m + n);
        if (rows == 1 || cost < least) {
            least = cost;
            best = rows;
        }
    }
    return best;
}

void WEFT_ISA_NAME(wefti_gemm_serial)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                                      float alpha, const float *A, int64_t lda,
                                      const float *B, int64_t ldb, float beta, float *C,
                                      int64_t ldc) {
    product p = {ta, tb, M, N, K, alpha, beta, A, B, C, lda, ldb, ldc};
    call_in_parts(&p);
}

void WEFT_ISA_NAME(wefti_gemm)(bool ta, bool tb, int64_t M, int64_t N, int64_t K, float alpha,
                               const float *A, int64_t lda, const float *B, int64_t ldb,
                               float beta, float *C, int64_t ldc) {
    const int64_t row_unit = 16, column_unit = 16; /* a tile starts on a cache line */
    product p = {ta, tb, M, N, K, alpha, beta, A, B, C, lda, ldb, ldc};
    int t = (double)M * (double)N * (double)K < 1e6 ? 1 : team_max();
    int rows = grid_rows(M, N, t), columns = t / rows;
    if (t == 1) {
        call_in_parts(&p);
        return;
    }
#pragma omp parallel for num_threads(t) schedule(static)
    for (int i = 0; i < t; i++) {
        product part = tile(&p, team_slice(M, row_unit, i / columns, rows),
                            team_slice(N, column_unit, i % columns, columns));
        if (part.M > 0 && part.N > 0) call_in_parts(&part);
    }
}
