/* SPDX-License-Identifier: MIT */
/* Rules of the machine, one by one, on a few machines joined by hand. What they do together is
 * the simulator's (bench/membership). */
#include "group.h"
#include "member/memberstate.h"

TEST_IN(setup, teardown, a_death_that_all_see_is_one_change) {
    group *g = *state;
    found(g, 4);
    end(g, 1);
    for (int i = 0; i < 4; i++)
        if (i != 1) closed(g, i, 1, WEFTI_EVIDENCE_DEAD);
    deliver_all(g); /* no time passes */
    for (int i = 0; i < 4; i++) {
        if (i == 1) continue;
        assert_int_equal(g->installs[i], 1);
        assert_int_equal(wefti_member_view(g->m[i])->n_nodes, 3);
        assert_int_equal(wefti_member_view(g->m[i])->first_step, 5);
        assert_int_equal(wefti_member_get_state(g->m[i]), WEFTI_MEMBER_IN);
    }
    assert_int_equal(wefti_member_view(g->m[0])->chain,
                     wefti_member_view(g->m[3])->chain);
}

TEST_IN(setup, teardown, the_death_of_the_leader_is_no_different) {
    group *g = *state;
    found(g, 3);
    end(g, 0);
    closed(g, 1, 0, WEFTI_EVIDENCE_DEAD);
    closed(g, 2, 0, WEFTI_EVIDENCE_DEAD);
    deliver_all(g);
    assert_int_equal(view_number(g, 1), 2);
    assert_int_equal(view_number(g, 2), 2);
}

/* Found out one after another: the leader asks who is dead before it knows. No time passes. */
TEST_IN(setup, teardown, two_that_die_together_are_waited_for_no_longer_than_one) {
    group *g = *state;
    found(g, 5);
    end(g, 1);
    end(g, 3);
    for (int dead = 1; dead <= 3; dead += 2) {
        for (int i = 0; i < 5; i++)
            if (g->m[i]) closed(g, i, dead, WEFTI_EVIDENCE_DEAD);
        deliver_all(g);
    }
    for (int i = 0; i < 5; i += 2) {
        assert_int_equal(wefti_member_view(g->m[i])->n_nodes, 3);
        assert_int_equal(wefti_member_get_state(g->m[i]), WEFTI_MEMBER_IN);
    }
}

TEST_IN(setup, teardown, a_leader_that_dies_while_it_asks_is_replaced_at_once) {
    group *g = *state;
    found(g, 5);
    end(g, 4);
    for (int i = 0; i < 4; i++) closed(g, i, 4, WEFTI_EVIDENCE_DEAD);
    end(g, 0); /* its questions are on their way */
    deliver_all(g);
    assert_int_equal(g->frozen[1], 1);
    for (int i = 1; i < 4; i++) closed(g, i, 0, WEFTI_EVIDENCE_DEAD);
    deliver_all(g);
    for (int i = 1; i < 4; i++) assert_int_equal(wefti_member_view(g->m[i])->n_nodes, 3);
}

TEST_IN(setup, teardown, who_falls_silent_is_out_after_a_little_more_than_a_second) {
    group *g = *state;
    found(g, 3);
    g->deaf[2] = true;
    end(g, 2);
    pass(g, 900000);
    assert_int_equal(view_number(g, 0), 1);
    pass(g, 700000);
    assert_int_equal(view_number(g, 0), 2);
    assert_int_equal(view_number(g, 1), 2);
}

TEST_IN(setup, teardown, of_two_that_lose_each_other_none_goes_on_and_both_return) {
    group *g = *state;
    found(g, 2);
    g->deaf[0] = g->deaf[1] = true;
    wefti_member_event tick = {.kind = WEFTI_EVENT_TICK};
    for (int k = 0; k < 150; k++) {
        g->now_us += 20000;
        feed(g, 0, &tick);
        feed(g, 1, &tick);
    }
    assert_int_equal(wefti_member_get_state(g->m[0]), WEFTI_MEMBER_PAUSED);
    assert_int_equal(wefti_member_get_state(g->m[1]), WEFTI_MEMBER_PAUSED);
    g->deaf[0] = g->deaf[1] = false;
    pass(g, 1000000);
    assert_int_equal(wefti_member_get_state(g->m[0]), WEFTI_MEMBER_IN);
    assert_int_equal(wefti_member_view(g->m[0])->n_nodes, 2);
}

