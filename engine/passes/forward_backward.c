/* SPDX-License-Identifier: MIT */
/* Units forward and backward over one micro-batch, as the schedule lists them:
 *
 *     for u in forward order:   gather u; forward u
 *     for u in backward order:  gather u; [forward u again]; backward u;
 *                               reduce u: its gradient -> shards
 *
 * With mesh.keep_whole, gathered units are kept until the parameters change. */
#include <math.h>
#include <stdatomic.h>

#include "adapter/adapted.h"
#include "base/clock.h"
#include "base/rng.h"
#include "model/model.h"
#include "passes/passes.h"
#include "passes/rowids.h"
#include "step/schedule.h"

static int n_units(const wefti_rank *r) { return r->arrangement->n_units; }

static int borrowed_unit(const wefti_rank *r, int u) {
    return r->job->model->units[u].borrows;
}

/* The place of unit u among the units in flight: see WEFTI_PLACES. */
static int place_of(const wefti_rank *r, int u) {
    return wefti_job_own_place(r->job, u) ? 1 : 0;
}

static float *shard_of(const wefti_rank *r, float *flat, int u) {
    return flat + r->arrangement->unit_offset[u];
}

static double start_clock(const wefti_rank *r) {
    return r->passes.clock ? wefti_now_s() : 0;
}

/* Parameters of unit u in full, gathered if S > 1. Collective over the shard group. */
static weft_status gather_unit(wefti_rank *r, int u, const float **params) {
    const float *shard = shard_of(r, r->params, u);
    *params = shard;
    if (r->job->S == 1 || r->job->model->units[u].n_elements == 0) return WEFT_OK;
    int place = place_of(r, u);
    wefti_kept *kept = r->passes.kept ? &r->passes.kept[u] : NULL;
    float *full = kept ? kept->buffer : r->passes.gathered.buffer[place];
    *params = full;
    if (kept ? kept->valid : r->passes.gathered.unit[place] == u) return WEFT_OK;
    if (kept) kept->valid = true;
    r->passes.gathered.unit[place] = u;
    double start_s = start_clock(r);
    WEFT_TRY(wefti_shard_gather(&r->arrangement->layouts[u], r->comms.shard,
                                r->now.n_shard_messages++, shard, full));
    if (r->passes.clock) r->passes.clock->shard_s += wefti_now_s() - start_s;
    return WEFT_OK;
}

/* Whether a backward begins gradients: the first of a step (S = 1: the micro-batches add up in
 * the shard itself), or each one (S > 1). */
static bool begins(const wefti_rank *r) { return r->job->S > 1 || r->batch.micro == 0; }

/* Whether it stores what products make of them, which need not be cleared then. */
static bool stores(const wefti_rank *r) { return begins(r) && !r->job->model->adapted; }

/* Where the full gradient of unit u is accumulated. Before the first addition it is cleared. */
static float *gradient_of(wefti_rank *r, int u) {
    int place = place_of(r, u);
    const wefti_unit *unit = &r->job->model->units[u];
    bool begun = r->passes.gradients.unit[place] == u;
    r->passes.gradients.unit[place] = u;
    float *grads = r->job->S == 1 ? shard_of(r, r->grads, u)
                                  : r->passes.gradients.buffer[place];
    if (begun || !begins(r) || unit->n_elements == 0) return grads; /* 0: frozen */
    if (stores(r))
        wefti_unit_clear(unit, r->job->kernels, grads);
    else
        r->job->kernels->clear(unit->n_elements, grads);
    return grads;
}

