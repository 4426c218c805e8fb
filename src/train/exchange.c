/* SPDX-License-Identifier: MIT */
/* The exchange thread of a rank. A bucket passes, in this order,
 *
 *     replicator: begin, combine, end        site replicator: the same
 *     apply: mixer before -> optimizer -> mixer after           mixer finish
 *
 * each of them one phase (comm/worker.h); a phase that a method lacks is left out. With
 * clipping of what the nodes agreed on, the last two wait for the compute thread
 * (step.c). Ahead of the buckets of a step go jobs for the mixer's turn, one for each
 * bucket, which has the place of combine in them. */
#include "train/rank.h"

static void prepare(void *rank) {
    (void)rank;
    wefti_kernels_set_threads(1);
}

static float *grads_of(wefti_rank *r, int64_t bucket) {
    return r->grads + r->arrangement->bucket_offset[bucket];
}

static float *params_of(wefti_rank *r, int64_t bucket) {
    return r->params + r->arrangement->bucket_offset[bucket];
}

/* What the job is: a bucket, or number n_buckets + b for the mixer's turn of bucket b. */
static bool is_turn(const wefti_rank *r, int64_t job) {
    return job >= r->arrangement->n_buckets;
}

static weft_status turn(wefti_rank *r, int64_t job) {
    return wefti_mixer_turn(r->mixer, (int)job - r->arrangement->n_buckets, r->step);
}

static weft_status do_begin(void *rank, int64_t bucket) {
    wefti_rank *r = rank;
    int b = (int)bucket;
    if (is_turn(r, bucket)) return WEFT_OK;
    float *grad = grads_of(r, b);
    int64_t n = r->arrangement->buckets[b].n_elements;
    bool scaled = !r->clip_after_exchange && r->grad_scale != 1;
    if (scaled) r->job->kernels->scale(n, r->grad_scale, grad);
    bool local_norm = r->apply_in_exchange && !r->clip_after_exchange;
    if (local_norm) r->squares[b] = r->job->kernels->sum_squares(n, grad);
    return wefti_replicator_begin(r->replicator, b, r->step, r->lr, grad);
}

static weft_status do_combine(void *rank, int64_t bucket) {
    wefti_rank *r = rank;
    if (is_turn(r, bucket)) return turn(r, bucket);
    return wefti_replicator_combine(r->replicator, (int)bucket, r->step,
                                    grads_of(r, bucket));
}

static weft_status do_end(void *rank, int64_t bucket) {
    wefti_rank *r = rank;
    if (is_turn(r, bucket)) return WEFT_OK;
    float *grad = grads_of(r, bucket);
    WEFT_TRY(wefti_replicator_end(r->replicator, (int)bucket, r->step, grad));
    if (!r->site_replicator) return WEFT_OK;
    return wefti_replicator_begin(r->site_replicator, (int)bucket, r->step, r->lr, grad);
}

static weft_status do_combine_sites(void *rank, int64_t bucket) {
    wefti_rank *r = rank;
    if (is_turn(r, bucket)) return WEFT_OK;
    return wefti_replicator_combine(r->site_replicator, (int)bucket, r->step,
                                    grads_of(r, bucket));
}

static weft_status do_end_sites(void *rank, int64_t bucket) {
    wefti_rank *r = rank;
    if (is_turn(r, bucket)) return WEFT_OK;
    return wefti_replicator_end(r->site_replicator, (int)bucket, r->step,
                                grads_of(r, bucket));
}

static weft_status do_apply(void *rank, int64_t bucket) {
    wefti_rank *r = rank;
    int b = (int)bucket;
    if (is_turn(r, bucket)) return WEFT_OK;
    int64_t n = r->arrangement->buckets[b].n_elements;
    bool agreed_norm = r->apply_in_exchange && r->clip_after_exchange;
    if (agreed_norm) r->squares[b] = r->job->kernels->sum_squares(n, grads_of(r, b));
    if (!r->apply_in_exchange && r->clip_after_exchange) return WEFT_OK;
    return wefti_exchange_apply(r, b);
}

static weft_status do_finish(void *rank, int64_t bucket) {
    wefti_rank *r = rank;
    if (is_turn(r, bucket)) return WEFT_OK;
    if (!r->apply_in_exchange && r->clip_after_exchange) return WEFT_OK;
    return wefti_mixer_finish(r->mixer, (int)bucket, r->step, params_of(r, bucket));
}

