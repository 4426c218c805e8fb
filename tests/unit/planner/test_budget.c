/* SPDX-License-Identifier: MIT */
/* What may be sent in 24 hours, and in busy ones. */
#include "check.h"

#include "planner/replan.h"

/* Whoever sends as much as may be sent never has more than that in 24 hours, and nearly as much. */
TEST(as_much_as_may_be_sent_is_sent_and_no_more) {
    enum { STEPS = 3 * 1440, DAY = 1440 };
    static double sent[STEPS];
    wefti_budget b = {.per_day = 1e9};
    double last = 0;
    for (int i = 0; i < STEPS;
         i++) { /* of a minute; at first twice as much as is allowed */
        double Bps = wefti_budget_Bps(&b, 1e9, 0);
        assert_true(Bps <= 1e9 / 86400 * (1 + 1e-9));
        sent[i] = 60 * Bps * (i < 300 ? 2 : 1);
        wefti_budget_add(&b, 60, sent[i]);
    }
    for (int i = 0; i < STEPS; i++) {
        last += sent[i] - (i >= DAY ? sent[i - DAY] : 0);
        assert_true(last <= 1e9 * (1 + 1e-9));
    }
    assert_true(last > 0.9e9);
}

TEST(a_run_that_ends_soon_may_send_the_rest) {
    wefti_budget b = {.per_day = 1e9}, none = {0};
    assert_true(wefti_budget_Bps(&none, 3600, 0) == 0);
    assert_float_equal(wefti_budget_Bps(&b, 7200, 0), 1e9 / 7200, 1);
    wefti_budget_add(&b, 60, 4e8);
    assert_float_equal(wefti_budget_Bps(&b, 7200, 0), 6e8 / 7200, 1);
    wefti_budget_add(&b, 86400 - 3700, 0); /* the day is over in an hour */
    assert_float_equal(wefti_budget_Bps(&b, 7200, 0), 6e8 / 3600, 1e9 / 7200);
    wefti_budget_add(&b, 90000, 0);
    assert_float_equal(wefti_budget_Bps(&b, 7200, 0), 1e9 / 7200, 1);
    wefti_budget_add(&b, 60, 2e9);
    assert_true(wefti_budget_Bps(&b, 7200, 0) == 1);
}

/* Hours begin with their first second and end before their last one, also over midnight. */
TEST(busy_hours_have_a_rate_of_their_own) {
    wefti_budget b = {.busy = {64800, 84600, 250}}; /* 18:00 to 23:30 */
    static const double at[] = {0, 64799, 64800, 84599, 84600, 86399};
    for (int i = 0; i < 6; i++) {
        bool busy = i == 2 || i == 3;
        b.busy = (wefti_busy){64800, 84600, 250};
        assert_int_equal(wefti_budget_is_busy(&b, at[i]), busy);
        assert_true(wefti_budget_Bps(&b, 3600, at[i]) == (busy ? 250 : 0));
        b.busy = (wefti_busy){84600, 64800, 250};
        assert_int_equal(wefti_budget_is_busy(&b, at[i]), !busy);
        b.busy.Bps = 0;
        assert_false(wefti_budget_is_busy(&b, at[i]));
    }
    b = (wefti_budget){.per_day = 3.6e6, .busy = {0, 3600, 250}};
    assert_true(wefti_budget_Bps(&b, 3600, 0) == 250); /* the less of both */
    assert_float_equal(wefti_budget_Bps(&b, 3600, 3600), 1000, 1);
    b.busy.Bps = 2000;
    assert_float_equal(wefti_budget_Bps(&b, 3600, 0), 1000, 1);
}
