/* SPDX-License-Identifier: MIT */
/* What holds for every mixer in the registry (lib/mix/mixer.h). Inner steps are drawn, so
 * that nothing but the mixer pulls the replicas together. */
#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "mixer_bytes.h"
#include "reference/reference.h"

enum { N_BUCKETS = 4, N = 700 + 130 + 3 + 64, STEPS = 13, MAX_R = 4 };

static const wefti_bucket buckets[N_BUCKETS] = {
    {.n_elements = 700}, {.n_elements = 130}, {.n_elements = 3}, {.n_elements = 64}};
static const int64_t bucket_at[N_BUCKETS] = {0, 700, 830, 833};

/* A mixer with knobs worth trying; a new kind needs a line. */
typedef struct variant {
    wefti_mixer_config config;
    const char *topology;
} variant;

#define OUTER(...)                                                                       \
    { {.kind = "outer", .outer_lr = 0.7, .outer_momentum = 0.9, __VA_ARGS__}, "complete" }
#define SPARSE(...)                                                                      \
    { {.kind = "sparse_outer", .outer_lr = 0.7, __VA_ARGS__}, "complete" }
#define GOSSIP(topology, ...)                                                            \
    { {.kind = "gossip", .gamma = 1, __VA_ARGS__}, topology }

#define GOSSIP_OUTER(topology, ...)                                                      \
    {                                                                                    \
        {.kind = "gossip_outer",                                                         \
         .gamma = 1,                                                                     \
         .outer_lr = 0.7,                                                                \
         .outer_momentum = 0.5,                                                          \
         __VA_ARGS__},                                                                   \
            topology                                                                     \
    }

static const variant variants[] = {
    {{.kind = "none"}, "complete"},
    OUTER(.outer_every = 1, .fragments = 1),
    OUTER(.outer_every = 4, .fragments = 1),
    OUTER(.outer_every = 3, .fragments = 1, .values = WEFTI_VALUES_INT8),
    OUTER(.outer_every = 3, .fragments = 1, .merge = 0.5),
    OUTER(.outer_every = 3, .fragments = 1, .robust = WEFTI_ROBUST_CLIP),
    OUTER(.outer_every = 4, .fragments = 4, .delay = 2, .values = WEFTI_VALUES_INT8,
          .robust = WEFTI_ROBUST_TRIM),
    OUTER(.outer_every = 6, .fragments = 3),
    OUTER(.outer_every = 4, .fragments = 4, .delay = 1),
    OUTER(.outer_every = 4, .fragments = 1, .delay = 2),
    OUTER(.outer_every = 6, .fragments = 2, .delay = 5, .values = WEFTI_VALUES_BF16),
    OUTER(.outer_every = 4, .fragments = 2, .delay = 3, .merge = 0.5,
          .values = WEFTI_VALUES_INT4),
    OUTER(.outer_every = 4, .fragments = 4, .delay = 2, .merge = 0.25,
          .values = WEFTI_VALUES_INT4, .stochastic = true, .seed = 8),
    OUTER(.outer_every = 2, .fragments = 2, .delay = 1, .values = WEFTI_VALUES_SIGN),
    SPARSE(.outer_every = 1, .fragments = 1, .topk = 4, .chunk = 64),
    SPARSE(.outer_every = 4, .fragments = 2, .merge = 0.5, .topk = 7, .chunk = 100,
           .forget = 0.05),
    GOSSIP("ring", .combine_last = false),
    GOSSIP("exponential", .combine_last = true, .average_every = 3),
    GOSSIP("complete", .combine_last = false),
    {{.kind = "gossip", .gamma = 0.25, .combine_last = true}, "complete"},
    GOSSIP("push", .combine_last = false, .average_every = 5),
    GOSSIP("push", .combine_last = true, .consensus_bound = 1),
    GOSSIP("ring", .combine_last = false, .deadline_s = 3600),
    GOSSIP("complete", .combine_last = true, .average_every = 2, .deadline_s = 3600),
    {{.kind = "tracking", .gamma = 1}, "exponential"},
    {{.kind = "tracking", .gamma = 0.5, .combine_last = true, .average_every = 2},
     "ring"},
    {{.kind = "tracking", .gamma = 1}, "complete"},
    GOSSIP_OUTER("exponential", .outer_every = 3),
    GOSSIP_OUTER("ring", .outer_every = 1),
    GOSSIP_OUTER("complete", .outer_every = 4),
    GOSSIP_OUTER("exponential", .outer_every = 2, .combine_last = true),
    GOSSIP_OUTER("complete", .outer_every = 3, .combine_last = true),
    GOSSIP_OUTER("push", .outer_every = 2),
    {{.kind = "choco", .gamma = 0.5, .values = WEFTI_VALUES_INT4}, "complete"},
    {{.kind = "choco",
      .gamma = 0.5,
      .values = WEFTI_VALUES_INT8,
      .stochastic = true,
      .combine_last = true},
     "complete"},
};
enum { N_VARIANTS = sizeof variants / sizeof variants[0] };

