/* SPDX-License-Identifier: MIT */
/* The page of one run: headline numbers, then charts, then its configuration. */
#define _GNU_SOURCE
#include <weft/report.h>

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "record/beside.h"
#include "record/chart.h"
#include "record/lanes.h"
#include "record/page.h"

enum { MAX_CONFIG_BYTES = 4 << 20 };

typedef struct sheet {
    weft_ctx *ctx;
    wefti_buffer *out;
    const wefti_run *run;
    const wefti_planned *forecast;  /* NULL: the run had no plan */
    const wefti_timeline *timeline; /* measured; empty: there is none */
} sheet;

static void text(const sheet *s, const char *words) {
    wefti_buffer_text(s->ctx, s->out, words);
}

static void number(const sheet *s, double value, wefti_axis kind) {
    wefti_put_short(s->ctx, s->out, value, kind);
}

static double last(const sheet *s, wefti_column c) {
    return wefti_column_last(&s->run->steps, c);
}

static double mean(const sheet *s, wefti_column c) {
    return wefti_column_mean(&s->run->steps, c);
}

static double sum(const sheet *s, wefti_column c) {
    return wefti_column_sum(&s->run->steps, c);
}

static void percent(const sheet *s, double share) {
    if (isfinite(share)) {
        wefti_buffer_fixed(s->ctx, s->out, 100 * share, 0);
        text(s, "%");
    } else {
        number(s, share, WEFTI_AXIS_PLAIN);
    }
}

/* ---- headline ---- */

static void put_sentence(const sheet *s) {
    const wefti_rows *steps = &s->run->steps, *evaluations = &s->run->evaluations;
    double validation = wefti_column_last(evaluations, WEFTI_VALIDATION);
    double bigram = wefti_column_last(evaluations, WEFTI_BIGRAM);
    text(s, "<p>");
    wefti_buffer_print(s->ctx, s->out, "%lld step%s", (long long)steps->n,
                       steps->n == 1 ? "" : "s");
    if (isfinite(last(s, WEFTI_ELAPSED))) {
        text(s, " in ");
        number(s, last(s, WEFTI_ELAPSED), WEFTI_AXIS_TIME);
    }
    if (isfinite(validation)) {
        text(s, ". The validation loss is ");
        number(s, validation, WEFTI_AXIS_PLAIN);
        text(s, " nats per token");
        if (isfinite(bigram)) {
            text(s, validation < bigram ? ", below the " : ", not yet below the ");
            number(s, bigram, WEFTI_AXIS_PLAIN);
            text(s, " of a bigram model");
        }
    }
    text(s, ".</p>\n");
}

static void put_loss_tiles(const sheet *s) {
    const wefti_rows *evaluations = &s->run->evaluations;
    wefti_tile_begin(s->ctx, s->out, "Validation loss");
    number(s, wefti_column_last(evaluations, WEFTI_VALIDATION), WEFTI_AXIS_PLAIN);
    wefti_tile_note(s->ctx, s->out);
    text(s, "best ");
    number(s, wefti_column_least(evaluations, WEFTI_VALIDATION), WEFTI_AXIS_PLAIN);
    wefti_tile_end(s->ctx, s->out);
    wefti_tile_begin(s->ctx, s->out, "Training loss");
    number(s, s->run->loss, WEFTI_AXIS_PLAIN);
    wefti_tile_note(s->ctx, s->out);
    if (s->run->smoothing > 1)
        wefti_buffer_print(s->ctx, s->out, "mean of %lld steps",
                           (long long)s->run->smoothing);
    else
        text(s, "last step");
    wefti_tile_end(s->ctx, s->out);
}

