/* SPDX-License-Identifier: MIT */
/* When each op and phase of one step began and ended, on the compute and on the exchange
 * thread of a rank. All ranks record the same step, and the first one writes all
 * timelines (train/traces.h): timeline.json of the run folder, which the report draws.
 * Room for all entries is allocated before the first step; what does not fit is left
 * out. */
#include "rank/timeline.h"

#include "base/clock.h"
#include "base/memory.h"

enum { MOST_LINES = 20000 };

weft_status wefti_timeline_create(weft_ctx *ctx, int64_t step, int64_t n_lines,
                                  wefti_timeline **out) {
    wefti_timeline *timeline;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *timeline, "the timeline", &timeline));
    timeline->step = step;
    timeline->room = n_lines < MOST_LINES ? (int)n_lines : MOST_LINES;
    weft_status status = WEFT_OK;
    for (int i = 0; i < WEFTI_TIMELINE_THREADS && status == WEFT_OK; i++)
        status = wefti_alloc_n(ctx, timeline->room, sizeof *timeline->lines[i],
                               "the timeline", &timeline->lines[i]);
    if (status != WEFT_OK) {
        wefti_timeline_destroy(ctx, timeline);
        return status;
    }
    *out = timeline;
    return WEFT_OK;
}

void wefti_timeline_destroy(weft_ctx *ctx, wefti_timeline *timeline) {
    if (!timeline) return;
    for (int i = 0; i < WEFTI_TIMELINE_THREADS; i++) wefti_free(ctx, timeline->lines[i]);
    wefti_free(ctx, timeline);
}

void wefti_timeline_open(wefti_timeline *timeline, int64_t step, double now_s) {
    if (!timeline || step != timeline->step) return;
    timeline->open = true;
    timeline->begun_s = now_s;
}

void wefti_timeline_close(wefti_timeline *timeline) {
    if (!timeline || !timeline->open) return;
    timeline->open = false;
    timeline->kept = true;
}

double wefti_timeline_now(const wefti_timeline *timeline) {
    return timeline && timeline->open ? wefti_now_s() : 0;
}

void wefti_timeline_put(wefti_timeline *timeline, int thread, int index, const char *what,
                        double begin_s) {
    if (!timeline || !timeline->open || timeline->n[thread] == timeline->room) return;
    timeline->lines[thread][timeline->n[thread]++] = (wefti_timeline_line){
        what, index, begin_s - timeline->begun_s, wefti_now_s() - timeline->begun_s};
}
