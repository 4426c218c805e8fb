/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/memory.h"
#include "base/stats.h"
#include "check.h"

static void the_middle_is_the_mean_of_two_where_there_are_two(void **state) {
    double odd[] = {3, 1, 2}, even[] = {4, 1, 2, 10}, one[] = {7};
    assert_true(wefti_median(odd, 3) == 2 && odd[0] == 1 && odd[2] == 3);
    assert_true(wefti_median(even, 4) == 3);
    assert_true(wefti_median(one, 1) == 7);
    assert_true(isnan(wefti_median(NULL, 0)) && isnan(wefti_quantile(NULL, 0, 0.5)));
}

static void quantiles_lie_in_proportion(void **state) {
    double x[] = {30, 10, 20, 50, 40};
    assert_true(wefti_quantile(x, 5, 0) == 10 && wefti_quantile(x, 5, 1) == 50);
    assert_true(wefti_quantile(x, 5, 0.5) == 30);
    assert_true(fabs(wefti_quantile(x, 5, 0.1) - 14) < 1e-12);
    assert_true(fabs(wefti_quantile(x, 5, 0.95) - 48) < 1e-12);
}

/* What is there stays, what is new is zero, and growing n times costs few copies. */
static void room_grows_by_doubling(void **state) {
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_middle_is_the_mean_of_two_where_there_are_two),
        cmocka_unit_test(quantiles_lie_in_proportion),
        cmocka_unit_test(room_grows_by_doubling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
