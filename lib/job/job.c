/* SPDX-License-Identifier: MIT */
/* What follows from a configuration before anything runs:
 *
 *     batch   tokens per step -> rows of a rank, micro-batches
 *     mesh    nodes x ranks -> replicas R, shards S, sites, threads
 *     method  words of the configuration -> kinds and their knobs, seeds, topology
 *     model   shape, units, tensors; the layout of each shard
 *
 *     nodes = 2, ranks_per_node = 4, shards = 2          rank = replica S + shard
 *
 *         node 0                      node 1
 *         replica 0    replica 1      replica 2    replica 3       copies = 2, R = 4, W = 8
 *         [s0] [s1]    [s0] [s1]      [s0] [s1]    [s0] [s1]       S = 2
 *
 * A job is read-only once it is made. Training, simulation and planner read the same one,
 * so prediction and run cannot differ in who sends what to whom. A job borrows the
 * configuration. Words of it (names of kinds) become pointers and numbers here, once: no
 * code after this file compares texts. */
#define _GNU_SOURCE
#include "job/job.h"

#include <stdio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/memory.h"
#include "base/text.h"
#include "config/named.h"
#include "job/engine.h"
#include "job/learning_rate.h"
#include "mix/mixer.h"
#include "replicate/replicator.h"
#include "topology/topology.h"

/* A micro-batch of about this many tokens keeps the kernels busy and the activations
 * small. */
enum { MICRO_TOKENS = 4096, MAX_MEMBERS = 1024 };

/* Special ids after the tokenizer's in a model of pairs: one for the start of a target
 * and for padding, one for a target's end. */
enum { PAIR_IDS = 2 };

wefti_input wefti_job_input(const weft_config *config) {
    const wefti_model_ops *ops = wefti_engine_here.find(config->model.kind);
    return ops ? ops->input : WEFTI_INPUT_TEXT;
}

static wefti_input input_of(const weft_model_config *config) {
    const wefti_model_ops *ops = wefti_engine_here.find(config->kind);
    return ops ? ops->input : WEFTI_INPUT_TEXT;
}

int64_t wefti_model_positions(const weft_model_config *config, int64_t length) {
    int64_t side = config->patch > 0 ? config->image / config->patch : 0;
    switch (input_of(config)) {
    case WEFTI_INPUT_TEXT: break;
    case WEFTI_INPUT_PAIRS: return config->source + length;
    case WEFTI_INPUT_IMAGES: return 1 + side * side;
    }
    return length;
}

/* Derives what depends on the rows that a kind of model takes. */
static void derive_row(const weft_config *config, int64_t vocab, weft_model_config *out) {
    if (wefti_job_input(config) == WEFTI_INPUT_PAIRS) {
        out->source = config->data.source_length ? config->data.source_length
                                                 : config->data.length;
        if (!config->model.vocab) out->vocab = vocab + PAIR_IDS;
    }
    if (!config->model.context)
        out->context = wefti_model_positions(out, config->data.length);
}

int64_t wefti_job_positions(const weft_config *config) {
    weft_model_config model = wefti_job_model_config(config, 1);
    return wefti_model_positions(&model, config->data.length);
}

weft_model_config wefti_job_model_config(const weft_config *config, int64_t vocab) {
    weft_model_config out = {
        .struct_size = sizeof out,
        .kind = config->model.kind,
        .vocab = config->model.vocab ? config->model.vocab : vocab,
        .context = config->model.context ? config->model.context : config->data.length,
        .layers = config->model.layers,
        .width = config->model.width,
        .heads = config->model.heads,
        .kv_heads = config->model.kv_heads,
        .head_dim = config->model.head_dim,
        .ffn = config->model.ffn,
        .norm_eps = config->model.norm_eps,
        .rope_theta = config->model.rope_theta,
        .rope_local_theta = config->model.rope_local_theta,
        .rope_share = config->model.rope_share,
        .window = config->model.window,
        .window_period = config->model.window_period,
        .rope_period = config->model.rope_period,
        .query_scale = config->model.query_scale,
        .embedding_multiplier = config->model.embedding_multiplier,
        .attention_multiplier = config->model.attention_multiplier,
        .residual_multiplier = config->model.residual_multiplier,
        .logits_scaling = config->model.logits_scaling,
        .attention_cap = config->model.attention_cap,
        .logit_cap = config->model.logit_cap,
        .dropout = config->model.dropout,
        .tied = config->model.tied,
        .qk_norm = config->model.qk_norm,
        .attention_bias = config->model.attention_bias,
        .mlp_bias = config->model.mlp_bias,
        .init_std = config->model.init_std,
        .decoder_layers = config->model.decoder_layers,
        .buckets = config->model.buckets,
        .distance = config->model.distance,
        .image = config->model.image,
        .patch = config->model.patch,
        .channels = config->model.channels,
    };
    derive_row(config, vocab, &out);
    snprintf(out.rope_scaling, sizeof out.rope_scaling, "%s", config->model.rope_scaling);
    return out;
}

