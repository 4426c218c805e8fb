/* SPDX-License-Identifier: MIT */
/* Reading a Hugging Face config.json. Keys that change the computation are read or, if
 * weft does not support them, refused; other keys are ignored. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/json.h"
#include "base/sized.h"
#include "model/families.h"
#include "model/rotary.h"

/* Keeps the first failure; later reads return their default. */
typedef struct reader {
    weft_ctx *ctx;
    const char *where; /* for error messages */
    const json_t *root;
    weft_status status;
} reader;

/* The value of a key; NULL when it is missing or null. */
static const json_t *find(const reader *r, const char *key) {
    const json_t *value = json_object_get(r->root, key);
    return json_is_null(value) ? NULL : value;
}

static void complain(reader *r, const char *key, const char *what) {
    if (r->status != WEFT_OK) return;
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

/* ---- keys with a single supported value ---- */

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

/* ---- rotary positions ---- */

/* A reader of a sub-object; its first failure is passed on to the outer reader. */
static reader inside(const reader *r, const json_t *object) {
    return (reader){r->ctx, r->where, object, WEFT_OK};
}

static void end_inside(reader *r, const reader *inner) {
    if (r->status == WEFT_OK) r->status = inner->status;
}

static wefti_rope_rule rule_named(reader *r, const char *type) {
    static const char *const types[] = {"default", "linear", "llama3", "yarn"};
    for (int i = 0; i < 4; i++)
        if (strcmp(type, types[i]) == 0) return (wefti_rope_rule)i;
    r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                              "%s: the rotary positions are scaled by \"%.40s\", "
                              "expected default, linear, llama3 or yarn",
                              r->where, type);
    return WEFTI_ROPE_DEFAULT;
}

/* Reads yarn's attention factor, which some files give as a ratio of two scales. */
static double read_attention(reader *r, double factor) {
    double all = read_number(r, "mscale_all_dim", 0), one = read_number(r, "mscale", 0);
    double given = read_number(r, "attention_factor", 0);
    if (given > 0 || one <= 0 || all <= 0 || factor <= 1) return given;
    return (0.1 * one * log(factor) + 1) / (0.1 * all * log(factor) + 1);
}

static void read_scaling(reader *r, double context, weft_model_config *c) {
    wefti_rope_scaling s = {.fast = 32, .slow = 1, .truncate = true};
    s.rule = rule_named(r, read_text(r, "rope_type", read_text(r, "type", "default")));
    if (s.rule == WEFTI_ROPE_DEFAULT || r->status != WEFT_OK) return;
    s.original = read_number(r, "original_max_position_embeddings", context);
    if (!find(r, "factor") && s.rule != WEFTI_ROPE_YARN)
        complain(r, "factor", "is missing");
    s.factor = read_number(r, "factor", context / s.original);
    s.low = read_number(r, "low_freq_factor", 1);
    s.high = read_number(r, "high_freq_factor", 4);
    s.fast = read_number(r, "beta_fast", 32);
    s.slow = read_number(r, "beta_slow", 1);
    s.truncate = read_bool(r, "truncate", true);
    if (s.rule == WEFTI_ROPE_YARN) s.attention = read_attention(r, s.factor);
    wefti_rope_scaling_text(&s, c->rope_scaling, sizeof c->rope_scaling);
}

static void read_share(reader *r, const char *key, double usual, weft_model_config *c) {
    double share = read_number(r, key, usual);
    c->rope_share = share == 1 ? 0 : share;
}

/* Reads one object for all layers. */
static void read_rope_object(reader *r, const json_t *rope, weft_model_config *c) {
    reader inner = inside(r, rope);
    c->rope_theta = read_number(&inner, "rope_theta", c->rope_theta);
    if (find(&inner, "partial_rotary_factor"))
        read_share(&inner, "partial_rotary_factor", 1, c);
    read_scaling(&inner, (double)c->context, c);
    end_inside(r, &inner);
}

