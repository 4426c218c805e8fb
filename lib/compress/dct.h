/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

#include "kernels/kernels.h"

/* Orthonormal DCT-II of length c as a matrix: X = basis x, x = basis^T X, with
 * basis[f][i] = s(f) cos(pi (2 i + 1) f / (2 c)), s(0) = sqrt(1/c), else sqrt(2/c). */
void wefti_dct_basis(int64_t c, float *basis);

/* n vectors of length c, one after another: out = DCT of each (inverse: from coefficients
 * back). out must not overlap x. */
void wefti_dct_vectors(const wefti_kernels *kernels, int64_t c, const float *basis,
                       int64_t n, bool inverse, const float *x, float *out);

/* n blocks of c x c: out = basis x basis^T of each (inverse: basis^T x basis). `scratch`:
 * n * c * c floats; x is left as it is. */
void wefti_dct_blocks(const wefti_kernels *kernels, int64_t c, const float *basis,
                      int64_t n, bool inverse, const float *x, float *out,
                      float *scratch);
