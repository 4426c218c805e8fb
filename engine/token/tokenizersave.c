/* SPDX-License-Identifier: MIT */
/* Tokenizer -> tokenizer.json, the format of Hugging Face's tokenizers library, and
 * tokenizer_config.json, from which transformers takes the class. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "text/json.h"
#include "base/memory.h"
#include "token/bytemap.h"
#include "token/vocab.h"

/* The printable string of a token as JSON; NULL if there is no memory. `room` holds
 * two bytes per byte of the longest token. */
static json_t *token_string(const weft_tokenizer *t, int64_t id, char *room) {
    const wefti_token *token = &t->tokens[id];
    const char *bytes = t->text + token->offset;
    if (token->flags & WEFTI_TOKEN_LITERAL)
        return json_stringn_nocheck(bytes, (size_t)token->n_bytes);
    int64_t n = wefti_bytemap_encode(bytes, token->n_bytes, room);
    return json_stringn_nocheck(room, (size_t)n);
}

static bool add_vocab(json_t *model, const weft_tokenizer *t, char *room) {
    json_t *vocab = json_object();
    if (json_object_set_new(model, "vocab", vocab) != 0) return false;
    for (int64_t id = 0; id < t->vocab; id++) {
        if (!(t->tokens[id].flags & WEFTI_TOKEN_MODEL)) continue;
        json_t *key = token_string(t, id, room);
        int rc = key ? json_object_set_new_nocheck(vocab, json_string_value(key),
                                                   json_integer(id))
                     : -1;
        json_decref(key);
        if (rc != 0) return false;
    }
    return true;
}

static bool add_merges(json_t *model, const weft_tokenizer *t, char *room) {
    json_t *merges = json_array();
    if (json_object_set_new(model, "merges", merges) != 0) return false;
    for (int64_t rank = 0; rank < t->merges.n; rank++) {
        json_t *left = token_string(t, (int64_t)(t->merges.keys[rank] >> 32), room);
        json_t *right = token_string(t, (int64_t)(t->merges.keys[rank] & UINT32_MAX),
                                     room);
        json_t *both = left && right ? json_sprintf("%s %s", json_string_value(left),
                                                    json_string_value(right))
                                     : NULL;
        json_decref(left);
        json_decref(right);
        if (json_array_append_new(merges, both) != 0) return false;
    }
    return true;
}

static json_t *model_json(const weft_tokenizer *t, char *room) {
    json_t *model = json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b}", "type", "BPE",
                              "dropout", "unk_token", "continuing_subword_prefix",
                              "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0,
                              "ignore_merges", t->ignore_merges);
    if (model && add_vocab(model, t, room) && add_merges(model, t, room)) return model;
    json_decref(model);
    return NULL;
}

static json_t *byte_level(bool use_regex) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", use_regex);
}

static json_t *pre_tokenizer(wefti_rule rule) {
    if (rule != WEFTI_RULE_LLAMA3) return byte_level(rule == WEFTI_RULE_GPT2);
    return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence",
                     "pretokenizers", "type", "Split", "pattern", "Regex",
                     wefti_rule_regex(rule), "behavior", "Isolated", "invert", 0,
                     byte_level(false));
}

/* What the file held besides, or what a file without anything besides would hold. */
static json_t *extras_json(const weft_tokenizer *t) {
    if (t->extras) return wefti_json_load(t->extras, (int64_t)strlen(t->extras), 0, NULL);
    return json_pack("{s:[], s:n}", "added_tokens", "post_processor");
}

static json_t *whole_json(const weft_tokenizer *t, char *room) {
    json_t *extras = extras_json(t);
    json_t *model = model_json(t, room);
    json_t *root = NULL;
    if (extras && model)
        root = json_pack("{s:s, s:n, s:n, s:O, s:n, s:o, s:O, s:o, s:O}", "version",
                         "1.0", "truncation", "padding", "added_tokens",
                         json_object_get(extras, "added_tokens"), "normalizer",
                         "pre_tokenizer", pre_tokenizer(t->rule), "post_processor",
                         json_object_get(extras, "post_processor"), "decoder",
                         byte_level(true), "model", model);
    json_decref(extras);
    json_decref(model);
    return root;
}

weft_status weft_tokenizer_save(weft_ctx *ctx, const weft_tokenizer *t,
                                const char *path) {
    int64_t longest = 0;
    if (t->pipeline) /* as it came */
        return wefti_file_write(ctx, path, t->pipeline->source, t->pipeline->n_source);
    for (int64_t id = 0; id < t->vocab; id++)
        if (t->tokens[id].n_bytes > longest) longest = t->tokens[id].n_bytes;
    char *room;
    WEFT_TRY(wefti_alloc_n(ctx, 2 * longest, 1, "a token", &room));
    weft_status status = wefti_json_write(ctx, path, whole_json(t, room));
    wefti_free(ctx, room);
    return status;
}

/* The settings as JSON; NULL if there is no memory. */
static json_t *settings_json(const weft_tokenizer *t, char *room) {
    json_t *root = json_pack("{s:s}", "tokenizer_class", "PreTrainedTokenizerFast");
    json_t *end = root && t->end >= 0 ? token_string(t, t->end, room) : NULL;
    if (root && t->end >= 0 && json_object_set_new(root, "eos_token", end) != 0) {
        json_decref(root);
        return NULL;
    }
    return root;
}

weft_status wefti_settings_save(weft_ctx *ctx, const weft_tokenizer *t,
                                const char *folder) {
    char path[PATH_MAX], *room;
    int64_t longest = t->end >= 0 ? t->tokens[t->end].n_bytes : 0;
    if (snprintf(path, sizeof path, "%s/tokenizer_config.json", folder) >= PATH_MAX)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", folder);
    WEFT_TRY(wefti_alloc_n(ctx, 2 * longest, 1, "a token", &room));
    weft_status status = wefti_json_write(ctx, path, settings_json(t, room));
    wefti_free(ctx, room);
    return status;
}
