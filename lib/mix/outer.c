/* SPDX-License-Identifier: MIT */
/* DiLoCo (arXiv 2311.08105) and Streaming DiLoCo (2501.18512). theta_i: replica i's
 * parameters; s and v: the same on all replicas. Every H steps, for each bucket:
 *
 *     x_i <- w_i (s - theta_i) + b e_i   its change, and what coding lost of earlier ones
 *     q_i <- code(x_i)                   e_i <- x_i - q_i
 *     d <- code(a), a = mean_i q_i       e_j <- e_j + R (a - d), j the rank that adds
 *     v <- mu v + d;  s <- s - eta (d + mu v)
 *     theta_i <- merge theta_i + (1 - merge) s
 *
 * w_i is 1, or wefti_comm.weights; b is mixer.feedback, 1 - config.forget. d comes from an
 * all-reduce in two rounds (collectives/all_reduce.h), whose times are in outerschedule.h.
 *
 * With a delay, x is kept (state "pending", NaN while nothing is in flight), so that a
 * resumed run can send the same once more.
 *
 * With delay 0 both rounds are in one step: finish() of a bucket answers, then waits for
 * the others' answers, which they send in their finish() of the same bucket before they
 * wait. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/memory.h"
#include "mix/mixer.h"
#include "mix/outerschedule.h"
#include "collectives/all_reduce.h"

enum { START, VELOCITY, OWN_DRAWS = 0x6f757465 };

typedef struct outer {
    int error, pending; /* indices of these state arrays; -1: not used */
    wefti_all_reduce *reduce;
    float *x;           /* [all buckets' elements] what is sent, then the mean; NULL if
                           "pending" itself is sent */
    float *lost;        /* the same, where the caller holds "error" and coding loses */
    int64_t *under_way; /* [n_buckets] start of the exchange in flight, or -1 */
    double *sent_s;     /* [n_buckets] when its last message was sent */
} outer;

static int64_t start_of(const wefti_mixer *m, int bucket, int64_t step) {
    wefti_outer_part part = {bucket, m->n_buckets};
    return wefti_outer_start(&m->config, part, step);
}

static wefti_coding coding_of(const wefti_mixer_config *config) {
    return (wefti_coding){.values = config->values,
                          .stochastic = config->stochastic,
                          .seed = config->seed ^ OWN_DRAWS,
                          .threads = 1,
                          .robust = config->robust};
}

static bool loses(const wefti_mixer_config *config) {
    wefti_coding coding = coding_of(config);
    return wefti_coding_loses(&coding);
}

/* Whether x needs memory of its own: there is no "pending", or it is the caller's, or coding
 * changes x while "pending" must stay as it is. */
static bool has_own_x(const wefti_mixer_config *config) {
    return config->delay == 0 || loses(config) || config->held;
}

/* --- before creation --- */

static const char *const *outer_states(const wefti_mixer_config *config) {
    static const char *const names[2][2][5] = {
        {{"start", "velocity", NULL}, {"start", "velocity", "pending", NULL}},
        {{"start", "velocity", "error", NULL},
         {"start", "velocity", "error", "pending", NULL}}};
    return names[loses(config)][config->delay > 0];
}

/* With delay 0 everything is in one step; else the answer is sent half-way. */
static int outer_acts(const wefti_mixer_config *config, const wefti_mixer_question *q,
                      wefti_mixer_act acts[WEFTI_MIXER_ACTS]) {
    wefti_outer_part part = {q->number, q->n_buckets};
    int64_t start = wefti_outer_start(config, part, q->step), delay = config->delay;
    wefti_mixer_phase answering = delay == 0 ? WEFTI_MIXER_FINISH : WEFTI_MIXER_AFTER;
    int n = 0;
    if (start < 0) return 0;
    if (q->step == start)
        acts[n++] = (wefti_mixer_act){WEFTI_MIXER_AFTER, true, start, 0};
    if (q->step == wefti_outer_answer_step(config, start)) {
        acts[n++] = (wefti_mixer_act){answering, false, start, 0};
        acts[n++] = (wefti_mixer_act){answering, true, start, 1};
    }
    if (q->step == start + delay)
        acts[n++] = (wefti_mixer_act){WEFTI_MIXER_FINISH, false, start, 1};
    return n;
}

