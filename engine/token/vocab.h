/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/tokenizer.h>

#include "token/pipeline.h"
#include "token/splitter.h"
#include "token/strmap.h"

#define WEFTI_END_OF_TEXT "<|endoftext|>"

enum {
    WEFTI_TOKEN_EXISTS = 1,
    WEFTI_TOKEN_MODEL =
        2, /* in the model's vocabulary, not only among the added tokens */
    WEFTI_TOKEN_SPECIAL = 4, /* never the result of encoding text */
    WEFTI_TOKEN_LITERAL = 8  /* written with characters outside the byte alphabet */
};

typedef struct wefti_token {
    int64_t offset; /* of its bytes in the tokenizer's text */
    int32_t n_bytes;
    uint32_t flags;
} wefti_token;

struct weft_tokenizer {
    wefti_rule rule;    /* WEFTI_RULE_NONE: the kind "bytes" */
    bool ignore_merges; /* a piece that is a token is that token, merges or not */
    int64_t vocab;
    wefti_token *tokens; /* [vocab], owned */
    int64_t tokens_capacity;
    char *text; /* bytes of all tokens; then the staged token; owned */
    int64_t n_text, n_staged, text_capacity;
    wefti_strmap lookup; /* bytes -> id, of tokens of the model that are not literal */
    wefti_u64map merges; /* left id << 32 | right id -> rank */
    int32_t *merged;     /* [merges.n] rank -> id; owned */
    int64_t merged_capacity;
    int32_t byte_ids[256]; /* -1: none, in a pipeline only */
    int32_t end;
    uint64_t hash;
    wefti_splitter *splitter; /* NULL for the kind "bytes"; owned */
    wefti_pipeline *pipeline; /* NULL for plain files; owned */
    wefti_token *shown; /* [vocab] the bytes that ids stand for in text, where they are
                               * others than their names in the vocabulary; or NULL; owned */
    char *shown_text;   /* owned */
    char *
        extras; /* parts of tokenizer.json that are kept as they came, as JSON; or NULL */
};

/* An empty tokenizer, to be filled and finished. */
weft_status wefti_vocab_create(weft_ctx *ctx, wefti_rule rule,
                               weft_tokenizer **out) WEFT_CHECKED;

/* Stages the bytes of a token in t->text + t->n_text, or the bytes of two tokens
 * joined. */
weft_status wefti_vocab_stage(weft_ctx *ctx, weft_tokenizer *t, const char *bytes,
                              int64_t n_bytes) WEFT_CHECKED;
weft_status wefti_vocab_stage_pair(weft_ctx *ctx, weft_tokenizer *t, int32_t left,
                                   int32_t right) WEFT_CHECKED;

/* The id of the staged bytes, or -1. */
int32_t wefti_vocab_find_staged(const weft_tokenizer *t);

/* Gives the staged bytes the id `id`, which must be free. */
weft_status wefti_vocab_add_staged(weft_ctx *ctx, weft_tokenizer *t, int64_t id,
                                   uint32_t flags) WEFT_CHECKED;

/* Appends a merge. [out] *fresh is false if the pair has one already (nothing is
 * added). */
weft_status wefti_vocab_add_merge(weft_ctx *ctx, weft_tokenizer *t, int32_t left,
                                  int32_t right, int32_t merged,
                                  bool *fresh) WEFT_CHECKED;

/* Finds the end token, compiles the rule, computes the hash. Every byte must have a
 * token; [out] *missing is the first that has none (WEFT_ERR_FORMAT, without a
 * sentence), else -1. */
weft_status wefti_vocab_finish(weft_ctx *ctx, weft_tokenizer *t,
                               int *missing) WEFT_CHECKED;

/* The bytes that an id of the tokenizer stands for in text. */
static inline const char *wefti_vocab_shown(const weft_tokenizer *t, int64_t id,
                                            int64_t *n_bytes) {
    const wefti_token *token = t->shown ? &t->shown[id] : &t->tokens[id];
    *n_bytes = token->n_bytes;
    return (t->shown ? t->shown_text : t->text) + token->offset;
}

/* The id of a text in the model's vocabulary, or -1. */
int32_t wefti_vocab_find(const weft_tokenizer *t, const char *text, int64_t n);

/* The key of a pair in t->merges. */
static inline uint64_t wefti_pair_key(int32_t left, int32_t right) {
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

/* Whether an id is one that the tokenizer uses. */
static inline bool wefti_vocab_has(const weft_tokenizer *t, int64_t id) {
    return id >= 0 && id < t->vocab && (t->tokens[id].flags & WEFTI_TOKEN_EXISTS);
}

/* Writes tokenizer_config.json into the folder, where a chat has not: the class that takes
 * tokenizer.json as it is, and the end token. Without it transformers guesses a class by the kind
 * of model, and gpt2's adds "<|endoftext|>" behind the last id: outside of the embedding, if the
 * tokenizer is of bytes. */
weft_status wefti_settings_save(weft_ctx *ctx, const weft_tokenizer *t,
                                const char *folder) WEFT_CHECKED;
