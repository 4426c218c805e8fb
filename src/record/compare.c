/* SPDX-License-Identifier: MIT */
/* A page that lays the losses of several runs over each other. Bytes are on a logarithmic
 * axis: methods differ by factors of a thousand. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/report.h>

#include "base/memory.h"
#include "record/chart.h"
#include "record/page.h"
#include "record/history.h"

typedef struct entry {
    char *name;        /* owned; of the folder */
    const char *label; /* borrowed */
    wefti_run run;
} entry;

typedef struct comparison {
    weft_ctx *ctx;
    entry *entries; /* owned; [n] */
    int n;
    wefti_series *series; /* owned; [2 n], for one chart at a time */
    wefti_part *parts;    /* owned; [3 n] */
    wefti_bar *bars;      /* owned; [n] */
    wefti_buffer out;
} comparison;

static int colour_of(int i) { return i % WEFTI_COLOURS + 1; }

/* ---- reading ---- */

static weft_status read_entry(weft_ctx *ctx, const char *folder, entry *out) {
    char path[PATH_MAX], whole[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/metrics.jsonl", folder) >= (int)sizeof path)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", folder);
    if (!realpath(folder, whole))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "could not open the run folder %s: %s",
                             folder, strerror(errno));
    const char *slash = strrchr(whole, '/');
    WEFT_TRY(wefti_strdup(ctx, slash ? slash + 1 : whole, &out->name));
    return wefti_run_read(ctx, path, &out->run);
}

/* Runs of the same name are called by their paths. */
static void choose_labels(comparison *c, const char *const *folders) {
    for (int i = 0; i < c->n; i++) {
        bool shared = false;
        for (int k = 0; k < c->n; k++)
            shared |= k != i && strcmp(c->entries[i].name, c->entries[k].name) == 0;
        c->entries[i].label = shared ? folders[i] : c->entries[i].name;
    }
}

static weft_status read_entries(comparison *c, const char *const *folders, int n) {
    WEFT_TRY(
        wefti_alloc_n(c->ctx, n, sizeof *c->entries, "runs to compare", &c->entries));
    WEFT_TRY(
        wefti_alloc_n(c->ctx, n, 2 * sizeof *c->series, "curves to compare", &c->series));
    WEFT_TRY(
        wefti_alloc_n(c->ctx, n, 3 * sizeof *c->parts, "bars to compare", &c->parts));
    WEFT_TRY(wefti_alloc_n(c->ctx, n, sizeof *c->bars, "bars to compare", &c->bars));
    for (int i = 0; i < n; i++) {
        c->n = i + 1; /* a half-read entry is freed too */
        WEFT_TRY(read_entry(c->ctx, folders[i], &c->entries[i]));
    }
    choose_labels(c, folders);
    return WEFT_OK;
}

/* ---- the table ---- */

static void put_cell(comparison *c, double value, wefti_axis kind) {
    wefti_buffer_text(c->ctx, &c->out, "<td>");
    wefti_put_short(c->ctx, &c->out, value, kind);
    wefti_buffer_text(c->ctx, &c->out, "</td>");
}

static void put_row(comparison *c, int i) {
    const wefti_rows *steps = &c->entries[i].run.steps;
    const wefti_rows *evaluations = &c->entries[i].run.evaluations;
    wefti_buffer_print(c->ctx, &c->out, "<tr><td><i style=\"--c:var(--s%d)\"></i>",
                       colour_of(i));
    wefti_buffer_html(c->ctx, &c->out, c->entries[i].label);
    wefti_buffer_text(c->ctx, &c->out, "</td>");
    put_cell(c, wefti_column_last(evaluations, WEFTI_VALIDATION), WEFTI_AXIS_PLAIN);
    put_cell(c, c->entries[i].run.loss, WEFTI_AXIS_PLAIN);
    put_cell(c, (double)steps->n, WEFTI_AXIS_COUNT);
    put_cell(c, wefti_column_sum(steps, WEFTI_TOKENS), WEFTI_AXIS_COUNT);
    put_cell(c, wefti_column_mean_over_time(steps, WEFTI_TOKENS_PER_S), WEFTI_AXIS_COUNT);
    put_cell(c, wefti_column_last(steps, WEFTI_ELAPSED), WEFTI_AXIS_TIME);
    put_cell(c, wefti_column_mean(steps, WEFTI_WIRE_OUT), WEFTI_AXIS_BYTES);
    put_cell(c, wefti_column_sum(steps, WEFTI_WIRE_OUT), WEFTI_AXIS_BYTES);
    put_cell(c, wefti_column_mean(steps, WEFTI_WAIT), WEFTI_AXIS_TIME);
    wefti_buffer_text(c->ctx, &c->out, "</tr>\n");
}

static void put_table(comparison *c) {
    wefti_buffer_text(
        c->ctx, &c->out,
        "<div class=\"table\"><table><tr><th>run</th><th>validation loss</th>"
        "<th>training loss</th><th>steps</th><th>tokens</th><th>tokens/s</th>"
        "<th>time</th><th>wire per step</th><th>wire in all</th>"
        "<th>wait per step</th></tr>\n");
    for (int i = 0; i < c->n; i++) put_row(c, i);
    wefti_buffer_text(c->ctx, &c->out, "</table></div>\n");
}

/* ---- charts ---- */

