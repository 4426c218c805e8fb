/* SPDX-License-Identifier: MIT */
/* The laws of docs/methods.md that are demo's own. */
#include <math.h>

#include "replicas.h"
#include "reference/reference.h"

static trial trials[MAX_R], others[MAX_R], like;

static void run_edited(trial *out, int R, const wefti_replicator_config *config,
                       void (*edit)(int, int, float *)) {
    like = (trial){.config = *config, .kernels = test_kernels_find(NULL), .edit = edit};
    run_alike(out, R, &like);
}

/* -- owner = gather -- */

static void compare_routes(wefti_replicator_config config) {
    for (int R = 2; R <= MAX_R; R++) {
        config.route = WEFTI_ROUTE_GATHER;
        run_knobs(trials, R, &config);
        config.route = WEFTI_ROUTE_OWNER;
        run_knobs(others, R, &config);
        for (int r = 0; r < R; r++) {
            assert_memory_equal(trials[r].direction, others[r].direction,
                                sizeof trials[r].direction);
            assert_memory_equal(trials[r].kept, others[r].kept, sizeof trials[r].kept);
        }
        assert_int_not_equal(trials[0].bytes_out, others[0].bytes_out);
    }
}

TEST(the_owners_route_gives_the_bits_of_gather) {
    for (int values = 0; values < WEFTI_VALUE_CODECS; values++) {
        for (int form = 0; form < 4; form++) {
            int dims = 1 + form / 2;
            wefti_replicator_config config = knobs("demo", dims, 1 + 7 * values,
                                                   form % 2);
            config.values = (wefti_value_codec)values;
            config.indices = (wefti_index_codec)((values + form) % WEFTI_INDEX_CODECS);
            config.stochastic = values % 2;
            config.every = 1 + values % 3;
            config.dense_below = values == 1 ? 1000 : 64 * (form / 2);
            config.ema = form == 1;
            config.alpha = form == 2 ? 0.2 : 1;
            compare_routes(config);
        }
    }
}

TEST(every_kernel_table_keeps_that_law) {
    static const char *const names[] = {"reference", "base", "avx2", "avx512"};
    for (int i = 0; i < 4; i++) {
        const wefti_kernels *kernels = test_kernels_find(names[i]);
        if (!kernels) continue;
        for (int dims = 1; dims <= 2; dims++) {
            like = (trial){.config = knobs("demo", dims, 12, true), .kernels = kernels};
            like.config.route = WEFTI_ROUTE_OWNER;
            run_alike(others, 3, &like);
            like.config.route = WEFTI_ROUTE_GATHER;
            run_alike(trials, 3, &like);
            assert_memory_equal(trials[0].direction, others[2].direction,
                                sizeof trials[0].direction);
        }
    }
}

/* -- sent and kept -- */

/* One rank's direction without sign is what it sent, as it was coded. */
static void add_up(wefti_replicator_config config) {
    float beta = (float)config.compression_decay;
    float gain = config.ema ? 1 - beta : 0.5f;
    run_knobs(trials, 1, &config);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++) {
            float before = step ? trials[0].kept[step - 1][i] : 0;
            float all = beta * before + gain * trials[0].gradient[step][i];
            float sum = (float)config.alpha * trials[0].direction[step][i] +
                        trials[0].kept[step][i];
            assert_true(fabsf(all - sum) < 1e-5f * (1 + fabsf(all)));
        }
    }
}

TEST(what_is_sent_and_what_is_kept_are_all_there_is) {
    for (int values = 0; values < WEFTI_VALUE_CODECS; values++) {
        for (int form = 0; form < 8; form++) {
            wefti_replicator_config config = knobs("demo", 1 + form % 2, 4, false);
            config.values = (wefti_value_codec)values;
            config.stochastic = form / 2 % 2;
            config.ema = form / 4 % 2;
            config.alpha = form == 7 ? 0.3 : 1;
            config.dense_below = form == 3 ? 10000 : 100;
            add_up(config);
        }
    }
}

/* -- k = c -- */

