/* SPDX-License-Identifier: MIT */
/* A step of all ranks in the format that Chrome (chrome://tracing) and Perfetto read:
 *
 *     {"displayTimeUnit": "ms", "otherData": {"run": ..., "step": ...}, "traceEvents": [
 *       {"ph": "M", "name": "process_name", "pid": RANK, "args": {"name": "rank 0, node 0"}},
 *       {"ph": "M", "name": "thread_name", "pid": RANK, "tid": LANE, "args": {"name": "compute"}},
 *       {"ph": "X", "name": "forward 3", "cat": "forward", "pid": RANK, "tid": LANE,
 *        "ts": microseconds, "dur": microseconds, "args": {"index": 3}}]}
 *
 * (https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU). A rank is a
 * process, a lane a thread. Times are on the first rank's clock, from the earliest begin of all,
 * and whole nanoseconds: what follows something in the step follows it here, and no two events
 * of a lane overlap unless they did. What was predicted is a process of its own, behind all
 * ranks. */
#define _GNU_SOURCE
#include <weft/report.h>

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/text.h"
#include "record/planned.h"

enum { MAX_LANES = 64 };

typedef struct trace {
    weft_ctx *ctx;
    wefti_buffer *out;
    double begin_s; /* the earliest time of all */
    bool any;       /* an event stands there already */
} trace;

/* The number of a lane in order of its first event; lanes beyond MAX_LANES share the last. */
typedef struct lanes {
    const char *names[MAX_LANES];
    int n;
} lanes;

static int lane_of(lanes *l, const char *name) {
    for (int i = 0; i < l->n; i++)
        if (wefti_is(l->names[i], name)) return i;
    if (l->n == MAX_LANES) return MAX_LANES - 1;
    l->names[l->n] = name;
    return l->n++;
}

static void begin_event(trace *t, const char *kind, int pid, int tid) {
    wefti_buffer_print(t->ctx, t->out, "%s\n{\"ph\":\"%s\",\"pid\":%d,\"tid\":%d",
                       t->any ? "," : "", kind, pid, tid);
    t->any = true;
}

/* "process_name" or "thread_name", and the order in which they stand. */
static void put_name(trace *t, const char *of, int pid, int tid, const char *name) {
    begin_event(t, "M", pid, tid);
    wefti_buffer_print(t->ctx, t->out, ",\"name\":\"%s_name\",\"args\":{\"name\":", of);
    wefti_buffer_json(t->ctx, t->out, name);
    wefti_buffer_text(t->ctx, t->out, "}}");
    begin_event(t, "M", pid, tid);
    wefti_buffer_print(t->ctx, t->out,
                       ",\"name\":\"%s_sort_index\",\"args\":{\"sort_index\":%d}}", of,
                       wefti_is(of, "process") ? pid : tid);
}

static int64_t nanoseconds(double s) { return (int64_t)floor(s * 1e9 + 0.5); }

/* Nanoseconds as microseconds, without a rounding of its own. */
static void put_time(trace *t, const char *key, int64_t ns) {
    wefti_buffer_print(t->ctx, t->out, ",\"%s\":%lld.%03lld", key, (long long)(ns / 1000),
                       (long long)(ns % 1000));
}

static void put_stretch(trace *t, int pid, int tid, double shift_s,
                        const wefti_stretch *s) {
    char name[48];
    int64_t begin = nanoseconds(s->begin_s + shift_s - t->begin_s);
    int64_t end = nanoseconds(s->end_s + shift_s - t->begin_s);
    begin_event(t, "X", pid, tid);
    snprintf(name, sizeof name, "%s %d", s->what, s->index);
    wefti_buffer_text(t->ctx, t->out, ",\"name\":");
    wefti_buffer_json(t->ctx, t->out, name);
    wefti_buffer_text(t->ctx, t->out, ",\"cat\":");
    wefti_buffer_json(t->ctx, t->out, s->what);
    put_time(t, "ts", begin);
    put_time(t, "dur", end - begin);
    wefti_buffer_print(t->ctx, t->out, ",\"args\":{\"index\":%d}}", s->index);
}