/* Reads one object for each type of layer. */
static void read_rope_pair(reader *r, const json_t *rope, weft_model_config *c) {
    const json_t *local = json_object_get(rope, "sliding_attention");
    read_rope_object(r, json_object_get(rope, "full_attention"), c);
    if (!json_is_object(local)) return;
    reader inner = inside(r, local);
    c->rope_local_theta = read_number(&inner, "rope_theta", c->rope_local_theta);
    expect_text(&inner, "rope_type", "default");
    end_inside(r, &inner);
}

/* Reads rope_theta and rope_scaling, or in newer files rope_parameters, which contains
 * both; layers with a window may have their own. */
static void read_rope(reader *r, const wefti_traits *t, weft_model_config *c) {
    bool local = (t->knows & WEFTI_KNOWS_LOCAL) != 0;
    const json_t *old = find(r, "rope_scaling"), *new = find(r, "rope_parameters");
    const json_t *rope = new ? new : old;
    double usual = t->json_rope_theta > 0 ? t->json_rope_theta : 10000;
    c->rope_theta = read_number(r, "rope_theta",
                                read_number(r, "rotary_emb_base", usual));
    if (local)
        c->rope_local_theta = read_number(
            r, "rope_local_base_freq",
            strcmp(t->model_type, "gemma3_text") == 0 ? 10000 : c->rope_theta);
    bool neox = t->place == WEFTI_NORM_PARALLEL;
    read_share(r, neox ? "rotary_pct" : "partial_rotary_factor", neox ? 0.25 : 1, c);
    if (!rope) return;
    if (!json_is_object(rope))
        complain(r, new ? "rope_parameters" : "rope_scaling", "is not an object");
    else if (json_object_get(rope, "full_attention"))
        read_rope_pair(r, rope, c);
    else
        read_rope_object(r, rope, c);
}

/* ---- windows ---- */

/* Whether the list of layers has a window (or a 1) in every layer but each p-th (p = 0: in
 * every layer); *all: no layer has one. */
static bool has_period(const json_t *types, int64_t p, bool *all) {
    size_t n = json_array_size(types), full = 0, fits = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(types, i);
        const char *number = json_integer_value(item) == 1 ? "sliding_attention"
                                                           : "full_attention";
        const char *type = json_is_integer(item) ? number : json_string_value(item);
        bool is_full = type && strcmp(type, "full_attention") == 0;
        if (!is_full && (!type || strcmp(type, "sliding_attention") != 0)) return false;
        full += is_full;
        fits += is_full == (p > 0 && (int64_t)(i + 1) % p == 0);
    }
    *all = full == n;
    return fits == n;
}

static void read_layer_types(reader *r, const json_t *types, weft_model_config *c) {
    bool all = false;
    for (int64_t p = 0; p <= c->layers; p++) {
        c->window_period = p;
        if (has_period(types, p, &all)) return;
        if (all) break;
    }
    c->window_period = 0;
    if (!all)
        complain(r, "layer_types",
                 "is no list of sliding_attention and full_attention with the latter in "
                 "each so-manieth layer");
    c->window = 0;
}

/* A list with 0 for each layer without rotary positions; or each so-manieth. */
static void read_rope_period(reader *r, weft_model_config *c) {
    const json_t *list = find(r, "no_rope_layers");
    bool all;
    c->rope_period = read_int_or(r, "no_rope_layer_interval", 4);
    if (!list || has_period(list, c->rope_period, &all)) return;
    for (c->rope_period = 0; c->rope_period <= c->layers; c->rope_period++)
        if (has_period(list, c->rope_period, &all)) return;
    complain(r, "no_rope_layers", "is no list of 1, with 0 in each so-manieth layer");
}

