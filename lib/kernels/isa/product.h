/* SPDX-License-Identifier: MIT */
#pragma once

/* A matrix product as one value, and how it is divided among the threads of the rank:
 * C is cut into a grid of as many parts as there are threads. The grid is a pure function
 * of the shape and the thread count.
 *
 *     C[M,N] = alpha op(A)[M,K] op(B)[K,N] + beta C + bias      (and what results.h says)
 *
 * A matrix is f32, or bfloat16 if `half`.
 */

#include "kernels/isa.h"
#include "kernels/isa/team.h"
#include "kernels/kernels.h"

#include <stdbool.h>

typedef struct product {
    bool ta, tb;
    int64_t M, N, K;
    float alpha, beta;
    const void *A, *B;
    void *C;
    int64_t lda, ldb, ldc;
    bool half_a, half_b, half_c;
    bool past;         /* C is not read soon, so its stores may pass the cache */
    const float *bias; /* of the last terms; or NULL */
    const float *plus; /* these and the following: wefti_mixed */
    const uint16_t *times;
    uint16_t *slopes;
    wefti_curve curve;
} product;

/* Number i of a matrix. */
static inline const void *number_at(const void *x, bool half, int64_t i) {
    return (const char *)x + i * (half ? 2 : 4);
}

static inline void *result_at(const product *p, int64_t row, int64_t column) {
    return (char *)p->C + (row * p->ldc + column) * (p->half_c ? 2 : 4);
}

/* Rows m and columns n of the product. */
static inline product part_of(const product *p, span m, span n) {
    product part = *p;
    part.M = m.end - m.begin;
    part.N = n.end - n.begin;
    part.A = number_at(p->A, p->half_a, p->ta ? m.begin : m.begin * p->lda);
    part.B = number_at(p->B, p->half_b, p->tb ? n.begin * p->ldb : n.begin);
    part.C = result_at(p, m.begin, n.begin);
    if (p->bias) part.bias += n.begin;
    int64_t at = m.begin * p->ldc + n.begin;
    if (p->plus) part.plus += at;
    if (p->times) part.times += at;
    if (p->slopes) part.slopes += at;
    return part;
}

/* Terms k of each sum; all parts but the first add to C, and the last one adds the bias. */
static inline product terms_of(const product *p, span k) {
    product part = *p;
    part.K = k.end - k.begin;
    part.A = number_at(p->A, p->half_a, p->ta ? k.begin * p->lda : k.begin);
    part.B = number_at(p->B, p->half_b, p->tb ? k.begin : k.begin * p->ldb);
    if (k.begin > 0) part.beta = 1;
    if (k.end < p->K) part.bias = NULL;
    return part;
}

/* Number of rows of the cheapest grid of t parts. The cost is the multiplications of a part,
 * plus packing its rows and columns, which costs about 32 multiplications per element. */
static inline int grid_rows(int64_t M, int64_t N, int t) {
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

/* The product in f32 of factors in f32, without CBLAS: as fast as this set can (gemm_bf16.c); with
 * the same bits in all sets (gemm_exact.c). */
void WEFT_ISA_NAME(wefti_multiply_strips)(const product *p);
void WEFT_ISA_NAME(wefti_multiply_exact)(const product *p);
void wefti_multiply_exact_base(const product *p),
    wefti_multiply_exact_avx2(const product *p),
    wefti_multiply_exact_avx512(const product *p);

/* The kernel of that name: `call`, which multiplies the product p. */
#define GEMM(name, call)                                                                 \
    void WEFT_ISA_NAME(name)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,          \
                             float alpha, const float *A, int64_t lda, const float *B,   \
                             int64_t ldb, float beta, float *C, int64_t ldc) {           \
        product p = {                                                                    \
            .ta = ta, .tb = tb, .M = M, .N = N, .K = K, .alpha = alpha, .beta = beta};   \
        p.A = A, p.B = B, p.C = C;                                                       \
        p.lda = lda, p.ldb = ldb, p.ldc = ldc;                                           \
        call;                                                                            \
    }

static inline product product_of(const wefti_mixed *m) {
    return (product){.ta = m->ta,
                     .tb = m->tb,
                     .M = m->M,
                     .N = m->N,
                     .K = m->K,
                     .alpha = 1,
                     .beta = m->beta,
                     .A = m->A,
                     .B = m->B,
                     .C = m->C,
                     .lda = m->lda,
                     .ldb = m->ldb,
                     .ldc = m->ldc,
                     .half_a = m->half_a,
                     .half_b = m->half_b,
                     .half_c = m->half_c,
                     .bias = m->bias,
                     .plus = m->plus,
                     .times = m->times,
                     .slopes = m->slopes,
                     .curve = m->curve};
}

/* One thread for products so small that waking others costs more. */
static inline int threads_for(const product *p) {
    return (double)p->M * (double)p->N * (double)p->K < 1e6 ? 1 : team_max();
}

/* Calls `multiply` for each part, each on a thread of its own. */
static inline void multiply_divided(const product *p, void (*multiply)(const product *)) {
    int t = threads_for(p);
    int rows = grid_rows(p->M, p->N, t), columns = t / rows;
    if (t == 1) {
        multiply(p);
        return;
    }
#pragma omp parallel for num_threads(t) schedule(static)
    for (int i = 0; i < t; i++) {
        product part = part_of(p, team_slice(p->M, 16, i / columns, rows),
                               team_slice(p->N, 16, i % columns, columns));
        if (part.M > 0 && part.N > 0) multiply(&part);
    }
}
