/* SPDX-License-Identifier: MIT */
/* tokenizer.json -> tokenizer. Tokens are written in the byte alphabet (bytemap.h);
 * merges as "a b" or ["a", "b"]; added tokens have ids in the vocabulary or after it. */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <weft/tokenizer.h>

#include "base/file.h"
#include "text/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/named.h"
#include "token/bytemap.h"
#include "token/loader.h"

enum { LARGEST_FILE = 1 << 29 };

/* Stages the bytes of a token's printable string; in a vocabulary of characters they are its
 * own. [out] *literal: they are its own UTF-8 in a vocabulary of bytes. */
static weft_status stage_string(const wefti_loader *l, const char *text, size_t n,
                                bool *literal) {
    WEFT_TRY(wefti_vocab_stage(l->ctx, l->t, text, (int64_t)n));
    *literal = false;
    if (l->t->pipeline && l->t->pipeline->chars) return WEFT_OK;
    char *staged = l->t->text + l->t->n_text;
    int64_t n_bytes = wefti_bytemap_decode(staged, (int64_t)n, staged);
    *literal = n_bytes < 0;
    if (!*literal) l->t->n_staged = n_bytes;
    return WEFT_OK;
}

static weft_status check_id(const wefti_loader *l, const char *name, const json_t *id,
                            int64_t most) {
    if (!json_is_integer(id))
        return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT,
                             "%s: token '%.*s' has no number as its id", l->path,
                             WEFTI_LOADER_SHOWN, name);
    if (json_integer_value(id) >= 0 && json_integer_value(id) < most) return WEFT_OK;
    return weft_ctx_fail(
        l->ctx, WEFT_ERR_FORMAT,
        "%s: token '%.*s' has the id %" JSON_INTEGER_FORMAT ", expected 0 to %lld",
        l->path, WEFTI_LOADER_SHOWN, name, json_integer_value(id), (long long)most - 1);
}

static weft_status add_string(const wefti_loader *l, const char *text, size_t n,
                              int64_t id, uint32_t flags) {
    bool literal;
    if (n == 0)
        return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT,
                             "%s: the token with id %lld is empty", l->path,
                             (long long)id);
    if (n > INT32_MAX)
        return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT,
                             "%s: the token with id %lld is too long", l->path,
                             (long long)id);
    WEFT_TRY(stage_string(l, text, n, &literal));
    return wefti_vocab_add_staged(l->ctx, l->t, id,
                                  flags | (literal ? WEFTI_TOKEN_LITERAL : 0));
}

static weft_status read_vocab(const wefti_loader *l, int64_t most) {
    json_t *vocab = json_object_get(l->model, "vocab"), *value;
    const char *key;
    json_object_foreach(vocab, key, value) {
        WEFT_TRY(check_id(l, key, value, most));
        int64_t id = json_integer_value(value);
        if (wefti_vocab_has(l->t, id))
            return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT,
                                 "%s: two tokens have the id %lld, one is '%.*s'",
                                 l->path, (long long)id, WEFTI_LOADER_SHOWN, key);
        WEFT_TRY(add_string(l, key, strlen(key), id, WEFTI_TOKEN_MODEL));
    }
    return WEFT_OK;
}

/* Whether the staged bytes are those of token `id`. */
static bool staged_is(const weft_tokenizer *t, int64_t id) {
    const wefti_token *token = &t->tokens[id];
    return token->n_bytes == t->n_staged &&
           memcmp(t->text + token->offset, t->text + t->n_text, (size_t)t->n_staged) == 0;
}

static weft_status read_added(const wefti_loader *l, const json_t *added, int64_t most) {
    const json_t *content = json_object_get(added, "content");
    const json_t *number = json_object_get(added, "id");
    if (!json_is_string(content))
        return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT, "%s: an added token has no content",
                             l->path);
    const char *text = json_string_value(content);
    size_t n = json_string_length(content);
    bool special, literal;
    WEFT_TRY(check_id(l, text, number, most));
    int64_t id = json_integer_value(number);
    WEFT_TRY(wefti_loader_flag(l, added, "special", false, &special));
    uint32_t flags = special ? WEFTI_TOKEN_SPECIAL : 0;
    WEFT_TRY(stage_string(l, text, n, &literal));
    int32_t known = literal ? -1 : wefti_vocab_find_staged(l->t);
    bool taken = wefti_vocab_has(l->t, id);
    if ((taken && !staged_is(l->t, id)) || (known >= 0 && known != id))
        return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT,
                             "%s: the added token '%.*s' has the id %lld, which is not "
                             "its id in the vocabulary",
                             l->path, WEFTI_LOADER_SHOWN, text, (long long)id);
    if (!taken) return add_string(l, text, n, id, flags);
    l->t->tokens[id].flags |= flags;
    return WEFT_OK;
}

