/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "plan/plan.h"

#include <string.h>
#include <unistd.h>

#include "base/memory.h"

/* A micro-batch of about this many tokens keeps the kernels busy and the activations
 * small. */
enum { MICRO_TOKENS = 4096, MAX_MEMBERS = 1024, BYTE_IDS = 256 };

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

int64_t wefti_plan_vocab(const weft_config *config) {
    if (config->model.vocab) return config->model.vocab;
    return strcmp(config->data.tokenizer, "bytes") == 0 ? BYTE_IDS : config->data.vocab;
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
    int per_node = (int)config->mesh.ranks_per_node;
    plan->S = config->mesh.shards ? (int)config->mesh.shards : per_node;
    plan->copies = per_node / plan->S;
    plan->R = (int)config->mesh.nodes * plan->copies;
    plan->W = plan->R * plan->S;
    plan->sites = (int)config->mesh.sites;
    plan->site_replicas = plan->R / plan->sites;
    plan->mixed_replicas = plan->sites > 1 ? plan->sites : plan->R;
    plan->replicas_equal = strcmp(config->mixer.kind, "none") == 0;
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

static bool is_word(const char *text, const char *word) {
    return strcmp(text, word) == 0;
}

static wefti_route route_named(const char *name) {
    if (is_word(name, "gather")) return WEFTI_ROUTE_GATHER;
    return is_word(name, "owner") ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_AUTO;
}

static weft_status derive_replicator(weft_ctx *ctx, const wefti_plan *plan,
                                     const weft_replicator_keys *keys,
                                     wefti_replicator_config *out) {
    *out = (wefti_replicator_config){
        .kind = keys->kind,
        .compression_topk = keys->compression_topk,
        .compression_chunk = keys->compression_chunk,
        .compression_rate = keys->compression_rate,
        .compression_decay = keys->compression_decay,
        .compression_dims = (int)keys->compression_dims,
        .sign = keys->sign,
        .ema = is_word(keys->momentum_style, "mean"),
        .alpha = keys->alpha,
        .route = route_named(keys->exchange),
        .values = (wefti_value_codec)wefti_value_codec_find(keys->values),
        .indices = (wefti_index_codec)wefti_index_codec_find(keys->indices),
        .stochastic = is_word(keys->rounding, "stochastic"),
        .dense_below = keys->dense_below,
        .every = keys->every,
        .seed = (uint64_t)plan->config->run.seed,
        .threads = plan->config->mesh.overlap ? 1 : plan->threads,
    };
    if (wefti_replicator_find(keys->kind)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown replicator '%s'", keys->kind);
}

static weft_status derive_mixer(weft_ctx *ctx, wefti_plan *plan) {
    const weft_config *config = plan->config;
    plan->mixer_config = (wefti_mixer_config){
        .kind = config->mixer.kind,
        .seed = (uint64_t)config->run.seed,
        .steps = config->run.steps,
        .combine_last = is_word(config->mixer.order, "atc"),
        .gamma = config->mixer.gamma,
        .average_every = config->mixer.average_every,
        .consensus_bound = config->mixer.consensus_bound,
        .deadline_s = config->mixer.deadline,
        .outer_every = config->mixer.outer_every,
        .outer_lr = config->mixer.outer_lr,
        .outer_momentum = config->mixer.outer_momentum,
        .fragments = config->mixer.fragments,
        .delay = config->mixer.delay,
        .merge = config->mixer.merge,
        .values = (wefti_value_codec)wefti_value_codec_find(config->mixer.values),
        .stochastic = is_word(config->mixer.rounding, "stochastic"),
    };
    if (!wefti_mixer_find(config->mixer.kind))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown mixer '%s'",
                             config->mixer.kind);
    return WEFT_OK;
}

/* Most members that one ever meets. */
static int count_partners(wefti_plan *plan) {
    weft_topology_facts facts = weft_topology_describe(plan->topology);
    int most = 0, n = (int)facts.members;
    if (facts.period == 0) return n - 1;
    for (int i = 0; i < n; i++) {
        bool met[MAX_MEMBERS] = {false};
        int partners = 0;
        for (int64_t t = 0; t < facts.period; t++) {
            weft_topology_neighbours(plan->topology, i, t, plan->room);
            for (int j = 0; j < plan->room->n_targets; j++) {
                partners += !met[plan->room->targets[j]];
                met[plan->room->targets[j]] = true;
            }
        }
        if (partners > most) most = partners;
    }
    return most;
}

/* Members are the replicas, or with several sites the sites. */
static weft_status derive_topology(weft_ctx *ctx, wefti_plan *plan) {
    const weft_config *config = plan->config;
    bool choco = is_word(config->mixer.kind, "choco");
    if (!choco && !is_word(config->mixer.kind, "gossip")) return WEFT_OK;
    weft_links links = {NULL, 0};
    if (config->mixer.links[0])
        WEFT_TRY(weft_links_load(ctx, config->mixer.links, &links));
    weft_topology_config wanted = {
        .kind = config->mixer.topology,
        .nodes = plan->sites > 1 ? plan->sites : plan->R / plan->copies,
        .ranks = plan->sites > 1 ? 1 : plan->copies,
        .seed = (uint64_t)config->run.seed,
        .copy_bytes = plan->model->n_elements * (int64_t)sizeof(float),
        .links = links.items,
        .n_links = links.n};
    weft_status status = weft_topology_create(ctx, &wanted, &plan->topology);
    weft_free(ctx, links.items);
    WEFT_TRY(status);
    wanted = (weft_topology_config){
        .kind = "complete", .nodes = wanted.nodes, .ranks = wanted.ranks};
    WEFT_TRY(weft_topology_create(ctx, &wanted, &plan->everybody));
    plan->mixer_config.topology = plan->topology;
    plan->mixer_config.everybody = plan->everybody;
    plan->vote_lag = WEFTI_GOSSIP_LAG;
    WEFT_TRY(weft_neighbours_create(ctx, plan->everybody, &plan->room));
    if (choco) plan->mixer_config.partners = count_partners(plan);
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
        .accumulate = wefti_optimizer_period(config->optimizer.accumulate, plan->R),
    };
    WEFT_TRY(derive_replicator(ctx, plan, &config->replicator, &plan->replicator_config));
    WEFT_TRY(derive_replicator(ctx, plan, &config->site_replicator,
                               &plan->site_replicator_config));
    return derive_mixer(ctx, plan);
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
    return weft_model_create(ctx, &wanted, &plan->model);
}