static void put_speed_tiles(const sheet *s) {
    wefti_tile_begin(s->ctx, s->out, "Tokens");
    number(s, sum(s, WEFTI_TOKENS), WEFTI_AXIS_COUNT);
    wefti_tile_note(s->ctx, s->out);
    number(s, wefti_column_mean_over_time(&s->run->steps, WEFTI_TOKENS_PER_S),
           WEFTI_AXIS_COUNT);
    text(s, " per second");
    wefti_tile_end(s->ctx, s->out);
    wefti_tile_begin(s->ctx, s->out, "Time of a step");
    number(s, mean(s, WEFTI_STEP_S), WEFTI_AXIS_TIME);
    wefti_tile_note(s->ctx, s->out);
    percent(s, wefti_column_mean_over_time(&s->run->steps, WEFTI_MFU));
    text(s, " of peak");
    wefti_tile_end(s->ctx, s->out);
}

static void put_wire_tiles(const sheet *s) {
    wefti_tile_begin(s->ctx, s->out, "Wire per step");
    number(s, mean(s, WEFTI_WIRE_OUT), WEFTI_AXIS_BYTES);
    wefti_tile_note(s->ctx, s->out);
    number(s, sum(s, WEFTI_WIRE_OUT), WEFTI_AXIS_BYTES);
    text(s, " in all");
    wefti_tile_end(s->ctx, s->out);
    wefti_tile_begin(s->ctx, s->out, "Exchange hidden");
    percent(s, wefti_run_hidden_share(s->run));
    wefti_tile_note(s->ctx, s->out);
    number(s, mean(s, WEFTI_WAIT), WEFTI_AXIS_TIME);
    text(s, " exposed");
    wefti_tile_end(s->ctx, s->out);
    wefti_tile_begin(s->ctx, s->out, "Memory of a rank");
    number(s, wefti_column_greatest(&s->run->steps, WEFTI_MEMORY), WEFTI_AXIS_BYTES);
    wefti_tile_note(s->ctx, s->out);
    text(s, "at most");
    wefti_tile_end(s->ctx, s->out);
}

/* ---- charts ---- */

static wefti_series series_of(const wefti_rows *rows, wefti_column x, wefti_column y,
                              const char *label, int colour, wefti_mark mark) {
    return (wefti_series){label, rows->column[x], rows->column[y], rows->n, colour, mark};
}

static void put_loss_chart(const sheet *s, const char *title, wefti_column x,
                           const char *x_title, wefti_axis x_axis) {
    const wefti_rows *steps = &s->run->steps, *evaluations = &s->run->evaluations;
    double bigram = wefti_column_last(evaluations, WEFTI_BIGRAM);
    double ends[2] = {NAN, NAN}, level[2] = {bigram, bigram};
    if (steps->n) ends[0] = steps->column[x][0], ends[1] = steps->column[x][steps->n - 1];
    wefti_series series[4];
    int n = 0;
    bool is_smooth = s->run->smoothing > 1;
    series[n++] = series_of(steps, x, WEFTI_LOSS, is_smooth ? NULL : "training", 1,
                            is_smooth ? WEFTI_MARK_FAINT : WEFTI_MARK_LINE);
    if (is_smooth)
        series[n++] = series_of(steps, x, WEFTI_SMOOTH, "training", 1, WEFTI_MARK_LINE);
    if (isfinite(bigram))
        series[n++] = (wefti_series){"bigram model", ends, level, 2, 8, WEFTI_MARK_DASH};
    if (evaluations->n)
        series[n++] = series_of(evaluations, x, WEFTI_VALIDATION, "validation", 2,
                                WEFTI_MARK_DOTS);
    double most = wefti_run_loss_most(s->run);
    bool is_cut = most < wefti_run_loss_top(s->run);
    wefti_chart chart = {.title = title,
                         .note = is_cut ? "cut off at the top" : NULL,
                         .x_title = x_title,
                         .y_title = "nats per token",
                         .x_axis = x_axis,
                         .y_most = is_cut ? most : 0,
                         .series = series,
                         .n_series = n};
    wefti_chart_write(s->ctx, s->out, &chart);
}

static void put_loss_charts(const sheet *s) {
    put_loss_chart(s, "Loss over steps", WEFTI_STEP, "step", WEFTI_AXIS_COUNT);
    put_loss_chart(s, "Loss over time", WEFTI_ELAPSED, "time", WEFTI_AXIS_TIME);
    if (last(s, WEFTI_WIRE_TOTAL) > 0)
        put_loss_chart(s, "Loss over bytes on the wire", WEFTI_WIRE_TOTAL, "sent",
                       WEFTI_AXIS_BYTES);
}

