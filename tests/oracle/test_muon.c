/* SPDX-License-Identifier: MIT */
/* Muon against its definition in double (docs/methods.md section 5), for every shape,
 * scale, polynomial and cheap form, on 1 to 3 ranks that share the matrices' rows.
 *
 * Rounding: with singular values from 0 to 1 the polynomials enlarge an error by at most
 * their slope at 0, 3.4445^5 = 485 and for the Polar Express 1600; an f32 iteration adds
 * about n u per product. 1600 * 100 * 2^-24 is 1e-2; what is seen is below 1e-3. */
#include <math.h>
#include <stdlib.h>

#include "optim/matrices.h"
#include "ranks.h"
#include "optim/orthogonal.h"
#include "reference/reference.h"

enum { STEPS = 5, MAX_S = 3, N_MATRICES = 4, MOST = 4096, LARGEST = 210 * 210 };

static const int64_t shapes[N_MATRICES][3] = {/* rows, cols, parts */
                                              {7, 20, 1},
                                              {24, 10, 1},
                                              {9, 27, 3},
                                              {1, 5, 1}};

typedef struct run {
    wefti_optimizer_config config;
    int S;
    bool cols_are_outputs;
    float p[MOST], m[MOST]; /* by tensor: all rows */
    double moved;
} run;

static const float scale = 0.5f;
static float lr_of(int step) { return 0.02f + 0.001f * (float)step; }

static int64_t first_of(int i) {
    int64_t at = 0;
    for (int k = 0; k < i; k++) at += shapes[k][0] * shapes[k][1];
    return at;
}

static void direction(int step, float *d) { fill_normal(10 + (uint64_t)step, MOST, d); }

typedef struct member {
    run *all;
    double moved;
} member;

/* One rank's rows of every matrix, one after another. */
static weft_status move(rank_env *env) {
    member *me = env->user;
    run *it = me->all;
    wefti_matrix matrices[N_MATRICES];
    wefti_optimizer_rule rule = {wefti_optimizer_find("muon"), it->config, 2},
                         free = rule;
    const wefti_optimizer_rule *rules[N_MATRICES] = {&rule, &free, &rule, &rule};
    float p[MOST], m[MOST], d[MOST], all[MOST];
    int64_t at = 0, S = it->S, s = env->shard->rank;
    free.config.weight_decay = 0;
    for (int i = 0; i < N_MATRICES; i++) {
        int64_t rows = shapes[i][0], cols = shapes[i][1], begin = rows * s / S;
        int64_t n = rows * (s + 1) / S - begin;
        matrices[i] = (wefti_matrix){.rows = rows,
                                     .cols = cols,
                                     .n_rows = n,
                                     .offset = at,
                                     .parts = (int)shapes[i][2],
                                     .cols_are_outputs = it->cols_are_outputs};
        memcpy(p + at, it->p + first_of(i) + begin * cols,
               (size_t)(n * cols) * sizeof *p);
        at += n * cols;
    }
    memset(m, 0, sizeof m);
    WEFT_TRY(wefti_comm_barrier(env->shard, 1000)); /* it->p has been read by all */
    wefti_matrix_list list = {N_MATRICES, matrices, rules};
    wefti_matrices *w;
    WEFT_TRY(wefti_matrices_create(env->ctx, &wefti_kernels_reference, env->shard, &list,
                                   1, &w));
    int64_t held = weft_ctx_allocations(env->ctx);
    weft_status status = WEFT_OK;
    for (int t = 0; t < STEPS && status == WEFT_OK; t++) {
        direction(t, all);
        for (int i = 0; i < N_MATRICES; i++)
            memcpy(d + matrices[i].offset,
                   all + first_of(i) + shapes[i][0] * s / S * shapes[i][1],
                   (size_t)(matrices[i].n_rows * shapes[i][1]) * sizeof *d);
        wefti_matrices_step step = {t, {t + 1, lr_of(t), scale}, d, p, m};
        status = wefti_matrices_apply(w, 0, &step, &me->moved);
    }
    if (status == WEFT_OK && s > 0 && weft_ctx_allocations(env->ctx) != held)
        status = WEFT_ERR_INTERNAL;
    for (int i = 0; i < N_MATRICES; i++) {
        int64_t to = first_of(i) + shapes[i][0] * s / S * shapes[i][1];
        size_t n_bytes = (size_t)(matrices[i].n_rows * shapes[i][1]) * sizeof *p;
        memcpy(it->p + to, p + matrices[i].offset, n_bytes);
        memcpy(it->m + to, m + matrices[i].offset, n_bytes);
    }
    if (status == WEFT_OK) status = wefti_comm_barrier(env->shard, 1001);
    wefti_matrices_destroy(w);
    return status;
}

