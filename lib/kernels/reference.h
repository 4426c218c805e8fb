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
WEFTI_KERNEL(adam) wefti_reference_adam;
WEFTI_KERNEL(accum_adam) wefti_reference_accum_adam;
WEFTI_KERNEL(sgd) wefti_reference_sgd;
