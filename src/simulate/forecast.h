/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/predict.h>

#include "job/job.h"
#include "simulate/player.h"

/* What predict.c and simulate.c share. */

/* A job of a run that reads no file, and the configuration that it borrows. */
typedef struct wefti_planned_job {
    weft_config *config; /* owned: a copy, with the cluster's threads */
    wefti_job *job;      /* owned */
} wefti_planned_job;

/* nodes: instead of mesh.nodes (wefti_forecast_spread); 0: as many as config says. Whatever
 * comes back, wefti_forecast_drop ends it. */
weft_status wefti_forecast_plan(weft_ctx *ctx, const weft_config *config,
                                const weft_cluster *cluster, int64_t nodes,
                                wefti_planned_job *out) WEFT_CHECKED;
void wefti_forecast_drop(weft_ctx *ctx, wefti_planned_job *planned);

/* Steps after which what is sent repeats, at most 4096. */
int64_t wefti_forecast_cycle(const wefti_job *job);

/* The configuration on this number of nodes, which may be more than a run can have: each node
 * keeps its tokens. */
weft_status wefti_forecast_spread(weft_ctx *ctx, weft_config *config,
                                  int64_t nodes) WEFT_CHECKED;

/* Bytes out of a node in a step of a later cycle: what the first one still has to answer
 * is not there in the first. */
double wefti_forecast_bytes(const wefti_timed *timed);

/* Plays as many steps in arrays as play counts; a warm-up means that the first one is not the
 * run's. */
weft_status wefti_forecast_arrays(const wefti_timed *timed, const wefti_play *play,
                                  weft_prediction *out) WEFT_CHECKED;

/* The mean step of a planned job on a cluster, as weft_predict has it: in that order of phases,
 * from 1, or in the fastest (0). INFINITY: there is no such order. A job may be asked again and
 * again, which is what takes weft_predict most of its time. */
weft_status wefti_forecast_step(weft_ctx *ctx, wefti_job *job,
                                const weft_cluster *cluster,
                                const weft_predict_options *options, int order,
                                double *step_s) WEFT_CHECKED;

/* Sorts the n values. */
weft_quantiles wefti_forecast_quantiles(double *values, int64_t n);