static weft_status read_tokens(const wefti_loader *l) {
    const json_t *vocab = json_object_get(l->model, "vocab");
    const json_t *added = wefti_loader_get(l->root, "added_tokens");
    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT, "%s: the model has no vocab",
                             l->path);
    if (added && !json_is_array(added))
        return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT, "%s: added_tokens is not a list",
                             l->path);
    /* some files skip a few ids; a stray one must not cost gigabytes */
    int64_t most = 2 * (int64_t)(json_object_size(vocab) + json_array_size(added)) + 1024;
    WEFT_TRY(read_vocab(l, most));
    size_t k;
    json_t *one;
    json_array_foreach(added, k, one) WEFT_TRY(read_added(l, one, most));
    return WEFT_OK;
}

/* The two halves of a merge: "a b" or ["a", "b"]. */
static bool merge_halves(const json_t *merge, const char *half[2], size_t n[2]) {
    if (json_is_array(merge) && json_array_size(merge) == 2) {
        for (size_t k = 0; k < 2; k++) {
            half[k] = json_string_value(json_array_get(merge, k));
            n[k] = json_string_length(json_array_get(merge, k));
        }
        return half[0] && half[1];
    }
    const char *text = json_string_value(merge);
    const char *space = text ? strchr(text, ' ') : NULL;
    if (!space || strchr(space + 1, ' ')) return false;
    half[0] = text;
    n[0] = (size_t)(space - text);
    half[1] = space + 1;
    n[1] = strlen(space + 1);
    return true;
}

static weft_status fail_merge(const wefti_loader *l, size_t rank, const char *half,
                              size_t n, const char *fault) {
    return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT, "%s: merge %zu: '%.*s' %s", l->path,
                         rank, n < WEFTI_LOADER_SHOWN ? (int)n : WEFTI_LOADER_SHOWN,
                         half ? half : "", fault);
}

static weft_status read_merge(const wefti_loader *l, const json_t *merge, size_t rank) {
    const char *half[2] = {NULL, NULL};
    size_t n[2] = {0, 0};
    int32_t ids[2];
    if (!merge_halves(merge, half, n))
        return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT,
                             "%s: merge %zu is not \"a b\" or [\"a\", \"b\"]", l->path,
                             rank);
    for (int k = 0; k < 2; k++) {
        bool literal;
        WEFT_TRY(stage_string(l, half[k], n[k], &literal));
        ids[k] = literal ? -1 : wefti_vocab_find_staged(l->t);
        if (ids[k] < 0)
            return fail_merge(l, rank, half[k], n[k], "is not in the vocabulary");
    }
    WEFT_TRY(wefti_vocab_stage_pair(l->ctx, l->t, ids[0], ids[1]));
    int32_t merged = wefti_vocab_find_staged(l->t);
    if (merged < 0)
        return fail_merge(l, rank, half[0], n[0],
                          "joined with its partner is not in the vocabulary");
    bool special = l->t->tokens[merged].flags & WEFTI_TOKEN_SPECIAL;
    if (special && l->t->pipeline) return WEFT_OK; /* no text becomes a special token */
    if (special)
        return fail_merge(l, rank, half[0], n[0],
                          "joined with its partner is a special token");
    bool fresh;
    WEFT_TRY(wefti_vocab_add_merge(l->ctx, l->t, ids[0], ids[1], merged, &fresh));
    if (fresh) return WEFT_OK;
    return fail_merge(l, rank, half[0], n[0], "and its partner were merged before");
}

static weft_status read_merges(const wefti_loader *l) {
    const json_t *merges = json_object_get(l->model, "merges");
    if (!json_is_array(merges))
        return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT, "%s: the model has no merges",
                             l->path);
    size_t rank;
    json_t *merge;
    json_array_foreach(merges, rank, merge) WEFT_TRY(read_merge(l, merge, rank));
    return WEFT_OK;
}

/* Without a rule there are no pieces to merge in: only the tokenizer of the kind
 * "bytes". */
static weft_status check_bytes_kind(const wefti_loader *l) {
    if (l->t->rule != WEFTI_RULE_NONE) return WEFT_OK;
    bool plain = l->t->merges.n == 0 && l->t->vocab == 256;
    for (int64_t id = 0; plain && id < 256; id++)
        plain = l->t->tokens[id].n_bytes == 1 && l->t->byte_ids[id] == id;
    if (plain) return WEFT_OK;
    return wefti_loader_refuse(
        l, "use_regex of ByteLevel", "false",
        "true, or a Split before it (only the bytes tokenizer has neither)");
}