int64_t wefti_job_vocab(const weft_config *config) {
    /* rows of the embedding, which include the special ids of a model of pairs */
    int64_t special = wefti_job_input(config) == WEFTI_INPUT_PAIRS ? PAIR_IDS : 0;
    if (config->model.vocab > special) return config->model.vocab - special;
    return wefti_tokenizer_ids(config->data.tokenizer, config->data.vocab);
}

/* Sequences of about as many tokens as keep a processor busy. */
static int64_t most_of_pass(const wefti_job *job) {
    return MICRO_TOKENS / job->T < 1 ? 1 : MICRO_TOKENS / job->T;
}

/* The copies of the model on a node have as many sequences. */
static weft_status spread_rows(weft_ctx *ctx, wefti_job *job) {
    int64_t *of_nodes;
    if (job->batch.rows || wefti_is(job->config->batch.shares, "equal")) return WEFT_OK;
    WEFT_TRY(wefti_shares_check(ctx, job->config, job->T));
    job->run.measures = wefti_shares_measured(job->config);
    WEFT_TRY(wefti_shares_of(ctx, job->config, job->T, &of_nodes));
    if (!of_nodes) return WEFT_OK;
    if (wefti_is(job->config->batch.shares, "steps")) job->run.inner_rows = of_nodes[0];
    weft_status status = wefti_alloc_n(ctx, job->R, sizeof(int64_t), "shares",
                                       &job->batch.rows);
    for (int i = 0; i < job->R && status == WEFT_OK; i++)
        job->batch.rows[i] = of_nodes[i / job->copies];
    wefti_free(ctx, of_nodes);
    return status;
}

/* Where nodes have different numbers of sequences, the passes of each are about as long. */
static void derive_passes(wefti_job *job) {
    int64_t B = job->config->batch.micro, most = most_of_pass(job), sum = 0;
    for (int i = 0; i < job->R; i++) {
        if (i == 0 || job->batch.rows[i] > job->batch.per_rank)
            job->batch.per_rank = job->batch.rows[i];
        sum += job->S * job->batch.rows[i];
    }
    WEFTI_ASSERT(sum == job->batch.per_step);
    (void)sum;
    job->B = B > 0 ? B : most;
    if (job->B > job->batch.per_rank) job->B = job->batch.per_rank;
    job->batch.n_micro = (job->batch.per_rank + job->B - 1) / job->B;
}

/* Without batch.micro, a pass takes the largest divisor of a rank's rows that is not more. */
static weft_status derive_batch(weft_ctx *ctx, wefti_job *job) {
    const weft_config *config = job->config;
    int64_t tokens = config->batch.tokens_per_step, unit = job->T * job->W;
    if (config->batch.rows_per_step > 0) tokens = config->batch.rows_per_step * job->T;
    WEFT_TRY(spread_rows(ctx, job));
    job->batch.per_step = tokens / job->T;
    if (job->batch.rows) {
        derive_passes(job);
        WEFT_TRY(
            wefti_alloc_n(ctx, job->R, sizeof(int64_t), "shares", &job->batch.earlier));
        memcpy(job->batch.earlier, job->batch.rows, (size_t)job->R * sizeof(int64_t));
        return WEFT_OK;
    }
    if (tokens % unit != 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "batch.tokens_per_step is %lld, expected a multiple of positions of a row x "
            "nodes x ranks_per_node = %lld x %d x %d = %lld",
            (long long)tokens, (long long)job->T, job->R, job->S, (long long)unit);
    job->batch.per_rank = job->batch.per_step / job->W;
    int64_t B = config->batch.micro, rows = job->batch.per_rank;
    if (B > 0 && rows % B != 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "batch.micro is %lld, expected a divisor of the %lld sequences that "
            "each rank has per step",
            (long long)B, (long long)rows);
    if (B == 0) {
        int64_t most = most_of_pass(job);
        for (B = rows < most ? rows : most; B > 1 && rows % B != 0;) B--;
    }
    job->B = B;
    job->batch.n_micro = rows / B;
    return WEFT_OK;
}

