/* SPDX-License-Identifier: MIT */
#pragma once

#include "mix/mixer.h"
#include "rank/rank.h"

/* What a rank keeps from one world to the next, each array as long as the parameters, in backward
 * order of the units whatever the buckets are. */
enum {
    WEFTI_RANK_ARRAYS = 1 + WEFTI_OPTIMIZER_STATES + 2 * WEFTI_REPLICATOR_STATES +
                        WEFTI_MIXER_STATES
};

/* Where a rank has its parameters and all of its state, in one order; not copies of partners'
 * parameters, because partners change. Returns how many arrays there are. */
int wefti_rank_arrays(wefti_rank *r, float **out[WEFTI_RANK_ARRAYS]);

typedef struct wefti_carried {
    float *array[WEFTI_RANK_ARRAYS]; /* owned; first the parameters */
    int n;                           /* the larger number of arrays of the two ranks */
} wefti_carried;

/* Swaps the arrays of a rank with those that are carried; if these are the parameters alone,
 * only them. */
void wefti_carried_swap(wefti_carried *l, wefti_rank *r);

/* Frees what is in it. */
void wefti_carried_fini(weft_ctx *ctx, wefti_carried *l);
