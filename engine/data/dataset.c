/* SPDX-License-Identifier: MIT */
/* Rows of tokens as a pure function of (seed, row).
 *   one pool    epoch e = row / W, window = permutation(seed, e) of row mod W; W counts
 * the training windows of all sources: each is visited once per epoch by weights  row ->
 * (source s, k-th row of s) by the mixing cycle, then the same with e = k / W_s and a
 * permutation of the source's own */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/sized.h"
#include "base/text.h"
#include "token/encode.h"
#include "token/vocab.h"
#include "data/windows.h"

enum {
    BLOCK_TOKENS = 4096,
    SAMPLE_TOKENS = 1 << 20,
    SOURCES_SHOWN = 3,
    ROOM_BYTES = 256 << 20 /* of ids in memory */
};

static weft_status check_config(weft_ctx *ctx, const weft_dataset_config *c) {
    if (c->n_paths < 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "data.path names no file");
    if (c->T < 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "data.length is %lld, expected at least 1", (long long)c->T);
    if (!(c->validation >= 0 && c->validation < 1))
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "data.validation is %g, expected a fraction from 0 to below 1",
            c->validation);
    if (!c->weights) return WEFT_OK;
    if (c->n_paths > WEFTI_MIXING_CYCLE)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "data.weights mixes %d sources, expected at most %d",
                             c->n_paths, WEFTI_MIXING_CYCLE);
    for (int s = 0; s < c->n_paths; s++)
        if (!(c->weights[s] > 0 && isfinite(c->weights[s])))
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                 "the weight of %s is %g, expected a positive number",
                                 c->paths[s], c->weights[s]);
    return WEFT_OK;
}

static weft_status expect_window(weft_ctx *ctx, const wefti_source *source, int64_t T,
                                 int64_t n_tokens, const char *role) {
    if (n_tokens > T) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "data.length is %lld but %s has only %lld %s tokens, expected at least %lld",
        (long long)T, source->path, (long long)n_tokens, role, (long long)T + 1);
}

weft_status wefti_source_cut(weft_ctx *ctx, const wefti_source *source, int64_t T,
                             double validation, int64_t *cut) {
    int64_t n = source->n_tokens;
    *cut = n - (int64_t)((double)n * validation);
    if (validation < 1) WEFT_TRY(expect_window(ctx, source, T, *cut, "training"));
    if (validation > 0) WEFT_TRY(expect_window(ctx, source, T, n - *cut, "validation"));
    return WEFT_OK;
}

static wefti_window_range part_from(const weft_dataset *d, const wefti_source *source,
                                    int64_t first, int64_t end) {
    return (wefti_window_range){.source = source,
                                .first = first,
                                .n_tokens = end - first,
                                .n_windows = (end - first - 1) / d->T};
}

static weft_status open_sources(weft_ctx *ctx, weft_dataset *d,
                                const weft_dataset_config *c,
                                const weft_tokenizer *tokenizer) {
    int more = c->n_validation_paths > 0 ? c->n_validation_paths : 0;
    wefti_id_limit limit = {.folder = c->room_folder,
                            .bytes_left = c->room_bytes > 0 ? c->room_bytes : ROOM_BYTES};
    wefti_source_wish wish = {.encoding = {.tokenizer = tokenizer,
                                           .fields = {c->field, c->column},
                                           .threads = c->threads},
                              .limit = &limit};
    WEFT_TRY(wefti_alloc_n(ctx, (int64_t)c->n_paths + more, sizeof *d->sources,
                           "data sources", &d->sources));
    for (int s = 0; s < c->n_paths + more; s++) {
        const char *path = s < c->n_paths ? c->paths[s]
                                          : c->validation_paths[s - c->n_paths];
        d->n_sources++;
        WEFT_TRY(wefti_source_open(ctx, &d->sources[s], path, &wish));
    }
    return WEFT_OK;
}