static void run_library(run *it) {
    member members[MAX_S];
    void *users[MAX_S];
    fill_normal(1, MOST, it->p);
    for (int s = 0; s < it->S; s++) {
        members[s] = (member){.all = it};
        users[s] = &members[s];
    }
    run_ranks(1, it->S, (wefti_wire_model){0, 0}, move, users, NULL);
    it->moved = 0;
    for (int s = 0; s < it->S; s++) it->moved += members[s].moved;
}

/* -- the definition -- */

static const double quintic[3] = {3.4445, -4.7750, 2.0315};
static const double polar[5][3] = {
    {8.156554524902461, -22.48329292557795, 15.878769915207462},
    {4.042929935166739, -2.808917465908714, 0.5000178451051316},
    {3.8916678022926607, -2.772484153217685, 0.5060648178503393},
    {3.285753657755655, -2.3681294933425376, 0.46449024233003106},
    {2.3465413258596377, -1.7097828382687081, 0.42323551169305323}};

/* c[n, m] = a[n, k] b[k, m] */
static void product(int n, int k, int m, const double *a, const double *b, double *c) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < m; j++) {
            c[i * m + j] = 0;
            for (int l = 0; l < k; l++) c[i * m + j] += a[i * k + l] * b[l * m + j];
        }
}

/* x <- a x + (b A + c A A) x, A = x x^T: tall matrices too, which costs only time. */
static void orthogonalize(bool is_polar, int rows, int cols, double *x) {
    static double t[LARGEST], A[LARGEST], AA[LARGEST], y[LARGEST];
    double norm = 0;
    for (int i = 0; i < rows * cols; i++) norm += x[i] * x[i];
    norm = is_polar ? 1.02 * sqrt(norm) + 1e-6 : sqrt(norm) + 1e-7;
    for (int i = 0; i < rows * cols; i++) x[i] /= norm;
    for (int turn = 0; turn < 5; turn++) {
        const double *abc = is_polar ? polar[turn] : quintic;
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < cols; j++) t[j * rows + i] = x[i * cols + j];
        product(rows, cols, rows, x, t, A);
        product(rows, rows, rows, A, A, AA);
        for (int i = 0; i < rows * rows; i++) A[i] = abc[1] * A[i] + abc[2] * AA[i];
        product(rows, rows, cols, A, x, y);
        for (int i = 0; i < rows * cols; i++) x[i] = abc[0] * x[i] + y[i];
    }
}

static double scale_for(const run *it, int i, int turned) {
    double rows = (double)shapes[i][0], cols = (double)(shapes[i][1] / shapes[i][2]);
    double ratio = it->cols_are_outputs ? cols / rows : rows / cols;
    if (it->config.adjust == WEFTI_ADJUST_ORIGINAL) return sqrt(fmax(1, ratio));
    if (it->config.adjust == WEFTI_ADJUST_SPECTRAL) return sqrt(ratio);
    return 0.2 * sqrt(fmax(turned, cols));
}

/* Which of rows [begin, end) take part: those with the largest sums of magnitudes. */
static int chosen_rows(const run *it, int begin, int end, int cols, const double *m,
                       int *rows) {
    int n = end - begin, wanted = (int)ceil(it->config.rows * n), found = 0;
    for (int r = begin; r < end; r++) {
        int larger = 0;
        for (int o = begin; o < end; o++) {
            double mine = 0, other = 0;
            for (int c = 0; c < cols; c++) {
                mine += fabs(m[r * cols + c]);
                other += fabs(m[o * cols + c]);
            }
            larger += other > mine;
        }
        if (larger < wanted) rows[found++] = r;
    }
    return found;
}

/* p of the rows that take part moves along what they are turned into, all at once. */
static void turn_rows(const run *it, int i, int n, const int *rows, const double *u,
                      double lr, double *p) {
    static double x[MOST];
    int cols = (int)shapes[i][1], part = cols / (int)shapes[i][2];
    for (int k = 0; k < shapes[i][2]; k++) {
        for (int r = 0; r < n; r++)
            for (int c = 0; c < part; c++)
                x[r * part + c] = u[rows[r] * cols + k * part + c];
        orthogonalize(it->config.polynomial == WEFTI_POLYNOMIAL_POLAR, n, part, x);
        for (int r = 0; r < n; r++)
            for (int c = 0; c < part; c++)
                p[rows[r] * cols + k * part + c] -= lr * scale_for(it, i, n) *
                                                    x[r * part + c];
    }
}