typedef struct loss_range {
    double top, most; /* of all runs, see history.h */
} loss_range;

static loss_range range_of_losses(const comparison *c) {
    loss_range r = {NAN, NAN};
    for (int i = 0; i < c->n; i++) {
        r.top = fmax(r.top, wefti_run_loss_top(&c->entries[i].run));
        r.most = fmax(r.most, wefti_run_loss_most(&c->entries[i].run));
    }
    return r;
}

/* The training loss is pale if there are validation losses to be read off. */
static wefti_series training_of(const entry *e, wefti_column x, int i) {
    const wefti_rows *s = &e->run.steps;
    int64_t n_dots = e->run.evaluations.n;
    return (wefti_series){.label = n_dots ? NULL : e->label,
                          .x = s->column[x],
                          .y = s->column[WEFTI_SMOOTH],
                          .n = s->n,
                          .colour = colour_of(i),
                          .mark = n_dots >= 2 ? WEFTI_MARK_FAINT : WEFTI_MARK_LINE};
}

static wefti_series validation_of(const entry *e, wefti_column x, int i) {
    const wefti_rows *v = &e->run.evaluations;
    return (wefti_series){.label = v->n ? e->label : NULL,
                          .x = v->column[x],
                          .y = v->column[WEFTI_VALIDATION],
                          .n = v->n,
                          .colour = colour_of(i),
                          .mark = WEFTI_MARK_DOTS};
}

static void put_chart(comparison *c, const char *title, wefti_column x,
                      const char *x_title, wefti_axis x_axis) {
    loss_range losses = range_of_losses(c);
    bool is_cut = losses.most < losses.top;
    for (int i = 0; i < c->n; i++) {
        c->series[i] = training_of(&c->entries[i], x, i);
        c->series[c->n + i] = validation_of(&c->entries[i], x, i); /* drawn on top */
    }
    wefti_chart chart = {.title = title,
                         .note = is_cut ? "dots: validation; cut off at the top"
                                        : "dots: validation",
                         .x_log = x == WEFTI_WIRE_TOTAL,
                         .x_title = x_title,
                         .y_title = "nats per token",
                         .x_axis = x_axis,
                         .y_most = is_cut ? losses.most : 0,
                         .series = c->series,
                         .n_series = 2 * c->n};
    wefti_chart_write(c->ctx, &c->out, &chart);
}

static void put_bars(comparison *c) {
    for (int i = 0; i < c->n; i++) {
        const wefti_rows *steps = &c->entries[i].run.steps;
        double compute = wefti_column_mean(steps, WEFTI_COMPUTE);
        double wait = wefti_column_mean(steps, WEFTI_WAIT);
        double rest = wefti_column_mean(steps, WEFTI_STEP_S) - compute - wait;
        wefti_part *parts = &c->parts[3 * i];
        parts[0] = (wefti_part){"compute", compute, 1};
        parts[1] = (wefti_part){"exposed wait", wait, 2};
        parts[2] = (wefti_part){"other", rest, 8};
        c->bars[i] = (wefti_bar){c->entries[i].label, parts, 3,
                                 i ? WEFTI_LEGEND_NONE : WEFTI_LEGEND_NAMES};
    }
    wefti_bars_write(c->ctx, &c->out, "Where the time of a step goes",
                     "mean of all steps", c->bars, c->n);
}

static void put_page(comparison *c) {
    bool any_wire = false;
    for (int i = 0; i < c->n; i++)
        any_wire |= wefti_column_last(&c->entries[i].run.steps, WEFTI_WIRE_TOTAL) > 0;
    wefti_page_begin(c->ctx, &c->out, "Comparison");
    wefti_buffer_print(c->ctx, &c->out, "<p>%d run%s.</p>\n", c->n, c->n == 1 ? "" : "s");
    put_table(c);
    wefti_buffer_text(c->ctx, &c->out, "<div class=\"charts\">\n");
    put_chart(c, "Loss over steps", WEFTI_STEP, "step", WEFTI_AXIS_COUNT);
    put_chart(c, "Loss over time", WEFTI_ELAPSED, "time", WEFTI_AXIS_TIME);
    if (any_wire)
        put_chart(c, "Loss over bytes on the wire", WEFTI_WIRE_TOTAL, "sent, logarithmic",
                  WEFTI_AXIS_BYTES);
    put_bars(c);
    wefti_buffer_text(c->ctx, &c->out, "</div>\n");
}

weft_status weft_report_compare(weft_ctx *ctx, const char *const *run_folders, int n,
                                const char *out_path) {
    comparison c = {.ctx = ctx};
    if (n < 1 || !run_folders || !out_path)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "a comparison needs at least one run folder and a path for the page");
    weft_status status = read_entries(&c, run_folders, n);
    if (status == WEFT_OK) {
        put_page(&c);
        status = wefti_page_end(ctx, &c.out, out_path);
    }
    for (int i = 0; i < c.n; i++) {
        wefti_free(ctx, c.entries[i].name);
        wefti_run_fini(ctx, &c.entries[i].run);
    }
    wefti_buffer_fini(ctx, &c.out);
    wefti_free(ctx, c.series);
    wefti_free(ctx, c.parts);
    wefti_free(ctx, c.bars);
    wefti_free(ctx, c.entries);
    return status;
}
