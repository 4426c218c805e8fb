/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Statistics of samples without NAN. Each function sorts the samples in place, ascending,
 * and returns NAN if there are none. */

/* The quantile q, from the smallest sample (0) to the largest (1), interpolated linearly
 * between two samples. */
double wefti_quantile(double *values, int64_t n, double q);

/* The middle one, or the mean of the middle two. */
double wefti_median(double *values, int64_t n);