/* Keeps the parts that a saved copy should have again. */
static weft_status keep_extras(const wefti_loader *l) {
    json_t *added = wefti_loader_get(l->root, "added_tokens");
    json_t *kept = json_pack("{s:o, s:O?}", "added_tokens",
                             added ? json_incref(added) : json_array(), "post_processor",
                             wefti_loader_get(l->root, "post_processor"));
    int64_t n;
    weft_status status = wefti_json_text(l->ctx, kept, JSON_COMPACT, &l->t->extras, &n);
    json_decref(kept);
    return status;
}

static weft_status finish(const wefti_loader *l) {
    int missing = -1;
    weft_status status = wefti_vocab_finish(l->ctx, l->t, &missing);
    if (missing >= 0 && status == WEFT_ERR_FORMAT)
        return weft_ctx_fail(l->ctx, status,
                             "%s: the vocabulary has no token for the byte 0x%02X",
                             l->path, (unsigned)missing);
    WEFT_TRY(status);
    if (l->t->pipeline) return WEFT_OK;
    WEFT_TRY(check_bytes_kind(l));
    return keep_extras(l);
}

static weft_status parse(wefti_loader *l) {
    weft_status status = wefti_json_read(l->ctx, "", l->path, l->source, l->n_source,
                                         WEFT_ERR_FORMAT, &l->root);
    l->model = json_object_get(l->root, "model");
    return status;
}

/* Not one of the plain kinds: what it does to text becomes a pipeline. */
static weft_status load_steps(wefti_loader *l) {
    WEFT_TRY(wefti_vocab_create(l->ctx, WEFTI_RULE_STEPS, &l->t));
    WEFT_TRY(wefti_alloc(l->ctx, sizeof *l->t->pipeline, "a tokenizer", &l->t->pipeline));
    l->t->pipeline->source = l->source;
    l->t->pipeline->n_source = l->n_source;
    l->source = NULL;
    WEFT_TRY(wefti_loader_model(l));
    WEFT_TRY(wefti_loader_steps(l));
    WEFT_TRY(read_tokens(l));
    WEFT_TRY(read_merges(l));
    WEFT_TRY(wefti_loader_finish(l));
    return finish(l);
}

static weft_status load(wefti_loader *l) {
    wefti_rule rule;
    WEFT_TRY(parse(l));
    WEFT_TRY(wefti_loader_root(l));
    if (!wefti_loader_is_plain(l)) return load_steps(l);
    WEFT_TRY(wefti_loader_rule(l, &rule));
    WEFT_TRY(wefti_vocab_create(l->ctx, rule, &l->t));
    WEFT_TRY(wefti_loader_model(l));
    WEFT_TRY(read_tokens(l));
    WEFT_TRY(read_merges(l));
    return finish(l);
}

weft_status wefti_tokenizer_read(weft_ctx *ctx, const char *where, char *text, int64_t n,
                                 weft_tokenizer **out) {
    wefti_loader l = {.ctx = ctx, .path = where, .source = text, .n_source = n};
    weft_status status = load(&l);
    json_decref(l.root);
    wefti_free(ctx, l.source);
    *out = status == WEFT_OK ? l.t : NULL;
    if (status != WEFT_OK) weft_tokenizer_destroy(ctx, l.t);
    return status;
}

weft_status weft_tokenizer_load(weft_ctx *ctx, const char *path, weft_tokenizer **out) {
    char *text;
    int64_t n;
    *out = NULL;
    WEFT_TRY(wefti_file_read(ctx, path, LARGEST_FILE, &text, &n));
    return wefti_tokenizer_read(ctx, path, text, n, out);
}

/* The tokenizer that a name stands for (config/named.h). */

weft_status weft_tokenizer_open(weft_ctx *ctx, const char *name, weft_tokenizer **out) {
    if (wefti_is(name, "bytes")) return weft_tokenizer_create_bytes(ctx, out);
    *out = NULL;
    if (wefti_tokenizer_names_ids(name))
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "the tokenizer 'ids' is of runs on shards: it knows no text");
    struct stat info;
    char path[PATH_MAX];
    if (stat(name, &info) != 0 || !S_ISDIR(info.st_mode))
        return weft_tokenizer_load(ctx, name, out);
    if (snprintf(path, sizeof path, "%s/tokenizer.json", name) < (int)sizeof path)
        return weft_tokenizer_load(ctx, path, out);
    return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", name);
}
