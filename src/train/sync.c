/* SPDX-License-Identifier: MIT */
/* A rank whose gradients somebody else computes: the same job, arrangement and exchange
 * as a run's, around a model of tensors alone. */
#include <weft/sync.h>

#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "train/rank.h"

struct weft_sync {
    weft_ctx *ctx; /* borrowed, like the next two */
    weft_mesh *mesh;
    const weft_config *config;
    wefti_job *job;     /* owned, like the next two */
    wefti_world *world; /* with a mesh: the mesh's */
    wefti_rank *rank;
    int n_tensors;
    bool *ready;     /* [tensors] owned: in this step */
    int *missing;    /* [buckets] owned: tensors that are not */
    bool begun;      /* parameters are the same everywhere */
    int64_t step;    /* under way */
    int64_t counted; /* steps whose votes were read */
};

static weft_status make_plan(weft_sync *s, const weft_sync_tensor *tensors, int n) {
    wefti_foreign_tensor *specs;
    weft_model *model = NULL;
    WEFT_TRY(wefti_alloc_n(s->ctx, n > 0 ? n : 0, sizeof *specs, "tensors", &specs));
    for (int i = 0; i < n; i++)
        specs[i] = (wefti_foreign_tensor){tensors[i].name, tensors[i].rows,
                                          tensors[i].cols, tensors[i].decays};
    weft_status status = wefti_model_foreign(s->ctx, specs, n, &model);
    wefti_free(s->ctx, specs);
    WEFT_TRY(status);
    return wefti_job_create_for(s->ctx, s->config, model, &s->job);
}

static weft_status make_world(weft_sync *s) {
    const wefti_job *job = s->job;
    if (job->S != 1)
        return weft_ctx_fail(s->ctx, WEFT_ERR_CONFIG,
                             "mesh.shards is %d: every process holds all parameters of a "
                             "program's own model; set mesh.shards=1",
                             job->S);
    if (!s->mesh && job->W > 1)
        return weft_ctx_fail(s->ctx, WEFT_ERR_CONFIG,
                             "mesh.nodes x mesh.ranks_per_node is %d, but there is no "
                             "mesh: this process is alone",
                             job->W);
    if (s->mesh) wefti_mesh_watch(s->mesh, s->config->mesh.timeout, NULL, NULL);
    return wefti_rank_world(s->ctx, job, s->mesh, &s->world);
}

static weft_status make_rank(weft_sync *s) {
    wefti_comms comms;
    int rank = s->world->first_here;
    WEFT_TRY(wefti_comms_join(s->ctx, s->world, rank, &comms));
    return wefti_rank_create(s->ctx, s->job, rank, &comms, &s->rank);
}

/* Counts anew what this step's buckets wait for. */
static void expect_all(weft_sync *s) {
    const wefti_arrangement *a = s->rank->arrangement;
    memset(s->ready, 0, (size_t)s->n_tensors * sizeof *s->ready);
    memset(s->missing, 0, (size_t)a->n_buckets * sizeof *s->missing);
    for (int u = 0; u < a->n_units; u++) s->missing[a->bucket_of[u]]++;
}

static weft_status build(weft_sync *s, const weft_sync_tensor *tensors, int n) {
    WEFT_TRY(make_plan(s, tensors, n));
    WEFT_TRY(make_world(s));
    WEFT_TRY(make_rank(s));
    s->n_tensors = n;
    WEFT_TRY(wefti_alloc_n(s->ctx, n, sizeof *s->ready, "tensors", &s->ready));
    WEFT_TRY(wefti_alloc_n(s->ctx, s->rank->arrangement->n_buckets, sizeof *s->missing,
                           "buckets", &s->missing));
    expect_all(s);
    return WEFT_OK;
}

weft_status weft_sync_create(weft_ctx *ctx, weft_mesh *mesh, const weft_config *config,
                             const weft_sync_tensor *tensors, int n_tensors,
                             weft_sync **out) {
    *out = NULL;
    weft_sync *s;
    WEFT_TRY(wefti_alloc(ctx, sizeof *s, "a model's exchange", &s));
    s->ctx = ctx;
    s->mesh = mesh;
    s->config = config;
    weft_status status = build(s, tensors, n_tensors);
    if (status != WEFT_OK) {
        weft_sync_destroy(s);
        return status;
    }
    *out = s;
    return WEFT_OK;
}

void weft_sync_destroy(weft_sync *s) {
    if (!s) return;
    weft_ctx *ctx = s->ctx;
    wefti_rank_destroy(s->rank);
    wefti_world_destroy(ctx, s->world);
    wefti_job_destroy(ctx, s->job);
    wefti_free(ctx, s->ready);
    wefti_free(ctx, s->missing);
    wefti_free(ctx, s);
}