static void outer_messages(const wefti_mixer_config *config,
                           const wefti_mixer_question *q, const wefti_mixer_act *act,
                           wefti_mixer_visit visit, void *user) {
    wefti_coding coding = coding_of(config);
    for (int k = act->sends ? 1 : 0; k < q->R; k++) {
        int peer = act->sends ? (q->from + k) % q->R : k;
        bool about_me = act->sends == (act->round == 1);
        if (peer != q->from)
            visit(user, peer,
                  wefti_all_reduce_round_bytes(&coding, q->bucket->n_elements, q->R,
                                               act->round, about_me ? q->from : peer));
    }
}

static int64_t outer_work_bytes(const wefti_mixer_config *config,
                                const wefti_bucket *buckets, int n_buckets, int R) {
    wefti_coding coding = coding_of(config);
    int64_t n = 0, n_bytes = wefti_all_reduce_room_bytes(&coding, R);
    for (int b = 0; b < n_buckets; b++) {
        n += buckets[b].n_elements;
        n_bytes += wefti_all_reduce_work_bytes(&coding, buckets[b].n_elements, R);
    }
    return n_bytes + (has_own_x(config) ? wefti_alloc_n_cost(n, sizeof(float)) : 0);
}

static bool outer_agrees(const wefti_mixer_config *config, int64_t step) {
    return config->fragments == 1 && config->delay == 0 && config->merge == 0 &&
           wefti_outer_start(config, (wefti_outer_part){0, 1}, step) == step;
}

/* --- creation --- */

static weft_status check_knobs(weft_ctx *ctx, const wefti_mixer_config *c) {
    WEFT_TRY(wefti_outer_check(ctx, c));
    if (c->outer_momentum >= 0 && c->outer_momentum < 1) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "mixer.outer_momentum is %g, expected 0 to below 1",
                         c->outer_momentum);
}

static void warn_of_few_buckets(const wefti_mixer *m) {
    if (m->n_buckets >= m->config.fragments || m->comm->rank > 0) return;
    weft_ctx_log(m->ctx, WEFT_LOG_WARN,
                 "mixer.fragments is %lld, but the model is cut into %d buckets: there "
                 "are %lld fragments; a smaller mesh.min_message gives more",
                 (long long)m->config.fragments, m->n_buckets,
                 (long long)wefti_outer_fragments(&m->config, m->n_buckets));
}

static weft_status make_reduce(wefti_mixer *m, wefti_all_reduce **out) {
    wefti_all_reduce_setup setup = {.ctx = m->ctx,
                                    .kernels = m->kernels,
                                    .comm = m->comm,
                                    .coding = coding_of(&m->config),
                                    .stage = WEFTI_MIXER_STAGE,
                                    .n_vectors = m->n_buckets};
    WEFT_TRY(wefti_all_reduce_create(&setup, out));
    for (int b = 0; b < m->n_buckets; b++)
        WEFT_TRY(wefti_all_reduce_open(*out, b, m->buckets[b].n_elements));
    return WEFT_OK;
}

static weft_status outer_create(wefti_mixer *m) {
    outer *self;
    WEFT_TRY(check_knobs(m->ctx, &m->config));
    WEFT_TRY(wefti_alloc(m->ctx, sizeof *self, "the outer mixer", &self));
    m->self = self;
    bool held = m->config.held;
    self->error = loses(&m->config) && !held ? VELOCITY + 1 : -1;
    self->pending = m->config.delay > 0 && !held ? m->n_states - 1 : -1;
    int last = m->n_buckets - 1;
    int64_t n = m->bucket_at[last] + m->buckets[last].n_elements;
    if (has_own_x(&m->config))
        WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(float), "outer changes", &self->x));
    if (held && loses(&m->config))
        WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(float), "outer losses", &self->lost));
    WEFT_TRY(wefti_alloc_n(m->ctx, m->n_buckets, sizeof(int64_t), "outer steps",
                           &self->under_way));
    WEFT_TRY(wefti_alloc_n(m->ctx, m->n_buckets, sizeof(double), "outer times",
                           &self->sent_s));
    for (int b = 0; b < m->n_buckets; b++) self->under_way[b] = -1;
    warn_of_few_buckets(m);
    return make_reduce(m, &self->reduce);
}