int64_t wefti_job_less(const wefti_job *job, int64_t B) {
    for (B = (B + 1) / 2; !job->batch.rows && job->batch.per_rank % B != 0;) B--;
    return B;
}

weft_status wefti_job_set_micros(weft_ctx *ctx, wefti_job *job, const int64_t *most) {
    bool differ = false;
    wefti_free(ctx, job->batch.micros);
    job->batch.micros = NULL;
    if (!most) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(ctx, job->R, sizeof(int64_t), "passes", &job->batch.micros));
    for (int i = 0; i < job->R; i++) {
        int64_t B = most[i] > 0 && most[i] < job->B ? most[i] : job->B;
        while (!job->batch.rows && job->batch.per_rank % B != 0) B--;
        job->batch.micros[i] = B;
        differ = differ || B != job->B;
    }
    return differ ? WEFT_OK : wefti_job_set_micros(ctx, job, NULL);
}

/* Derives the groups and their sizes. replicas_equal: there is no mixer that pulls
 * differing copies together, so the copies are kept equal; then one copy is written to a
 * checkpoint and all are compared. */
static weft_status derive_mesh(weft_ctx *ctx, wefti_job *job) {
    const weft_config *config = job->config;
    int per_node = (int)config->mesh.ranks_per_node;
    job->S = config->mesh.shards ? (int)config->mesh.shards : per_node;
    job->copies = per_node / job->S;
    job->run.keeps_whole = job->S > 1 && config->mesh.keep_whole;
    job->R = (int)config->mesh.nodes * job->copies;
    job->W = job->R * job->S;
    job->site.n = (int)config->mesh.sites;
    job->site.replicas = job->R / job->site.n;
    for (int i = 0; i < job->site.n && job->site.first; i++) {
        int n = job->site.first[i + 1] - job->site.first[i];
        if (i == 0 || n > job->site.replicas) job->site.replicas = n;
    }
    job->site.mixed = wefti_job_has_sites(job) ? job->site.n : job->R;
    job->replicas_equal = wefti_is(config->mixer.kind, "none");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    job->run.recomputes = config->model.recompute;
    job->run.threads = (int)config->mesh.threads;
    if (job->run.threads == 0) job->run.threads = (int)(cores / job->W);
    if (job->run.threads < 1) job->run.threads = 1;
    const char *name = config->mesh.kernels;
    job->kernels = wefti_kernels_find(wefti_is(name, "auto") ? NULL : name);
    if (!job->kernels)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mesh.kernels is '%s', which this processor cannot run",
                             name);
    bool bf16 = wefti_is(config->model.precision, "bf16");
    job->pass_kernels = bf16 ? job->kernels->bf16 : job->kernels;
    return WEFT_OK;
}

wefti_world_shape wefti_job_shape(const wefti_job *job) {
    const weft_config *config = job->config;
    return (wefti_world_shape){
        .replicas = job->R,
        .shards = job->S,
        .replicas_per_node = job->copies,
        .sites = job->site.n,
        .wire = {config->mesh.bandwidth_Bps, config->mesh.latency_s},
        .site_wire = {config->mesh.site_bandwidth_Bps, config->mesh.site_latency_s},
        .site_first = job->site.first};
}

static wefti_route route_named(const char *name) {
    if (wefti_is(name, "all_gather")) return WEFTI_ROUTE_GATHER;
    return wefti_is(name, "sharded") ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_AUTO;
}

/* Derives a replicator from the keys of its section. With overlap the exchange thread
 * encodes with one thread, beside the computation, which has all other threads. */
