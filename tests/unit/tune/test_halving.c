/* SPDX-License-Identifier: MIT */
/* Asynchronous successive halving: who goes on, who does not, and how it ends. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "tune/halving.h"

enum { MOST = 64 };

static wefti_trial trials[MOST];
static wefti_halving h;

static void begin(int n_trials, int n_seeds, int eta, int64_t budget) {
    memset(trials, 0, sizeof trials);
    h = (wefti_halving){.n_trials = n_trials,
                        .n_seeds = n_seeds,
                        .eta = eta,
                        .n_rungs = wefti_halving_rungs(n_trials, eta, budget, 0),
                        .trials = trials};
    wefti_halving_init(&h, budget);
}

/* One job after another; the loss of trial i is i away from `best`. Returns the steps that
 * were trained, counted once where a trial goes on. */
static int64_t go_through(int best, int visits[MOST]) {
    weft_tune_job job = {.struct_size = sizeof job};
    int64_t steps = 0;
    memset(visits, 0, MOST * sizeof *visits);
    while (wefti_halving_next(&h, &job)) {
        assert_true(wefti_halving_takes(&h, &job));
        int64_t before = job.rung && job.seed == 0 ? h.steps[job.rung - 1] : 0;
        steps += job.steps - before;
        visits[job.trial]++;
        wefti_halving_report(&h, &job, 1 + abs(job.trial - best), 1);
    }
    return steps;
}

TEST(the_rungs_divide_the_budget) {
    begin(27, 1, 3, 270);
    assert_int_equal(h.n_rungs, 4);
    int64_t expected[] = {10, 30, 90, 270};
    for (int k = 0; k < 4; k++) assert_int_equal(h.steps[k], expected[k]);
    assert_int_equal(wefti_halving_rungs(2, 3, 270, 0), 1);
    assert_int_equal(wefti_halving_rungs(27, 3, 5, 0), 2);
    assert_int_equal(wefti_halving_rungs(27, 3, 270, 30), 3);
    assert_int_equal(wefti_halving_rungs(27, 3, 270, 31), 2);
    assert_int_equal(wefti_halving_rungs(27, 3, 270, 1000), 1);
    begin(9, 1, 3, 100); /* rounded up */
    assert_int_equal(h.steps[0], 12);
    assert_int_equal(h.steps[1], 34);
    assert_int_equal(h.steps[2], 100);
}

TEST(the_best_trial_reaches_the_budget_wherever_it_is) {
    int visits[MOST];
    for (int best = 0; best < 27; best++) {
        begin(27, 1, 3, 270);
        int64_t steps = go_through(best, visits);
        assert_int_equal(wefti_halving_ended(&h, best), 3);
        assert_int_equal(visits[best], 4);
        assert_true(steps <= 27 * 270); /* each better than all before: nobody can stop */
        if (best == 0) assert_int_equal(steps, 27 * 10 + 9 * 20 + 3 * 60 + 180);
        for (int i = 0; i < 27; i++) assert_true(visits[i] >= 1);
    }
}

TEST(a_third_goes_on_at_most_but_for_the_first) {
    int visits[MOST], reached[4] = {0};
    begin(27, 1, 3, 270);
    go_through(0, visits); /* the best come first: nobody is promoted in vain */
    for (int i = 0; i < 27; i++)
        for (int k = 0; k <= wefti_halving_ended(&h, i); k++) reached[k]++;
    int expected[] = {27, 9, 3, 1};
    for (int k = 0; k < 4; k++) assert_int_equal(reached[k], expected[k]);
}

TEST(the_last_rung_has_every_seed) {
    int visits[MOST];
    begin(9, 3, 3, 90);
    go_through(4, visits);
    assert_int_equal(visits[4], 2 + 3);
    assert_true(trials[4].spread == 0 && trials[4].score[2] == 1);
}

TEST(a_mean_and_its_spread_are_those_of_the_seeds) {
    weft_tune_job job = {.struct_size = sizeof job};
    double losses[] = {1, 2, 4.5};
    begin(1, 3, 3, 90);
    for (int s = 0; s < 3; s++) {
        assert_true(wefti_halving_next(&h, &job));
        assert_int_equal(job.seed, s);
        wefti_halving_report(&h, &job, losses[s], 2);
    }
    assert_false(wefti_halving_next(&h, &job));
    assert_true(fabs(trials[0].score[0] - 2.5) < 1e-12);
    assert_true(fabs(trials[0].spread - sqrt((2.25 + 0.25 + 4) / 2)) < 1e-12);
    assert_true(trials[0].trained_s == 6);
}

