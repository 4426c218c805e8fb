/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/kernels.h"

/* FLOP per second of a large f32 matrix product with `threads` threads: the best of a few
 * tries, a tenth of a second in all. */
weft_status wefti_measure_gemm(weft_ctx *ctx, const wefti_kernels *kernels, int threads,
                               double *flops) WEFT_CHECKED;

/* The highest rate of the processor, in FLOP per second: multiplies and adds in registers
 * for about `seconds`, with all threads of the caller and the instructions that the
 * table's products use. No product can be faster. Instructions for bfloat16 are measured
 * if the table is a bf16 one and the processor has them. */
double wefti_peak_flops(const wefti_kernels *table, double seconds);
