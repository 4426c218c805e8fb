/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* What a rank's two threads did in one step, for the report: timeline.json. Each thread
 * writes into its own part; the compute thread opens and closes the timeline while the
 * exchange thread is idle. All functions accept NULL: then nothing is recorded. */

enum { WEFTI_TIMELINE_COMPUTE, WEFTI_TIMELINE_EXCHANGE, WEFTI_TIMELINE_THREADS };

typedef struct wefti_timeline_line {
    const char *what; /* lives as long as the program */
    int index;        /* unit or bucket */
    double begin_s, end_s;
} wefti_timeline_line;

typedef struct wefti_timeline {
    wefti_timeline_line *lines[WEFTI_TIMELINE_THREADS]; /* owned */
    int n[WEFTI_TIMELINE_THREADS], room;
    int64_t step; /* the one that is recorded */
    double begun_s;
    bool open, kept, written;
} wefti_timeline;

/* Room for n_lines of each thread; further lines are dropped. */
weft_status wefti_timeline_create(weft_ctx *ctx, int64_t step, int64_t n_lines,
                                  wefti_timeline **out) WEFT_CHECKED;
void wefti_timeline_destroy(weft_ctx *ctx, wefti_timeline *timeline);

/* Called when the step begins, and when it has settled. */
void wefti_timeline_open(wefti_timeline *timeline, int64_t step, double now_s);
void wefti_timeline_close(wefti_timeline *timeline);

/* now: the time, or 0 if the timeline is not open; put: records what was done since
 * then. */
double wefti_timeline_now(const wefti_timeline *timeline);
void wefti_timeline_put(wefti_timeline *timeline, int thread, int index, const char *what,
                        double begin_s);
