/* SPDX-License-Identifier: MIT */
/* Writes config.json in the form that Hugging Face's classes read: numbers have the
 * fewest digits that read back to the same bits. */
#include "model/describe.h"
#include "base/text.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "model/families.h"
#include "model/rotary.h"

/* The fewest digits, at least 15, with which a number reads back exactly. Numbers that
 * people write in decimal need no more than 15, and 17 are always enough. */
static int digits_of(double value) {
    char text[32];
    for (int digits = 15; digits < 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        wefti_with_point(text);
        if (wefti_strtod(text, NULL) == value) return digits;
    }
    return 17;
}

static int digits_of_config(const weft_model_config *c) {
    const double values[] = {c->norm_eps,
                             c->rope_theta,
                             c->init_std,
                             c->dropout,
                             c->rope_share,
                             c->query_scale,
                             c->rope_local_theta,
                             c->logit_cap,
                             c->attention_cap,
                             c->embedding_multiplier,
                             c->attention_multiplier,
                             c->residual_multiplier,
                             c->logits_scaling};
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

/* Begins with the keys by which Hugging Face finds the class. */
static writer begin(const char *type, const char *architecture) {
    writer w = {json_object(), false};
    put_text(&w, "model_type", type);
    json_t *list = json_array();
    if (json_array_append_new(list, json_string(architecture)) != 0) w.failed = true;
    put(&w, "architectures", list);
    return w;
}

/* Writes the object into a string of this library, and releases the object. */
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
        wefti_free(ctx, *out); /* writing needs memory too */
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

/* The last two ids come after those of the tokenizer: the start of a target, which is
 * also the padding, and the end. */
weft_status wefti_describe_t5(weft_ctx *ctx, const weft_model *model, char **json) {
    const weft_model_config *c = &model->config;
    writer w = begin("t5", "T5ForConditionalGeneration");
    put_bool(&w, "is_encoder_decoder", true);
    put_text(&w, "feed_forward_proj", "gated-gelu");
    put_int(&w, "vocab_size", c->vocab);
    put_int(&w, "d_model", c->width);
    put_int(&w, "d_kv", c->head_dim);
    put_int(&w, "d_ff", c->ffn);
    put_int(&w, "num_layers", c->layers);
    put_int(&w, "num_decoder_layers", c->decoder_layers);
    put_int(&w, "num_heads", c->heads);
    put_int(&w, "relative_attention_num_buckets", c->buckets);
    put_int(&w, "relative_attention_max_distance", c->distance);
    put_number(&w, "layer_norm_epsilon", c->norm_eps);
    put_number(&w, "initializer_factor", c->init_std);
    put_number(&w, "dropout_rate", c->dropout);
    put_bool(&w, "tie_word_embeddings", c->tied);
    put_int(&w, "pad_token_id", c->vocab - 2);
    put_int(&w, "decoder_start_token_id", c->vocab - 2);
    put_int(&w, "eos_token_id", c->vocab - 1);
    return print_json(ctx, model, &w, json);
}

/* Classes without names get those of HF: LABEL_0 and so on; only num_labels matters. */
weft_status wefti_describe_vit(weft_ctx *ctx, const weft_model *model, char **json) {
    const weft_model_config *c = &model->config;
    char key[32], label[48];
    writer w = begin("vit", "ViTForImageClassification"), names = {json_object(), false},
           numbers = {json_object(), false};
    for (int64_t i = 0; i < c->vocab; i++) {
        snprintf(key, sizeof key, "%lld", (long long)i);
        snprintf(label, sizeof label, "LABEL_%lld", (long long)i);
        put_text(&names, key, label);
        put_int(&numbers, label, i);
    }
    put(&w, "id2label", names.root);
    put(&w, "label2id", numbers.root);
    w.failed |= names.failed || numbers.failed;
    put_int(&w, "num_labels", c->vocab);
    put_int(&w, "image_size", c->image);
    put_int(&w, "patch_size", c->patch);
    put_int(&w, "num_channels", c->channels);
    put_int(&w, "hidden_size", c->width);
    put_int(&w, "intermediate_size", c->ffn);
    put_int(&w, "num_hidden_layers", c->layers);
    put_int(&w, "num_attention_heads", c->heads);
    put_text(&w, "hidden_act", "gelu");
    put_bool(&w, "qkv_bias", true);
    put_number(&w, "layer_norm_eps", c->norm_eps);
    put_number(&w, "initializer_range", c->init_std);
    put_number(&w, "hidden_dropout_prob", c->dropout);
    put_number(&w, "attention_probs_dropout_prob", 0);
    return print_json(ctx, model, &w, json);
}

/* ---- decoders ---- */

static writer begin_decoder(const weft_model *model) {
    const wefti_traits *t = model->ops->traits;
    if (model->config.qk_norm && !t->always_qk_norm)
        return begin("weft-llama", "WeftLlamaForCausalLM");
    return begin(t->model_type, t->architecture);
}

/* rope_type and its parameters; theta = 0: rope_theta is a separate key. */
static json_t *rope_json(const wefti_rope_scaling *s, double theta) {
    static const char *const types[] = {"default", "linear", "llama3", "yarn"};
    json_t *rope = json_object();
    writer w = {rope, rope == NULL};
    put_text(&w, "rope_type", types[s->rule]);
    if (theta > 0) put_number(&w, "rope_theta", theta);
    if (s->rule != WEFTI_ROPE_DEFAULT) put_number(&w, "factor", s->factor);
    if (s->rule == WEFTI_ROPE_LLAMA3 || s->rule == WEFTI_ROPE_YARN)
        put_int(&w, "original_max_position_embeddings", (int64_t)s->original);
    if (s->rule == WEFTI_ROPE_LLAMA3) {
        put_number(&w, "low_freq_factor", s->low);
        put_number(&w, "high_freq_factor", s->high);
    }
    if (s->rule == WEFTI_ROPE_YARN) {
        put_number(&w, "beta_fast", s->fast);
        put_number(&w, "beta_slow", s->slow);
        put_bool(&w, "truncate", s->truncate);
        if (s->attention > 0) put_number(&w, "attention_factor", s->attention);
    }
    if (!w.failed) return rope;
    json_decref(rope);
    return NULL;
}

/* Writes the older form; if layers differ also the newer one, because in some classes the
 * older form cannot express that. */
static void put_rope(writer *w, const weft_model_config *c,
                     const wefti_rope_scaling *scaling) {
    const wefti_rope_scaling bare = {.rule = WEFTI_ROPE_DEFAULT};
    put_number(w, "rope_theta", c->rope_theta);
    if (scaling->rule == WEFTI_ROPE_DEFAULT)
        put_null(w, "rope_scaling");
    else
        put(w, "rope_scaling", rope_json(scaling, 0));
    if (c->rope_local_theta <= 0) return;
    put_number(w, "rope_local_base_freq", c->rope_local_theta);
    json_t *both = json_object();
    writer inner = {both, both == NULL};
    put(&inner, "full_attention", rope_json(scaling, c->rope_theta));
    put(&inner, "sliding_attention", rope_json(&bare, c->rope_local_theta));
    put(w, "rope_parameters", both);
    if (inner.failed) w->failed = true;
}

static void put_window(writer *w, const wefti_traits *t, const weft_model_config *c) {
    bool slides = c->window > 0;
    if (!(t->knows & WEFTI_KNOWS_WINDOW)) return;
    if (slides)
        put_int(w, "sliding_window", c->window);
    else
        put_null(w, "sliding_window");
    if (!(t->knows & WEFTI_KNOWS_PERIOD)) return;
    put_bool(w, "use_sliding_window", slides);
    json_t *types = json_array();
    for (int64_t i = 1; i <= c->layers; i++) {
        bool all = !slides || (c->window_period > 0 && i % c->window_period == 0);
        const char *type = all ? "full_attention" : "sliding_attention";
        if (json_array_append_new(types, json_string(type)) != 0) w->failed = true;
    }
    put(w, "layer_types", types);
}

static void put_rope_period(writer *w, const weft_model_config *c) {
    json_t *list = json_array();
    for (int64_t i = 1; i <= c->layers; i++) {
        int has = c->rope_period == 0 || i % c->rope_period != 0;
        if (json_array_append_new(list, json_integer(has)) != 0) w->failed = true;
    }
    put(w, "no_rope_layers", list);
    put_int(w, "no_rope_layer_interval", c->rope_period);
}

static void put_or_null(writer *w, const char *key, double value) {
    if (value > 0)
        put_number(w, key, value);
    else
        put_null(w, key);
}

static void put_extras(writer *w, const wefti_traits *t, const weft_model_config *c) {
    if (t->knows & WEFTI_KNOWS_CAPS) {
        put_or_null(w, "attn_logit_softcapping", c->attention_cap);
        put_or_null(w, "final_logit_softcapping", c->logit_cap);
    }
    if (t->knows & WEFTI_KNOWS_QUERY_SCALE) {
        double scale = c->query_scale > 0 ? c->query_scale : (double)c->head_dim;
        if (scale == floor(scale))
            put_int(w, "query_pre_attn_scalar", (int64_t)scale);
        else
            put_number(w, "query_pre_attn_scalar", scale);
    }
    if (t->knows & WEFTI_KNOWS_MULTIPLIERS) {
        put_number(w, "embedding_multiplier", c->embedding_multiplier);
        put_number(w, "attention_multiplier", c->attention_multiplier);
        put_number(w, "residual_multiplier", c->residual_multiplier);
        put_number(w, "logits_scaling", c->logits_scaling);
    }
    if (t->knows & WEFTI_KNOWS_BIAS) put_bool(w, "attention_bias", c->attention_bias);
    if (t->knows & WEFTI_KNOWS_MLP_BIAS) put_bool(w, "mlp_bias", c->mlp_bias);
    if (t->knows & WEFTI_KNOWS_HEAD_DIM) put_int(w, "head_dim", c->head_dim);
}

static void put_neox(writer *w, const weft_model_config *c,
                     const wefti_rope_scaling *scaling) {
    double share = c->rope_share > 0 ? c->rope_share : 1;
    put_text(w, "hidden_act", "gelu");
    put_int(w, "intermediate_size", c->ffn);
    put_number(w, "layer_norm_eps", c->norm_eps);
    put_number(w, "initializer_range", c->init_std);
    put_number(w, "hidden_dropout", c->dropout);
    put_number(w, "rotary_pct", share);
    put_number(w, "rotary_emb_base", c->rope_theta);
    put_bool(w, "use_parallel_residual", true);
    if (scaling->rule == WEFTI_ROPE_DEFAULT) return;
    json_t *rope = rope_json(scaling, c->rope_theta);
    writer inner = {rope, rope == NULL};
    put_number(&inner, "partial_rotary_factor", share);
    put(w, "rope_scaling", rope);
    if (inner.failed) w->failed = true;
}

static void put_opt(writer *w, const weft_model_config *c) {
    put_text(w, "activation_function", "relu");
    put_int(w, "ffn_dim", c->ffn);
    put_int(w, "word_embed_proj_dim", c->width);
    put_number(w, "init_std", c->init_std);
    put_number(w, "dropout", c->dropout);
    put_bool(w, "do_layer_norm_before", true);
    put_bool(w, "enable_bias", true);
    put_bool(w, "layer_norm_elementwise_affine", true);
}

static void put_llama(writer *w, const wefti_traits *t, const weft_model_config *c,
                      const wefti_rope_scaling *scaling) {
    bool plain = t->always_mlp_bias;
    put_text(w, t->activation == WEFTI_CURVE_GEGLU ? "hidden_activation" : "hidden_act",
             wefti_traits_activation(t));
    put_int(w, "num_key_value_heads", c->kv_heads);
    put_int(w, "intermediate_size", c->ffn);
    if (!t->fixed_eps)
        put_number(w, plain ? "norm_epsilon" : "rms_norm_eps", c->norm_eps);
    put_number(w, "initializer_range", c->init_std);
    put_number(w, plain ? "residual_dropout" : "resid_pdrop", c->dropout);
    if (plain) put_number(w, "embedding_dropout", c->dropout);
    if (plain) put_bool(w, "use_bias", true);
    if (t->knows & WEFTI_KNOWS_ROPE_PERIOD) put_rope_period(w, c);
    if (t->knows & WEFTI_KNOWS_SHARE)
        put_number(w, "partial_rotary_factor", c->rope_share > 0 ? c->rope_share : 1);
    put_rope(w, c, scaling);
    put_window(w, t, c);
}

weft_status wefti_describe_decoder(weft_ctx *ctx, const weft_model *model, char **json) {
    const weft_model_config *c = &model->config;
    const wefti_traits *t = model->ops->traits;
    wefti_rope_scaling scaling;
    WEFT_TRY(wefti_rope_scaling_read(ctx, c->rope_scaling, &scaling));
    writer w = begin_decoder(model);
    put_int(&w, "vocab_size", c->vocab);
    put_int(&w, "max_position_embeddings", c->context);
    put_int(&w, "hidden_size", c->width);
    put_int(&w, "num_hidden_layers", c->layers);
    put_int(&w, "num_attention_heads", c->heads);
    put_number(&w, "attention_dropout", 0);
    put_bool(&w, "tie_word_embeddings", c->tied);
    if (t->place == WEFTI_NORM_PARALLEL)
        put_neox(&w, c, &scaling);
    else if (t->rotary)
        put_llama(&w, t, c, &scaling);
    else
        put_opt(&w, c);
    put_extras(&w, t, c);
    put_null(&w, "bos_token_id");
    put_null(&w, "eos_token_id");
    put_null(&w, "pad_token_id");
    return print_json(ctx, model, &w, json);
}