/* Members of one side hear each other only. */
static void cut_sides(group *g, unsigned side) {
    for (int i = 0; i < MOST; i++)
        for (int k = 0; k < MOST; k++) g->cut[i][k] = (side >> i & 1) != (side >> k & 1);
}

static void begin_with_witness(group *g, int n, wefti_votes *votes) {
    assert_ok(g->ctx, wefti_votes_init(g->ctx, votes));
    g->witness = votes;
    found(g, n);
}

static void end_witness(group *g) {
    wefti_votes_fini(g->ctx, g->witness);
    g->witness = NULL;
}

TEST_IN(setup, teardown, of_two_that_lose_each_other_the_one_with_the_vote_goes_on) {
    group *g = *state;
    wefti_votes votes;
    begin_with_witness(g, 2, &votes);
    cut_sides(g, 0x1);
    pass(g, 3000000);
    int goes = wefti_member_get_state(g->m[0]) == WEFTI_MEMBER_IN ? 0 : 1;
    assert_int_equal(view_number(g, goes), 2);
    assert_int_equal(wefti_member_view(g->m[goes])->n_nodes, 1);
    assert_int_equal(wefti_member_get_state(g->m[1 - goes]), WEFTI_MEMBER_PAUSED);
    assert_int_equal(view_number(g, 1 - goes), 1);
    int asked = g->n_asked;
    pass(g, 3000000); /* a refusal is the last word */
    assert_int_equal(g->n_asked, asked);
    cut_sides(g, 0);
    pass(g, 1000000);
    assert_int_equal(g->out[1 - goes], WEFTI_OUT_EVICTED);
    end_witness(g);
}

TEST_IN(setup, teardown, the_half_that_the_witness_hears_goes_on) {
    group *g = *state;
    wefti_votes votes;
    begin_with_witness(g, 4, &votes);
    g->unseen[0] = g->unseen[1] = true;
    cut_sides(g, 0x3); /* though the lowest member is on the other side */
    pass(g, 4000000);
    assert_int_equal(view_number(g, 2), 2);
    assert_int_equal(view_number(g, 3), 2);
    assert_int_equal(wefti_member_view(g->m[2])->n_nodes, 2);
    assert_int_equal(wefti_member_get_state(g->m[0]), WEFTI_MEMBER_PAUSED);
    assert_int_equal(wefti_member_get_state(g->m[1]), WEFTI_MEMBER_PAUSED);
    end_witness(g);
}

TEST_IN(setup, teardown, more_than_half_do_not_ask) {
    group *g = *state;
    wefti_votes votes;
    begin_with_witness(g, 3, &votes);
    cut_sides(g, 0x4);
    pass(g, 4000000);
    assert_int_equal(view_number(g, 0), 2);
    assert_int_equal(wefti_member_get_state(g->m[2]), WEFTI_MEMBER_PAUSED);
    assert_int_equal(g->n_asked, 0); /* nor does the rest, which it could not help */
    end_witness(g);
}

TEST_IN(setup, teardown, an_answer_that_nobody_has_asked_for_gives_nothing) {
    group *g = *state;
    wefti_votes votes;
    begin_with_witness(g, 2, &votes);
    g->unseen[0] = g->unseen[1] = true;
    cut_sides(g, 0x1);
    pass(g, 3000000);
    assert_true(g->n_asked > 2); /* again and again */
    const wefti_view *v = wefti_member_view(g->m[0]);
    wefti_vote votes_given[] = {{9, v->chain, 2, 5},
                                {9, v->chain, 1, 5},
                                {9, v->chain, 1, 0},
                                {8, v->chain, 1, 5}};
    for (size_t k = 0; k < sizeof votes_given / sizeof votes_given[0]; k++) {
        wefti_member_event e = {
            .kind = WEFTI_EVENT_VOTE, .vote = votes_given[k], .given = true};
        feed(g, 0, &e);
        pass(g, 500000);
        assert_int_equal(wefti_member_get_state(g->m[0]), WEFTI_MEMBER_PAUSED);
    }
    end_witness(g);
}