static weft_status derive_replicator(weft_ctx *ctx, const wefti_job *job,
                                     const weft_replicator_keys *keys,
                                     wefti_replicator_config *out) {
    *out = (wefti_replicator_config){
        .kind = wefti_replicator_find(keys->kind)->name,
        .compression_topk = keys->compression_topk,
        .compression_chunk = keys->compression_chunk,
        .compression_rate = keys->compression_rate,
        .compression_decay = keys->compression_decay,
        .compression_dims = (int)keys->compression_dims,
        .sign = keys->sign,
        .ema = wefti_is(keys->momentum_style, "mean"),
        .alpha = keys->alpha,
        .route = keys->delay > 0 ? WEFTI_ROUTE_GATHER : route_named(keys->exchange),
        .values = (wefti_value_codec)wefti_value_codec_find(keys->values),
        .indices = (wefti_index_codec)wefti_index_codec_find(keys->indices),
        .stochastic = wefti_is(keys->rounding, "stochastic"),
        .dense_below = keys->dense_below,
        .every = keys->every,
        .gathers = job->run.inner_rows > 0,
        .delay = keys->delay,
        .seed = (uint64_t)job->config->run.seed,
        .threads = job->config->mesh.overlap ? 1 : job->run.threads,
    };
    out->robust = wefti_robust_named(job->config->mesh.robust);
    if (wefti_replicator_find(keys->kind)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown replicator '%s'", keys->kind);
}

/* What is known about the wires: the emulated ones, each of which the ranks of a node, or
 * of a site, share. */
static void tell_wire(wefti_job *job) {
    const weft_config *config = job->config;
    double ranks = job->copies * job->S;
    job->replicator_config.bandwidth_Bps = config->mesh.bandwidth_Bps / ranks;
    job->replicator_config.latency_s = config->mesh.latency_s;
    ranks *= (double)job->site.replicas / job->copies;
    job->site_replicator_config.bandwidth_Bps = config->mesh.site_bandwidth_Bps / ranks;
    job->site_replicator_config.latency_s = config->mesh.site_latency_s;
}

static double rate_of(const void *config, int64_t step) {
    return wefti_learning_rate(config, step);
}

/* Derives the mixer's knobs; it asks for the rate of a step if gamma falls with the
 * rate. */
static weft_status derive_mixer(weft_ctx *ctx, wefti_job *job) {
    const weft_config *config = job->config;
    job->mixer_config = (wefti_mixer_config){
        .kind = wefti_mixer_find(config->mixer.kind)->name,
        .seed = (uint64_t)config->run.seed,
        .steps = config->run.steps,
        .combine_last = wefti_is(config->mixer.order, "atc"),
        .gamma = config->mixer.gamma,
        .gamma_power = config->mixer.gamma_power,
        .gamma_start = config->mixer.gamma_start,
        .rate = rate_of,
        .rate_user = config,
        .average_every = config->mixer.average_every,
        .consensus_bound = config->mixer.consensus_bound,
        .deadline_s = config->mixer.deadline,
        .outer_every = config->mixer.outer_every,
        .outer_lr = config->mixer.outer_lr,
        .outer_momentum = config->mixer.outer_momentum,
        .fragments = config->mixer.fragments,
        .delay = config->mixer.delay,
        .merge = config->mixer.merge,
        .forget = 1 - config->mixer.feedback,
        .topk = config->mixer.compression_topk,
        .chunk = config->mixer.compression_chunk,
        .values = (wefti_value_codec)wefti_value_codec_find(config->mixer.values),
        .stochastic = wefti_is(config->mixer.rounding, "stochastic"),
    };
    job->mixer_config.robust = wefti_robust_named(config->mesh.robust);
    const wefti_mixer_ops *mixer = wefti_mixer_find(config->mixer.kind);
    if (!mixer)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown mixer '%s'",
                             config->mixer.kind);
    if (!mixer->direct || wefti_replicator_find(config->replicator.kind)->keeps_norm)
        return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "mixer.kind is %s with replicator.kind %s, expected none or full: "
        "what is tracked are gradients",
        config->mixer.kind, config->replicator.kind);
}

/* The largest number of members that one member ever meets. */
static int count_partners(wefti_job *job) {
    weft_topology_facts facts = *weft_topology_describe(job->gossip.topology);
    int most = 0, n = (int)facts.members;
    if (facts.period == 0) return n - 1;
    for (int i = 0; i < n; i++) {
        bool met[MAX_MEMBERS] = {false};
        int partners = 0;
        for (int64_t t = 0; t < facts.period; t++) {
            weft_topology_neighbours(job->gossip.topology, i, t, job->gossip.room);
            for (int j = 0; j < job->gossip.room->n_targets; j++) {
                partners += !met[job->gossip.room->targets[j]];
                met[job->gossip.room->targets[j]] = true;
            }
        }
        if (partners > most) most = partners;
    }
    return most;
}

