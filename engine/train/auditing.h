/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/train.h>

#include "rank/rank.h"
#include "record/views.h"
#include "runfiles/state.h"

/* What a run recorded of the messages of its ranks (run.audit, comm/sent.h), beside what a
 * replay computes: the first step in which a rank sent something else, and which one.
 *
 *     messages of its own numbers differ    that rank computed or sent wrongly: its state and
 *                                           all that it had received were right until then
 *     only answers differ                   that rank added wrongly: an answer to wrong
 *                                           numbers of somebody else is wrong as well */

typedef struct wefti_audit_line {
    int64_t step; /* counted from 1 */
    char *sent;   /* owned: 32 hexadecimal digits for each rank */
} wefti_audit_line;

typedef struct wefti_audit {
    wefti_audit_line *lines; /* [n] owned, ascending */
    int64_t n, capacity;
    int64_t next;     /* the first that is not compared yet */
    int64_t known;    /* all steps up to this one are compared, or need not be */
    int64_t compared; /* digests of a rank and step */
    int64_t step;     /* the first with a difference; 0: none */
    int node;         /* the first of those that made it; -1: none */
} wefti_audit;

/* Adds to the record of a step what the ranks sent with its status. */
void wefti_audit_record(const wefti_rank *r, weft_step_record *record);

/* Reads the digests of a metrics.jsonl; n = 0: it has none. */
weft_status wefti_audit_read(weft_ctx *ctx, const char *path,
                             wefti_audit *audit) WEFT_CHECKED;

/* Fails if there are none, or none of `step` (0: of any). */
weft_status wefti_audit_check(weft_ctx *ctx, const wefti_audit *audit, const char *path,
                              int64_t step) WEFT_CHECKED;

/* Where an audit of one step begins: the view that made it, which is cut to begin after the
 * checkpoint; or -1, and saved->step is -1, if its copies of the model are not those of the
 * checkpoint, or not all of them had all of their state. */
int64_t wefti_audit_begin(wefti_views *views, wefti_saved_layout *saved, int64_t step);

/* Frees it; result->digests, wrong_step and wrong_node say what it found. */
void wefti_audit_end(weft_ctx *ctx, wefti_audit *audit, weft_replay_result *result);

/* Compares the digests of `step`, counted from 1, which the status that r has read last
 * tells. Fails with WEFT_ERR_NUMERIC if they differ, and says whose: no node's (-1) where steps
 * before it could not be compared. */
weft_status wefti_audit_compare(wefti_audit *audit, const wefti_rank *r, int64_t step,
                                const wefti_view_line *view) WEFT_CHECKED;