static void outer_destroy(wefti_mixer *m) {
    outer *self = m->self;
    if (!self) return;
    wefti_all_reduce_destroy(self->reduce);
    WEFTI_FREE(m->ctx, self->x, self->lost, self->under_way, self->sent_s, self);
}

/* --- one bucket --- */

/* The bucket's part of state array i; NULL if there is no such array. */
static float *part_of(const wefti_mixer *m, int i, int bucket) {
    return i < 0 ? NULL : wefti_mixer_state(m, i, bucket);
}

/* Where the vector that is sent lies. */
static float *x_of(const wefti_mixer *m, int bucket) {
    const outer *self = m->self;
    if (!self->x) return part_of(m, self->pending, bucket);
    return self->x + m->bucket_at[bucket];
}

/* Sends what the caller has coded. */
static weft_status ask_held(wefti_mixer *m, int bucket, int64_t exchange) {
    outer *self = m->self;
    const wefti_held_parcel *parcel;
    WEFT_TRY(wefti_mixer_handed(m, bucket, 0, &parcel));
    self->under_way[bucket] = exchange;
    self->sent_s[bucket] = wefti_now_s();
    return wefti_all_reduce_begin_coded(self->reduce, bucket, exchange, parcel->bytes,
                                        x_of(m, bucket));
}

static weft_status ask(wefti_mixer *m, int bucket, int64_t step, const float *params) {
    if (m->config.held) return ask_held(m, bucket, step);
    outer *self = m->self;
    const float *start = part_of(m, START, bucket);
    float *error = part_of(m, self->error, bucket), *x = x_of(m, bucket);
    float *pending = part_of(m, self->pending, bucket);
    int64_t n = m->buckets[bucket].n_elements;
    float keep = (float)(1 - m->config.forget);
    float weight = wefti_comm_weight(m->comm);
    for (int64_t i = 0; i < n; i++) x[i] = weight * (start[i] - params[i]);
    for (int64_t i = 0; i < n && error && keep < 1; i++) error[i] *= keep;
    for (int64_t i = 0; i < n && pending && error; i++) pending[i] = x[i] + error[i];
    WEFTI_ASSERT(self->under_way[bucket] < 0);
    self->under_way[bucket] = step;
    self->sent_s[bucket] = wefti_now_s();
    return wefti_all_reduce_begin(self->reduce, bucket, step, x, error);
}

/* x is needed for the mean, so the caller gets a copy. */
static void deliver_lost(wefti_mixer *m, int bucket, wefti_range range) {
    const outer *self = m->self;
    if (range.n == 0) return;
    float *lost = self->lost + m->bucket_at[bucket] + range.begin;
    memcpy(lost, x_of(m, bucket) + range.begin, (size_t)range.n * sizeof *lost);
    wefti_mixer_deliver(m,
                        &(wefti_held_parcel){.kind = WEFTI_HELD_LOST,
                                             .bucket = bucket,
                                             .first = range.begin,
                                             .n = range.n,
                                             .exchange = self->under_way[bucket],
                                             .n_bytes = range.n * (int64_t)sizeof *lost,
                                             .bytes = (const unsigned char *)lost});
}

static weft_status answer(wefti_mixer *m, int bucket) {
    outer *self = m->self;
    float *error = part_of(m, self->error, bucket), *x = x_of(m, bucket);
    wefti_range lost;
    WEFTI_ASSERT(self->under_way[bucket] >= 0);
    WEFT_TRY(wefti_all_reduce_combine(self->reduce, bucket, self->under_way[bucket], x,
                                      &lost));
    if (m->config.held) {
        deliver_lost(m, bucket, lost);
        return WEFT_OK;
    }
    for (int64_t i = lost.begin; i < lost.begin + lost.n; i++) error[i] += x[i];
    return WEFT_OK;
}

/* Repeats what an earlier process of the run sent: the first round and, if it was
 * answered, the answer. What coding lost is in "error" already. */
