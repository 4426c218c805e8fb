/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/kernels.h"

/* FLOP per second of a large f32 matrix product with `threads` threads: the best of a few
 * tries, a tenth of a second in all. */
weft_status wefti_measure_gemm(weft_ctx *ctx, const wefti_kernels *kernels, int threads,
                               double *flops) WEFT_CHECKED;
