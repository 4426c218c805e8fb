/* SPDX-License-Identifier: MIT */
/* What a run folder says of its prediction and of one step: plan.json and timeline.json. Without
 * them a page has no prediction and no timeline, which is no fault. What is there is checked like
 * any input: bounded in bytes and items, with times that are finite and in order. */
#include "record/planned.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/file.h"
#include "text/json.h"
#include "base/memory.h"

enum { MAX_BYTES = 64 << 20, MAX_STRETCHES = 100000, MAX_RANKS = 1 << 20 };

static weft_status read_object(weft_ctx *ctx, const char *path, json_t **out,
                               bool *found) {
    char *text;
    int64_t n;
    *out = NULL;
    *found = access(path, F_OK) == 0 || errno != ENOENT;
    if (!*found) return WEFT_OK;
    WEFT_TRY(wefti_file_read(ctx, path, MAX_BYTES, &text, &n));
    weft_status status = wefti_json_read(ctx, path, "", text, n, WEFT_ERR_FORMAT, out);
    wefti_free(ctx, text);
    return status;
}

static double number(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* ---- timelines ---- */

static bool read_stretch(const json_t *object, wefti_stretch *out) {
    const char *lane = json_string_value(json_object_get(object, "lane"));
    const char *what = json_string_value(json_object_get(object, "what"));
    if (!lane || !what) return false;
    *out = (wefti_stretch){0};
    snprintf(out->lane, sizeof out->lane, "%s", lane);
    snprintf(out->what, sizeof out->what, "%s", what);
    out->index = (int)json_integer_value(json_object_get(object, "index"));
    out->begin_s = number(object, "begin_s");
    out->end_s = number(object, "end_s");
    return isfinite(out->begin_s) && isfinite(out->end_s) && out->end_s >= out->begin_s &&
           fabs(out->begin_s) < 1e9 && out->end_s < 1e9;
}

/* A number from 0 to 2^30, 0 where there is none. */
static int whole(const json_t *object, const char *name) {
    json_int_t value = json_integer_value(json_object_get(object, name));
    return value >= 0 && value <= 1 << 30 ? (int)value : 0;
}

static void timeline_fini(weft_ctx *ctx, wefti_planned_timeline *timeline) {
    wefti_free(ctx, timeline->items);
    *timeline = (wefti_planned_timeline){0};
}

static weft_status read_timeline(weft_ctx *ctx, const char *path, const json_t *object,
                                 wefti_planned_timeline *out) {
    const json_t *list = json_object_get(object, "timeline");
    size_t n = json_array_size(list);
    *out = (wefti_planned_timeline){0};
    if (n > MAX_STRETCHES)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s: the timeline has %zu items, expected at most %d", path,
                             n, MAX_STRETCHES);
    WEFT_TRY(
        wefti_alloc_n(ctx, (int64_t)n, sizeof *out->items, "a timeline", &out->items));
    for (size_t i = 0; i < n; i++) {
        if (read_stretch(json_array_get(list, i), &out->items[i])) continue;
        timeline_fini(ctx, out);
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s: item %zu of the timeline is not a stretch of time, "
                             "expected lane, index, what, begin_s and end_s",
                             path, i);
    }
    const char *host = json_string_value(json_object_get(object, "host"));
    out->n = (int64_t)n;
    out->step = number(object, "step");
    out->rank = whole(object, "rank");
    out->node = whole(object, "node");
    snprintf(out->host, sizeof out->host, "%s", host ? host : "");
    out->error_s = number(object, "clock_error_s");
    out->begun_s = number(object, "begun_s");
    if (!(fabs(out->begun_s) < 1e9)) out->begun_s = 0;
    return WEFT_OK;
}

/* The first rank's stands at the top, the others' in a list. */
static weft_status read_ranks(weft_ctx *ctx, const char *path, const json_t *object,
                              wefti_timelines *out) {
    const json_t *others = json_object_get(object, "others");
    size_t n = json_array_size(others);
    if (n > MAX_RANKS)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s has timelines of %zu other ranks, expected at most %d",
                             path, n, MAX_RANKS);
    WEFT_TRY(
        wefti_alloc_n(ctx, (int64_t)n + 1, sizeof *out->ranks, "timelines", &out->ranks));
    for (size_t i = 0; i <= n; i++) {
        const json_t *one = i == 0 ? object : json_array_get(others, i - 1);
        WEFT_TRY(read_timeline(ctx, path, one, &out->ranks[i]));
        out->n = (int)i + 1;
    }
    return WEFT_OK;
}

weft_status wefti_timelines_read(weft_ctx *ctx, const char *path, wefti_timelines *out,
                                 bool *found) {
    json_t *object;
    *out = (wefti_timelines){0};
    WEFT_TRY(read_object(ctx, path, &object, found));
    if (!*found) return WEFT_OK;
    weft_status status = read_ranks(ctx, path, object, out);
    json_decref(object);
    if (status != WEFT_OK) wefti_timelines_fini(ctx, out);
    return status;
}

void wefti_timelines_fini(weft_ctx *ctx, wefti_timelines *timelines) {
    for (int i = 0; i < timelines->n; i++) timeline_fini(ctx, &timelines->ranks[i]);
    wefti_free(ctx, timelines->ranks);
    *timelines = (wefti_timelines){0};
}

/* ---- predictions ---- */

/* The first three are quantiles of step_s; those of the report, then of plan.json. */
enum { QUANTILES = 3 };
const char *const wefti_planned_names[WEFTI_N_PLANNED] = {
    "low_step_s",  "median_step_s", "high_step_s",    "step_s",      "compute_s",
    "exchange_s",  "wait_s",        "hidden_share",   "wait_wire_s", "wait_codec_s",
    "wait_late_s", "tokens_per_s",  "wire_bytes_out", "memory_bytes"};
static const char *const keys[WEFTI_N_PLANNED] = {
    "low",         "median",       "high",         "mean_step_s", "compute_s",
    "exchange_s",  "wait_s",       "hidden_share", "wait_wire_s", "wait_codec_s",
    "wait_late_s", "tokens_per_s", "wire_bytes",   "memory_bytes"};

static weft_status read_forecast(weft_ctx *ctx, const char *path, const json_t *object,
                                 wefti_planned *out) {
    const json_t *p = json_object_get(object, "prediction");
    const json_t *step = json_object_get(p, "step_s");
    if (!json_is_object(p))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s has no prediction", path);
    for (int i = 0; i < WEFTI_N_PLANNED; i++)
        out->value[i] = number(i < QUANTILES ? step : p, keys[i]);
    return read_timeline(ctx, path, object, &out->timeline);
}

weft_status wefti_planned_read(weft_ctx *ctx, const char *path, wefti_planned *out,
                               bool *found) {
    json_t *object;
    *out = (wefti_planned){0};
    WEFT_TRY(read_object(ctx, path, &object, found));
    if (!*found) return WEFT_OK;
    weft_status status = read_forecast(ctx, path, object, out);
    json_decref(object);
    return status;
}

void wefti_planned_fini(weft_ctx *ctx, wefti_planned *forecast) {
    timeline_fini(ctx, &forecast->timeline);
}
