/* SPDX-License-Identifier: MIT */
#pragma once

#include "mesh/elastic.h"
#include "rank/rank.h"

/* What the configuration says about membership. own_loop: the loop over the steps is the
 * caller's. */
wefti_elastic_policy wefti_regroup_policy(const weft_config *config, bool own_loop);

/* What a rank keeps from one world to the next: parameters and all state, each as long as
 * the parameters, in backward order of the units whatever the buckets are. */
enum {
    WEFTI_LUGGAGE_STATES = WEFTI_OPTIMIZER_STATES + 2 * WEFTI_REPLICATOR_STATES +
                           WEFTI_MIXER_STATES
};
typedef struct wefti_luggage {
    float *params, *state[WEFTI_LUGGAGE_STATES]; /* owned */
    int n;                                       /* the larger number of states of the two
                                                    ranks */
} wefti_luggage;

/* Swaps the arrays of a rank with those of the luggage. */
void wefti_luggage_exchange(wefti_luggage *l, wefti_rank *r);

/* Frees what is in it. */
void wefti_luggage_leave(weft_ctx *ctx, wefti_luggage *l);
