/* SPDX-License-Identifier: MIT */
#include "record/beside.h"

#include <math.h>

#include "record/chart.h"

static double mean(const wefti_run *run, wefti_column c) {
    return wefti_column_mean(&run->steps, c);
}

/* ---- the table ---- */

typedef struct row {
    const char *name;
    wefti_axis kind;
    bool is_share;
    double predicted, measured;
} row;

static void put_value(weft_ctx *ctx, wefti_buffer *out, const row *r, double value) {
    wefti_buffer_text(ctx, out, "<td>");
    if (r->is_share && isfinite(value)) {
        wefti_buffer_fixed(ctx, out, 100 * value, 0);
        wefti_buffer_text(ctx, out, " %");
    } else {
        wefti_put_short(ctx, out, value, r->kind);
    }
    wefti_buffer_text(ctx, out, "</td>");
}

/* How far the measured value is from the predicted one; of shares nothing is said. */
static void put_difference(weft_ctx *ctx, wefti_buffer *out, const row *r) {
    double share = r->measured / r->predicted - 1;
    wefti_buffer_text(ctx, out, "<td>");
    if (!r->is_share && isfinite(share)) {
        wefti_buffer_text(ctx, out, share > 0 ? "+" : "");
        wefti_buffer_fixed(ctx, out, 100 * share, 0);
        wefti_buffer_text(ctx, out, " %");
    }
    wefti_buffer_text(ctx, out, "</td></tr>\n");
}

void wefti_beside_table(weft_ctx *ctx, wefti_buffer *out, const wefti_run *run,
                        const wefti_planned *f) {
    const row rows[] = {
        {"time of a step (median)", WEFTI_AXIS_TIME, false, f->median_s, run->step_s},
        {"time of a step (mean)", WEFTI_AXIS_TIME, false, f->mean_s,
         mean(run, WEFTI_STEP_S)},
        {"computing", WEFTI_AXIS_TIME, false, f->compute_s, mean(run, WEFTI_COMPUTE)},
        {"exchange", WEFTI_AXIS_TIME, false, f->exchange_s, mean(run, WEFTI_EXCHANGE)},
        {"of it waited for", WEFTI_AXIS_TIME, false, f->wait_s, mean(run, WEFTI_WAIT)},
        {"exchange hidden", WEFTI_AXIS_PLAIN, true, f->hidden_share,
         wefti_run_hidden_share(run)},
        {"tokens per second", WEFTI_AXIS_COUNT, false, f->tokens_per_s,
         wefti_column_mean_over_time(&run->steps, WEFTI_TOKENS_PER_S)},
        {"sent per step and node", WEFTI_AXIS_BYTES, false, f->wire_bytes,
         mean(run, WEFTI_WIRE_OUT)}};
    wefti_buffer_text(ctx, out,
                      "<div class=\"table\"><table><tr><th>plan and run</th>"
                      "<th>predicted</th><th>measured</th><th>difference</th></tr>\n");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wefti_buffer_text(ctx, out, "<tr><td>");
        wefti_buffer_html(ctx, out, rows[i].name);
        wefti_buffer_text(ctx, out, "</td>");
        put_value(ctx, out, &rows[i], rows[i].predicted);
        put_value(ctx, out, &rows[i], rows[i].measured);
        put_difference(ctx, out, &rows[i]);
    }
    wefti_buffer_text(ctx, out, "</table></div>\n");
}

/* ---- the chart ---- */

void wefti_beside_chart(weft_ctx *ctx, wefti_buffer *out, const wefti_run *run,
                        const wefti_planned *f) {
    const wefti_rows *s = &run->steps;
    if (s->n == 0) return;
    double ends[2] = {s->column[WEFTI_STEP][0], s->column[WEFTI_STEP][s->n - 1]};
    double low[2] = {f->low_s, f->low_s}, high[2] = {f->high_s, f->high_s};
    double middle[2] = {f->median_s, f->median_s};
    wefti_series series[] = {{"measured", s->column[WEFTI_STEP], s->column[WEFTI_STEP_S],
                              s->n, 1, WEFTI_MARK_THIN},
                             {"predicted", ends, middle, 2, 2, WEFTI_MARK_LINE},
                             {"5 and 95 %", ends, low, 2, 2, WEFTI_MARK_DASH},
                             {NULL, ends, high, 2, 2, WEFTI_MARK_DASH}};
    double most = 3 * fmax(fmax(run->step_s, f->high_s), f->median_s);
    bool is_cut = wefti_column_greatest(s, WEFTI_STEP_S) > most;
    wefti_chart chart = {.title = "Time of a step",
                         .note = is_cut ? "cut off at the top" : NULL,
                         .x_title = "step",
                         .y_title = "",
                         .x_axis = WEFTI_AXIS_COUNT,
                         .y_axis = WEFTI_AXIS_TIME,
                         .y_from_zero = true,
                         .y_most = is_cut ? most : 0,
                         .series = series,
                         .n_series = f->low_s < f->high_s ? 4 : 2};
    wefti_chart_write(ctx, out, &chart);
}

/* ---- the budget ---- */

enum { COMPUTE, WIRE, LATE, CODEC, OTHER, STEP_PARTS };
enum { HIDDEN, SEEN, EXCHANGE_PARTS };

void wefti_beside_budget(weft_ctx *ctx, wefti_buffer *out, const wefti_run *run,
                         const wefti_planned *f) {
    double compute = mean(run, WEFTI_COMPUTE), wait = mean(run, WEFTI_WAIT);
    double exchange = mean(run, WEFTI_EXCHANGE);
    double rest = mean(run, WEFTI_STEP_S) - compute - wait;
    wefti_part step[] = {
        {"compute", compute, 1}, {"exposed wait", wait, 2}, {"other", rest, 8}};
    wefti_part wire[] = {{"exchange hidden behind compute", exchange - wait, 3},
                         {"exchange waited for", fmin(wait, exchange), 2}};
    wefti_part planned[STEP_PARTS], planned_wire[EXCHANGE_PARTS];
    wefti_bar bars[4] = {{"step", step, 3, WEFTI_LEGEND_VALUES}};
    int n = 1;
    if (exchange > 0) bars[n++] = (wefti_bar){"exchange", wire, 2, WEFTI_LEGEND_VALUES};
    if (f) {
        planned[COMPUTE] = (wefti_part){"compute", f->compute_s, 1};
        planned[WIRE] = (wefti_part){"wait for bytes", f->wait_wire_s, 2};
        planned[LATE] = (wefti_part){"wait for late ranks", f->wait_late_s, 5};
        planned[CODEC] = (wefti_part){"wait for coding", f->wait_codec_s, 7};
        double sum = f->compute_s + f->wait_wire_s + f->wait_late_s + f->wait_codec_s;
        planned[OTHER] = (wefti_part){"other wait", f->compute_s + f->wait_s - sum, 8};
        planned_wire[HIDDEN] = (wefti_part){"hidden", f->exchange_s - f->wait_s, 3};
        planned_wire[SEEN] = (wefti_part){"waited for", fmin(f->wait_s, f->exchange_s),
                                          2};
        bars[n++] = (wefti_bar){"step, predicted", planned, STEP_PARTS,
                                WEFTI_LEGEND_NONE};
        if (f->exchange_s > 0)
            bars[n++] = (wefti_bar){"exchange, predicted", planned_wire, EXCHANGE_PARTS,
                                    WEFTI_LEGEND_NONE};
    }
    wefti_bars_write(ctx, out, "Where the time of a step goes", "mean of all steps", bars,
                     n);
}
