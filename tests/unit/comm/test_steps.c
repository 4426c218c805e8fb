/* SPDX-License-Identifier: MIT */
/* What a rank reports of its steps, in order and readable for the others. */
#include "check.h"
#include "mesh/elastic.h"

static void assert_steps(const wefti_elastic *e, int64_t begun, int64_t sent,
                         int64_t finished) {
    assert_int_equal(e->own.steps.begun, begun);
    assert_int_equal(e->own.steps.sent, sent);
    assert_int_equal(e->own.steps.finished, finished);
}

/* Its first world ends the steps before it, which it never had. */
TEST(test_a_joiner_reports_none_before_its_first) {
    wefti_elastic e = {.own.steps = {-1, -1, -1}, .own.has_nothing = true};
    wefti_elastic_reach(&e, (wefti_member_steps){-1, 13, 13});
    assert_steps(&e, -1, -1, -1);
    wefti_elastic_reach_begin(&e, 14);
    assert_steps(&e, 14, 13, 13);
    wefti_elastic_reach(&e, (wefti_member_steps){-1, 14, 12});
    assert_steps(&e, 14, 14, 13);
}

TEST(test_a_founder_goes_step_by_step) {
    wefti_elastic e = {.own.steps = {6, 6, 6}};
    wefti_elastic_reach_begin(&e, 7);
    assert_steps(&e, 7, 6, 6);
    wefti_elastic_reach(&e, (wefti_member_steps){-1, 7, 5});
    assert_steps(&e, 7, 7, 6);
    wefti_elastic_reach_begin(&e, 7);
    assert_steps(&e, 7, 7, 6);
}

/* Of the longest of the last steps; nobody is given up in the first three. */
TEST(test_patience_is_five_of_the_longest_steps) {
    static const struct {
        double said_s, steps_s[4], patience_s;
    } cases[] = {
        {0, {100, 100, 0, 0}, 0}, {0, {100, 100, 1, 2}, 30},
        {0, {1, 1, 10, 20}, 100}, {0, {1, 1, 20, 10}, 5 * 19.0},
        {7, {1, 1, 20, 10}, 7},   {-1, {1, 1, 20, 10}, 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        wefti_elastic e = {.setup.policy.patience_s = cases[k].said_s};
        for (int i = 0; i < 4 && cases[k].steps_s[i] > 0; i++)
            wefti_elastic_learn_step(&e, cases[k].steps_s[i]);
        assert_float_equal(wefti_elastic_patience(&e), cases[k].patience_s, 1e-9);
    }
}
