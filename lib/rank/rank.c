/* SPDX-License-Identifier: MIT */
/* What one rank owns; job/footprint.c predicts how much memory it takes.
 *
 *     shards        parameters, gradients, optimizer states: flat, n of this rank's elements,
 *                   in the order of the buckets
 *     in flight     whole units while they are computed with: gathered parameters, gradients
 *                   before they are reduced; WEFTI_PLACES of each take turns
 *     kept          with mesh.keep_whole instead: every unit, gathered once in a step
 *     activations   outputs of the units, and what their backward needs; with model.recompute
 *                   one buffer of the latter serves all units
 *     messages      room for all that may be in flight, so that sending allocates nothing
 *
 * All of it is allocated here, before the first step; a step allocates nothing (a test
 * counts). */
#include "rank/rank.h"

#include <math.h>

#include "base/memory.h"
#include "base/text.h"
#include "comm/local.h"
#include "comm/worker.h"
#include "mix/mixer.h"
#include "optim/matrices.h"
#include "replicate/replicator.h"
#include "step/schedule.h"
#include <weft/sync.h>

static weft_status floats(wefti_rank *r, int64_t n, const char *what, float **out) {
    return wefti_alloc_n(r->ctx, n, sizeof(float), what, out);
}

/* This rank's elements. */
static weft_status allocate_shards(wefti_rank *r) {
    int64_t n = r->arrangement->n_elements;
    WEFT_TRY(floats(r, n, "parameters", &r->params));
    WEFT_TRY(floats(r, n, "gradients", &r->grads));
    for (int i = 0; i < r->job->optimizer.most_states->n_states; i++)
        WEFT_TRY(floats(r, n, "optimizer state", &r->optimizer.state[i]));
    int n_buckets = r->arrangement->n_buckets;
    WEFT_TRY(
        wefti_alloc_n(r->ctx, n_buckets, sizeof(double), "norms", &r->exchange.moved));
    WEFT_TRY(
        wefti_alloc_n(r->ctx, n_buckets, sizeof(double), "norms", &r->exchange.squares));
    WEFT_TRY(wefti_alloc_n(r->ctx, n_buckets, sizeof(int64_t), "tickets",
                           &r->exchange.tickets));
    return wefti_alloc_n(r->ctx, r->arrangement->n_units, sizeof(uint64_t), "checksums",
                         &r->audit.sums);
}

/* Buffers of units in flight. A place is as large as the largest unit that uses it. */
static weft_status allocate_flight(wefti_rank *r) {
    wefti_sizes sizes = wefti_job_sizes(r->job, wefti_rank_micro(r));
    const int64_t *places = sizes.places;
    for (int i = 0; i < WEFTI_PLACES; i++) {
        r->passes.gathered.unit[i] = r->passes.gradients.unit[i] = -1;
        if (places[i] == 0) continue;
        if (!r->job->run.keeps_whole)
            WEFT_TRY(floats(r, places[i], "gathered parameters",
                            &r->passes.gathered.buffer[i]));
        WEFT_TRY(
            floats(r, places[i], "gradients in flight", &r->passes.gradients.buffer[i]));
    }
    if (sizes.largest_unit == 0) return WEFT_OK;
    return floats(r, sizes.largest_unit, "gradients in flight", &r->passes.staging);
}

static weft_status allocate_kept(wefti_rank *r) {
    const weft_model *model = r->job->model;
    if (!r->job->run.keeps_whole) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(r->ctx, model->n_units, sizeof *r->passes.kept,
                           "gathered parameters", &r->passes.kept));
    for (int u = 0; u < model->n_units; u++)
        WEFT_TRY(floats(r, model->units[u].n_elements, "gathered parameters",
                        &r->passes.kept[u].buffer));
    return WEFT_OK;
}