TEST(demo_that_sends_everything_is_full_with_momentum) {
    static double momentum[N];
    wefti_replicator_config full = knobs("full", 1, 1, false);
    run_knobs(others, 3, &full);
    for (int form = 0; form < 8; form++) {
        int dims = 1 + form % 2;
        wefti_replicator_config config = knobs("demo", dims, dims == 2 ? 256 : 64, false);
        config.route = form / 2 % 2 ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_GATHER;
        config.alpha = form / 4 ? 0.25 : 1;
        double beta = 0.9 * (1 - config.alpha);
        run_knobs(trials, 3, &config);
        memset(momentum, 0, sizeof momentum);
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < N; i++) {
                momentum[i] = beta * momentum[i] + 0.5 * others[0].direction[step][i];
                assert_true(fabs(trials[0].direction[step][i] - momentum[i]) < 2e-5);
                if (config.alpha == 1) assert_true(fabsf(trials[1].kept[step][i]) < 2e-5);
            }
        }
    }
}

/* -- signs -- */

/* Nothing moves in the second chunk of the vector, in one of another block of the matrix,
 * and in the first half of the small vector. */
enum { STILL = VECTOR + 20 * 64 };

static bool is_still(int i) {
    return (i >= 64 && i < 128) || (i >= STILL && i < STILL + 64) ||
           (i >= N - SMALL && i < N - SMALL / 2);
}

static void leave_parts_still(int rank, int step, float *g) {
    (void)rank;
    (void)step;
    for (int i = 0; i < N; i++)
        if (is_still(i)) g[i] = 0;
}

TEST(signs_are_minus_one_or_one_and_zero_where_nothing_moves) {
    for (int form = 0; form < 4; form++) {
        wefti_replicator_config config = knobs("demo", 1, 4, true);
        config.route = form % 2 ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_GATHER;
        config.values = form / 2 ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32;
        run_edited(trials, 3, &config, leave_parts_still);
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < N; i++) {
                float d = trials[1].direction[step][i];
                bool may_be_zero = is_still(i) || i >= N - SMALL;
                if (is_still(i)) assert_true(d == 0);
                assert_true(d == 1 || d == -1 || (d == 0 && may_be_zero));
            }
        }
    }
}

/* -- a gradient that stops -- */

enum { DRIFT_ROWS = 3, DRIFT_STEPS = 400, DRIFT = 64 * DRIFT_ROWS, SHOWN = 10 };

static const wefti_piece drift_pieces[] = {{DRIFT_ROWS, 64, 0, true, 0}};
static const wefti_bucket drift_bucket = {1, drift_pieces, DRIFT};

typedef struct drift {
    wefti_replicator_config config;
    int moved; /* elements and steps, of the last quarter */
} drift;

/* A gradient in the first SHOWN steps, as a rare token's row has one, then none. */
static weft_status take_drift_steps(drift *it, wefti_replicator *r, int rank) {
    float x[DRIFT];
    for (int step = 0; step < DRIFT_STEPS; step++) {
        memset(x, 0, sizeof x);
        if (step < SHOWN) fill_normal((uint64_t)(10 * step + rank), DRIFT, x);
        WEFT_TRY(wefti_replicator_begin(r, 0, step, 1e-3f, x));
        WEFT_TRY(wefti_replicator_combine(r, 0, step, x));
        WEFT_TRY(wefti_replicator_end(r, 0, step, x));
        for (int i = 0; i < DRIFT && step >= DRIFT_STEPS * 3 / 4; i++)
            it->moved += x[i] != 0;
    }
    return WEFT_OK;
}

static weft_status run_drift(rank_env *env) {
    drift *it = env->user;
    wefti_replicator *r;
    WEFT_TRY(wefti_replicator_create(env->ctx, &it->config, test_kernels_find(NULL),
                                     env->replica, &drift_bucket, 1, &r));
    weft_status status = take_drift_steps(it, r, env->rank);
    if (status == WEFT_OK) status = wefti_comm_barrier(env->control, -1);
    wefti_replicator_destroy(r);
    return status;
}