static weft_status repeat(wefti_mixer *m, int bucket, int64_t start, bool answered) {
    outer *self = m->self;
    float *x = x_of(m, bucket), *pending = part_of(m, self->pending, bucket);
    wefti_range lost;
    if (x != pending)
        memcpy(x, pending, (size_t)m->buckets[bucket].n_elements * sizeof *x);
    self->under_way[bucket] = start;
    self->sent_s[bucket] = wefti_now_s();
    WEFT_TRY(wefti_all_reduce_begin(self->reduce, bucket, start, x, NULL));
    if (!answered) return WEFT_OK;
    return wefti_all_reduce_combine(self->reduce, bucket, start, x, &lost);
}

static void mark_idle(const wefti_mixer *m, int bucket) {
    outer *self = m->self;
    float *pending = part_of(m, self->pending, bucket);
    int64_t n = m->buckets[bucket].n_elements;
    self->under_way[bucket] = -1;
    for (int64_t i = 0; i < n && pending; i++) pending[i] = NAN;
}

/* Whether all of "pending", which exists with a delay, is in flight. On another mesh the
 * buckets may be different ones, and some units of a bucket may be in flight and others
 * not. */
static bool is_pending(const wefti_mixer *m, int bucket) {
    const outer *self = m->self;
    const float *pending = part_of(m, self->pending, bucket);
    bool all = true;
    for (int64_t i = 0; i < m->buckets[bucket].n_elements; i++) all &= !isnan(pending[i]);
    return all;
}

static void outer_step(const wefti_mixer *m, int bucket, const float *d) {
    float mu = (float)m->config.outer_momentum, eta = (float)m->config.outer_lr;
    float *s = part_of(m, START, bucket), *v = part_of(m, VELOCITY, bucket);
    for (int64_t i = 0; i < m->buckets[bucket].n_elements; i++) {
        v[i] = mu * v[i] + d[i];
        s[i] -= eta * (d[i] + mu * v[i]);
    }
}

static weft_status apply(wefti_mixer *m, int bucket, float *params) {
    const outer *self = m->self;
    int64_t n = m->buckets[bucket].n_elements;
    float *x = x_of(m, bucket), keep = (float)m->config.merge;
    double begin_s = wefti_now_s();
    WEFTI_ASSERT(self->under_way[bucket] >= 0);
    WEFT_TRY(wefti_all_reduce_end(self->reduce, bucket, self->under_way[bucket], x));
    wefti_exchange_note(&m->times, m->comm, self->sent_s[bucket], begin_s);
    if (m->config.held) {
        wefti_mixer_deliver(m, &(wefti_held_parcel){.kind = WEFTI_HELD_MEAN,
                                                    .bucket = bucket,
                                                    .exchange = self->under_way[bucket],
                                                    .n_bytes = n * (int64_t)sizeof *x,
                                                    .bytes = (const unsigned char *)x});
        mark_idle(m, bucket);
        return WEFT_OK;
    }
    outer_step(m, bucket, x);
    const float *start = part_of(m, START, bucket);
    for (int64_t i = 0; i < n; i++)
        params[i] = keep == 0 ? start[i] : keep * params[i] + (1 - keep) * start[i];
    mark_idle(m, bucket);
    return WEFT_OK;
}

/* --- the phases --- */

/* The exchange that a bucket begins in a step, or had begun before a run was resumed in it; -1:
 * none. */
static int64_t begun_by(const wefti_mixer *m, int bucket, int64_t step, bool prime) {
    int64_t start = start_of(m, bucket, prime ? step - 1 : step);
    if (prime) return start >= 0 && step <= start + m->config.delay ? start : -1;
    return start == step ? start : -1;
}

static void outer_parcels(wefti_mixer *m, int bucket, int64_t step, bool prime) {
    const outer *self = m->self;
    int64_t n = m->buckets[bucket].n_elements, start = begun_by(m, bucket, step, prime);
    wefti_section section = wefti_section_dense(n, m->config.values);
    if (start < 0) return;
    wefti_rounding rounding = wefti_all_reduce_rounding(self->reduce, bucket, start);
    wefti_mixer_expect(m, &(wefti_held_parcel){.bucket = bucket,
                                               .exchange = start,
                                               .again = prime,
                                               .seed = rounding.seed,
                                               .place = rounding.place,
                                               .n_bytes = wefti_section_bytes(
                                                   &section, 0, section.n_blocks)});
}

