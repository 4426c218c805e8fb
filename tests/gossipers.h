/* SPDX-License-Identifier: MIT */
/* A gossiping mixer on R ranks with drawn updates in the place of an optimizer, without a
 * model. */
#pragma once

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "mixer_bytes.h"
#include "reference/reference.h"

/* Buckets of which one is cut raggedly, and one that has fewer elements than members. */
enum {
    N_BUCKETS = 3,
    N = 150,
    STEPS = 50,
    MAX_R = 8,
    MAX_KNOWN = WEFTI_CONTROL_STEPS + 8
};

static const wefti_bucket buckets[N_BUCKETS] = {
    {.n_elements = 100}, {.n_elements = 47}, {.n_elements = 3}};
static const int64_t bucket_at[N_BUCKETS] = {0, 100, 147};

/* One rank's view of a run from step `first` to `last`. */
typedef struct trial {
    wefti_mixer_config config;     /* without topologies */
    weft_topology_config topology; /* nodes * ranks = R */
    int64_t first, last;
    int64_t moves; /* steps with updates; in later ones they are zero */
    bool answers;  /* the mixer's answer() is called */
    bool anew;     /* step `first` is the first one of a world; nothing is restored */
    const double *weights; /* of the ranks; NULL: 1 */
    int learners; /* ranks, the last ones, that do not take part before step `until` */
    int64_t until;
    uint64_t averages; /* bit t: control makes the gossip round of step t a mean of all */
    float x[STEPS + 1][N]; /* x[t]: before step t */
    float state[WEFTI_MIXER_STATES][N];
    double known[MAX_KNOWN];
    double weight[STEPS + 1]; /* push-sum weight of this rank before step t */
    double distance[STEPS];
    int64_t bytes_out[STEPS], bytes_predicted[STEPS];
    int64_t late;
    int n_states, n_known;
} trial;

static trial trials[MAX_R];

static inline void draw(const trial *t, int rank, int64_t step, float *u) {
    fill_normal(1000 * (uint64_t)(step + 1) + (uint64_t)rank, N, u);
    for (int i = 0; i < N; i++) u[i] *= step < t->moves ? 0.1f : 0;
}

/* All of a step up to `after`. */
static inline weft_status adapt(const trial *t, wefti_mixer *m, int64_t step, float *x) {
    float u[N];
    draw(t, m->comm->rank, step, u);
    for (int b = 0; b < N_BUCKETS && t->answers; b++)
        WEFT_TRY(wefti_mixer_answer(m, b, step));
    for (int b = 0; b < N_BUCKETS; b++) {
        WEFT_TRY(wefti_mixer_before(m, b, step, x + bucket_at[b]));
        WEFT_TRY(wefti_mixer_direct(m, b, step, u + bucket_at[b]));
        for (int64_t i = 0; i < buckets[b].n_elements; i++)
            x[bucket_at[b] + i] -= u[bucket_at[b] + i];
        WEFT_TRY(wefti_mixer_after(m, b, step, x + bucket_at[b]));
    }
    return WEFT_OK;
}

static inline weft_status finish(wefti_mixer *m, int64_t step, float *x) {
    for (int b = 0; b < N_BUCKETS; b++)
        WEFT_TRY(wefti_mixer_finish(m, b, step, x + bucket_at[b]));
    return WEFT_OK;
}

/* As control does: the gossip round of the step after the next one is decided now. */
static inline void decide(const trial *t, wefti_mixer *m, int64_t step) {
    if (m->control) wefti_mixer_average_all(m, step, t->averages >> step & 1);
}

static inline weft_status prime(const trial *t, wefti_mixer *m, float *x) {
    for (int i = 0; i < m->n_states && (t->anew || t->first > 0); i++)
        memcpy(m->state[i], t->state[i], sizeof t->state[i]);
    if (t->anew) {
        wefti_mixer_meet_anew(m, t->first);
    } else if (t->first > 0) {
        for (int i = 0; i < m->n_known; i++) m->known[i] = t->known[i];
    } else {
        decide(t, m, 0);
        decide(t, m, 1);
    }
    for (int b = 0; b < N_BUCKETS; b++)
        WEFT_TRY(wefti_mixer_prime(m, b, t->first, x + bucket_at[b]));
    return WEFT_OK;
}

static inline void keep(trial *t, const wefti_mixer *m) {
    t->n_states = m->n_states;
    t->n_known = m->n_known;
    t->late = m->times.late;
    assert_true(m->n_known <= MAX_KNOWN);
    for (int i = 0; i < m->n_states; i++)
        memcpy(t->state[i], m->state[i], sizeof t->state[i]);
    for (int i = 0; i < m->n_known; i++) t->known[i] = m->known[i];
}

