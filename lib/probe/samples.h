/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "base/stats.h"

/* Figures that every rank measured n times, in chronological order. NAN: the rank
 * measured nothing. */
typedef struct wefti_samples {
    int ranks;
    int64_t n;
    double *of;    /* [ranks][n], owned */
    double *spare; /* [ranks n], owned: scratch for sorting */
} wefti_samples;

weft_status wefti_samples_init(weft_ctx *ctx, int ranks, int64_t n,
                               wefti_samples *out) WEFT_CHECKED;
void wefti_samples_fini(weft_ctx *ctx, wefti_samples *s); /* zeros are accepted */

/* The parts of a measurement, which are compared: their difference shows how well it can
 * be repeated. */
typedef enum wefti_sample_half {
    WEFTI_ALL,
    WEFTI_FIRST_HALF,
    WEFTI_SECOND_HALF
} wefti_sample_half;

/* The q-quantile of the samples of all ranks, or the median of one rank, in that part;
 * NAN if there are none. */
double wefti_samples_quantile(wefti_samples *s, wefti_sample_half part, double q);
double wefti_samples_rank_median(wefti_samples *s, int rank, wefti_sample_half part);

/* seconds = latency_s + bytes / bandwidth_Bps, by least squares of the relative error. */
typedef struct wefti_link_fit {
    double latency_s, bandwidth_Bps; /* bandwidth 0: the time per byte was too small to
                                        measure */
    double residual;                 /* root mean square of the relative error */
} wefti_link_fit;

wefti_link_fit wefti_fit_link(int n, const double *bytes, const double *seconds);

/* The variation of compute time, from [ranks][n] seconds. */
typedef struct wefti_variation {
    double median_s, spread, drift, stall_share, stall_s;
} wefti_variation;

wefti_variation wefti_variation_of(wefti_samples *s, wefti_sample_half part);