typedef struct trial {
    const variant *variant;
    bool alike; /* all ranks draw rank 0's steps */
    bool odd;   /* the last rank draws others */
    const double *weights;
    bool one_by_one;     /* a bucket passes all phases before the next one begins */
    int64_t steps;       /* of the whole run */
    int64_t first, last; /* steps [first, last) are done, from what x and state hold */
    float x[N], state[WEFTI_MIXER_STATES][N];
    double known[WEFTI_CONTROL_STEPS + MAX_R];
    float after[STEPS][N];
    int64_t bytes_out[STEPS], bytes_predicted[STEPS];
    int64_t bytes_in;                   /* in all */
    int64_t allocated, held, predicted; /* by steps; at creation; said beforehand */
    int n_states;
} trial;

static trial trials[MAX_R], whole[MAX_R];

static void draw(const trial *t, int rank, int64_t step, float *u) {
    uint64_t who = t->alike ? 0 : (uint64_t)rank + (t->odd && rank == MAX_R - 1 ? 50 : 0);
    fill_normal(100 * (uint64_t)step + who, N, u);
    for (int i = 0; i < N; i++) u[i] *= 0.1f;
}

static weft_status one_step(const trial *t, wefti_mixer *m, int64_t step, float *x) {
    float u[N];
    draw(t, m->comm->rank, step, u);
    for (int b = 0; b < N_BUCKETS; b++) {
        float *params = x + bucket_at[b];
        WEFT_TRY(wefti_mixer_before(m, b, step, params));
        WEFT_TRY(wefti_mixer_direct(m, b, step, u + bucket_at[b]));
        for (int64_t i = 0; i < buckets[b].n_elements; i++)
            params[i] -= u[bucket_at[b] + i];
        WEFT_TRY(wefti_mixer_after(m, b, step, params));
        if (t->one_by_one) WEFT_TRY(wefti_mixer_finish(m, b, step, params));
    }
    for (int b = 0; b < N_BUCKETS && !t->one_by_one; b++)
        WEFT_TRY(wefti_mixer_finish(m, b, step, x + bucket_at[b]));
    return WEFT_OK;
}

static weft_status walk(rank_env *env, wefti_mixer *m, weft_neighbours *room) {
    trial *t = env->user;
    for (int i = 0; i < m->n_states; i++) memcpy(m->state[i], t->state[i], sizeof t->x);
    for (int i = 0; i < m->n_known && t->first > 0; i++) m->known[i] = t->known[i];
    for (int b = 0; b < N_BUCKETS; b++)
        WEFT_TRY(wefti_mixer_prime(m, b, t->first, t->x + bucket_at[b]));
    for (int64_t step = t->first; step < t->last; step++) {
        int64_t before = sent(env), allocations = weft_ctx_allocations(env->ctx);
        WEFT_TRY(one_step(t, m, step, t->x));
        t->allocated += weft_ctx_allocations(env->ctx) - allocations;
        t->bytes_out[step] = sent(env) - before;
        t->bytes_predicted[step] = predict(m, room, step);
        memcpy(t->after[step], t->x, sizeof t->x);
    }
    for (int i = 0; i < m->n_states; i++) memcpy(t->state[i], m->state[i], sizeof t->x);
    for (int i = 0; i < m->n_known; i++) t->known[i] = m->known[i];
    wefti_traffic traffic;
    wefti_comm_traffic(env->control, &traffic);
    t->bytes_in = traffic.bytes_in[WEFTI_LINK_WIRE];
    return wefti_comm_barrier(env->control, -1);
}

