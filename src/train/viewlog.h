/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/elastic.h"
#include "job/job.h"
#include "record/views.h"
#include "train/bootstrap.h"
#include "train/rank.h"

/* The run's log of views (record/views.h) as it is made: every process keeps all lines since it
 * takes part, and the first rank of the world writes them. So a new first rank completes what the
 * lost one had not written. */
typedef struct wefti_viewlog wefti_viewlog;

weft_status wefti_viewlog_create(weft_ctx *ctx, wefti_viewlog **out) WEFT_CHECKED;
weft_status wefti_viewlog_close(weft_ctx *ctx, wefti_viewlog *log) WEFT_CHECKED;

/* From now on this process writes <folder>/views.jsonl, first the lines that it lacks. Lines of
 * later steps than `steps_done` are dropped. */
weft_status wefti_viewlog_open(weft_ctx *ctx, wefti_viewlog *log, const char *folder,
                               int64_t steps_done) WEFT_CHECKED;

/* A step took so long. */
void wefti_viewlog_step(wefti_viewlog *log, double step_s);

/* What the ranks of a new world bring along: how many messages each did without (-1: more than it
 * had memory for), and the sum of the checksums of their parameters. Collective. */
weft_status wefti_viewlog_gather(weft_ctx *ctx, wefti_viewlog *log, wefti_bootstrap *b,
                                 const int64_t *n_missed, uint64_t checksum) WEFT_CHECKED;

/* What a line says beside that. */
typedef struct wefti_viewlog_entry {
    uint64_t run;
    int64_t view;
    weft_mesh *mesh; /* or NULL: all ranks are here */
    const wefti_job *job;
    const wefti_guests *guests; /* or NULL: there are none */
    int64_t done;               /* steps after which the run ends, as far as is known */
} wefti_viewlog_entry;

/* The job's world begins with the step that comes now: a line of it, after lines of what did not
 * count in the one before. A world in which the run only ends has the step after its
 * last one. On the disk when it returns, if this process writes the folder. */
weft_status wefti_viewlog_write(weft_ctx *ctx, wefti_viewlog *log,
                                const wefti_viewlog_entry *entry) WEFT_CHECKED;
