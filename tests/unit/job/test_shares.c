/* SPDX-License-Identifier: MIT */
/* batch.shares: whole parts of a step's sequences. */
#include "check.h"
#include "job/job.h"

static void divides(int64_t all, int n, const int64_t *shares, const int64_t *expected) {
    int64_t parts[4];
    wefti_shares_divide(all, n, shares, parts);
    for (int i = 0; i < n; i++) assert_int_equal(parts[i], expected[i]);
}

#define LIST(...) ((const int64_t[]){__VA_ARGS__})

static void parts_are_whole_and_add_up(void **state) {
    divides(32, 2, LIST(3, 1), LIST(24, 8));
    divides(32, 2, LIST(1, 1), LIST(16, 16));
    divides(10, 3, LIST(1, 1, 1), LIST(4, 3, 3)); /* equal remainders: the first one */
    divides(10, 3, LIST(5, 2, 2), LIST(6, 2, 2));
    divides(8, 3, LIST(1, 1, 3), LIST(2, 1, 5));
    divides(1 << 30, 2, LIST(1000000, 1), LIST((1 << 30) - 1074, 1074));
}

static void nobody_has_nothing(void **state) {
    divides(4, 3, LIST(1000, 1, 1), LIST(2, 1, 1));
    divides(3, 3, LIST(1, 1000, 1), LIST(1, 1, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_whole_and_add_up),
        cmocka_unit_test(nobody_has_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