static weft_status with_topology(rank_env *env, wefti_mixer_config *config,
                                 weft_neighbours *room) {
    trial *t = env->user;
    wefti_mixer *m;
    int R = env->replica->size;
    int64_t before = weft_ctx_bytes_held(env->ctx);
    env->replica->weights = t->weights;
    WEFT_TRY(wefti_mixer_create(env->ctx, config, &wefti_kernels_reference, env->replica,
                                buckets, N_BUCKETS, &m));
    t->n_states = m->n_states;
    t->held = weft_ctx_bytes_held(env->ctx) - before;
    t->predicted = wefti_mixer_work_bytes(config, buckets, N_BUCKETS, R) +
                   m->n_states * (int64_t)wefti_alloc_cost(sizeof t->x);
    weft_status status = walk(env, m, room);
    wefti_mixer_destroy(m);
    return status;
}

static weft_status mix(rank_env *env) {
    const trial *t = env->user;
    weft_topology *topology, *everybody;
    weft_neighbours *room;
    weft_topology_config wanted = {.struct_size = sizeof wanted,
                                   .kind = t->variant->topology,
                                   .nodes = env->replica->size,
                                   .ranks = 1},
                         complete = wanted;
    complete.kind = "complete";
    WEFT_TRY(weft_topology_create(env->ctx, &wanted, &topology));
    WEFT_TRY(weft_topology_create(env->ctx, &complete, &everybody));
    WEFT_TRY(weft_neighbours_create(env->ctx, everybody, &room));
    wefti_mixer_config config = t->variant->config;
    config.steps = t->steps;
    config.topology = topology;
    config.everybody = everybody;
    config.partners = env->replica->size - 1;
    weft_status status = with_topology(env, &config, room);
    weft_neighbours_destroy(env->ctx, room);
    weft_topology_destroy(env->ctx, topology);
    weft_topology_destroy(env->ctx, everybody);
    return status;
}

static void go(trial *all, int R, int64_t first, int64_t last) {
    void *users[MAX_R];
    for (int r = 0; r < R; r++) {
        all[r].first = first;
        all[r].last = last;
        users[r] = &all[r];
    }
    run_ranks(R, 1, (wefti_wire_model){0, 0}, mix, users, NULL);
}

/* All start at the same point. */
static void prepare(trial *all, const variant *v, int R) {
    for (int r = 0; r < R; r++) {
        memset(&all[r], 0, sizeof all[r]);
        all[r].variant = v;
        all[r].steps = STEPS;
        fill_normal(7, N, all[r].x);
    }
}

static void run(trial *all, const variant *v, int R) {
    prepare(all, v, R);
    go(all, R, 0, STEPS);
}

TEST(every_kind_is_tried) {
    for (int i = 0; wefti_mixer_registry[i]; i++) {
        int tried = 0;
        for (int v = 0; v < N_VARIANTS; v++)
            tried += strcmp(variants[v].config.kind, wefti_mixer_registry[i]->name) == 0;
        if (!tried) fail_msg("%s has no variant", wefti_mixer_registry[i]->name);
    }
}

TEST(bytes_counted_are_bytes_predicted_in_every_step) {
    for (int v = 0; v < N_VARIANTS; v++) {
        for (int R = 1; R <= MAX_R; R++) {
            int64_t all = 0, read = 0;
            run(trials, &variants[v], R);
            for (int r = 0; r < R; r++) {
                for (int t = 0; t < STEPS; t++)
                    if (trials[r].bytes_out[t] != trials[r].bytes_predicted[t])
                        fail_msg("variant %d, rank %d of %d, step %d: %lld, not %lld", v,
                                 r, R, t, (long long)trials[r].bytes_out[t],
                                 (long long)trials[r].bytes_predicted[t]);
                for (int t = 0; t < STEPS; t++) all += trials[r].bytes_out[t];
                read += trials[r].bytes_in;
            }
            assert_true((all > 0) == (R > 1 && v > 0));
            if (strcmp(variants[v].config.kind, "outer") == 0)
                assert_int_equal(read, all); /* nothing is sent for nothing */
        }
    }
}

