/* SPDX-License-Identifier: MIT */
#pragma once

#include "runfiles/viewlog.h"

/* Whether a process may write a run folder. A process that slept may believe that the others
 * are dead, while they went on and ended; the folder knows better. What it says has been done
 * is compared with what this process comes from. */

/* What a run folder says has been done. Steps count from 1. */
typedef struct wefti_descent_record {
    bool has_view;
    uint64_t run, chain; /* of the last view's line (record/views.h) */
    int64_t view, view_step;
    int64_t came_step; /* with which the run came from another folder; 0: it began here */
    int64_t step;      /* newest of metrics.jsonl; 0: none */
    int64_t checkpoint; /* newest; -1: none */
    bool is_past; /* set by the caller: an earlier view of the run that it has joined */
} wefti_descent_record;

weft_status wefti_descent_read(weft_ctx *ctx, const char *folder,
                               wefti_descent_record *out) WEFT_CHECKED;

/* Fails with one sentence (WEFT_ERR_CONFIG) if a process with these views, which has done
 * `steps_done` steps, does not descend from the record: the last view is none of its own, or the
 * same members are further than members can be apart. */
weft_status wefti_descent_judge(weft_ctx *ctx, const char *folder,
                                const wefti_descent_record *record,
                                const wefti_viewlog *views,
                                int64_t steps_done) WEFT_CHECKED;

/* Both. Writes nothing. */
weft_status wefti_descent_check(weft_ctx *ctx, const char *folder,
                                const wefti_viewlog *views,
                                int64_t steps_done) WEFT_CHECKED;

/* Whether this start of the run has ended in order, as the folder shows: all steps are saved; or
 * the members of a later view have saved the last of theirs, and given the lease back. */
weft_status wefti_descent_ended(weft_ctx *ctx, const char *folder, uint64_t run,
                                int64_t view, int64_t steps, bool *ended) WEFT_CHECKED;

/* For weft verify: fails with one sentence if views, lines and checkpoints of a folder
 * contradict each other, as if two runs had written them, or one had cut what another did.
 * log_every: of the run; how many steps may be without a line. *came_step: as in the record. */
weft_status wefti_descent_agree(weft_ctx *ctx, const char *folder, int64_t log_every,
                                int64_t *came_step) WEFT_CHECKED;
