/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "record/metrics.h"

/* What metrics.jsonl says of a run, as columns. */

typedef enum wefti_column {
    WEFTI_STEP,
    WEFTI_LOSS,
    WEFTI_LR,
    WEFTI_GRAD_NORM,
    WEFTI_UPDATE_NORM,
    WEFTI_TOKENS,
    WEFTI_TOKENS_PER_S,
    WEFTI_MFU,
    WEFTI_MEMORY,
    WEFTI_MEMORY_RANK,
    WEFTI_WIRE_OUT,
    WEFTI_WIRE_IN,
    WEFTI_LOCAL_OUT,
    WEFTI_LATE,
    WEFTI_COMPUTE,
    WEFTI_EXCHANGE,
    WEFTI_WAIT,
    WEFTI_STEP_S,
    WEFTI_ELAPSED,
    WEFTI_VALIDATION,
    WEFTI_BIGRAM,
    WEFTI_CONSENSUS,
    WEFTI_EXACT_CONSENSUS,
    WEFTI_LOCAL_VALIDATION,
    WEFTI_PARTICIPATION,
    WEFTI_SUSPECT,
    WEFTI_STEPS, /* that a line stands for: its times, rates and bytes are means; NAN: one */
    WEFTI_N_READ,                    /* columns that are read; below: made from them */
    WEFTI_WIRE_TOTAL = WEFTI_N_READ, /* wire bytes out since the first step */
    WEFTI_SMOOTH,                    /* moving mean of the loss */
    WEFTI_N_COLUMNS
} wefti_column;

/* NAN where nothing was said. */
typedef struct wefti_rows {
    int64_t n;
    double *column[WEFTI_N_COLUMNS]; /* [n] each; one block, owned */
} wefti_rows;

typedef struct wefti_run {
    wefti_rows steps;       /* of training; VALIDATION and BIGRAM are NAN */
    wefti_rows evaluations; /* STEP, ELAPSED, WIRE_TOTAL, VALIDATION and BIGRAM count */
    int64_t smoothing;      /* steps of the moving mean; 1: none */
    double step_s;          /* median time of a step; NAN: none */
    double loss;            /* mean of the last 50 steps; NAN: none, or the last one */
} wefti_run;

/* Reads <path>, of a feed only what is new; a feed that began zeroed is freed by the caller
 * (feed->rows). On failure *out owns nothing. */
weft_status wefti_run_read(weft_ctx *ctx, const char *path, wefti_run *out) WEFT_CHECKED;
weft_status wefti_run_follow(weft_ctx *ctx, const char *path, wefti_metrics_feed *feed,
                             wefti_run *out) WEFT_CHECKED;
void wefti_run_fini(weft_ctx *ctx, wefti_run *run);

/* Share of the exchange that no step waited for; NAN if there was no exchange. */
double wefti_run_hidden_share(const wefti_run *run);

/* The last finite number of a column; NAN if there is none. */
double wefti_column_last(const wefti_rows *rows, wefti_column column);
/* Mean and sum of the finite numbers; NAN if there are none. */
double wefti_column_mean(const wefti_rows *rows, wefti_column column);
double wefti_column_sum(const wefti_rows *rows, wefti_column column);
/* Sum over all steps that the rows stand for. */
double wefti_column_total(const wefti_rows *rows, wefti_column column);
/* Mean over the time of the steps, not over their number. */
double wefti_column_mean_over_time(const wefti_rows *rows, wefti_column column);
double wefti_column_least(const wefti_rows *rows, wefti_column column);
double wefti_column_greatest(const wefti_rows *rows, wefti_column column);

/* The name of a column in metrics.jsonl; wire_total and smooth_loss are made from them.
 */
const char *wefti_column_name(wefti_column column);

/* What is drawn of rows begin..end-1 of a column: the mean of its finite numbers, of what adds
 * up the last one, and the least and the greatest. NAN: there is none. */
typedef struct wefti_part {
    double value, low, high;
} wefti_part;

wefti_part wefti_column_part(const wefti_rows *rows, wefti_column column, int64_t begin,
                             int64_t end);
