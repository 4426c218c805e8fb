/* SPDX-License-Identifier: MIT */
/* Numbers in two bits and a table (lib/wire/bins.h). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "wire/bins.h"

enum { N = 3 * WEFTI_BINS_RUN + 5, ROOM = 4 * 136 };

static weft_ctx *ctx;
static float x[N], sent[N], got[N];
static unsigned char bytes[ROOM];

static void fill(int64_t n) {
    fill_normal(5, n, x);
    memcpy(sent, x, sizeof sent);
    wefti_bins_encode(n, sent, bytes);
}

TEST(what_is_decoded_is_what_the_sender_was_told) {
    for (int64_t n = 1; n <= N; n += n < 20 ? 1 : 253) {
        fill(n);
        assert_in_range(wefti_bins_bytes(n), 1, ROOM);
        assert_ok(ctx, wefti_bins_decode(ctx, n, bytes, got));
        assert_memory_equal(got, sent, (size_t)n * sizeof *got);
    }
}

/* In double, with the edges that the header names: the mean, and 1.5 deviations around. */
TEST(a_number_becomes_the_mean_of_its_bin) {
    fill(N);
    for (int first = 0; first < N; first += WEFTI_BINS_RUN) {
        int n = N - first < WEFTI_BINS_RUN ? N - first : WEFTI_BINS_RUN, bins[N];
        double mean = 0, squares = 0, sums[4] = {0}, counts[4] = {0};
        for (int i = 0; i < n; i++) mean += (double)x[first + i] / n;
        for (int i = 0; i < n; i++)
            squares += ((double)x[first + i] - mean) * ((double)x[first + i] - mean);
        double s = sqrt(squares / n);
        for (int i = 0; i < n; i++) {
            double v = (double)x[first + i];
            bins[i] = (v >= mean - 2.25 * s) + (v >= mean - 0.75 * s) +
                      (v >= mean + 0.75 * s);
            sums[bins[i]] += v;
            counts[bins[i]]++;
        }
        for (int i = 0; i < n; i++) {
            double wanted = sums[bins[i]] / counts[bins[i]];
            assert_true(fabs((double)sent[first + i] - wanted) <=
                        fabs(wanted) * (0x1p-8 + 1e-9));
        }
    }
}

TEST(four_equal_numbers_are_themselves_and_zeros_are_zeros) {
    float same[4] = {1.5f, 1.5f, 1.5f, 1.5f}, none[4] = {0};
    wefti_bins_encode(4, same, bytes);
    for (int i = 0; i < 4; i++) assert_true(same[i] == 1.5f);
    wefti_bins_encode(4, none, bytes);
    for (int i = 0; i < 4; i++) assert_true(none[i] == 0);
}

TEST(what_is_not_finite_makes_its_run_nan_alone) {
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int b = 0; b < 3; b++) {
        fill_normal(5, N, x);
        x[WEFTI_BINS_RUN + 3] = bad[b];
        wefti_bins_encode(N, x, bytes);
        assert_ok(ctx, wefti_bins_decode(ctx, N, bytes, got));
        for (int i = 0; i < N; i++)
            assert_true(isnan(got[i]) == (i / WEFTI_BINS_RUN == 1));
    }
    float most[] = {3e38f, 3e38f, -3e38f, 1};
    wefti_bins_encode(4, most, bytes);
    assert_ok(ctx, wefti_bins_decode(ctx, 4, bytes, got));
    for (int i = 0; i < 4; i++) assert_true(isfinite(got[i]));
}

TEST(bytes_that_encode_does_not_write_are_refused) {
    fill(5);
    bytes[9] |= 4; /* behind the fifth number */
    assert_int_equal(wefti_bins_decode(ctx, 5, bytes, got), WEFT_ERR_WIRE);
    assert_non_null(strstr(weft_ctx_message(ctx), "behind the last number"));
    weft_ctx_clear(ctx);
    fill(5);
    bytes[0] = 0x80, bytes[1] = 0x7f; /* infinite */
    assert_int_equal(wefti_bins_decode(ctx, 5, bytes, got), WEFT_ERR_WIRE);
    assert_non_null(strstr(weft_ctx_message(ctx), "not finite"));
    weft_ctx_clear(ctx);
    fill(5);
    for (int b = 0; b < 4; b++) bytes[2 * b] = 0xc0, bytes[2 * b + 1] = 0x7f;
    bytes[8] = 1;
    assert_int_equal(wefti_bins_decode(ctx, 5, bytes, got), WEFT_ERR_WIRE);
    assert_non_null(strstr(weft_ctx_message(ctx), "beside a table of NaN"));
    weft_ctx_clear(ctx);
}

int main(void) {
    if (ctx_begin(&ctx) != 0) return 1;
    int failed = check_run(NULL, NULL);
    return ctx_end(ctx) != 0 || failed;
}