static void one_step(const run *it, int i, int t, double *m, double *p) {
    static float d[MOST];
    static double u[MOST];
    int rows = (int)shapes[i][0], cols = (int)shapes[i][1], S = it->S;
    double b = it->config.momentum, lr = 2 * (double)lr_of(t);
    static int turned[MOST];
    int n = 0;
    bool some = it->config.rows < 1, whole = t % it->config.whole_every == 0;
    direction(t, d);
    for (int j = 0; j < rows * cols; j++) {
        double g = 0.5 * (double)d[first_of(i) + j];
        m[j] = some ? m[j] + g : b * m[j] + (1 - b) * g;
        u[j] = !some && it->config.nesterov ? (1 - b) * g + b * m[j] : m[j];
        if (i != 1) p[j] -= lr * it->config.weight_decay * p[j];
    }
    for (int s = 0; s < S; s++) {
        int begin = rows * s / S, end = rows * (s + 1) / S;
        int mine = chosen_rows(it, begin, end, cols, u, turned + n);
        if (!whole) turn_rows(it, i, mine, turned + n, u, lr, p);
        n += mine;
    }
    if (whole) turn_rows(it, i, n, turned, u, lr, p);
    for (int r = 0; r < n && some; r++)
        for (int c = 0; c < cols; c++) m[turned[r] * cols + c] *= b;
}

static void check(run *it) {
    static float start[MOST];
    static double m[MOST], p[MOST];
    run_library(it);
    fill_normal(1, MOST, start);
    for (int i = 0; i < N_MATRICES; i++) {
        int64_t n = shapes[i][0] * shapes[i][1], at = first_of(i);
        for (int64_t j = 0; j < n; j++) m[j] = 0, p[j] = (double)start[at + j];
        for (int t = 0; t < STEPS; t++) one_step(it, i, t, m, p);
        for (int64_t j = 0; j < n; j++) {
            assert_true(fabs((double)it->m[at + j] - m[j]) < 1e-5);
            assert_true(fabs((double)it->p[at + j] - p[j]) < 1e-3 * 0.2);
        }
    }
}

static const wefti_optimizer_config plain = {
    .weight_decay = 0.1, .momentum = 0.95, .nesterov = true, .rows = 1, .whole_every = 1};

TEST(it_is_the_formula_on_any_number_of_ranks) {
    static run it;
    for (int form = 0; form < 12; form++) {
        it = (run){.config = plain, .S = 1 + form % 3, .cols_are_outputs = form % 2};
        it.config.adjust = (wefti_adjust)(form % 3);
        it.config.nesterov = form % 4 < 2;
        it.config.polynomial = form < 6 ? WEFTI_POLYNOMIAL_QUINTIC
                                        : WEFTI_POLYNOMIAL_POLAR;
        check(&it);
    }
}

TEST(the_cheap_forms_are_their_formulas) {
    static run it;
    for (int form = 0; form < 6; form++) {
        it = (run){.config = plain, .S = 1 + form % 3};
        it.config.rows = form < 3 ? 0.25 : 1;
        it.config.whole_every = form < 3 ? 1 : 3;
        check(&it);
    }
    it = (run){.config = plain, .S = 2};
    it.config.rows = 0.5;
    it.config.whole_every = 2;
    check(&it);
}

/* Products of the same shapes in the same order: to the bit. */
TEST(ranks_that_share_matrices_are_one_rank) {
    static run one, many;
    one = (run){.config = plain, .S = 1};
    run_library(&one);
    for (int S = 2; S <= MAX_S; S++) {
        many = (run){.config = plain, .S = S};
        run_library(&many);
        int64_t n = first_of(N_MATRICES);
        assert_memory_equal(one.p, many.p, (size_t)n * sizeof(float));
        assert_memory_equal(one.m, many.m, (size_t)n * sizeof(float));
        assert_true(fabs(one.moved - many.moved) < 1e-9 * one.moved);
    }
}

/* What torch.optim.Muon (2.15, lr 0.02, weight_decay 0.1, nesterov) makes of p_i =
 * cos(0.37 i) in three steps t along g_i = sin(0.71 i^2 + 0.9 t + 0.3), with its iteration
 * in f32. In its own bf16 it gives elements up to 0.0004 away from these. */