TEST_IN(setup, teardown, who_leaves_is_missed_at_once_by_the_other_one) {
    group *g = *state;
    found(g, 2);
    wefti_member_event leave = {.kind = WEFTI_EVENT_LEAVE};
    feed(g, 0, &leave);
    assert_int_equal(g->out[0], WEFTI_OUT_LEFT);
    deliver_all(g);
    assert_int_equal(view_number(g, 1), 2);
    assert_int_equal(wefti_member_view(g->m[1])->n_nodes, 1);
}

/* Node 0 has no power; the connection of 1 and 2 is gone, and 2 comes back. */
TEST_IN(setup, teardown, who_comes_back_leaves_its_vote_to_who_stays) {
    group *g = *state;
    found(g, 3);
    end(g, 0);
    wefti_member_event yield = {.kind = WEFTI_EVENT_YIELD, .peer = g->nodes[1].id};
    feed(g, 2, &yield);
    assert_int_equal(g->out[2], WEFTI_OUT_EVICTED);
    wefti_member_event record = {.kind = WEFTI_EVENT_RECORD,
                                 .peer = g->nodes[2].id,
                                 .record = wefti_member_own_record(g->m[2])};
    end(g, 2);
    closed(g, 1, 0, WEFTI_EVIDENCE_CLOSED);
    closed(g, 1, 2, WEFTI_EVIDENCE_CLOSED);
    pass(g, 1000000);
    assert_int_equal(wefti_member_get_state(g->m[1]), WEFTI_MEMBER_PAUSED);
    feed(g, 1, &record);
    pass(g, 1000000);
    assert_int_equal(view_number(g, 1), 2);
}

/* 2 has accepted what 1 proposed when 0 had no power, and the answer was lost with their
 * connection; since then it has led a ballot of its own. */
TEST_IN(setup, teardown, who_comes_back_leaves_the_vote_that_who_stays_had_asked_for) {
    group *g = *state;
    found(g, 3);
    end(g, 0);
    g->lost[WEFTI_SAY_VIEW_OK] = true;
    closed(g, 1, 0, WEFTI_EVIDENCE_CLOSED);
    closed(g, 2, 0, WEFTI_EVIDENCE_CLOSED);
    pass(g, 100000);
    assert_int_equal(g->record[2].accepted_view, 2);
    cut_sides(g, 0x2);
    closed(g, 1, 2, WEFTI_EVIDENCE_CLOSED);
    closed(g, 2, 1, WEFTI_EVIDENCE_CLOSED);
    pass(g, 4000000);
    assert_int_equal(wefti_member_get_state(g->m[1]), WEFTI_MEMBER_PAUSED);
    assert_int_equal(wefti_member_get_state(g->m[2]), WEFTI_MEMBER_PAUSED);
    wefti_member_event yield = {.kind = WEFTI_EVENT_YIELD, .peer = g->nodes[1].id};
    feed(g, 2, &yield);
    wefti_member_event record = {
        .kind = WEFTI_EVENT_RECORD, .peer = g->nodes[2].id, .record = g->record[2]};
    end(g, 2);
    feed(g, 1, &record);
    pass(g, 1000000);
    assert_int_equal(view_number(g, 1), 3); /* the proposed one, and one without 2 */
    assert_int_equal(wefti_member_view(g->m[1])->n_nodes, 1);
}

/* Of four 0 has no power, and 1 proposes a view without it, which nobody hears. */
static void propose_unheard(group *g) {
    found(g, 4);
    end(g, 0);
    g->lost[WEFTI_SAY_VIEW] = true;
    for (int i = 1; i < 4; i++) closed(g, i, 0, WEFTI_EVIDENCE_CLOSED);
    pass(g, 100000);
}

