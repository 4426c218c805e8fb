/* SPDX-License-Identifier: MIT */
/* Means that a few wrong members cannot ruin, beside the same in double precision. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "collectives/robust.h"

enum { N = 37, MOST = 9 };

static float sent[MOST][N], rows[MOST][N], sum[N];
static double weights[MOST], squares[MOST], sizes[MOST];
static float factors[MOST];

static void draw(int m, uint64_t seed) {
    for (int i = 0; i < m; i++) {
        weights[i] = 1 + i % 3;
        fill_normal(seed * 100 + (uint64_t)i, N, sent[i]);
        for (int j = 0; j < N; j++)
            sent[i][j] *= (float)(weights[i] * (1 + 0.1 * i) * (i == 2 ? -10 : 1));
    }
}

/* What an owner does: sum <- the rule's mean. */
static void mean_of(wefti_robust rule, int m) {
    float *left[MOST];
    int n = 0;
    for (int i = 0; i < m; i++) squares[i] = wefti_robust_squares(N, sent[i]);
    const wefti_robust_members members = {m, squares, weights, sizes, factors};
    double divisor = wefti_robust_factors(rule, &members);
    for (int i = 0; i < m; i++) {
        if (factors[i] == 0) continue;
        left[n] = rows[n];
        for (int j = 0; j < N; j++) rows[n][j] = factors[i] * sent[i][j];
        n++;
    }
    wefti_robust_sum(rule, n, left, N, sum);
    for (int j = 0; j < N; j++) sum[j] *= 1 / (float)divisor;
}

static int ascending(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static double size_of(int i) {
    double all = 0;
    for (int j = 0; j < N; j++) all += (double)sent[i][j] * (double)sent[i][j];
    return sqrt(all) / weights[i];
}

/* Numbers below 400, and at most 9 roundings of their sum. */
static void is_near(double wanted, float found) {
    assert_true(fabs(wanted - (double)found) < 400 * 12 * 0x1p-24);
}

TEST(clip_limits_each_size_to_the_lower_median) {
    for (int m = 1; m <= MOST; m++) {
        double ordered[MOST], all = 0;
        draw(m, (uint64_t)m);
        for (int i = 0; i < m; i++) ordered[i] = size_of(i), all += weights[i];
        qsort(ordered, (size_t)m, sizeof *ordered, ascending);
        mean_of(WEFTI_ROBUST_CLIP, m);
        for (int j = 0; j < N; j++) {
            double wanted = 0;
            for (int i = 0; i < m; i++)
                wanted += (double)sent[i][j] * fmin(1, ordered[(m - 1) / 2] / size_of(i));
            is_near(wanted / all, sum[j]);
        }
    }
}

TEST(trim_leaves_out_the_least_and_the_greatest) {
    static const int left_out[MOST + 1] = {0, 0, 0, 1, 1, 1, 1, 1, 2, 2};
    for (int m = 1; m <= MOST; m++) {
        draw(m, (uint64_t)m + 50);
        mean_of(WEFTI_ROBUST_TRIM, m);
        for (int j = 0; j < N; j++) {
            double column[MOST], wanted = 0;
            int b = left_out[m];
            for (int i = 0; i < m; i++) column[i] = (double)sent[i][j] / weights[i];
            qsort(column, (size_t)m, sizeof *column, ascending);
            for (int i = b; i < m - b; i++) wanted += column[i] / (m - 2 * b);
            is_near(wanted, sum[j]);
        }
    }
}

/* Each rule gives what it gives without that member. */
TEST(what_is_not_finite_or_has_no_weight_is_left_out) {
    static float without[N];
    for (int rule = WEFTI_ROBUST_CLIP; rule <= WEFTI_ROBUST_TRIM; rule++)
        for (int how = 0; how < 3; how++) {
            draw(6, 7);
            mean_of((wefti_robust)rule, 5);
            memcpy(without, sum, sizeof sum);
            if (how == 0) sent[5][N - 1] = NAN;
            if (how == 1) sent[5][0] = -INFINITY;
            if (how == 2) weights[5] = 0;
            mean_of((wefti_robust)rule, 6);
            assert_memory_equal(sum, without, sizeof sum);
        }
    for (int i = 0; i < 6; i++) sent[i][3] = NAN;
    mean_of(WEFTI_ROBUST_CLIP, 6);
    for (int j = 0; j < N; j++) assert_true(sum[j] == 0);
}

/* 1e30 squared is no f32. */
TEST(large_numbers_have_a_size) {
    draw(5, 3);
    for (int j = 0; j < N; j++) sent[2][j] *= 1e30f;
    mean_of(WEFTI_ROBUST_CLIP, 5);
    assert_true(factors[2] > 0 && factors[2] < 1e-29f);
    for (int j = 0; j < N; j++) assert_true(isfinite(sum[j]));
}

TEST(names_are_those_of_the_key) {
    assert_int_equal(wefti_robust_named("off"), WEFTI_ROBUST_OFF);
    assert_int_equal(wefti_robust_named("clip"), WEFTI_ROBUST_CLIP);
    assert_int_equal(wefti_robust_named("trim"), WEFTI_ROBUST_TRIM);
}

/* --- who is too large again and again --- */

static wefti_robust_seen seen[4];
static wefti_robust_watch watch;

/* One exchange in two buckets: member 2's size is `times` that of the others. */
static int after_exchange(int64_t step, double times, double *said, int *exchanges) {
    for (int b = 0; b < 2; b++)
        for (int i = 0; i < 4; i++)
            wefti_robust_note(&watch, step, i, i == 2 ? 3 * times * times : 3);
    return wefti_robust_suspect(&watch, said, exchanges);
}

static int watch_anew(void **state) {
    memset(seen, 0, sizeof seen);
    watch = (wefti_robust_watch){.n = 4, .step = -1, .seen = seen, .sizes = sizes};
    return 0;
}

TEST(a_member_is_named_once_after_more_than_half_of_20) {
    double times;
    int exchanges;
    watch_anew(state);
    for (int step = 0; step < 60; step++) {
        bool far = step % 2 == 0;
        assert_int_equal(after_exchange(step, far ? 9 : 1, &times, &exchanges), -1);
    }
    assert_int_equal(after_exchange(60, 9, &times, &exchanges), -1);
    assert_int_equal(after_exchange(61, NAN, &times, &exchanges), 2);
    assert_true(exchanges == 11 && times != 9);
    for (int step = 62; step < 90; step++)
        assert_int_equal(after_exchange(step, 9, &times, &exchanges), -1);
}

TEST(four_times_the_median_is_not_too_large) {
    double times;
    int exchanges;
    watch_anew(state);
    for (int step = 0; step < 40; step++)
        assert_int_equal(after_exchange(step, 4, &times, &exchanges), -1);
    for (int step = 40; step < 50; step++)
        assert_int_equal(after_exchange(step, 4.01, &times, &exchanges), -1);
    assert_int_equal(after_exchange(50, 4.01, &times, &exchanges), 2);
    assert_true(exchanges == 11 && fabs(times - 4.01) < 1e-9);
}

/* Who joins late, and who is away, is neither judged nor forgotten. */
TEST(a_member_that_is_away_keeps_its_history) {
    double times;
    int exchanges;
    watch_anew(state);
    for (int step = 0; step < 10; step++) after_exchange(step, 9, &times, &exchanges);
    for (int step = 10; step < 40; step++) {
        wefti_robust_note(&watch, step, 0, 1);
        assert_int_equal(wefti_robust_suspect(&watch, &times, &exchanges), -1);
    }
    assert_int_equal(after_exchange(40, 9, &times, &exchanges), 2);
}