static const float torch_original[5 * 8] = {
    0.971931f,  0.908342f,  0.745968f,  0.419331f,  0.099047f,  -0.261299f, -0.615048f,
    -0.826559f, -0.986867f, -0.993015f, -0.851327f, -0.568484f, -0.286454f, 0.073021f,
    0.430173f,  0.752066f,  0.914912f,  1.007321f,  0.95366f,   0.743925f,  0.409168f,
    0.089025f,  -0.266115f, -0.601609f, -0.866356f, -0.961485f, -0.970937f, -0.837855f,
    -0.561194f, -0.276847f, 0.114482f,  0.47965f,   0.755479f,  0.918423f,  1.019519f,
    0.9329f,    0.737409f,  0.441484f,  0.061113f,  -0.287192f};
static const float torch_match_rms[8 * 3] = {
    0.984953f,  0.913635f,  0.741585f,  0.427208f,  0.094531f,  -0.274443f,
    -0.616252f, -0.832377f, -0.985758f, -0.989256f, -0.846169f, -0.582455f,
    -0.275565f, 0.082769f,  0.432734f,  0.743525f,  0.925037f,  1.006577f,
    0.937551f,  0.733876f,  0.4246f,    0.08471f,   -0.269367f, -0.600623f};

static void check_torch(wefti_adjust adjust, int64_t rows, int64_t cols,
                        const float *want) {
    weft_ctx *ctx;
    float p[40], d[40], m[40] = {0};
    wefti_matrix matrix = {.rows = rows, .cols = cols, .n_rows = rows, .parts = 1};
    wefti_optimizer_rule rule = {wefti_optimizer_find("muon"), plain, 1};
    const wefti_optimizer_rule *rules[] = {&rule};
    wefti_matrix_list list = {1, &matrix, rules};
    wefti_matrices *w;
    double moved = 0;
    rule.config.adjust = adjust;
    assert_int_equal(ctx_begin(&ctx), 0);
    assert_ok(ctx,
              wefti_matrices_create(ctx, &wefti_kernels_reference, NULL, &list, 1, &w));
    for (int i = 0; i < rows * cols; i++) p[i] = (float)cos(0.37 * i);
    for (int t = 0; t < 3; t++) {
        for (int i = 0; i < rows * cols; i++)
            d[i] = (float)sin(0.71 * i * i + 0.9 * t + 0.3);
        wefti_matrices_step step = {t, {t + 1, 0.02f, 1}, d, p, m};
        assert_ok(ctx, wefti_matrices_apply(w, 0, &step, &moved));
    }
    for (int i = 0; i < rows * cols; i++) assert_true(fabsf(p[i] - want[i]) < 2e-5f);
    wefti_matrices_destroy(w);
    assert_int_equal(ctx_end(ctx), 0);
}

TEST(it_is_torchs) {
    check_torch(WEFTI_ADJUST_ORIGINAL, 5, 8, torch_original);
    check_torch(WEFTI_ADJUST_MATCH_RMS, 8, 3, torch_match_rms);
}

/* Singular values end near 1 for wide, tall and square matrices, and zeros stay. */
TEST(rows_become_orthonormal) {
    static const int64_t sizes[][2] = {{8, 40}, {40, 8}, {3, 3}, {1, 9}};
    for (int i = 0; i < 8; i++) {
        int64_t rows = sizes[i / 2][0], cols = sizes[i / 2][1];
        int64_t m = rows < cols ? rows : cols;
        float x[512], scratch[2048];
        assert_true(wefti_orthogonal_scratch(rows, cols) <= 2048);
        fill_normal(3, rows * cols, x);
        wefti_orthogonalize(&wefti_kernels_reference, (wefti_polynomial)(i % 2), rows,
                            cols, x, scratch);
        double sum = wefti_kernels_reference.sum_squares(rows * cols, x);
        assert_true(sum > 0.45 * (double)m && sum < 1.4 * (double)m);
        memset(x, 0, sizeof x);
        wefti_orthogonalize(&wefti_kernels_reference, (wefti_polynomial)(i % 2), rows,
                            cols, x, scratch);
        for (int j = 0; j < 512; j++) assert_true(x[j] == 0);
    }
}

/* A symmetric product is computed in strips of at least 96 rows, of which the last one is shorter
 * here. That must be the whole product. */
