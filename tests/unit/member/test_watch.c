/* SPDX-License-Identifier: MIT */
/* Who is suspected, and when that ends. */
#include "group.h"

/* With a lag a slow node is behind all the time; it is not the one that has stopped. */
TEST_IN(setup, teardown, who_is_slow_but_advances_is_not_given_up) {
    group *g = *state;
    g->policy.patience_us = 2000000;
    found(g, 3);
    for (int64_t step = 5; step < 20; step++) {
        for (int i = 0; i < 3; i++) {
            wefti_member_event e = {.kind = WEFTI_EVENT_STEPS,
                                    .steps = {step + 1, step + 1, step - 1}};
            if (i == 2) e.steps.begun = e.steps.sent = step;
            if (i == 2) e.steps.sent--;
            feed(g, i, &e);
        }
        pass(g, 500000);
    }
    assert_int_equal(view_number(g, 0), 1);
}

static void complain(group *g, int from, int about, int64_t us) {
    wefti_message suspect = {.kind = WEFTI_SAY_SUSPECT,
                             .subject = g->nodes[about].id,
                             .evidence = WEFTI_EVIDENCE_LINK};
    for (int64_t end = g->now_us + us; g->now_us < end; pass(g, 400000))
        says(g, from, 0, &suspect);
}

/* Two that do not hear each other: the one with more complaints goes, and of two with as many
 * the higher-numbered one. */
TEST_IN(setup, teardown, of_two_that_complain_one_goes) {
    static const struct {
        const char *what;
        int n, pairs[2][2], goes; /* (who, about whom) */
    } cases[] = {
        {"the higher one complains", 1, {{3, 2}}, 3},
        {"the lower one complains", 1, {{2, 3}}, 3},
        {"the lower one has two", 2, {{2, 3}, {2, 4}}, 2},
        {"the higher one has two", 2, {{3, 2}, {4, 3}}, 3},
    };
    group *g = *state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        found(g, 5);
        for (int64_t t = 0; t < 4000000; t += 400000)
            for (int i = 0; i < cases[k].n; i++)
                complain(g, cases[k].pairs[i][0], cases[k].pairs[i][1], 1);
        int still_there = wefti_view_find(wefti_member_view(g->m[0]),
                                          g->nodes[cases[k].goes].id);
        if (wefti_member_view(g->m[0])->n_nodes != 4 || still_there >= 0)
            fail_msg("%s: %d members, number %d", cases[k].what,
                     wefti_member_view(g->m[0])->n_nodes, still_there);
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

/* Complaints that are repeated every 75 ms, and come a second apart, are about several silences. */
TEST_IN(setup, teardown, complaints_far_apart_are_not_one) {
    static const int64_t repeated_us[] = {300000, 75000};
    group *g = *state;
    for (int k = 0; k < 2; k++) {
        g->policy.probe_us = repeated_us[k];
        g->policy.retry_us = repeated_us[k] / 3;
        found(g, 5);
        for (int64_t t = 0; t < 5; t++) {
            complain(g, 3, 2, 1);
            pass(g, 980000);
        }
        assert_int_equal(wefti_member_view(g->m[0])->n_nodes, 5 - (k == 0));
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

/* Suspicions end when the suspect is heard; proofs do not. */
TEST_IN(setup, teardown, only_suspicions_are_taken_back) {
    static const struct {
        wefti_evidence evidence;
        bool stays;
    } cases[] = {{WEFTI_EVIDENCE_CLOSED, false}, {WEFTI_EVIDENCE_DEAD, true}};
    group *g = *state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        found(g, 5);
        for (int i = 1; i < 3; i++) g->deaf[i] = true; /* no quorum: nothing is decided */
        closed(g, 0, 4, cases[k].evidence);
        assert_true(wefti_member_suspects(g->m[0], g->nodes[4].id));
        wefti_message alive = {.kind = WEFTI_SAY_ALIVE, .steps = {4, 4, 4}};
        says(g, 4, 0, &alive);
        assert_int_equal(wefti_member_suspects(g->m[0], g->nodes[4].id), cases[k].stays);
        memset(g->deaf, 0, sizeof g->deaf);
        for (int i = 0; i < MOST; i++) end(g, i);
        g->n_queue = 0;
    }
}

/* Of a unit of two joiners one is ready, and ends. */
static void one_of_two_ends(group *g) {
    g->unit = 2;
    found(g, 2);
    add(g, 3, 0);
    ready(g, 3);
    end(g, 3);
}

/* The other one comes: both would enter, if the first one were believed to be ready. */
static void other_enters_not(group *g) {
    add(g, 2, 0);
    ready(g, 2);
    pass(g, 1000000);
    assert_int_equal(view_number(g, 0), 1);
}

/* A joiner that is gone is not waited for, and not taken in: two silences after its last READY. */
TEST_IN(setup, teardown, who_is_ready_no_longer_does_not_enter) {
    group *g = *state;
    one_of_two_ends(g);
    pass(g, 2500000);
    other_enters_not(g);
}

/* Nor is one whose host says that it has ended: another may have its place before that. */
TEST_IN(setup, teardown, who_has_ended_on_its_way_in_does_not_enter) {
    group *g = *state;
    one_of_two_ends(g);
    for (int i = 0; i < 2; i++) {
        wefti_member_event ended = {
            .kind = WEFTI_EVENT_RECORD, .peer = g->nodes[3].id, .record = g->record[3]};
        feed(g, i, &ended);
    }
    other_enters_not(g);
}

static void silent(group *g, int who, int64_t us) {
    for (int i = 0; i < g->n; i++) g->cut[who][i] = true;
    pass(g, us);
}

static void heard(group *g, int64_t us) {
    memset(g->cut, 0, sizeof g->cut);
    pass(g, us);
}

/* 1.6 s are more than a second and the time for an answer. */
TEST_IN(setup, teardown, a_silence_that_ends_by_itself_is_waited_for_the_next_time) {
    static const struct {
        const char *what;
        int64_t first_us, then_us, again_us;
        bool is_suspected;
    } cases[] = {
        {"as long", 1600000, 1000000, 1600000, false},
        {"longer than one waits then", 1600000, 1000000, 2200000, true},
        {"it had been cut off", 2800000, 1000000, 1600000, true},
        {"long ago", 1600000, 101000000, 1600000, true},
    };
    group *g = *state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        found(g, 2); /* no quorum: nothing is decided */
        silent(g, 1, cases[k].first_us);
        assert_true(wefti_member_suspects(g->m[0], g->nodes[1].id));
        heard(g, cases[k].then_us);
        assert_false(wefti_member_suspects(g->m[0], g->nodes[1].id));
        silent(g, 1, cases[k].again_us);
        if (wefti_member_suspects(g->m[0], g->nodes[1].id) != cases[k].is_suspected)
            fail_msg("%s", cases[k].what);
        heard(g, 1);
        for (int i = 0; i < 2; i++) end(g, i);
    }
}

/* Else a network that holds messages up has members left out for ever, one after the other. */
TEST_IN(setup, teardown, who_was_left_out_and_is_heard_was_only_silent) {
    group *g = *state;
    found(g, 3);
    silent(g, 2, 1600000);
    assert_int_equal(view_number(g, 0), 2);
    heard(g, 400000);
    g->n = 2;
    silent(g, 1, 1600000);
    assert_false(wefti_member_suspects(g->m[0], g->nodes[1].id));
}