static weft_status allocate_activations(wefti_rank *r) {
    const wefti_job *job = r->job;
    int64_t B = wefti_rank_micro(r);
    wefti_sizes sizes = wefti_job_sizes(job, B);
    int n = job->model->n_units;
    bool recompute = job->run.recomputes;
    WEFT_TRY(
        wefti_alloc_n(r->ctx, n, sizeof(float *), "activations", &r->passes.outputs));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(float *), "activations", &r->passes.saved));
    for (int u = 0; u < n; u++) {
        if (u < n - 1)
            WEFT_TRY(floats(r, sizes.output, "activations", &r->passes.outputs[u]));
        if (recompute && u > 0) {
            r->passes.saved[u] = r->passes.saved[0];
            continue;
        }
        int64_t saved = recompute ? sizes.largest_saved
                                  : wefti_job_saved_floats(job, u, B);
        WEFT_TRY(floats(r, saved, "activations", &r->passes.saved[u]));
    }
    WEFT_TRY(floats(r, sizes.output, "activations", &r->passes.dy));
    WEFT_TRY(floats(r, sizes.scratch, "scratch", &r->passes.scratch));
    int64_t n_tokens = B * wefti_model_row_tokens(job->model, job->T);
    int64_t n_targets = B * wefti_model_row_targets(job->model, job->T);
    WEFT_TRY(
        wefti_alloc_n(r->ctx, n_tokens, sizeof(int32_t), "tokens", &r->batch.tokens));
    return wefti_alloc_n(r->ctx, n_targets, sizeof(int32_t), "tokens", &r->batch.targets);
}

/* Messages that may be in flight at once: two stages of each bucket (of its directions too,
 * where a mixer sends them) in each of two steps;
 * WEFTI_STATUS_SLOTS rounds of the status, one of something else, and two rounds of shard
 * messages. */
static weft_status reserve_messages(wefti_rank *r) {
    const wefti_mixer_ops *mixer = wefti_mixer_find(r->job->mixer_config.kind);
    int n = r->arrangement->n_buckets * (mixer && mixer->direct ? 2 : 1);
    WEFT_TRY(wefti_comm_reserve(r->comms.replica, 4 * n * (r->job->site.replicas - 1)));
    WEFT_TRY(wefti_comm_reserve(r->comms.sites, 4 * n * (r->job->site.mixed - 1)));
    WEFT_TRY(wefti_comm_reserve(r->comms.shard, 2 * (r->job->S - 1)));
    if (r->job->optimizer.n_whole > 0)
        WEFT_TRY(wefti_comm_reserve(r->comms.rows, 2 * (r->job->S - 1)));
    WEFT_TRY(wefti_comm_reserve_allgather(r->comms.control, WEFTI_STATUS_SLOTS,
                                          wefti_job_status_bytes(r->job)));
    return wefti_comm_reserve(r->comms.control, r->job->W - 1);
}

void wefti_rank_weigh(wefti_rank *r, int64_t step) {
    for (int i = 0; i < r->job->R; i++)
        r->shares.weights[i] = wefti_job_weight_sent(r->job, i, step);
    if (!wefti_is(r->job->replicator_config.kind, "none"))
        r->shares.weight = r->shares.weights[r->replica];
}

/* A gradient is weighed where gradients are exchanged; a mixer weighs what it sends. */
static weft_status set_weights(wefti_rank *r) {
    const wefti_job *job = r->job;
    r->shares.weight = 1;
    r->batch.pass_rows = wefti_rank_micro(r);
    if (!job->batch.rows) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(r->ctx, job->R, sizeof *r->shares.weights, "shares",
                           &r->shares.weights));
    r->comms.replica->weights = r->comms.sites->weights = r->shares.weights;
    wefti_rank_weigh(r, job->from.step);
    if (!job->run.measures) return WEFT_OK;
    WEFT_TRY(wefti_alloc_n(r->ctx, weft_shares_numbers(job->R), sizeof(double), "speeds",
                           &r->shares.speeds));
    weft_shares_begin(job->R, job->batch.rows, (double *)r->shares.speeds);
    WEFT_TRY(
        wefti_alloc_n(r->ctx, job->R, sizeof *r->shares.said, "speeds", &r->shares.said));
    return wefti_alloc_n(r->ctx, job->R, sizeof *r->shares.next, "speeds",
                         &r->shares.next);
}

/* Each rank sees what all send to the ranges that it adds; the first one tells. */
static weft_status set_watch(wefti_rank *r) {
    const wefti_job *job = r->job;
    int n = job->site.replicas;
    r->audit.suspect = -1;
    if (job->replicator_config.robust == WEFTI_ROBUST_OFF) return WEFT_OK;
    if (r->rank == 0 && n < 3)
        weft_ctx_log(r->ctx, WEFT_LOG_WARN,
                     "mesh.robust is %s, but %d %s sums: of fewer than 3 nobody can "
                     "tell who is wrong",
                     job->config->mesh.robust, n, n == 1 ? "node" : "nodes make the");
    r->audit.watch = (wefti_robust_watch){.n = n, .step = -1};
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof *r->audit.watch.seen,
                           "nodes that are watched", &r->audit.watch.seen));
    WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof *r->audit.watch.sizes,
                           "nodes that are watched", &r->audit.watch.sizes));
    r->comms.replica->watch = r->comms.sites->watch = &r->audit.watch;
    return WEFT_OK;
}

