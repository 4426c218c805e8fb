/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include "token/pipeline.h"
#include "token/vocab.h"

enum { WEFTI_LOADER_SHOWN = 60 }; /* bytes of a file's text that a message repeats */

/* A tokenizer.json that is being read. */
typedef struct wefti_loader {
    weft_ctx *ctx;
    const char *path;
    json_t *root;  /* owned */
    json_t *model; /* part of root */
    weft_tokenizer *t;
    char *source; /* [n_source] the file's text; owned */
    int64_t n_source;
} wefti_loader;

/* The value of `key`, or NULL if it is absent or null. Borrowed. */
json_t *wefti_loader_get(const json_t *object, const char *key);

/* The "type" of a part; "" if it has none. */
static inline const char *wefti_loader_type(const json_t *part) {
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "";
}

/* The flag `key` of a part, `fallback` if absent; anything but true and false is
 * refused. */
weft_status wefti_loader_flag(const wefti_loader *l, const json_t *part, const char *key,
                              bool fallback, bool *out) WEFT_CHECKED;

/* Fails with "<path>: <what> is '<found>', expected <expected>". */
weft_status wefti_loader_refuse(const wefti_loader *l, const char *what,
                                const char *found, const char *expected) WEFT_CHECKED;

/* Whether the file is one of GPT-2's or Llama 3's kind, which bytes alone decide: whole byte
 * alphabet, a known expression, no normalizer, no token that is looked for in text. */
bool wefti_loader_is_plain(const wefti_loader *l);

/* Reads normalizer, pre_tokenizer and the model's settings into l->t->pipeline. */
weft_status wefti_loader_steps(wefti_loader *l) WEFT_CHECKED;

/* What follows from vocabulary and merges: bytes, unknown token, safe cuts, what ids show. */
weft_status wefti_loader_finish(wefti_loader *l) WEFT_CHECKED;

/* Checks everything around the model. */
weft_status wefti_loader_root(const wefti_loader *l) WEFT_CHECKED;

/* Finds the splitting rule: WEFTI_RULE_NONE is a ByteLevel without any. */
weft_status wefti_loader_rule(const wefti_loader *l, wefti_rule *rule) WEFT_CHECKED;

/* Checks the model's settings and takes ignore_merges into l->t; byte_fallback is for files
 * that are not plain. */
weft_status wefti_loader_model(const wefti_loader *l) WEFT_CHECKED;

/* weft_tokenizer_load of a text [n] of wefti_alloc, which is taken; errors say `where`. */
weft_status wefti_tokenizer_read(weft_ctx *ctx, const char *where, char *text, int64_t n,
                                 weft_tokenizer **out) WEFT_CHECKED;