TEST(replicas_are_equal_where_the_mixer_says_so) {
    int promises = 0;
    for (int v = 0; v < N_VARIANTS; v++) {
        const wefti_mixer_ops *ops = wefti_mixer_find(variants[v].config.kind);
        wefti_mixer_config config = variants[v].config;
        config.steps = STEPS;
        if (strcmp(config.kind, "none") == 0) continue; /* the replicator's promise */
        run(trials, &variants[v], 3);
        for (int t = 0; t < STEPS; t++) {
            if (!ops->agrees(&config, t)) continue;
            promises++;
            for (int r = 1; r < 3; r++)
                assert_memory_equal(trials[r].after[t], trials[0].after[t],
                                    sizeof trials[0].x);
        }
    }
    assert_true(promises > STEPS);
}

/* With two replicas a mean of equal numbers is exact, and so is coding it once more, but
 * for int8: its scale is rounded by more than a half of 1/127. */
TEST(equal_replicas_are_one_replica) {
    for (int v = 0; v < N_VARIANTS; v++) {
        const wefti_mixer_config *c = &variants[v].config;
        if (c->stochastic || c->values == WEFTI_VALUES_INT8) continue;
        for (int R = 1; R <= 2; R++) {
            trial *all = R == 1 ? whole : trials;
            prepare(all, &variants[v], R);
            for (int r = 0; r < R; r++) all[r].alike = true;
            go(all, R, 0, STEPS);
        }
        for (int r = 0; r < 2; r++)
            if (memcmp(trials[r].after, whole[0].after, sizeof whole[0].after) != 0)
                fail_msg("variant %d is not as if alone", v);
    }
}

/* Parameters and states say everything, also of what is under way. */
TEST(a_run_stopped_after_any_step_goes_on_to_the_same_bits) {
    for (int v = 0; v < N_VARIANTS; v++) {
        run(whole, &variants[v], 3);
        for (int64_t stop = 1; stop < STEPS; stop++) {
            prepare(trials, &variants[v], 3);
            go(trials, 3, 0, stop);
            go(trials, 3, stop, STEPS);
            for (int r = 0; r < 3; r++) {
                if (memcmp(trials[r].x, whole[r].x, sizeof whole[r].x) != 0)
                    fail_msg("variant %d, stopped after %d: another end", v, (int)stop);
                assert_memory_equal(trials[r].state, whole[r].state,
                                    sizeof whole[r].state);
            }
        }
    }
}

/* Push-sum has weights of its own, and a trimmed mean none (docs/methods.md). */
static bool weighs(const variant *v) {
    return strcmp(v->topology, "push") != 0 && v->config.robust != WEFTI_ROBUST_TRIM;
}

/* Ranks that weigh 1, 3, 10 and 0: bytes, promises and resuming as ever; and nobody sees what
 * the one without a weight has done. */
TEST(weights_change_no_promise) {
    static const double shares[MAX_R] = {1, 3, 10, 0};
    for (int v = 0; v < N_VARIANTS; v++) {
        const wefti_mixer_ops *ops = wefti_mixer_find(variants[v].config.kind);
        wefti_mixer_config config = variants[v].config;
        config.steps = STEPS;
        if (!weighs(&variants[v])) continue;
        for (int pass = 0; pass < 2; pass++) {
            trial *all = pass ? trials : whole;
            prepare(all, &variants[v], MAX_R);
            for (int r = 0; r < MAX_R; r++)
                all[r].weights = shares, all[r].odd = pass > 0;
            if (pass) go(all, MAX_R, 0, 5);
            go(all, MAX_R, pass ? 5 : 0, STEPS);
        }
        for (int r = 0; r < MAX_R; r++)
            for (int t = 0; t < STEPS; t++) {
                assert_int_equal(whole[r].bytes_out[t], whole[r].bytes_predicted[t]);
                bool agree = v > 0 && ops->agrees(&config, t);
                if (agree &&
                    memcmp(whole[r].after[t], whole[0].after[t], sizeof whole[0].x))
                    fail_msg("variant %d, rank %d differs after step %d", v, r, t);
                if (r < MAX_R - 1 &&
                    memcmp(trials[r].after[t], whole[r].after[t], sizeof whole[0].x))
                    fail_msg("variant %d, rank %d sees rank 3 in step %d", v, r, t);
            }
    }
}

