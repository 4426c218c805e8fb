/* SPDX-License-Identifier: MIT */
/* Steps to a loss: what was measured on a small model with two nodes, and what is left of that. */
#include "check.h"

#include <math.h>

#include "planner/advise.h"

static weft_candidate measured(double low, double high, double per_doubling) {
    return (weft_candidate){
        .nodes = 2,
        .learning = {"?", true, (float)per_doubling / 3, low, high, per_doubling, ""},
        .prediction = {.parameters = (int64_t)WEFTI_LEARNING_PARAMETERS}};
}

static void steps_are_those_that_were_measured(void **state) {
    wefti_adviser a = {.own = NULL};
    weft_candidate c = measured(0.5, 0.72, 0);
    wefti_advise_steps(&a, &c);
    assert_true(fabs(c.steps - 0.6) < 1e-12);
    assert_true(fabs(c.steps_error - log(1.2)) < 1e-12);
    c.learning.changes = "";
    wefti_advise_steps(&a, &c);
    assert_true(c.steps == 1 && c.steps_error == 0);
}

/* With a whole decade beyond what is near, half of what was measured counts; both get nearer to
 * what is known of nothing: as many steps, a quarter more or less. */
static void a_small_model_says_less_of_a_large_one(void **state) {
    wefti_adviser a = {.own = NULL};
    weft_candidate near = measured(0.36, 0.36, 0), far = near;
    near.prediction.parameters = 2600000;
    far.prediction.parameters = 26000000;
    wefti_advise_steps(&a, &near);
    wefti_advise_steps(&a, &far);
    assert_true(fabs(near.steps - 0.36) < 1e-12 && fabs(far.steps - 0.6) < 1e-12);
    assert_true(near.steps_error < far.steps_error);
    far.prediction.parameters = INT64_MAX;
    wefti_advise_steps(&a, &far);
    assert_true(far.steps > 0.9 && far.steps < 1);
    assert_true(far.steps_error > 0.2 && far.steps_error < 0.25);
}

static void nodes_that_drift_take_more_steps(void **state) {
    wefti_adviser a = {.own = NULL};
    weft_candidate drifts = measured(1, 1, 0.3), averages = measured(0.4, 0.4, 0);
    drifts.nodes = averages.nodes = 8;
    wefti_advise_steps(&a, &drifts);
    wefti_advise_steps(&a, &averages);
    assert_true(fabs(drifts.steps - exp(0.6)) < 1e-12);
    assert_true(fabs(averages.steps - 0.4) < 1e-12);
    drifts.nodes = 1000; /* nothing was measured there */
    double before = drifts.steps;
    wefti_advise_steps(&a, &drifts);
    assert_true(drifts.steps == before);
}

/* Over the run's own optimizer, whose error is in it as well. */
static void the_runs_own_optimizer_is_what_counts(void **state) {
    wefti_recipe muon = {.learning = {"muon", true, 0, 0.4, 0.4, 0, ""}};
    wefti_adviser a = {.own = &muon};
    weft_candidate c = measured(0.8, 0.8, 0);
    wefti_advise_steps(&a, &c);
    assert_true(fabs(c.steps - 2) < 1e-12 && c.steps_error > 0.05);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_those_that_were_measured),
        cmocka_unit_test(a_small_model_says_less_of_a_large_one),
        cmocka_unit_test(nodes_that_drift_take_more_steps),
        cmocka_unit_test(the_runs_own_optimizer_is_what_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
