/* SPDX-License-Identifier: MIT */
/* config.json in the form that Hugging Face's classes read: numbers with the fewest digits
 * that give the same bits back. */
#include "model/describe.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

/* The fewest digits, from 15, that give a number back exactly when read: people's decimal
 * numbers need no more, and 17 are always enough. */
static int digits_of(double value) {
    char text[32];
    for (int digits = 15; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) return digits;
    }
    return 17;
}

static int digits_of_config(const weft_model_config *c) {
    const double values[] = {c->norm_eps, c->rope_theta, c->init_std, c->dropout};
    int most = 0;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        int digits = digits_of(values[i]);
        if (digits > most) most = digits;
    }
    return most;
}

/* A config.json that grows key by key; a failed key makes the whole fail at the end. */
typedef struct writer {
    json_t *root; /* owned until print_json */
    bool failed;
} writer;

static void put(writer *w, const char *key, json_t *value) {
    if (json_object_set_new(w->root, key, value) != 0) w->failed = true;
}

static void put_text(writer *w, const char *key, const char *text) {
    put(w, key, json_string(text));
}

static void put_int(writer *w, const char *key, int64_t value) {
    put(w, key, json_integer(value));
}

static void put_number(writer *w, const char *key, double value) {
    put(w, key, json_real(value));
}

static void put_bool(writer *w, const char *key, bool value) {
    put(w, key, json_boolean(value));
}

static void put_null(writer *w, const char *key) { put(w, key, json_null()); }

/* What Hugging Face finds its class by. */
static writer begin(const char *type, const char *architecture) {
    writer w = {json_object(), false};
    put_text(&w, "model_type", type);
    json_t *list = json_array();
    if (json_array_append_new(list, json_string(architecture)) != 0) w.failed = true;
    put(&w, "architectures", list);
    return w;
}

/* Writes the object into a string of ours, and lets go of it. */
static weft_status print_json(weft_ctx *ctx, const weft_model *model, writer *w,
                              char **out) {
    size_t flags = JSON_INDENT(2) | JSON_ENSURE_ASCII;
    flags |= JSON_REAL_PRECISION((size_t)digits_of_config(&model->config));
    size_t n_bytes = w->failed ? 0 : json_dumpb(w->root, NULL, 0, flags);
    weft_status status = WEFT_OK;
    *out = NULL;
    if (n_bytes == 0)
        status = weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for the config.json");
    if (status == WEFT_OK)
        status = wefti_alloc(ctx, n_bytes + 2, "the model's config.json", out);
    json_t *root = w->root;
    if (status == WEFT_OK && json_dumpb(root, *out, n_bytes, flags) != n_bytes) {
        wefti_free(ctx, *out); /* writing takes memory too */
        *out = NULL;
        status = weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for the config.json");
    }
    if (status == WEFT_OK) memcpy(*out + n_bytes, "\n", 2);
    json_decref(root);
    return status;
}

weft_status wefti_describe_gpt2(weft_ctx *ctx, const weft_model *model, char **json) {
    const weft_model_config *c = &model->config;
    writer w = begin("gpt2", "GPT2LMHeadModel");
    put_text(&w, "activation_function", "gelu_new");
    put_int(&w, "vocab_size", c->vocab);
    put_int(&w, "n_positions", c->context);
    put_int(&w, "n_embd", c->width);
    put_int(&w, "n_layer", c->layers);
    put_int(&w, "n_head", c->heads);
    put_int(&w, "n_inner", c->ffn);
    put_number(&w, "layer_norm_epsilon", c->norm_eps);
    put_number(&w, "initializer_range", c->init_std);
    put_number(&w, "resid_pdrop", c->dropout);
    put_number(&w, "embd_pdrop", c->dropout);
    put_number(&w, "attn_pdrop", 0);
    put_bool(&w, "tie_word_embeddings", c->tied);
    put_null(&w, "bos_token_id");
    put_null(&w, "eos_token_id");
    return print_json(ctx, model, &w, json);
}

static writer begin_llama(const weft_model *model) {
    if (model->ops->post_norm) return begin("olmo2", "Olmo2ForCausalLM");
    if (model->config.qk_norm) return begin("weft-llama", "WeftLlamaForCausalLM");
    return begin("llama", "LlamaForCausalLM");
}

weft_status wefti_describe_llama(weft_ctx *ctx, const weft_model *model, char **json) {
    const weft_model_config *c = &model->config;
    writer w = begin_llama(model);
    put_text(&w, "hidden_act", "silu");
    put_int(&w, "vocab_size", c->vocab);
    put_int(&w, "max_position_embeddings", c->context);
    put_int(&w, "hidden_size", c->width);
    put_int(&w, "num_hidden_layers", c->layers);
    put_int(&w, "num_attention_heads", c->heads);
    put_int(&w, "num_key_value_heads", c->kv_heads);
    put_int(&w, "head_dim", c->width / c->heads);
    put_int(&w, "intermediate_size", c->ffn);
    put_number(&w, "rms_norm_eps", c->norm_eps);
    put_number(&w, "rope_theta", c->rope_theta);
    put_number(&w, "initializer_range", c->init_std);
    put_number(&w, "resid_pdrop", c->dropout);
    put_number(&w, "attention_dropout", 0);
    put_bool(&w, "attention_bias", false);
    put_bool(&w, "mlp_bias", false);
    put_bool(&w, "tie_word_embeddings", c->tied);
    put_null(&w, "rope_scaling");
    put_null(&w, "bos_token_id");
    put_null(&w, "eos_token_id");
    put_null(&w, "pad_token_id");
    return print_json(ctx, model, &w, json);
}
