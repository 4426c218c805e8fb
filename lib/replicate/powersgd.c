/* SPDX-License-Identifier: MIT */
/* PowerSGD (arXiv 1905.13727): a matrix of m x n is sent as two of m x r and n x r.
 *
 *     M <- beta M + lr g            what was not sent stays in M
 *     P <- mean over the nodes of M Q          P <- its columns made orthonormal
 *     Q <- mean over the nodes of M^T P        kept for the next time
 *     d <- P Q^T                               M <- M - d
 *
 * so the sum of all M and R d is all that went in. A learner (comm.h) adds nothing in either
 * round; its Q is the others', and its M is zero when it begins to take part. Vectors, and
 * matrices that two factors would not make smaller, are sent whole: d is their mean, and
 * nothing stays. A column of
 * Q that is zero, as all are at first, is drawn at random. Both rounds go to all ranks
 * (the driver's second round is an answer to all): round 1 M Q, round 2 M^T P, as f32 and
 * in the order of pieces. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"
#include "replicate/replicator.h"

typedef struct powersgd {
    float **p;  /* [n_buckets] in `room`: own M Q, then the mean's orthonormal columns */
    float *sum; /* [numbers of the longest message] */
    int64_t *encoded; /* [n_buckets] step of the numbers in p, or -1 */
    float *room;
} powersgd;

static int64_t rank_of(const wefti_replicator_config *config) {
    return config->compression_topk;
}

/* Whether two factors are shorter than the piece. */
static bool is_factored(const wefti_replicator_config *config, const wefti_piece *p) {
    return p->cols > 1 && rank_of(config) * (p->rows + p->cols) < p->rows * p->cols;
}

/* Numbers of a bucket's message: a round's factors, and in round 0 the pieces that are
 * sent whole. */
static int64_t numbers(const wefti_replicator_config *config, const wefti_bucket *bucket,
                       int round) {
    int64_t n = 0;
    for (int i = 0; i < bucket->n_pieces; i++) {
        const wefti_piece *p = &bucket->pieces[i];
        if (is_factored(config, p))
            n += rank_of(config) * (round ? p->cols : p->rows);
        else if (round == 0)
            n += p->rows * p->cols;
    }
    return n;
}

static int64_t power_round_bytes(const wefti_replicator_config *config,
                                 const wefti_bucket *bucket, int R, int round,
                                 int owner) {
    (void)R, (void)owner;
    return WEFTI_FRAME_BYTES + numbers(config, bucket, round) * (int64_t)sizeof(float);
}

/* --- memory --- */

static int64_t longest(const wefti_replicator_config *config, const wefti_bucket *buckets,
                       int n_buckets, int64_t *all) {
    int64_t most = 1;
    *all = 1;
    for (int b = 0; b < n_buckets; b++) {
        *all += numbers(config, &buckets[b], 0);
        for (int round = 0; round < 2; round++) {
            int64_t n = numbers(config, &buckets[b], round);
            if (n > most) most = n;
        }
    }
    return most;
}

static int64_t power_work_bytes(const wefti_replicator_config *config,
                                const wefti_bucket *buckets, int n_buckets, int R) {
    int64_t all, most = longest(config, buckets, n_buckets, &all);
    (void)R;
    return wefti_alloc_n_cost(1, sizeof(powersgd)) +
           wefti_alloc_n_cost(n_buckets, sizeof(float *)) +
           wefti_alloc_n_cost(n_buckets, sizeof(int64_t)) +
           wefti_alloc_n_cost(most, sizeof(float)) +
           wefti_alloc_n_cost(all, sizeof(float));
}

static weft_status power_create(wefti_replicator *r) {
    powersgd *self;
    int64_t all, most = longest(&r->config, r->buckets, r->n_buckets, &all);
    if (rank_of(&r->config) < 1)
        return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG,
                             "replicator.compression_topk is %lld with powersgd, "
                             "expected a rank of 1 or more",
                             (long long)rank_of(&r->config));
    WEFT_TRY(wefti_alloc(r->ctx, sizeof *self, "the powersgd replicator", &self));
    r->self = self;
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_buckets, sizeof *self->p, "factors", &self->p));
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_buckets, sizeof *self->encoded, "factors",
                           &self->encoded));
    WEFT_TRY(wefti_alloc_n(r->ctx, most, sizeof(float), "factors", &self->sum));
    WEFT_TRY(wefti_alloc_n(r->ctx, all, sizeof(float), "factors", &self->room));
    float *next = self->room;
    for (int b = 0; b < r->n_buckets; b++) {
        self->p[b] = next;
        self->encoded[b] = -1;
        next += numbers(&r->config, &r->buckets[b], 0);
    }
    return WEFT_OK;
}

static void power_destroy(wefti_replicator *r) {
    powersgd *self = r->self;
    if (!self) return;
    WEFTI_FREE(r->ctx, self->p, self->encoded, self->sum, self->room, self);
}

/* The first state is M. Q of a piece lies at the beginning of the piece's part of the
 * second state, column by column. */
