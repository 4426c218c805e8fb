/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/kernels.h"
#include "optim/optimizer.h"

/* Approximates the nearest matrix with orthonormal rows (or columns, if it is tall): the
 * direction of Muon's step. */

/* x [rows, cols] <- U V^T of its singular value decomposition U S V^T, with singular values
 * near 1; a matrix of zeros is unchanged. scratch: wefti_orthogonal_scratch floats. */
void wefti_orthogonalize(const wefti_kernels *kernels, wefti_polynomial polynomial,
                         int64_t rows, int64_t cols, float *x, float *scratch);

int64_t wefti_orthogonal_scratch(int64_t rows, int64_t cols);

/* FLOP of one call. */
double wefti_orthogonal_flop(int64_t rows, int64_t cols);
