/* SPDX-License-Identifier: MIT */
/* The common part of the models: finds the kind, checks the requirements of every kind,
 * builds the tables.
 *
 *     configuration --> checks: sizes are whole, within limits, and consistent
 *                   --> values that the kind decides: flags, sizes of 0
 *                   --> units with their tensors: embedding, blocks, head
 *
 * The kind's own functions do forward and backward, unit by unit (model.h). */
#include "base/sized.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

/* Limits far above any model, so that no product of sizes overflows int64_t. */
enum {
    CONTEXT_MAX = 1 << 24,
    LAYERS_MAX = 10000,
    WIDTH_MAX = 1 << 20,
    HEAD_MAX = 1 << 16,
    FFN_MAX = 1 << 22,
    LENGTH_MAX = 1 << 20,
    IMAGE_MAX = 2048,
    CHANNELS_MAX = 4
};

static void list_kinds(char *out, size_t size) {
    size_t used = 0;
    out[0] = '\0';
    for (int i = 0; wefti_model_registry[i] && used < size; i++)
        used += (size_t)snprintf(out + used, size - used, "%s%s", i ? ", " : "",
                                 wefti_model_registry[i]->name);
}

const wefti_model_ops *wefti_model_find(const char *kind) {
    for (int i = 0; kind && wefti_model_registry[i]; i++)
        if (strcmp(kind, wefti_model_registry[i]->name) == 0)
            return wefti_model_registry[i];
    return NULL;
}

static weft_status find_kind(weft_ctx *ctx, const char *kind,
                             const wefti_model_ops **out) {
    *out = wefti_model_find(kind);
    if (*out) return WEFT_OK;
    char kinds[256];
    list_kinds(kinds, sizeof kinds);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "model.kind is \"%s\", expected one of %s",
                         kind ? kind : "", kinds);
}

static weft_status check_range(weft_ctx *ctx, const char *key, int64_t value, int64_t low,
                               int64_t high) {
    if (value >= low && value <= high) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "model.%s is %lld, expected %lld to %lld",
                         key, (long long)value, (long long)low, (long long)high);
}

static weft_status check_multiple(weft_ctx *ctx, const char *key, int64_t value,
                                  const char *of_key, int64_t of) {
    if (value % of == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "model.%s is %lld, expected a multiple of model.%s (%lld)", key,
                         (long long)value, of_key, (long long)of);
}

/* Zero stands for the kind's default. */
static weft_status check_not_negative(weft_ctx *ctx, const char *key, double value) {
    if (value >= 0 && isfinite(value)) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "model.%s is %g, expected a positive number, or 0 for the default", key, value);
}

/* Refuses keys that belong to other kinds of rows. */
static weft_status check_input(weft_ctx *ctx, const weft_model_config *c) {
    wefti_input input = wefti_model_find(c->kind)->input;
    const struct {
        const char *key;
        int64_t value;
        wefti_input of;
    } rows[] = {{"decoder_layers", c->decoder_layers, WEFTI_INPUT_PAIRS},
                {"source", c->source, WEFTI_INPUT_PAIRS},
                {"buckets", c->buckets, WEFTI_INPUT_PAIRS},
                {"distance", c->distance, WEFTI_INPUT_PAIRS},
                {"image", c->image, WEFTI_INPUT_IMAGES},
                {"patch", c->patch, WEFTI_INPUT_IMAGES},
                {"channels", c->channels, WEFTI_INPUT_IMAGES}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].value != 0 && rows[i].of != input)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                 "model.%s is set, but a %s has none", rows[i].key,
                                 c->kind);
        WEFT_TRY(check_range(ctx, rows[i].key, rows[i].value, 0, LENGTH_MAX));
    }
    WEFT_TRY(check_range(ctx, "image", c->image, 0, IMAGE_MAX));
    return check_range(ctx, "channels", c->channels, 0, CHANNELS_MAX);
}

static weft_status check_sizes(weft_ctx *ctx, weft_model_config *c) {
    WEFT_TRY(check_range(ctx, "vocab", c->vocab, 1, INT32_MAX));
    WEFT_TRY(check_range(ctx, "context", c->context, 1, CONTEXT_MAX));
    WEFT_TRY(check_range(ctx, "layers", c->layers, 1, LAYERS_MAX));
    WEFT_TRY(check_range(ctx, "width", c->width, 1, WIDTH_MAX));
    WEFT_TRY(check_range(ctx, "head_dim", c->head_dim, 0, HEAD_MAX));
    WEFT_TRY(
        check_range(ctx, "heads", c->heads, 1, c->head_dim > 0 ? HEAD_MAX : c->width));
    if (c->head_dim == 0) {
        WEFT_TRY(check_multiple(ctx, "width", c->width, "heads", c->heads));
        c->head_dim = c->width / c->heads;
    }
    WEFT_TRY(check_range(ctx, "kv_heads", c->kv_heads, 0, c->heads));
    if (c->kv_heads == 0) c->kv_heads = c->heads;
    WEFT_TRY(check_multiple(ctx, "heads", c->heads, "kv_heads", c->kv_heads));
    WEFT_TRY(check_range(ctx, "window", c->window, 0, CONTEXT_MAX));
    WEFT_TRY(check_range(ctx, "window_period", c->window_period, 0, LAYERS_MAX));
    WEFT_TRY(check_range(ctx, "rope_period", c->rope_period, 0, LAYERS_MAX));
    return check_range(ctx, "ffn", c->ffn, 0, FFN_MAX);
}

