/* SPDX-License-Identifier: MIT */
/* From ops to times: every op of a schedule becomes parts that compute, synchronize
 * (meet) or act, with their seconds on this cluster; every bucket gets the costs and
 * bytes of its exchange; every kind of link gets its costs. Both players use this value.
 *
 *     op              parts
 *     gather          meet: latency, (S-1)/S of the unit over the node's link, copying it
 *     forward         compute
 *     backward        compute, with a floor where the configuration sets a pace
 *     reduce          meet: as gather, and the sums
 *     norm            compute: every bucket's gradient is read once; meet: a few numbers
 *     settle          compute: rest of a step; meet; act
 *     others          act: their effect depends on the time, see the players
 *
 * Neighbouring parts that compute become one: doing (w1, f1) and then (w2, f2), each max(t
 * + w, f), is doing (w1 + w2, max(f1 + w2, f2)). For a timeline they are kept separate. */
#include "simulate/timed.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/stats.h"
#include "replicate/replicator.h"

/* --- ops --- */

/* The list to which the parts of ops are added. */
typedef struct timer {
    const wefti_timed *timed;
    wefti_timed_shard *shard;
    bool in_detail;
} timer;

static weft_status add(const timer *t, wefti_timed_op part) {
    wefti_timed_shard *shard = t->shard;
    wefti_timed_op *last = shard->n_ops ? &shard->ops[shard->n_ops - 1] : NULL;
    bool joins = part.timing == WEFTI_TIMING_COMPUTE && last &&
                 last->timing == WEFTI_TIMING_COMPUTE;
    if (joins && !t->in_detail) {
        double moved = last->floor_s < 0 ? -1 : last->floor_s + part.work_s;
        last->work_s += part.work_s;
        last->same_s += part.same_s;
        last->floor_s = fmax(moved, part.floor_s);
        return WEFT_OK;
    }
    if (shard->n_ops == shard->room) {
        int room = 2 * shard->room + 64;
        WEFT_TRY(wefti_grow(t->timed->ctx, &shard->ops, shard->n_ops, room, sizeof part,
                            "a step's ops"));
        shard->room = room;
    }
    shard->ops[shard->n_ops++] = part;
    return WEFT_OK;
}

static weft_status compute(const timer *t, const wefti_op *op, double work_s,
                           double same_s, double floor_s) {
    return add(
        t, (wefti_timed_op){WEFTI_TIMING_COMPUTE, *op, work_s, floor_s, same_s, true});
}

static weft_status act(const timer *t, const wefti_op *op) {
    return add(t, (wefti_timed_op){WEFTI_TIMING_ACT, *op, 0, -1, 0, true});
}

static weft_status meet(const timer *t, const wefti_op *op, double work_s) {
    return add(t, (wefti_timed_op){WEFTI_TIMING_MEET, *op, work_s, -1, 0, true});
}

/* Cost of moving S-1 shards of a unit over the link inside the node, and of copying the
 * unit once. */
static weft_status move_unit(const timer *t, const wefti_op *op,
                             double bytes_per_element) {
    const wefti_timed *timed = t->timed;
    const wefti_link_time *link = &timed->links[WEFTI_LINK_LOCAL];
    double full = 4 * (double)timed->job->model->units[op->index].n_elements;
    double moved = full * (timed->job->S - 1) / timed->job->S * link->stretch;
    double wire_s = link->bandwidth_Bps > 0 ? moved / link->bandwidth_Bps : 0;
    return meet(t, op,
                link->latency_s + wire_s + (timed->job->S - 1) * 2 * link->message_s +
                    wefti_costs_touch(timed->cluster, bytes_per_element / 4 * full));
}

/* Cost of adding up a few numbers over the ranks of a replica. */
static weft_status sum_up(const timer *t, const wefti_op *op) {
    const wefti_link_time *link = &t->timed->links[WEFTI_LINK_LOCAL];
    if (t->timed->job->S == 1) return WEFT_OK;
    return meet(t, op, link->latency_s + 2 * link->message_s);
}

/* Adds a backward op; that of the head computes forward and backward. Its earliest end is
 * that of wefti_rank_pace; stalls are added when it is played. */
