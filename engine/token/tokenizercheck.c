/* SPDX-License-Identifier: MIT */
/* Which parts a tokenizer.json may have, and the rule of the plain ones: the byte-level BPE
 * files of GPT-2 kind (pre_tokenizer ByteLevel with its own expression) and of Llama-3 kind
 * (Split by expression, then ByteLevel without one). What others do to text is read by
 * tokenizersteps.c. Whatever would change the ids and is not done here is refused by name. */
#include "token/loader.h"

#include <string.h>

/* The value of `key`, or NULL if it is absent or null. */
json_t *wefti_loader_get(const json_t *object, const char *key) {
    json_t *value = json_object_get(object, key);
    return json_is_null(value) ? NULL : value;
}

weft_status wefti_loader_refuse(const wefti_loader *l, const char *what,
                                const char *found, const char *expected) {
    return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT, "%s: %s is '%.*s', expected %s",
                         l->path, what, WEFTI_LOADER_SHOWN, found, expected);
}

static weft_status check_keys(const wefti_loader *l, json_t *object, const char *where,
                              const char *const *known) {
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        int k = 0;
        while (known[k] && strcmp(known[k], key) != 0) k++;
        if (!known[k])
            return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT,
                                 "%s: %s has the unknown part '%.*s'", l->path, where,
                                 WEFTI_LOADER_SHOWN, key);
    }
    return WEFT_OK;
}

/* A flag of a part, `fallback` if absent; anything but true and false is refused. */
weft_status wefti_loader_flag(const wefti_loader *l, const json_t *part, const char *key,
                              bool fallback, bool *out) {
    const json_t *value = wefti_loader_get(part, key);
    *out = value ? json_is_true(value) : fallback;
    if (!value || json_is_boolean(value)) return WEFT_OK;
    return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT, "%s: '%s' is not true or false",
                         l->path, key);
}

static weft_status check_byte_level(const wefti_loader *l, const json_t *part,
                                    bool *use_regex) {
    bool prefix_space;
    if (strcmp(wefti_loader_type(part), "ByteLevel") != 0)
        return wefti_loader_refuse(l, "a pre_tokenizer", wefti_loader_type(part),
                                   "ByteLevel");
    WEFT_TRY(wefti_loader_flag(l, part, "use_regex", true, use_regex));
    WEFT_TRY(wefti_loader_flag(l, part, "add_prefix_space", true, &prefix_space));
    if (!prefix_space) return WEFT_OK;
    return wefti_loader_refuse(l, "add_prefix_space of the pre_tokenizer", "true",
                               "false");
}

/* A Split that makes each match of a known expression a piece. */
static weft_status check_split(const wefti_loader *l, const json_t *part,
                               wefti_rule *rule) {
    if (strcmp(wefti_loader_type(part), "Split") != 0)
        return wefti_loader_refuse(l, "the first pre_tokenizer", wefti_loader_type(part),
                                   "Split");
    const char *regex = json_string_value(
        json_object_get(json_object_get(part, "pattern"), "Regex"));
    if (!regex || !wefti_rule_by_regex(regex, rule))
        return wefti_loader_refuse(l, "the splitting expression", regex ? regex : "",
                                   "that of gpt2 or of llama3");
    const char *behavior = json_string_value(json_object_get(part, "behavior"));
    bool invert;
    WEFT_TRY(wefti_loader_flag(l, part, "invert", false, &invert));
    if (behavior && strcmp(behavior, invert ? "Removed" : "Isolated") == 0)
        return WEFT_OK;
    return wefti_loader_refuse(l, "the behavior of Split", behavior ? behavior : "",
                               "Isolated");
}