/* Members of the topology are the replicas or, with several sites, the sites. */
static weft_status derive_topology(weft_ctx *ctx, wefti_job *job) {
    const weft_config *config = job->config;
    const wefti_mixer_ops *mixer = wefti_mixer_find(config->mixer.kind);
    if (!mixer->meets) return WEFT_OK;
    weft_links links = {.struct_size = sizeof links, NULL, 0};
    if (config->mixer.links[0])
        WEFT_TRY(weft_links_load(ctx, config->mixer.links, &links));
    weft_topology_config wanted = {
        .struct_size = sizeof wanted,
        .kind = config->mixer.topology,
        .nodes = wefti_job_has_sites(job) ? job->site.n : job->R / job->copies,
        .ranks = wefti_job_has_sites(job) ? 1 : job->copies,
        .seed = (uint64_t)config->run.seed,
        .copy_bytes = job->model->n_elements * (int64_t)sizeof(float),
        .links = links.items,
        .n_links = links.n};
    weft_status status = weft_topology_create(ctx, &wanted, &job->gossip.topology);
    weft_free(ctx, links.items);
    WEFT_TRY(status);
    if (config->mixer.deadline > 0 &&
        weft_topology_describe(job->gossip.topology)->push_sum)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "mixer.deadline is %g with mixer.topology %s, expected 0: its "
            "weights are right only if every message arrives",
            config->mixer.deadline, config->mixer.topology);
    if (!wefti_is(config->batch.shares, "equal"))
        WEFT_TRY(wefti_weights_check_topology(ctx, job, "batch.shares is not equal"));
    wanted = (weft_topology_config){.struct_size = sizeof(weft_topology_config),
                                    .kind = wefti_topology_complete.name,
                                    .nodes = wanted.nodes,
                                    .ranks = wanted.ranks};
    WEFT_TRY(weft_topology_create(ctx, &wanted, &job->gossip.everybody));
    job->mixer_config.topology = job->gossip.topology;
    job->mixer_config.everybody = job->gossip.everybody;
    job->lag.status = job->run.measures ? WEFTI_MEASURED_LAG : WEFTI_GOSSIP_LAG;
    WEFT_TRY(weft_neighbours_create(ctx, job->gossip.everybody, &job->gossip.room));
    if (mixer->keeps_partners) job->mixer_config.partners = count_partners(job);
    return WEFT_OK;
}

static wefti_adjust adjust_named(const char *name) {
    if (wefti_is(name, "original")) return WEFTI_ADJUST_ORIGINAL;
    return wefti_is(name, "spectral") ? WEFTI_ADJUST_SPECTRAL : WEFTI_ADJUST_MATCH_RMS;
}

/* A step's messages have left when the next step but one begins, or `delay` steps later. */
static weft_status derive_audit(weft_ctx *ctx, wefti_job *job) {
    const weft_config *c = job->config;
    int64_t delay = c->replicator.delay;
    if (!c->run.audit) return WEFT_OK;
    if (c->mixer.deadline > 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "run.audit is true with mixer.deadline %g, expected 0: chance "
            "decides then what is sent, so nobody can compute it again",
            c->mixer.deadline);
    if (c->site_replicator.delay > delay) delay = c->site_replicator.delay;
    if (c->mixer.delay > delay) delay = c->mixer.delay;
    job->lag.audit = 2 + (int)delay;
    return WEFT_OK;
}