static void put_wire_chart(const sheet *s) {
    wefti_series series[] = {
        series_of(&s->run->steps, WEFTI_STEP, WEFTI_WIRE_OUT, "out", 1, WEFTI_MARK_LINE),
        series_of(&s->run->steps, WEFTI_STEP, WEFTI_WIRE_IN, "in", 3, WEFTI_MARK_DASH)};
    wefti_chart chart = {.title = "Bytes on the wire per step",
                         .x_title = "step",
                         .y_title = "per step",
                         .x_axis = WEFTI_AXIS_COUNT,
                         .y_axis = WEFTI_AXIS_BYTES,
                         .y_from_zero = true,
                         .series = series,
                         .n_series = 2};
    wefti_chart_write(s->ctx, s->out, &chart);
}

/* Charts of one column over the steps. */
typedef struct plain_chart {
    const char *title, *y_title;
    wefti_column y;
    wefti_axis y_axis;
    int colour;
    wefti_mark mark;
} plain_chart;

static const plain_chart speed = {
    "Speed", "tokens per second", WEFTI_TOKENS_PER_S, WEFTI_AXIS_COUNT,
    6,       WEFTI_MARK_THIN};
static const plain_chart learning_rate = {"Learning rate",  "", WEFTI_LR,
                                          WEFTI_AXIS_PLAIN, 4,  WEFTI_MARK_LINE};
static const plain_chart gradient_norm = {"Gradient norm",  "", WEFTI_GRAD_NORM,
                                          WEFTI_AXIS_PLAIN, 5,  WEFTI_MARK_THIN};

static void put_plain_chart(const sheet *s, const plain_chart *what) {
    wefti_series series = series_of(&s->run->steps, WEFTI_STEP, what->y, NULL,
                                    what->colour, what->mark);
    wefti_chart chart = {.title = what->title,
                         .x_title = "step",
                         .y_title = what->y_title,
                         .x_axis = WEFTI_AXIS_COUNT,
                         .y_axis = what->y_axis,
                         .y_from_zero = true,
                         .series = &series,
                         .n_series = 1};
    if (isfinite(last(s, what->y))) wefti_chart_write(s->ctx, s->out, &chart);
}

/* How far the replicas are from each other, where they may differ. */
static void put_consensus(const sheet *s) {
    const wefti_rows *steps = &s->run->steps, *evaluations = &s->run->evaluations;
    wefti_series series[2];
    int n = 0;
    if (isfinite(last(s, WEFTI_CONSENSUS)))
        series[n++] = series_of(steps, WEFTI_STEP, WEFTI_CONSENSUS, "estimate", 6,
                                WEFTI_MARK_THIN);
    if (isfinite(wefti_column_last(evaluations, WEFTI_EXACT_CONSENSUS)))
        series[n++] = series_of(evaluations, WEFTI_STEP, WEFTI_EXACT_CONSENSUS, "exact",
                                2, WEFTI_MARK_DOTS);
    wefti_chart chart = {.title = "Distance of the replicas from their mean",
                         .note = "before each mixing",
                         .x_title = "step",
                         .y_title = "",
                         .x_axis = WEFTI_AXIS_COUNT,
                         .y_from_zero = true,
                         .series = series,
                         .n_series = n};
    if (n > 0) wefti_chart_write(s->ctx, s->out, &chart);
}

static void put_step_charts(const sheet *s) {
    static const wefti_timeline none = {NULL, 0};
    if (s->forecast) wefti_beside_chart(s->ctx, s->out, s->run, s->forecast);
    wefti_beside_budget(s->ctx, s->out, s->run, s->forecast);
    wefti_lanes_write(s->ctx, s->out, s->forecast ? &s->forecast->timeline : &none,
                      s->timeline);
}

