/* SPDX-License-Identifier: MIT */
/* What holds for every optimizer in the registry, and the plain ones against their
 * formulas in double (the accumulating ones: tests/oracle/test_accum_adam.c). */
#include <math.h>

#include "check.h"
#include "optim/optimizer.h"
#include "reference/reference.h"

enum { N = 203, STATES = WEFTI_OPTIMIZER_STATES };

static const wefti_optimizer_config knobs = {
    .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1, .accumulate = 3};
static const wefti_span whole = {0, N, true}, undecayed = {0, N, false};
static const wefti_kernels *const ref = &wefti_kernels_reference;

typedef struct bench {
    float p[N], d[N], state[STATES][N];
    double moved;
} bench;

/* Where a run begins: states are zero. */
static void begin(bench *b) {
    memset(b, 0, sizeof *b);
    fill_normal(1, N, b->p);
}

/* Step t from 1 along a direction that depends on t. */
static void take(const wefti_optimizer_ops *ops, const wefti_optimizer_config *config,
                 const wefti_kernels *kernels, bench *b, int t, const wefti_span *span) {
    float *states[STATES];
    for (int i = 0; i < STATES; i++) states[i] = b->state[i];
    fill_normal(10 + (uint64_t)t, N, b->d);
    wefti_optimizer_step step = {t, 0.01f, 0.5f};
    b->moved = 0;
    ops->apply(config, kernels, &step, span, b->d, b->p, states, &b->moved);
}

static void steps(const wefti_optimizer_ops *ops, bench *b, int n) {
    begin(b);
    for (int t = 1; t <= n; t++) take(ops, &knobs, ref, b, t, &whole);
}

static void assert_same(const bench *a, const bench *b) {
    assert_memory_equal(a->p, b->p, sizeof a->p);
    assert_memory_equal(a->state, b->state, sizeof a->state);
    assert_true(a->moved == b->moved);
}

TEST(a_row_of_the_table_is_whole) {
    const wefti_optimizer_ops *ops;
    for (int o = 0; (ops = wefti_optimizer_registry[o]); o++) {
        assert_ptr_equal(wefti_optimizer_find(ops->name), ops);
        assert_in_range(ops->n_states, 0, STATES);
        for (int i = 0; i < ops->n_states; i++)
            for (int j = 0; j < i; j++)
                assert_string_not_equal(ops->state_names[i], ops->state_names[j]);
        double bytes = ops->traffic(&knobs); /* p is written, all else at most that */
        assert_true(bytes >= 12 && bytes <= 12 + 8 * ops->n_states);
    }
    assert_null(wefti_optimizer_find("adamx"));
}

TEST(a_span_changes_nothing_outside_itself) {
    const wefti_optimizer_ops *ops;
    static bench before, b;
    const wefti_span middle = {50, 100, true};
    for (int o = 0; (ops = wefti_optimizer_registry[o]); o++) {
        steps(ops, &before, 1);
        b = before;
        for (int t = 2; t <= 4; t++) take(ops, &knobs, ref, &b, t, &middle);
        for (int i = 0; i < STATES; i++) {
            const float *x = b.state[i], *y = before.state[i];
            assert_memory_equal(x, y, 50 * sizeof(float));
            assert_memory_equal(x + 150, y + 150, 53 * sizeof(float));
        }
        assert_memory_equal(before.p, b.p, 50 * sizeof(float));
        assert_memory_equal(before.p + 150, b.p + 150, 53 * sizeof(float));
        for (int j = 50; j < 150; j++) assert_true(before.p[j] != b.p[j]);
    }
}

