/* SPDX-License-Identifier: MIT */
/* Examples for training and validation.
 *
 *     row -> (epoch e = row / n, k = permutation(seed, e) of row mod n)
 *
 * Without files for validation, the last share of one permutation of all examples is held
 * back, the same whatever the run's seed: images come sorted by class, so that their last
 * ones would be of one class. */
#include "data/windows.h"

#include <math.h>
#include <stdio.h>

#include "base/rng.h"

/* What the permutation that holds back is drawn from; no epoch has this number. */
enum { HELD_SEED = 1 };
#define HELD_EPOCH ((uint64_t)1 << 62)

/* Example at place k of the permutation that parts training from validation. */
static int64_t parted(const weft_dataset *d, int64_t k) {
    const wefti_examples *e = d->train_examples;
    if (d->validation_examples || d->validation_windows == 0) return k;
    return wefti_rng_permute(HELD_SEED, WEFTI_STREAM_DATA, HELD_EPOCH, e->n, k);
}

static int64_t train_example(const weft_dataset *d, int64_t row) {
    int64_t n = d->train_windows;
    uint64_t epoch = (uint64_t)(row / n);
    return parted(d, wefti_rng_permute(d->seed, WEFTI_STREAM_DATA, epoch, n, row % n));
}

/* Where a validation row lies: *e and its number there. */
static int64_t validation_example(const weft_dataset *d, int64_t row,
                                  const wefti_examples **e) {
    int64_t k = row % d->validation_windows;
    *e = d->validation_examples;
    if (*e) return k;
    *e = d->train_examples;
    return parted(d, d->train_windows + k);
}

static weft_status check(weft_ctx *ctx, const weft_dataset_config *config) {
    if (config->weights)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "data.weights mixes texts, expected none where rows are "
                             "pairs, prompts or images");
    if (config->rows == WEFT_ROWS_PAIRS && config->source_length < 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "data.source_length is %lld, expected at least 1",
                             (long long)config->source_length);
    return WEFT_OK;
}

weft_status wefti_exampleset_open(weft_ctx *ctx, weft_dataset *d,
                                  const weft_dataset_config *config,
                                  const weft_tokenizer *tokenizer) {
    WEFT_TRY(check(ctx, config));
    WEFT_TRY(wefti_examples_open(ctx, config, config->paths, config->n_paths, tokenizer,
                                 NULL, &d->train_examples));
    int64_t n = d->train_examples->n;
    d->bytes_per_token = NAN; /* a row is no stretch of text */
    if (config->n_validation_paths > 0) {
        WEFT_TRY(wefti_examples_open(ctx, config, config->validation_paths,
                                     config->n_validation_paths, tokenizer,
                                     d->train_examples, &d->validation_examples));
        d->train_windows = n;
        d->validation_windows = d->validation_examples->n;
        return WEFT_OK;
    }
    d->validation_windows = (int64_t)((double)n * config->validation);
    d->train_windows = n - d->validation_windows; /* at least 1: validation is below 1 */
    return WEFT_OK;
}

void wefti_exampleset_close(weft_ctx *ctx, weft_dataset *d) {
    wefti_examples_close(ctx, d->train_examples);
    wefti_examples_close(ctx, d->validation_examples);
}

void wefti_exampleset_train_row(const weft_dataset *d, int64_t row, int32_t *tokens,
                                int32_t *targets) {
    wefti_examples_row(d->train_examples, train_example(d, row), tokens, targets);
}

void wefti_exampleset_validation_row(const weft_dataset *d, int64_t row, int32_t *tokens,
                                     int32_t *targets) {
    const wefti_examples *e;
    int64_t k = validation_example(d, row, &e);
    wefti_examples_row(e, k, tokens, targets);
}

int64_t wefti_exampleset_train_targets(const weft_dataset *d, int64_t row) {
    return wefti_examples_targets(d->train_examples, train_example(d, row));
}

int64_t wefti_exampleset_validation_targets(const weft_dataset *d, int64_t row) {
    const wefti_examples *e;
    int64_t k = validation_example(d, row, &e);
    return wefti_examples_targets(e, k);
}

uint64_t wefti_exampleset_hash(const weft_dataset *d) {
    uint64_t hash = wefti_examples_hash(d->train_examples);
    if (!d->validation_examples) return hash;
    return hash * 31 + wefti_examples_hash(d->validation_examples);
}

static void describe_prompts(const weft_dataset *d, char *out, size_t size) {
    const wefti_examples *e = d->train_examples;
    int n = snprintf(out, size,
                     "%lld training and %lld validation prompts, %.1f tokens each of "
                     "which %.1f count, %lld cut to %lld",
                     (long long)d->train_windows, (long long)d->validation_windows,
                     (double)e->n_ids / (double)e->n, (double)e->n_counted / (double)e->n,
                     (long long)e->n_cut, (long long)e->n_targets);
    if (e->n_left_out > 0 && n > 0 && (size_t)n < size)
        snprintf(out + n, size - (size_t)n,
                 ", %lld left out whose prompt alone is longer",
                 (long long)e->n_left_out);
}

void wefti_exampleset_describe(const weft_dataset *d, char *out, size_t size) {
    const wefti_examples *e = d->train_examples;
    if (e->kind == WEFT_ROWS_PROMPTS)
        describe_prompts(d, out, size);
    else if (e->kind == WEFT_ROWS_IMAGES)
        snprintf(out, size,
                 "%lld training and %lld validation images of %lld x %lld x %lld, %lld "
                 "classes",
                 (long long)d->train_windows, (long long)d->validation_windows,
                 (long long)e->channels, (long long)e->side, (long long)e->side,
                 (long long)e->n_classes);
    else
        snprintf(out, size,
                 "%lld training and %lld validation pairs, %.1f tokens each, %lld texts "
                 "cut to %lld and %lld",
                 (long long)d->train_windows, (long long)d->validation_windows,
                 (double)e->n_ids / (double)e->n, (long long)e->n_cut,
                 (long long)e->source_length, (long long)e->n_targets);
}
