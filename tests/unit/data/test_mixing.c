/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include "data/mixing.h"

enum { CYCLE = WEFTI_MIXING_CYCLE };

/* Draws whole cycles: each source's rows are numbered 0, 1, 2, .. without a gap. */
static void count_draws(const wefti_mixing *m, int n, int cycles, int64_t *counts) {
    for (int s = 0; s < n; s++) counts[s] = 0;
    for (int64_t row = 0; row < (int64_t)cycles * CYCLE; row++) {
        int64_t earlier;
        int s = wefti_mixing_draw(m, row, &earlier);
        assert_in_range(s, 0, n - 1);
        assert_int_equal(earlier, counts[s]++);
    }
}

TEST_IN(with_ctx, without_leak, shares_are_exact_in_every_cycle) {
    weft_ctx *ctx = *state;
    static const double weights[] = {0.7, 0.15, 0.15};
    wefti_mixing m = {0};
    int64_t counts[3];
    assert_ok(ctx, wefti_mixing_init(ctx, &m, weights, 3, 5));
    for (int cycles = 1; cycles <= 3; cycles++) {
        count_draws(&m, 3, cycles, counts);
        assert_int_equal(counts[0], 7000 * cycles);
        assert_int_equal(counts[1], 1500 * cycles);
        assert_int_equal(counts[2], 1500 * cycles);
    }
    wefti_mixing_fini(ctx, &m);
}

TEST_IN(with_ctx, without_leak, shares_are_the_weights_rounded) {
    weft_ctx *ctx = *state;
    enum { N = 9 };
    for (uint64_t seed = 0; seed < 20; seed++) {
        double weights[N], sum = 0;
        int64_t counts[N];
        wefti_mixing m = {0};
        for (int s = 0; s < N; s++) {
            weights[s] =
                1e3 * wefti_rng_uniform(seed, WEFTI_STREAM_TEST, 1, (uint64_t)s) + 1;
            sum += weights[s];
        }
        assert_ok(ctx, wefti_mixing_init(ctx, &m, weights, N, seed));
        count_draws(&m, N, 1, counts);
        for (int s = 0; s < N; s++) {
            double due = CYCLE * weights[s] / sum;
            assert_true((double)counts[s] > due - 1 && (double)counts[s] < due + 1);
        }
        wefti_mixing_fini(ctx, &m);
    }
}

TEST_IN(with_ctx, without_leak, the_smallest_weight_still_gets_rows) {
    weft_ctx *ctx = *state;
    static const double weights[] = {1e300, 1e-300, 1e300};
    wefti_mixing m = {0};
    int64_t counts[3];
    assert_ok(ctx, wefti_mixing_init(ctx, &m, weights, 3, 5));
    count_draws(&m, 3, 1, counts);
    assert_int_equal(counts[1], 1);
    assert_int_equal(counts[0] + counts[2], CYCLE - 1);
    assert_true(counts[0] >= 4999 && counts[2] >= 4999);
    wefti_mixing_fini(ctx, &m);
}

TEST_IN(with_ctx, without_leak, many_sources_share_the_cycle) {
    weft_ctx *ctx = *state;
    static double weights[CYCLE];
    static int64_t counts[CYCLE];
    wefti_mixing m = {0};
    for (int s = 0; s < CYCLE; s++) weights[s] = 1;
    assert_ok(ctx, wefti_mixing_init(ctx, &m, weights, CYCLE, 1));
    count_draws(&m, CYCLE, 1, counts);
    for (int s = 0; s < CYCLE; s++) assert_int_equal(counts[s], 1);
    wefti_mixing_fini(ctx, &m);
}

/* Neither alternating (which would give each rank one source) nor in blocks. */
TEST_IN(with_ctx, without_leak, places_are_shuffled_by_the_seed) {
    weft_ctx *ctx = *state;
    static const double weights[] = {1, 1};
    wefti_mixing a = {0}, b = {0};
    int64_t same_as_next = 0, same_as_other = 0, earlier;
    assert_ok(ctx, wefti_mixing_init(ctx, &a, weights, 2, 1));
    assert_ok(ctx, wefti_mixing_init(ctx, &b, weights, 2, 2));
    for (int64_t row = 0; row < CYCLE; row++) {
        int s = wefti_mixing_draw(&a, row, &earlier);
        same_as_next += s == wefti_mixing_draw(&a, row + 1, &earlier);
        same_as_other += s == wefti_mixing_draw(&b, row, &earlier);
    }
    /* binomial(10000, 1/2): five standard deviations are 250 */
    assert_in_range(same_as_next, 4750, 5250);
    assert_in_range(same_as_other, 4750, 5250);
    wefti_mixing_fini(ctx, &a);
    wefti_mixing_fini(ctx, &b);
}