TEST(two_spans_are_one) {
    const wefti_optimizer_ops *ops;
    static bench one, two;
    const wefti_span first = {0, 77, true}, second = {77, N - 77, true};
    for (int o = 0; (ops = wefti_optimizer_registry[o]); o++) {
        steps(ops, &one, 7);
        begin(&two);
        for (int t = 1; t <= 7; t++) {
            take(ops, &knobs, ref, &two, t, &first);
            double moved = two.moved;
            take(ops, &knobs, ref, &two, t, &second);
            two.moved += moved;
        }
        assert_memory_equal(one.p, two.p, sizeof one.p);
        assert_memory_equal(one.state, two.state, sizeof one.state);
        assert_true(fabs(one.moved - two.moved) < 1e-12 * one.moved); /* another order */
    }
}

TEST(moved_is_the_squared_norm_of_the_change) {
    const wefti_optimizer_ops *ops;
    static bench before, after;
    for (int o = 0; (ops = wefti_optimizer_registry[o]); o++) {
        for (int n = 3; n < 6; n++) { /* where periods close, open and go on */
            steps(ops, &before, n);
            steps(ops, &after, n + 1);
            double sum = 0;
            for (int j = 0; j < N; j++)
                sum += pow((double)after.p[j] - (double)before.p[j], 2);
            assert_true(fabs(sum - after.moved) < 1e-4 * sum); /* p is f32 */
        }
    }
}

/* An optimizer keeps no time of its own: what it does depends on the count it is given.
 */
TEST(a_step_depends_on_its_count_and_state_alone) {
    const wefti_optimizer_ops *ops;
    static bench once, broken, other;
    for (int o = 0; (ops = wefti_optimizer_registry[o]); o++) {
        steps(ops, &once, 11);
        steps(ops, &broken, 7);
        for (int i = 0; wefti_optimizer_registry[i]; i++)
            steps(wefti_optimizer_registry[i], &other, 2);
        for (int t = 8; t <= 11; t++) take(ops, &knobs, ref, &broken, t, &whole);
        assert_same(&once, &broken);
    }
}

/* Roundings of moments and steps, none of which is larger than some of lr = 0.01. */
TEST(every_table_agrees_with_the_reference) {
    const wefti_optimizer_ops *ops;
    static bench want, got, again;
    for (const char *const *name = test_kernels_names(); *name; name++) {
        for (int o = 0; (ops = wefti_optimizer_registry[o]); o++) {
            steps(ops, &want, 10);
            for (int pass = 0; pass < 2; pass++) {
                again = got;
                begin(&got);
                for (int t = 1; t <= 10; t++)
                    take(ops, &knobs, test_kernels_find(*name), &got, t, &whole);
            }
            assert_same(&got, &again);
            for (int j = 0; j < N; j++) {
                assert_true(fabsf(got.p[j] - want.p[j]) < 1e-6f * (1 + fabsf(want.p[j])));
                for (int i = 0; i < STATES; i++)
                    assert_true(fabsf(got.state[i][j] - want.state[i][j]) < 1e-6f);
            }
            assert_true(fabs(got.moved - want.moved) < 1e-5 * want.moved);
        }
    }
}

TEST(without_decay_is_as_with_a_decay_of_zero) {
    const wefti_optimizer_ops *ops;
    static bench with, without, zero;
    wefti_optimizer_config free = knobs;
    free.weight_decay = 0;
    for (int o = 0; (ops = wefti_optimizer_registry[o]); o++) {
        steps(ops, &with, 8);
        begin(&without), begin(&zero);
        for (int t = 1; t <= 8; t++) {
            take(ops, &knobs, ref, &without, t, &undecayed);
            take(ops, &free, ref, &zero, t, &whole);
        }
        assert_same(&without, &zero);
        int differ = 0;
        for (int j = 0; j < N; j++) differ += with.p[j] != without.p[j];
        assert_true(differ > N - 5);
    }
}

static bool is_coupled(const wefti_optimizer_ops *ops) {
    return strcmp(ops->name, "adam") == 0 || strcmp(ops->name, "accum_adam") == 0;
}