/* The phases as the timeline sees them; the mixer's turn has the name of its phase. */
static weft_status noted(wefti_rank *r, int64_t job, wefti_phase phase,
                         const char *what) {
    double begun_s = wefti_timeline_now(r->timeline);
    int n = r->arrangement->n_buckets;
    WEFT_TRY(phase(r, job));
    wefti_timeline_put(r->timeline, WEFTI_TIMELINE_EXCHANGE, (int)job % n, what, begun_s);
    return WEFT_OK;
}

static weft_status begin(void *rank, int64_t job) {
    return noted(rank, job, do_begin, "begin");
}

static weft_status combine(void *rank, int64_t job) {
    return noted(rank, job, do_combine, "combine");
}

static weft_status end(void *rank, int64_t job) {
    return noted(rank, job, do_end, "end");
}

static weft_status combine_sites(void *rank, int64_t job) {
    return noted(rank, job, do_combine_sites, "combine");
}

static weft_status end_sites(void *rank, int64_t job) {
    return noted(rank, job, do_end_sites, "end");
}

static weft_status apply(void *rank, int64_t job) {
    return noted(rank, job, do_apply, "apply");
}

static weft_status finish(void *rank, int64_t job) {
    return noted(rank, job, do_finish, "finish");
}

weft_status wefti_exchange_create(wefti_rank *r) {
    wefti_phase phases[WEFTI_MAX_PHASES];
    int n = 0;
    phases[n++] = begin;
    phases[n++] = combine;
    phases[n++] = end;
    if (r->site_replicator) {
        phases[n++] = combine_sites;
        phases[n++] = end_sites;
    }
    phases[n++] = apply;
    if (!r->job->replicas_equal) phases[n++] = finish;
    wefti_worker_config config = {.capacity = 2 * r->arrangement->n_buckets,
                                  .phases = phases,
                                  .n_phases = n,
                                  .order = r->job->sites > 1 ? WEFTI_ORDER_BY_JOB
                                                             : WEFTI_ORDER_BY_PHASE,
                                  .prepare = prepare,
                                  .user = r};
    return wefti_worker_create(r->ctx, &config, &r->worker);
}

void wefti_exchange_turn(wefti_rank *r) {
    int n = r->arrangement->n_buckets;
    for (int b = 0; b < n && r->mixer->ops->turn; b++)
        r->last_ticket = wefti_worker_submit(r->worker, n + b);
}

/* How the optimizer is told to treat a piece. */
typedef struct treatment {
    wefti_optimizer_config config;
    wefti_optimizer_step step;
    bool decays;
} treatment;

static treatment treat(const wefti_rank *r, const wefti_piece *piece,
                       const wefti_cover *cover) {
    treatment t = {r->job->optimizer_config,
                   {.count = cover->count, .lr = r->lr, .grad_scale = 1},
                   piece->decays};
    if (r->clip_after_exchange) t.step.grad_scale = r->grad_scale;
    if (!r->rules) return t;
    const wefti_rule *rule = &r->rules[piece->tensor];
    t.step.lr *= (float)rule->lr_scale;
    t.config.weight_decay = rule->weight_decay;
    t.decays = rule->weight_decay != 0;
    return t;
}

/* The optimizer on one run of a piece's elements. */
static void optimize(wefti_rank *r, const treatment *t, int64_t begin, int64_t n,
                     double *moved) {
    const wefti_job *job = r->job;
    wefti_span span = {begin, n, t->decays};
    job->optimizer->apply(&t->config, job->kernels, &t->step, &span, r->grads, r->params,
                          r->state, moved);
}

/* The optimizer on what the direction covers of a piece. */
static void optimize_piece(wefti_rank *r, int bucket, int index, double *moved) {
    const wefti_piece *piece = &r->arrangement->buckets[bucket].pieces[index];
    const wefti_replicator *last = r->site_replicator ? r->site_replicator
                                                      : r->replicator;
    wefti_cover cover = wefti_replicator_cover(last, bucket, index, r->step);
    treatment t = treat(r, piece, &cover);
    int64_t base = r->arrangement->bucket_offset[bucket] + piece->offset;
    if (cover.all) optimize(r, &t, base, piece->rows * piece->cols, moved);
    for (int64_t i = 0; i < cover.n_runs && !cover.all; i++)
        optimize(r, &t, base + cover.runs[i].begin, cover.runs[i].n, moved);
}

weft_status wefti_exchange_apply(wefti_rank *r, int bucket) {
    float *params = params_of(r, bucket);
    double moved = 0;
    WEFT_TRY(wefti_mixer_before(r->mixer, bucket, r->step, params));
    for (int i = 0; i < r->arrangement->buckets[bucket].n_pieces; i++)
        optimize_piece(r, bucket, i, &moved);
    r->moved[bucket] = moved;
    return wefti_mixer_after(r->mixer, bucket, r->step, params);
}
