/* SPDX-License-Identifier: MIT */
#pragma once

#include "train/prepare.h"

/* Writing the run folder while the run trains, with a disk that may be full for a while, and
 * in a folder that may have been taken over while this process slept. */

/* When a checkpoint is due by the clock. Each rank has one: all note what was saved, the first
 * one asks all with its status, so that they save after the same step. */
typedef struct wefti_save_clock {
    double since_s, took_s; /* of the last checkpoint, or request */
    int64_t due;            /* steps done when it is saved; -1: not asked for */
    bool reported;
    const weft_train_hooks *hooks; /* hear of the first one; or NULL */
} wefti_save_clock;

/* Before the first step, in the process that writes the run folder: how long a checkpoint
 * takes: files and bytes by checkpoints like it, of 72 MiB at most, which are written to the run
 * folder and removed; the mean of replicas that differ by mesh.link. What is not known is 0. */
weft_status wefti_saving_predict(weft_ctx *ctx, wefti_prepared *p) WEFT_CHECKED;

/* Whether run.save_time has passed, and so much that saving takes 2 % of the time at most. */
bool wefti_saving_is_late(const wefti_save_clock *clock, const weft_config *config);

/* Saves a checkpoint. If it can not be written, that is logged and forgotten, for the next one
 * is tried again; only the last one of a run is tried for a while, and is an error then.
 * Collective. */
weft_status wefti_saving_save(wefti_rank *r, wefti_prepared *p, wefti_save_clock *clock,
                              int64_t step, bool last) WEFT_CHECKED;

/* The first rank, at the end: says how many checkpoints are missing. */
void wefti_saving_tell(const wefti_prepared *p);