/* Then 1 dies. */
TEST_IN(setup, teardown, who_accepted_its_own_proposal_alone_gave_no_vote) {
    group *g = *state;
    propose_unheard(g);
    assert_int_equal(g->record[1].promised_view, 2);
    assert_true(g->m[1]->voter.has_accepted);
    assert_int_equal(g->record[1].accepted_view, 1);
    wefti_member_event record = {
        .kind = WEFTI_EVENT_RECORD, .peer = g->nodes[1].id, .record = g->record[1]};
    end(g, 1);
    g->lost[WEFTI_SAY_VIEW] = false;
    for (int i = 2; i < 4; i++) feed(g, i, &record);
    pass(g, 1000000);
    assert_int_equal(view_number(g, 2), 2);
    assert_int_equal(view_number(g, 3), 2);
}

/* Of three 2 has ended, and 0 could decide alone; 1 does not hear what it proposes. */
static void decide_unheard(group *g) {
    found(g, 3);
    const wefti_member_event end_of_2 = {.kind = WEFTI_EVENT_RECORD,
                                         .peer = g->nodes[2].id,
                                         .record = wefti_member_own_record(g->m[2])};
    end(g, 2);
    g->n_queue = 0;
    g->lost[WEFTI_SAY_VIEW] = g->lost[WEFTI_SAY_INSTALL] = true;
    for (int i = 0; i < 2; i++) feed(g, i, &end_of_2);
    pass(g, 100000);
    assert_true(g->m[0]->voter.has_accepted);
}

TEST_IN(setup, teardown, what_a_leader_decides_those_that_live_know_when_it_dies) {
    group *g = *state;
    decide_unheard(g);
    const wefti_member_event record = {
        .kind = WEFTI_EVENT_RECORD, .peer = g->nodes[0].id, .record = g->record[0]};
    end(g, 0);
    feed(g, 1, &record);
    pass(g, 1000000);
    assert_int_equal(view_number(g, 1), 2);
    assert_int_equal(wefti_member_view(g->m[1])->n_nodes, 1);
}

TEST_IN(setup, teardown, a_leader_waits_a_moment_for_a_vote_that_it_does_not_need) {
    group *g = *state;
    for (int suspects = 0; suspects <= 1; suspects++) {
        decide_unheard(g);
        assert_int_equal(view_number(g, 0), 1);
        if (suspects)
            closed(g, 0, 1, WEFTI_EVIDENCE_CLOSED);
        else
            pass(g, 300000);
        assert_int_equal(view_number(g, 0), 2);
        for (int i = 0; i < 2; i++) end(g, i);
    }
}

/* 2 has accepted a view without 0; 0 leads next, and has to decide that one. */
TEST_IN(setup, teardown, who_decides_a_view_without_itself_has_given_its_vote) {
    group *g = *state;
    found(g, 3);
    for (int i = 1; i < 3; i++) g->cut[0][i] = g->cut[i][0] = true;
    g->lost[WEFTI_SAY_VIEW_OK] = true;
    pass(g, 4000000);
    assert_int_equal(g->record[2].accepted_view, 2);
    end(g, 1);
    g->lost[WEFTI_SAY_VIEW_OK] = g->cut[0][2] = g->cut[2][0] = false;
    pass(g, 4000000);
    assert_int_equal(g->out[0], WEFTI_OUT_EVICTED);
    assert_int_equal(g->record[0].chain, g->record[1].chain);
    assert_int_equal(g->record[0].accepted_view, 2);
}

/* Who lends its vote stays: a member's answer may yet decide what it has proposed. */
TEST_IN(setup, teardown, who_lends_its_vote_has_given_it_to_its_own_proposal) {
    group *g = *state;
    propose_unheard(g);
    wefti_member_event lend = {.kind = WEFTI_EVENT_LEND, .peer = g->nodes[0].id};
    feed(g, 1, &lend);
    assert_int_equal(g->record[1].accepted_view, 2);
}

