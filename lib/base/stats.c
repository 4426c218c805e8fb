/* SPDX-License-Identifier: MIT */
/* Order statistics of samples x_0 <= ... <= x_(n-1):
 *
 *     quantile(q) = x_i + (p - i) (x_(i+1) - x_i)      p = q (n - 1), i = floor(p)
 *
 * A drift is two cumulative sums (Page 1954), u the usual value:
 *
 *     above <- max(0, above + l - slack)    below <- max(0, below - l - slack)
 *     l = log(x / u), at most `most` in magnitude, so that a few stalls say nothing */
#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort(double *values, int64_t n) {
    if (n > 0) qsort(values, (size_t)n, sizeof *values, ascending);
}

double wefti_quantile(double *values, int64_t n, double q) {
    sort(values, n);
    if (n == 0) return (double)NAN;
    double place = q * (double)(n - 1);
    int64_t i = (int64_t)place;
    double above = values[i + 1 < n ? i + 1 : i];
    return values[i] + (place - (double)i) * (above - values[i]);
}

double wefti_median(double *values, int64_t n) {
    sort(values, n);
    return n == 0 ? (double)NAN : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static const double slack = 0.4, most = 2;

void wefti_drift_begin(wefti_drift *d, int calm, double bound) {
    *d = (wefti_drift){.calm = calm < WEFTI_CALM ? calm : WEFTI_CALM, .bound = bound};
}

int wefti_drift_add(wefti_drift *d, double sample) {
    if (d->n < d->calm) {
        d->first[d->n++] = sample;
        if (d->n == d->calm) d->usual = wefti_median(d->first, d->n);
        return 0;
    }
    double l = fmax(-most, fmin(most, log(sample / d->usual)));
    d->above = fmax(0, d->above + l - slack);
    d->below = fmax(0, d->below - l - slack);
    return d->above > d->bound ? 1 : d->below > d->bound ? -1 : 0;
}