static weft_status make_pass(wefti_rank *r, int u, bool training, wefti_pass *pass) {
    const wefti_job *job = r->job;
    *pass = (wefti_pass){.kernels = job->pass_kernels,
                         .B = r->batch.pass_rows,
                         .T = job->T,
                         .training = training,
                         .seed = (uint64_t)job->config->run.seed,
                         .step = (uint64_t)r->step,
                         .row = (uint64_t)r->batch.row,
                         .tokens = r->batch.tokens,
                         .targets = r->batch.targets,
                         .dy = r->passes.dy,
                         .saved = r->passes.saved[u],
                         .scratch = r->passes.scratch};
    wefti_comm_note(r->comms.control, r->step, job->model->units[u].name);
    if (u > 0) pass->x = r->passes.outputs[u - 1];
    if (u < n_units(r) - 1) pass->y = r->passes.outputs[u];
    WEFT_TRY(gather_unit(r, u, &pass->params));
    int borrowed = borrowed_unit(r, u);
    return borrowed < 0 ? WEFT_OK : gather_unit(r, borrowed, &pass->borrowed);
}

/* --- the ops --- */

/* Counts the targets of all rows of the replica in this optimizer step, its ranks' from `begin` on.
 * The gradient is divided by this number, on every rank and however the rows are divided into
 * passes. */
static void count_targets(wefti_rank *r, int64_t begin) {
    const wefti_job *job = r->job;
    int64_t rows = r->batch.inner * job->S;
    int64_t first = wefti_rank_first_row(r, r->step) +
                    wefti_job_rows_before(job, r->replica * job->S) + begin;
    if (job->dataset)
        r->batch.counted = weft_dataset_train_targets(job->dataset, first, rows);
    else
        r->batch.counted = rows * wefti_model_row_targets(job->model, job->T);
}

/* Generates rows where there is no data (benchmarks): full rows of random tokens or
 * pixels. */
static void make_rows(wefti_rank *r) {
    const wefti_job *job = r->job;
    uint64_t vocab = (uint64_t)job->model->config.vocab, pair[2];
    uint64_t ids = job->model->ops->input == WEFTI_INPUT_IMAGES ? 256 : vocab;
    int64_t n_tokens = r->batch.pass_rows * wefti_model_row_tokens(job->model, job->T);
    int64_t n_targets = r->batch.pass_rows * wefti_model_row_targets(job->model, job->T);
    for (int64_t i = 0; i < n_tokens || i < n_targets; i++) {
        wefti_rng_pair((uint64_t)r->batch.row, WEFTI_STREAM_TEST, 0, (uint64_t)i, pair);
        if (i < n_tokens) r->batch.tokens[i] = (int32_t)(pair[0] % ids);
        if (i < n_targets) r->batch.targets[i] = (int32_t)(pair[1] % vocab);
    }
}

static weft_status load_op(wefti_rank *r, const wefti_op *op) {
    const wefti_job *job = r->job;
    int64_t all = wefti_job_rows(job, r->replica);
    int64_t n = wefti_job_passes(job, r->replica), begin = all * op->index / n;
    int64_t per_inner = n / wefti_job_inner_steps(job, r->replica);
    r->batch.micro = op->index % per_inner;
    r->batch.pass_rows = all * (op->index + 1) / n - begin;
    r->batch.row = wefti_rank_first_row(r, r->step) +
                   wefti_job_rows_before(job, r->rank) + begin;
    if (r->batch.micro == 0) {
        r->batch.inner = all * (op->index + per_inner) / n - begin;
        count_targets(r, begin);
    }
    if (job->dataset)
        weft_dataset_train_rows(job->dataset, r->batch.row, r->batch.pass_rows,
                                r->batch.tokens, r->batch.targets);
    else
        make_rows(r);
    if (!job->dataset) return WEFT_OK;
    const wefti_row_ids rows = {r->batch.row, r->batch.pass_rows, job->T,
                                job->model->config.vocab};
    return wefti_row_ids_check(r->ctx, job->dataset, &rows, r->batch.tokens,
                               r->batch.targets);
}

static weft_status gather_op(wefti_rank *r, const wefti_op *op) {
    const float *params;
    return gather_unit(r, op->index, &params);
}

static weft_status forward(wefti_rank *r, int u, bool training) {
    const weft_model *model = r->job->model;
    wefti_pass pass;
    WEFT_TRY(make_pass(r, u, training, &pass));
    double start_s = start_clock(r);
    model->ops->forward(model, u, &pass);
    if (r->passes.clock) r->passes.clock->forward_s[u] += wefti_now_s() - start_s;
    return WEFT_OK;
}

