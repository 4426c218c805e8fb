/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/dataset.h>

#include "data/examples.h"
#include "data/mixing.h"
#include "data/source.h"

/* A stretch of a source, cut into windows: window w has the tokens first + w T +
 * (0..T-1) and the same places plus one as targets. */
typedef struct wefti_window_range {
    const wefti_source *source; /* borrowed */
    int64_t first, n_tokens;
    int64_t n_windows, window_start; /* floor((n_tokens - 1) / T); sum of those before */
} wefti_window_range;

/* Where the training part of a source ends, if `validation` (a share, 1: all of it) is cut off for
 * validation. Fails where a part has no window. */
weft_status wefti_source_cut(weft_ctx *ctx, const wefti_source *source, int64_t T,
                             double validation, int64_t *cut) WEFT_CHECKED;

struct weft_dataset {
    int64_t T;
    uint64_t seed, hash;   /* hash: of all that is in it */
    wefti_source *sources; /* [n_sources]: training, then validation files; owned */
    int n_sources;
    wefti_window_range *train; /* [n_train], owned */
    int n_train;
    wefti_window_range *validation; /* [n_validation], owned */
    int n_validation;
    int64_t train_windows, validation_windows;
    bool mixed; /* by weights, else all training windows are one pool */
    wefti_mixing mixing;
    double bytes_per_token;
    /* Rows that are examples, not windows (exampleset.c); owned. The counts of windows
     * above are then theirs. */
    wefti_examples *train_examples, *validation_examples;
};

/* Takes consecutive tokens of a part; `fresh`: the first call for this part. */
typedef weft_status (*wefti_token_visitor)(weft_ctx *ctx, void *user, const int32_t *ids,
                                           int64_t n, bool fresh);

/* Hands the first n_tokens of a part to `visit`, in blocks. */
weft_status wefti_part_visit(weft_ctx *ctx, const wefti_window_range *part,
                             int64_t n_tokens, wefti_token_visitor visit,
                             void *user) WEFT_CHECKED;

/* How many tokens of a part are in windows, the last target included. */
static inline int64_t wefti_part_used(const wefti_window_range *part, int64_t T) {
    return part->n_windows * T + 1;
}

/* A dataset whose rows are examples: what dataset.c asks where d->train_examples is there.
 * Epoch e visits the training examples in the order of a permutation of (seed, e). */
weft_status wefti_exampleset_open(weft_ctx *ctx, weft_dataset *d,
                                  const weft_dataset_config *config,
                                  const weft_tokenizer *tokenizer) WEFT_CHECKED;
void wefti_exampleset_close(weft_ctx *ctx, weft_dataset *d);

void wefti_exampleset_train_row(const weft_dataset *d, int64_t row, int32_t *tokens,
                                int32_t *targets);
void wefti_exampleset_validation_row(const weft_dataset *d, int64_t row, int32_t *tokens,
                                     int32_t *targets);
int64_t wefti_exampleset_train_targets(const weft_dataset *d, int64_t row);
int64_t wefti_exampleset_validation_targets(const weft_dataset *d, int64_t row);

/* Of all rows, of training and validation. */
uint64_t wefti_exampleset_hash(const weft_dataset *d);

/* Writes a line for a person. */
void wefti_exampleset_describe(const weft_dataset *d, char *out, size_t size);
