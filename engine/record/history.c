/* SPDX-License-Identifier: MIT */
/* A run's metrics as two tables, column by column:
 *
 *     metrics.jsonl --> a line of numbers --> steps         loss, bytes, times of a step
 *                                             evaluations   losses on held-out text
 *
 * What a line does not say is NaN, and NaN counts in no sum. wire_total is the sum of the wire
 * bytes so far.
 * The moving mean of a loss at step i is the mean over i-h..i+h with h = min(half, i),
 * cut at the last step: it follows a falling curve without lag. */
#include "record/history.h"

#include <math.h>

#include "base/memory.h"
#include "base/stats.h"

#define NAME(id, name) name,
static const char *const names[] = {WEFTI_COLUMNS_READ(NAME) "wire_total", "smooth_loss"};

const char *wefti_column_name(wefti_column column) { return names[column]; }

static weft_status rows_init(weft_ctx *ctx, int64_t n, wefti_rows *out) {
    double *block;
    WEFT_TRY(wefti_alloc_n(ctx, n, WEFTI_N_COLUMNS * sizeof(double), "a run's metrics",
                           &block));
    for (int c = 0; c < WEFTI_N_COLUMNS; c++) out->column[c] = block + c * n;
    return WEFT_OK;
}

/* A line of a training step has numbers that an evaluation's line has not. */
static bool is_step(const double *row) {
    return !isnan(row[WEFTI_LOSS]) || !isnan(row[WEFTI_TOKENS]) ||
           !isnan(row[WEFTI_STEP_S]);
}

static bool is_evaluation(const double *row) {
    return !isnan(row[WEFTI_VALIDATION]) || !isnan(row[WEFTI_BIGRAM]);
}

static void add_row(wefti_rows *rows, const double *row, double wire_total) {
    for (int c = 0; c < WEFTI_N_READ; c++) rows->column[c][rows->n] = row[c];
    rows->column[WEFTI_WIRE_TOTAL][rows->n] = wire_total;
    rows->column[WEFTI_SMOOTH][rows->n] = NAN;
    rows->n++;
}

/* Not finite, or so large that sums could overflow. */
static bool is_usable(double x) { return fabs(x) <= 1e100; }

/* Mean of the usable losses of steps begin..end-1. */
static double mean_loss(const wefti_rows *s, int64_t begin, int64_t end) {
    double sum = 0;
    int64_t n = 0;
    for (int64_t i = begin; i < end; i++) {
        double x = s->column[WEFTI_LOSS][i];
        if (is_usable(x)) sum += x, n++;
    }
    return n ? sum / (double)n : (double)NAN;
}

/* Steps that a line stands for. */
static double weight_of(double steps) {
    return steps >= 1 && is_usable(steps) ? steps : 1;
}

enum { RECENT = 50 }; /* steps whose mean loss weft train prints at the end */

static void smooth(wefti_run *run) {
    wefti_rows *s = &run->steps;
    int64_t half = s->n / 100 > 50 ? 50 : s->n / 100;
    run->smoothing = 2 * half + 1;
    run->loss = NAN;
    for (int64_t i = 0; i < s->n; i++) {
        int64_t h = i < half ? i : half;
        int64_t end = i + h + 1 < s->n ? i + h + 1 : s->n;
        if (is_usable(s->column[WEFTI_LOSS][i]))
            s->column[WEFTI_SMOOTH][i] = mean_loss(s, i - h, end);
    }
    int64_t first = s->n;
    for (double steps = 0; first > 0 && steps < RECENT;)
        steps += weight_of(s->column[WEFTI_STEPS][--first]);
    if (first < s->n && is_usable(s->column[WEFTI_LOSS][s->n - 1]))
        run->loss = mean_loss(s, first, s->n);
}

static weft_status find_median(weft_ctx *ctx, wefti_run *run) {
    const double *column = run->steps.column[WEFTI_STEP_S];
    double *sorted;
    int64_t n = 0;
    WEFT_TRY(wefti_alloc_n(ctx, run->steps.n, sizeof *sorted, "times of steps", &sorted));
    for (int64_t i = 0; i < run->steps.n; i++)
        if (is_usable(column[i])) sorted[n++] = column[i];
    run->step_s = wefti_median(sorted, n);
    wefti_free(ctx, sorted);
    return WEFT_OK;
}