static weft_status backward(const timer *t, const wefti_op *op) {
    const wefti_job *job = t->timed->job;
    const weft_config *config = job->config;
    wefti_unit_cost cost = wefti_costs_unit(t->timed->cluster, job, op->index);
    bool head = op->index == job->model->n_units - 1;
    double floor_s = config->mesh.straggler_time > 0 ? 0 : -1;
    if (config->mesh.compute_time > 0) floor_s = config->mesh.compute_time * op->share;
    double work_s = (head ? cost.forward_s : 0) + cost.backward_s;
    return compute(t, op, work_s, cost.launching * work_s, floor_s);
}

static weft_status forward(const timer *t, const wefti_op *op) {
    wefti_unit_cost cost = wefti_costs_unit(t->timed->cluster, t->timed->job, op->index);
    return compute(t, op, cost.forward_s, cost.launching * cost.forward_s, -1);
}

static weft_status norm(const timer *t, const wefti_op *op) {
    double work_s = 0;
    for (int b = 0; b < t->shard->arrangement->n_buckets; b++)
        work_s += t->shard->buckets[b].norm_s;
    WEFT_TRY(compute(t, op, work_s, work_s, -1));
    return sum_up(t, op);
}

static weft_status settle(const timer *t, const wefti_op *op) {
    WEFT_TRY(compute(t, op, t->timed->cluster->rest_s, 0, -1));
    WEFT_TRY(sum_up(t, op));
    return act(t, op);
}

static weft_status time_op(const timer *t, const wefti_op *op) {
    switch (op->kind) {
    case WEFTI_OP_LOAD: return t->in_detail ? act(t, op) : WEFT_OK;
    case WEFTI_OP_GATHER: return move_unit(t, op, 8);
    case WEFTI_OP_REDUCE: return move_unit(t, op, 20);
    case WEFTI_OP_FORWARD: return forward(t, op);
    case WEFTI_OP_BACKWARD: return backward(t, op);
    case WEFTI_OP_NORM: return norm(t, op);
    case WEFTI_OP_SETTLE: return settle(t, op);
    default: return act(t, op);
    }
}

static weft_status time_ops(const timer *t) {
    const wefti_schedule *s = t->shard->schedule;
    for (int i = 0; i < s->n_ops; i++) {
        int first = t->shard->n_ops;
        WEFT_TRY(time_op(t, &s->ops[i]));
        for (int k = first; k < t->shard->n_ops - 1; k++) t->shard->ops[k].ends = false;
    }
    return WEFT_OK;
}

/* --- buckets --- */

/* Rounds of a bucket's exchange and the bytes about each owner, as the replicator returns
 * them, so that a prediction counts the same bytes as the run. */
static weft_status plan_route(wefti_timed *timed, const wefti_replicator_config *config,
                              const wefti_bucket *bucket, int R, wefti_route_plan *out) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    wefti_replicator_config taken = *config;
    out->n_rounds = ops->rounds(config, bucket, R);
    out->one_by_one = ops->one_by_one;
    taken.route = out->n_rounds == 1 ? WEFTI_ROUTE_GATHER : WEFTI_ROUTE_OWNER;
    out->work = wefti_costs_replicator(timed->cluster, &taken, bucket, R);
    for (int round = 0; round < out->n_rounds; round++) {
        WEFT_TRY(wefti_alloc_n(timed->ctx, wefti_values_rows(config) * R, sizeof(int64_t),
                               "messages", &out->bytes[round]));
        wefti_replicator_lengths(config, bucket, R, round, out->bytes[round]);
    }
    return WEFT_OK;
}

/* n: lengths in a round. */
static weft_status repeat_route(weft_ctx *ctx, const wefti_route_plan *before, int n,
                                wefti_route_plan *out) {
    *out = *before;
    for (int round = 0; round < before->n_rounds; round++) out->bytes[round] = NULL;
    for (int round = 0; round < before->n_rounds; round++) {
        WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int64_t), "messages", &out->bytes[round]));
        memcpy(out->bytes[round], before->bytes[round], (size_t)n * sizeof(int64_t));
    }
    return WEFT_OK;
}

