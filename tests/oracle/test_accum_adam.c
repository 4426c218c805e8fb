/* SPDX-License-Identifier: MIT */
/* A second opinion on AccumAdam (docs/methods.md, section 5), in double and element by
 * element, over 200 steps of random gradients; and what it is when K = 1. */
#include <math.h>

#include "check.h"
#include "optim/optimizer.h"
#include "reference/reference.h"

enum { N = 67, STEPS = 200 };

static const double lr = 0.01, beta1 = 0.9, beta2 = 0.98, eps = 1e-8, lambda = 0.1;

/* One parameter as the method keeps it. */
typedef struct opinion {
    double x, M, V, a;
    int s; /* steps taken */
} opinion;

static void opinion_step(opinion *o, double g, int K, bool coupled) {
    o->s++;
    if (coupled)
        g += lambda * o->x;
    else
        o->x *= 1 - lr * lambda;
    o->a += g / K;
    double m = o->M + (1 - beta1) * g, v = o->V + (1 - beta2) * g * g;
    int k = (o->s + K - 1) / K;
    double root = sqrt(v) / sqrt(1 - pow(beta2, k)) + eps;
    o->x -= lr / (1 - pow(beta1, k)) * m / root;
    if (o->s % K != 0) return;
    o->M = beta1 * (o->M + (1 - beta1) * o->a);
    o->V = beta2 * (o->V + (1 - beta2) * o->a * o->a);
    o->a = 0;
}

/* Gradients of several sizes, a few of them zero; a function of step and element. */
static void gradients(int step, float *g) {
    fill_normal(1000 + (uint64_t)step, N, g);
    for (int j = 0; j < N; j++) {
        if ((j + step) % 29 == 0) g[j] = 0;
        g[j] *= j % 3 == 0 ? 100 : j % 3 == 1 ? 1 : 0.01f;
    }
}

typedef struct run {
    float p[N], g[N], state[WEFTI_OPTIMIZER_STATES][N];
} run;

static void begin(run *r) {
    memset(r, 0, sizeof *r);
    fill_normal(5, N, r->p);
}

static void take(run *r, const char *name, int64_t K, const wefti_kernels *kernels,
                 int step) {
    wefti_optimizer_config config = {.beta1 = beta1,
                                     .beta2 = beta2,
                                     .eps = eps,
                                     .weight_decay = lambda,
                                     .accumulate = K};
    wefti_optimizer_step s = {step, (float)lr, 1};
    wefti_span span = {0, N, true};
    float *states[WEFTI_OPTIMIZER_STATES];
    for (int i = 0; i < WEFTI_OPTIMIZER_STATES; i++) states[i] = r->state[i];
    double moved = 0;
    gradients(step, r->g);
    wefti_optimizer_find(name)->apply(&config, kernels, &s, &span, r->g, r->p, states,
                                      &moved);
}

static double largest(int n, const float *x) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Errors of f32, in roundings u = 2^-24. In a step a parameter is rounded once, and its
 * change is wrong by at most 30 u of lr (roundings of m, v, root and quotient; betas that
 * are rounded themselves). Coupled decay feeds errors back, times lr lambda at most 10:
 * nothing against the sum over all steps. A moment is wrong by few u of the largest
 * gradient (or its square) for each of the 1/(1 - beta) steps it remembers. */
static void compare(const run *r, const opinion *o, int step, double size) {
    const double u = 0x1p-24;
    for (int j = 0; j < N; j++) {
        double error = u * step * (fabs(o[j].x) + 1 + 30 * lr);
        assert_true(fabs((double)r->p[j] - o[j].x) <= error);
        assert_true(fabs((double)r->state[0][j] - o[j].M) <= 40 * u * size);
        assert_true(fabs((double)r->state[1][j] - o[j].V) <= 200 * u * size * size);
        assert_true(fabs((double)r->state[2][j] - o[j].a) <= 40 * u * size);
    }
}

