/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* What was predicted of a run (plan.json, docs/planning.md), and what the first rank's
 * threads did in one step (timeline.json, docs/metrics.md). */

/* What one thread, or the wire, did from begin_s to end_s after the step's begin. */
typedef struct wefti_stretch {
    char lane[24]; /* "compute", "exchange", "wire", ... */
    char what[24]; /* "forward", "begin", ... */
    int index;     /* unit or bucket */
    double begin_s, end_s;
} wefti_stretch;

typedef struct wefti_planned_timeline {
    wefti_stretch *items; /* owned */
    int64_t n;
    double step;    /* NAN: not known */
    int rank, node; /* whose; 0 where nobody says */
    char host[64];  /* "": nobody says */
    double begun_s; /* when its step began, after the first rank's */
    double error_s; /* as well as the clocks are known; NAN: nobody says */
} wefti_planned_timeline;

/* What all ranks did in one step. */
typedef struct wefti_timelines {
    wefti_planned_timeline *ranks; /* [n] owned; the first is rank 0's */
    int n;
} wefti_timelines;

enum { WEFTI_N_PLANNED = 14 };

typedef struct wefti_planned {
    double value[WEFTI_N_PLANNED]; /* NAN where the file says nothing */
    wefti_planned_timeline timeline;
} wefti_planned;

/* Names of the values in a report. */
extern const char *const wefti_planned_names[WEFTI_N_PLANNED];

/* Reads <path>; *found = false if there is no such file. On failure nothing is owned. */
weft_status wefti_planned_read(weft_ctx *ctx, const char *path, wefti_planned *out,
                               bool *found) WEFT_CHECKED;
void wefti_planned_fini(weft_ctx *ctx, wefti_planned *forecast);

/* The same for the timelines of all ranks. */
weft_status wefti_timelines_read(weft_ctx *ctx, const char *path, wefti_timelines *out,
                                 bool *found) WEFT_CHECKED;
void wefti_timelines_fini(weft_ctx *ctx, wefti_timelines *timelines);
