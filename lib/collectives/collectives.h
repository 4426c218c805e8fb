/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/comm.h"
#include "kernels/kernels.h"

/* Blocking collectives on floats that are split over the ranks of a group, direct: every
 * rank sends to every other rank. An all-reduce is both of them, one after the other;
 * all_reduce.h is an all-reduce whose rounds can overlap with other work, and whose numbers
 * can be coded. `tag` is used once. */

/* Rank r's block has floats(self, r) elements; blocks are stored one after another in rank
 * order. */
typedef struct wefti_split {
    int64_t (*floats)(const void *self, int rank);
    const void *self;
    /* all_gather: called when a rank's block has arrived; NULL: the block is copied to its
     * place in `all`. */
    void (*take)(const void *self, int rank, const float *block, float *all);
} wefti_split;

/* The index of the first element of a rank's block. */
int64_t wefti_split_at(const wefti_split *split, int rank);

/* mine <- mine + the sum over ranks, in rank order, of this rank's block in their x. Sends
 * (R-1)/R of x. */
weft_status wefti_reduce_scatter(wefti_comm *comm, int64_t tag,
                                 const wefti_kernels *kernels, const wefti_split *split,
                                 const float *x, float *mine) WEFT_CHECKED;

/* all <- the blocks of all ranks, including this rank's block `mine` (unless it is in its
 * place already). Sends R-1 blocks. */
weft_status wefti_all_gather(wefti_comm *comm, int64_t tag, const wefti_split *split,
                             const float *mine, float *all) WEFT_CHECKED;
