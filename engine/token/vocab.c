/* SPDX-License-Identifier: MIT */
/* What a tokenizer is made of: tokens by id, their bytes in one buffer, merges by
 * rank. */
#include "token/vocab.h"

#include <string.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include "base/memory.h"

weft_status wefti_vocab_create(weft_ctx *ctx, wefti_rule rule, weft_tokenizer **out) {
    WEFT_TRY(wefti_alloc(ctx, sizeof **out, "a tokenizer", out));
    (*out)->rule = rule;
    (*out)->end = -1;
    return WEFT_OK;
}

void weft_tokenizer_destroy(weft_ctx *ctx, weft_tokenizer *t) {
    if (!t) return;
    wefti_splitter_destroy(ctx, t->splitter);
    wefti_strmap_fini(ctx, &t->lookup);
    wefti_u64map_fini(ctx, &t->merges);
    WEFTI_FREE(ctx, t->merged, t->tokens, t->text, t->extras);
    wefti_pipeline_destroy(ctx, t->pipeline);
    WEFTI_FREE(ctx, t->shown, t->shown_text, t);
}

static weft_status reserve_text(weft_ctx *ctx, weft_tokenizer *t, int64_t n_bytes) {
    return wefti_reserve(ctx, &t->text, &t->text_capacity, t->n_text, n_bytes, 1,
                         "the tokens' bytes");
}

weft_status wefti_vocab_stage(weft_ctx *ctx, weft_tokenizer *t, const char *bytes,
                              int64_t n_bytes) {
    WEFT_TRY(reserve_text(ctx, t, n_bytes));
    memcpy(t->text + t->n_text, bytes, (size_t)n_bytes);
    t->n_staged = n_bytes;
    return WEFT_OK;
}

weft_status wefti_vocab_stage_pair(weft_ctx *ctx, weft_tokenizer *t, int32_t left,
                                   int32_t right) {
    wefti_token a = t->tokens[left], b = t->tokens[right];
    t->n_staged = (int64_t)a.n_bytes + b.n_bytes;
    if (t->n_staged > INT32_MAX)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "a token of %lld bytes is too long",
                             (long long)t->n_staged);
    WEFT_TRY(reserve_text(ctx, t, t->n_staged));
    char *to = t->text + t->n_text;
    memcpy(to, t->text + a.offset, (size_t)a.n_bytes);
    memcpy(to + a.n_bytes, t->text + b.offset, (size_t)b.n_bytes);
    return WEFT_OK;
}

int32_t wefti_vocab_find_staged(const weft_tokenizer *t) {
    const wefti_str_entry *entry = wefti_strmap_find(&t->lookup, t->text,
                                                     t->text + t->n_text, t->n_staged);
    return entry ? (int32_t)entry->value : -1;
}

int32_t wefti_vocab_find(const weft_tokenizer *t, const char *text, int64_t n) {
    const wefti_str_entry *entry = wefti_strmap_find(&t->lookup, t->text, text, n);
    return entry ? (int32_t)entry->value : -1;
}

weft_status wefti_vocab_add_staged(weft_ctx *ctx, weft_tokenizer *t, int64_t id,
                                   uint32_t flags) {
    WEFT_TRY(wefti_reserve(ctx, &t->tokens, &t->tokens_capacity, t->vocab,
                           id + 1 - t->vocab, sizeof *t->tokens, "the tokens"));
    if ((flags & WEFTI_TOKEN_MODEL) && !(flags & WEFTI_TOKEN_LITERAL)) {
        wefti_str_entry *entry;
        WEFT_TRY(
            wefti_strmap_put(ctx, &t->lookup, t->text, t->n_text, t->n_staged, &entry));
        entry->value = id;
    }
    t->tokens[id] = (wefti_token){.offset = t->n_text,
                                  .n_bytes = (int32_t)t->n_staged,
                                  .flags = flags | WEFTI_TOKEN_EXISTS};
    t->n_text += t->n_staged;
    t->n_staged = 0;
    if (id >= t->vocab) t->vocab = id + 1;
    return WEFT_OK;
}

weft_status wefti_vocab_add_merge(weft_ctx *ctx, weft_tokenizer *t, int32_t left,
                                  int32_t right, int32_t merged, bool *fresh) {
    WEFT_TRY(wefti_reserve(ctx, &t->merged, &t->merged_capacity, t->merges.n, 1,
                           sizeof *t->merged, "the merges"));
    int64_t before = t->merges.n, rank;
    WEFT_TRY(wefti_u64map_put(ctx, &t->merges, wefti_pair_key(left, right), &rank));
    *fresh = rank == before;
    if (*fresh) t->merged[rank] = merged;
    return WEFT_OK;
}

