/* SPDX-License-Identifier: MIT */
/* What a rank reports of its steps, in order and readable for the others. */
#include "check.h"
#include "mesh/elastic.h"

static void assert_steps(const wefti_elastic *e, int64_t begun, int64_t sent,
                         int64_t finished) {
    assert_int_equal(e->steps.begun, begun);
    assert_int_equal(e->steps.sent, sent);
    assert_int_equal(e->steps.finished, finished);
}

/* Its first world ends the steps before it, which it never had. */
static void test_a_joiner_reports_none_before_its_first(void **state) {
    wefti_elastic e = {.steps = {-1, -1, -1}, .has_nothing = true};
    wefti_elastic_reach(&e, (wefti_member_steps){-1, 13, 13});
    assert_steps(&e, -1, -1, -1);
    wefti_elastic_reach_begin(&e, 14);
    assert_steps(&e, 14, 13, 13);
    wefti_elastic_reach(&e, (wefti_member_steps){-1, 14, 12});
    assert_steps(&e, 14, 14, 13);
}

static void test_a_founder_goes_step_by_step(void **state) {
    wefti_elastic e = {.steps = {6, 6, 6}};
    wefti_elastic_reach_begin(&e, 7);
    assert_steps(&e, 7, 6, 6);
    wefti_elastic_reach(&e, (wefti_member_steps){-1, 7, 5});
    assert_steps(&e, 7, 7, 6);
    wefti_elastic_reach_begin(&e, 7);
    assert_steps(&e, 7, 7, 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_joiner_reports_none_before_its_first),
        cmocka_unit_test(test_a_founder_goes_step_by_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
