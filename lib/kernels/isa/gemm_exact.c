/* SPDX-License-Identifier: MIT */
/* Matrix products with the same bits on every processor: each sum takes its terms one after
 * another, in blocks that depend on K alone, and nothing is fused (CMakeLists.txt), whatever the
 * width of a vector. */
#include "kernels/isa/blocks.h"
#include "kernels/isa/parts.h"

void WEFT_ISA_NAME(wefti_multiply_exact)(const product *p) {
    multiply_all(p, multiply_unrounded);
}
