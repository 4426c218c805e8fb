/* SPDX-License-Identifier: MIT */
#pragma once

#include "mesh/elastic.h"
#include "job/job.h"
#include "record/views.h"
#include "rank/bootstrap.h"

typedef struct wefti_learners_plan wefti_learners_plan; /* rank/learners.h */

/* Makes the run's log of views (record/views.h): every process keeps the last lines since it
 * joined, 8 to 16 MB, and the first rank of the world writes them. So a new first rank can add
 * what the lost one had not written. */
typedef struct wefti_viewlog wefti_viewlog;

weft_status wefti_viewlog_create(weft_ctx *ctx, wefti_viewlog **out) WEFT_CHECKED;
weft_status wefti_viewlog_close(weft_ctx *ctx, wefti_viewlog *log) WEFT_CHECKED;

/* From now on this process writes <folder>/views.jsonl, beginning with the lines that the
 * file lacks. Lines of steps after `steps_done` are dropped; the caller has checked that they
 * may be (train/descent.h). A log that follows nothing yet follows the last line that is
 * left. */
weft_status wefti_viewlog_open(weft_ctx *ctx, wefti_viewlog *log, const char *folder,
                               int64_t steps_done) WEFT_CHECKED;

/* The chain of the last line of this process's views (record/views.h). `follow`: it is this,
 * as somebody says who has the state from which this process goes on; `knows`: whether a view
 * of that chain was, or was about to be, one of this process's own. */
uint64_t wefti_viewlog_chain(const wefti_viewlog *log);
weft_status wefti_viewlog_follow(weft_ctx *ctx, wefti_viewlog *log,
                                 uint64_t chain) WEFT_CHECKED;
bool wefti_viewlog_knows(const wefti_viewlog *log, uint64_t chain);

/* Notes how long a step took. */
void wefti_viewlog_step(wefti_viewlog *log, double step_s);

/* Between two worlds: adds the messages that this rank went on without. *n: how many the log
 * knows of now, since the last line of a view; -1: more than there was memory for. */
weft_status wefti_viewlog_collect(weft_ctx *ctx, wefti_viewlog *log, weft_mesh *mesh,
                                  int64_t *n) WEFT_CHECKED;

/* A world begins, and has [n] says which of its ranks have state. If the world before it took
 * no step, but gave state to one of these ranks, its line is written: a replay has to do the
 * same. Else it leaves no line. */
weft_status wefti_viewlog_replace(weft_ctx *ctx, wefti_viewlog *log, weft_mesh *mesh,
                                  const bool *has, int n) WEFT_CHECKED;

/* Gathers what the ranks of a new world bring along: how many messages each knows of that
 * did not count (wefti_viewlog_collect), and the sum of the checksums of their parameters.
 * Collective. */
weft_status wefti_viewlog_gather(weft_ctx *ctx, wefti_viewlog *log, wefti_bootstrap *b,
                                 const int64_t *n_missed, uint64_t checksum) WEFT_CHECKED;

/* What else a line says. */
typedef struct wefti_viewlog_entry {
    uint64_t run;
    int64_t view;
    weft_mesh *mesh; /* or NULL: all ranks are here */
    const wefti_job *job;
    const wefti_learners_plan *learners; /* or NULL: there are none */
    const bool *has; /* [job->W] or NULL: which ranks have state; NULL: all */
    bool
        shared; /* the last view goes on, with other rows or another form: `run` and `view`
                     are its */
    const char *why;        /* of other rows or another form; or NULL */
    const double *expected; /* [WEFTI_VIEWS_EXPECTED] of it; or NULL */
    int64_t done;           /* steps after which the run ends, as far as is known */
} wefti_viewlog_entry;

/* Keeps what the line of the job's world will say. A world in which the run only ends gets
 * the step after the last one. */
weft_status wefti_viewlog_plan(weft_ctx *ctx, wefti_viewlog *log,
                               const wefti_viewlog_entry *entry) WEFT_CHECKED;

/* Adds this line to the chain. */
weft_status wefti_viewlog_put(weft_ctx *ctx, wefti_viewlog *log,
                              wefti_view_line *line) WEFT_CHECKED;

/* The planned world begins its first step: writes its line, after the lines of messages that
 * did not count in the world before. If this process writes the folder, the lines are on the
 * disk on return, or wait until it takes them. */
weft_status wefti_viewlog_write(weft_ctx *ctx, wefti_viewlog *log) WEFT_CHECKED;
