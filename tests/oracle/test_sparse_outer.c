/* SPDX-License-Identifier: MIT */
/* The mixer sparse_outer against docs/methods.md in double, over 60 inner steps that are
 * drawn, and what its messages cost. Bins and tables are the library's (unit_wire/bins
 * has their definition). */
#include <math.h>
#include <stdlib.h>

#include "mix/mixer.h"
#include "ranks.h"
#include "wire/bins.h"
#include "reference/reference.h"

enum { N_BUCKETS = 3, N = 200 + 64 + 70, STEPS = 60, R = 3 };

static const wefti_bucket buckets[N_BUCKETS] = {
    {.n_elements = 200}, {.n_elements = 64}, {.n_elements = 70}};
static const int64_t bucket_at[N_BUCKETS] = {0, 200, 264};

typedef struct trial {
    wefti_mixer_config config;
    float x[STEPS + 1][N], start[STEPS + 1][N], error[STEPS + 1][N];
} trial;

static trial trials[R];
static const double *weights; /* [R]; NULL: 1 */

static void draw(int rank, int64_t step, float *u) {
    fill_normal(1000 * (uint64_t)(step + 1) + (uint64_t)rank, N, u);
    for (int i = 0; i < N; i++) u[i] *= 0.1f;
}

static weft_status walk(const rank_env *env, wefti_mixer *m, trial *t) {
    float x[N], u[N];
    memcpy(x, t->x[0], sizeof x);
    for (int b = 0; b < N_BUCKETS; b++)
        WEFT_TRY(wefti_mixer_prime(m, b, 0, x + bucket_at[b]));
    for (int64_t step = 0; step < STEPS; step++) {
        draw(m->comm->rank, step, u);
        for (int i = 0; i < N; i++) x[i] -= u[i];
        for (int b = 0; b < N_BUCKETS; b++)
            WEFT_TRY(wefti_mixer_after(m, b, step, x + bucket_at[b]));
        for (int b = 0; b < N_BUCKETS; b++)
            WEFT_TRY(wefti_mixer_finish(m, b, step, x + bucket_at[b]));
        memcpy(t->x[step + 1], x, sizeof x);
        memcpy(t->start[step + 1], m->state[0], sizeof x);
        memcpy(t->error[step + 1], m->state[1], sizeof x);
    }
    return wefti_comm_barrier(env->control, -1);
}

static weft_status train(rank_env *env) {
    trial *t = env->user;
    wefti_mixer *m;
    env->replica->weights = weights;
    WEFT_TRY(wefti_mixer_create(env->ctx, &t->config, &wefti_kernels_reference,
                                env->replica, buckets, N_BUCKETS, &m));
    weft_status status = walk(env, m, t);
    wefti_mixer_destroy(m);
    return status;
}

static void run(wefti_mixer_config config) {
    void *users[R];
    for (int r = 0; r < R; r++) {
        memset(&trials[r], 0, sizeof trials[r]);
        trials[r].config = config;
        fill_normal(7, N, trials[r].x[0]);
        users[r] = &trials[r];
    }
    run_ranks(R, 1, (wefti_wire_model){0, 0}, train, users, NULL);
}

/* --- the definition --- */

static double theta[R][N], start[N], kept[R][N];

/* Whether e[i] is among the k largest of its run [first, end), ties to the lower place. */
static bool is_chosen(const double *e, int first, int end, int i, int64_t k) {
    int larger = 0;
    for (int j = first; j < end; j++)
        larger += fabs(e[j]) > fabs(e[i]) || (j < i && fabs(e[j]) == fabs(e[i]));
    return larger < k;
}

/* What rank r sends of a bucket: q, 0 elsewhere. A run that ends early sends zeros for what
 * it lacks; they are the last of its numbers, at places outside. */
static void send(const wefti_mixer_config *c, int r, int begin, int n, double *q) {
    static float values[N];
    static int places[N];
    int sent = 0;
    memset(q, 0, N * sizeof *q);
    for (int first = begin; first < begin + n; first += (int)c->chunk) {
        int end = first + (int)c->chunk, stop = end < begin + n ? end : begin + n,
            here = 0;
        for (int i = first; i < stop; i++) {
            if (!is_chosen(kept[r], first, stop, i, c->topk)) continue;
            places[sent] = i;
            values[sent++] = (float)kept[r][i];
            here++;
        }
        for (; here < c->topk; here++) {
            places[sent] = -1;
            values[sent++] = 0;
        }
    }
    static unsigned char bytes[4 * N];
    wefti_bins_encode(sent, values, bytes);
    for (int i = 0; i < sent; i++)
        if (places[i] >= 0) q[places[i]] = (double)values[i];
}

static void exchange(const wefti_mixer_config *c, int b) {
    int begin = (int)bucket_at[b], n = (int)buckets[b].n_elements;
    static double q[R][N];
    for (int r = 0; r < R; r++) {
        for (int i = begin; i < begin + n; i++)
            kept[r][i] = (1 - c->forget) * kept[r][i] +
                         (weights ? weights[r] : 1) * (start[i] - theta[r][i]);
        send(c, r, begin, n, q[r]);
        for (int i = begin; i < begin + n; i++) kept[r][i] -= q[r][i];
    }
    for (int i = begin; i < begin + n; i++) {
        double mean = 0;
        for (int r = 0; r < R; r++) mean += q[r][i] / R;
        start[i] -= c->outer_lr * mean;
        for (int r = 0; r < R; r++)
            theta[r][i] = c->merge * theta[r][i] + (1 - c->merge) * start[i];
    }
}

