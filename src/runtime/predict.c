/* SPDX-License-Identifier: MIT */
#include <weft/predict.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/costs.h"

enum { BYTE_IDS = 256, WIRE_STEPS = 1024 };

/* What only the text would tell. */
static int64_t vocab_of(const weft_config *config) {
    if (config->model.vocab) return config->model.vocab;
    return strcmp(config->data.tokenizer, "bytes") == 0 ? BYTE_IDS : config->data.vocab;
}

static weft_status make_plan(weft_ctx *ctx, const weft_config *config,
                             const weft_cluster *cluster, weft_config *copy,
                             wefti_plan **out) {
    *copy = *config;
    if (copy->mesh.threads == 0) copy->mesh.threads = cluster->threads;
    return wefti_plan_create(ctx, copy, NULL, vocab_of(copy), out);
}

weft_status weft_cluster_model_key(weft_ctx *ctx, const weft_config *config,
                                   int64_t threads, char *out) {
    weft_cluster cluster = {.threads = threads};
    weft_config copy;
    wefti_plan *plan;
    WEFT_TRY(make_plan(ctx, config, &cluster, &copy, &plan));
    wefti_costs_key(plan, out, sizeof cluster.model);
    wefti_plan_destroy(ctx, plan);
    return WEFT_OK;
}

/* Bytes and memory, as train says them beforehand. */
static weft_status count_bytes(weft_ctx *ctx, const wefti_plan *plan,
                               weft_prediction *out) {
    int64_t steps = plan->config->run.steps, all = 0;
    if (steps > WIRE_STEPS) steps = WIRE_STEPS;
    for (int s = 0; s < plan->S; s++) {
        wefti_arrangement *a;
        WEFT_TRY(wefti_arrangement_create(ctx, plan, s, &a));
        all += wefti_plan_wire_bytes(plan, a, 0, 0, steps);
        wefti_footprint f = wefti_plan_footprint(plan, a);
        if (f.total > out->memory_bytes) out->memory_bytes = f.total;
        wefti_arrangement_destroy(ctx, a);
    }
    out->wire_bytes_step = steps > 0 ? all / steps : 0;
    out->wire_bytes = (double)all * plan->copies / (double)(steps > 0 ? steps : 1);
    out->parameters = plan->model->n_elements;
    return WEFT_OK;
}

/* All of a bucket but the wire. */
static double bucket_s(const weft_cluster *cluster, const wefti_plan *plan,
                       const wefti_bucket *bucket) {
    int R = plan->site_replicas;
    wefti_work r = wefti_costs_replicator(cluster, &plan->replicator_config, bucket, R);
    wefti_work m = wefti_costs_mixer(cluster, plan, bucket);
    return r.begin_s + r.combine_s + (R - 1) * r.combine_peer_s + r.end_s + m.begin_s +
           m.combine_s + m.combine_peer_s + m.end_s +
           wefti_costs_optimizer(cluster, plan, bucket);
}

/* Calm machines: computing, and what of the exchange does not fit behind it. */
static weft_status estimate(weft_ctx *ctx, const wefti_plan *plan,
                            const weft_cluster *cluster, weft_prediction *out) {
    wefti_arrangement *a;
    weft_link_facts wire = cluster->wire;
    const weft_config *config = plan->config;
    if (config->mesh.bandwidth_Bps > 0)
        wire = (weft_link_facts){.bandwidth_Bps = config->mesh.bandwidth_Bps,
                                 .latency_s = config->mesh.latency_s};
    WEFT_TRY(wefti_arrangement_create(ctx, plan, 0, &a));
    double forward_s = 0, backward_s = 0, codec_s = 0;
    for (int u = 0; u < a->n_units; u++) {
        wefti_unit_cost cost = wefti_costs_unit(cluster, plan, u);
        forward_s += cost.forward_s;
        backward_s += cost.backward_s;
    }
    for (int b = 0; b < a->n_buckets; b++)
        codec_s += bucket_s(cluster, plan, &a->buckets[b]);
    wefti_arrangement_destroy(ctx, a);
    double compute_s = cluster->rest_s + (double)plan->n_micro * (forward_s + backward_s);
    if (compute_s < config->mesh.pace) {
        compute_s = config->mesh.pace;
        backward_s = 2.0 / 3 * compute_s / (double)plan->n_micro;
    }
    bool gossips = plan->mixer_config.topology && !plan->mixer_config.combine_last;
    double room_s = gossips ? compute_s : config->mesh.overlap ? backward_s : 0;
    out->codec_s = codec_s;
    out->wire_s = wire.bandwidth_Bps > 0 ? out->wire_bytes / wire.bandwidth_Bps : 0;
    if (plan->R > plan->copies) out->wire_s += 2 * wire.latency_s;
    out->exchange_s = codec_s + out->wire_s;
    out->wait_s = out->exchange_s > room_s ? out->exchange_s - room_s : 0;
    out->compute_s = compute_s;
    out->mean_step_s = compute_s + out->wait_s;
    return WEFT_OK;
}

static void conclude(const wefti_plan *plan, weft_prediction *out) {
    double s = out->mean_step_s;
    out->step_s = (weft_quantiles){s, s, s};
    out->hidden_share = out->exchange_s > 0 ? 1 - out->wait_s / out->exchange_s : 1;
    if (out->hidden_share < 0) out->hidden_share = 0;
    out->tokens_per_s = s > 0 ? (double)(plan->rows_per_step * plan->T) / s : 0;
    out->bound = WEFT_BOUND_COMPUTE;
    if (out->wait_s > out->compute_s)
        out->bound = out->wire_s > out->codec_s ? WEFT_BOUND_WIRE : WEFT_BOUND_CODEC;
}

weft_status weft_predict(weft_ctx *ctx, const weft_config *config,
                         const weft_cluster *cluster, const weft_predict_options *options,
                         weft_prediction *out) {
    wefti_plan *plan;
    weft_config copy;
    (void)options;
    *out = (weft_prediction){.hidden_share = 1};
    WEFT_TRY(make_plan(ctx, config, cluster, &copy, &plan));
    weft_status status = count_bytes(ctx, plan, out);
    if (status == WEFT_OK) status = estimate(ctx, plan, cluster, out);
    if (status == WEFT_OK) conclude(plan, out);
    wefti_plan_destroy(ctx, plan);
    if (status != WEFT_OK) weft_prediction_clear(ctx, out);
    return status;
}

void weft_prediction_clear(weft_ctx *ctx, weft_prediction *p) {
    wefti_free(ctx, p->spans);
    *p = (weft_prediction){.n_spans = 0};
}