static int32_t find_end(const weft_tokenizer *t) {
    static const char *const names[] = {WEFTI_END_OF_TEXT, "<|end_of_text|>", "</s>",
                                        "<eos>"};
    for (int k = 0; k < 4; k++) {
        int64_t n = (int64_t)strlen(names[k]);
        for (int64_t id = t->vocab - 1; id >= 0; id--) {
            const wefti_token *token = &t->tokens[id];
            if ((token->flags & WEFTI_TOKEN_SPECIAL) && token->n_bytes == n &&
                memcmp(t->text + token->offset, names[k], (size_t)n) == 0)
                return (int32_t)id;
        }
    }
    return -1;
}

static void hash_u64(XXH3_state_t *state, uint64_t x) {
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(x >> 8 * i);
    XXH3_64bits_update(state, bytes, sizeof bytes);
}

/* Everything that decides text -> ids and ids -> text; docs/file-formats.md names the
 * order. */
static uint64_t hash_of(const weft_tokenizer *t) {
    XXH3_state_t state;
    const char *rule = wefti_rule_name(t->rule);
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, rule, strlen(rule));
    hash_u64(&state, t->ignore_merges);
    hash_u64(&state, (uint64_t)t->vocab);
    for (int64_t id = 0; id < t->vocab; id++) {
        const wefti_token *token = &t->tokens[id];
        hash_u64(&state, token->flags);
        hash_u64(&state, (uint64_t)token->n_bytes);
        XXH3_64bits_update(&state, t->text + token->offset, (size_t)token->n_bytes);
    }
    hash_u64(&state, (uint64_t)t->merges.n);
    for (int64_t rank = 0; rank < t->merges.n; rank++) {
        hash_u64(&state, t->merges.keys[rank]);
        hash_u64(&state, (uint64_t)t->merged[rank]);
    }
    if (t->pipeline) { /* of the file alone: what it says beside vocabulary and merges */
        const wefti_pipeline *p = t->pipeline;
        XXH3_64bits_update(&state, p->source, (size_t)p->n_source);
    }
    return XXH3_64bits_digest(&state);
}

weft_status wefti_vocab_finish(weft_ctx *ctx, weft_tokenizer *t, int *missing) {
    for (int byte = 0; byte < 256 && !t->pipeline; byte++) {
        char c = (char)byte;
        WEFT_TRY(wefti_vocab_stage(ctx, t, &c, 1));
        t->byte_ids[byte] = wefti_vocab_find_staged(t);
        *missing = byte;
        if (t->byte_ids[byte] < 0) return WEFT_ERR_FORMAT;
    }
    *missing = -1;
    t->end = find_end(t);
    t->hash = hash_of(t);
    if (t->rule == WEFTI_RULE_NONE || t->pipeline) return WEFT_OK;
    return wefti_splitter_create(ctx, t->rule, &t->splitter);
}

weft_status weft_tokenizer_create_bytes(weft_ctx *ctx, weft_tokenizer **out) {
    weft_tokenizer *t;
    *out = NULL;
    WEFT_TRY(wefti_vocab_create(ctx, WEFTI_RULE_NONE, &t));
    weft_status status = WEFT_OK;
    int missing;
    for (int byte = 0; byte < 256 && status == WEFT_OK; byte++) {
        char c = (char)byte;
        status = wefti_vocab_stage(ctx, t, &c, 1);
        if (status == WEFT_OK)
            status = wefti_vocab_add_staged(ctx, t, byte, WEFTI_TOKEN_MODEL);
    }
    if (status == WEFT_OK) status = wefti_vocab_finish(ctx, t, &missing);
    if (status == WEFT_OK)
        *out = t;
    else
        weft_tokenizer_destroy(ctx, t);
    return status;
}

int64_t weft_tokenizer_vocab(const weft_tokenizer *t) { return t->vocab; }

const char *weft_tokenizer_kind(const weft_tokenizer *t) {
    return t->rule == WEFTI_RULE_NONE ? "bytes" : "bpe";
}

int32_t weft_tokenizer_end(const weft_tokenizer *t) { return t->end; }

uint64_t weft_tokenizer_hash(const weft_tokenizer *t) { return t->hash; }

const char *weft_tokenizer_bytes(const weft_tokenizer *t, int32_t id, int64_t *n_bytes) {
    *n_bytes = 0;
    if (!wefti_vocab_has(t, id)) return NULL;
    return wefti_vocab_shown(t, id, n_bytes);
}