/* Chunks, small tensors that are sent whole and of which a part stays, and agreed rows. */
TEST(rows_without_gradient_come_to_rest) {
    static const char *const kinds[] = {"demo", "demo", "demo", "striding"};
    for (int form = 0; form < 8; form++) {
        drift both[2];
        void *users[] = {&both[0], &both[1]};
        both[0] = (drift){.config = knobs(kinds[form % 4], form % 4 == 1 ? 2 : 1,
                                          form % 4 == 1 ? 256 : 4, true)};
        both[0].config.compression_decay = 0.999;
        both[0].config.compression_rate = 1;
        both[0].config.dense_below = form % 4 == 2 ? DRIFT + 1 : 0;
        both[0].config.alpha = form % 4 >= 2 ? 0.2 : 1;
        both[0].config.route = form / 4 ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_GATHER;
        both[1] = both[0];
        run_ranks(2, 1, (wefti_wire_model){0, 0}, run_drift, users, NULL);
        assert_int_equal(both[0].moved, 0);
        assert_int_equal(both[1].moved, 0);
    }
}

/* -- who has nothing to send -- */

static void ones_on_the_first_rank(int rank, int step, float *g) {
    (void)step;
    for (int i = 0; i < N; i++) g[i] = rank == 0;
}

/* The mean over those that sent: a rank without gradient does not halve it. */
TEST(a_rank_without_gradient_is_no_sender) {
    for (int form = 0; form < 4; form++) {
        wefti_replicator_config config = knobs("demo", 1 + form % 2, form % 2 ? 256 : 64,
                                               false);
        config.route = form / 2 ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_GATHER;
        config.dense_below = 0;
        run_edited(trials, 2, &config, ones_on_the_first_rank);
        for (int i = 0; i < N; i++)
            assert_true(fabsf(trials[1].direction[0][i] - 0.5f) < 1e-5f);
    }
}

static void spoil(int rank, int step, float *g) {
    if (rank == 1 && step == 0) g[130] = NAN;
    if (rank == 1 && step == 0) g[N - 1] = INFINITY;
}

TEST(what_is_not_finite_stays_in_its_chunk) {
    for (int form = 0; form < 4; form++) {
        wefti_replicator_config config = knobs("demo", 1, 4, form % 2);
        config.route = form / 2 ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_GATHER;
        run_edited(trials, 3, &config, spoil);
        for (int i = 0; i < N; i++) {
            bool spoilt = (i >= 128 && i < 192) || i == N - 1;
            assert_int_equal(isfinite(trials[2].direction[0][i]) != 0, !spoilt);
        }
    }
}

/* -- rounding -- */

/* Two equal pieces on two equal ranks: chance is another one in each of them, and in each
 * step, or its errors would not average out. */
enum { HALF = 8 * 8 };

typedef struct dice {
    weft_status status;
    float kept[2][2 * HALF]; /* [step] */
} dice;

static weft_status roll(rank_env *env) {
    static const wefti_piece pieces[] = {{8, 8, 0, true, 0}, {8, 8, HALF, true, 1}};
    static const wefti_bucket bucket = {2, pieces, 2 * HALF};
    dice *mine = env->user;
    wefti_replicator_config config = knobs("demo", 1, 64, true);
    config.values = WEFTI_VALUES_INT4;
    config.stochastic = true;
    config.compression_decay = 0; /* what was lost is forgotten */
    config.dense_below = 0;
    wefti_replicator *r;
    float x[2 * HALF];
    WEFT_TRY(wefti_replicator_create(env->ctx, &config, test_kernels_find(NULL),
                                     env->replica, &bucket, 1, &r));
    for (int step = 0; step < 2 && mine->status == WEFT_OK; step++) {
        fill_normal(1, HALF, x);
        fill_normal(1, HALF, x + HALF);
        mine->status = wefti_replicator_begin(r, 0, step, 1, x);
        if (mine->status == WEFT_OK)
            mine->status = wefti_replicator_combine(r, 0, step, x);
        if (mine->status == WEFT_OK) mine->status = wefti_replicator_end(r, 0, step, x);
        memcpy(mine->kept[step], r->state[0], sizeof mine->kept[step]);
    }
    if (mine->status == WEFT_OK) mine->status = wefti_comm_barrier(env->control, -1);
    wefti_replicator_destroy(r);
    return mine->status;
}

