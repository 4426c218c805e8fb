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
    /* Of members that code each their own way, [size of the group], borrowed; NULL: all as
     * `values`, by which the route is chosen anyway. sent: whose lengths are asked for. */
    const wefti_value_codec *values_of;
    wefti_value_codec sent;
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

/* The codec of the messages that a configuration is asked about. */
static inline wefti_value_codec wefti_values_sent(const wefti_replicator_config *config) {
    return config->values_of ? config->sent : config->values;
}

/* The configuration as it is for what a member sends. */
static inline wefti_replicator_config
wefti_replicator_sending(const wefti_replicator_config *config, int member) {
    wefti_replicator_config out = *config;
    if (out.values_of) out.sent = out.values_of[member];
    return out;
}

/* Tables of lengths have a row for each codec if members differ, else one. */
static inline int wefti_values_rows(const wefti_replicator_config *config) {
    return config->values_of ? WEFTI_VALUE_CODECS : 1;
}

static inline int wefti_values_row(const wefti_replicator_config *config, int member) {
    return config->values_of ? (int)config->values_of[member] : 0;
}
