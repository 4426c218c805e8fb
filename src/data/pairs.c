/* SPDX-License-Identifier: MIT */
/* Pairs of texts, a source and a target:
 *
 *     two text files   line k of the first and line k of the second
 *     *.tsv            source, tab, target in each line; further columns are passed over
 *     *.jsonl          {"source": ..., "target": ...} in each line
 *
 * Paths are taken in their order; those that hold no pairs by themselves, two by two. A
 * line may end in CR LF. Empty texts are texts; a line that is empty in a .tsv or .jsonl is
 * passed over. */
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/examples.h"

/* Where the reading stands. */
typedef struct reader {
    wefti_examples *e;
    const weft_tokenizer *tokenizer;
    const char *path; /* of sentences */
    int64_t line;
} reader;

/* A stretch of a file that is in memory. */
typedef struct text {
    const char *bytes;
    int64_t n;
} text;

static bool ends_in(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n > m && strcmp(name + n - m, suffix) == 0;
}

static bool holds_pairs(const char *path) {
    return ends_in(path, ".tsv") || ends_in(path, ".jsonl");
}

/* Cuts the next line off *rest; false at the end. */
static bool next_line(text *rest, text *line) {
    if (rest->n == 0) return false;
    const char *end = memchr(rest->bytes, '\n', (size_t)rest->n);
    line->bytes = rest->bytes;
    line->n = end ? end - rest->bytes : rest->n;
    int64_t used = end ? line->n + 1 : line->n;
    rest->bytes += used;
    rest->n -= used;
    if (line->n > 0 && line->bytes[line->n - 1] == '\r') line->n--;
    return true;
}

/* The ids of a text behind those before. */
static weft_status add_text(weft_ctx *ctx, reader *r, text t, int64_t most) {
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

static weft_status add_pair(weft_ctx *ctx, reader *r, text source, text target) {
    WEFT_TRY(add_text(ctx, r, source, r->e->source_length - 1));
    WEFT_TRY(add_text(ctx, r, target, r->e->n_targets - 1));
    r->e->n++;
    return WEFT_OK;
}

static weft_status add_columns(weft_ctx *ctx, reader *r, text line) {
    const char *tab = memchr(line.bytes, '\t', (size_t)line.n);
    if (!tab)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "line %lld of %s has no tab, expected source, tab, target",
                             (long long)r->line, r->path);
    text source = {line.bytes, tab - line.bytes};
    text target = {tab + 1, line.n - source.n - 1};
    const char *next = memchr(target.bytes, '\t', (size_t)target.n);
    if (next) target.n = next - target.bytes;
    return add_pair(ctx, r, source, target);
}

static weft_status add_object(weft_ctx *ctx, reader *r, text line) {
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
        status = add_pair(
            ctx, r,
            (text){json_string_value(source), (int64_t)json_string_length(source)},
            (text){json_string_value(target), (int64_t)json_string_length(target)});
    json_decref(root);
    return status;
}

static weft_status add_lines(weft_ctx *ctx, reader *r, text rest) {
    text line;
    bool objects = ends_in(r->path, ".jsonl");
    for (r->line = 1; next_line(&rest, &line); r->line++) {
        if (line.n == 0) continue;
        WEFT_TRY(objects ? add_object(ctx, r, line) : add_columns(ctx, r, line));
    }
    return WEFT_OK;
}

static weft_status read_one(weft_ctx *ctx, reader *r, const char *path) {
    char *bytes;
    int64_t n;
    r->path = path;
    WEFT_TRY(wefti_file_read(ctx, path, INT64_MAX, &bytes, &n));
    weft_status status = add_lines(ctx, r, (text){bytes, n});
    wefti_free(ctx, bytes);
    return status;
}

static int64_t count_lines(text rest) {
    text line;
    int64_t n = 0;
    while (next_line(&rest, &line)) n++;
    return n;
}

static weft_status add_both(weft_ctx *ctx, reader *r, const char *const paths[2], text a,
                            text b) {
    text source, target;
    int64_t n = count_lines(a), m = count_lines(b);
    if (n != m)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "%s has %lld lines and %s %lld, expected as many", paths[0],
                             (long long)n, paths[1], (long long)m);
    while (next_line(&a, &source) && next_line(&b, &target))
        WEFT_TRY(add_pair(ctx, r, source, target));
    return WEFT_OK;
}

static weft_status read_two(weft_ctx *ctx, reader *r, const char *const paths[2]) {
    char *a = NULL, *b = NULL;
    int64_t n = 0, m = 0;
    weft_status status = wefti_file_read(ctx, paths[0], INT64_MAX, &a, &n);
    if (status == WEFT_OK) status = wefti_file_read(ctx, paths[1], INT64_MAX, &b, &m);
    if (status == WEFT_OK) status = add_both(ctx, r, paths, (text){a, n}, (text){b, m});
    wefti_free(ctx, a);
    wefti_free(ctx, b);
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
            return weft_ctx_fail(
                ctx, WEFT_ERR_CONFIG,
                "%s has no partner, expected a file of targets after it, "
                "or a .tsv or .jsonl",
                paths[i]);
        WEFT_TRY(read_two(ctx, &r, paths + i++));
    }
    return WEFT_OK;
}