static float *at(weft_sync *s, float *flat, int i) {
    return i >= 0 && i < s->n_tensors ? flat + s->rank->arrangement->unit_offset[i]
                                      : NULL;
}

float *weft_sync_parameters(weft_sync *s, int i) { return at(s, s->rank->params, i); }

float *weft_sync_gradients(weft_sync *s, int i) { return at(s, s->rank->grads, i); }

/* Rank 0's parameters to all. */
static weft_status spread(weft_sync *s) {
    wefti_rank *r = s->rank;
    wefti_comm *all = r->comms.control;
    int64_t tag = wefti_rank_control_tag(r);
    int64_t n_bytes = r->arrangement->n_elements * (int64_t)sizeof(float);
    if (all->rank == 0) {
        WEFT_TRY(wefti_comm_send_all(all, tag, r->params, n_bytes));
        return wefti_comm_await(all, tag);
    }
    const void *view;
    WEFT_TRY(wefti_comm_receive(all, 0, tag, n_bytes, &view));
    memcpy(r->params, view, (size_t)n_bytes);
    wefti_comm_release(all, 0, tag);
    return WEFT_OK;
}

static weft_status open_step(weft_sync *s) {
    wefti_rank *r = s->rank;
    size_t n_bytes = (size_t)r->arrangement->n_elements * sizeof(float);
    expect_all(s);
    memset(r->grads, 0, n_bytes);
    return s->step < s->config->run.steps ? wefti_rank_open(r, s->step) : WEFT_OK;
}

weft_status weft_sync_begin(weft_sync *s) {
    if (s->begun)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "the first step has begun already");
    WEFT_TRY(spread(s));
    WEFT_TRY(wefti_rank_prime(s->rank));
    s->begun = true;
    return open_step(s);
}

static weft_status check_under_way(weft_sync *s) {
    if (!s->begun)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "a step without weft_sync_begin before it");
    if (s->step < s->config->run.steps) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                         "a step after the last one: run.steps is %lld",
                         (long long)s->config->run.steps);
}

weft_status weft_sync_ready(weft_sync *s, int i) {
    wefti_rank *r = s->rank;
    WEFT_TRY(check_under_way(s));
    if (i < 0 || i >= s->n_tensors || s->ready[i])
        return weft_ctx_fail(
            s->ctx, WEFT_ERR_ARGUMENT,
            "tensor %d is ready, expected one of 0 to %d that is not yet", i,
            s->n_tensors - 1);
    s->ready[i] = true;
    int b = r->arrangement->bucket_of[i];
    bool at_once = r->apply_in_exchange || r->clip_after_exchange;
    return --s->missing[b] == 0 && at_once ? wefti_rank_submit(r, b) : WEFT_OK;
}

/* Reads the votes of the steps up to `last`. */
static weft_status count_votes(weft_sync *s, int64_t last, weft_sync_report *report) {
    for (; s->counted <= last; s->counted++) {
        wefti_vote agreed;
        WEFT_TRY(wefti_rank_count_votes(s->rank, s->counted, &agreed));
        wefti_rank_control(s->rank, s->counted, &agreed);
        report->loss = agreed.loss_sum / s->job->W;
        report->loss_step = s->counted + 1;
        if (agreed.failed > 0)
            return weft_ctx_fail(s->ctx, WEFT_ERR_NUMERIC,
                                 "the loss is not finite at step %lld",
                                 (long long)s->counted + 1);
    }
    return WEFT_OK;
}

weft_status weft_sync_step(weft_sync *s, double loss, weft_sync_report *report) {
    wefti_rank *r = s->rank;
    wefti_tally tally;
    *report = (weft_sync_report){.loss = NAN};
    WEFT_TRY(check_under_way(s));
    for (int i = s->n_tensors - 1; i >= 0; i--)
        if (!s->ready[i]) WEFT_TRY(weft_sync_ready(s, i));
    r->vote.loss_sum = loss;
    WEFT_TRY(wefti_rank_close(r));
    WEFT_TRY(wefti_rank_settle(r, &tally));
    WEFT_TRY(count_votes(s, s->step - s->job->vote_lag, report));
    report->step = ++s->step;
    report->lr = (double)r->lr;
    report->wire_bytes_out = (int64_t)tally.wire_out;
    report->wait_s = tally.wait_s;
    return open_step(s);
}

weft_status weft_sync_average(weft_sync *s) {
    weft_sync_report report;
    bool over = s->begun && s->step == s->config->run.steps;
    if (!over)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "%lld of run.steps=%lld steps are done; the mean is taken "
                             "after the last one",
                             (long long)s->step, (long long)s->config->run.steps);
    WEFT_TRY(count_votes(s, s->step - 1, &report));
    return s->job->replicas_equal ? WEFT_OK : wefti_rank_average(s->rank);
}
