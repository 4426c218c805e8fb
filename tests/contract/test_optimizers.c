/* SPDX-License-Identifier: MIT */
/* What holds for every optimizer in the registry, and each against its formula in double. */
#include <math.h>

#include "check.h"
#include "optim/optimizer.h"

enum { N = 203 };

static const wefti_optimizer_config knobs = {
    .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};

typedef struct bench {
    float p[N], d[N], first[N], second[N];
    double moved;
} bench;

static void steps(const wefti_optimizer_ops *ops, bench *b, int n, float scale, bool decays) {
    float *state[2] = {b->first, b->second};
    fill_normal(1, N, b->p);
    memset(b->first, 0, sizeof b->first);
    memset(b->second, 0, sizeof b->second);
    for (int t = 1; t <= n; t++) {
        fill_normal(10 + (uint64_t)t, N, b->d);
        wefti_optimizer_step step = {t, 0.01f, scale};
        wefti_span span = {0, N, decays};
        b->moved = 0;
        ops->apply(&knobs, &wefti_kernels_reference, &step, &span, b->d, b->p, state,
                   &b->moved);
    }
}

static void a_span_changes_nothing_outside_itself(void **state) {
    (void)state;
    static bench b;
    for (int i = 0; wefti_optimizer_registry[i]; i++) {
        float *states[2] = {b.first, b.second}, before[N];
        fill_normal(1, N, b.p);
        fill_normal(2, N, b.d);
        memcpy(before, b.p, sizeof before);
        wefti_optimizer_step step = {1, 0.01f, 1};
        wefti_span span = {50, 100, true};
        wefti_optimizer_registry[i]->apply(&knobs, &wefti_kernels_reference, &step, &span,
                                           b.d, b.p, states, &b.moved);
        assert_memory_equal(before, b.p, 50 * sizeof(float));
        assert_memory_equal(before + 150, b.p + 150, 53 * sizeof(float));
        for (int j = 50; j < 150; j++) assert_true(before[j] != b.p[j]);
    }
}

static void moved_is_the_squared_norm_of_the_change(void **state) {
    (void)state;
    static bench before, after;
    for (int i = 0; wefti_optimizer_registry[i]; i++) {
        steps(wefti_optimizer_registry[i], &before, 4, 1, true);
        steps(wefti_optimizer_registry[i], &after, 5, 1, true);
        double sum = 0;
        for (int j = 0; j < N; j++)
            sum += pow((double)after.p[j] - (double)before.p[j], 2);
        assert_true(fabs(sum - after.moved) < 1e-4 * sum); /* p is f32, the change not */
    }
}

static void decay_acts_only_where_it_is_asked_for(void **state) {
    (void)state;
    static bench with, without;
    for (int i = 0; wefti_optimizer_registry[i]; i++) {
        steps(wefti_optimizer_registry[i], &with, 1, 1, true);
        steps(wefti_optimizer_registry[i], &without, 1, 1, false);
        float start[N];
        fill_normal(1, N, start);
        for (int j = 0; j < N; j++) {
            float shrunk = without.p[j] - 0.01f * 0.1f * start[j];
            assert_true(fabsf(with.p[j] - shrunk) < 1e-6f * (1 + fabsf(shrunk)));
        }
    }
}

static void adamw_is_its_formula(void **state) {
    (void)state;
    static bench b;
    steps(wefti_optimizer_find("adamw"), &b, 7, 0.5f, true);
    float p0[N], g[7][N];
    fill_normal(1, N, p0);
    for (int t = 0; t < 7; t++) fill_normal(11 + (uint64_t)t, N, g[t]);
    for (int j = 0; j < N; j++) {
        double p = (double)p0[j], m = 0, v = 0;
        for (int t = 1; t <= 7; t++) {
            double grad = 0.5 * (double)g[t - 1][j];
            m = 0.9 * m + 0.1 * grad;
            v = 0.95 * v + 0.05 * grad * grad;
            double update = m / (1 - pow(0.9, t)) / (sqrt(v / (1 - pow(0.95, t))) + 1e-8);
            p = p - 0.01 * 0.1 * p - 0.01 * update;
        }
        assert_true(fabs(p - (double)b.p[j]) < 1e-5);
    }
}

static void sgd_is_its_formula(void **state) {
    (void)state;
    static bench b;
    steps(wefti_optimizer_find("sgd"), &b, 1, 0.5f, true);
    float p0[N], d[N];
    fill_normal(1, N, p0);
    fill_normal(11, N, d);
    for (int j = 0; j < N; j++) {
        double p = (double)p0[j] * (1 - 0.01 * 0.1) - 0.01 * 0.5 * (double)d[j];
        assert_true(fabs(p - (double)b.p[j]) < 1e-6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_span_changes_nothing_outside_itself),
        cmocka_unit_test(moved_is_the_squared_norm_of_the_change),
        cmocka_unit_test(decay_acts_only_where_it_is_asked_for),
        cmocka_unit_test(adamw_is_its_formula),
        cmocka_unit_test(sgd_is_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
