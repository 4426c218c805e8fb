/* SPDX-License-Identifier: MIT */
#include "unit/record/helpers.h"

#include <math.h>

#include "base/rng.h"
#include "record/scale.h"

static void numbers_are_written_in_the_unit_that_fits(void **state) {
    (void)state;
    static const struct {
        double value;
        wefti_axis kind;
        const char *text;
    } rows[] = {
        {0, WEFTI_AXIS_COUNT, "0"},
        {7, WEFTI_AXIS_COUNT, "7"},
        {9999, WEFTI_AXIS_COUNT, "9999"},
        {12500, WEFTI_AXIS_COUNT, "12.5k"},
        {196608000, WEFTI_AXIS_COUNT, "197M"},
        {2.5e9, WEFTI_AXIS_COUNT, "2.50G"},
        {0, WEFTI_AXIS_TIME, "0 s"},
        {0.2361, WEFTI_AXIS_TIME, "236 ms"},
        {12e-6, WEFTI_AXIS_TIME, "12 \xc2\xb5s"},
        {90, WEFTI_AXIS_TIME, "90 s"},
        {600, WEFTI_AXIS_TIME, "10 min"},
        {9000, WEFTI_AXIS_TIME, "2.50 h"},
        {0, WEFTI_AXIS_BYTES, "0 B"},
        {3.1e6, WEFTI_AXIS_BYTES, "3.10 MB"},
        {999, WEFTI_AXIS_BYTES, "999 B"},
        {1.49e12, WEFTI_AXIS_BYTES, "1.49 TB"},
        {3.2784, WEFTI_AXIS_PLAIN, "3.278"},
        {-0.5, WEFTI_AXIS_PLAIN, "-0.500"},
        {123.456, WEFTI_AXIS_PLAIN, "123"},
        {NAN, WEFTI_AXIS_BYTES, "\xe2\x80\x93"},
        {INFINITY, WEFTI_AXIS_TIME, "\xe2\x80\x93"},
        {0, WEFTI_AXIS_PLAIN, "0.000"},
        {-0.0, WEFTI_AXIS_COUNT, "0"},
        {6e-4, WEFTI_AXIS_PLAIN, "0.600 \xc3\x97 10\xe2\x81\xbb\xc2\xb3"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wefti_buffer b = {0};
        wefti_put_short(ctx, &b, rows[i].value, rows[i].kind);
        assert_string_equal(b.bytes, rows[i].text);
        wefti_buffer_fini(ctx, &b);
    }
}

static void ticks_are_round_inside_and_neither_few_nor_many(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 5000; i++) {
        double a = wefti_rng_normal(2, WEFTI_STREAM_TEST, 0, 2 * i);
        double low = a * pow(10, (double)(i % 13) - 6);
        double width = wefti_rng_uniform(2, WEFTI_STREAM_TEST, 0, 2 * i + 1) + 1e-3;
        double high = low + width * pow(10, (double)(i % 11) - 5);
        if (high - low < 1e-6 * fabs(low)) continue;
        wefti_ticks t = wefti_nice_ticks(low, high);
        double digit = t.step / pow(10, floor(log10(t.step * 1.0001)));
        assert_true(fabs(digit - 1) < 1e-6 || fabs(digit - 2) < 1e-6 ||
                    fabs(digit - 5) < 1e-6);
        assert_true(t.n >= 3 && t.n <= 9);
        double slack = 1e-6 * (high - low);
        assert_true(t.first >= low - slack);
        assert_true(t.first + (t.n - 1) * t.step <= high + slack);
        assert_true(t.first - t.step < low + slack);
        assert_true(t.first + t.n * t.step > high - slack);
        double last_digit = pow(10, -t.decimals);
        assert_true(t.decimals >= 0 && t.decimals <= 9 && t.step > 0.99 * last_digit);
    }
}

static void ticks_on_the_border_count(void **state) {
    (void)state;
    wefti_ticks t = wefti_nice_ticks(0, 0.3);
    assert_true(t.first == 0 && t.n == 7 && fabs(t.step - 0.05) < 1e-12 &&
                t.decimals == 2);
    t = wefti_nice_ticks(0, 100);
    assert_true(t.first == 0 && t.n == 6 && t.step == 20 && t.decimals == 0);
}

static void ranges_at_the_edge_of_doubles_end(void **state) {
    (void)state;
    wefti_ticks t = wefti_nice_ticks(-1e100, 1e100);
    assert_true(t.n >= 3 && t.n <= 12);
    t = wefti_nice_ticks(1e15, 1e15 + 1);
    assert_true(t.n <= 12);
    t = wefti_nice_ticks(1e100, nextafter(1e100, INFINITY));
    assert_true(t.n <= 12);
    t = wefti_nice_ticks(0, 1e-300);
    assert_true(t.n <= 12 && t.decimals == 9);
}

enum { MANY = 100003 };
static double xs[MANY], ys[MANY];
static int64_t picked[WEFTI_MAX_POINTS];

static void thinning_keeps_every_spike_and_order(void **state) {
    (void)state;
    for (int i = 0; i < MANY; i++) {
        xs[i] = i;
        ys[i] = wefti_rng_uniform(3, WEFTI_STREAM_TEST, 0, (uint64_t)i);
    }
    ys[0] = 50, ys[777] = 100, ys[50001] = -100, ys[MANY - 1] = 70;
    int n = wefti_thin(xs, ys, MANY, picked);
    assert_true(n > WEFTI_MAX_POINTS / 2 && n <= WEFTI_MAX_POINTS);
    int found = 0;
    for (int k = 0; k < n; k++) {
        assert_true(picked[k] >= 0 && picked[k] < MANY);
        if (k) assert_true(picked[k] > picked[k - 1]);
        int64_t i = picked[k];
        found += i == 0 || i == 777 || i == 50001 || i == MANY - 1;
    }
    assert_int_equal(found, 4);
}

static void few_points_are_all_kept(void **state) {
    (void)state;
    static const int64_t sizes[] = {0, 1, 2, 1999, 2000};
    for (int s = 0; s < 5; s++) {
        for (int i = 0; i < sizes[s]; i++) xs[i] = i, ys[i] = i % 7;
        assert_int_equal(wefti_thin(xs, ys, sizes[s], picked), sizes[s]);
        for (int64_t i = 0; i < sizes[s]; i++) assert_int_equal(picked[i], i);
    }
}

static void points_that_can_not_be_drawn_are_not_picked(void **state) {
    (void)state;
    for (int i = 0; i < MANY; i++) xs[i] = i, ys[i] = NAN;
    assert_int_equal(wefti_thin(xs, ys, MANY, picked), 0);
    ys[5] = 1, ys[6] = INFINITY, ys[7] = 1e101, ys[8] = -INFINITY;
    xs[9] = NAN, ys[9] = 1;
    assert_int_equal(wefti_thin(xs, ys, MANY, picked), 1);
    assert_int_equal(picked[0], 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        claim(numbers_are_written_in_the_unit_that_fits),
        claim(ticks_are_round_inside_and_neither_few_nor_many),
        claim(ticks_on_the_border_count),
        claim(ranges_at_the_edge_of_doubles_end),
        claim(thinning_keeps_every_spike_and_order),
        claim(few_points_are_all_kept),
        claim(points_that_can_not_be_drawn_are_not_picked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
