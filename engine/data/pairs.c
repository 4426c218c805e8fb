/* SPDX-License-Identifier: MIT */
/* Pairs of texts, a source and a target:
 *
 *     two text files   line k of the first and line k of the second
 *     *.tsv            source, tab, target in each line; further columns are passed over
 *     *.jsonl          {"source": ..., "target": ...} in each line
 *
 * Paths are taken in their order; those that hold no pairs by themselves, two by two. A
 * line may end in CR LF; files may be packed by gzip or zstd. Empty texts are texts; a line
 * that is empty in a .tsv or .jsonl is
 * passed over. */
#include <string.h>

#include "text/json.h"
#include "base/memory.h"
#include "input/documents.h"
#include "data/examples.h"
#include "input/input.h"

/* Where the reading stands. */
typedef struct reader {
    wefti_examples *e;
    const weft_tokenizer *tokenizer;
    const char *path; /* of sentences */
    int64_t line;
} reader;

static bool holds_pairs(const char *path) {
    return wefti_text_is_named(path, ".tsv") || wefti_text_is_named(path, ".jsonl");
}

/* The ids of a text behind those before. */
static weft_status add_text(weft_ctx *ctx, reader *r, wefti_excerpt t, int64_t most) {
    wefti_examples *e = r->e;
    int32_t *ids = NULL;
    int64_t n = 0;
    int64_t there = e->at ? e->n_texts + 1 : 0; /* where each begins, and the last ends */
    WEFT_TRY(wefti_reserve(ctx, &e->at, &e->at_room, there, e->n_texts + 2 - there,
                           sizeof *e->at, "pairs of texts"));
    WEFT_TRY(weft_tokenizer_encode(ctx, r->tokenizer, t.bytes, t.n, 1, &ids, &n));
    weft_status status = wefti_reserve(ctx, &e->ids, &e->ids_room, e->n_ids, n,
                                       sizeof *e->ids, "the tokens of pairs");
    if (status == WEFT_OK && n > 0)
        memcpy(e->ids + e->n_ids, ids, (size_t)n * sizeof *ids);
    wefti_free(ctx, ids);
    WEFT_TRY(status);
    e->n_cut += n > most;
    e->n_ids += n;
    e->at[++e->n_texts] = e->n_ids;
    return WEFT_OK;
}

static weft_status add_pair(weft_ctx *ctx, reader *r, wefti_excerpt source,
                            wefti_excerpt target) {
    WEFT_TRY(add_text(ctx, r, source, r->e->source_length - 1));
    WEFT_TRY(add_text(ctx, r, target, r->e->n_targets - 1));
    r->e->n++;
    return WEFT_OK;
}

static weft_status add_columns(weft_ctx *ctx, reader *r, wefti_excerpt line) {
    const char *tab = memchr(line.bytes, '\t', (size_t)line.n);
    if (!tab)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "line %lld of %s has no tab, expected source, tab, target",
                             (long long)r->line, r->path);
    wefti_excerpt source = {line.bytes, tab - line.bytes};
    wefti_excerpt target = {tab + 1, line.n - source.n - 1};
    const char *next = memchr(target.bytes, '\t', (size_t)target.n);
    if (next) target.n = next - target.bytes;
    return add_pair(ctx, r, source, target);
}

static weft_status add_object(weft_ctx *ctx, reader *r, wefti_excerpt line) {
    json_t *root;
    WEFT_TRY(wefti_json_read(ctx, "a line of ", r->path, line.bytes, line.n,
                             WEFT_ERR_FORMAT, &root));
    const json_t *source = json_object_get(root, "source");
    const json_t *target = json_object_get(root, "target");
    weft_status status = WEFT_OK;
    if (!json_is_string(source) || !json_is_string(target))
        status = weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                               "line %lld of %s has no texts \"source\" and \"target\"",
                               (long long)r->line, r->path);
    if (status == WEFT_OK)
        status = add_pair(ctx, r,
                          (wefti_excerpt){json_string_value(source),
                                          (int64_t)json_string_length(source)},
                          (wefti_excerpt){json_string_value(target),
                                          (int64_t)json_string_length(target)});
    json_decref(root);
    return status;
}

static weft_status add_lines(weft_ctx *ctx, reader *r, wefti_excerpt rest) {
    wefti_excerpt line;
    bool objects = wefti_text_is_named(r->path, ".jsonl");
    for (r->line = 1; wefti_next_line(&rest, &line); r->line++) {
        if (line.n == 0) continue;
        WEFT_TRY(objects ? add_object(ctx, r, line) : add_columns(ctx, r, line));
    }
    return WEFT_OK;
}

static weft_status read_one(weft_ctx *ctx, reader *r, const char *path) {
    char *bytes;
    int64_t n;
    r->path = path;
    WEFT_TRY(wefti_input_read_all(ctx, path, &bytes, &n));
    weft_status status = add_lines(ctx, r, (wefti_excerpt){bytes, n});
    wefti_free(ctx, bytes);
    return status;
}

static int64_t count_lines(wefti_excerpt rest) {
    wefti_excerpt line;
    int64_t n = 0;
    while (wefti_next_line(&rest, &line)) n++;
    return n;
}

static weft_status add_both(weft_ctx *ctx, reader *r, const char *const paths[2],
                            wefti_excerpt a, wefti_excerpt b) {
    wefti_excerpt source, target;
    int64_t n = count_lines(a), m = count_lines(b);
    if (n != m)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s has %lld lines and %s %lld, expected as many", paths[0],
                             (long long)n, paths[1], (long long)m);
    while (wefti_next_line(&a, &source) && wefti_next_line(&b, &target))
        WEFT_TRY(add_pair(ctx, r, source, target));
    return WEFT_OK;
}

static weft_status read_two(weft_ctx *ctx, reader *r, const char *const paths[2]) {
    char *a = NULL, *b = NULL;
    int64_t n = 0, m = 0;
    weft_status status = wefti_input_read_all(ctx, paths[0], &a, &n);
    if (status == WEFT_OK) status = wefti_input_read_all(ctx, paths[1], &b, &m);
    if (status == WEFT_OK)
        status = add_both(ctx, r, paths, (wefti_excerpt){a, n}, (wefti_excerpt){b, m});
    WEFTI_FREE(ctx, a, b);
    return status;
}

weft_status wefti_pairs_read(weft_ctx *ctx, const char *const *paths, int n,
                             const weft_tokenizer *tokenizer, wefti_examples *examples) {
    reader r = {.e = examples, .tokenizer = tokenizer};
    for (int i = 0; i < n; i++) {
        if (holds_pairs(paths[i])) {
            WEFT_TRY(read_one(ctx, &r, paths[i]));
            continue;
        }
        if (i + 1 == n || holds_pairs(paths[i + 1]))
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                 "%s has no partner, expected a file of targets after "
                                 "it, or a .tsv or .jsonl",
                                 paths[i]);
        WEFT_TRY(read_two(ctx, &r, paths + i++));
    }
    return WEFT_OK;
}
