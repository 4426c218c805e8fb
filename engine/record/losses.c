/* SPDX-License-Identifier: MIT */
/* A line of metrics.jsonl is the loss that its writer has read: the mean over the ranks whose rows
 * counted for it. The first rank of a view writes, and is played with everything that was sent to
 * it. At the end of a view it may be lost; who is left has no status of those that were lost with
 * it and counted nowhere, and writes its last lines.
 *
 *     the loss that any rank has played                             it is the same
 *     another, and a rank has played with as many as the line says  it differs
 *     another, and nobody has                                       not known: its writer was lost
 */
#include "record/losses.h"

#include <math.h>
#include <stdio.h>

#include "base/memory.h"
#include "record/metrics.h"

enum { STEP, LOSS, PARTICIPATION, COLUMNS };

weft_status wefti_losses_read(weft_ctx *ctx, const char *path, wefti_losses *out) {
    static const char *const names[] = {"step", "loss", "participation"};
    return wefti_metrics_read(ctx, path, names, COLUMNS, &out->rows, &out->n_rows);
}

void wefti_losses_fini(weft_ctx *ctx, wefti_losses *l) {
    WEFTI_FREE(ctx, l->rows, l->played);
    *l = (wefti_losses){0};
}

static const double *row_at(const wefti_losses *l, int64_t i) {
    return l->rows + COLUMNS * i;
}

int64_t wefti_losses_newest(const wefti_losses *l, int64_t last, int64_t most) {
    for (int64_t i = 0; i < l->n_rows; i++) {
        const double *row = row_at(l, i);
        if (row[STEP] > (double)last && !isnan(row[LOSS]) && row[STEP] <= (double)most)
            last = (int64_t)row[STEP];
    }
    return last;
}

weft_status wefti_losses_begin(weft_ctx *ctx, wefti_losses *l, int n_ranks) {
    wefti_free(ctx, l->played);
    l->played = NULL;
    l->n_ranks = n_ranks;
    l->n_open = 0;
    return wefti_alloc_n(ctx, (int64_t)n_ranks * WEFTI_RECENT, sizeof *l->played,
                         "the last losses", &l->played);
}

static wefti_played_step *played_at(const wefti_losses *l, int rank, int64_t step) {
    return &l->played[(int64_t)rank * WEFTI_RECENT + step % WEFTI_RECENT];
}

/* The line of a step that has a loss; NULL: there is none, or it is an evaluation's. */
static const double *row_of(wefti_losses *l, int64_t step) {
    while (l->next_row < l->n_rows && !(row_at(l, l->next_row)[STEP] >= (double)step))
        l->next_row++;
    const double *row = row_at(l, l->next_row);
    if (l->next_row == l->n_rows || row[STEP] != (double)step) return NULL;
    l->next_row++;
    return isnan(row[LOSS]) ? NULL : row;
}

static void differ(wefti_losses *l, const double *row, double loss) {
    if (l->wrong_step > 0) return;
    l->wrong_step = (int64_t)row[STEP];
    snprintf(l->wrong, sizeof l->wrong,
             "the loss of step %lld is %.9g, metrics.jsonl has %.9g",
             (long long)l->wrong_step, loss, row[LOSS]);
}

void wefti_losses_played(wefti_losses *l, int rank, const wefti_played_step *step,
                         int64_t end) {
    *played_at(l, rank, step->step) = *step;
    const double *row = rank == 0 ? row_of(l, step->step) : NULL;
    if (!row) return;
    if (row[LOSS] == step->loss)
        l->n_equal++;
    else if (step->step <= end - WEFTI_RECENT)
        differ(l, row, step->loss);
    else
        l->open[l->n_open++] = l->next_row - 1;
}

static void compare(weft_ctx *ctx, wefti_losses *l, const double *row) {
    const wefti_played_step *as_many = NULL;
    for (int r = 0; r < l->n_ranks; r++) {
        const wefti_played_step *p = played_at(l, r, (int64_t)row[STEP]);
        if (p->step != (int64_t)row[STEP]) continue;
        if (p->loss == row[LOSS]) {
            l->n_equal++;
            return;
        }
        bool others = fabs(p->share - row[PARTICIPATION]) > 1e-6;
        if (!others && !as_many) as_many = p; /* a line without a share: all ranks */
    }
    if (as_many)
        differ(l, row, as_many->loss);
    else
        weft_ctx_log(
            ctx, WEFT_LOG_WARN,
            "the loss of step %.0f is not compared: the rows of %.0f of %d ranks "
            "count in metrics.jsonl, and nobody who is played has heard as many: "
            "who wrote it was lost, too",
            row[STEP], row[PARTICIPATION] * l->n_ranks, l->n_ranks);
}

void wefti_losses_end(weft_ctx *ctx, wefti_losses *l) {
    for (int i = 0; i < l->n_open; i++) compare(ctx, l, row_at(l, l->open[i]));
}
