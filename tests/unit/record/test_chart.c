/* SPDX-License-Identifier: MIT */
#include "unit/record/page_check.h"

#include <math.h>

#include "base/rng.h"
#include "record/chart.h"

/* Draws one curve; the caller frees the page. */
static char *draw(const double *x, const double *y, int64_t n, wefti_mark mark,
                  bool x_log) {
    wefti_buffer out = {0};
    wefti_series series = {"a <curve>", x, y, n, 3, mark};
    wefti_chart chart = {.title = "T & <t>",
                         .note = "n",
                         .x_title = "<x>",
                         .y_title = "y",
                         .x_axis = WEFTI_AXIS_TIME,
                         .y_axis = WEFTI_AXIS_BYTES,
                         .x_log = x_log,
                         .series = &series,
                         .n_series = 1};
    wefti_chart_write(ctx, &out, &chart);
    assert_ok(ctx, out.status);
    check_page(out.bytes);
    return out.bytes;
}

/* The path of the only curve. */
static const char *curve_of(const char *page) {
    const char *g = strstr(page, "<g class=");
    assert_non_null(g);
    return strstr(g, " d=\"") + 4;
}

static int count_in_path(const char *path, char letter) {
    int n = 0;
    for (; *path != '"'; path++) n += *path == letter;
    return n;
}

static void a_curve_lies_inside_the_plot_and_goes_the_right_way(void **state) {
    (void)state;
    static const double x[] = {0, 1, 2}, y[] = {3, 2, 1};
    char *page = draw(x, y, 3, WEFTI_MARK_LINE, false);
    double at[6];
    char *end;
    const char *path = curve_of(page);
    for (int i = 0; i < 6; i++) {
        at[i] = strtod(path + strspn(path, "ML "), &end);
        path = end;
    }
    assert_true(at[0] < at[2] && at[2] < at[4]);
    assert_true(at[1] < at[3] && at[3] < at[5]); /* y grows downwards */
    assert_true(at[0] >= 0 && at[4] <= 640 && at[1] >= 0 && at[5] <= 300);
    wefti_free(ctx, page);
}

static void gaps_break_the_line_and_lone_points_show(void **state) {
    (void)state;
    static const double x[] = {0, 1, 2, 3, 4, 5, 6, 7};
    double y[] = {1, 2, NAN, 3, INFINITY, 4, 5, NAN};
    char *page = draw(x, y, 8, WEFTI_MARK_LINE, false);
    const char *path = curve_of(page);
    assert_int_equal(count_in_path(path, 'M'), 3);
    assert_int_equal(count_in_path(path, 'L'), 2);
    assert_int_equal(count_in_path(path, 'h'), 1);
    wefti_free(ctx, page);
}

static void long_curves_are_thinned(void **state) {
    (void)state;
    enum { N = 50000 };
    static double x[N], y[N];
    for (int i = 0; i < N; i++) {
        x[i] = i;
        y[i] = wefti_rng_normal(4, WEFTI_STREAM_TEST, 0, (uint64_t)i);
    }
    char *page = draw(x, y, N, WEFTI_MARK_LINE, false);
    int n = 1 + count_in_path(curve_of(page), 'L');
    assert_true(n > 1000 && n <= WEFTI_MAX_POINTS);
    wefti_free(ctx, page);
}

static void dots_carry_their_value(void **state) {
    (void)state;
    static const double x[] = {0, 1, 2}, y[] = {3.25, 2, 1};
    char *page = draw(x, y, 3, WEFTI_MARK_DOTS, false);
    assert_int_equal(count_of(page, "<circle"), 3);
    assert_non_null(strstr(page, "<title>3.250</title>"));
    wefti_free(ctx, page);
}

static void curves_above_the_most_are_cut(void **state) {
    (void)state;
    static const double x[] = {0, 1, 2}, y[] = {1000, 2, 1};
    wefti_buffer out = {0};
    wefti_series series = {"c", x, y, 3, 1, WEFTI_MARK_LINE};
    wefti_chart chart = {.title = "",
                         .x_title = "",
                         .y_title = "",
                         .y_most = 2,
                         .series = &series,
                         .n_series = 1};
    wefti_chart_write(ctx, &out, &chart);
    check_page(out.bytes);
    assert_non_null(strstr(out.bytes, ">2.0</text>"));
    assert_null(strstr(out.bytes, ">1000</text>"));
    assert_non_null(strstr(out.bytes, "<svg x=")); /* the inner drawing cuts */
    wefti_buffer_fini(ctx, &out);
}

