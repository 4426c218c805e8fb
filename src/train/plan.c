/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "train/plan.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"

/* A micro-batch of about this many tokens keeps the kernels busy and the activations
 * small. */
enum { MICRO_TOKENS = 4096 };

weft_model_config wefti_plan_model_config(const weft_config *config, int64_t vocab) {
    bool is_gpt2 = strcmp(config->model.kind, "gpt2") == 0;
    bool is_olmo2 = strcmp(config->model.kind, "olmo2") == 0;
    return (weft_model_config){
        .kind = config->model.kind,
        .vocab = config->model.vocab ? config->model.vocab : vocab,
        .context = config->model.context ? config->model.context : config->data.length,
        .layers = config->model.layers,
        .width = config->model.width,
        .heads = config->model.heads,
        .kv_heads = config->model.kv_heads,
        .ffn = config->model.ffn,
        .norm_eps = config->model.norm_eps,
        .rope_theta = config->model.rope_theta,
        .dropout = config->model.dropout,
        .tied = config->model.tied < 0 ? is_gpt2 : config->model.tied > 0,
        .qk_norm = config->model.qk_norm < 0 ? is_olmo2 : config->model.qk_norm > 0,
        .init_std = config->model.init_std,
    };
}

static weft_status derive_batch(weft_ctx *ctx, wefti_plan *plan) {
    const weft_config *config = plan->config;
    int64_t tokens = config->batch.tokens_per_step, unit = plan->T * plan->W;
    if (tokens % unit != 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "batch.tokens_per_step is %lld, expected a multiple of data.length x "
            "nodes x ranks_per_node = %lld x %d x %d = %lld",
            (long long)tokens, (long long)plan->T, plan->R, plan->S, (long long)unit);
    plan->rows_per_step = tokens / plan->T;
    plan->rows_per_rank = plan->rows_per_step / plan->W;
    int64_t B = config->batch.micro, rows = plan->rows_per_rank;
    if (B > 0 && rows % B != 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "batch.micro is %lld, expected a divisor of the %lld sequences that "
            "each rank has per step",
            (long long)B, (long long)rows);
    if (B == 0)
        for (B = rows; B > 1 && (rows % B != 0 || B * plan->T > MICRO_TOKENS);) B--;
    plan->B = B;
    plan->n_micro = rows / B;
    return WEFT_OK;
}

static weft_status derive_mesh(weft_ctx *ctx, wefti_plan *plan) {
    const weft_config *config = plan->config;
    plan->R = (int)config->mesh.nodes;
    plan->S = (int)config->mesh.ranks_per_node;
    plan->W = plan->R * plan->S;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    plan->threads = (int)config->mesh.threads;
    if (plan->threads == 0) plan->threads = (int)(cores / plan->W);
    if (plan->threads < 1) plan->threads = 1;
    const char *name = config->mesh.kernels;
    plan->kernels = wefti_kernels_find(strcmp(name, "auto") == 0 ? NULL : name);
    if (!plan->kernels)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mesh.kernels is '%s', which this processor cannot run",
                             name);
    return WEFT_OK;
}

static weft_status derive_method(weft_ctx *ctx, wefti_plan *plan) {
    const weft_config *config = plan->config;
    plan->optimizer = wefti_optimizer_find(config->optimizer.kind);
    if (!plan->optimizer)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown optimizer '%s'",
                             config->optimizer.kind);
    plan->optimizer_config = (wefti_optimizer_config){
        .kind = config->optimizer.kind,
        .beta1 = config->optimizer.beta1,
        .beta2 = config->optimizer.beta2,
        .eps = config->optimizer.eps,
        .weight_decay = config->optimizer.weight_decay,
    };
    plan->replicator_config = (wefti_replicator_config){
        .kind = config->replicator.kind,
        .compression_topk = config->replicator.compression_topk,
        .compression_chunk = config->replicator.compression_chunk,
        .compression_decay = config->replicator.compression_decay,
        .compression_dims = (int)config->replicator.compression_dims,
        .sign = config->replicator.sign,
        .every = config->replicator.every,
    };
    if (!wefti_replicator_find(config->replicator.kind))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown replicator '%s'",
                             config->replicator.kind);
    return WEFT_OK;
}

static weft_status derive_model(weft_ctx *ctx, wefti_plan *plan, int64_t vocab) {
    weft_model_config wanted = wefti_plan_model_config(plan->config, vocab);
    if (wanted.vocab < vocab)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "model.vocab is %lld, but the tokenizer has %lld ids",
                             (long long)wanted.vocab, (long long)vocab);
    if (wanted.context < plan->T)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "model.context is %lld, expected at least data.length (%lld)",
            (long long)wanted.context, (long long)plan->T);
    WEFT_TRY(weft_model_create(ctx, &wanted, &plan->model));
    const weft_model *model = plan->model;
    WEFT_TRY(wefti_alloc_n(ctx, model->n_params, sizeof(wefti_tensor), "tensor table",
                           &plan->tensors));
    WEFT_TRY(wefti_alloc_n(ctx, model->n_units, sizeof(void *), "tensor table",
                           &plan->unit_tensors));
    wefti_tensor *next = plan->tensors;
    for (int u = 0; u < model->n_units; u++) {
        plan->unit_tensors[u] = next;
        for (int p = 0; p < model->units[u].n_params; p++, next++) {
            const wefti_param *param = &model->units[u].params[p];
            *next = (wefti_tensor){param->rows, param->cols, param->offset,
                                   param->decays};
        }
    }
    return WEFT_OK;
}

weft_status wefti_plan_create(weft_ctx *ctx, const weft_config *config,
                              const weft_dataset *dataset, int64_t vocab,
                              wefti_plan **out) {
    *out = NULL;
    wefti_plan *plan;
    WEFT_TRY(wefti_alloc(ctx, sizeof *plan, "the plan", &plan));
    plan->config = config;
    plan->dataset = dataset;
    plan->T = config->data.length;
    weft_status status = derive_mesh(ctx, plan);
    if (status == WEFT_OK) status = derive_batch(ctx, plan);
    if (status == WEFT_OK) status = derive_method(ctx, plan);
    if (status == WEFT_OK) status = derive_model(ctx, plan, vocab);
    if (status != WEFT_OK) {
        wefti_plan_destroy(ctx, plan);
        return status;
    }
    *out = plan;
    return WEFT_OK;
}

void wefti_plan_destroy(weft_ctx *ctx, wefti_plan *plan) {
    if (!plan) return;
    weft_model_destroy(ctx, plan->model);
    wefti_free(ctx, plan->tensors);
    wefti_free(ctx, plan->unit_tensors);
    wefti_free(ctx, plan);
}

wefti_layout wefti_plan_layout(const wefti_plan *plan, int unit, int s) {
    return wefti_layout_make(plan->model->units[unit].n_params, plan->unit_tensors[unit],
                             plan->S, s);
}