/* Derives optimizer, replicators and mixer, and their knobs. */
static weft_status derive_method(weft_ctx *ctx, wefti_job *job) {
    const weft_config *config = job->config;
    if (wefti_is(config->method, "auto"))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "method is auto, which weft train decides when it has "
                             "measured; expected a method's name here");
    job->optimizer.ops = wefti_optimizer_find(config->optimizer.kind);
    if (!job->optimizer.ops)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown optimizer '%s'",
                             config->optimizer.kind);
    job->optimizer.config = (wefti_optimizer_config){
        .kind = config->optimizer.kind,
        .beta1 = config->optimizer.beta1,
        .beta2 = config->optimizer.beta2,
        .eps = config->optimizer.eps,
        .weight_decay = config->optimizer.weight_decay,
        .accumulate = wefti_optimizer_period(config->optimizer.accumulate, job->R),
        .momentum = config->optimizer.momentum,
        .nesterov = config->optimizer.nesterov,
        .polynomial = wefti_is(config->optimizer.polynomial, "polar_express")
                          ? WEFTI_POLYNOMIAL_POLAR
                          : WEFTI_POLYNOMIAL_QUINTIC,
        .adjust = adjust_named(config->optimizer.adjust),
        .rows = config->optimizer.rows,
        .whole_every = config->optimizer.whole_every,
    };
    WEFT_TRY(derive_replicator(ctx, job, &config->replicator, &job->replicator_config));
    WEFT_TRY(wefti_job_codecs(ctx, job));
    /* a step that does not wait for coefficients does not wait for the status either */
    if (config->replicator.delay > 0) job->lag.status = WEFTI_GOSSIP_LAG;
    WEFT_TRY(derive_replicator(ctx, job, &config->site_replicator,
                               &job->site_replicator_config));
    tell_wire(job);
    WEFT_TRY(derive_mixer(ctx, job));
    return derive_audit(ctx, job);
}

/* Refuses a configuration that declines what the kind always has, so that it is not
 * trained silently. */
static weft_status check_obeyed(weft_ctx *ctx, const wefti_job *job) {
    const weft_config *config = job->config;
    const weft_model_config *model = &job->model->config;
    const struct {
        const char *key;
        int given;
        bool there;
    } flags[] = {{"qk_norm", config->model.qk_norm, model->qk_norm},
                 {"attention_bias", config->model.attention_bias, model->attention_bias},
                 {"mlp_bias", config->model.mlp_bias, model->mlp_bias}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        if (flags[i].given == 0 && flags[i].there)
            return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                                 "model.%s is false, but a %s always has it",
                                 flags[i].key, model->kind);
    return WEFT_OK;
}

/* Derives the shape, checks it against the tokenizer and the length of a row, and makes
 * the model. */
static weft_status derive_model(weft_ctx *ctx, wefti_job *job, int64_t vocab) {
    weft_model_config wanted = wefti_job_model_config(job->config, vocab);
    job->run.vocab = vocab;
    wefti_input input = wefti_job_input(job->config);
    int64_t ids = vocab + (input == WEFTI_INPUT_PAIRS ? PAIR_IDS : 0);
    if (wanted.vocab < ids)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG, "model.vocab is %lld, but the %s %lld %s",
            (long long)wanted.vocab,
            input == WEFTI_INPUT_IMAGES ? "data has" : "tokenizer has", (long long)ids,
            input == WEFTI_INPUT_IMAGES ? "classes" : "ids");
    if (wanted.context < job->T && input != WEFTI_INPUT_IMAGES)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "model.context is %lld, expected at least data.length (%lld)",
            (long long)wanted.context, (long long)job->T);
    wanted.described = job->as.described;
    WEFT_TRY(wefti_engine_here.create(ctx, &wanted, &job->model));
    return check_obeyed(ctx, job);
}

/* One table of all tensors in the order of the units. */
static weft_status list_tensors(weft_ctx *ctx, wefti_job *job) {
    const weft_model *model = job->model;
    WEFT_TRY(wefti_alloc_n(ctx, model->n_params, sizeof(wefti_tensor), "tensor table",
                           &job->tensors));
    wefti_tensor *next = job->tensors;
    for (int u = 0; u < model->n_units; u++)
        for (int p = 0; p < model->units[u].n_params; p++, next++) {
            const wefti_param *param = &model->units[u].params[p];
            *next = (wefti_tensor){param->rows, param->cols, param->offset,
                                   param->decays};
        }
    return WEFT_OK;
}