static inline weft_status walk(rank_env *env, wefti_mixer *m, weft_neighbours *room) {
    trial *t = env->user;
    float x[N];
    memcpy(x, t->x[t->first], sizeof x);
    WEFT_TRY(prime(t, m, x));
    for (int64_t step = t->first; step < t->last; step++) {
        int64_t before = sent(env);
        t->weight[step] = m->weights ? m->weights[env->rank] : 1;
        WEFT_TRY(adapt(t, m, step, x));
        WEFT_TRY(finish(m, step, x));
        t->bytes_out[step] = sent(env) - before;
        t->bytes_predicted[step] = predict(m, room, step);
        t->distance[step] = m->ops->distance(m);
        memcpy(t->x[step + 1], x, sizeof x);
        decide(t, m, step + 2);
    }
    t->weight[t->last] = m->weights ? m->weights[env->rank] : 1;
    keep(t, m);
    return wefti_comm_barrier(env->control, -1);
}

typedef weft_status (*gossip_body)(rank_env *env, wefti_mixer *m, weft_neighbours *room);

/* Calls `body` with a mixer of this rank's trial, on `comm` or else the replica group. */
static inline weft_status with_mixer(rank_env *env, wefti_comm *comm, gossip_body body) {
    trial *t = env->user;
    weft_topology *topology, *everybody;
    weft_topology_config complete = {.struct_size = sizeof complete,
                                     .kind = "complete",
                                     .nodes = t->topology.nodes,
                                     .ranks = t->topology.ranks};
    weft_neighbours *room;
    wefti_mixer *m;
    WEFT_TRY(weft_topology_create(env->ctx, &t->topology, &topology));
    WEFT_TRY(weft_topology_create(env->ctx, &complete, &everybody));
    WEFT_TRY(weft_neighbours_create(env->ctx, everybody, &room));
    t->config.topology = topology;
    t->config.everybody = everybody;
    if (!comm) comm = env->replica;
    comm->weights = t->weights;
    comm->n_learners = t->learners;
    comm->learner_until = t->until;
    WEFT_TRY(wefti_mixer_create(env->ctx, &t->config, &wefti_kernels_reference, comm,
                                buckets, N_BUCKETS, &m));
    weft_status status = body(env, m, room);
    wefti_mixer_destroy(m);
    weft_neighbours_destroy(env->ctx, room);
    weft_topology_destroy(env->ctx, topology);
    weft_topology_destroy(env->ctx, everybody);
    return status;
}

static inline weft_status meet(rank_env *env) { return with_mixer(env, NULL, walk); }

/* Fills in trials[0..R-1]; L copies per node. Values start apart, or with `alike` equal.
 */
static inline void set_out(int R, int L, const char *kind, wefti_mixer_config config,
                           bool alike) {
    for (int r = 0; r < R; r++) {
        trials[r] = (trial){
            .config = config, .last = STEPS, .moves = STEPS, .answers = true};
        trials[r].topology = (weft_topology_config){
            .struct_size = sizeof(weft_topology_config),
            .kind = kind,
            .nodes = R / L,
            .ranks = L,
            .seed = config.seed};
        fill_normal(7 + (alike ? 0 : (uint64_t)r), N, trials[r].x[0]);
    }
}

/* From x[first], known and state on. */
static inline void go(int R, int64_t first, int64_t last) {
    void *users[MAX_R];
    for (int r = 0; r < R; r++) {
        trials[r].first = first;
        trials[r].last = last;
        users[r] = &trials[r];
    }
    run_ranks(R, 1, (wefti_wire_model){0, 0}, meet, users, NULL);
}

/* sum over elements and replicas of the squared distance from the mean, over R. */
static inline double true_distance(int R, int64_t t) {
    double sum = 0;
    for (int e = 0; e < N; e++) {
        double mean = 0;
        for (int r = 0; r < R; r++) mean += (double)trials[r].x[t][e] / R;
        for (int r = 0; r < R; r++) {
            double off = (double)trials[r].x[t][e] - mean;
            sum += off * off / R;
        }
    }
    return sum;
}

static inline void bytes_are_as_predicted(int R) {
    for (int r = 0; r < R; r++)
        for (int t = 0; t < STEPS; t++)
            if (trials[r].bytes_out[t] != trials[r].bytes_predicted[t])
                fail_msg("rank %d of %d, step %d: %lld bytes, %lld predicted", r, R, t,
                         (long long)trials[r].bytes_out[t],
                         (long long)trials[r].bytes_predicted[t]);
}