/* What 0 has proposed 0 has accepted; of 1 that can not be known, and the vote is given. */
TEST_IN(setup, teardown, a_vote_that_was_given_is_left_to_who_asked_for_it_alone) {
    group *g = *state;
    for (int heir = 0; heir <= 1; heir++) {
        found(g, 4);
        end(g, 3);
        g->lost[WEFTI_SAY_VIEW_OK] = true;
        closed(g, 0, 3, WEFTI_EVIDENCE_CLOSED);
        pass(g, 100000);
        assert_int_equal(g->record[2].accepted_view, 2);
        wefti_member_event yield = {.kind = WEFTI_EVENT_YIELD, .peer = g->nodes[heir].id};
        feed(g, 2, &yield);
        assert_int_equal(g->record[2].heir.key, heir + 1);
        assert_int_equal(g->record[2].accepted_view, heir == 0 ? 1 : 2);
        for (int i = 0; i < 3; i++) end(g, i);
        g->lost[WEFTI_SAY_VIEW_OK] = false;
    }
}

/* Of two that have lost their connection 1 lends its vote, and keeps its state. */
TEST_IN(setup, teardown,
        of_two_the_one_that_lends_its_vote_stays_until_the_other_one_goes_on) {
    group *g = *state;
    for (int heir_dies = 0; heir_dies <= 1; heir_dies++) {
        found(g, 2);
        cut_sides(g, 0x1);
        closed(g, 0, 1, WEFTI_EVIDENCE_CLOSED);
        closed(g, 1, 0, WEFTI_EVIDENCE_CLOSED);
        const wefti_member_event lend = {.kind = WEFTI_EVENT_LEND,
                                         .peer = g->nodes[0].id};
        feed(g, 1, &lend);
        pass(g, 1000000);
        assert_int_equal(wefti_member_get_state(g->m[1]), WEFTI_MEMBER_PAUSED);
        const wefti_member_event record = {.kind = WEFTI_EVENT_RECORD,
                                           .peer = g->nodes[1].id,
                                           .record = wefti_member_own_record(g->m[1])};
        int goes = heir_dies;
        if (heir_dies)
            closed(g, 1, 0, WEFTI_EVIDENCE_DEAD);
        else
            feed(g, 0, &record);
        pass(g, 1000000);
        assert_int_equal(view_number(g, goes), 2);
        assert_int_equal(view_number(g, 1 - goes), 1);
        assert_int_equal(wefti_member_own_record(g->m[goes]).heir.key, 0);
        end(g, 0);
        end(g, 1);
    }
}

/* The witness's answer comes after it has lent its vote. */
TEST_IN(setup, teardown, who_has_lent_its_vote_uses_no_other) {
    group *g = *state;
    wefti_votes votes;
    begin_with_witness(g, 2, &votes);
    g->unseen[0] = g->unseen[1] = true;
    cut_sides(g, 0x1);
    pass(g, 3000000);
    const wefti_member_event lend = {.kind = WEFTI_EVENT_LEND, .peer = g->nodes[0].id};
    feed(g, 1, &lend);
    g->unseen[1] = false;
    pass(g, 3000000);
    assert_int_equal(wefti_member_get_state(g->m[1]), WEFTI_MEMBER_PAUSED);
    closed(g, 1, 0, WEFTI_EVIDENCE_DEAD);
    pass(g, 3000000);
    assert_int_equal(view_number(g, 1), 2);
    end_witness(g);
}

/* 1 has told 0 that it has not finished step 5, and 0 says how that one ends. */
TEST_IN(setup, teardown, who_has_answered_a_ballot_finishes_under_the_next_view) {
    group *g = *state;
    const wefti_member_event done = {.kind = WEFTI_EVENT_STEPS, .steps = {5, 5, 5}};
    found(g, 3);
    steps_of(g, 1, 5, 5);
    g->lost[WEFTI_SAY_FLUSH_OK] = true;
    for (int i = 0; i < 2; i++) closed(g, i, 2, WEFTI_EVIDENCE_CLOSED);
    pass(g, 100000);
    feed(g, 1, &done);
    assert_int_equal(g->m[1]->steps.finished, 4);
    g->lost[WEFTI_SAY_FLUSH_OK] = false;
    pass(g, 1000000);
    assert_int_equal(view_number(g, 1), 2);
    feed(g, 1, &done);
    assert_int_equal(g->m[1]->steps.finished, 5);
}