static void check(const char *name, int K, bool coupled, const wefti_kernels *kernels) {
    static run r;
    opinion o[N] = {{0}};
    double size = 0;
    begin(&r);
    for (int j = 0; j < N; j++) o[j].x = (double)r.p[j];
    for (int step = 1; step <= STEPS; step++) {
        take(&r, name, K, kernels, step);
        size = fmax(size, largest(N, r.g));
        for (int j = 0; j < N; j++) opinion_step(&o[j], (double)r.g[j], K, coupled);
        compare(&r, o, step, size);
        for (int j = 0; j < N && step % K == 0; j++) assert_true(r.state[2][j] == 0);
    }
}

static void check_all_tables(const char *name, bool coupled) {
    static const int periods[] = {1, 4, 8};
    for (const char *const *table = test_kernels_names(); *table; table++)
        for (int i = 0; i < 3; i++)
            check(name, periods[i], coupled, test_kernels_find(*table));
}

TEST(accum_adamw_is_the_method_with_decoupled_decay) {
    check_all_tables("accum_adamw", false);
}

TEST(accum_adam_is_the_method_with_coupled_decay) {
    check_all_tables("accum_adam", true);
}

/* The closed form for K = 1: a = g, so M = beta1 m and V = beta2 v, where m and v are
 * Adam's moments, and k = s. All is Adam but for roundings (of double, here). */
TEST(the_method_with_k_1_is_adam_to_rounding) {
    float g[N], p[N];
    fill_normal(5, N, p);
    for (int coupled = 0; coupled < 2; coupled++) {
        opinion o[N] = {{0}};
        double x[N], m[N] = {0}, v[N] = {0};
        for (int j = 0; j < N; j++) x[j] = o[j].x = (double)p[j];
        for (int t = 1; t <= STEPS; t++) {
            gradients(t, g);
            for (int j = 0; j < N; j++) {
                double grad = (double)g[j] + (coupled ? lambda * x[j] : 0);
                m[j] = beta1 * m[j] + (1 - beta1) * grad;
                v[j] = beta2 * v[j] + (1 - beta2) * grad * grad;
                double root = sqrt(v[j] / (1 - pow(beta2, t))) + eps;
                x[j] -= coupled ? 0 : lr * lambda * x[j];
                x[j] -= lr * m[j] / (1 - pow(beta1, t)) / root;
                opinion_step(&o[j], (double)g[j], 1, coupled);
                assert_true(fabs(o[j].x - x[j]) < 1e-12);
                assert_true(fabs(o[j].M - beta1 * m[j]) <= 1e-13 * largest(N, g));
                assert_true(fabs(o[j].V - beta2 * v[j]) <= 1e-9);
            }
        }
    }
}

/* In f32 they differ, by the roundings of moments that are stored a factor apart. */
TEST(accum_with_k_1_and_adam_stay_within_rounding) {
    static const char *const pairs[][2] = {{"accum_adam", "adam"},
                                           {"accum_adamw", "adamw"}};
    static run accum, plain;
    for (int i = 0; i < 2; i++) {
        begin(&accum), begin(&plain);
        for (int step = 1; step <= STEPS; step++) {
            take(&accum, pairs[i][0], 1, &wefti_kernels_reference, step);
            take(&plain, pairs[i][1], 1, &wefti_kernels_reference, step);
            for (int j = 0; j < N; j++)
                assert_true(fabs((double)accum.p[j] - (double)plain.p[j]) <=
                            0x1p-23 * step * (1 + fabs((double)plain.p[j])));
        }
        assert_true(largest(N, accum.state[2]) == 0);
    }
}

/* And with K > 1 it is something else: what is checked above is not checked by adam. */
TEST(accum_with_k_4_is_not_adam) {
    static run accum, plain;
    double apart = 0;
    begin(&accum), begin(&plain);
    for (int step = 1; step <= 20; step++) {
        take(&accum, "accum_adamw", 4, &wefti_kernels_reference, step);
        take(&plain, "adamw", 4, &wefti_kernels_reference, step);
    }
    for (int j = 0; j < N; j++)
        apart = fmax(apart, fabs((double)accum.p[j] - (double)plain.p[j]));
    assert_true(apart > lr);
}
