/* SPDX-License-Identifier: MIT */
#pragma once

#include "rank/rank.h"

/* One thread for each rank of this process. */

typedef struct wefti_slot {
    int rank;
    bool first_here;   /* of this process */
    weft_ctx *ctx;     /* the rank's own; log lines of rank 0 go to the caller's */
    wefti_rank *state; /* from wefti_rank_create, or NULL; freed after all threads have
                          ended, because a peer may still be reading it */
    void *user;
} wefti_slot;

/* Runs body on each rank's thread, with `threads` threads for its kernels. A rank that
 * fails poisons the world, so that all others leave. Returns the first failure of all
 * ranks, including those of other processes. */
weft_status wefti_rank_threads_run(weft_ctx *ctx, wefti_world *world, int threads,
                                   weft_status (*body)(wefti_slot *slot),
                                   void *user) WEFT_CHECKED;