/* With run.audit: counts what is sent, and has room for what the others tell. */
static weft_status set_audit(wefti_rank *r) {
    const wefti_job *job = r->job;
    if (job->lag.audit == 0) return WEFT_OK;
    WEFT_TRY(wefti_sent_init(r->ctx, job->lag.audit, job->from.step, &r->audit.sent));
    r->comms.replica->sent = r->comms.sites->sent = &r->audit.sent;
    return wefti_alloc_n(r->ctx, (int64_t)job->W * WEFTI_SENT_ROUNDS,
                         sizeof *r->audit.digests, "digests of messages",
                         &r->audit.digests);
}

/* Builds everything in the order of dependence: first which elements, then their
 * memory, then what exchanges them, and the exchange thread last. */
static weft_status build(wefti_rank *r) {
    const wefti_job *job = r->job;
    WEFT_TRY(set_weights(r));
    WEFT_TRY(set_watch(r));
    WEFT_TRY(set_audit(r));
    WEFT_TRY(wefti_arrangement_create(r->ctx, job, r->local, &r->arrangement));
    WEFT_TRY(
        wefti_schedule_create(r->ctx, job, r->arrangement, r->replica, &r->schedule));
    const wefti_arrangement *a = r->arrangement;
    WEFT_TRY(allocate_shards(r));
    WEFT_TRY(allocate_flight(r));
    WEFT_TRY(allocate_kept(r));
    WEFT_TRY(allocate_activations(r));
    WEFT_TRY(reserve_messages(r));
    WEFT_TRY(wefti_replicator_create(r->ctx, &job->replicator_config, job->kernels,
                                     r->comms.replica, a->buckets, a->n_buckets,
                                     &r->replicator));
    if (wefti_job_has_sites(job))
        WEFT_TRY(wefti_replicator_create(r->ctx, &job->site_replicator_config,
                                         job->kernels, r->comms.sites, a->buckets,
                                         a->n_buckets, &r->site_replicator));
    WEFT_TRY(wefti_mixer_create(r->ctx, &job->mixer_config, job->kernels, r->comms.sites,
                                a->buckets, a->n_buckets, &r->mixer));
    if (job->optimizer.n_whole > 0)
        WEFT_TRY(wefti_matrices_create(r->ctx, job->pass_kernels, r->comms.rows, a->lists,
                                       a->n_buckets, &r->optimizer.matrices));
    r->now.grad_scale = 1;
    r->last.distance = (double)NAN;
    return wefti_exchange_create(r);
}

weft_status wefti_comms_join(weft_ctx *ctx, wefti_world *world, int rank,
                             wefti_comms *out) {
    const struct {
        wefti_group group;
        int channel;
        wefti_comm **comm;
    } groups[] = {{WEFTI_GROUP_SHARD, 0, &out->shard},
                  {WEFTI_GROUP_SHARD, 1, &out->rows},
                  {WEFTI_GROUP_REPLICA, 0, &out->replica},
                  {WEFTI_GROUP_SITES, 0, &out->sites},
                  {WEFTI_GROUP_WORLD, 0, &out->control}};
    const int n = sizeof groups / sizeof groups[0];
    weft_status status = WEFT_OK;
    *out = (wefti_comms){0};
    for (int i = 0; i < n && status == WEFT_OK; i++)
        status = wefti_world_join(ctx, world, rank, groups[i].group, groups[i].channel,
                                  groups[i].comm);
    if (status != WEFT_OK) wefti_comms_destroy(out);
    return status;
}

void wefti_comms_destroy(wefti_comms *comms) {
    wefti_comm_destroy(comms->shard);
    wefti_comm_destroy(comms->rows);
    wefti_comm_destroy(comms->replica);
    wefti_comm_destroy(comms->sites);
    wefti_comm_destroy(comms->control);
    *comms = (wefti_comms){0};
}

weft_status wefti_rank_world(weft_ctx *ctx, const wefti_job *job, weft_mesh *mesh,
                             wefti_world **out) {
    wefti_world_shape shape = wefti_job_shape(job);
    if (!mesh) return wefti_local_create(ctx, &shape, out);
    return wefti_mesh_shape(ctx, mesh, &shape, out);
}

