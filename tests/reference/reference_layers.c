/* SPDX-License-Identifier: MIT */
/* The reference tables of layers: each kernel follows its definition literally, with sums in
 * double. Slow and single-threaded on purpose; the fast tables are tested against them. */
#include "reference/reference_layers.h"

static double factor(const void *x, bool half, int64_t i) {
    if (half) return (double)wefti_f32_of_bf16(((const uint16_t *)x)[i]);
    return (double)wefti_reference_bf16(((const float *)x)[i]);
}

static void store_half(const wefti_mixed *p, int64_t at, double result) {
    float r = (float)result, y = r, slope;
    if (p->times) y = (float)(result * (double)wefti_f32_of_bf16(p->times[at]));
    if (p->slopes) {
        y = wefti_reference_curve(p->curve, r, &slope);
        p->slopes[at] = wefti_bf16(slope);
    }
    ((uint16_t *)p->C)[at] = wefti_bf16(y);
}

static void gemm_mixed(const wefti_mixed *p) {
    for (int64_t m = 0; m < p->M; m++) {
        for (int64_t n = 0; n < p->N; n++) {
            double sum = p->bias ? (double)p->bias[n] : 0;
            int64_t at = m * p->ldc + n;
            for (int64_t k = 0; k < p->K; k++)
                sum += factor(p->A, p->half_a, p->ta ? k * p->lda + m : m * p->lda + k) *
                       factor(p->B, p->half_b, p->tb ? n * p->ldb + k : k * p->ldb + n);
            if (p->half_c) {
                store_half(p, at, sum);
                continue;
            }
            if (p->plus) sum += (double)p->plus[at];
            if (p->beta != 0) sum += (double)p->beta * (double)((float *)p->C)[at];
            ((float *)p->C)[at] = (float)sum;
        }
    }
}

#define ENTRY(kernel) .kernel = wefti_reference_##kernel,
#define ENTRY_AS(kernel, suffix) .kernel = wefti_reference_##kernel##suffix,
#define ENTRIES(suffix)                                                                  \
    WEFTI_LAYERS_ALIKE(ENTRY)                                                            \
    WEFTI_LAYERS_PRODUCTS(ENTRY_AS, suffix) WEFTI_LAYERS_ROOMS(ENTRY_AS, )

const wefti_layers wefti_layers_reference = {ENTRIES()};
const wefti_layers wefti_layers_reference_bf16 = {ENTRIES(_bf16).gemm_mixed = gemm_mixed};