static void put_page(const sheet *s, const char *config_text) {
    put_sentence(s);
    text(s, "<div class=\"tiles\">\n");
    put_loss_tiles(s);
    put_speed_tiles(s);
    put_wire_tiles(s);
    text(s, "</div>\n");
    if (s->forecast) wefti_beside_table(s->ctx, s->out, s->run, s->forecast);
    text(s, "<div class=\"charts\">\n");
    put_loss_charts(s);
    put_wire_chart(s);
    put_plain_chart(s, &speed);
    put_step_charts(s);
    put_consensus(s);
    put_plain_chart(s, &learning_rate);
    put_plain_chart(s, &gradient_norm);
    text(s, "</div>\n");
    if (!config_text) return;
    text(s, "<details><summary>Configuration</summary><pre>");
    wefti_buffer_html(s->ctx, s->out, config_text);
    text(s, "</pre></details>\n");
}

/* ---- a run folder ---- */

static weft_status join(weft_ctx *ctx, const char *folder, const char *name, char *out) {
    if (snprintf(out, PATH_MAX, "%s/%s", folder, name) < PATH_MAX) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s/%s", folder, name);
}

/* NULL if the run has no config.yaml. */
static weft_status read_config(weft_ctx *ctx, const char *run_folder, char **config) {
    char path[PATH_MAX];
    int64_t n;
    *config = NULL;
    WEFT_TRY(join(ctx, run_folder, "config.yaml", path));
    if (access(path, F_OK) != 0 && errno == ENOENT) return WEFT_OK;
    return wefti_file_read(ctx, path, MAX_CONFIG_BYTES, config, &n);
}

/* Everything that the folder says besides its configuration. */
typedef struct material {
    wefti_run run;
    wefti_planned forecast;
    wefti_timeline timeline;
    bool planned;
} material;

static weft_status read_material(weft_ctx *ctx, const char *run_folder, material *m) {
    char metrics[PATH_MAX], plan[PATH_MAX], timeline[PATH_MAX];
    bool found;
    WEFT_TRY(join(ctx, run_folder, "metrics.jsonl", metrics));
    WEFT_TRY(join(ctx, run_folder, "plan.json", plan));
    WEFT_TRY(join(ctx, run_folder, "timeline.json", timeline));
    WEFT_TRY(wefti_run_read(ctx, metrics, &m->run));
    WEFT_TRY(wefti_planned_read(ctx, plan, &m->forecast, &m->planned));
    return wefti_timeline_read(ctx, timeline, &m->timeline, &found);
}

static void drop_material(weft_ctx *ctx, material *m) {
    wefti_run_fini(ctx, &m->run);
    wefti_planned_fini(ctx, &m->forecast);
    wefti_timeline_fini(ctx, &m->timeline);
}

static weft_status write_page(weft_ctx *ctx, const material *m, const char *config_text,
                              const char *title, const char *out_path) {
    wefti_buffer out = {0};
    sheet s = {ctx, &out, &m->run, m->planned ? &m->forecast : NULL, &m->timeline};
    wefti_page_begin(ctx, &out, title);
    put_page(&s, config_text);
    weft_status status = wefti_page_end(ctx, &out, out_path);
    wefti_buffer_fini(ctx, &out);
    return status;
}

weft_status weft_report_write(weft_ctx *ctx, const char *run_folder,
                              const char *out_path) {
    char out[PATH_MAX], whole[PATH_MAX], *config = NULL;
    material m = {.planned = false};
    WEFT_TRY(join(ctx, run_folder, "report.html", out));
    if (!realpath(run_folder, whole))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not open the run folder %s: %s",
                             run_folder, strerror(errno));
    const char *slash = strrchr(whole, '/');
    weft_status status = read_material(ctx, run_folder, &m);
    if (status == WEFT_OK) status = read_config(ctx, run_folder, &config);
    if (status == WEFT_OK)
        status = write_page(ctx, &m, config, slash ? slash + 1 : whole,
                            out_path ? out_path : out);
    wefti_free(ctx, config);
    drop_material(ctx, &m);
    return status;
}
