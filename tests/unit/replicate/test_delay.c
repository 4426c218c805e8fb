/* SPDX-License-Identifier: MIT */
/* With a delay a step applies what the step before it agreed on. */
#include "check.h"
#include "replicate/replicator.h"

static void before_the_first_step_nothing_was_agreed_on(void **state) {
    wefti_replicator r = {.config = {.kind = "demo", .every = 1, .delay = 1},
                          .ops = wefti_replicator_find("demo")};
    wefti_cover cover = wefti_replicator_cover(&r, 0, 0, 0);
    assert_false(cover.all);
    assert_int_equal(cover.n_runs, 0);
    assert_int_equal(cover.count, 0);
    cover = wefti_replicator_cover(&r, 0, 0, 1);
    assert_true(cover.all);
    assert_int_equal(cover.count, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_first_step_nothing_was_agreed_on)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