/* table: [n, WEFTI_N_READ] */
static weft_status fill(weft_ctx *ctx, const double *table, int64_t n, wefti_run *run) {
    double wire_total = 0;
    int64_t n_steps = 0, n_evaluations = 0;
    for (int64_t i = 0; i < n; i++) {
        n_steps += is_step(table + i * WEFTI_N_READ);
        n_evaluations += is_evaluation(table + i * WEFTI_N_READ);
    }
    WEFT_TRY(rows_init(ctx, n_steps, &run->steps));
    WEFT_TRY(rows_init(ctx, n_evaluations, &run->evaluations));
    for (int64_t i = 0; i < n; i++) {
        const double *row = table + i * WEFTI_N_READ;
        if (is_step(row)) {
            if (row[WEFTI_WIRE_OUT] > 0)
                wire_total += row[WEFTI_WIRE_OUT] * weight_of(row[WEFTI_STEPS]);
            add_row(&run->steps, row, wire_total);
            run->steps.column[WEFTI_VALIDATION][run->steps.n - 1] = NAN;
        }
        if (is_evaluation(row)) add_row(&run->evaluations, row, wire_total);
    }
    smooth(run);
    return find_median(ctx, run);
}

weft_status wefti_run_follow(weft_ctx *ctx, const char *path, wefti_metrics_feed *feed,
                             wefti_run *out) {
    *out = (wefti_run){0};
    WEFT_TRY(wefti_metrics_follow(ctx, path, names, WEFTI_N_READ, feed));
    weft_status status = fill(ctx, feed->rows, feed->n, out);
    if (status != WEFT_OK) wefti_run_fini(ctx, out);
    return status;
}

void wefti_run_fini(weft_ctx *ctx, wefti_run *run) {
    WEFTI_FREE(ctx, run->steps.column[0], run->evaluations.column[0]);
    *run = (wefti_run){0};
}

/* ---- summaries ---- */

double wefti_run_hidden_share(const wefti_run *run) {
    double exchange = wefti_column_sum(&run->steps, WEFTI_EXCHANGE);
    double wait = wefti_column_sum(&run->steps, WEFTI_WAIT);
    if (!(exchange > 0)) return NAN;
    return wait > exchange ? 0 : 1 - wait / exchange;
}

double wefti_column_last(const wefti_rows *rows, wefti_column column) {
    for (int64_t i = rows->n - 1; i >= 0; i--)
        if (isfinite(rows->column[column][i])) return rows->column[column][i];
    return NAN;
}

typedef struct totals {
    double sum, least, greatest;
    int64_t n;
} totals;

static totals add_up_part(const wefti_rows *rows, wefti_column column, int64_t begin,
                          int64_t end) {
    totals t = {0, NAN, NAN, 0};
    for (int64_t i = begin; i < end; i++) {
        double x = rows->column[column][i];
        if (!isfinite(x)) continue;
        t.sum += x;
        t.least = fmin(t.least, x);
        t.greatest = fmax(t.greatest, x);
        t.n++;
    }
    return t;
}

static totals add_up(const wefti_rows *rows, wefti_column column) {
    return add_up_part(rows, column, 0, rows->n);
}

double wefti_column_mean(const wefti_rows *rows, wefti_column column) {
    totals t = add_up(rows, column);
    return t.n ? t.sum / (double)t.n : (double)NAN;
}

double wefti_column_sum(const wefti_rows *rows, wefti_column column) {
    totals t = add_up(rows, column);
    return t.n ? t.sum : (double)NAN;
}

double wefti_column_total(const wefti_rows *rows, wefti_column column) {
    double sum = 0, n = 0;
    for (int64_t i = 0; i < rows->n; i++) {
        double x = rows->column[column][i];
        if (!isfinite(x)) continue;
        sum += x * weight_of(rows->column[WEFTI_STEPS][i]);
        n++;
    }
    return n > 0 ? sum : (double)NAN;
}

double wefti_column_mean_over_time(const wefti_rows *rows, wefti_column column) {
    double sum = 0, time = 0;
    for (int64_t i = 0; i < rows->n; i++) {
        double x = rows->column[column][i], s = rows->column[WEFTI_STEP_S][i];
        if (!isfinite(x) || !isfinite(s) || s <= 0) continue;
        s *= weight_of(rows->column[WEFTI_STEPS][i]);
        sum += x * s;
        time += s;
    }
    return time > 0 ? sum / time : wefti_column_mean(rows, column);
}

double wefti_column_least(const wefti_rows *rows, wefti_column column) {
    return add_up(rows, column).least;
}

double wefti_column_greatest(const wefti_rows *rows, wefti_column column) {
    return add_up(rows, column).greatest;
}

/* ---- fewer rows ---- */

wefti_part wefti_column_part(const wefti_rows *rows, wefti_column column, int64_t begin,
                             int64_t end) {
    totals t = add_up_part(rows, column, begin, end);
    wefti_part part = {t.n ? t.sum / (double)t.n : (double)NAN, t.least, t.greatest};
    bool adds_up = column == WEFTI_STEP || column == WEFTI_ELAPSED ||
                   column == WEFTI_WIRE_TOTAL || column == WEFTI_SMOOTH ||
                   column == WEFTI_SUSPECT;
    while (adds_up && end > begin && !isfinite(rows->column[column][end - 1])) end--;
    if (adds_up && end > begin)
        part.value = part.low = part.high = rows->column[column][end - 1];
    return part;
}