static weft_status check_numbers(weft_ctx *ctx, const weft_model_config *c) {
    WEFT_TRY(check_not_negative(ctx, "norm_eps", c->norm_eps));
    WEFT_TRY(check_not_negative(ctx, "rope_theta", c->rope_theta));
    WEFT_TRY(check_not_negative(ctx, "init_std", c->init_std));
    WEFT_TRY(check_not_negative(ctx, "rope_local_theta", c->rope_local_theta));
    WEFT_TRY(check_not_negative(ctx, "rope_share", c->rope_share));
    WEFT_TRY(check_not_negative(ctx, "query_scale", c->query_scale));
    WEFT_TRY(check_not_negative(ctx, "embedding_multiplier", c->embedding_multiplier));
    WEFT_TRY(check_not_negative(ctx, "attention_multiplier", c->attention_multiplier));
    WEFT_TRY(check_not_negative(ctx, "residual_multiplier", c->residual_multiplier));
    WEFT_TRY(check_not_negative(ctx, "logits_scaling", c->logits_scaling));
    WEFT_TRY(check_not_negative(ctx, "attention_cap", c->attention_cap));
    WEFT_TRY(check_not_negative(ctx, "logit_cap", c->logit_cap));
    if (c->dropout >= 0 && c->dropout < 1) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "model.dropout is %g, expected at least 0 and less than 1",
                         c->dropout);
}

static void settle(int *flag, bool usual) {
    if (*flag < 0) *flag = usual;
}

/* Sets the flags that the kind decides. */
static void settle_flags(const wefti_model_ops *ops, weft_model_config *c) {
    settle(&c->tied, ops->tied);
    settle(&c->qk_norm, ops->qk_norm);
    settle(&c->attention_bias, ops->attention_bias);
    settle(&c->mlp_bias, ops->mlp_bias);
}

/* The head of images adds the gradients of its matrix and its bias, made together. */
static void mark_stored(weft_model *model) {
    for (int i = 0; i < model->n_params; i++)
        model->params[i].stored = model->params[i].hidden;
    if (model->ops->input == WEFTI_INPUT_IMAGES) return;
    const wefti_unit *head = &model->units[model->n_units - 1];
    const wefti_param *matrix = model->config.tied ? model->units[head->borrows].params
                                                   : &head->params[head->n_params - 1];
    model->params[matrix - model->params].stored = true;
}

static weft_status build(weft_ctx *ctx, weft_model *model) {
    settle_flags(model->ops, &model->config);
    WEFT_TRY(check_sizes(ctx, &model->config));
    WEFT_TRY(check_numbers(ctx, &model->config));
    WEFT_TRY(check_input(ctx, &model->config));
    WEFT_TRY(model->ops->check(ctx, &model->config));
    WEFT_TRY(model->ops->layout(ctx, model));
    mark_stored(model);
    return WEFT_OK;
}

weft_status weft_model_create(weft_ctx *ctx, const weft_model_config *config,
                              weft_model **out) {
    *out = NULL;
    WEFTI_SIZED_IN(ctx, weft_model_config, config);
    const wefti_model_ops *ops;
    weft_model *model;
    WEFT_TRY(find_kind(ctx, config->kind, &ops));
    WEFT_TRY(wefti_alloc(ctx, sizeof *model, "a model's description", &model));
    model->ops = ops;
    model->config = *config;
    model->config.kind = ops->name;
    WEFTI_TRY_OR(build(ctx, model), weft_model_destroy(ctx, model));
    *out = model;
    return WEFT_OK;
}

const char *weft_model_kind(int i, const char **summary) {
    for (int k = 0; i >= 0 && wefti_model_registry[k]; k++) {
        if (k != i) continue;
        if (summary) *summary = wefti_model_registry[k]->summary;
        return wefti_model_registry[k]->name;
    }
    return NULL;
}

void wefti_model_logits(const weft_model *model, const wefti_pass *pass, float *logits) {
    model->ops->logits(model, pass, logits);
}
