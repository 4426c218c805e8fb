/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/kernels.h"

/* The highest rate of the processor, in FLOP per second: multiplies and adds in registers
 * for about `seconds`, with all threads of the caller and the instructions that the
 * table's products use. No product can be faster. Instructions for bfloat16 are measured
 * if the table is a bf16 one and the processor has them. */
double wefti_peak_flops(const wefti_kernels *table, double seconds);
