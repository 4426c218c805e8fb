/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/kernels.h"

/* Approximates the nearest matrix with orthonormal rows (or columns, if it is tall): the
 * direction of Muon's step. */

typedef enum wefti_polynomial {
    WEFTI_POLYNOMIAL_QUINTIC, /* one quintic five times (Jordan et al. 2024) */
    WEFTI_POLYNOMIAL_POLAR /* five quintics, each optimal for its iteration (arXiv 2505.16932) */
} wefti_polynomial;

/* x [rows, cols] <- U V^T of its singular value decomposition U S V^T, with singular values
 * near 1; a matrix of zeros is unchanged. scratch: wefti_orthogonal_scratch floats. */
void wefti_orthogonalize(const wefti_kernels *kernels, wefti_polynomial polynomial,
                         int64_t rows, int64_t cols, float *x, float *scratch);

int64_t wefti_orthogonal_scratch(int64_t rows, int64_t cols);

/* FLOP of one call. */
double wefti_orthogonal_flop(int64_t rows, int64_t cols);