static weft_status split_sources(weft_ctx *ctx, weft_dataset *d,
                                 const weft_dataset_config *c) {
    bool by_fraction = d->n_sources == c->n_paths && c->validation > 0;
    int n_validation = by_fraction ? c->n_paths : d->n_sources - c->n_paths;
    size_t item = sizeof *d->train;
    WEFT_TRY(wefti_alloc_n(ctx, c->n_paths, item, "data sources", &d->train));
    WEFT_TRY(wefti_alloc_n(ctx, n_validation, item, "data sources", &d->validation));
    for (int s = 0; s < d->n_sources; s++) {
        const wefti_source *source = &d->sources[s];
        double share = s >= c->n_paths ? 1 : by_fraction ? c->validation : 0;
        int64_t cut;
        WEFT_TRY(wefti_source_cut(ctx, source, d->T, share, &cut));
        if (share < 1) d->train[d->n_train++] = part_from(d, source, 0, cut);
        if (share > 0)
            d->validation[d->n_validation++] = part_from(d, source, cut,
                                                         source->n_tokens);
    }
    return WEFT_OK;
}

static int64_t number_windows(wefti_window_range *parts, int n) {
    int64_t total = 0;
    for (int k = 0; k < n; k++) {
        parts[k].window_start = total;
        total += parts[k].n_windows;
    }
    return total;
}

weft_status wefti_part_visit(weft_ctx *ctx, const wefti_window_range *part,
                             int64_t n_tokens, wefti_token_visitor visit, void *user) {
    int32_t ids[BLOCK_TOKENS];
    for (int64_t at = 0; at < n_tokens; at += BLOCK_TOKENS) {
        int64_t n = n_tokens - at < BLOCK_TOKENS ? n_tokens - at : BLOCK_TOKENS;
        wefti_source_read(part->source, part->first + at, n, ids);
        WEFT_TRY(visit(ctx, user, ids, n, at == 0));
    }
    return WEFT_OK;
}

typedef struct byte_count {
    const weft_tokenizer *tokenizer;
    int64_t n_bytes, n_tokens;
} byte_count;

/* Special tokens stand for no text; a part's first token is no target. */
static weft_status count_bytes(weft_ctx *ctx, void *user, const int32_t *ids, int64_t n,
                               bool fresh) {
    (void)ctx;
    byte_count *b = user;
    for (int64_t i = fresh; i < n; i++) {
        if (!wefti_vocab_has(b->tokenizer, ids[i])) continue; /* lost since the opening */
        int64_t n_bytes;
        (void)wefti_vocab_shown(b->tokenizer, ids[i], &n_bytes);
        if (!(b->tokenizer->tokens[ids[i]].flags & WEFTI_TOKEN_SPECIAL))
            b->n_bytes += n_bytes;
        b->n_tokens++;
    }
    return WEFT_OK;
}

static weft_status measure_bytes(weft_ctx *ctx, weft_dataset *d,
                                 const weft_tokenizer *tokenizer) {
    byte_count b = {.tokenizer = tokenizer};
    bool sampled = d->n_validation == 0;
    const wefti_window_range *parts = sampled ? d->train : d->validation;
    for (int k = 0; k < (sampled ? d->n_train : d->n_validation); k++) {
        int64_t n = wefti_part_used(&parts[k], d->T);
        if (sampled && n > SAMPLE_TOKENS) n = SAMPLE_TOKENS;
        WEFT_TRY(wefti_part_visit(ctx, &parts[k], n, count_bytes, &b));
    }
    bool no_text = wefti_tokenizer_is_ids(tokenizer);
    d->bytes_per_token = no_text ? NAN : (double)b.n_bytes / (double)b.n_tokens;
    return WEFT_OK;
}

static weft_status open_all(weft_ctx *ctx, weft_dataset *d, const weft_dataset_config *c,
                            const weft_tokenizer *tokenizer) {
    d->T = c->T;
    d->seed = c->seed;
    if (c->rows != WEFT_ROWS_TEXT) return wefti_exampleset_open(ctx, d, c, tokenizer);
    WEFT_TRY(open_sources(ctx, d, c, tokenizer));
    WEFT_TRY(split_sources(ctx, d, c));
    d->train_windows = number_windows(d->train, d->n_train);
    d->validation_windows = number_windows(d->validation, d->n_validation);
    d->mixed = c->weights != NULL;
    if (d->mixed)
        WEFT_TRY(wefti_mixing_init(ctx, &d->mixing, c->weights, c->n_paths, c->seed));
    return measure_bytes(ctx, d, tokenizer);
}

