/* SPDX-License-Identifier: MIT */
/* Examples as rows of tokens and targets. A text that is longer than its part of a row is
 * cut; a source keeps its end, for the encoder has seen none without. */
#include "data/examples.h"

#include <string.h>
#include <xxhash.h>

#include "base/memory.h"

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static weft_status read_all(weft_ctx *ctx, const weft_dataset_config *config,
                            const char *const *paths, int n,
                            const weft_tokenizer *tokenizer, const wefti_examples *like,
                            wefti_examples *e) {
    if (config->rows == WEFT_ROWS_IMAGES) {
        e->side = like ? like->side : config->image;
        e->channels = like ? like->channels : config->channels;
        WEFT_TRY(wefti_images_read(ctx, paths, n, like, e));
        e->n_tokens = e->channels * e->side * e->side;
        e->n_targets = 1;
        return WEFT_OK;
    }
    if (config->rows == WEFT_ROWS_PROMPTS) {
        e->n_tokens = e->n_targets = config->T;
        return wefti_prompts_read(ctx, paths, n, tokenizer, config->chat, e);
    }
    int64_t vocab = config->vocab > 0 ? config->vocab
                                      : weft_tokenizer_vocab(tokenizer) + 2;
    e->source_length = config->source_length;
    e->n_targets = config->T;
    e->n_tokens = config->source_length + config->T;
    e->start = (int32_t)(vocab - 2);
    e->end = (int32_t)(vocab - 1);
    return wefti_pairs_read(ctx, paths, n, tokenizer, e);
}

weft_status wefti_examples_open(weft_ctx *ctx, const weft_dataset_config *config,
                                const char *const *paths, int n,
                                const weft_tokenizer *tokenizer,
                                const wefti_examples *like, wefti_examples **out) {
    wefti_examples *e;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *e, "examples", &e));
    e->kind = config->rows;
    weft_status status = read_all(ctx, config, paths, n, tokenizer, like, e);
    if (status == WEFT_OK && e->n == 0)
        status = weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s has no examples", paths[0]);
    if (status == WEFT_OK)
        *out = e;
    else
        wefti_examples_close(ctx, e);
    return status;
}

void wefti_examples_close(weft_ctx *ctx, wefti_examples *e) {
    if (!e) return;
    for (int64_t i = 0; e->classes && i < e->n_classes; i++)
        wefti_free(ctx, e->classes[i]);
    WEFTI_FREE(ctx, e->classes, e->ids, e->at, e->counts, e->pixels, e->labels, e);
}

/* Text t of the pairs, and its length. Where all texts are empty there are no ids at all. */
static const int32_t *text_of(const wefti_examples *e, int64_t t, int64_t *n) {
    *n = e->at[t + 1] - e->at[t];
    return *n > 0 ? e->ids + e->at[t] : NULL;
}

static void fill_source(const wefti_examples *e, int64_t k, int32_t *tokens) {
    int64_t n, i, most = e->source_length - 1;
    const int32_t *ids = text_of(e, 2 * k, &n);
    for (i = 0; i < least(n, most); i++) tokens[i] = ids[i];
    tokens[i++] = e->end;
    for (; i < e->source_length; i++) tokens[i] = -1;
}

static void fill_target(const wefti_examples *e, int64_t k, int32_t *tokens,
                        int32_t *targets) {
    int64_t n;
    const int32_t *ids = text_of(e, 2 * k + 1, &n);
    for (int64_t i = 0; i < e->n_targets; i++) {
        tokens[i] = i == 0 || i > n ? e->start : ids[i - 1];
        targets[i] = i < n ? ids[i] : i == n ? e->end : -1;
    }
}

/* Behind the last id the row is padded; what pads is no target, and no id before it sees it. */
static void fill_prompt(const wefti_examples *e, int64_t k, int32_t *tokens,
                        int32_t *targets) {
    int64_t n;
    const int32_t *ids = text_of(e, k, &n);
    const unsigned char *counts = e->counts + e->at[k];
    for (int64_t i = 0; i < e->n_targets; i++) {
        tokens[i] = ids[i < n ? i : n - 1];
        targets[i] = i + 1 < n && counts[i + 1] ? ids[i + 1] : -1;
    }
}

static void fill_image(const wefti_examples *e, int64_t k, int32_t *tokens) {
    const unsigned char *pixels = e->pixels + k * e->n_tokens;
    for (int64_t i = 0; i < e->n_tokens; i++) tokens[i] = pixels[i];
}

void wefti_examples_row(const wefti_examples *e, int64_t k, int32_t *tokens,
                        int32_t *targets) {
    if (e->kind == WEFT_ROWS_IMAGES) {
        fill_image(e, k, tokens);
        targets[0] = e->labels[k];
        return;
    }
    if (e->kind == WEFT_ROWS_PROMPTS) {
        fill_prompt(e, k, tokens, targets);
        return;
    }
    fill_source(e, k, tokens);
    fill_target(e, k, tokens + e->source_length, targets);
}

int64_t wefti_examples_targets(const wefti_examples *e, int64_t k) {
    int64_t n;
    if (e->kind == WEFT_ROWS_IMAGES) return 1;
    if (e->kind == WEFT_ROWS_PROMPTS) {
        int64_t sum = 0;
        text_of(e, k, &n);
        for (int64_t i = 1; i < n; i++) sum += e->counts[e->at[k] + i];
        return sum;
    }
    text_of(e, 2 * k + 1, &n);
    return least(n + 1, e->n_targets);
}

uint64_t wefti_examples_hash(const wefti_examples *e) {
    uint64_t sum = (uint64_t)e->n;
    if (e->kind == WEFT_ROWS_IMAGES) {
        sum = XXH3_64bits_withSeed(e->pixels, (size_t)(e->n * e->n_tokens), sum);
        sum = XXH3_64bits_withSeed(e->labels, (size_t)e->n * sizeof *e->labels, sum);
        for (int64_t i = 0; e->classes && i < e->n_classes; i++)
            sum = XXH3_64bits_withSeed(e->classes[i], strlen(e->classes[i]) + 1, sum);
        return sum;
    }
    if (e->counts) sum = XXH3_64bits_withSeed(e->counts, (size_t)e->n_ids, sum);
    sum = XXH3_64bits_withSeed(e->ids, (size_t)e->n_ids * sizeof *e->ids, sum);
    return XXH3_64bits_withSeed(e->at, (size_t)e->n_texts * sizeof *e->at, sum);
}
