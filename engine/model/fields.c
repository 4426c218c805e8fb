/* SPDX-License-Identifier: MIT */
/* The table of a model configuration's fields: for comparing two configurations, and for
 * writing one as keys. */
#include "model/fields.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

#define AT(field) #field, offsetof(weft_model_config, field)

const wefti_field wefti_model_fields[] = {
    {AT(kind), WEFTI_FIELD_WORD, false},
    {AT(layers), WEFTI_FIELD_INT, false},
    {AT(width), WEFTI_FIELD_INT, false},
    {AT(heads), WEFTI_FIELD_INT, false},
    {AT(kv_heads), WEFTI_FIELD_INT, false},
    {AT(head_dim), WEFTI_FIELD_INT, false},
    {AT(ffn), WEFTI_FIELD_INT, false},
    {AT(vocab), WEFTI_FIELD_INT, false},
    {AT(norm_eps), WEFTI_FIELD_NUMBER, false},
    {AT(rope_theta), WEFTI_FIELD_NUMBER, false},
    {AT(rope_scaling), WEFTI_FIELD_TEXT, false},
    {AT(rope_local_theta), WEFTI_FIELD_NUMBER, false},
    {AT(rope_share), WEFTI_FIELD_NUMBER, false},
    {AT(window), WEFTI_FIELD_INT, false},
    {AT(window_period), WEFTI_FIELD_INT, false},
    {AT(rope_period), WEFTI_FIELD_INT, false},
    {AT(query_scale), WEFTI_FIELD_NUMBER, false},
    {AT(embedding_multiplier), WEFTI_FIELD_NUMBER, false},
    {AT(attention_multiplier), WEFTI_FIELD_NUMBER, false},
    {AT(residual_multiplier), WEFTI_FIELD_NUMBER, false},
    {AT(logits_scaling), WEFTI_FIELD_NUMBER, false},
    {AT(attention_cap), WEFTI_FIELD_NUMBER, false},
    {AT(logit_cap), WEFTI_FIELD_NUMBER, false},
    {AT(tied), WEFTI_FIELD_FLAG, false},
    {AT(qk_norm), WEFTI_FIELD_FLAG, false},
    {AT(attention_bias), WEFTI_FIELD_FLAG, false},
    {AT(mlp_bias), WEFTI_FIELD_FLAG, false},
    {AT(decoder_layers), WEFTI_FIELD_INT, false},
    {AT(buckets), WEFTI_FIELD_INT, false},
    {AT(distance), WEFTI_FIELD_INT, false},
    {AT(image), WEFTI_FIELD_INT, false},
    {AT(patch), WEFTI_FIELD_INT, false},
    {AT(channels), WEFTI_FIELD_INT, false},
    {AT(context), WEFTI_FIELD_INT, true},
    {AT(dropout), WEFTI_FIELD_NUMBER, true},
    {AT(init_std), WEFTI_FIELD_NUMBER, true},
    {NULL, 0, WEFTI_FIELD_INT, false},
};

static const void *place(const wefti_field *field, const weft_model_config *config) {
    return (const char *)config + field->offset;
}

static size_t size_of(const wefti_field *field) {
    switch (field->type) {
    case WEFTI_FIELD_INT: return sizeof(int64_t);
    case WEFTI_FIELD_NUMBER: return sizeof(double);
    case WEFTI_FIELD_FLAG: return sizeof(int);
    case WEFTI_FIELD_TEXT:
    case WEFTI_FIELD_WORD: break;
    }
    return sizeof(const char *);
}

static const char *word_of(const wefti_field *field, const weft_model_config *config) {
    const char *word;
    if (field->type == WEFTI_FIELD_TEXT) return place(field, config);
    memcpy(&word, place(field, config), sizeof word);
    return word ? word : "";
}

bool wefti_field_same(const wefti_field *field, const weft_model_config *a,
                      const weft_model_config *b) {
    if (field->type == WEFTI_FIELD_WORD || field->type == WEFTI_FIELD_TEXT)
        return strcmp(word_of(field, a), word_of(field, b)) == 0;
    return memcmp(place(field, a), place(field, b), size_of(field)) == 0;
}

const char *wefti_field_text(const wefti_field *field, const weft_model_config *config,
                             char *out, size_t out_size) {
    int64_t whole;
    double number;
    int on;
    switch (field->type) {
    case WEFTI_FIELD_INT:
        memcpy(&whole, place(field, config), sizeof whole);
        snprintf(out, out_size, "%lld", (long long)whole);
        break;
    case WEFTI_FIELD_NUMBER:
        memcpy(&number, place(field, config), sizeof number);
        snprintf(out, out_size, "%.17g", number);
        wefti_with_point(out);
        break;
    case WEFTI_FIELD_FLAG:
        memcpy(&on, place(field, config), sizeof on);
        snprintf(out, out_size, "%s", on ? "true" : "false");
        break;
    case WEFTI_FIELD_TEXT:
    case WEFTI_FIELD_WORD: snprintf(out, out_size, "%s", word_of(field, config)); break;
    }
    return out;
}

const wefti_field *wefti_model_differs(const weft_model_config *a,
                                       const weft_model_config *b) {
    for (const wefti_field *field = wefti_model_fields; field->name; field++)
        if (!field->free && !wefti_field_same(field, a, b)) return field;
    return NULL;
}