TEST(a_failed_trial_goes_nowhere) {
    weft_tune_job job = {.struct_size = sizeof job};
    int visits[MOST] = {0};
    begin(9, 2, 3, 90);
    while (wefti_halving_next(&h, &job)) {
        bool fails = job.trial != 7;
        visits[job.trial]++;
        wefti_halving_report(&h, &job, fails ? (double)NAN : 3, 1);
    }
    for (int i = 0; i < 9; i++) assert_int_equal(visits[i], i == 7 ? 2 + 2 : 1);
    assert_int_equal(wefti_halving_ended(&h, 7), 2);
}

/* The best of rung 0 fails at the budget: another one takes its place. */
TEST(a_search_ends_with_a_whole_run) {
    weft_tune_job job = {.struct_size = sizeof job};
    begin(3, 2, 3, 90);
    while (wefti_halving_next(&h, &job)) {
        bool fails = job.trial == 0 && job.rung == 1;
        wefti_halving_report(&h, &job, fails ? (double)NAN : 1 + job.trial, 1);
    }
    assert_true(trials[0].lost);
    assert_int_equal(wefti_halving_ended(&h, 1), 1);
    assert_true(trials[1].score[1] == 2);
    assert_int_equal(wefti_halving_ended(&h, 2), 0);
}

/* Jobs run side by side: each is given once, and what is not reported is not counted. */
TEST(jobs_side_by_side_are_given_once) {
    weft_tune_job open[MOST], job = {.struct_size = sizeof job};
    bool given[MOST][WEFTI_RUNGS][WEFTI_SEEDS] = {0};
    begin(27, 3, 3, 270);
    for (int n = 0, turn = 0;; turn++) {
        while (n < 4 && wefti_halving_next(&h, &job)) {
            assert_false(given[job.trial][job.rung][job.seed]);
            given[job.trial][job.rung][job.seed] = true;
            open[n++] = job;
        }
        if (n == 0) break;
        int ends = turn * 7 % n; /* in some order */
        wefti_halving_report(&h, &open[ends], 1 + abs(open[ends].trial - 20), 1);
        open[ends] = open[--n];
    }
    assert_int_equal(wefti_halving_ended(&h, 20), 3);
    for (int s = 0; s < 3; s++) assert_true(given[20][3][s]);
}

/* A search that is told what another one reported goes on as that would have. */
TEST(a_replayed_search_goes_on_alike) {
    weft_tune_job jobs[200], job = {.struct_size = sizeof job};
    int n = 0;
    begin(27, 3, 3, 270);
    while (wefti_halving_next(&h, &jobs[n])) {
        wefti_halving_report(&h, &jobs[n], 1 + (double)(jobs[n].trial * 17 % 27), 1);
        n++;
    }
    for (int cut = 0; cut <= n; cut++) {
        begin(27, 3, 3, 270);
        for (int i = 0; i < cut; i++) {
            assert_true(wefti_halving_takes(&h, &jobs[i]));
            wefti_halving_restore(&h, &jobs[i]);
            wefti_halving_report(&h, &jobs[i], 1 + (double)(jobs[i].trial * 17 % 27), 1);
            assert_false(wefti_halving_takes(&h, &jobs[i]));
        }
        assert_int_equal(wefti_halving_next(&h, &job), cut < n);
        bool same = job.trial == jobs[cut].trial && job.rung == jobs[cut].rung &&
                    job.seed == jobs[cut].seed && job.steps == jobs[cut].steps;
        assert_true(cut == n || same);
    }
}

TEST(what_cannot_have_been_given_is_not_taken) {
    weft_tune_job bad[] = {{0, -1, 0, 0, 10}, {0, 27, 0, 0, 10}, {0, 0, -1, 0, 10},
                           {0, 0, 4, 0, 10},  {0, 0, 1, 0, 30},  {0, 0, 0, 1, 10},
                           {0, 0, 0, -1, 10}};
    begin(27, 3, 3, 270);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(wefti_halving_takes(&h, &bad[i]));
}
