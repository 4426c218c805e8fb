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

/* Whether a quantity above 0 stays what it was, from samples that come one after another. The
 * first ones, at most WEFTI_CALM, say what is usual; then sums of how far the logarithm is above,
 * and below that, run until one passes the bound. */
enum { WEFTI_CALM = 16 };

typedef struct wefti_drift {
    double first[WEFTI_CALM];
    int n, calm;
    double bound, usual; /* usual 0: not known yet */
    double above, below;
} wefti_drift;

void wefti_drift_begin(wefti_drift *d, int calm, double bound);

/* 1: it is more now, -1: less; 0: as it was, or not known yet. */
int wefti_drift_add(wefti_drift *d, double sample);
