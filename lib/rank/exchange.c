/* SPDX-License-Identifier: MIT */
/* The exchange thread of a rank. A bucket passes the phases of the schedule
 * (step/schedule.h), in this order,
 *
 *     replicator: begin, combine, end        site replicator: the same
 *     apply: mixer before, direct -> optimizer -> mixer after   mixer finish
 *
 * Before the buckets of a step the thread runs one item per bucket for the mixer's
 * answer; such an item does its work in the place of combine. */
#include "comm/worker.h"
#include "mix/mixer.h"
#include "optim/matrices.h"
#include "rank/rank.h"

#include "base/assert.h"
#include "replicate/replicator.h"
#include "step/schedule.h"
static void prepare(void *rank) {
    (void)rank;
    wefti_kernels_set_threads(1);
}

static float *grads_of(wefti_rank *r, int bucket) {
    return r->grads + r->arrangement->bucket_offset[bucket];
}

static float *params_of(wefti_rank *r, int bucket) {
    return r->params + r->arrangement->bucket_offset[bucket];
}

/* What a phase does to the gradient before its own work. */
static weft_status prepare_gradient(wefti_rank *r, const wefti_phase *phase, int b) {
    int64_t n = r->arrangement->buckets[b].n_elements;
    float *grad = grads_of(r, b);
    if (phase->scales && r->now.grad_scale != 1)
        r->job->kernels->scale(n, r->now.grad_scale, grad);
    if (!phase->measures) return WEFT_OK;
    r->exchange.squares[b] = r->job->kernels->sum_squares(n, grad);
    return wefti_rank_check_finite(r, b, grad, r->exchange.squares[b]);
}

static weft_status begin(wefti_rank *r, int b) {
    return wefti_replicator_begin(r->replicator, b, r->step, r->now.lr, grads_of(r, b));
}

static weft_status combine(wefti_rank *r, int b) {
    return wefti_replicator_combine(r->replicator, b, r->step, grads_of(r, b));
}

static weft_status end(wefti_rank *r, int b) {
    float *grad = grads_of(r, b);
    WEFT_TRY(wefti_replicator_end(r->replicator, b, r->step, grad));
    if (wefti_job_has_sites(r->job))
        WEFT_TRY(wefti_comm_agree(r->comms.replica, wefti_comm_tag(r->step, b, 0)));
    if (!r->site_replicator) return WEFT_OK;
    return wefti_replicator_begin(r->site_replicator, b, r->step, r->now.lr, grad);
}

static weft_status combine_sites(wefti_rank *r, int b) {
    return wefti_replicator_combine(r->site_replicator, b, r->step, grads_of(r, b));
}

static weft_status end_sites(wefti_rank *r, int b) {
    return wefti_replicator_end(r->site_replicator, b, r->step, grads_of(r, b));
}

static weft_status finish(wefti_rank *r, int b) {
    return wefti_mixer_finish(r->mixer, b, r->step, params_of(r, b));
}

static weft_status (*const act[WEFTI_PHASE_KINDS])(wefti_rank *r, int bucket) = {
    [WEFTI_PHASE_BEGIN] = begin,
    [WEFTI_PHASE_COMBINE] = combine,
    [WEFTI_PHASE_END] = end,
    [WEFTI_PHASE_COMBINE_SITES] = combine_sites,
    [WEFTI_PHASE_END_SITES] = end_sites,
    [WEFTI_PHASE_APPLY] = wefti_exchange_apply,
    [WEFTI_PHASE_FINISH] = finish,
};

static weft_status run_phase(void *rank, int number, int64_t item) {
    wefti_rank *r = rank;
    const wefti_phase *phase = &r->schedule->phases[number];
    const char *name = wefti_schedule_phase_name(r->schedule, number, item);
    int b = wefti_schedule_bucket(r->schedule, item);
    WEFTI_ASSERT(b >= 0 && b < r->schedule->n_buckets);
    WEFTI_ASSERT(number >= 0 && number < r->schedule->n_phases);
    if (!name) return WEFT_OK;
    double begun_s = wefti_timeline_now(r->timeline);
    if (wefti_schedule_is_answer(r->schedule, item)) {
        if (!r->job->run.weighs) WEFT_TRY(wefti_mixer_answer(r->mixer, b, r->step));
    } else {
        WEFT_TRY(prepare_gradient(r, phase, b));
        WEFT_TRY(act[phase->kind](r, b));
    }
    wefti_timeline_put(r->timeline, WEFTI_TIMELINE_EXCHANGE, b, name, begun_s);
    return WEFT_OK;
}

