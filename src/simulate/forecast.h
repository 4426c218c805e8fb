/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_FORECAST_H
#define WEFTI_FORECAST_H

#include <weft/predict.h>

#include "job/job.h"

/* What predict.c and simulate.c share. */

/* The job of a run that reads no file; `copy` is what it borrows. copy may be config. */
weft_status wefti_forecast_plan(weft_ctx *ctx, const weft_config *config,
                                const weft_cluster *cluster, weft_config *copy,
                                wefti_job **out) WEFT_CHECKED;

/* Steps after which what is sent repeats, at most 4096. */
int64_t wefti_forecast_cycle(const wefti_job *job);

/* Sorts the n values. */
weft_quantiles wefti_forecast_quantiles(double *values, int64_t n);

#endif
