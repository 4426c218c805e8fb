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

/* A joiner that is gone is not waited for, and not taken in: two silences after its last READY. */
TEST_IN(setup, teardown, who_is_ready_no_longer_does_not_enter) {
    group *g = *state;
    g->unit = 2;
    found(g, 2);
    add(g, 3, 0);
    ready(g, 3);
    end(g, 3);
    pass(g, 2500000);
    add(g, 2, 0);
    ready(g, 2);
    pass(g, 1000000);
    assert_int_equal(view_number(g, 0), 1);
}

int main(void) { return check_run(NULL, NULL); }
