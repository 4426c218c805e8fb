/* SPDX-License-Identifier: MIT */
/* signsgd and powersgd against docs/methods.md section 3 in double. */
#include <math.h>

#include "base/rng.h"
#include "replicas.h"

static trial trials[MAX_R];

static int sign_of(double x) { return (x > 0) - (x < 0); }

/* Rank 1 has no gradient in a part, so that some votes are ties of a minus and a plus. */
static void silence(int rank, int step, float *g) {
    if (rank == 1 && step < 3) memset(g, 0, VECTOR * sizeof *g);
}

TEST(signsgd_is_the_majority) {
    static double m[MAX_R][N];
    static trial like;
    like = (trial){.config = knobs("signsgd", 1, 4, true),
                   .kernels = wefti_kernels_find(NULL),
                   .edit = silence};
    for (int R = 1; R <= MAX_R; R++) {
        int ties = 0;
        run_alike(trials, R, &like);
        memset(m, 0, sizeof m);
        for (int step = 0; step < STEPS; step++) {
            for (int i = 0; i < N; i++) {
                int sum = 0;
                for (int r = 0; r < R; r++) {
                    m[r][i] = 0.9 * m[r][i] + 0.5 * (double)trials[r].gradient[step][i];
                    sum += sign_of(m[r][i]);
                    assert_true(fabs(m[r][i] - (double)trials[r].kept[step][i]) < 1e-5);
                }
                ties += sum == 0;
                assert_int_equal(sign_of(sum), (int)trials[R - 1].direction[step][i]);
            }
        }
        assert_true(R % 2 ? ties < STEPS * VECTOR : ties > STEPS * N / 4);
    }
}

/* One rank's overflow is everybody's: nobody applies a direction that another one does not have. */
static void spoil(int rank, int step, float *g) {
    if (rank == 1 && step >= 2) g[VECTOR / 2] = NAN;
}

TEST(a_sign_that_is_not_finite_reaches_all) {
    static trial like;
    like = (trial){.config = knobs("signsgd", 1, 4, true),
                   .kernels = wefti_kernels_find(NULL),
                   .edit = spoil};
    for (int R = 2; R <= MAX_R; R++) {
        run_alike(trials, R, &like);
        for (int r = 0; r < R; r++)
            for (int step = 0; step < STEPS; step++)
                assert_int_equal(isnan(trials[r].direction[step][VECTOR / 2]) != 0,
                                 step >= 2);
    }
}

/* What a rank alone is told of the small vector's last signs, SMALL = 9 * 5 + 3. */
static weft_status take_last_byte(rank_env *env) {
    trial *t = env->user;
    wefti_replicator *r;
    unsigned char in[(SMALL + 4) / 5] = {0};
    wefti_round round = {.bucket = 1, .x = t->direction[0]};
    in[sizeof in - 1] = (unsigned char)t->config.seed;
    WEFT_TRY(wefti_replicator_create(env->ctx, &t->config, t->kernels, env->replica,
                                     test_buckets, N_BUCKETS, &r));
    weft_status status = r->ops->add(r, &round, 0, in);
    wefti_replicator_destroy(r);
    return status;
}

/* Three signs are a byte below 27; 243 is what is not finite. No other byte is ever written,
 * so any other is a fault of the wire: it may not move a parameter. */
TEST(signsgd_refuses_a_byte_that_stands_for_more_signs) {
    for (int byte = 0; byte < 256; byte++) {
        void *users[] = {&trials[0]};
        weft_status status;
        trials[0] = (trial){.config = knobs("signsgd", 1, 4, true),
                            .kernels = wefti_kernels_find(NULL)};
        trials[0].config.seed = (uint64_t)byte;
        run_ranks(1, 1, (wefti_wire_model){0, 0}, take_last_byte, users, &status);
        assert_int_equal(status, byte < 27 || byte == 243 ? WEFT_OK : WEFT_ERR_WIRE);
    }
}

/* --- powersgd --- */

enum { K = 4 };

static void orthonormal(int n, double x[K][ROWS]) {
    for (int k = 0; k < K; k++) {
        double norm = 0;
        for (int turn = 0; turn < 2; turn++)
            for (int l = 0; l < k; l++) {
                double dot = 0;
                for (int i = 0; i < n; i++) dot += x[l][i] * x[k][i];
                for (int i = 0; i < n; i++) x[k][i] -= dot * x[l][i];
            }
        for (int i = 0; i < n; i++) norm += x[k][i] * x[k][i];
        for (int i = 0; i < n; i++) x[k][i] /= sqrt(norm);
    }
}

static double m[MAX_R][N], basis[K][COLS], left[K][ROWS], d[N];

