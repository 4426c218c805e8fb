/* SPDX-License-Identifier: MIT */
#pragma once

#include "train/prepare.h"

/* Writing the run folder while the run trains, with a disk that may be full for a while, and
 * in a folder that may have been taken over while this process slept. */

/* The first rank, before it writes: fails if another process has taken over the folder
 * (wefti_lease_check); membership then knows that the others went on without this process. */
weft_status wefti_saving_check(weft_ctx *ctx, wefti_prepared *p, bool look) WEFT_CHECKED;

/* Saves a checkpoint. If it can not be written, that is said and forgotten, for the next one
 * is tried again; only the last one of a run is tried for a while, and is an error then.
 * Collective. */
weft_status wefti_saving_save(wefti_rank *r, wefti_prepared *p, int64_t step,
                              bool last) WEFT_CHECKED;

/* The first rank, at the end: says how many checkpoints are missing. */
void wefti_saving_tell(const wefti_prepared *p);