weft_status wefti_loader_rule(const wefti_loader *l, wefti_rule *rule) {
    const json_t *part = wefti_loader_get(l->root, "pre_tokenizer");
    bool use_regex;
    if (!part)
        return wefti_loader_refuse(l, "pre_tokenizer", "null",
                                   "ByteLevel or Split + ByteLevel");
    if (strcmp(wefti_loader_type(part), "Sequence") != 0) {
        WEFT_TRY(check_byte_level(l, part, &use_regex));
        *rule = use_regex ? WEFTI_RULE_GPT2 : WEFTI_RULE_NONE;
        return WEFT_OK;
    }
    const json_t *list = json_object_get(part, "pretokenizers");
    if (json_array_size(list) != 2)
        return weft_ctx_fail(
            l->ctx, WEFT_ERR_FORMAT,
            "%s: the pre_tokenizer has %zu steps, expected Split + ByteLevel", l->path,
            json_array_size(list));
    WEFT_TRY(check_split(l, json_array_get(list, 0), rule));
    WEFT_TRY(check_byte_level(l, json_array_get(list, 1), &use_regex));
    if (!use_regex) return WEFT_OK;
    return wefti_loader_refuse(l, "use_regex of ByteLevel after Split", "true", "false");
}

/* A post_processor only adds special tokens around a text, which weft does not do; it
 * is kept for whoever reads a saved copy. */
static weft_status check_post_processor(const wefti_loader *l, const json_t *part) {
    if (!part) return WEFT_OK;
    const char *type = wefti_loader_type(part);
    if (strcmp(type, "ByteLevel") == 0 || strcmp(type, "TemplateProcessing") == 0)
        return WEFT_OK;
    if (strcmp(type, "Sequence") != 0)
        return wefti_loader_refuse(l, "the post_processor", type,
                                   "ByteLevel or TemplateProcessing");
    size_t k;
    json_t *step;
    json_array_foreach(json_object_get(part, "processors"), k, step) {
        if (strcmp(wefti_loader_type(step), "Sequence") == 0)
            return wefti_loader_refuse(l, "a step of the post_processor", "Sequence",
                                       "no nesting");
        WEFT_TRY(check_post_processor(l, step));
    }
    return WEFT_OK;
}

weft_status wefti_loader_root(const wefti_loader *l) {
    static const char *const known[] = {
        "version",       "truncation",     "padding", "added_tokens", "normalizer",
        "pre_tokenizer", "post_processor", "decoder", "model",        NULL};
    WEFT_TRY(check_keys(l, l->root, "the file", known));
    return check_post_processor(l, wefti_loader_get(l->root, "post_processor"));
}

static weft_status check_affixes(const wefti_loader *l) {
    static const char *const keys[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (int k = 0; k < 2; k++) {
        const json_t *value = wefti_loader_get(l->model, keys[k]);
        const char *text = json_string_value(value);
        if (value && (!text || text[0]))
            return wefti_loader_refuse(l, keys[k], text ? text : "not a text", "nothing");
    }
    return WEFT_OK;
}

weft_status wefti_loader_model(const wefti_loader *l) {
    static const char *const known[] = {"type",
                                        "dropout",
                                        "unk_token",
                                        "continuing_subword_prefix",
                                        "end_of_word_suffix",
                                        "fuse_unk",
                                        "byte_fallback",
                                        "ignore_merges",
                                        "vocab",
                                        "merges",
                                        NULL};
    if (!json_is_object(l->model))
        return weft_ctx_fail(l->ctx, WEFT_ERR_FORMAT, "%s: there is no model", l->path);
    /* the oldest files of GPT-2 kind do not say the type */
    if (wefti_loader_get(l->model, "type") &&
        strcmp(wefti_loader_type(l->model), "BPE") != 0)
        return wefti_loader_refuse(l, "the model", wefti_loader_type(l->model), "BPE");
    WEFT_TRY(check_keys(l, l->model, "the model", known));
    const json_t *dropout = wefti_loader_get(l->model, "dropout");
    if (dropout && !(json_is_number(dropout) && json_number_value(dropout) == 0))
        return wefti_loader_refuse(l, "dropout of the model", "set", "null");
    bool fallback; /* what it says is read with the steps */
    WEFT_TRY(wefti_loader_flag(l, l->model, "byte_fallback", false, &fallback));
    WEFT_TRY(
        wefti_loader_flag(l, l->model, "ignore_merges", false, &l->t->ignore_merges));
    return check_affixes(l);
}
