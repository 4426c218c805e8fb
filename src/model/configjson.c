/* SPDX-License-Identifier: MIT */
/* Reading a Hugging Face config.json. Keys that change the mathematics are read or, where
 * weft has no such thing, refused; other keys are passed over. */
#include <string.h>

#include "base/json.h"
#include "model/model.h"

/* The first failure sticks; later reads give their fallback. */
typedef struct reader {
    weft_ctx *ctx;
    const char *where; /* for sentences */
    const json_t *root;
    weft_status status;
} reader;

/* The value of a key; NULL when it is missing or null. */
static const json_t *find(const reader *r, const char *key) {
    const json_t *value = json_object_get(r->root, key);
    return json_is_null(value) ? NULL : value;
}

static void complain(reader *r, const char *key, const char *what) {
    r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT, "%s: %s %s", r->where, key, what);
}

static int64_t read_int_or(reader *r, const char *key, int64_t fallback) {
    const json_t *value = find(r, key);
    if (!value) return fallback;
    if (json_is_integer(value)) return (int64_t)json_integer_value(value);
    complain(r, key, "is not a whole number");
    return fallback;
}

static int64_t read_int(reader *r, const char *key) {
    if (!find(r, key)) complain(r, key, "is missing");
    return read_int_or(r, key, 0);
}

static double read_number(reader *r, const char *key, double fallback) {
    const json_t *value = find(r, key);
    if (!value) return fallback;
    if (json_is_number(value)) return json_number_value(value);
    complain(r, key, "is not a number");
    return fallback;
}

static bool read_bool(reader *r, const char *key, bool fallback) {
    const json_t *value = find(r, key);
    if (!value) return fallback;
    if (json_is_boolean(value)) return json_is_true(value);
    complain(r, key, "is not true or false");
    return fallback;
}

static const char *read_text(reader *r, const char *key, const char *fallback) {
    const json_t *value = find(r, key);
    if (!value) return fallback;
    if (json_is_string(value)) return json_string_value(value);
    complain(r, key, "is not a string");
    return fallback;
}

/* ---- what weft has no other choice of ---- */

static void expect_text(reader *r, const char *key, const char *expected) {
    const char *found = read_text(r, key, expected);
    if (strcmp(found, expected) == 0) return;
    r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                              "%s: %s is \"%s\", expected \"%s\"", r->where, key, found,
                              expected);
}

static void expect_bool(reader *r, const char *key, bool expected) {
    if (read_bool(r, key, expected) != expected)
        complain(r, key,
                 expected ? "is false, expected true" : "is true, expected false");
}

/* rope_scaling (or, in newer files, rope_parameters with rope_theta inside) must be
 * absent or of the default kind. Gives rope_theta where it is inside, else `theta`. */
static double read_rope(reader *r, const char *key, double theta) {
    const json_t *rope = find(r, key);
    if (!rope) return theta;
    if (!json_is_object(rope)) {
        complain(r, key, "is not an object");
        return theta;
    }
    reader inside = {r->ctx, r->where, rope, WEFT_OK};
    const char *type = read_text(&inside, "rope_type",
                                 read_text(&inside, "type", "default"));
    theta = read_number(&inside, "rope_theta", theta);
    if (inside.status == WEFT_OK && strcmp(type, "default") != 0)
        inside.status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                                      "%s: %s is of type \"%s\", expected \"default\"",
                                      r->where, key, type);
    if (inside.status != WEFT_OK) r->status = inside.status;
    return theta;
}

/* ---- the kinds; fallbacks are the defaults of Hugging Face's classes ---- */

static void read_gpt2(reader *r, weft_model_config *c) {
    c->vocab = read_int(r, "vocab_size");
    c->context = read_int(r, "n_positions");
    c->width = read_int(r, "n_embd");
    c->layers = read_int(r, "n_layer");
    c->heads = read_int(r, "n_head");
    c->ffn = read_int_or(r, "n_inner", 0);
    c->norm_eps = read_number(r, "layer_norm_epsilon", 1e-5);
    c->dropout = read_number(r, "resid_pdrop", 0);
    c->tied = read_bool(r, "tie_word_embeddings", true);
    expect_text(r, "activation_function", "gelu_new");
    expect_bool(r, "scale_attn_weights", true);
    expect_bool(r, "scale_attn_by_inverse_layer_idx", false);
    expect_bool(r, "add_cross_attention", false);
}

static void read_head_width(reader *r, const weft_model_config *c) {
    int64_t D = c->heads > 0 ? c->width / c->heads : 0;
    int64_t found = read_int_or(r, "head_dim", D);
    if (found == D) return;
    r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                              "%s: head_dim is %lld, expected hidden_size / "
                              "num_attention_heads (%lld)",
                              r->where, (long long)found, (long long)D);
}

static void read_llama(reader *r, weft_model_config *c, double norm_eps) {
    c->vocab = read_int(r, "vocab_size");
    c->context = read_int(r, "max_position_embeddings");
    c->width = read_int(r, "hidden_size");
    c->layers = read_int(r, "num_hidden_layers");
    c->heads = read_int(r, "num_attention_heads");
    c->kv_heads = read_int_or(r, "num_key_value_heads", c->heads);
    c->ffn = read_int(r, "intermediate_size");
    c->norm_eps = read_number(r, "rms_norm_eps", norm_eps);
    c->rope_theta = read_number(r, "rope_theta", 10000);
    c->rope_theta = read_rope(r, "rope_scaling", c->rope_theta);
    c->rope_theta = read_rope(r, "rope_parameters", c->rope_theta);
    c->dropout = read_number(r, "resid_pdrop", 0);
    c->tied = read_bool(r, "tie_word_embeddings", false);
    read_head_width(r, c);
    expect_text(r, "hidden_act", "silu");
    expect_bool(r, "attention_bias", false);
    expect_bool(r, "mlp_bias", false);
}

/* ---- the front ---- */

static void read_root(reader *r, weft_model_config *c) {
    const char *type = read_text(r, "model_type", "");
    c->init_std = read_number(r, "initializer_range", 0);
    if (strcmp(type, "gpt2") == 0) {
        c->kind = wefti_model_gpt2.name;
        read_gpt2(r, c);
    } else if (strcmp(type, "llama") == 0 || strcmp(type, "weft-llama") == 0) {
        c->kind = wefti_model_llama.name;
        c->qk_norm = strcmp(type, "weft-llama") == 0;
        read_llama(r, c, 1e-6);
    } else if (strcmp(type, "olmo2") == 0) {
        c->kind = wefti_model_olmo2.name;
        c->qk_norm = true;
        read_llama(r, c, 1e-5);
    } else if (r->status == WEFT_OK) {
        r->status = weft_ctx_fail(
            r->ctx, WEFT_ERR_FORMAT,
            "%s: model_type is \"%s\", expected gpt2, llama, olmo2 or "
            "weft-llama",
            r->where, type);
    }
}

weft_status weft_model_config_from_json(weft_ctx *ctx, const char *json, int64_t n_bytes,
                                        const char *where, weft_model_config *out) {
    json_t *root;
    *out = (weft_model_config){0};
    WEFT_TRY(wefti_json_read(ctx, "", where, json, n_bytes, WEFT_ERR_FORMAT, &root));
    reader r = {ctx, where, root, WEFT_OK};
    read_root(&r, out);
    json_decref(root);
    return r.status;
}
