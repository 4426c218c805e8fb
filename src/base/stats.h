/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Of samples without NAN. Each sorts them in place, ascending; NAN if there are none. */

/* The sample at share q of the way from the least (0) to the greatest (1), between two of
 * them in proportion. */
double wefti_quantile(double *values, int64_t n, double q);

/* The middle one, or the mean of the middle two. */
double wefti_median(double *values, int64_t n);
