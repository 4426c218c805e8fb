/* SPDX-License-Identifier: MIT */
/* A replicator on R ranks with random gradients, without a model. */
#pragma once

#include "ranks.h"
#include "replicate/replicator.h"

/* Two buckets: a vector and a matrix, both with ragged ends, and a small vector. */
enum {
    VECTOR = 64 * 9 + 5,
    ROWS = 70,
    COLS = 33,
    SMALL = 48,
    N = VECTOR + ROWS * COLS + SMALL,
    STEPS = 5,
    MAX_R = 4,
    N_BUCKETS = 2
};

static const wefti_piece test_pieces[] = {
    {VECTOR, 1, 0, false, 0}, {ROWS, COLS, VECTOR, true, 1}, {SMALL, 1, 0, false, 2}};
static const wefti_bucket test_buckets[N_BUCKETS] = {
    {2, test_pieces, VECTOR + ROWS *COLS}, {1, test_pieces + 2, SMALL}};
static const int64_t bucket_at[] = {0, VECTOR + ROWS *COLS};

/* One rank's view of a run. */
typedef struct trial {
    wefti_replicator_config config;
    const wefti_kernels *kernels;
    bool same_gradients; /* every rank has rank 0's */
    bool settles;        /* after every step */
    int learners,
        until; /* the last ranks, without gradients, do not take part before this step */
    void (*edit)(int rank, int step, float *gradient); /* or NULL */
    const double *weights; /* gradients are multiplied by them; or NULL */
    float gradient[STEPS][N], direction[STEPS][N];
    float kept[STEPS][N]; /* the first state after the step */
    bool due[STEPS];
    int64_t bytes_out, bytes_predicted,
        allocated; /* allocated after the first step began */
} trial;

static inline void fill_gradient(const trial *t, int rank, int step, float *g) {
    fill_normal(17 * (uint64_t)step + (t->same_gradients ? 0 : (uint64_t)rank * 1000), N,
                g);
    if (t->edit) t->edit(rank, step, g);
    for (int i = 0; i < N && t->weights; i++) g[i] *= (float)t->weights[rank];
}

static inline weft_status replicate_step(wefti_replicator *r, int64_t step, float *x) {
    for (int b = 0; b < N_BUCKETS; b++)
        WEFT_TRY(wefti_replicator_begin(r, b, step, 0.5f, x + bucket_at[b]));
    for (int b = 0; b < N_BUCKETS; b++)
        WEFT_TRY(wefti_replicator_combine(r, b, step, x + bucket_at[b]));
    for (int b = 0; b < N_BUCKETS; b++)
        WEFT_TRY(wefti_replicator_end(r, b, step, x + bucket_at[b]));
    return WEFT_OK;
}

static inline int64_t predicted_bytes(const wefti_replicator_config *config, int R,
                                      int rank) {
    int64_t n_bytes = 0;
    for (int b = 0; b < N_BUCKETS; b++)
        for (int to = 0; to < R; to++)
            if (to != rank)
                n_bytes += wefti_replicator_wire_bytes(config, &test_buckets[b], R, rank,
                                                       to);
    return n_bytes;
}

static inline weft_status run_steps(rank_env *env, trial *t, wefti_replicator *r) {
    int rank = env->replica->rank, R = env->replica->size;
    int64_t allocations = weft_ctx_allocations(env->ctx);
    for (int step = 0; step < STEPS; step++) {
        float *d = t->direction[step];
        fill_gradient(t, rank, step, t->gradient[step]);
        memcpy(d, t->gradient[step], sizeof t->gradient[step]);
        WEFT_TRY(replicate_step(r, step, d));
        if (r->n_states > 0) memcpy(t->kept[step], r->state[0], sizeof t->kept[step]);
        t->due[step] = wefti_replicator_is_due(&t->config, step);
        if (t->due[step]) t->bytes_predicted += predicted_bytes(&t->config, R, rank);
        if (t->settles || step == STEPS - 1) WEFT_TRY(wefti_replicator_settle(r));
    }
    t->allocated = weft_ctx_allocations(env->ctx) - allocations;
    return wefti_comm_barrier(env->control, -1);
}

static inline weft_status run_trial(rank_env *env) {
    trial *t = env->user;
    wefti_replicator *r;
    wefti_traffic traffic;
    env->replica->n_learners = t->learners;
    env->replica->learner_until = t->until;
    env->replica->weights = t->weights;
    WEFT_TRY(wefti_replicator_create(env->ctx, &t->config, t->kernels, env->replica,
                                     test_buckets, N_BUCKETS, &r));
    weft_status status = run_steps(env, t, r);
    wefti_comm_traffic(env->control, &traffic);
    t->bytes_out = traffic.bytes_out[WEFTI_LINK_WIRE];
    wefti_replicator_destroy(r);
    return status;
}

/* Runs trials[R], each filled as *like says. */
static inline void run_alike_on(trial *trials, int R, const trial *like,
                                wefti_wire_model wire) {
    void *users[MOST_RANKS];
    for (int r = 0; r < R; r++) {
        trials[r] = *like;
        users[r] = &trials[r];
    }
    run_ranks(R, 1, wire, run_trial, users, NULL);
}

static inline void run_alike(trial *trials, int R, const trial *like) {
    run_alike_on(trials, R, like, (wefti_wire_model){0, 0});
}

static inline void run_knobs(trial *trials, int R,
                             const wefti_replicator_config *config) {
    static trial like;
    like.config = *config;
    like.kernels = wefti_kernels_find(NULL);
    run_alike(trials, R, &like);
}

/* Kinds that ignore a knob leave it alone. */
static inline wefti_replicator_config knobs(const char *kind, int dims, int64_t k,
                                            bool sign) {
    return (wefti_replicator_config){.kind = kind,
                                     .compression_topk = k,
                                     .compression_chunk = dims == 2 ? 16 : 64,
                                     .compression_rate = 0.25,
                                     .compression_decay = 0.9,
                                     .compression_dims = dims,
                                     .sign = sign,
                                     .alpha = 1,
                                     .dense_below = 100,
                                     .every = 1,
                                     .seed = 3,
                                     .threads = 1};
}