TEST(decay_shrinks_parameters_or_joins_the_gradient) {
    const wefti_optimizer_ops *ops;
    static bench with, without;
    float start[N], *states[STATES];
    fill_normal(1, N, start);
    for (int o = 0; (ops = wefti_optimizer_registry[o]); o++) {
        steps(ops, &with, 1);
        begin(&without);
        for (int i = 0; i < STATES; i++) states[i] = without.state[i];
        fill_normal(11, N, without.d);
        for (int j = 0; j < N && is_coupled(ops); j++)
            without.d[j] += 0.1f * start[j] /
                            0.5f; /* the clipping factor is not for it */
        wefti_optimizer_step step = {1, 0.01f, 0.5f};
        ops->apply(&knobs, ref, &step, &undecayed, without.d, without.p, states,
                   &without.moved);
        for (int j = 0; j < N; j++) {
            float shrunk = without.p[j] - (is_coupled(ops) ? 0 : 0.01f * 0.1f * start[j]);
            assert_true(fabsf(with.p[j] - shrunk) < 1e-6f * (1 + fabsf(shrunk)));
        }
    }
}

/* The moments' corrections are exact: all but sgd follow a constant gradient at lr. */
TEST(a_constant_gradient_moves_by_lr_in_every_step) {
    const wefti_optimizer_ops *ops;
    static const int64_t periods[] = {1, 3, 8};
    for (int o = 0; (ops = wefti_optimizer_registry[o]); o++) {
        if (ops->n_states == 0) continue;
        for (int k = 0; k < 3; k++) {
            wefti_optimizer_config config = {
                .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-12, .accumulate = periods[k]};
            float p[2] = {0}, g[] = {0.25f, -3}, s[STATES][2] = {{0}};
            float *states[STATES];
            for (int i = 0; i < STATES; i++) states[i] = s[i];
            wefti_span both = {0, 2, true};
            double moved = 0;
            for (int t = 1; t <= 50; t++) {
                wefti_optimizer_step step = {t, 0.01f, 1};
                ops->apply(&config, ref, &step, &both, g, p, states, &moved);
                assert_true(fabsf(p[0] + 0.01f * (float)t) < 1e-6f * (float)t);
                assert_true(fabsf(p[1] - 0.01f * (float)t) < 1e-6f * (float)t);
            }
        }
    }
}

/* Adam of 7 steps in double; `coupled`: weight decay in the gradient. */
static void check_adam(const char *name, bool coupled) {
    static bench b;
    steps(wefti_optimizer_find(name), &b, 7);
    float p0[N], g[7][N];
    fill_normal(1, N, p0);
    for (int t = 0; t < 7; t++) fill_normal(11 + (uint64_t)t, N, g[t]);
    for (int j = 0; j < N; j++) {
        double p = (double)p0[j], m = 0, v = 0;
        for (int t = 1; t <= 7; t++) {
            double grad = 0.5 * (double)g[t - 1][j] + (coupled ? 0.1 * p : 0);
            m = 0.9 * m + 0.1 * grad;
            v = 0.95 * v + 0.05 * grad * grad;
            double update = m / (1 - pow(0.9, t)) / (sqrt(v / (1 - pow(0.95, t))) + 1e-8);
            p = p - (coupled ? 0 : 0.01 * 0.1 * p) - 0.01 * update;
        }
        assert_true(fabs(p - (double)b.p[j]) < 1e-5);
    }
}

TEST(adam_and_adamw_are_their_formulas) {
    check_adam("adamw", false);
    check_adam("adam", true);
}

TEST(sgd_is_its_formula) {
    static bench b;
    steps(wefti_optimizer_find("sgd"), &b, 1);
    float p0[N], d[N];
    fill_normal(1, N, p0);
    fill_normal(11, N, d);
    for (int j = 0; j < N; j++) {
        double p = (double)p0[j] * (1 - 0.01 * 0.1) - 0.01 * 0.5 * (double)d[j];
        assert_true(fabs(p - (double)b.p[j]) < 1e-6);
    }
}