static void put_process(trace *t, int pid, const char *name,
                        const wefti_planned_timeline *timeline) {
    lanes l = {.n = 0};
    put_name(t, "process", pid, 0, name);
    for (int64_t i = 0; i < timeline->n; i++) {
        int before = l.n, tid = lane_of(&l, timeline->items[i].lane);
        if (l.n > before) put_name(t, "thread", pid, tid, l.names[tid]);
        put_stretch(t, pid, tid, timeline->begun_s, &timeline->items[i]);
    }
}

static double earliest(const wefti_timelines *all,
                       const wefti_planned_timeline *planned) {
    double least = INFINITY;
    for (int r = 0; r <= all->n; r++) {
        const wefti_planned_timeline *one = r < all->n ? &all->ranks[r] : planned;
        for (int64_t i = 0; i < one->n; i++)
            least = fmin(least, one->items[i].begin_s + one->begun_s);
    }
    return isfinite(least) ? least : 0;
}

static void put_all(trace *t, const char *run, const wefti_timelines *all,
                    const wefti_planned_timeline *planned) {
    char name[160];
    int last = 0;
    wefti_buffer_text(t->ctx, t->out,
                      "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"run\":");
    wefti_buffer_json(t->ctx, t->out, run);
    wefti_buffer_text(t->ctx, t->out, ",\"step\":");
    wefti_buffer_short(t->ctx, t->out, all->ranks[0].step);
    wefti_buffer_text(t->ctx, t->out, "},\"traceEvents\":[");
    for (int i = 0; i < all->n; i++) {
        const wefti_planned_timeline *one = &all->ranks[i];
        snprintf(name, sizeof name, "rank %d, node %d%s%s", one->rank, one->node,
                 one->host[0] ? ", " : "", one->host);
        put_process(t, one->rank, name, one);
        if (one->rank > last) last = one->rank;
    }
    if (planned->n > 0) put_process(t, last + 1, "predicted", planned);
    wefti_buffer_text(t->ctx, t->out, "\n]}\n");
}

static weft_status read_all(weft_ctx *ctx, const char *folder, wefti_timelines *all,
                            wefti_planned *planned) {
    char path[PATH_MAX];
    bool found;
    WEFT_TRY(weft_run_look(ctx, folder));
    WEFT_TRY(wefti_file_path(ctx, folder, "timeline.json", path));
    WEFT_TRY(wefti_timelines_read(ctx, path, all, &found));
    if (!found)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s is not there: a run writes it at its first evaluation, "
                             "checkpoint or end",
                             path);
    WEFT_TRY(wefti_file_path(ctx, folder, "plan.json", path));
    return wefti_planned_read(ctx, path, planned, &found);
}

weft_status weft_report_trace(weft_ctx *ctx, const char *run_folder,
                              const char *out_path) {
    char whole[PATH_MAX];
    wefti_timelines all = {0};
    wefti_planned planned = {0};
    wefti_buffer out = {0};
    trace t = {.ctx = ctx, .out = &out};
    if (!run_folder || !out_path)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "a trace needs a run folder and a path to write to");
    weft_status status = read_all(ctx, run_folder, &all, &planned);
    if (status == WEFT_OK) {
        const char *slash = realpath(run_folder, whole) ? strrchr(whole, '/') : NULL;
        t.begin_s = earliest(&all, &planned.timeline);
        put_all(&t, slash ? slash + 1 : run_folder, &all, &planned.timeline);
        status = out.status;
    }
    if (status == WEFT_OK) status = wefti_file_write(ctx, out_path, out.bytes, out.n);
    wefti_buffer_fini(ctx, &out);
    wefti_timelines_fini(ctx, &all);
    wefti_planned_fini(ctx, &planned);
    return status;
}
