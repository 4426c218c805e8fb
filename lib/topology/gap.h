/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* The second largest singular value of a doubly stochastic matrix M[n][n]: the largest of
 * M - 1 1^T / n. `work` has 2 n n numbers. Accurate to about 1e-12, absolutely. */
double wefti_second_singular_value(int64_t n, const double *M, double *work);
