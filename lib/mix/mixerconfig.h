/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/topology.h>

#include "collectives/robust.h"
#include "wire/section.h"

/* The knobs, named as in the papers. Every mixer reads its own. */
typedef struct wefti_mixer_config {
    const char *kind;
    uint64_t seed;
    int64_t steps; /* of the whole run: nothing is sent that no later step would read */

    /* gossip: which members mix with each other, and when; members are ranks of the
     * group. `everybody` is complete: for means of all. Borrowed, NULL for other
     * mixers. */
    const weft_topology *topology, *everybody;
    int partners;                    /* choco: most members that one ever meets */
    bool combine_last;               /* gossip: order atc, else awc */
    double gamma;                    /* gossip: x <- (1 - gamma) x + gamma mixed */
    double gamma_power, gamma_start; /* gossip: how gamma falls (wefti_mixer_gamma) */
    double (*rate)(const void *user, int64_t step); /* the learning rate of a step; with
                                                       gamma_power */
    const void *rate_user;                          /* borrowed */
    int64_t average_every;  /* gossip: steps between two means of all; 0 = never */
    double consensus_bound; /* gossip: a mean of all whenever the replicas are further
                               apart (wefti_mixer_average_all); 0 = off */
    double deadline_s; /* gossip: how long a gossip round waits for messages; 0 = until
                          they have arrived */

    int64_t outer_every; /* outer: inner steps between two outer ones, H */
    double outer_lr, outer_momentum;
    int64_t fragments;   /* outer: the model is synchronized in this many parts, P */
    int64_t delay;       /* outer: inner steps until what was sent is applied, tau */
    double merge;        /* outer: share of the local parameters that is kept, a */
    double forget;       /* outer: share of what coding lost that is not sent later */
    int64_t topk, chunk; /* sparse_outer: topk numbers of each chunk are sent */
    wefti_value_codec values;
    bool stochastic;
    wefti_robust robust; /* of kinds that have it */
    bool
        held; /* the caller keeps parameters and states and codes what is sent: parcels */
} wefti_mixer_config;