TEST_IN(setup, teardown, who_has_heard_of_many_has_room_for_the_members) {
    group *g = *state;
    found(g, 3);
    add(g, 3, 0);
    for (uint64_t k = 0; k < 2 * MOST; k++) {
        const wefti_member_event stranger = {.kind = WEFTI_EVENT_CONNECTED,
                                             .peer = {100 + k, 100 + k}};
        feed(g, 3, &stranger);
    }
    ready(g, 3);
    pass(g, 1000000);
    assert_int_equal(view_number(g, 3), 2);
}

TEST_IN(setup, teardown, who_was_left_out_hears_so) {
    group *g = *state;
    found(g, 3);
    g->deaf[2] = true;
    pass(g, 2000000);
    assert_int_equal(view_number(g, 0), 2);
    g->deaf[2] = false;
    pass(g, 1000000);
    assert_int_equal(g->out[2], WEFTI_OUT_EVICTED);
}

/* Node 2 computes step 5 for ever; nodes 0 and 1 have sent theirs and wait. */
TEST_IN(setup, teardown, who_computes_for_ever_is_waited_for_with_patience) {
    group *g = *state;
    g->policy.patience_us = 5000000;
    found(g, 3);
    steps_of(g, 0, 5, 5);
    steps_of(g, 1, 5, 5);
    steps_of(g, 2, 5, 4);
    pass(g, 4500000);
    assert_int_equal(view_number(g, 0), 1);
    pass(g, 2000000);
    assert_int_equal(view_number(g, 0), 2);
    assert_int_equal(view_number(g, 1), 2);
    assert_int_equal(g->out[2], WEFTI_OUT_EVICTED);
}

/* Nobody else: who rests between two steps, for it may write a checkpoint; who waits for one that
 * is further behind; and nobody at all without patience. */
TEST_IN(setup, teardown, patience_blames_who_computes_and_is_last) {
    group *g = *state;
    g->policy.patience_us = 5000000;
    found(g, 4);
    steps_of(g, 0, 6, 6);
    steps_of(g, 1, 4, 4); /* rests */
    steps_of(g, 2, 5, 4); /* stands still */
    steps_of(g, 3, 6, 5); /* waits for it */
    pass(g, 7000000);
    const wefti_view *view = wefti_member_view(g->m[0]);
    assert_int_equal(view->number, 2);
    assert_int_equal(view->n_nodes, 3);
    assert_int_equal(wefti_view_find(view, g->nodes[2].id), -1);
    for (int i = 0; i < 4; i++)
        if (i != 2) wefti_member_set_patience(g->m[i], 0);
    pass(g, 20000000);
    assert_int_equal(view_number(g, 0), 2);
}

/* In a caller's own loop what lies between two steps is waited for like the steps. */
TEST_IN(setup, teardown, where_rests_count_nobody_may_rest_for_ever) {
    group *g = *state;
    g->policy.patience_us = 5000000;
    g->policy.rests_count = true;
    found(g, 3);
    steps_of(g, 0, 5, 5);
    steps_of(g, 1, 5, 5);
    pass(g, 7000000);
    assert_int_equal(wefti_member_view(g->m[0])->n_nodes, 2);
    assert_int_equal(g->out[2], WEFTI_OUT_EVICTED);
}

/* Cut in two, with nobody dead: the part with more than half goes on, or, split, each; then the
 * parts do not end each other when the cut heals, though one has changed more often. */
static void cut(group *g, bool cuts) {
    for (int i = 0; i < MOST; i++)
        for (int k = 0; k < MOST; k++) g->cut[i][k] = cuts && (i < 3) != (k < 3);
}