static const char *const *power_states(const wefti_replicator_config *config) {
    static const char *const names[] = {"momentum", "basis", NULL};
    (void)config;
    return names;
}

/* --- factors of one piece: one column after another --- */

/* out [rows, r] <- M [rows, cols] Q [cols, r] */
static void times(const wefti_piece *p, int64_t r, const float *m, const float *q,
                  float *out) {
    for (int64_t k = 0; k < r; k++) {
        for (int64_t i = 0; i < p->rows; i++) {
            float sum = 0;
            for (int64_t j = 0; j < p->cols; j++)
                sum += m[i * p->cols + j] * q[k * p->cols + j];
            out[k * p->rows + i] = sum;
        }
    }
}

/* out [cols, r] <- M^T P [rows, r] */
static void transposed_times(const wefti_piece *p, int64_t r, const float *m,
                             const float *left, float *out) {
    memset(out, 0, (size_t)(p->cols * r) * sizeof *out);
    for (int64_t k = 0; k < r; k++)
        for (int64_t i = 0; i < p->rows; i++)
            for (int64_t j = 0; j < p->cols; j++)
                out[k * p->cols + j] += left[k * p->rows + i] * m[i * p->cols + j];
}

/* The method of Gram and Schmidt, twice, in double and in one order: the same bits on
 * every node. A column in the span of those before it becomes 0. */
static void make_orthonormal(int64_t n, int64_t r, float *x) {
    for (int64_t k = 0; k < r; k++) {
        float *v = x + k * n;
        double before = 0, after = 0;
        for (int64_t i = 0; i < n; i++) before += (double)v[i] * (double)v[i];
        for (int turn = 0; turn < 2; turn++) {
            for (int64_t l = 0; l < k; l++) {
                const float *u = x + l * n;
                double dot = 0;
                for (int64_t i = 0; i < n; i++) dot += (double)u[i] * (double)v[i];
                for (int64_t i = 0; i < n; i++) v[i] -= (float)(dot * (double)u[i]);
            }
        }
        for (int64_t i = 0; i < n; i++) after += (double)v[i] * (double)v[i];
        double scale = after > 1e-12 * before ? 1 / sqrt(after) : 0;
        for (int64_t i = 0; i < n; i++) v[i] = (float)((double)v[i] * scale);
    }
}

static void draw_empty_columns(const wefti_replicator *r, const wefti_piece *p,
                               int64_t step, float *q) {
    for (int64_t k = 0; k < rank_of(&r->config); k++) {
        float *column = q + k * p->cols;
        bool empty = true;
        for (int64_t j = 0; j < p->cols; j++) empty &= column[j] == 0;
        for (int64_t j = 0; j < p->cols && empty; j++)
            column[j] = (float)wefti_rng_normal(r->config.seed, WEFTI_STREAM_SELECT,
                                                (uint64_t)step << 24 | (uint64_t)k,
                                                (uint64_t)p->tensor << 32 | (uint64_t)j);
    }
}

/* --- messages --- */

/* Takes the gradient into M, and makes what this rank sends to all. */
static void begin_bucket(wefti_replicator *r, const wefti_round *round) {
    const powersgd *self = r->self;
    const wefti_bucket *bucket = &r->buckets[round->bucket];
    float *out = self->p[round->bucket];
    wefti_replicator_accumulate(r, round->bucket, round->from);
    for (int i = 0; i < bucket->n_pieces; i++) {
        const wefti_piece *p = &bucket->pieces[i];
        float *m = wefti_replicator_state(r, 0, round->bucket) + p->offset;
        float *q = wefti_replicator_state(r, 1, round->bucket) + p->offset;
        int64_t n = p->rows * p->cols;
        if (is_factored(&r->config, p)) {
            n = rank_of(&r->config) * p->rows;
            draw_empty_columns(r, p, round->step, q);
            times(p, rank_of(&r->config), m, q, out);
        } else {
            memcpy(out, m, (size_t)n * sizeof *out);
            memset(m, 0, (size_t)n * sizeof *m);
        }
        out += n;
    }
    self->encoded[round->bucket] = round->step;
}

static weft_status power_encode(wefti_replicator *r, const wefti_round *round, int member,
                                unsigned char *out) {
    const powersgd *self = r->self;
    int64_t n = numbers(&r->config, &r->buckets[round->bucket], 0);
    (void)member;
    if (self->encoded[round->bucket] != round->step) begin_bucket(r, round);
    memcpy(out, self->p[round->bucket], (size_t)n * sizeof(float));
    return WEFT_OK;
}

static weft_status power_add(wefti_replicator *r, const wefti_round *round, int member,
                             const unsigned char *in) {
    const powersgd *self = r->self;
    int64_t n = numbers(&r->config, &r->buckets[round->bucket], round->number);
    (void)member;
    if (round->counted == 0) memset(self->sum, 0, (size_t)n * sizeof *self->sum);
    for (int64_t i = 0; i < n; i++, in += sizeof(float)) {
        float x;
        memcpy(&x, in, sizeof x);
        self->sum[i] += x;
    }
    return WEFT_OK;
}