static uint64_t hash_of(const weft_dataset *d) {
    uint64_t hash = 0;
    if (d->train_examples) return wefti_exampleset_hash(d);
    for (int s = 0; s < d->n_sources; s++)
        hash = (hash ^ d->sources[s].hash) * UINT64_C(0x9E3779B97F4A7C15) + 1;
    return hash;
}

weft_status weft_dataset_open(weft_ctx *ctx, const weft_dataset_config *config,
                              const weft_tokenizer *tokenizer, weft_dataset **out) {
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_dataset_config, config);
    weft_dataset *d;
    WEFT_TRY(check_config(ctx, config));
    WEFT_TRY(wefti_alloc(ctx, sizeof *d, "a dataset", &d));
    WEFTI_TRY_OR(open_all(ctx, d, config, tokenizer), weft_dataset_close(ctx, d));
    d->hash = hash_of(d);
    *out = d;
    return WEFT_OK;
}

void weft_dataset_close(weft_ctx *ctx, weft_dataset *d) {
    if (!d) return;
    for (int s = 0; s < d->n_sources; s++) wefti_source_close(ctx, &d->sources[s]);
    wefti_exampleset_close(ctx, d);
    WEFTI_FREE(ctx, d->sources, d->train, d->validation);
    wefti_mixing_fini(ctx, &d->mixing);
    wefti_free(ctx, d);
}

int64_t weft_dataset_train_tokens(const weft_dataset *d) {
    return d->train_windows * d->T;
}
int64_t weft_dataset_validation_rows(const weft_dataset *d) {
    return d->validation_windows;
}
uint64_t weft_dataset_hash(const weft_dataset *d) { return d->hash; }
double weft_dataset_bytes_per_token(const weft_dataset *d) { return d->bytes_per_token; }

/* The part that holds window w of all parts. */
static const wefti_window_range *part_of(const wefti_window_range *parts, int n,
                                         int64_t w) {
    int low = 0, high = n;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (parts[middle].window_start <= w)
            low = middle;
        else
            high = middle;
    }
    return &parts[low];
}

static void read_window(const weft_dataset *d, const wefti_window_range *part,
                        int64_t window, int32_t *tokens, int32_t *targets) {
    int64_t at = part->first + window * d->T;
    wefti_source_read(part->source, at, d->T, tokens);
    memcpy(targets, tokens + 1, (size_t)(d->T - 1) * sizeof *targets);
    wefti_source_read(part->source, at + d->T, 1, targets + d->T - 1);
}

static const wefti_window_range *train_window(const weft_dataset *d, int64_t row,
                                              int64_t *window) {
    if (!d->mixed) {
        uint64_t epoch = (uint64_t)(row / d->train_windows);
        int64_t w = wefti_rng_permute(d->seed, WEFTI_STREAM_DATA, epoch, d->train_windows,
                                      row % d->train_windows);
        const wefti_window_range *part = part_of(d->train, d->n_train, w);
        *window = w - part->window_start;
        return part;
    }
    int64_t k;
    int s = wefti_mixing_draw(&d->mixing, row, &k);
    const wefti_window_range *part = &d->train[s];
    /* the permutations of two sources must not be the same */
    uint64_t epoch = (uint64_t)(k / part->n_windows) ^ (uint64_t)(s + 1) << 48;
    *window = wefti_rng_permute(d->seed, WEFTI_STREAM_DATA, epoch, part->n_windows,
                                k % part->n_windows);
    return part;
}

