/* SPDX-License-Identifier: MIT */
#pragma once

/* The kernels of wefti_kernels_reference that are not in the file of its table. Their
 * meaning, their shapes, and whether results are stored or added: kernels/kernels.h. */

#include "base/half.h"
#include "kernels/kernels.h"

/* The nearest bfloat16 as an f32; a NaN is unchanged. */
static inline float wefti_reference_bf16(float x) {
    return isnan(x) ? x : wefti_f32_of_bf16(wefti_bf16(x));
}

/* reference_optimizer.c */
double wefti_reference_adam(int64_t n, const wefti_adam_step *s, const float *g, float *p,
                            float *m, float *v);
double wefti_reference_accum_adam(int64_t n, const wefti_accum_step *s, const float *g,
                                  float *p, float *m, float *v, float *a);
double wefti_reference_sgd(int64_t n, float lr, float grad_scale, float decay,
                           const float *d, float *p);