weft_status wefti_rank_create(weft_ctx *ctx, const wefti_job *job, int rank,
                              const wefti_comms *comms, wefti_rank **out) {
    *out = NULL;
    wefti_rank *r;
    weft_status status = wefti_alloc(ctx, sizeof *r, "a rank", &r);
    if (status != WEFT_OK) {
        wefti_comms own = *comms;
        wefti_comms_destroy(&own);
        return status;
    }
    *r = (wefti_rank){.job = job,
                      .ctx = ctx,
                      .rank = rank,
                      .replica = rank / job->S,
                      .local = rank % job->S,
                      .comms = *comms};
    status = build(r);
    if (status != WEFT_OK) {
        wefti_rank_destroy(r);
        return status;
    }
    *out = r;
    return WEFT_OK;
}

static void free_activations(wefti_rank *r) {
    int n = r->job->model->n_units;
    for (int u = 0; r->passes.outputs && u < n; u++)
        wefti_free(r->ctx, r->passes.outputs[u]);
    for (int u = 0; r->passes.saved && u < n; u++)
        if (u == 0 || r->passes.saved[u] != r->passes.saved[0])
            wefti_free(r->ctx, r->passes.saved[u]);
    WEFTI_FREE(r->ctx, r->passes.outputs, r->passes.saved, r->passes.dy,
               r->passes.scratch, r->batch.tokens, r->batch.targets);
}

/* Stops the exchange thread first, then frees what it used. Memory that other ranks may
 * still read is freed only when none of them does (settle). */
void wefti_rank_destroy(wefti_rank *r) {
    if (!r) return;
    wefti_worker_destroy(r->ctx, r->exchange.worker);
    if (r->comms.control) wefti_comm_settle(r->comms.control);
    wefti_replicator_destroy(r->replicator);
    wefti_replicator_destroy(r->site_replicator);
    wefti_mixer_destroy(r->mixer);
    wefti_matrices_destroy(r->optimizer.matrices);
    wefti_comms_destroy(&r->comms);
    wefti_free(r->ctx, r->learners.gift);
    wefti_sent_fini(r->ctx, &r->audit.sent);
    free_activations(r);
    for (int i = 0; i < WEFTI_PLACES; i++) {
        wefti_free(r->ctx, r->passes.gathered.buffer[i]);
        wefti_free(r->ctx, r->passes.gradients.buffer[i]);
    }
    for (int u = 0; r->passes.kept && u < r->job->model->n_units; u++)
        wefti_free(r->ctx, r->passes.kept[u].buffer);
    wefti_free(r->ctx, r->passes.kept);
    for (int i = 0; i < WEFTI_OPTIMIZER_STATES; i++)
        WEFTI_FREE(r->ctx, r->optimizer.state[i], r->carried.mean[i]);
    WEFTI_FREE(r->ctx, r->params, r->grads, r->exchange.moved, r->exchange.squares,
               r->audit.sums, r->passes.staging, r->exchange.tickets, r->carried.owed,
               r->shares.weights, r->audit.watch.seen, r->audit.watch.sizes,
               r->audit.digests, r->shares.speeds, r->shares.said, r->shares.next);
    wefti_schedule_destroy(r->ctx, r->schedule);
    wefti_arrangement_destroy(r->ctx, r->arrangement);
    wefti_timeline_destroy(r->ctx, r->timeline);
    wefti_free(r->ctx, r);
}

void wefti_rank_forget_gathered(wefti_rank *r) {
    for (int i = 0; i < WEFTI_PLACES; i++) r->passes.gathered.unit[i] = -1;
    for (int u = 0; r->passes.kept && u < r->arrangement->n_units; u++)
        r->passes.kept[u].valid = false;
}

/* The first row of a step. In the steps before `until` learners take no rows. */
int64_t wefti_rank_first_row(const wefti_rank *r, int64_t step) {
    const wefti_job *job = r->job;
    const wefti_learners *g = &r->learners;
    int64_t without = (step < g->until ? step : g->until) - job->from.step;
    int64_t rows = job->from.row + (step - job->from.step) * job->batch.per_step;
    return g->n == 0 ? rows : rows - without * g->rows;
}

weft_status wefti_rank_prime(wefti_rank *r) {
    const wefti_arrangement *a = r->arrangement;
    for (int b = 0; b < a->n_buckets; b++)
        WEFT_TRY(wefti_mixer_prime(r->mixer, b, r->job->from.step,
                                   r->params + a->bucket_offset[b]));
    return WEFT_OK;
}
