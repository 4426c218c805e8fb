/* SPDX-License-Identifier: MIT */
#ifndef WEFT_DATASET_H
#define WEFT_DATASET_H

#include <weft/ctx.h>
#include <weft/tokenizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tokens from files, and batches that are a pure function of (seed, step, row).
 *
 * A source is a text file (encoded when opened), or a token shard: weft's own format
 * (docs/token-shards.md), nanoGPT raw uint16, llm.c .bin (magic 20240520 uint16, 20240801
 * uint32). Each source is split into a training part and a validation part (the last
 * `validation` fraction, cut at a token). The training part is cut into windows of T tokens
 * (target of the last token = first token of the next window, so each token is a target once
 * per epoch); epoch e visits the windows in the order of a seeded permutation. With several
 * sources, a row first draws its source by weight (seeded), then takes that source's next
 * window. Row r of step s is the same whatever the number of ranks. */
typedef struct weft_dataset weft_dataset;

typedef struct weft_dataset_config {
    const char *const *paths; /* files; a path may be a folder of *.bin / *.txt (sorted) */
    const double *weights;    /* one per path, or NULL: proportional to size */
    int n_paths;
    const char *const *validation_paths; /* files used whole for validation; or */
    int n_validation_paths;
    double validation;        /* this fraction of each source's end, if no validation path */
    int64_t T;                /* tokens per row */
    uint64_t seed;
    int threads;              /* for encoding text */
} weft_dataset_config;

/* Opens the sources. Errors, one sentence: missing or unreadable file, empty text, text
 * shorter than T + 1 tokens (train or validation part), corrupt or truncated shard, shard
 * written with another tokenizer, id outside the vocabulary. `tokenizer` is borrowed. */
WEFT_API weft_status weft_dataset_open(weft_ctx *ctx, const weft_dataset_config *config,
                              const weft_tokenizer *tokenizer, weft_dataset **out) WEFT_CHECKED;
WEFT_API void weft_dataset_close(weft_ctx *ctx, weft_dataset *dataset);

WEFT_API int64_t weft_dataset_train_tokens(const weft_dataset *dataset);      /* per epoch */
WEFT_API int64_t weft_dataset_validation_rows(const weft_dataset *dataset);   /* windows of T */

/* Rows [row, row + n_rows) of the endless sequence of training rows (global row of step s =
 * s * rows_per_step + index). tokens and targets: [n_rows, T]. Read-only on the dataset:
 * ranks (threads) share it. O(1) per row, no allocation. */
WEFT_API void weft_dataset_train_rows(const weft_dataset *dataset, int64_t row, int64_t n_rows,
                             int32_t *tokens, int32_t *targets);

/* Validation windows in file order. */
WEFT_API void weft_dataset_validation_batch(const weft_dataset *dataset, int64_t row, int64_t n_rows,
                                   int32_t *tokens, int32_t *targets);

/* Cross-entropy in nats per token on the validation part of a bigram model counted on the
 * training part, add-one smoothed over the vocabulary actually seen: the baseline a network
 * has to beat. (Jurafsky & Martin, ch. 3) */
WEFT_API weft_status weft_dataset_bigram_loss(weft_ctx *ctx, const weft_dataset *dataset,
                                     int64_t vocab, double *nats) WEFT_CHECKED;

/* Mean number of text bytes per validation token: turns nats per token into bits per byte. */
WEFT_API double weft_dataset_bytes_per_token(const weft_dataset *dataset);

#ifdef __cplusplus
}
#endif
#endif
