/* SPDX-License-Identifier: MIT */
#pragma once

#include "replicate/replicator.h"

/* Times a replicator's phases on one of R nodes that take turns on one thread, so that no
 * node ever waits: the figures that weft bench replicators prints and weft probe writes
 * down. */
typedef struct wefti_gauge wefti_gauge;

typedef struct wefti_gauge_config {
    const wefti_kernels *kernels;
    int R, threads;   /* nodes; threads of a node, as in OpenMP: of the calling thread */
    int64_t n;        /* parameters */
    int64_t n_rounds; /* that count, at least 1 */
    int64_t n_warmup; /* before them */
} wefti_gauge_config;

/* Medians over the rounds, in seconds per parameter. */
typedef struct wefti_gauge_seconds {
    double begin_s, combine_s, end_s;
} wefti_gauge_seconds;

/* Takes about 12 n bytes for each node. [out] *out owned by the caller
 * (wefti_gauge_destroy); NULL on failure. */
weft_status wefti_gauge_create(weft_ctx *ctx, const wefti_gauge_config *config,
                               wefti_gauge **out) WEFT_CHECKED;
void wefti_gauge_destroy(wefti_gauge *g);

/* Measures one replicator; config->threads is the gauge's. */
weft_status wefti_gauge_measure(wefti_gauge *g, const wefti_replicator_config *config,
                                wefti_gauge_seconds *out) WEFT_CHECKED;
