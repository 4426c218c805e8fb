/* SPDX-License-Identifier: MIT */
/* What is known of how fast others compute. */
#include "check.h"
#include "rank/rank.h"

enum { R = 2 };

static double row_s[R], step_s[R];
static int64_t rows[R] = {4, 4}, before[R] = {2, 8};
static wefti_job job = {.R = R, .S = 1, .rows = rows, .earlier_rows = before};
static wefti_rank r = {.job = &job, .speeds = {.row_s = row_s, .step_s = step_s}};

static void step_of(double a_s, double b_s) {
    wefti_speeds_note(&r, 0, a_s);
    wefti_speeds_note(&r, 1, b_s);
    wefti_speeds_end(&r, 7);
}

static void one_step_asleep_says_little(void **state) {
    step_of(9, 9); /* the first one warms up */
    step_of(4, 8);
    assert_true(row_s[0] == 1 && row_s[1] == 2);
    step_of(400, 8);
    assert_true(row_s[0] == 1.125 && row_s[1] == 2);
}

static void lasting_slowness_is_followed(void **state) {
    for (int i = 0; i < 64; i++) step_of(40, 8);
    assert_true(row_s[0] > 9.9 && row_s[0] < 10 && row_s[1] == 2);
}

/* Of a step that is read when rows have changed. */
static void seconds_are_of_the_rows_of_their_step(void **state) {
    for (int i = 0; i < R; i++) row_s[i] = 0;
    job.shared_step = 8;
    step_of(4, 8);
    assert_true(row_s[0] == 2 && row_s[1] == 1);
    job.shared_step = 7;
    for (int i = 0; i < R; i++) row_s[i] = 0;
    step_of(4, 8);
    assert_true(row_s[0] == 1 && row_s[1] == 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_step_asleep_says_little),
        cmocka_unit_test(lasting_slowness_is_followed),
        cmocka_unit_test(seconds_are_of_the_rows_of_their_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
