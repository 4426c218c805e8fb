/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/memory.h"
#include "base/rng.h"
#include "base/stats.h"
#include "check.h"

TEST(the_middle_is_the_mean_of_two_where_there_are_two) {
    double odd[] = {3, 1, 2}, even[] = {4, 1, 2, 10}, one[] = {7};
    assert_true(wefti_median(odd, 3) == 2 && odd[0] == 1 && odd[2] == 3);
    assert_true(wefti_median(even, 4) == 3);
    assert_true(wefti_median(one, 1) == 7);
    assert_true(isnan(wefti_median(NULL, 0)) && isnan(wefti_quantile(NULL, 0, 0.5)));
}

TEST(quantiles_lie_in_proportion) {
    double x[] = {30, 10, 20, 50, 40};
    assert_true(wefti_quantile(x, 5, 0) == 10 && wefti_quantile(x, 5, 1) == 50);
    assert_true(wefti_quantile(x, 5, 0.5) == 30);
    assert_true(fabs(wefti_quantile(x, 5, 0.1) - 14) < 1e-12);
    assert_true(fabs(wefti_quantile(x, 5, 0.95) - 48) < 1e-12);
}

static double gauss(uint64_t i) {
    double sum = 0;
    for (uint64_t k = 0; k < 12; k++)
        sum += (double)(wefti_rng_u64(3, WEFTI_STREAM_TEST, i, k) >> 11) * 0x1p-53;
    return sum - 6;
}

/* Waits of a wire: a third of spread, one in a hundred ten times as long; `factor` times as long
 * from sample 5000 on. Returns the first sample that is told as a drift; -1: none. */
static int64_t first_drift(uint64_t seed, double factor, int calm, double bound) {
    wefti_drift d;
    wefti_drift_begin(&d, calm, bound);
    for (int64_t i = 0; i < 10000; i++) {
        uint64_t draw = seed << 20 | (uint64_t)i;
        bool stalls = wefti_rng_u64(5, WEFTI_STREAM_TEST, draw, 0) % 100 == 0;
        double x = exp(gauss(draw) / 3) * (stalls ? 10 : 1) * (i < 5000 ? 1 : factor);
        int drift = wefti_drift_add(&d, x);
        assert_true(drift == 0 || (drift > 0) == (factor > 1));
        if (drift) return i;
    }
    return -1;
}

TEST(a_steady_wire_does_not_drift) {
    for (uint64_t seed = 0; seed < 50; seed++)
        if (first_drift(seed, 1, WEFTI_CALM, 6) >= 0)
            fail_msg("seed %llu drifts", (unsigned long long)seed);
}

TEST(a_drift_is_told_soon) {
    for (uint64_t seed = 0; seed < 50; seed++) {
        int64_t slow = first_drift(seed, 3, WEFTI_CALM, 6),
                fast = first_drift(seed, 1.0 / 3, WEFTI_CALM, 6),
                slower = first_drift(seed, 25, WEFTI_CALM, 6);
        assert_in_range(slow, 5000, 5025);
        assert_in_range(fast, 5000, 5025);
        assert_in_range(slower, 5000, 5005);
    }
}

/* What is there stays, what is new is zero, and growing n times costs few copies. */
TEST(room_grows_by_doubling) {
    weft_ctx *ctx;
    int *x = NULL;
    int64_t room = 0, grown = 0;
    assert_ok(NULL, weft_ctx_create(&ctx));
    for (int64_t n = 0; n < 1000; n++) {
        int64_t before = room;
        assert_ok(ctx, wefti_reserve(ctx, &x, &room, n, 1, sizeof *x, "numbers"));
        grown += room != before;
        assert_true(room > n && x[n] == 0 && (n == 0 || x[n - 1] == (int)n));
        x[n] = (int)n + 1;
    }
    assert_true(grown <= 8 && room < 2100);
    assert_ok(ctx, wefti_reserve(ctx, &x, &room, 1000, 5000, sizeof *x, "numbers"));
    assert_true(room >= 6000 && x[999] == 1000 && x[5999] == 0);
    int *same = x;
    assert_ok(ctx, wefti_reserve(ctx, &x, &room, 1000, 5000, sizeof *x, "numbers"));
    assert_ptr_equal(x, same);
    wefti_free(ctx, x);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}