void weft_dataset_train_rows(const weft_dataset *d, int64_t row, int64_t n_rows,
                             int32_t *tokens, int32_t *targets) {
    const wefti_examples *e = d->train_examples;
    for (int64_t i = 0; e && i < n_rows; i++)
        wefti_exampleset_train_row(d, row + i, tokens + i * e->n_tokens,
                                   targets + i * e->n_targets);
    for (int64_t i = 0; !e && i < n_rows; i++) {
        int64_t window;
        const wefti_window_range *part = train_window(d, row + i, &window);
        read_window(d, part, window, tokens + i * d->T, targets + i * d->T);
    }
}

void weft_dataset_validation_batch(const weft_dataset *d, int64_t row, int64_t n_rows,
                                   int32_t *tokens, int32_t *targets) {
    if (d->validation_windows == 0) return;
    const wefti_examples *e = d->train_examples;
    for (int64_t i = 0; e && i < n_rows; i++)
        wefti_exampleset_validation_row(d, row + i, tokens + i * e->n_tokens,
                                        targets + i * e->n_targets);
    for (int64_t i = 0; !e && i < n_rows; i++) {
        int64_t w = (row + i) % d->validation_windows;
        const wefti_window_range *part = part_of(d->validation, d->n_validation, w);
        read_window(d, part, w - part->window_start, tokens + i * d->T,
                    targets + i * d->T);
    }
}

int64_t weft_dataset_train_targets(const weft_dataset *d, int64_t row, int64_t n_rows) {
    int64_t n = 0;
    if (!d->train_examples) return n_rows * d->T;
    for (int64_t i = 0; i < n_rows; i++) n += wefti_exampleset_train_targets(d, row + i);
    return n;
}

int64_t weft_dataset_validation_targets(const weft_dataset *d, int64_t row,
                                        int64_t n_rows) {
    int64_t n = 0;
    if (!d->train_examples) return n_rows * d->T;
    for (int64_t i = 0; i < n_rows; i++)
        n += wefti_exampleset_validation_targets(d, row + i);
    return n;
}

weft_rows weft_dataset_rows(const weft_dataset *d) {
    return d->train_examples ? d->train_examples->kind : WEFT_ROWS_TEXT;
}

int64_t weft_dataset_source_length(const weft_dataset *d) {
    return d->train_examples ? d->train_examples->source_length : 0;
}

int64_t weft_dataset_image(const weft_dataset *d) {
    return d->train_examples ? d->train_examples->side : 0;
}

int64_t weft_dataset_channels(const weft_dataset *d) {
    return d->train_examples ? d->train_examples->channels : 0;
}

int64_t weft_dataset_classes(const weft_dataset *d) {
    return d->train_examples ? d->train_examples->n_classes : 0;
}

static void append(char *out, size_t size, size_t *n, const char *text) {
    if (*n >= size) return;
    int put = snprintf(out + *n, size - *n, "%s", text);
    *n += put > 0 ? (size_t)put : 0;
}

const char *weft_dataset_describe(const weft_dataset *d, char *out, size_t size) {
    char kind[64], line[128];
    size_t n = 0;
    if (size > 0) out[0] = '\0';
    if (d->train_examples) {
        wefti_exampleset_describe(d, out, size);
        return out;
    }
    for (int s = 0; s < d->n_train && s < SOURCES_SHOWN; s++) {
        const wefti_source *source = d->train[s].source;
        append(out, size, &n, s > 0 ? ", " : "");
        append(out, size, &n, source->path);
        snprintf(line, sizeof line, " (%s)",
                 wefti_source_kind(source, kind, sizeof kind));
        append(out, size, &n, line);
    }
    if (d->n_train > SOURCES_SHOWN) {
        snprintf(line, sizeof line, " and %d more", d->n_train - SOURCES_SHOWN);
        append(out, size, &n, line);
    }
    snprintf(line, sizeof line, ": %lld training and %lld validation tokens",
             (long long)weft_dataset_train_tokens(d),
             (long long)(d->validation_windows * d->T));
    append(out, size, &n, line);
    snprintf(line, sizeof line, ", %.2f bytes each", d->bytes_per_token);
    if (!isnan(d->bytes_per_token)) append(out, size, &n, line); /* ids have none */
    return size > 0 ? wefti_text_plain(out) : out; /* names of files are anything */
}