static weft_status forward_op(wefti_rank *r, const wefti_op *op) {
    return forward(r, op->index, true);
}

weft_status wefti_rank_loss(wefti_rank *r, double *loss_sum, double *hits) {
    const weft_model *model = r->job->model;
    int head = n_units(r) - 1;
    wefti_pass pass;
    r->batch.row = 0;
    r->batch.pass_rows = wefti_rank_micro(r);
    for (int u = 0; u < head; u++) WEFT_TRY(forward(r, u, false));
    WEFT_TRY(make_pass(r, head, false, &pass));
    pass.loss_sum = loss_sum;
    pass.hits = hits;
    model->ops->forward(model, head, &pass);
    return WEFT_OK;
}

/* Positions of a replica's rows in an optimizer step. Losses are reported as if each position were
 * a target, so that their mean over the replicas is a mean of means. */
static int64_t positions_of(const wefti_rank *r) {
    return r->batch.inner * r->job->S * r->job->T;
}

static weft_status backward_op(wefti_rank *r, const wefti_op *op) {
    const weft_model *model = r->job->model;
    int u = op->index, borrowed = borrowed_unit(r, u);
    wefti_pass pass;
    WEFT_TRY(make_pass(r, u, true, &pass));
    double start_s = start_clock(r);
    if (r->job->run.recomputes && pass.y) model->ops->forward(model, u, &pass);
    pass.grads = gradient_of(r, u);
    if (borrowed >= 0) pass.borrowed_grads = gradient_of(r, borrowed);
    pass.fresh = stores(r);
    pass.grad_scale = (float)(r->shares.weight / (double)r->batch.counted);
    double loss = 0;
    bool all = r->batch.counted == positions_of(r);
    pass.loss_sum = all ? &r->now.status.loss_sum : &loss;
    model->ops->backward(model, u, &pass);
    r->now.status.loss_sum += loss * ((double)positions_of(r) / (double)r->batch.counted);
    if (!isfinite(r->now.status.loss_sum)) atomic_store(&r->now.lost_loss, true);
    if (r->passes.clock) r->passes.clock->backward_s[u] += wefti_now_s() - start_s;
    r->passes.gradients.unit[place_of(r, u)] = -1; /* complete for this micro-batch */
    wefti_rank_pace(r, op->share);
    return WEFT_OK;
}

static weft_status reduce_op(wefti_rank *r, const wefti_op *op) {
    const wefti_arrangement *a = r->arrangement;
    int u = op->index;
    if (r->job->model->units[u].n_elements == 0) return WEFT_OK; /* frozen */
    double start_s = start_clock(r);
    WEFT_TRY(wefti_shard_reduce(
        &a->layouts[u], r->comms.shard, r->now.n_shard_messages++, r->job->kernels,
        r->passes.gradients.buffer[place_of(r, u)], r->batch.micro > 0, r->passes.staging,
        shard_of(r, r->grads, u)));
    if (r->passes.clock) r->passes.clock->shard_s += wefti_now_s() - start_s;
    return WEFT_OK;
}

const wefti_passes wefti_passes_here = {load_op, gather_op, forward_op, backward_op,
                                        reduce_op};

/* Initial values are a function of (seed, tensor, row), so every sharding gives the same
 * ones. */
void wefti_rank_init_params(wefti_rank *r) {
    const wefti_arrangement *a = r->arrangement;
    uint64_t seed = (uint64_t)r->job->config->run.seed;
    for (int u = 0; u < a->n_units; u++) {
        for (int t = 0; t < a->layouts[u].n_tensors; t++) {
            wefti_block block = wefti_layout_block(&a->layouts[u], r->local, t);
            wefti_model_init_rows(r->job->model, seed, u, t, block.row_begin,
                                  block.n_rows,
                                  r->params + a->unit_offset[u] + block.shard_offset);
        }
    }
}