/* Sends again what the caller says is in flight: `start`, or -1. What coding the mean lost is in
 * the caller's state already. */
static weft_status prime_held(wefti_mixer *m, int bucket, int64_t step, int64_t start) {
    const outer *self = m->self;
    wefti_range lost;
    if (start < 0) {
        mark_idle(m, bucket);
        return WEFT_OK;
    }
    WEFT_TRY(ask_held(m, bucket, start));
    if (step <= wefti_outer_answer_step(&m->config, start)) return WEFT_OK;
    return wefti_all_reduce_combine(self->reduce, bucket, start, x_of(m, bucket), &lost);
}

/* A new run begins where it is. A resumed run sends again what was in flight, if it is
 * there: a run that was to end earlier did not begin that exchange. */
static weft_status outer_prime(wefti_mixer *m, int bucket, int64_t step,
                               const float *params) {
    int64_t n = m->buckets[bucket].n_elements;
    int64_t start = start_of(m, bucket, step - 1);
    /* step > start, so without a delay nothing is in flight */
    bool under_way = start >= 0 && step <= start + m->config.delay;
    if (m->config.held) return prime_held(m, bucket, step, under_way ? start : -1);
    if (under_way && is_pending(m, bucket))
        return repeat(m, bucket, start,
                      step > wefti_outer_answer_step(&m->config, start));
    if (step == 0) memcpy(part_of(m, START, bucket), params, (size_t)n * sizeof *params);
    mark_idle(m, bucket);
    return WEFT_OK;
}

static weft_status outer_after(wefti_mixer *m, int bucket, int64_t step, float *params) {
    const outer *self = m->self;
    if (start_of(m, bucket, step) == step) return ask(m, bucket, step, params);
    int64_t start = self->under_way[bucket];
    bool due = start >= 0 && step == wefti_outer_answer_step(&m->config, start);
    return due ? answer(m, bucket) : WEFT_OK;
}

static weft_status outer_finish(wefti_mixer *m, int bucket, int64_t step, float *params) {
    const outer *self = m->self;
    int64_t start = self->under_way[bucket];
    if (start < 0 || step != start + m->config.delay) return WEFT_OK;
    if (m->config.delay == 0) {
        double begin_s = wefti_now_s();
        WEFT_TRY(answer(m, bucket));
        wefti_exchange_note(&m->times, m->comm, self->sent_s[bucket], begin_s);
    }
    return apply(m, bucket, params);
}

static int64_t outer_period(const wefti_mixer_config *config) {
    return config->outer_every;
}

/* The answer is one member's share of the all-reduce. */
static wefti_touched outer_touched(int R) {
    return (wefti_touched){
        .begin = 12, .combine = 8.0 / R, .combine_peer = 12.0 / R, .end = 36};
}

static const char *const outer_keys[] = {
    "outer_every", "outer_lr", "outer_momentum", "fragments", "delay",
    "merge",       "feedback", "values",         "rounding",  NULL};
static const wefti_value_codec outer_measured[] = {WEFTI_VALUES_F32, WEFTI_VALUES_INT8,
                                                   WEFTI_VALUES_INT4, WEFTI_VALUE_CODECS};

const wefti_mixer_ops wefti_mixer_outer = {
    .name = "outer",
    .keys = outer_keys,
    .coded = true,
    .robust = true,
    .measured = outer_measured,
    .period = outer_period,
    .touched = outer_touched,
    .states = outer_states,
    .acts = outer_acts,
    .messages = outer_messages,
    .message_bytes = wefti_mixer_uncoded_bytes,
    .work_bytes = outer_work_bytes,
    .create = outer_create,
    .parcels = outer_parcels,
    .prime = outer_prime,
    .after = outer_after,
    .finish = outer_finish,
    .agrees = outer_agrees,
    .destroy = outer_destroy,
};
