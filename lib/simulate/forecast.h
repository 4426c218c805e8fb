/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/predict.h>

#include "job/job.h"

typedef struct wefti_timed wefti_timed; /* simulate/timed.h */
typedef struct wefti_play wefti_play;   /* simulate/player.h */

/* Shared by predict.c and simulate.c. */

/* A job of a run that reads no file, and the configuration that it borrows. */
typedef struct wefti_planned_job {
    weft_config *config; /* owned: a copy, with the cluster's threads */
    wefti_job *job;      /* owned */
} wefti_planned_job;

/* nodes: instead of mesh.nodes (wefti_forecast_spread); 0: as in config.
 * wefti_forecast_drop must be called in any case, also after a failure. */
weft_status wefti_forecast_plan(weft_ctx *ctx, const weft_config *config,
                                const weft_cluster *cluster, int64_t nodes,
                                wefti_planned_job *out) WEFT_CHECKED;
void wefti_forecast_drop(weft_ctx *ctx, wefti_planned_job *planned);

/* The number of steps after which the messages repeat, at most 4096. */
int64_t wefti_forecast_cycle(const wefti_job *job);

/* The configuration on this number of nodes, which may be more than a run can have: each node
 * keeps its tokens. */
weft_status wefti_forecast_spread(weft_ctx *ctx, weft_config *config,
                                  int64_t nodes) WEFT_CHECKED;

/* Bytes out of a node in a step of a later cycle; in the first cycle some answers to
 * earlier messages are missing. */
double wefti_forecast_bytes(const wefti_timed *timed);

/* Plays as many steps in arrays as play counts. With a warm-up the first step is not the
 * first of the run. */
weft_status wefti_forecast_arrays(const wefti_timed *timed, const wefti_play *play,
                                  weft_prediction *out) WEFT_CHECKED;

/* The mean step of a planned job on a cluster, as in weft_predict: in the given order of
 * phases, from 1, or in the fastest (0). INFINITY: there is no such order. A job can be
 * used for many calls; making it takes most of the time of weft_predict. */
weft_status wefti_forecast_step(weft_ctx *ctx, wefti_job *job,
                                const weft_cluster *cluster,
                                const weft_predict_options *options, int order,
                                double *step_s) WEFT_CHECKED;

/* Sorts the n values. */
weft_quantiles wefti_forecast_quantiles(double *values, int64_t n);
