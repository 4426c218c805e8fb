/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "kernels/kernels.h"

/* Orthonormal DCT-II of length c as a matrix: X = basis x, x = basis^T X, with
 * basis[f][i] = s(f) cos(pi (2 i + 1) f / (2 c)), s(0) = sqrt(1/c), else sqrt(2/c). */
void wefti_dct_basis(int64_t c, float *basis);