static void read_window(reader *r, const wefti_traits *t, weft_model_config *c) {
    bool slides = true;
    bool given = json_object_get(r->root, "sliding_window") !=
                 NULL; /* null counts as given */
    const json_t *types = find(r, "layer_types");
    if (!(t->knows & WEFTI_KNOWS_WINDOW)) {
        expect_bool(r, "use_sliding_window", false);
        return;
    }
    if (strncmp(t->model_type, "qwen", 4) == 0)
        slides = read_bool(r, "use_sliding_window", false);
    c->window = read_int_or(r, "sliding_window",
                            given || t->fused_ffn || t->layer_norm ? 0 : 4096);
    if (!slides) c->window = 0;
    if (c->window == 0 || !(t->knows & WEFTI_KNOWS_PERIOD)) return;
    c->window_period = read_int_or(r, "sliding_window_pattern", t->period);
    int64_t from = strncmp(t->model_type, "qwen", 4) == 0
                       ? read_int_or(r, "max_window_layers", 28)
                       : 0;
    if (types)
        read_layer_types(r, types, c);
    else if (from >= c->layers)
        c->window = 0;
    else if (from > 0)
        complain(r, "max_window_layers", "lies between the layers, expected 0 or all");
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

static void read_sizes(reader *r, weft_model_config *c) {
    c->vocab = read_int(r, "vocab_size");
    c->context = read_int(r, "max_position_embeddings");
    c->width = read_int(r, "hidden_size");
    c->layers = read_int(r, "num_hidden_layers");
    c->heads = read_int(r, "num_attention_heads");
}

/* A factor, which a file may leave out. */
static double read_factor(reader *r, const char *key) {
    double factor = read_number(r, key, 1);
    if (!(factor > 0)) complain(r, key, "is not above 0");
    return factor;
}

static void read_multipliers(reader *r, weft_model_config *c) {
    c->embedding_multiplier = read_factor(r, "embedding_multiplier");
    c->attention_multiplier = read_factor(r, "attention_multiplier");
    c->residual_multiplier = read_factor(r, "residual_multiplier");
    c->logits_scaling = read_factor(r, "logits_scaling");
}

static void read_llama(reader *r, const wefti_traits *t, weft_model_config *c) {
    bool gemma = t->activation == WEFTI_CURVE_GEGLU, plain = t->always_mlp_bias;
    const char *act = gemma || find(r, "hidden_activation") ? "hidden_activation"
                                                            : "hidden_act";
    read_sizes(r, c);
    c->kv_heads = read_int_or(r, "num_key_value_heads", c->heads);
    c->head_dim = read_int_or(r, "head_dim", t->json_head_dim);
    c->ffn = read_int(r, "intermediate_size");
    c->norm_eps = t->json_norm_eps;
    if (!t->fixed_eps)
        c->norm_eps = read_number(r, plain ? "norm_epsilon" : "rms_norm_eps",
                                  c->norm_eps);
    read_rope(r, t, c);
    read_window(r, t, c);
    if (t->knows & WEFTI_KNOWS_ROPE_PERIOD) read_rope_period(r, c);
    c->dropout = read_number(r, plain ? "residual_dropout" : "resid_pdrop", 0);
    c->tied = read_bool(r, "tie_word_embeddings", wefti_model_find(c->kind)->tied);
    c->attention_bias = read_bool(r, "attention_bias", t->json_bias);
    expect_bool(r, "attention_out_bias", false);
    c->mlp_bias = read_bool(r, "mlp_bias", false) || t->always_mlp_bias;
    expect_bool(r, "use_bias", t->always_mlp_bias);
    if (t->knows & WEFTI_KNOWS_QUERY_SCALE)
        c->query_scale = read_number(r, "query_pre_attn_scalar", 256);
    if (t->knows & WEFTI_KNOWS_CAPS) {
        bool two = strcmp(t->model_type, "gemma2") == 0;
        const char *scores = "attn_logit_softcapping",
                   *logits = "final_logit_softcapping";
        bool says_scores = json_object_get(r->root, scores) != NULL;
        bool says_logits = json_object_get(r->root, logits) != NULL;
        c->attention_cap = read_number(r, scores, two && !says_scores ? 50 : 0);
        c->logit_cap = read_number(r, logits, two && !says_logits ? 30 : 0);
    }
    if (t->knows & WEFTI_KNOWS_MULTIPLIERS) read_multipliers(r, c);
    if (find(r, "clip_qkv"))
        complain(r, "clip_qkv",
                 "is set, expected null: queries, keys and values are not clipped");
    expect_text(r, act, wefti_traits_activation(t));
    expect_bool(r, "use_bidirectional_attention", false);
}

static void read_neox(reader *r, const wefti_traits *t, weft_model_config *c) {
    read_sizes(r, c);
    c->ffn = read_int(r, "intermediate_size");
    c->norm_eps = read_number(r, "layer_norm_eps", t->json_norm_eps);
    c->dropout = read_number(r, "hidden_dropout", 0);
    c->tied = read_bool(r, "tie_word_embeddings", false);
    c->attention_bias = read_bool(r, "attention_bias", true);
    c->mlp_bias = true;
    read_rope(r, t, c);
    expect_text(r, "hidden_act", "gelu");
    expect_bool(r, "use_parallel_residual", true);
}

static void read_opt(reader *r, const wefti_traits *t, weft_model_config *c) {
    read_sizes(r, c);
    c->ffn = read_int(r, "ffn_dim");
    c->norm_eps = t->json_norm_eps;
    c->dropout = read_number(r, "dropout", 0.1);
    c->init_std = read_number(r, "init_std", 0);
    c->tied = read_bool(r, "tie_word_embeddings", true);
    c->attention_bias = c->mlp_bias = true;
    int64_t projected = read_int_or(r, "word_embed_proj_dim", c->width);
    if (projected != c->width) complain(r, "word_embed_proj_dim", "is not hidden_size");
    expect_text(r, "activation_function", "relu");
    expect_bool(r, "do_layer_norm_before", true);
    expect_bool(r, "_remove_final_layer_norm", false);
    expect_bool(r, "enable_bias", true);
    expect_bool(r, "layer_norm_elementwise_affine", true);
}

/* Only the second form of T5: a gated feed-forward. */
static void read_t5(reader *r, weft_model_config *c) {
    enum { ANY_LENGTH = 1 << 20 }; /* there is no table of its positions */
    c->vocab = read_int(r, "vocab_size");
    c->context = ANY_LENGTH;
    c->width = read_int(r, "d_model");
    c->head_dim = read_int_or(r, "d_kv", 64);
    c->ffn = read_int(r, "d_ff");
    c->layers = read_int(r, "num_layers");
    c->decoder_layers = read_int_or(r, "num_decoder_layers", c->layers);
    c->heads = read_int(r, "num_heads");
    c->buckets = read_int_or(r, "relative_attention_num_buckets", 32);
    c->distance = read_int_or(r, "relative_attention_max_distance", 128);
    c->norm_eps = read_number(r, "layer_norm_epsilon", 1e-6);
    c->init_std = read_number(r, "initializer_factor", 1);
    c->dropout = read_number(r, "dropout_rate", 0.1);
    /* Files of transformers 5 say "tied" for all models; in a model with a separate head
     * the outputs are not scaled. */
    bool tied = read_bool(r, "tie_word_embeddings", true);
    c->tied = read_bool(r, "scale_decoder_outputs", tied);
    if (c->tied && !tied)
        complain(r, "scale_decoder_outputs", "is true with a head that is not tied");
    if (!find(r, "feed_forward_proj"))
        complain(r, "feed_forward_proj", "is missing, expected \"gated-gelu\"");
    expect_text(r, "feed_forward_proj", "gated-gelu");
}

static int64_t count_labels(reader *r) {
    const json_t *labels = find(r, "id2label");
    int64_t named = json_is_object(labels) ? (int64_t)json_object_size(labels) : 2;
    return read_int_or(r, "num_labels", named);
}

static void read_vit(reader *r, const wefti_traits *t, weft_model_config *c) {
    c->vocab = count_labels(r);
    c->width = read_int(r, "hidden_size");
    c->layers = read_int(r, "num_hidden_layers");
    c->heads = read_int(r, "num_attention_heads");
    c->ffn = read_int(r, "intermediate_size");
    c->image = read_int_or(r, "image_size", 224);
    c->patch = read_int_or(r, "patch_size", 16);
    c->channels = read_int_or(r, "num_channels", 3);
    c->norm_eps = read_number(r, "layer_norm_eps", t->json_norm_eps);
    c->dropout = read_number(r, "hidden_dropout_prob", 0);
    c->attention_bias = c->mlp_bias = true;
    expect_text(r, "hidden_act", "gelu");
    expect_bool(r, "qkv_bias", true);
    if (c->patch < 1 || c->patch > c->image)
        complain(r, "patch_size", "is not a side that fits the image");
    else
        c->context = wefti_model_positions(c, 0);
}

/* ---- the front ---- */

static void list_types(char *out, size_t size) {
    size_t used = 0;
    for (int i = 0; wefti_model_registry[i] && used < size; i++) {
        const wefti_traits *t = wefti_model_registry[i]->traits;
        used += (size_t)snprintf(out + used, size - used, "%s, ",
                                 t ? t->model_type : wefti_model_registry[i]->name);
    }
}

static const wefti_model_ops *kind_of(const char *type) {
    if (strcmp(type, "gpt2") == 0) return &wefti_model_gpt2;
    if (strcmp(type, "t5") == 0) return &wefti_model_t5;
    if (strcmp(type, "weft-llama") == 0) return &wefti_model_llama;
    for (int i = 0; wefti_model_registry[i]; i++) {
        const wefti_traits *t = wefti_model_registry[i]->traits;
        if (t && strcmp(type, t->model_type) == 0) return wefti_model_registry[i];
    }
    return NULL;
}

static void read_root(reader *r, weft_model_config *c) {
    const char *type = read_text(r, "model_type", "");
    const wefti_model_ops *kind = kind_of(type);
    char types[256] = "";
    list_types(types, sizeof types);
    if (!kind && r->status == WEFT_OK)
        r->status = weft_ctx_fail(r->ctx, WEFT_ERR_FORMAT,
                                  "%s: model_type is \"%.80s\", expected one of %sor "
                                  "weft-llama",
                                  r->where, type, types);
    if (find(r, "quantization_config"))
        complain(r, "quantization_config",
                 "is there, but quantized parameters are not read");
    if (r->status != WEFT_OK) return;
    const wefti_traits *t = kind->traits;
    c->kind = kind->name;
    c->init_std = read_number(r, "initializer_range", 0);
    if (!t && kind->input == WEFTI_INPUT_PAIRS) read_t5(r, c);
    if (!t && kind->input == WEFTI_INPUT_TEXT) read_gpt2(r, c);
    if (t && kind->input == WEFTI_INPUT_IMAGES) read_vit(r, t, c);
    if (!t || kind->input != WEFTI_INPUT_TEXT) return;
    c->qk_norm = t->always_qk_norm || strcmp(type, "weft-llama") == 0;
    if (t->place == WEFTI_NORM_PARALLEL)
        read_neox(r, t, c);
    else if (t->rotary)
        read_llama(r, t, c);
    else
        read_opt(r, t, c);
    if (t->always_bias) c->attention_bias = true;
}

weft_status weft_model_config_from_json(weft_ctx *ctx, const char *json, int64_t n_bytes,
                                        const char *where, weft_model_config *out) {
    json_t *root;
    WEFTI_SIZED_OUT(ctx, weft_model_config, out);
    *out = (weft_model_config){.struct_size = sizeof(weft_model_config)};
    WEFT_TRY(wefti_json_read(ctx, "", where, json, n_bytes, WEFT_ERR_FORMAT, &root));
    reader r = {ctx, where, root, WEFT_OK};
    read_root(&r, out);
    json_decref(root);
    return WEFTI_SIZED_GIVE(weft_model_config, out, r.status);
}