static weft_status plan_bucket(wefti_timed *timed, const wefti_arrangement *a, int b,
                               wefti_timed_bucket *out) {
    const wefti_job *job = timed->job;
    const wefti_bucket *bucket = &a->buckets[b];
    out->mixer = wefti_costs_mixer(timed->cluster, job, bucket);
    out->optimizer_s = wefti_costs_optimizer(timed->cluster, job, a, b);
    out->norm_s = wefti_costs_touch(timed->cluster, 4 * (double)bucket->n_elements);
    int R = job->site.replicas, n = wefti_values_rows(&job->replicator_config) * R;
    bool again = b > 0 && wefti_bucket_is_like(&bucket[-1], bucket);
    WEFT_TRY(again ? repeat_route(timed->ctx, &out[-1].near, n, &out->near)
                   : plan_route(timed, &job->replicator_config, bucket, R, &out->near));
    if (job->site.n == 1) return WEFT_OK;
    n = wefti_values_rows(&job->site_replicator_config) * job->site.n;
    return again ? repeat_route(timed->ctx, &out[-1].far, n, &out->far)
                 : plan_route(timed, &job->site_replicator_config, bucket, job->site.n,
                              &out->far);
}

static weft_status plan_shard(wefti_timed *timed, int s, bool in_detail) {
    wefti_timed_shard *shard = &timed->shards[s];
    timer t = {.timed = timed, .shard = shard, .in_detail = in_detail};
    WEFT_TRY(wefti_arrangement_create(timed->ctx, timed->job, s, &shard->arrangement));
    WEFT_TRY(wefti_schedule_create(timed->ctx, timed->job, shard->arrangement, -1,
                                   &shard->schedule));
    int n = shard->arrangement->n_buckets;
    WEFT_TRY(
        wefti_alloc_n(timed->ctx, n, sizeof *shard->buckets, "buckets", &shard->buckets));
    for (int b = 0; b < n; b++)
        WEFT_TRY(plan_bucket(timed, shard->arrangement, b, &shard->buckets[b]));
    return time_ops(&t);
}

/* --- links --- */

/* Links that were measured individually override the general facts of the wire; an
 * emulated wire has no such links. */
static weft_status plan_pairs(wefti_timed *timed) {
    const weft_cluster *c = timed->cluster;
    int64_t n = timed->job->R / timed->job->copies;
    if (c->n_pairs == 0 || timed->emulated) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(timed->ctx, n * n, sizeof(double), "links",
                           &timed->pair_bandwidth_Bps));
    WEFT_TRY(wefti_alloc_n(timed->ctx, n * n, sizeof(double), "links",
                           &timed->pair_latency_s));
    for (int64_t i = 0; i < c->n_pairs; i++) {
        const weft_link_pair *p = &c->pairs[i];
        if (p->from >= n || p->to >= n) continue;
        timed->pair_bandwidth_Bps[p->from * n + p->to] = p->bandwidth_Bps;
        timed->pair_latency_s[p->from * n + p->to] = p->latency_s;
    }
    return WEFT_OK;
}

/* mesh.link overrides the cluster's wire. If there are no facts about links between
 * sites, those of the wire are used. */
static void plan_links(wefti_timed *timed) {
    const weft_config *config = timed->job->config;
    const weft_cluster *c = timed->cluster;
    int sites = timed->job->site.n, nodes = timed->job->R / timed->job->copies;
    wefti_link_use use = {.joined = nodes / sites,
                          .flows = (c->flows > 1 ? c->flows : 1) * timed->job->S,
                          .streams = config->mesh.streams,
                          .peers = timed->job->W - 1};
    timed->links[WEFTI_LINK_LOCAL] = wefti_link_of(&c->local,
                                                   (wefti_link_use){.joined = 1});
    if (sites == 1) use.stream_Bps = c->stream_Bps;
    timed->links[WEFTI_LINK_WIRE] = wefti_link_of(&c->wire, use);
    use.joined = sites;
    use.stream_Bps = c->stream_Bps;
    timed->links[WEFTI_LINK_SITE] = wefti_link_of(
        c->site.bandwidth_Bps > 0 ? &c->site : &c->wire, use);
    timed->emulated = config->mesh.bandwidth_Bps > 0;
    if (!timed->emulated) return;
    double message_s = c->local.message_s;
    timed->links[WEFTI_LINK_WIRE] = (wefti_link_time){
        config->mesh.bandwidth_Bps, config->mesh.latency_s, message_s, 0, 1, 1, 0, 0};
    timed->links[WEFTI_LINK_SITE] = (wefti_link_time){config->mesh.site_bandwidth_Bps,
                                                      config->mesh.site_latency_s,
                                                      message_s,
                                                      0,
                                                      1,
                                                      1,
                                                      0,
                                                      0};
}