static void exchange_matrix(int R) {
    memset(left, 0, sizeof left);
    for (int r = 0; r < R; r++)
        for (int k = 0; k < K; k++)
            for (int i = 0; i < ROWS; i++)
                for (int j = 0; j < COLS; j++)
                    left[k][i] += m[r][VECTOR + i * COLS + j] * basis[k][j] / R;
    orthonormal(ROWS, left);
    memset(basis, 0, sizeof basis);
    for (int r = 0; r < R; r++)
        for (int k = 0; k < K; k++)
            for (int i = 0; i < ROWS; i++)
                for (int j = 0; j < COLS; j++)
                    basis[k][j] += m[r][VECTOR + i * COLS + j] * left[k][i] / R;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            double *to = &d[VECTOR + i * COLS + j];
            *to = 0;
            for (int k = 0; k < K; k++) *to += left[k][i] * basis[k][j];
            for (int r = 0; r < R; r++) m[r][VECTOR + i * COLS + j] -= *to;
        }
}

static void exchange_whole(int R, int first, int n) {
    for (int i = first; i < first + n; i++) {
        d[i] = 0;
        for (int r = 0; r < R; r++) {
            d[i] += m[r][i] / R;
            m[r][i] = 0;
        }
    }
}

/* Numbers of size 1 to 10, sums of 70 of them in f32, five steps: 1e-3 is some hundred
 * roundings; another Q is off by 1. */
TEST(powersgd_is_its_definition) {
    for (int R = 1; R <= 3; R++) {
        wefti_replicator_config config = knobs("powersgd", 1, K, false);
        run_knobs(trials, R, &config);
        memset(m, 0, sizeof m);
        for (int k = 0; k < K; k++)
            for (int j = 0; j < COLS; j++)
                basis[k][j] = (double)(float)wefti_rng_normal(
                    config.seed, WEFTI_STREAM_SELECT, (uint64_t)k,
                    (uint64_t)1 << 32 | (uint64_t)j);
        for (int step = 0; step < STEPS; step++) {
            for (int r = 0; r < R; r++)
                for (int i = 0; i < N; i++)
                    m[r][i] = 0.9 * m[r][i] + 0.5 * (double)trials[r].gradient[step][i];
            exchange_matrix(R);
            exchange_whole(R, 0, VECTOR);
            exchange_whole(R, VECTOR + ROWS * COLS, SMALL);
            for (int i = 0; i < N; i++) {
                assert_true(fabs(d[i] - (double)trials[R - 1].direction[step][i]) < 1e-3);
                assert_true(fabs(m[0][i] - (double)trials[0].kept[step][i]) < 1e-3);
            }
        }
    }
}

/* beta = 1: sum of M + R times all directions is all that went in. */
TEST(powersgd_loses_nothing) {
    wefti_replicator_config config = knobs("powersgd", 1, K, false);
    config.compression_decay = 1;
    run_knobs(trials, 3, &config);
    for (int i = 0; i < N; i++) {
        double in = 0, out = 0;
        for (int r = 0; r < 3; r++) out += (double)trials[r].kept[STEPS - 1][i];
        for (int step = 0; step < STEPS; step++) {
            out += 3 * (double)trials[0].direction[step][i];
            for (int r = 0; r < 3; r++) in += 0.5 * (double)trials[r].gradient[step][i];
        }
        assert_true(fabs(in - out) < 1e-4);
    }
}

enum { GUEST_UNTIL = 3 };

static void third_is_guest(int rank, int step, float *g) {
    if (rank == 2 && step < GUEST_UNTIL) memset(g, 0, N * sizeof *g);
}

/* The others' directions are those that they would have without it, and it has the same. From
 * its first step on nothing is lost, and what it brings is what it got since. */
TEST(a_guest_of_powersgd_adds_nothing_before_it_takes_part) {
    static trial like;
    static float two[STEPS][N];
    wefti_replicator_config config = knobs("powersgd", 1, K, false);
    config.compression_decay = 1;
    run_knobs(trials, 2, &config);
    memcpy(two, trials[0].direction, sizeof two);
    like = (trial){.config = config,
                   .kernels = wefti_kernels_find(NULL),
                   .edit = third_is_guest,
                   .learners = 1,
                   .until = GUEST_UNTIL};
    run_alike(trials, 3, &like);
    for (int step = 0; step < STEPS; step++)
        for (int r = 0; r < 3; r++)
            assert_memory_equal(trials[r].direction[step],
                                step < GUEST_UNTIL ? two[step]
                                                   : trials[0].direction[step],
                                sizeof two[step]);
    for (int i = 0; i < N; i++) {
        double in = 0, out = 0;
        assert_true(trials[2].kept[GUEST_UNTIL - 1][i] == 0);
        for (int r = 0; r < 3; r++) {
            in += (double)trials[r].kept[GUEST_UNTIL - 1][i];
            out += (double)trials[r].kept[STEPS - 1][i];
        }
        for (int step = GUEST_UNTIL; step < STEPS; step++) {
            out += 3 * (double)trials[0].direction[step][i];
            for (int r = 0; r < 3; r++) in += 0.5 * (double)trials[r].gradient[step][i];
        }
        assert_true(fabs(in - out) < 1e-4);
    }
}