static void a_logarithmic_axis_has_powers_of_ten(void **state) {
    (void)state;
    static const double x[] = {0, -5, 0.01, 1, 100}, y[] = {1, 2, 3, 4, 5};
    char *page = draw(x, y, 5, WEFTI_MARK_LINE, true);
    assert_int_equal(count_in_path(curve_of(page), 'L'),
                     2); /* three points lie above zero */
    assert_non_null(strstr(page, ">100 ms</text>"));
    assert_non_null(strstr(page, ">10 s</text>"));
    wefti_free(ctx, page);
}

static void nothing_to_draw_says_so(void **state) {
    (void)state;
    static const double x[] = {0, NAN}, y[] = {NAN, 1};
    for (int64_t n = 0; n <= 2; n++) {
        char *page = draw(x, y, n, WEFTI_MARK_LINE, false);
        assert_non_null(strstr(page, "no data"));
        wefti_free(ctx, page);
    }
}

static void extreme_numbers_are_drawn_or_left_out(void **state) {
    (void)state;
    static const double some[] = {0,        -0.0,      1,      -1,      1e100,  -1e100,
                                  1e101,    1e308,     -1e308, 1e-300,  5e-324, NAN,
                                  INFINITY, -INFINITY, 1e15,   1e15 + 1};
    enum { N = sizeof some / sizeof some[0] };
    for (uint64_t trial = 0; trial < 500; trial++) {
        double x[4], y[4];
        for (uint64_t i = 0; i < 4; i++) {
            x[i] = some[wefti_rng_u64(5, WEFTI_STREAM_TEST, trial, 2 * i) % N];
            y[i] = some[wefti_rng_u64(5, WEFTI_STREAM_TEST, trial, 2 * i + 1) % N];
        }
        wefti_free(ctx, draw(x, y, 4, WEFTI_MARK_DOTS, trial % 2));
    }
}

static void bars_show_shares_and_skip_what_is_not_there(void **state) {
    (void)state;
    static const wefti_part first[] = {
        {"a<", 0.3, 1}, {"b", 0.1, 2}, {"c", NAN, 3}, {"d", -1, 4}};
    static const wefti_part second[] = {{"e", 0, 1}, {"f", INFINITY, 2}};
    static const wefti_bar bars[] = {{"one", first, 4, WEFTI_LEGEND_VALUES},
                                     {"two", second, 2, WEFTI_LEGEND_NAMES},
                                     {"three", first, 1, WEFTI_LEGEND_NONE}};
    wefti_buffer out = {0};
    wefti_bars_write(ctx, &out, "B & b", NULL, bars, 3);
    check_page(out.bytes);
    assert_int_equal(count_of(out.bytes, "<rect"), 3);
    assert_non_null(strstr(out.bytes, ">75%</text>"));
    assert_non_null(strstr(out.bytes, ">25%</text>"));
    assert_non_null(strstr(out.bytes, "a&lt; 300 ms"));
    assert_int_equal(count_of(out.bytes, "class=\"block\""), 6);
    wefti_buffer_fini(ctx, &out);
    out = (wefti_buffer){0};
    wefti_bars_write(ctx, &out, "", NULL, bars + 1, 1);
    check_page(out.bytes);
    assert_non_null(strstr(out.bytes, "no data"));
    wefti_buffer_fini(ctx, &out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        claim(a_curve_lies_inside_the_plot_and_goes_the_right_way),
        claim(gaps_break_the_line_and_lone_points_show),
        claim(long_curves_are_thinned),
        claim(dots_carry_their_value),
        claim(curves_above_the_most_are_cut),
        claim(a_logarithmic_axis_has_powers_of_ten),
        claim(nothing_to_draw_says_so),
        claim(extreme_numbers_are_drawn_or_left_out),
        claim(bars_show_shares_and_skip_what_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
