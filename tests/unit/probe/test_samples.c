/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/rng.h"
#include "check.h"
#include "probe/samples.h"

static weft_ctx *ctx;

static double normal(uint64_t rank, int64_t i) {
    return wefti_rng_normal(7, WEFTI_STREAM_TEST, rank, (uint64_t)i);
}

TEST(quantiles_lie_between_the_values) {
    double values[] = {4, 1, 3, 2};
    assert_true(wefti_quantile(values, 4, 0.5) == 2.5);
    assert_true(wefti_quantile(values, 4, 0) == 1);
    assert_true(wefti_quantile(values, 4, 1) == 4);
    assert_true(wefti_quantile(values, 1, 0.7) == 1);
    assert_true(isnan(wefti_quantile(values, 0, 0.5)));
}

TEST(halves_are_of_the_time_and_absent_ranks_do_not_count) {
    wefti_samples s;
    assert_ok(ctx, wefti_samples_init(ctx, 2, 4, &s));
    const double of[] = {1, 1, 5, 5, NAN, NAN, NAN, NAN};
    for (int i = 0; i < 8; i++) s.of[i] = of[i];
    assert_true(wefti_samples_quantile(&s, WEFTI_FIRST_HALF, 0.5) == 1);
    assert_true(wefti_samples_quantile(&s, WEFTI_SECOND_HALF, 0.5) == 5);
    assert_true(wefti_samples_quantile(&s, WEFTI_ALL, 0.5) == 3);
    assert_true(wefti_samples_rank_median(&s, 0, WEFTI_ALL) == 3);
    assert_true(isnan(wefti_samples_rank_median(&s, 1, WEFTI_ALL)));
    wefti_samples_fini(ctx, &s);
}

TEST(one_sample_is_in_both_halves) {
    wefti_samples s;
    assert_ok(ctx, wefti_samples_init(ctx, 1, 1, &s));
    s.of[0] = 3;
    assert_true(wefti_samples_quantile(&s, WEFTI_FIRST_HALF, 0.5) == 3);
    assert_true(wefti_samples_quantile(&s, WEFTI_SECOND_HALF, 0.5) == 3);
    wefti_samples_fini(ctx, &s);
}

TEST(a_line_is_found_exactly) {
    double bytes[] = {0, 1e3, 1e5, 1e7}, seconds[4];
    for (int i = 0; i < 4; i++) seconds[i] = 2e-3 + bytes[i] / 1.25e7;
    wefti_link_fit fit = wefti_fit_link(4, bytes, seconds);
    assert_true(fabs(fit.latency_s / 2e-3 - 1) < 1e-9);
    assert_true(fabs(fit.bandwidth_Bps / 1.25e7 - 1) < 1e-9);
    assert_true(fit.residual < 1e-9);
}

/* An error of a hundredth in the long message must not drown the latency. */
TEST(the_error_is_relative) {
    double bytes[] = {0, 1e3, 1e5, 1e7}, seconds[4];
    for (int i = 0; i < 4; i++) seconds[i] = 2e-3 + bytes[i] / 1.25e7;
    seconds[3] *= 1.01;
    wefti_link_fit fit = wefti_fit_link(4, bytes, seconds);
    assert_true(fabs(fit.latency_s / 2e-3 - 1) < 0.01);
    assert_true(fabs(fit.bandwidth_Bps / 1.25e7 - 1) < 0.02);
    assert_true(fit.residual > 1e-4 && fit.residual < 0.01);
}

/* 1.2 MB/s behind a bucket that lets 4000 bytes through at once. */
TEST(what_passes_at_once_does_not_make_a_link_faster) {
    double bytes[8], seconds[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = i == 0 ? 0 : 16 * pow(4, i - 1);
        seconds[i] = 5e-5 + fmax(0, bytes[i] - 4000) / 1.2e6;
    }
    wefti_link_fit fit = wefti_fit_link(8, bytes, seconds);
    assert_true(fabs(fit.bandwidth_Bps / 1.2e6 - 1) < 1e-9);
    assert_true(fabs(fit.latency_s - 5e-5) < 1e-12);
}

TEST(without_a_slope_the_rate_is_not_known) {
    const double bytes[] = {0, 1e3, 1e6}, flat[] = {1e-5, 1.1e-5, 1e-5},
                 falling[] = {2e-5, 1.5e-5, 1e-5};
    assert_true(wefti_fit_link(3, bytes, flat).bandwidth_Bps == 0);
    wefti_link_fit fit = wefti_fit_link(3, bytes, falling);
    assert_true(fit.bandwidth_Bps == 0);
    assert_true(fit.latency_s > 1e-5 && fit.latency_s < 2e-5);
}

/* Seconds of 8 ranks x n steps with the given spread and drift. */
static wefti_variation draw(double spread, double drift, int64_t n) {
    wefti_samples s;
    assert_ok(ctx, wefti_samples_init(ctx, 8, n, &s));
    for (int r = 0; r < 8; r++) {
        double factor = exp(drift * normal(1000, r));
        for (int64_t i = 0; i < n; i++)
            s.of[r * n + i] = 0.1 * factor * exp(spread * normal((uint64_t)r, i));
    }
    wefti_variation v = wefti_variation_of(&s, WEFTI_ALL);
    wefti_samples_fini(ctx, &s);
    return v;
}

/* 8 x 500 draws: the quantiles' error is some per cent; 8 ranks tell a drift to a
 * factor. */
TEST(spread_and_drift_are_told_apart) {
    wefti_variation v = draw(0.1, 0, 500);
    assert_true(fabs(v.spread / 0.1 - 1) < 0.1);
    assert_true(v.drift < 0.01);
    assert_true(v.stall_share == 0);
    v = draw(0.02, 0.2, 500);
    assert_true(fabs(v.spread / 0.02 - 1) < 0.1);
    assert_true(v.drift > 0.08 && v.drift < 0.4);
    v = draw(0, 0, 10);
    assert_true(v.spread == 0 && v.drift == 0 && v.stall_share == 0);
    assert_true(fabs(v.median_s - 0.1) < 1e-12);
}

TEST(stalls_are_what_no_spread_explains) {
    enum { N = 400 };
    wefti_samples s;
    assert_ok(ctx, wefti_samples_init(ctx, 2, N, &s));
    for (int r = 0; r < 2; r++)
        for (int64_t i = 0; i < N; i++)
            s.of[r * N + i] = 0.1 * exp(0.01 * normal((uint64_t)r, i)) +
                              (i % 20 == 3 ? 0.05 : 0);
    wefti_variation v = wefti_variation_of(&s, WEFTI_ALL);
    assert_true(fabs(v.stall_share - 0.05) < 1e-9);
    assert_true(fabs(v.stall_s / 0.05 - 1) < 0.05);
    assert_true(fabs(v.spread / 0.01 - 1) < 0.3);
    wefti_samples_fini(ctx, &s);
}

int main(void) {
    if (weft_ctx_create(&ctx) != WEFT_OK) return 1;
    int failed = check_run(NULL, NULL);
    weft_ctx_destroy(ctx);
    return failed;
}