/* --- the whole --- */

double wefti_timed_part(const wefti_timed *timed, int node) {
    const wefti_job *job = timed->job;
    if (!job->batch.rows) return 1;
    return (double)job->batch.rows[node * job->copies] /
           (double)(job->batch.n_micro * job->B);
}

static weft_status find_median(wefti_timed *timed) {
    const weft_cluster *c = timed->cluster;
    double *sorted;
    if (c->n_steps == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(timed->ctx, c->n_steps, sizeof *sorted, "steps", &sorted));
    memcpy(sorted, c->step_s, (size_t)c->n_steps * sizeof *sorted);
    timed->mean_s = wefti_median(sorted, c->n_steps);
    wefti_free(timed->ctx, sorted);
    return WEFT_OK;
}

/* Checks that the compute rate is known: computing in no time would silently be wrong. */
static weft_status check_known(const wefti_timed *timed) {
    const weft_cluster *c = timed->cluster;
    if (c->rank_flops > 0 || timed->job->as.loop_s > 0 ||
        timed->job->config->mesh.compute_time > 0 || wefti_costs_measured(c, timed->job))
        return WEFT_OK;
    return weft_ctx_fail(
        timed->ctx, WEFT_ERR_CONFIG,
        "nothing is known of computing: the cluster has no rank_flops%s, "
        "and mesh.compute_time is 0",
        c->n_units > 0 ? ", its units are of another model or batch" : "");
}

/* compute_s is the sum of the units without waiting; a minimum compute time may make the
 * step longer. */
static weft_status fill(wefti_timed *timed, bool in_detail) {
    const wefti_job *job = timed->job;
    WEFT_TRY(check_known(timed));
    plan_links(timed);
    WEFT_TRY(plan_pairs(timed));
    WEFT_TRY(find_median(timed));
    WEFT_TRY(wefti_alloc_n(timed->ctx, job->S, sizeof *timed->shards, "shards",
                           &timed->shards));
    for (int s = 0; s < job->S; s++) WEFT_TRY(plan_shard(timed, s, in_detail));
    double pass_s = 0;
    for (int u = 0; u < job->model->n_units; u++) {
        wefti_unit_cost cost = wefti_costs_unit(timed->cluster, job, u);
        pass_s += cost.forward_s + cost.backward_s;
    }
    timed->compute_s = (double)job->batch.n_micro * pass_s;
    timed->paced_s = fmax(timed->compute_s, job->config->mesh.compute_time);
    return WEFT_OK;
}

weft_status wefti_timed_create(weft_ctx *ctx, const weft_cluster *cluster,
                               const wefti_job *job, bool in_detail, wefti_timed **out) {
    *out = NULL;
    wefti_timed *timed;
    WEFT_TRY(wefti_alloc(ctx, sizeof *timed, "a prediction", &timed));
    timed->ctx = ctx;
    timed->cluster = cluster;
    timed->job = job;
    WEFTI_TRY_OR(fill(timed, in_detail), wefti_timed_destroy(ctx, timed));
    *out = timed;
    return WEFT_OK;
}

static void free_shard(weft_ctx *ctx, wefti_timed_shard *shard) {
    int n = shard->arrangement ? shard->arrangement->n_buckets : 0;
    for (int b = 0; b < n && shard->buckets; b++)
        for (int round = 0; round < 2; round++) {
            wefti_free(ctx, shard->buckets[b].near.bytes[round]);
            wefti_free(ctx, shard->buckets[b].far.bytes[round]);
        }
    WEFTI_FREE(ctx, shard->buckets, shard->ops);
    wefti_schedule_destroy(ctx, shard->schedule);
    wefti_arrangement_destroy(ctx, shard->arrangement);
}

void wefti_timed_destroy(weft_ctx *ctx, wefti_timed *timed) {
    if (!timed) return;
    for (int s = 0; timed->shards && s < timed->job->S; s++)
        free_shard(ctx, &timed->shards[s]);
    WEFTI_FREE(ctx, timed->shards, timed->pair_bandwidth_Bps, timed->pair_latency_s,
               timed);
}
