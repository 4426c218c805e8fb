/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/world.h"

/* The wait of a thread for other ranks of its process: {0} before it. */
typedef struct wefti_longwait {
    double since_s; /* 0: it has not begun */
    double due_s;   /* when it is logged */
} wefti_longwait;

/* Logs a wait of `rank` for rank `whom` (-1: others) when it is due: one line for the threads of a
 * process, which wait for the same one. True: it was logged, and `held` (may be NULL), which the
 * caller holds, was given back meanwhile. */
bool wefti_longwait_say(weft_ctx *ctx, wefti_world *world, pthread_mutex_t *held,
                        int rank, int whom, wefti_longwait *wait);
void wefti_longwait_end(wefti_world *world, const wefti_longwait *wait);
