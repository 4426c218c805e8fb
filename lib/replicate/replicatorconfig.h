/* SPDX-License-Identifier: MIT */
#pragma once

#include "collectives/robust.h"
#include "wire/section.h"

/* The route that demo's coefficients take. */
typedef enum wefti_route {
    WEFTI_ROUTE_AUTO,   /* the faster one; on an unknown wire the one that sends less */
    WEFTI_ROUTE_GATHER, /* each to all: messages sent */
    WEFTI_ROUTE_OWNER   /* range j to rank j, which answers all: constant in R */
} wefti_route;

/* The knobs, named as in the papers. Every replicator reads its own. */
typedef struct wefti_replicator_config {
    const char *kind;
    int64_t compression_topk;
    int64_t compression_chunk;
    double compression_rate; /* random, striding, slicing: share of the rows sent */
    double compression_decay;
    int compression_dims; /* 1 or 2 */
    bool sign;
    bool ema;     /* m <- beta m + (1 - beta) g instead of beta m + lr g */
    double alpha; /* share of what was sent that leaves the momentum; 1 = all */
    wefti_route route;
    double bandwidth_Bps, latency_s; /* of a rank's share of the wire, for the route; 0:
                                        unknown */
    wefti_value_codec values;
    wefti_index_codec indices;
    bool stochastic;     /* rounding of coded values */
    int64_t dense_below; /* demo: pieces of fewer elements are sent whole */
    int64_t every;       /* replicate on steps divisible by this; full: 1 */
    bool gathers;        /* none: some steps only add to the next one's gradient */
    int64_t delay;       /* 1: the direction is that of the step before (replicator.c) */
    uint64_t seed;
    int threads;         /* of the codec */
    wefti_robust robust; /* of kinds that have it */
} wefti_replicator_config;
