/* SPDX-License-Identifier: MIT */
/* The reference table: each kernel follows its definition literally, with sums in double.
 * It is slow and single-threaded on purpose; the fast tables are tested against it. */
#include "reference/reference.h"

#include <stddef.h>
#include <stdlib.h>

static double dot_strided(int64_t n, const float *a, int64_t step_a, const float *b,
                          int64_t step_b) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i * step_a] * (double)b[i * step_b];
    return sum;
}

static void gemm(bool ta, bool tb, int64_t M, int64_t N, int64_t K, float alpha,
                 const float *A, int64_t lda, const float *B, int64_t ldb, float beta,
                 float *C, int64_t ldc) {
    int64_t row_a = ta ? 1 : lda, step_a = ta ? lda : 1;
    int64_t column_b = tb ? ldb : 1, step_b = tb ? 1 : ldb;
    for (int64_t m = 0; m < M; m++) {
        for (int64_t n = 0; n < N; n++) {
            double sum = dot_strided(K, A + m * row_a, step_a, B + n * column_b, step_b);
            double old = beta == 0 ? 0 : (double)beta * (double)C[m * ldc + n];
            C[m * ldc + n] = (float)((double)alpha * sum + old);
        }
    }
}

/* The rows of x, each number rounded to bfloat16, without gaps. */
static float *new_rounded(int64_t rows, int64_t columns, const float *x, int64_t ld) {
    float *y = malloc((size_t)(rows * columns + 1) * sizeof *y);
    if (y == NULL) abort();
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            y[r * columns + c] = wefti_reference_bf16(x[r * ld + c]);
    return y;
}

static void gemm_bf16(bool ta, bool tb, int64_t M, int64_t N, int64_t K, float alpha,
                      const float *A, int64_t lda, const float *B, int64_t ldb,
                      float beta, float *C, int64_t ldc) {
    int64_t columns_a = ta ? M : K, columns_b = tb ? K : N;
    float *a = new_rounded(ta ? K : M, columns_a, A, lda);
    float *b = new_rounded(tb ? N : K, columns_b, B, ldb);
    gemm(ta, tb, M, N, K, alpha, a, columns_a, b, columns_b, beta, C, ldc);
    free(a), free(b);
}

static bool multiplies_bf16(void) { return false; }

static void bias_add(int64_t N, int64_t C, const float *b, float *y) {
    for (int64_t n = 0; n < N; n++)
        for (int64_t c = 0; c < C; c++) y[n * C + c] += b[c];
}

static void bias_grad(int64_t N, int64_t C, const float *dy, float *db) {
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t n = 0; n < N; n++) sum += (double)dy[n * C + c];
        db[c] = (float)((double)db[c] + sum);
    }
}

static void bias_grad_half(int64_t N, int64_t C, const uint16_t *dy, float *db) {
    for (int64_t c = 0; c < C; c++) {
        double sum = 0;
        for (int64_t n = 0; n < N; n++) sum += (double)wefti_f32_of_bf16(dy[n * C + c]);
        db[c] = (float)((double)db[c] + sum);
    }
}

static void accumulate(int64_t n, const float *a, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] += a[i];
}

static void add(int64_t n, const float *a, const float *b, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = a[i] + b[i];
}

static void scale(int64_t n, float s, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] *= s;
}

static void clear(int64_t n, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = 0;
}

static double sum_squares(int64_t n, const float *x) {
    return dot_strided(n, x, 1, x, 1);
}

static const wefti_kernels wefti_kernels_reference_bf16;

#ifdef WEFT_ENGINE
extern const struct wefti_layers wefti_layers_reference, wefti_layers_reference_bf16;
#define LAYERS(table) &table
#else
#define LAYERS(table) NULL
#endif

#define ENTRY(kernel) .kernel = kernel,
extern const struct wefti_spectrum_ops wefti_spectrum_ops_reference;
#define ENTRIES(gemm_, layers_)                                                          \
    WEFTI_KERNELS_ELEMENTWISE(ENTRY).name = "reference",                                 \
    .bf16 = &wefti_kernels_reference_bf16, .layers = LAYERS(layers_),                    \
    .spectrum = &wefti_spectrum_ops_reference, .multiplies_bf16 = multiplies_bf16,       \
    .gemm = gemm_, .adam = wefti_reference_adam,                                         \
    .accum_adam = wefti_reference_accum_adam, .sgd = wefti_reference_sgd

const wefti_kernels wefti_kernels_reference = {ENTRIES(gemm, wefti_layers_reference)};
static const wefti_kernels wefti_kernels_reference_bf16 = {
    ENTRIES(gemm_bf16, wefti_layers_reference_bf16)};