/* After round 1: the orthonormal columns of the mean go into p, whole pieces into d, and
 * M^T P to all. */
static void answer_bucket(wefti_replicator *r, const wefti_round *round, float *out) {
    const powersgd *self = r->self;
    const wefti_bucket *bucket = &r->buckets[round->bucket];
    int64_t k = rank_of(&r->config);
    float *sum = self->sum, *left = self->p[round->bucket];
    for (int i = 0; i < bucket->n_pieces; i++) {
        const wefti_piece *p = &bucket->pieces[i];
        int64_t n = p->rows * p->cols;
        if (is_factored(&r->config, p)) {
            const float *m = wefti_replicator_state(r, 0, round->bucket) + p->offset;
            n = k * p->rows;
            memcpy(left, sum, (size_t)n * sizeof *left);
            make_orthonormal(p->rows, k, left);
            transposed_times(p, k, m, left, out);
            out += k * p->cols;
        } else {
            memcpy(round->x + p->offset, sum, (size_t)n * sizeof *sum);
        }
        sum += n;
        left += n;
    }
}

/* After round 2: sets Q, d and what stays in M. */
static void end_bucket(wefti_replicator *r, const wefti_round *round) {
    const powersgd *self = r->self;
    const wefti_bucket *bucket = &r->buckets[round->bucket];
    int64_t k = rank_of(&r->config);
    bool learner = wefti_comm_is_learner(r->comm, r->comm->rank, round->step);
    const float *sum = self->sum, *left = self->p[round->bucket];
    for (int i = 0; i < bucket->n_pieces; i++) {
        const wefti_piece *p = &bucket->pieces[i];
        if (!is_factored(&r->config, p)) {
            left += p->rows * p->cols;
            continue;
        }
        float *m = wefti_replicator_state(r, 0, round->bucket) + p->offset;
        float *d = round->x + p->offset;
        memcpy(wefti_replicator_state(r, 1, round->bucket) + p->offset, sum,
               (size_t)(k * p->cols) * sizeof *sum);
        memset(d, 0, (size_t)(p->rows * p->cols) * sizeof *d);
        for (int64_t l = 0; l < k; l++)
            for (int64_t row = 0; row < p->rows; row++)
                for (int64_t j = 0; j < p->cols; j++)
                    d[row * p->cols + j] += left[l * p->rows + row] *
                                            sum[l * p->cols + j];
        for (int64_t j = 0; j < p->rows * p->cols; j++) m[j] = learner ? 0 : m[j] - d[j];
        left += k * p->rows;
        sum += k * p->cols;
    }
}

static weft_status power_finish(wefti_replicator *r, const wefti_round *round,
                                unsigned char *answer) {
    const powersgd *self = r->self;
    int64_t n = numbers(&r->config, &r->buckets[round->bucket], round->number);
    r->kernels->scale(n, 1.0f / (float)round->weight, self->sum);
    if (answer)
        answer_bucket(r, round, (float *)(void *)answer);
    else
        end_bucket(r, round);
    return WEFT_OK;
}

/* --- predictions --- */

static void power_label(const wefti_replicator_config *config, char *out, size_t size) {
    snprintf(out, size, "rank %lld ", (long long)rank_of(config));
}

static wefti_content power_content(const wefti_replicator_config *config,
                                   const wefti_bucket *bucket) {
    return (wefti_content){0, 32.0 * (double)numbers(config, bucket, 0),
                           32.0 * (double)numbers(config, bucket, 1)};
}

/* Three products of 2 r FLOP per number, by plain loops. */
static wefti_touched power_touched(const wefti_replicator_config *config, int R) {
    double rank = (double)rank_of(config);
    (void)R;
    return (wefti_touched){.begin = 16 + 8 * rank,
                           .combine = 2 * rank,
                           .combine_peer = 1,
                           .end = 16 + 2 * rank};
}

static double power_floor(const wefti_replicator_config *config, double n, double values,
                          int R) {
    (void)config, (void)values, (void)R;
    return 24 * n;
}

const wefti_replicator_ops wefti_replicator_powersgd = {
    .name = "powersgd",
    .keys = WEFTI_KEYS("compression_topk", "compression_decay", "momentum_style",
                       "every"),
    .method = "powersgd",
    .own_answers = true,
    .is_baseline = true,
    .knobs = WEFTI_KEYS("compression_topk"),
    .label = power_label,
    .content = power_content,
    .touched = power_touched,
    .floor_bytes = power_floor,
    .states = power_states,
    .rounds = wefti_replicator_two_rounds,
    .round_bytes = power_round_bytes,
    .one_by_one = true,
    .work_bytes = power_work_bytes,
    .create = power_create,
    .kinds = {WEFTI_FRAME_FACTOR, WEFTI_FRAME_FACTOR_ANSWER},
    .encode = power_encode,
    .add = power_add,
    .finish = power_finish,
    .destroy = power_destroy,
};