TEST(strips_are_the_whole_matrix) {
    static const int sizes[][2] = {{130, 210}, {210, 130}, {97, 97}};
    static float x[LARGEST], scratch[4 * LARGEST];
    static double exact[LARGEST];
    for (int i = 0; i < 6; i++) {
        int rows = sizes[i / 2][0], cols = sizes[i / 2][1], n = rows * cols;
        assert_true(wefti_orthogonal_scratch(rows, cols) <= 4 * LARGEST);
        fill_normal(5, n, x);
        for (int k = 0; k < n; k++) exact[k] = (double)x[k];
        wefti_orthogonalize(&wefti_kernels_reference, (wefti_polynomial)(i % 2), rows,
                            cols, x, scratch);
        orthogonalize(i % 2, rows, cols, exact);
        for (int k = 0; k < n; k++) assert_true(fabs((double)x[k] - exact[k]) < 1e-5);
    }
}

/* Of 192 rows in two strips the upper right quarter is not computed: 3/4 of two products. */
TEST(flop_are_those_of_the_strips) {
    assert_true(wefti_orthogonal_flop(192, 200) ==
                10 * (0.75 * 192 * 192 * (200 + 192) + 192.0 * 192 * 200));
    assert_true(wefti_orthogonal_flop(200, 192) == wefti_orthogonal_flop(192, 200));
    assert_true(wefti_orthogonal_flop(0, 5) == 0);
}

/* Every FLOP has one owner, and none has more than its share and one matrix: the next one goes to
 * the rank with the least so far. A product of m x n, m the smaller, takes 5 (4 m^2 n + 2 m^3)
 * where the symmetric ones are a single strip. */
TEST(turning_is_dealt_out_evenly) {
    static const int64_t shapes_of[][3] = {{12, 36, 3}, {12, 12, 1}, {48, 12, 1},
                                           {12, 48, 1}, {12, 36, 3}, {12, 12, 1},
                                           {48, 12, 1}, {12, 48, 1}};
    enum { MANY = 8 };
    wefti_optimizer_rule rule = {
        wefti_optimizer_find("muon"), {.rows = 1, .whole_every = 1}, 1};
    const wefti_optimizer_rule *rules[MANY];
    wefti_matrix matrices[MANY];
    double all = 0, largest = 0;
    for (int i = 0; i < MANY; i++) {
        double part = (double)(shapes_of[i][1] / shapes_of[i][2]);
        double m = fmin((double)shapes_of[i][0], part),
               n = fmax((double)shapes_of[i][0], part);
        double flop = 5 * (4 * m * m * n + 2 * m * m * m) * (double)shapes_of[i][2];
        rules[i] = &rule;
        matrices[i] = (wefti_matrix){.rows = shapes_of[i][0],
                                     .cols = shapes_of[i][1],
                                     .parts = (int)shapes_of[i][2]};
        all += flop;
        largest = fmax(largest, flop);
    }
    wefti_matrix_list list = {MANY, matrices, rules};
    for (int S = 1; S <= 9; S++) {
        double sum = 0;
        for (int s = 0; s < S; s++) {
            double flop = wefti_matrices_flop(&list, S, s);
            assert_true(flop <= all / S + largest);
            sum += flop;
        }
        assert_true(fabs(sum - all) < 1e-9 * all);
    }
}

/* Of rows as large as each other the first ones move, but never one in the place of a larger
 * one; a row that is not finite is larger than all, so that the loss shows it. */
TEST(the_largest_rows_are_taken_ties_to_the_first) {
    static const float directions[][8] = {{1, 1, 2, 2, 1, -1, -2, 2},
                                          {1, 1, NAN, 0, 5, 5, 0, 0}};
    static const int32_t taken[][3] = {{0, 1, 3}, {0, 1, 2}};
    const wefti_matrix_ops *ops = wefti_optimizer_find("muon")->matrix;
    const wefti_optimizer_config config = {.rows = 0.5, .momentum = 0.5};
    const wefti_matrix matrix = {.rows = 4, .cols = 2, .n_rows = 4, .parts = 1};
    for (int i = 0; i < 2; i++)
        for (int n = i ? 2 : 3; n <= 3; n++) {
            float m[8] = {0}, u[8];
            double sizes[4];
            int32_t rows[4];
            wefti_turned t = {.matrix = &matrix, .n = n, .rows = rows, .u = u};
            ops->take(&config, 1, directions[i], m, sizes, &t);
            for (int k = 0; k < n; k++)
                assert_int_equal(rows[k], n == 3 ? taken[i][k] : k + 1);
        }
}