/* A matrix without gradient at first has no columns to agree on. */
static void silent_at_first(int rank, int step, float *g) {
    (void)rank;
    if (step < 2) memset(g, 0, N * sizeof *g);
}

TEST(powersgd_begins_when_there_is_a_gradient) {
    static trial like;
    int moved[STEPS] = {0};
    like = (trial){.config = knobs("powersgd", 1, K, false),
                   .kernels = wefti_kernels_find(NULL),
                   .edit = silent_at_first};
    run_alike(trials, 2, &like);
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < N; i++) {
            assert_true(isfinite(trials[0].direction[step][i]));
            moved[step] += trials[0].direction[step][i] != 0;
        }
    assert_int_equal(moved[0] + moved[1], 0);
    assert_true(moved[2] > N / 2 && moved[4] > N / 2);
}

/* One large column, and others a millionth of it that have to be told from it. */
static void nearly_one_column(int rank, int step, float *g) {
    (void)rank, (void)step;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            float *x = &g[VECTOR + i * COLS + j];
            *x = (float)((1 + i % 7) * (1 + j % 5)) + 1e-4f * *x;
        }
}

/* Columns made orthogonal in one pass are off by a rounding over what is left of them, 7e-3
 * here, and so is P P^T M: that times 17, the largest number of M, is 0.1. What four columns
 * leave of M is at most its normal numbers, here 5e-5 times 4. */
TEST(powersgd_tells_columns_apart_that_are_nearly_one) {
    static trial like;
    like = (trial){.config = knobs("powersgd", 1, K, false),
                   .kernels = wefti_kernels_find(NULL),
                   .edit = nearly_one_column};
    run_alike(trials, 1, &like);
    for (int i = VECTOR; i < VECTOR + ROWS * COLS; i++)
        assert_true(fabs((double)trials[0].kept[0][i]) < 1e-3);
}

/* A piece travels as two factors only if they are shorter: 4 (8 + 8) numbers are not shorter
 * than 8 x 8, and a second round would be one more. Of 8 x 9 they are, by 4. */
TEST(powersgd_sends_whole_what_factors_do_not_make_shorter) {
    static const struct {
        wefti_piece piece;
        int numbers[2];
    } cases[] = {{{8, 8, 0, true, 0}, {64, 0}},
                 {{8, 9, 0, true, 0}, {32, 36}},
                 {{9, 8, 0, true, 0}, {36, 32}},
                 {{4, 400, 0, true, 0}, {1600, 0}},
                 {{64, 1, 0, false, 0}, {64, 0}}};
    wefti_replicator_config config = knobs("powersgd", 1, K, false);
    const wefti_replicator_ops *ops = wefti_replicator_find("powersgd");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_bucket bucket = {1, &cases[i].piece,
                               cases[i].piece.rows * cases[i].piece.cols};
        for (int round = 0; round < 2; round++)
            assert_int_equal(ops->round_bytes(&config, &bucket, 2, round, 0),
                             WEFTI_FRAME_BYTES + 4 * cases[i].numbers[round]);
    }
}

/* Numbers of a rank of one: every column of M Q is a multiple of one, up to rounding. */
static void one_column(int rank, int step, float *g) {
    (void)rank, (void)step;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++)
            g[VECTOR + i * COLS + j] = (float)((1 + i % 7) * (1 + j % 5));
}

static float kept_basis[K * COLS];

static weft_status keep_basis(rank_env *env) {
    trial *t = env->user;
    wefti_replicator *r;
    WEFT_TRY(wefti_replicator_create(env->ctx, &t->config, t->kernels, env->replica,
                                     test_buckets, N_BUCKETS, &r));
    fill_gradient(t, 0, 0, t->gradient[0]);
    weft_status status = replicate_step(r, 0, t->gradient[0]);
    memcpy(kept_basis, r->state[1] + VECTOR, sizeof kept_basis);
    wefti_replicator_destroy(r);
    return status;
}

/* Columns of the basis after one step that are not zero. */
static int columns_kept(void (*edit)(int rank, int step, float *g)) {
    int n = 0;
    static trial t;
    void *users[] = {&t};
    t = (trial){.config = knobs("powersgd", 1, K, false),
                .kernels = wefti_kernels_find(NULL),
                .edit = edit};
    run_ranks(1, 1, (wefti_wire_model){0, 0}, keep_basis, users, NULL);
    for (int k = 0; k < K; k++) {
        bool any = false;
        for (int j = 0; j < COLS; j++) any |= kept_basis[k * COLS + j] != 0;
        n += any;
    }
    return n;
}

/* What rounding leaves of a column is none, and one is drawn in its place; what is a
 * ten-thousandth of the column before it is one. */
TEST(powersgd_keeps_as_many_columns_as_the_matrix_has) {
    assert_int_equal(columns_kept(one_column), 1);
    assert_int_equal(columns_kept(nearly_one_column), K);
}
