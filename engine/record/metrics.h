/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include <weft/ctx.h>

/* metrics.jsonl: one JSON object per line, appended as the run goes on. These names are
 * known to the report; all are of one step and, bytes, of one node's interface; only
 * elapsed_s adds up.
 *
 *   each step    step, loss (nats per token), lr, grad_norm, update_norm, tokens (of all
 *                ranks), tokens_per_s, mfu, memory_bytes (held by this rank),
 *                wire_bytes_out, wire_bytes_in (between nodes), local_bytes_out,
 *                local_bytes_in (inside the node), compute_s, exchange_s (of the exchange
 *                thread), wait_s (the part of it that the step waited for), hidden_share
 *                (the rest of it, 0..1), step_s, elapsed_s (since the run began)
 *   thinned out  also steps (that the line stands for: its times, rates and bytes are their
 *                means) and mean_loss
 *   evaluation   step, elapsed_s, validation_loss, and bigram_loss in the last one */

typedef enum wefti_metric_kind {
    WEFTI_METRIC_INT,
    WEFTI_METRIC_REAL, /* written as null if it is not finite */
    WEFTI_METRIC_TEXT
} wefti_metric_kind;

typedef struct wefti_metric {
    const char *name; /* borrowed */
    wefti_metric_kind kind;
    int64_t integer; /* the one of the kind counts */
    double real;
    const char *text; /* borrowed; NULL is written as null */
} wefti_metric;

typedef struct wefti_metrics wefti_metrics;

enum { WEFTI_METRICS_ROOM = 16 << 20 }; /* bytes of lines that may wait */

/* Opens `path` for appending. Lines of an older run with "step" >= first_step and a last
 * line that a crash cut off are dropped first (the file is written aside and renamed), so
 * that a run resumed at first_step has each step once; first_step = 0 begins with an
 * empty file. Any other line that is not a JSON object is dropped with a warning. The name
 * gets a file of its own in any case: what a former writer, which slept, still writes into
 * its open file reaches nobody. */
weft_status wefti_metrics_open(weft_ctx *ctx, const char *path, int64_t first_step,
                               wefti_metrics **out) WEFT_CHECKED;

/* Appends a line with one write. Allocates nothing unless the line is longer than any
 * before and than 4 KiB, or waits in memory because the disk refuses it (append.h). */
weft_status wefti_metrics_write(weft_ctx *ctx, wefti_metrics *metrics,
                                const wefti_metric *row, int n) WEFT_CHECKED;

/* The lines so far are on the disk; an error while some wait. */
weft_status wefti_metrics_sync(weft_ctx *ctx, wefti_metrics *metrics) WEFT_CHECKED;

/* Syncs and closes; NULL is accepted. */
weft_status wefti_metrics_close(weft_ctx *ctx, wefti_metrics *metrics) WEFT_CHECKED;

/* A file that grows, read as far as it went before. Zeroed: not read yet. */
typedef struct wefti_metrics_feed {
    double *rows;        /* [n, n_names] owned (wefti_free); NAN where nothing is known */
    int64_t n, capacity; /* rows */
    int64_t settled;     /* rows of lines that are whole */
    int64_t n_read, n_lines; /* bytes and lines of those */
    char end[256];           /* their last bytes: another file has others */
} wefti_metrics_feed;

/* Reads the lines that have come since; the whole file where it is another one now. A last line
 * without its end may come again. A line that is not a JSON object is left out, with a warning
 * unless it is that last one. n_names is the same at each call. On failure the feed stays
 * as it was, or is read anew. */
weft_status wefti_metrics_follow(weft_ctx *ctx, const char *path,
                                 const char *const *names, int n_names,
                                 wefti_metrics_feed *feed) WEFT_CHECKED;

/* The whole file at once. [out] *rows: [*n_rows, n_names], owned by the caller (wefti_free). */
weft_status wefti_metrics_read(weft_ctx *ctx, const char *path, const char *const *names,
                               int n_names, double **rows, int64_t *n_rows) WEFT_CHECKED;

/* Calls `take` for each line that is a JSON object. */
weft_status wefti_metrics_each(weft_ctx *ctx, const char *path,
                               weft_status (*take)(void *user, const json_t *object),
                               void *user) WEFT_CHECKED;

/* The newest "step" of the last lines; 0: no such line, or no file. */
weft_status wefti_metrics_newest(weft_ctx *ctx, const char *path,
                                 int64_t *step) WEFT_CHECKED;

/* Fails with WEFT_ERR_FORMAT if a line is not a JSON object; one that a crash cut off at
 * the end is fine. [out] *n_lines: whole ones. */
weft_status wefti_metrics_check(weft_ctx *ctx, const char *path,
                                int64_t *n_lines) WEFT_CHECKED;