/* A program's own model (foreign) has no batch here: the program chooses its rows. */
static weft_status derive(weft_ctx *ctx, wefti_job *job, int64_t vocab) {
    bool foreign = job->model != NULL;
    WEFT_TRY(derive_mesh(ctx, job));
    if (!foreign) WEFT_TRY(derive_batch(ctx, job));
    WEFT_TRY(derive_method(ctx, job));
    if (!foreign) WEFT_TRY(derive_model(ctx, job, vocab));
    WEFT_TRY(wefti_engine_here.adapt(ctx, job));
    WEFT_TRY(list_tensors(ctx, job));
    WEFT_TRY(wefti_job_rules(ctx, job));
    return derive_topology(ctx, job);
}

/* Takes the model, site_first, rows and nodes of `begun`, also on failure. */
static weft_status create(weft_ctx *ctx, const wefti_job *begun, int64_t vocab,
                          wefti_job **out) {
    *out = NULL;
    wefti_job *job;
    weft_status status = wefti_alloc(ctx, sizeof *job, "the job", &job);
    if (status != WEFT_OK) {
        weft_model_destroy(ctx, begun->model);
        WEFTI_FREE(ctx, begun->site.first, begun->batch.rows, begun->each.nodes);
        return status;
    }
    *job = *begun;
    job->optimizer.clip = job->config->optimizer.clip;
    status = derive(ctx, job, vocab);
    if (status != WEFT_OK) {
        wefti_job_destroy(ctx, job);
        return status;
    }
    *out = job;
    return WEFT_OK;
}

weft_status wefti_job_create(weft_ctx *ctx, const weft_config *config,
                             const weft_dataset *dataset, int64_t vocab,
                             wefti_job **out) {
    wefti_job begun = {
        .config = config, .dataset = dataset, .T = wefti_job_positions(config)};
    return create(ctx, &begun, vocab, out);
}

weft_status wefti_job_describe(weft_ctx *ctx, const weft_config *config,
                               wefti_job **out) {
    wefti_job begun = {
        .config = config, .as.described = true, .T = wefti_job_positions(config)};
    return create(ctx, &begun, wefti_job_vocab(config), out);
}

weft_status wefti_job_create_like(weft_ctx *ctx, const wefti_job *other,
                                  const weft_config *config, const wefti_job_parts *parts,
                                  wefti_job **out) {
    wefti_job begun = {.config = config,
                       .dataset = other->dataset,
                       .site.first = parts->site_first,
                       .batch.rows = parts->rows,
                       .each.nodes = parts->nodes,
                       .run = other->run,
                       .T = wefti_job_positions(config)};
    WEFT_TRY(create(ctx, &begun, other->run.vocab, out));
    (*out)->run = other->run;
    return WEFT_OK;
}

weft_status wefti_job_create_for(weft_ctx *ctx, const weft_config *config,
                                 weft_model *model, int *nodes, wefti_job **out) {
    wefti_job begun = {
        .config = config, .model = model, .each.nodes = nodes, .as.local_rows = true};
    if (!wefti_is(config->batch.shares, "equal")) {
        weft_model_destroy(ctx, model);
        wefti_free(ctx, nodes);
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "batch.shares is %s, expected equal: the program has the rows",
            config->batch.shares);
    }
    return create(ctx, &begun, 0, out);
}

void wefti_job_destroy(weft_ctx *ctx, wefti_job *job) {
    if (!job) return;
    weft_neighbours_destroy(ctx, job->gossip.room);
    weft_topology_destroy(ctx, job->gossip.topology);
    weft_topology_destroy(ctx, job->gossip.everybody);
    weft_model_destroy(ctx, job->model);
    WEFTI_FREE(ctx, job->optimizer.rules, job->tensors, job->site.first, job->batch.rows,
               job->batch.earlier, job->batch.micros, job->each.nodes, job->each.codecs,
               job);
}

wefti_layout wefti_job_layout(const wefti_job *job, int unit, int s) {
    const wefti_tensor *tensors = &job->tensors[wefti_job_first_tensor(job, unit)];
    return wefti_layout_make(job->model->units[unit].n_params, tensors,
                             job->as.local_rows ? 1 : job->S, job->as.local_rows ? 0 : s);
}

bool wefti_job_averages_all(const weft_config *config) {
    return wefti_replicator_find(config->replicator.kind)->averages_all &&
           wefti_is(config->mixer.kind, "none");
}

int64_t wefti_job_period(const weft_config *config) {
    wefti_mixer_config mixer = {.kind = config->mixer.kind,
                                .outer_every = config->mixer.outer_every};
    return wefti_mixer_period(&mixer);
}