/* Numbers are below 16, so an operation rounds by at most 2^-21, and what is kept takes one
 * or two in each step. A bin's mean may be rounded to the other bf16; that stays in what is
 * kept and is sent later. */
static const double tolerance = 4 * 60 * 0x1p-21;

static void follow(wefti_mixer_config c) {
    float u[N];
    run(c);
    memset(kept, 0, sizeof kept);
    for (int i = 0; i < N; i++) {
        start[i] = (double)trials[0].x[0][i];
        for (int r = 0; r < R; r++) theta[r][i] = start[i];
    }
    for (int64_t t = 0; t < STEPS; t++) {
        for (int r = 0; r < R; r++) {
            draw(r, t, u);
            for (int i = 0; i < N; i++) theta[r][i] -= (double)u[i];
        }
        for (int b = 0; b < N_BUCKETS; b++) {
            int64_t fragment = b * c.fragments / N_BUCKETS;
            if ((t + 1) % c.outer_every == fragment * c.outer_every / c.fragments)
                exchange(&c, b);
        }
        for (int i = 0; i < N; i++) {
            for (int r = 0; r < R; r++) {
                assert_true(fabs(theta[r][i] - (double)trials[r].x[t + 1][i]) <
                            tolerance);
                assert_true(fabs(kept[r][i] - (double)trials[r].error[t + 1][i]) <
                            tolerance);
            }
            assert_true(fabs(start[i] - (double)trials[1].start[t + 1][i]) < tolerance);
        }
    }
}

static wefti_mixer_config knobs(int64_t H, int64_t P) {
    return (wefti_mixer_config){.kind = "sparse_outer",
                                .steps = STEPS,
                                .outer_every = H,
                                .outer_lr = 0.7,
                                .fragments = P,
                                .topk = 5,
                                .chunk = 60};
}

/* A change of which R times the part of all sequences is sent. */
TEST(changes_are_weighted) {
    static const double shares[][R] = {{3 / 14.0, 9 / 14.0, 30 / 14.0},
                                       {30 / 13.0, 0, 9 / 13.0}};
    for (int i = 0; i < 2; i++) {
        weights = shares[i];
        follow(knobs(5, 1));
    }
    weights = NULL;
}

TEST(it_is_the_formula) {
    wefti_mixer_config c = knobs(5, 1);
    follow(c);
    c = knobs(6, 3);
    c.forget = 0.05;
    follow(c);
    c = knobs(1, 1);
    c.merge = 0.25;
    follow(c);
    c = knobs(10, 2);
    c.topk = 60;
    follow(c);
}

/* b = 1, eta = 1: s_0 - s_t + the mean of what is kept = the mean of all changes. */
TEST(what_is_sent_and_what_is_kept_is_all_there_is) {
    wefti_mixer_config c = knobs(1, 1);
    c.outer_lr = 1;
    run(c);
    float u[N];
    for (int i = 0; i < N; i++) {
        double all = 0, told = (double)trials[0].x[0][i];
        for (int r = 0; r < R; r++) {
            told += (double)trials[r].error[STEPS][i] / R;
        }
        told -= (double)trials[0].start[STEPS][i];
        for (int r = 0; r < R; r++)
            for (int64_t t = 0; t < STEPS; t++) {
                draw(r, t, u);
                all += (double)u[i] / R;
            }
        assert_true(fabs(all - told) < tolerance);
    }
}

static void ignore(void *user, int peer, int64_t n_bytes) {
    (void)peer;
    *(int64_t *)user += n_bytes;
}

/* SparseLoCo's shape: 64 of 4096, of a bucket of a few million numbers. */
TEST(a_number_costs_at_most_9_7_bits) {
    wefti_mixer_config c = knobs(1, 1);
    c.topk = 64;
    c.chunk = 4096;
    wefti_bucket bucket = {.n_elements = 1 << 20};
    wefti_mixer_question q = {.bucket = &bucket, .n_buckets = 1, .R = 2, .step = 3};
    wefti_mixer_act acts[WEFTI_MIXER_ACTS];
    const wefti_mixer_ops *ops = wefti_mixer_find(c.kind);
    int64_t n_bytes = 0;
    assert_int_equal(ops->acts(&c, &q, acts), 2);
    ops->messages(&c, &q, &acts[0], ignore, &n_bytes);
    double bits = 8 * (double)n_bytes / ((1 << 20) / 64.0);
    assert_true(bits > 9.4 && bits <= 9.7);
}

TEST(bad_knobs_are_refused_in_a_sentence) {
    weft_ctx *ctx;
    wefti_mixer *m;
    wefti_comm lonely = {.size = 1};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int i = 0; i < 5; i++) {
        wefti_mixer_config bad = knobs(4, 1);
        if (i == 0) bad.delay = 1;
        if (i == 1) bad.topk = 61;
        if (i == 2) bad.topk = 0;
        if (i == 3) bad.fragments = 5;
        if (i == 4) bad.forget = 2;
        assert_int_equal(wefti_mixer_create(ctx, &bad, &wefti_kernels_reference, &lonely,
                                            buckets, N_BUCKETS, &m),
                         WEFT_ERR_CONFIG);
        assert_null(m);
        assert_non_null(strstr(weft_ctx_message(ctx), "expected"));
        assert_int_equal(weft_ctx_bytes_held(ctx), 0);
        weft_ctx_clear(ctx);
    }
    weft_ctx_destroy(ctx);
}