weft_status wefti_exchange_create(wefti_rank *r) {
    wefti_worker_config config = {.capacity = 2 * r->schedule->n_buckets,
                                  .n_phases = r->schedule->n_phases,
                                  .order = r->schedule->order,
                                  .prepare = prepare,
                                  .run = run_phase,
                                  .user = r};
    return wefti_worker_create(r->ctx, &config, &r->exchange.worker);
}

/* What the agreed direction covers of a piece; *step: the optimizer step along it. */
static wefti_cover cover_of(const wefti_rank *r, int bucket, int index,
                            wefti_optimizer_step *step) {
    const wefti_replicator *last = r->site_replicator ? r->site_replicator
                                                      : r->replicator;
    wefti_cover cover = wefti_replicator_cover(last, bucket, index, r->step);
    *step = (wefti_optimizer_step){
        .count = cover.count, .lr = r->now.lr, .grad_scale = 1};
    bool scaled = r->mixer->ops->direct; /* by direct below */
    if (r->schedule->clip == WEFTI_CLIP_AGREED && !scaled)
        step->grad_scale = r->now.grad_scale;
    return cover;
}

/* The optimizer on one run of a piece's elements. */
static void optimize(wefti_rank *r, const wefti_optimizer_rule *rule,
                     const wefti_optimizer_step *step, int64_t begin, int64_t n,
                     double *moved) {
    wefti_span span = {begin, n, true};
    rule->ops->apply(&rule->config, r->job->kernels, step, &span, r->grads, r->params,
                     r->optimizer.state, moved);
}

/* A learner has no gradient of its own, nor has who had no rows (weft_sync_weigh). Where each
 * replica follows its own gradient, they make no optimizer step. */
static bool stands_still(const wefti_rank *r) {
    return !r->job->replicas_equal && (wefti_rank_is_learner(r) || r->shares.weight == 0);
}

/* Runs the optimizer on the part of a piece that the direction covers. */
static void optimize_piece(wefti_rank *r, int bucket, int index, double *moved) {
    const wefti_piece *piece = &r->arrangement->buckets[bucket].pieces[index];
    const wefti_optimizer_rule *rule = &r->job->optimizer.rules[piece->tensor];
    wefti_optimizer_step step;
    if (wefti_job_moves_whole(r->job, piece->tensor)) return;
    wefti_cover cover = cover_of(r, bucket, index, &step);
    if (rule->lr != 1) step.lr = (float)(rule->lr * (double)step.lr);
    int64_t base = r->arrangement->bucket_offset[bucket] + piece->offset;
    if (cover.all) optimize(r, rule, &step, base, piece->rows * piece->cols, moved);
    for (int64_t i = 0; i < cover.n_runs && !cover.all; i++)
        optimize(r, rule, &step, base + cover.runs[i].begin, cover.runs[i].n, moved);
}

/* Runs optimizers that need whole matrices; the replicators that go with them cover all
 * of a bucket or nothing. */
static weft_status optimize_matrices(wefti_rank *r, int bucket, double *moved) {
    wefti_optimizer_step step;
    if (!r->optimizer.matrices || !cover_of(r, bucket, 0, &step).all) return WEFT_OK;
    wefti_matrices_step all = {r->step, step, r->grads, r->params, r->optimizer.state[0]};
    return wefti_matrices_apply(r->optimizer.matrices, bucket, &all, moved);
}

weft_status wefti_exchange_optimize(wefti_rank *r, int bucket) {
    double moved = 0;
    bool moves = !stands_still(r);
    for (int i = 0; i < r->arrangement->buckets[bucket].n_pieces && moves; i++)
        optimize_piece(r, bucket, i, &moved);
    if (moves) WEFT_TRY(optimize_matrices(r, bucket, &moved));
    r->exchange.moved[bucket] = moved;
    return wefti_rank_check_finite(r, bucket, params_of(r, bucket), moved);
}

/* What others learn of a gradient is what clipping has left of it. */
static weft_status direct(wefti_rank *r, int bucket) {
    float *grad = grads_of(r, bucket);
    if (!r->mixer->ops->direct) return WEFT_OK;
    if (r->schedule->clip == WEFTI_CLIP_AGREED && r->now.grad_scale != 1)
        r->job->kernels->scale(r->arrangement->buckets[bucket].n_elements,
                               r->now.grad_scale, grad);
    return wefti_mixer_direct(r->mixer, bucket, r->step, grad);
}

weft_status wefti_exchange_apply(wefti_rank *r, int bucket) {
    float *params = params_of(r, bucket);
    WEFT_TRY(wefti_mixer_before(r->mixer, bucket, r->step, params));
    WEFT_TRY(direct(r, bucket));
    WEFT_TRY(wefti_exchange_optimize(r, bucket));
    return wefti_mixer_after(r->mixer, bucket, r->step, params);
}