TEST_IN(setup, teardown, each_part_goes_on_where_that_is_chosen) {
    group *g = *state;
    g->policy.split = true;
    found(g, 5);
    cut(g, true);
    pass(g, 4000000);
    assert_int_equal(wefti_member_view(g->m[0])->n_nodes, 3);
    assert_int_equal(wefti_member_view(g->m[4])->n_nodes, 2);
    end(g, 2);
    for (int i = 0; i < 2; i++) closed(g, i, 2, WEFTI_EVIDENCE_DEAD);
    pass(g, 1000000);
    assert_int_equal(wefti_member_view(g->m[0])->n_nodes, 2);
    assert_true(view_number(g, 0) > view_number(g, 4));
    cut(g, false);
    wefti_message late = {.kind = WEFTI_SAY_ALIVE, .steps = {4, 4, 4}};
    unsigned char bytes[512];
    wefti_member_event e = {
        .kind = WEFTI_EVENT_MESSAGE, .peer = g->nodes[3].id, .bytes = bytes};
    e.n_bytes = wefti_member_encode(g->m[3], &late, bytes, sizeof bytes);
    feed(g, 0, &e); /* what was on its way */
    pass(g, 2000000);
    assert_int_equal(wefti_member_get_state(g->m[3]), WEFTI_MEMBER_IN);
    assert_int_equal(wefti_member_view(g->m[3])->n_nodes, 2);
}

TEST_IN(setup, teardown, the_smaller_part_waits_and_gives_up) {
    group *g = *state;
    g->policy.pause_us = 3000000;
    found(g, 5);
    cut(g, true);
    pass(g, 3500000);
    assert_int_equal(wefti_member_view(g->m[0])->n_nodes, 3);
    assert_int_equal(wefti_member_get_state(g->m[4]), WEFTI_MEMBER_PAUSED);
    pass(g, 3000000);
    assert_int_equal(g->out[3], WEFTI_OUT_NO_QUORUM);
    assert_int_equal(g->out[4], WEFTI_OUT_NO_QUORUM);
}

TEST_IN(setup, teardown, longer_silence_is_borne_where_it_is_allowed) {
    group *g = *state;
    g->policy.silence_us = 8000000;
    found(g, 3);
    g->deaf[2] = true;
    end(g, 2);
    pass(g, 7500000);
    assert_int_equal(view_number(g, 0), 1);
    pass(g, 2000000);
    assert_int_equal(view_number(g, 0), 2);
}

TEST_IN(setup, teardown, who_slept_suspects_nobody) {
    group *g = *state;
    found(g, 2);
    wefti_member *other = g->m[1];
    g->m[1] = NULL; /* nothing is heard of it, for this one is not running */
    g->now_us += 20000000;
    wefti_member_event tick = {.kind = WEFTI_EVENT_TICK};
    feed(g, 0, &tick);
    feed(g, 0, &tick);
    for (int k = 0; k < 16; k++) { /* less than a silence since it woke */
        g->now_us += 50000;
        feed(g, 0, &tick);
        assert_false(wefti_member_suspects(g->m[0], g->nodes[1].id));
    }
    g->m[1] = other;
}

TEST_IN(setup, teardown, joiners_enter_together) {
    group *g = *state;
    found(g, 2);
    for (int i = 2; i < 5; i++) {
        add(g, i, 0);
        ready(g, i);
    }
    pass(g, 340000);
    assert_int_equal(view_number(g, 0), 2);
    assert_int_equal(view_number(g, 1), 2);
    assert_int_equal(wefti_member_view(g->m[0])->n_nodes, 5);
    assert_int_equal(wefti_member_view(g->m[0])->nodes[2].first_step, 5);
}

/* Nodes 0 and 1 have founded; 2 and 3 are a unit, 4 has no partner. */
TEST_IN(setup, teardown, joiners_of_a_unit_enter_together_or_not_at_all) {
    group *g = *state;
    g->unit = 2;
    found(g, 2);
    add(g, 4, 0);
    add(g, 3, 0);
    ready(g, 4);
    ready(g, 3);
    pass(g, 500000);
    assert_int_equal(view_number(g, 0), 1);
    add(g, 2, 0);
    ready(g, 2);
    ready(g, 3);
    pass(g, 400000);
    const wefti_view *view = wefti_member_view(g->m[0]);
    assert_int_equal(view->number, 2);
    assert_int_equal(view->n_nodes, 4);
    assert_int_equal(view->nodes[2].id.key, 3); /* in the order of their keys */
    assert_int_equal(view->nodes[3].id.key, 4);
}

