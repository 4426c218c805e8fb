/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "record/metrics.h"

/* What metrics.jsonl says of a run, as columns. */

/* COLUMN(id, name in metrics.jsonl) of what is read. A line stands for STEPS steps, of which
 * its times, rates and bytes are means; NAN: for one. */
/* clang-format off */
#define WEFTI_COLUMNS_READ(COLUMN) \
    COLUMN(STEP, "step") COLUMN(LOSS, "loss") COLUMN(LR, "lr") \
    COLUMN(GRAD_NORM, "grad_norm") COLUMN(UPDATE_NORM, "update_norm") \
    COLUMN(TOKENS, "tokens") COLUMN(TOKENS_PER_S, "tokens_per_s") COLUMN(MFU, "mfu") \
    COLUMN(MEMORY, "memory_bytes") COLUMN(MEMORY_RANK, "memory_rank_bytes") \
    COLUMN(WIRE_OUT, "wire_bytes_out") COLUMN(WIRE_IN, "wire_bytes_in") \
    COLUMN(LOCAL_OUT, "local_bytes_out") COLUMN(LATE, "late") COLUMN(COMPUTE, "compute_s") \
    COLUMN(EXCHANGE, "exchange_s") COLUMN(WAIT, "wait_s") COLUMN(STEP_S, "step_s") \
    COLUMN(ELAPSED, "elapsed_s") COLUMN(VALIDATION, "validation_loss") \
    COLUMN(BIGRAM, "bigram_loss") COLUMN(CONSENSUS, "consensus_distance") \
    COLUMN(EXACT_CONSENSUS, "exact_consensus_distance") \
    COLUMN(LOCAL_VALIDATION, "local_validation_loss") COLUMN(PARTICIPATION, "participation") \
    COLUMN(SUSPECT, "suspect_node") COLUMN(STEPS, "steps")
/* clang-format on */

#define WEFTI_COLUMN_ID(id, name) WEFTI_##id,
typedef enum wefti_column {
    WEFTI_COLUMNS_READ(WEFTI_COLUMN_ID) WEFTI_N_READ,
    WEFTI_WIRE_TOTAL =
        WEFTI_N_READ, /* made from them: wire bytes out since the first step, */
    WEFTI_SMOOTH,     /* moving mean of the loss */
    WEFTI_N_COLUMNS
} wefti_column;

/* NAN where nothing is known. */
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
