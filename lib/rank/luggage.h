/* SPDX-License-Identifier: MIT */
#pragma once

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

typedef struct wefti_luggage {
    float *array[WEFTI_RANK_ARRAYS]; /* owned; first the parameters */
    int n;                           /* the larger number of arrays of the two ranks */
} wefti_luggage;

/* Swaps the arrays of a rank with those of the luggage; if that has parameters alone, these. */
void wefti_luggage_exchange(wefti_luggage *l, wefti_rank *r);

/* Frees what is in it. */
void wefti_luggage_leave(weft_ctx *ctx, wefti_luggage *l);
