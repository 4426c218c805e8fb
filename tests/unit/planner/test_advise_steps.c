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

TEST(steps_are_those_that_were_measured) {
    wefti_adviser a = {.length = 200};
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
TEST(a_small_model_says_less_of_a_large_one) {
    wefti_adviser a = {.length = 200};
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

TEST(nodes_that_drift_take_more_steps) {
    wefti_adviser a = {.length = 200};
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
TEST(the_runs_own_optimizer_is_what_counts) {
    wefti_recipe muon = {.learning = {"muon", true, 0, 0.4, 0.4, 0, ""}};
    wefti_adviser a = {.length = 200, .own = &muon};
    weft_candidate c = measured(0.8, 0.8, 0);
    wefti_advise_steps(&a, &c);
    assert_true(fabs(c.steps - 2) < 1e-12 && c.steps_error > 0.05);
}

/* ---- longer runs ---- */

/* Up to 200 steps it is the table, then both go towards 1, and are less certain beyond what
 * was measured. */
TEST(leads_and_lags_shrink_with_the_length) {
    double weight = 1, off = 0;
    for (double steps = 100; steps < 1e6; steps *= 1.1) {
        wefti_adviser a = {.length = steps};
        weft_candidate lead = measured(0.5, 0.5, 0), lag = measured(2, 2, 0);
        wefti_advise_steps(&a, &lead);
        wefti_advise_steps(&a, &lag);
        double left = log(lead.steps) / log(0.5), moved = weight - left;
        assert_true(steps <= 200 ? left == 1 : left > 0 && moved > 0 && moved < 0.1);
        assert_true(fabs(lead.steps * lag.steps - 1) < 1e-9);
        assert_true(steps <= 200 || lead.steps_error > off);
        weight = left, off = lead.steps_error;
    }
    assert_true(weight < 0.1);
    wefti_adviser shorter = {.length = 20}, measured_ones = {.length = 200};
    weft_candidate c = measured(0.5, 0.5, 0), d = c;
    wefti_advise_steps(&shorter, &c);
    wefti_advise_steps(&measured_ones, &d);
    assert_true(c.steps == d.steps && c.steps_error > d.steps_error);
}

/* At the lengths that were measured it is the mean of the measured logarithms, the sure ones more,
 * or, with 5 rows or
 * fewer, what the power of T before says; of a recipe, the mean of its own rows and, as
 * (0.1 / log m / 0.3)^2 rows, of what it had before and the mean has lost. */
TEST(the_curve_goes_through_what_was_measured) {
    static const double lengths[] = {1000, 5000, 20000};
    static const struct {
        const char *name;
        double m;
    } own[] = {{"flexdemo", 1.11 * 1.90},
               {"signsgd", 3.64 * 4.73},
               {"random 1/16", 2.18 * 2.87}};
    double left[3] = {1, 1, 1}, before = 1, power = 0, at = 200;
    for (int i = 0; i < 3; i++) {
        double sum = 0, weight = 0, n = 0, mine[3] = {0}, n_mine[3] = {0};
        for (const wefti_longer_run *r = wefti_longer; r->name; r++) {
            const weft_learning *l = &wefti_recipe_find(r->name)->learning;
            assert_true(r->steps == lengths[0] || r->steps == lengths[1] ||
                        r->steps == lengths[2]);
            if (r->steps != lengths[i]) continue;
            double share = log(r->ratio) / log(sqrt(l->low * l->high));
            double sure = 1 / (1 + pow(0.1 / log(sqrt(l->low * l->high)) / 0.3, 2));
            sum += sure * share, weight += sure, n++;
            for (int j = 0; j < 3; j++)
                if (strncmp(r->name, own[j].name, strlen(own[j].name)) == 0)
                    mine[j] += share, n_mine[j]++;
        }
        assert_true(n > 5 ? sum > 0 : i == 2);
        if (n > 5) power = log(sum / weight / before) / log(lengths[i] / at);
        double all = before * pow(lengths[i] / at, power);
        assert_true(fabs(wefti_length_weight(NULL, lengths[i]) - all) < 1e-12);
        assert_true(
            fabs(wefti_length_weight(wefti_recipe_find("flexdemo sign"), lengths[i]) -
                 all) < 1e-12);
        for (int j = 0; j < 3; j++) {
            double doubt = pow(0.1 / (log(own[j].m) / 2) / 0.3, 2),
                   expected = left[j] * all / before;
            left[j] = n_mine[j] > 0 ? (mine[j] + doubt * expected) / (n_mine[j] + doubt)
                                    : expected;
            double is = wefti_length_weight(wefti_recipe_find(own[j].name), lengths[i]);
            if (fabs(is - left[j]) > 1e-12)
                fail_msg("%s at %g steps: %g, should be %g", own[j].name, lengths[i], is,
                         left[j]);
        }
        before = all, at = lengths[i];
    }
}

/* The vote on signs needs 4 times the steps in 200 and as many as AdamW in 1,000; rows drawn at
 * random stay behind. What a mean of all methods says of a length is true of neither. */
TEST(methods_keep_unlike_shares_of_their_lag) {
    double off,
        votes = weft_recipe_steps(wefti_recipe_find("signsgd"), 250000, 2, 1000, &off),
        rows = weft_recipe_steps(wefti_recipe_find("random 1/16"), 250000, 2, 1000, &off);
    assert_true(votes < 1.15 && rows > 1.9);
    assert_true(weft_recipe_steps(wefti_recipe_find("signsgd"), 250000, 2, 5000, &off) <
                votes);
    assert_true(weft_recipe_steps(wefti_recipe_find("random 1/16"), 250000, 2, 5000,
                                  &off) < rows);
}

static bool is_compared(const wefti_recipe *r) {
    return r->learning.measured && r->learning.changes[0];
}

/* Half-way in log T between two lengths it is half of both; beyond the last one it falls as the
 * mean of all does, in 100,000 steps from 20,000 as from 1,000 to 5,000. */
TEST(a_recipes_curve_is_its_own) {
    static const double lengths[] = {1000, 5000, 20000};
    double fall = wefti_length_weight(NULL, 5000) / wefti_length_weight(NULL, 1000);
    assert_true(fall > 0 && fall < 1);
    for (const wefti_recipe *r = wefti_recipes; r->name; r++) {
        if (!is_compared(r)) continue;
        for (int i = 0; i < 2; i++) {
            double middle = wefti_length_weight(r, sqrt(lengths[i] * lengths[i + 1])),
                   ends = wefti_length_weight(r, lengths[i]) +
                          wefti_length_weight(r, lengths[i + 1]);
            assert_true(fabs(middle - ends / 2) < 1e-12);
        }
        assert_true(fabs(wefti_length_weight(r, 100000) -
                         wefti_length_weight(r, 20000) * fall) < 1e-12);
        assert_true(wefti_length_weight(r, 150) == 1);
    }
    assert_true(wefti_length_weight(wefti_recipe_find("diloco H=50"), 5000) >
                wefti_length_weight(NULL, 5000));
}

/* A method that is ahead in short runs may be behind in long ones: at every length there is a
 * number, the last one goes over into what is beyond, which nears AdamW from the same side, and the
 * range only grows there. More nodes never need fewer steps. */
TEST(a_method_may_change_sides) {
    static const double lengths[] = {200, 1000, 5000, 20000, 200000};
    int changed = 0;
    for (const wefti_recipe *r = wefti_recipes; r->name; r++) {
        double steps[5], off[5], many, after, unused;
        if (!is_compared(r)) continue;
        for (int i = 0; i < 5; i++) {
            steps[i] = weft_recipe_steps(r, 250000, 2, lengths[i], &off[i]);
            many = weft_recipe_steps(r, 250000, 8, lengths[i], &unused);
            bool fair = isfinite(steps[i]) && steps[i] > 0 && off[i] > 0 && off[i] < 1;
            if (!fair || (r->learning.per_doubling >= 0 && many < steps[i]))
                fail_msg("%s at %g steps: %g +- %g, with 8 nodes %g", r->name, lengths[i],
                         steps[i], off[i], many);
        }
        after = weft_recipe_steps(r, 250000, 2, 20000 * (1 + 1e-9), &unused);
        assert_true(fabs(after - steps[3]) < 1e-6 && fabs(unused - off[3]) < 1e-6);
        assert_true(log(steps[4]) * log(steps[3]) > 0 && off[4] > off[3]);
        assert_true(fabs(log(steps[4])) < fabs(log(steps[3])));
        changed += log(steps[3]) * log(steps[0]) < 0;
    }
    assert_true(changed > 0);
}

TEST(a_recipe_knows_the_length_of_the_run) {
    const weft_recipe *muon = wefti_recipe_find("full sync, muon");
    double off[3], steps[3];
    static const double lengths[] = {0, 200, 20000};
    for (int i = 0; i < 3; i++)
        steps[i] = weft_recipe_steps(muon, 260000, 2, lengths[i], &off[i]);
    assert_true(steps[1] < 1 && steps[1] < steps[2] && off[1] < off[2]);
    /* not known: between both */
    assert_true(fabs(steps[0] - sqrt(steps[1] * steps[2])) < 1e-12 && off[0] == off[2]);
}

/* Size and length are two signs of one thing: the smaller weight counts, not the product, also of a
 * method that has changed sides. */
TEST(the_smaller_weight_counts) {
    static const struct {
        const char *name;
        double steps;
        int64_t parameters;
        bool length;
    } cases[] = {{"?", 200, 26000000, false},
                 {"?", 5000, 26000000, true},
                 {"?", 1000, 2600000000, false},
                 {"?", 20000, 26000000, true},
                 {"muloco int4", 20000, 26000000, true},
                 {"muloco int4", 20000, INT64_MAX, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        wefti_adviser a = {.length = cases[i].steps};
        weft_candidate c = measured(0.5, 0.5, 0);
        snprintf(c.name, sizeof c.name, "%s", cases[i].name);
        c.prediction.parameters = cases[i].parameters;
        wefti_advise_steps(&a, &c);
        double length = wefti_length_weight(wefti_recipe_find(c.name), cases[i].steps),
               size = wefti_learning_weight(cases[i].parameters),
               weight = cases[i].length ? length : size;
        if (fabs(log(c.steps) / log(0.5) - weight) > 1e-9)
            fail_msg("case %zu: %g", i, log(c.steps) / log(0.5));
    }
}

/* SparseLoCo falls behind further in 1,000 steps than in 200. */
TEST(a_lag_can_grow) {
    const weft_recipe *sparse = wefti_recipe_find("sparseloco");
    double off, early = weft_recipe_steps(sparse, 250000, 2, 200, &off),
                late = weft_recipe_steps(sparse, 250000, 2, 1000, &off);
    assert_true(late > 1.05 * early && off < 0.15);
    assert_true(weft_recipe_steps(sparse, 26000000, 2, 1000, &off) < sqrt(late) * 1.001);
}

/* Each is in the stated range, and those with Muon within 15 %. */
TEST(what_was_measured_is_in_the_range) {
    for (const wefti_longer_run *r = wefti_longer; r->name; r++) {
        const weft_recipe *recipe = wefti_recipe_find(r->name);
        double error, steps = weft_recipe_steps(recipe, 250000, 2, r->steps, &error);
        double off = fabs(log(r->ratio / steps));
        if (off > error || (recipe->muon && off > 0.15))
            fail_msg("%s at %g steps: %.3f +- %.3f, measured %.3f", r->name, r->steps,
                     steps, error, r->ratio);
    }
}

/* Each is chosen up to a hundred times the parameters that it was measured with itself. */
TEST(a_method_is_chosen_within_two_decades) {
    static const struct {
        const char *name;
        int64_t nodes, parameters;
        bool reaches;
    } cases[] = {{"choco aer int8", 2, 1080000000, true},
                 {"choco aer int8", 2, 1080000001, false},
                 {"sites flexdemo", 2, 1000000000, true},
                 {"flexdemo int8", 2, 250000000, true},
                 {"flexdemo int8", 2, 350000000, false},
                 {"choco int8 muon", 2, 1000000000, false},
                 {"choco aer sign", 2, 26000001, false},
                 {"muon int4", 2, 1000000000, false},
                 {"full sync", 2, 70000000000, true},
                 {"full sync, muon", 2, 70000000000, true},
                 {"one node, muon", 1, 70000000000, true},
                 {"diloco H=50", 2, 70000000000, true},
                 {"muloco int4", 2, 70000000000, true},
                 {"sparseloco", 2, 70000000000, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_candidate c = {.nodes = cases[i].nodes,
                            .usable = true,
                            .learning = {"", true, 0, 1, 1, 0, ""},
                            .prediction = {.parameters = cases[i].parameters}};
        const wefti_recipe *recipe = wefti_recipe_find(cases[i].name);
        if (recipe) c.learning = recipe->learning;
        if (cases[i].nodes == 1) c.learning.changes = "Muon";
        snprintf(c.name, sizeof c.name, "%s", cases[i].name);
        if (wefti_advise_reaches(&c) != cases[i].reaches)
            fail_msg("%s with %lld parameters", cases[i].name,
                     (long long)cases[i].parameters);
        double cost_s = 1;
        assert_int_equal(wefti_advise_least(&c, &cost_s, 1), cases[i].reaches ? 0 : -1);
    }
}
