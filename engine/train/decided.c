/* SPDX-License-Identifier: MIT */
/* decision.json, and the text about it:
 *
 *     {"version": 1, "nodes", "ranks_per_node", "keep", "settings", "sentence", "text"} */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <weft/plan.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "planner/advise.h"
#include "record/metrics.h"
#include "record/views.h"
#include "text/json.h"
#include "train/decide.h"

enum { LARGEST = 1 << 20 };

weft_status wefti_decision_write(weft_ctx *ctx, const char *folder,
                                 const wefti_decision *d, const char *reasons) {
    char path[PATH_MAX];
    WEFT_TRY(wefti_file_path(ctx, folder, "decision.json", path));
    json_t *value = json_pack(
        "{si, sI, sI, ss, ss, ss, ss}", "version", 1, "nodes", (json_int_t)d->nodes,
        "ranks_per_node", (json_int_t)d->ranks_per_node, "keep", d->keep, "settings",
        d->settings, "sentence", d->sentence, "text", reasons ? reasons : "");
    return wefti_json_write(ctx, path, value);
}

static weft_status parse(weft_ctx *ctx, const char *path, json_t *value,
                         wefti_decision *out) {
    const char *keep, *settings, *sentence;
    json_int_t nodes, ranks;
    int version = 0;
    if (json_unpack(value, "{si, sI, sI, ss, ss, ss}", "version", &version, "nodes",
                    &nodes, "ranks_per_node", &ranks, "keep", &keep, "settings",
                    &settings, "sentence", &sentence) != 0 ||
        version != 1 || strlen(settings) >= sizeof out->settings)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s is not the decision of a run with method=auto, version "
                             "1",
                             path);
    *out = (wefti_decision){.nodes = nodes, .ranks_per_node = ranks};
    snprintf(out->keep, sizeof out->keep, "%s", keep);
    snprintf(out->settings, sizeof out->settings, "%s", settings);
    snprintf(out->sentence, sizeof out->sentence, "%s", sentence);
    return WEFT_OK;
}

/* [out] *value NULL: there is no such file; else owned by the caller (json_decref). */
static weft_status open_decision(weft_ctx *ctx, const char *folder, json_t **value,
                                 wefti_decision *out) {
    char path[PATH_MAX], *text;
    int64_t n;
    *value = NULL;
    WEFT_TRY(wefti_file_path(ctx, folder, "decision.json", path));
    if (access(path, F_OK) != 0) return WEFT_OK;
    WEFT_TRY(wefti_file_read(ctx, path, LARGEST, &text, &n));
    weft_status status = wefti_json_read(ctx, "", path, text, n, WEFT_ERR_FORMAT, value);
    wefti_free(ctx, text);
    WEFT_TRY(status);
    status = parse(ctx, path, *value, out);
    if (status != WEFT_OK) {
        json_decref(*value);
        *value = NULL;
    }
    return status;
}

weft_status wefti_decision_read(weft_ctx *ctx, const char *folder, wefti_decision *out,
                                bool *found) {
    json_t *value;
    WEFT_TRY(open_decision(ctx, folder, &value, out));
    *found = value != NULL;
    json_decref(value);
    return WEFT_OK;
}

/* Seconds of a step, the mean of steps from..to-1; NAN: none is known. rows: [n][3] of number,
 * seconds and how many a line stands for. */
static double mean_step(const double *rows, int64_t n, double from, double to) {
    double sum = 0, steps = 0;
    for (int64_t i = 0; i < n; i++) {
        const double *row = rows + 3 * i;
        double weight = row[2] >= 1 ? row[2] : 1;
        if (!(row[0] >= from && row[0] < to) || !isfinite(row[1])) continue;
        sum += row[1] * weight;
        steps += weight;
    }
    return steps > 0 ? sum / steps : (double)NAN;
}

/* The views between two changes are one stretch. */
static void put_changes(weft_ctx *ctx, wefti_buffer *out, const wefti_views *views,
                        const double *rows, int64_t n) {
    char then[24];
    for (int64_t i = 0; i < views->n_views; i++) {
        const wefti_view_line *v = &views->views[i];
        if (!wefti_view_changes_form(v)) continue;
        int64_t next = i + 1;
        while (next < views->n_views && !wefti_view_changes_form(&views->views[next]))
            next++;
        double to = next < views->n_views ? (double)views->views[next].step : INFINITY;
        double now_s = mean_step(rows, n, (double)v->step, to);
        wefti_buffer_print(ctx, out, "%s", v->why);
        if (now_s > 0)
            wefti_buffer_print(ctx, out, "; measured since then: %s a step",
                               wefti_seconds_text(now_s, then, sizeof then));
        if (now_s > 0 && v->expected[WEFTI_EXPECT_WAS] > 0)
            wefti_buffer_print(ctx, out, ", %.2g of what it was",
                               now_s / v->expected[WEFTI_EXPECT_WAS]);
        wefti_buffer_text(ctx, out, "\n");
    }
}

/* A line for each change of a run that has such. */
static weft_status put_history(weft_ctx *ctx, const char *folder, wefti_buffer *out) {
    static const char *const names[] = {"step", "step_s", "steps"};
    char path[PATH_MAX];
    wefti_views views = {0};
    double *rows = NULL;
    int64_t n = 0;
    WEFT_TRY(wefti_file_path(ctx, folder, "views.jsonl", path));
    WEFT_TRY(wefti_views_read(ctx, path, &views));
    weft_status status = wefti_file_path(ctx, folder, "metrics.jsonl", path);
    if (status == WEFT_OK && access(path, F_OK) == 0)
        status = wefti_metrics_read(ctx, path, names, 3, &rows, &n);
    if (status == WEFT_OK) put_changes(ctx, out, &views, rows, n);
    wefti_free(ctx, rows);
    wefti_views_fini(ctx, &views);
    return status;
}

weft_status weft_decision_text(weft_ctx *ctx, const char *run_folder, char **text) {
    wefti_decision d;
    json_t *value;
    wefti_buffer out = {0};
    *text = NULL;
    WEFT_TRY(open_decision(ctx, run_folder, &value, &d));
    if (!value) return WEFT_OK;
    const char *reasons = json_string_value(json_object_get(value, "text"));
    wefti_buffer_print(ctx, &out, "%s\n", wefti_text_plain(d.sentence));
    if (reasons && reasons[0]) wefti_buffer_print(ctx, &out, "\n%s\n", reasons);
    wefti_buffer_print(ctx, &out, "keys: %s\n", wefti_text_plain(d.settings));
    json_decref(value);
    weft_status status = put_history(ctx, run_folder, &out);
    if (status == WEFT_OK) status = out.status;
    if (status != WEFT_OK) wefti_buffer_fini(ctx, &out);
    *text = out.bytes;
    return status;
}