TEST(chance_differs_by_rank_piece_and_step) {
    static dice both[2];
    void *users[] = {&both[0], &both[1]};
    memset(both, 0, sizeof both);
    run_ranks(2, 1, (wefti_wire_model){0, 0}, roll, users, NULL);
    size_t n_bytes = HALF * sizeof(float);
    const float *one = both[0].kept[0];
    assert_memory_not_equal(one, one + HALF, n_bytes);
    assert_memory_not_equal(one, both[1].kept[0], n_bytes);
    assert_memory_not_equal(one, both[0].kept[1], n_bytes);
}

/* -- a long run -- */

enum { LONG_STEPS = UNDER_SANITIZER ? 100 : 1000, TINY = 16 * 9 + 3 + 5 };

typedef struct long_run {
    wefti_replicator_config config;
    uint64_t seen; /* of every direction so far */
    float largest; /* of the momentum */
} long_run;

static const wefti_piece tiny_pieces[] = {
    {9, 16, 0, true, 0}, {3, 1, 9 * 16, false, 1}, {5, 1, 9 * 16 + 3, false, 2}};
static const wefti_bucket tiny_bucket = {3, tiny_pieces, TINY};

static uint64_t mix_in(uint64_t seen, const float *x) {
    for (int i = 0; i < TINY; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        seen = (seen ^ bits) * 0x100000001b3u;
    }
    return seen;
}

static weft_status take_long_steps(rank_env *env, wefti_replicator *r) {
    long_run *run = env->user;
    float x[TINY];
    for (int step = 0; step < LONG_STEPS; step++) {
        fill_normal((uint64_t)(step * 4 + env->rank), TINY, x);
        WEFT_TRY(wefti_replicator_begin(r, 0, step, 0.1f, x));
        WEFT_TRY(wefti_replicator_combine(r, 0, step, x));
        WEFT_TRY(wefti_replicator_end(r, 0, step, x));
        run->seen = mix_in(run->seen, x);
    }
    for (int i = 0; i < TINY; i++)
        if (!(fabsf(r->state[0][i]) <= run->largest))
            run->largest = fabsf(r->state[0][i]);
    return wefti_comm_barrier(env->control, -1);
}

static weft_status run_long(rank_env *env) {
    long_run *run = env->user;
    wefti_replicator *r;
    WEFT_TRY(wefti_replicator_create(env->ctx, &run->config, test_kernels_find(NULL),
                                     env->replica, &tiny_bucket, 1, &r));
    weft_status status = take_long_steps(env, r);
    wefti_replicator_destroy(r);
    return status;
}

/* The momentum decays to 0.9 in a step and takes in 0.1 g, |g| < 6 here: alone it stays
 * below 6, and taking a part of it out does not make it grow. */
TEST(a_thousand_steps_leave_four_nodes_equal) {
    uint64_t seen[2] = {0};
    for (int form = 0; form < 4; form++) {
        long_run runs[4];
        void *users[4];
        for (int r = 0; r < 4; r++) {
            runs[r] = (long_run){.config = knobs("demo", 2, 8, true)};
            runs[r].config.compression_chunk = 8;
            runs[r].config.dense_below = 4;
            runs[r].config.route = form % 2 ? WEFTI_ROUTE_OWNER : WEFTI_ROUTE_GATHER;
            runs[r].config.values = form / 2 ? WEFTI_VALUES_INT8 : WEFTI_VALUES_F32;
            users[r] = &runs[r];
        }
        run_ranks(4, 1, (wefti_wire_model){0, 0}, run_long, users, NULL);
        for (int r = 0; r < 4; r++) {
            assert_true(runs[r].seen == runs[0].seen);
            assert_true(runs[r].largest > 0.01f && runs[r].largest < 6);
        }
        if (form % 2) assert_true(runs[0].seen == seen[form / 2]);
        seen[form / 2] = runs[0].seen;
    }
    assert_true(seen[0] != seen[1]);
}
