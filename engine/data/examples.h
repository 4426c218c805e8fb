/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/dataset.h>

/* Rows that are examples of their own, not windows of one long text: pairs of a source and
 * a target, images with a class, or prompts with an answer. All are read when they are opened
 * and stay in memory.
 *
 *     row of pairs     tokens   [source, end, -1 ...][start, target ...]
 *                      targets  [target, end, -1 ...]
 *     row of a prompt  tokens   [prompt, answer, end ...]
 *                      targets  the same one place on, -1 where they do not count
 *     row of an image  tokens   its pixels [channels, side, side], bytes
 *                      targets  its class
 */
typedef struct wefti_examples {
    weft_rows kind;
    int64_t n;                   /* examples */
    int64_t n_tokens, n_targets; /* of a row */
    /* pairs: texts 2k and 2k + 1 are source and target of example k */
    int64_t source_length;
    int32_t start, end; /* the ids before and behind a target; start pads it too */
    int32_t *ids;       /* owned */
    int64_t n_ids, ids_room;
    int64_t *at; /* owned, [2 n + 1]: where each text begins in ids */
    int64_t n_texts, at_room;
    int64_t n_cut; /* texts that are longer than their part of a row */
    /* prompts: text k is example k */
    unsigned char *counts; /* owned, [n_ids] whether an id counts as a target */
    int64_t counts_room, n_counted;
    int64_t n_left_out; /* examples of which nothing would count */
    /* images */
    unsigned char *pixels; /* owned, [n, channels, side, side] */
    int32_t *labels;       /* owned, [n] */
    int64_t side, channels, pixels_room, labels_room;
    char **classes; /* owned; NULL: numbers only */
    int64_t n_classes, classes_room;
} wefti_examples;

/* Reads n paths. `like`: examples whose classes, sides and channels these have too; or
 * NULL. Errors name the file, and the line or record. */
weft_status wefti_examples_open(weft_ctx *ctx, const weft_dataset_config *config,
                                const char *const *paths, int n,
                                const weft_tokenizer *tokenizer,
                                const wefti_examples *like,
                                wefti_examples **out) WEFT_CHECKED;
void wefti_examples_close(weft_ctx *ctx, wefti_examples *examples); /* NULL is accepted */

/* Example k as a row. */
void wefti_examples_row(const wefti_examples *examples, int64_t k, int32_t *tokens,
                        int32_t *targets);

/* Targets of example k that count. */
int64_t wefti_examples_targets(const wefti_examples *examples, int64_t k);

/* A number that two lists share only if all of their rows are the same. */
uint64_t wefti_examples_hash(const wefti_examples *examples);

/* pairs.c, prompts.c, images.c: read paths into examples that are empty. */
weft_status wefti_pairs_read(weft_ctx *ctx, const char *const *paths, int n,
                             const weft_tokenizer *tokenizer,
                             wefti_examples *examples) WEFT_CHECKED;
weft_status wefti_prompts_read(weft_ctx *ctx, const char *const *paths, int n,
                               const weft_tokenizer *tokenizer, const weft_chat *chat,
                               wefti_examples *examples) WEFT_CHECKED;
weft_status wefti_images_read(weft_ctx *ctx, const char *const *paths, int n,
                              const wefti_examples *like,
                              wefti_examples *examples) WEFT_CHECKED;
