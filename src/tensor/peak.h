/* SPDX-License-Identifier: MIT */
#pragma once

#include "tensor/kernels.h"

/* The most that a processor computes: multiplies and adds in registers for about
 * `seconds`, with all threads of the caller and the instructions that the table's products
 * use; FLOP per second. No product can be faster. Instructions of `tables` that take
 * bfloat16 are measured where the table is a bf16 one and the processor has them. */
double wefti_peak_flops(const wefti_kernels *table, double seconds);