static weft_status list_tensors(weft_ctx *ctx, wefti_plan *plan) {
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

static weft_status derive(weft_ctx *ctx, wefti_plan *plan, int64_t vocab) {
    bool foreign = plan->model != NULL;
    WEFT_TRY(derive_mesh(ctx, plan));
    if (!foreign) WEFT_TRY(derive_batch(ctx, plan));
    WEFT_TRY(derive_method(ctx, plan));
    if (!foreign) WEFT_TRY(derive_model(ctx, plan, vocab));
    WEFT_TRY(list_tensors(ctx, plan));
    return derive_topology(ctx, plan);
}

/* Takes the model, also on failure. */
static weft_status create(weft_ctx *ctx, const wefti_plan *begun, int64_t vocab,
                          wefti_plan **out) {
    *out = NULL;
    wefti_plan *plan;
    weft_status status = wefti_alloc(ctx, sizeof *plan, "the plan", &plan);
    if (status != WEFT_OK) {
        weft_model_destroy(ctx, begun->model);
        return status;
    }
    *plan = *begun;
    status = derive(ctx, plan, vocab);
    if (status != WEFT_OK) {
        wefti_plan_destroy(ctx, plan);
        return status;
    }
    *out = plan;
    return WEFT_OK;
}

weft_status wefti_plan_create(weft_ctx *ctx, const weft_config *config,
                              const weft_dataset *dataset, int64_t vocab,
                              wefti_plan **out) {
    wefti_plan begun = {.config = config, .dataset = dataset, .T = config->data.length};
    return create(ctx, &begun, vocab, out);
}

weft_status wefti_plan_create_for(weft_ctx *ctx, const weft_config *config,
                                  weft_model *model, wefti_plan **out) {
    wefti_plan begun = {.config = config, .model = model};
    return create(ctx, &begun, 0, out);
}

void wefti_plan_destroy(weft_ctx *ctx, wefti_plan *plan) {
    if (!plan) return;
    weft_neighbours_destroy(ctx, plan->room);
    weft_topology_destroy(ctx, plan->topology);
    weft_topology_destroy(ctx, plan->everybody);
    weft_model_destroy(ctx, plan->model);
    wefti_free(ctx, plan->tensors);
    wefti_free(ctx, plan->unit_tensors);
    wefti_free(ctx, plan);
}

wefti_layout wefti_plan_layout(const wefti_plan *plan, int unit, int s) {
    return wefti_layout_make(plan->model->units[unit].n_params, plan->unit_tensors[unit],
                             plan->S, s);
}
