/* SPDX-License-Identifier: MIT */
#pragma once

#include "mix/gossip_rounds.h"

/* Weights of push-sum, which every rank computes for all members: pushsum.c. */
typedef struct wefti_pushsum {
    int64_t step; /* of the gossip round that `row` belongs to; -1: none yet */
    double *row;  /* [members] weights of this rank's sources, adding up to one */
    double *kept; /* [members] shares that are not given to learners */
    double *next; /* [members] */
    weft_neighbours *room;
} wefti_pushsum;

weft_status wefti_pushsum_init(wefti_mixer *m, wefti_pushsum *self) WEFT_CHECKED;
void wefti_pushsum_fini(wefti_mixer *m, wefti_pushsum *self);

/* The row of this rank in the gossip round of `step`, parallel to its sources, with
 * config.gamma in it. The first call for a step advances m->weights; steps must be asked
 * for one after the other. */
const double *wefti_pushsum_row(wefti_mixer *m, wefti_pushsum *self, int64_t step);