TEST_IN(setup, teardown, another_run_or_configuration_is_refused) {
    group *g = *state;
    found(g, 2);
    add(g, 2, 0);
    unsigned char bytes[512];
    wefti_message hello = {.kind = WEFTI_SAY_HELLO, .config_hash = 2};
    wefti_member_event e = {
        .kind = WEFTI_EVENT_MESSAGE, .peer = g->nodes[2].id, .bytes = bytes};
    e.n_bytes = wefti_member_encode(g->m[2], &hello, bytes, sizeof bytes);
    int before = g->sent[WEFTI_SAY_BYE];
    feed(g, 0, &e);
    assert_int_equal(g->sent[WEFTI_SAY_BYE], before + 1);
    bytes[8] ^= 1; /* the run */
    feed(g, 0, &e);
    assert_int_equal(g->sent[WEFTI_SAY_BYE], before + 2);
    assert_int_equal(g->sent[WEFTI_SAY_WELCOME], 0);
}

TEST_IN(setup, teardown, bytes_that_are_no_message_are_counted_and_dropped) {
    group *g = *state;
    found(g, 2);
    unsigned char bytes[100] = {'w', 'e', 'f', 'V', 2, 3};
    wefti_member_event e = {
        .kind = WEFTI_EVENT_MESSAGE, .peer = g->nodes[1].id, .bytes = bytes};
    for (size_t n = 0; n < sizeof bytes; n++) {
        e.n_bytes = n;
        feed(g, 0, &e);
    }
    assert_int_equal(wefti_member_get_facts(g->m[0]).refused_messages, 100);
    assert_int_equal(wefti_member_get_state(g->m[0]), WEFTI_MEMBER_IN);
}

static weft_status create_one(void *user) {
    group *g = user;
    wefti_member *m;
    wefti_member_config config = {.limits = {MOST, 2, 2, 9},
                                  .policy = wefti_member_policy_default(),
                                  .self = g->nodes[0].id,
                                  .n_founders = 1,
                                  .founders = g->nodes};
    WEFT_TRY(wefti_member_create(g->ctx, &config, &m));
    wefti_member_destroy(m);
    return WEFT_OK;
}

/* The tables of a view hold nodes x window x window entries of 16 bits. */
TEST_IN(setup, teardown, more_nodes_than_the_tables_hold_do_not_fit) {
    const group *g = *state;
    wefti_member_config config = {.limits = {202, 18, 2, 1},
                                  .policy = wefti_member_policy_default(),
                                  .self = g->nodes[0].id,
                                  .n_founders = 1,
                                  .founders = g->nodes};
    wefti_member *m;
    assert_true(wefti_member_fits(&config.limits));
    assert_ok(g->ctx, wefti_member_create(g->ctx, &config, &m));
    wefti_member_destroy(m);
    config.limits.max_nodes = 203;
    assert_false(wefti_member_fits(&config.limits));
    assert_int_equal(wefti_member_create(g->ctx, &config, &m), WEFT_ERR_ARGUMENT);
    weft_ctx_clear(g->ctx);
    config.limits.window = 2;
    assert_true(wefti_member_fits(&config.limits));
}

TEST_IN(setup, teardown, every_allocation_that_fails_is_a_clean_error) {
    assert_true(fail_each_allocation(((group *)*state)->ctx, NULL, create_one, *state) >
                20);
}

TEST_IN(setup, teardown, nothing_is_allocated_after_create) {
    group *g = *state;
    found(g, 3);
    int64_t before = weft_ctx_allocations(g->ctx);
    end(g, 2);
    closed(g, 0, 2, WEFTI_EVIDENCE_DEAD);
    closed(g, 1, 2, WEFTI_EVIDENCE_DEAD);
    pass(g, 1000000);
    assert_int_equal(view_number(g, 0), 2);
    assert_int_equal(weft_ctx_allocations(g->ctx), before);
}