/* A run of 8 steps has not begun the exchange that is due in step 5 and would be applied
 * in step 10. Continued to 13 steps, it leaves it out, and does not go back to where the
 * last exchange left it: but for the inner steps nothing moves up to step 10. */
TEST(outer_goes_on_from_a_run_that_was_to_end_earlier) {
    static const variant v = OUTER(.outer_every = 6, .fragments = 1, .delay = 5);
    float u[N];
    prepare(trials, &v, 3);
    for (int r = 0; r < 3; r++) trials[r].steps = 8;
    go(trials, 3, 0, 8);
    for (int r = 0; r < 3; r++) trials[r].steps = STEPS;
    go(trials, 3, 8, STEPS);
    for (int r = 0; r < 3; r++)
        for (int64_t t = 8; t < STEPS; t++) {
            draw(&trials[r], r, t, u);
            for (int i = 0; i < N; i++)
                assert_true(trials[r].after[t][i] == trials[r].after[t - 1][i] - u[i]);
        }
}

/* On another mesh a bucket may hold units of which some were under way and some not: then none
 * of it is sent again, the exchange is left out, and no number becomes NaN. The other buckets'
 * exchange, due in step 5 and applied in step 10, is done. */
TEST(outer_leaves_out_a_bucket_that_is_partly_under_way) {
    static const variant v = OUTER(.outer_every = 6, .fragments = 1, .delay = 5);
    enum { PENDING = 2, BUCKET = 1 };
    for (int hole = 0; hole < 3; hole++) {
        static const int64_t where[] = {0, 64, 129}; /* of BUCKET's 130 */
        float u[N];
        prepare(trials, &v, 3);
        go(trials, 3, 0, 7);
        for (int r = 0; r < 3; r++)
            trials[r].state[PENDING][bucket_at[BUCKET] + where[hole]] = NAN;
        go(trials, 3, 7, STEPS);
        for (int r = 0; r < 3; r++) {
            bool moved = false;
            for (int64_t t = 7; t < STEPS; t++) {
                draw(&trials[r], r, t, u);
                for (int64_t i = 0; i < N; i++) {
                    bool left = i >= bucket_at[BUCKET] && i < bucket_at[BUCKET + 1];
                    bool inner = trials[r].after[t][i] ==
                                 trials[r].after[t - 1][i] - u[i];
                    assert_true(isfinite(trials[r].after[t][i]));
                    assert_true(inner || (!left && t == 10));
                    moved |= !inner;
                }
            }
            assert_true(moved);
        }
    }
}

/* As with mesh.overlap=false. */
TEST(buckets_one_by_one_give_the_same_bits) {
    for (int v = 0; v < N_VARIANTS; v++) {
        run(whole, &variants[v], 4);
        prepare(trials, &variants[v], 4);
        for (int r = 0; r < 4; r++) trials[r].one_by_one = true;
        go(trials, 4, 0, STEPS);
        for (int r = 0; r < 4; r++)
            assert_memory_equal(trials[r].after, whole[r].after, sizeof whole[r].after);
    }
}

/* Beside what is counted there are headers of blocks and a few numbers per bucket. */
TEST(memory_is_what_was_said) {
    for (int v = 0; v < N_VARIANTS; v++) {
        run(trials, &variants[v], 3);
        for (int r = 0; r < 3; r++) {
            int64_t off = trials[r].held - trials[r].predicted;
            if (off < -1536 || off > 1536)
                fail_msg("variant %d holds %lld bytes, %lld predicted", v,
                         (long long)trials[r].held, (long long)trials[r].predicted);
            assert_int_equal(trials[r].allocated, 0);
        }
    }
}

TEST(bad_knobs_are_refused_in_a_sentence) {
    weft_ctx *ctx;
    wefti_mixer *m;
    wefti_comm lonely = {.size = 1};
    const wefti_mixer_config good = {.kind = "outer", .outer_every = 4, .fragments = 2};
    wefti_mixer_config bad[11];
    for (int i = 0; i < 11; i++) bad[i] = good;
    bad[0].kind = "inner";
    bad[1].outer_every = 0;
    bad[2].fragments = 0;
    bad[3].fragments = 5;
    bad[4].delay = 4;
    bad[5].delay = -1;
    bad[6].merge = 1.5;
    bad[7].merge = -0.5;
    bad[8].outer_lr = -1;
    bad[9].outer_momentum = 1;
    bad[10].outer_momentum = -0.1;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int i = 0; i < 11; i++) {
        weft_status status = wefti_mixer_create(ctx, &bad[i], &wefti_kernels_reference,
                                                &lonely, buckets, N_BUCKETS, &m);
        assert_fails(ctx, status, WEFT_ERR_CONFIG, i == 0 ? "inner" : "expected");
        assert_null(m);
        assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    }
    weft_ctx_destroy(ctx);
}

/* Neither reads a byte of what the other sends: the lengths tell. */
TEST(outer_refuses_a_peer_with_other_values) {
    static const variant one = OUTER(.outer_every = 2, .fragments = 1,
                                     .values = WEFTI_VALUES_INT8);
    static const variant two = OUTER(.outer_every = 2, .fragments = 1,
                                     .values = WEFTI_VALUES_INT4);
    void *users[] = {&trials[0], &trials[1]};
    weft_status statuses[2];
    prepare(trials, &one, 2);
    trials[1].variant = &two;
    for (int r = 0; r < 2; r++) trials[r].last = STEPS;
    run_ranks(2, 1, (wefti_wire_model){0, 0}, mix, users, statuses);
    for (int r = 0; r < 2; r++)
        assert_true(statuses[r] == WEFT_ERR_WIRE || statuses[r] == WEFT_ERR_PEER);
    assert_true(statuses[0] == WEFT_ERR_WIRE || statuses[1] == WEFT_ERR_WIRE);
}

static void keep_line(void *user, weft_log_level level, const char *line) {
    assert_int_equal(level, WEFT_LOG_WARN);
    snprintf(user, 200, "%s", line);
}

TEST(outer_warns_of_fewer_buckets_than_fragments) {
    char line[200];
    weft_ctx *ctx;
    wefti_mixer *m;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    weft_ctx_set_sink(ctx, keep_line, line);
    for (int64_t P = 3; P <= 5; P++) {
        for (int rank = 0; rank < 2; rank++) {
            wefti_comm pair = {.rank = rank, .size = 2};
            wefti_mixer_config c = {.kind = "outer", .outer_every = 9, .fragments = P};
            line[0] = 0;
            assert_ok(ctx, wefti_mixer_create(ctx, &c, &wefti_kernels_reference, &pair,
                                              buckets, N_BUCKETS, &m));
            wefti_mixer_destroy(m);
            bool warned = strstr(line, "is 5") && strstr(line, "are 4 fragments");
            assert_int_equal(warned, P == 5 && rank == 0);
            assert_int_equal(line[0] != 0, warned); /* nor anything else */
        }
    }
    weft_ctx_destroy(ctx);
}

typedef struct creation {
    weft_ctx *ctx;
    const wefti_mixer_config *config;
} creation;

static weft_status create_and_destroy(void *user) {
    const creation *c = user;
    wefti_mixer *m;
    wefti_comm pair = {.size = 2};
    WEFT_TRY(wefti_mixer_create(c->ctx, c->config, &wefti_kernels_reference, &pair,
                                buckets, N_BUCKETS, &m));
    wefti_mixer_destroy(m);
    return WEFT_OK;
}

TEST(every_failed_allocation_is_a_clean_error) {
    weft_ctx *ctx;
    weft_topology *pair;
    weft_topology_config wanted = {
        .struct_size = sizeof wanted, .kind = "complete", .nodes = 2, .ranks = 1};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_topology_create(ctx, &wanted, &pair));
    for (int v = 0; v < N_VARIANTS; v++) {
        wefti_mixer_config config = variants[v].config;
        config.topology = config.everybody = pair;
        config.partners = 1;
        creation c = {ctx, &config};
        assert_true(fail_each_allocation(ctx, NULL, create_and_destroy, &c) >= 2);
    }
    weft_topology_destroy(ctx, pair);
    weft_ctx_destroy(ctx);
}
