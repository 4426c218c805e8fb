/* SPDX-License-Identifier: MIT */
/* Choices of the machine, each as a table: which of several, how long, from when on. What is
 * asked is one part of it, in a state that the case sets. */
#include "group.h"
#include "member/memberstate.h"

#define N(table) ((int)(sizeof(table) / sizeof *(table)))

static wefti_member_node *peer_of(const group *g, int i, int other) {
    return &g->m[i]->peers[g->m[i]->peer_of_number[other]];
}

/* -- the cut -- */

/* Node 4 is gone, and the others' answers come in this order. */
static void propose(group *g, const int order[3], int64_t begun) {
    static const unsigned char none[] = {0}, one[] = {1}, two[] = {3};
    static const unsigned char *const held[] = {none, none, two, one};
    wefti_member *m = g->m[0];
    wefti_tally_reset(m);
    m->lead.asked[0] = false;
    for (int k = 0; k < 3; k++) {
        wefti_inventory_entry entry = {.sender = g->nodes[4].id,
                                       .step = 5,
                                       .counted = order[k] == 2,
                                       .held = held[order[k]]};
        const wefti_message answer = {
            .steps = {begun, begun, 4}, .n_entries = 1, .entries = &entry};
        m->lead.asked[order[k]] = true;
        assert_true(wefti_tally_add(m, order[k], &answer));
    }
    m->lead.asked[4] = false;
    assert_true(wefti_cut_propose(m));
}

TEST_IN(setup, teardown, of_those_who_hold_a_piece_the_lowest_passes_it_on) {
    static const int orders[][3] = {{1, 2, 3}, {3, 2, 1}, {2, 3, 1}};
    group *g = *state;
    for (int k = 0; k < N(orders); k++) {
        found(g, 5);
        propose(g, orders[k], 6);
        const wefti_view *v = &g->m[0]->lead.proposal;
        int d = wefti_view_find_departed(v, g->nodes[4].id);
        assert_int_equal(v->n_nodes, 3); /* 1, 2, 3 */
        const uint16_t *holders = wefti_view_holder(&g->m[0]->config.limits, v, d, 0, 0,
                                                    0);
        assert_int_equal(holders[0], 1);
        assert_int_equal(holders[1], 1);
        assert_int_equal(holders[2], WEFTI_MEMBER_NOBODY);
        assert_int_equal(v->departed[d].counted, 1); /* step 5, and not 6 */
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

TEST_IN(setup, teardown, a_view_has_the_rosters_of_unfinished_steps_alone) {
    static const int order[] = {1, 2, 3};
    group *g = *state;
    found(g, 5);
    for (int64_t begun = 4; begun <= 6; begun++) {
        propose(g, order, begun);
        assert_int_equal(g->m[0]->lead.proposal.n_rosters, begun > 4);
        assert_int_equal(g->m[0]->lead.proposal.first_step, begun + 1);
    }
}

TEST_IN(setup, teardown, steps_may_be_a_window_apart) {
    group *g = *state;
    found(g, 3); /* a window of 2 steps */
    for (int64_t begun = 4; begun <= 7; begun++) {
        const wefti_message first = {.steps = {4, 4, 4}},
                            second = {.steps = {begun, 4, 4}};
        wefti_tally_reset(g->m[0]);
        assert_true(wefti_tally_add(g->m[0], 1, &first));
        assert_int_equal(wefti_tally_add(g->m[0], 2, &second), begun <= 6);
    }
}

/* Node 0 has come back, with its key and another incarnation. */
TEST_IN(setup, teardown, who_comes_is_behind_all_who_were_there) {
    group *g = *state;
    found(g, 3);
    end(g, 0);
    for (int i = 1; i < 3; i++) closed(g, i, 0, WEFTI_EVIDENCE_DEAD);
    pass(g, 100000);
    g->nodes[3].id = (wefti_node_id){1, 4};
    add(g, 3, 0);
    for (int i = 1; i < 3; i++) {
        wefti_message hello = {.kind = WEFTI_SAY_HELLO, .config_hash = 1},
                      here = {.kind = WEFTI_SAY_READY};
        says(g, 3, i, &hello);
        says(g, 3, i, &here);
    }
    pass(g, 200000);
    assert_int_equal(view_number(g, 1), 2); /* others may come in a moment */
    pass(g, 200000);
    assert_int_equal(view_number(g, 1), 3);
    for (int i = 0; i < 3; i++)
        assert_true(
            wefti_node_is(wefti_member_view(g->m[1])->nodes[i].id, g->nodes[i + 1].id));
}

/* Machine 2 looks at a copy of keys 1 and 2, of which member 0 or 1 may be left. */
TEST_IN(setup, teardown, a_copy_enters_when_nobody_of_its_former_one_is_left) {
    static const struct {
        bool left[2], enters;
    } cases[] = {{{false, false}, true}, {{true, false}, false}, {{false, true}, false}};
    group *g = *state;
    g->unit = 2;
    for (int k = 0; k < N(cases); k++) {
        found(g, 4);
        wefti_member *m = g->m[2];
        wefti_member_node *joiner = NULL;
        for (uint64_t key = 1; key <= 2; key++) {
            peer_of(g, 2, (int)key - 1)->used = cases[k].left[key - 1];
            joiner = wefti_member_add_peer(m, (wefti_node_id){key, 9});
            joiner->is_ready = true;
            joiner->ready_us = m->now_us;
        }
        assert_int_equal(wefti_cut_may_enter(m, joiner), cases[k].enters);
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

/* -- who lives -- */

TEST_IN(setup, teardown, who_wakes_late_takes_its_sleep_off_all_patience) {
    static const struct {
        int64_t late_us;
        bool counts;
    } cases[] = {{0, false}, {100000, false}, {100001, true}};
    group *g = *state;
    found(g, 3);
    wefti_member *m = g->m[0];
    wefti_member_node *peer = peer_of(g, 0, 1), *other = peer_of(g, 0, 2);
    for (int k = 0; k < N(cases); k++) {
        m->now_us = m->out.wake_us + cases[k].late_us;
        m->silence.slow_until_us = 0;
        peer->heard_us = peer->doubted_us = peer->behind_us = 7;
        other->doubted_us = other->behind_us = 0;
        wefti_watch_late(m);
        int64_t shift = cases[k].counts ? cases[k].late_us : 0;
        assert_int_equal(m->silence.slow_until_us > 0, cases[k].counts);
        assert_int_equal(peer->heard_us, 7 + shift);
        assert_int_equal(peer->doubted_us, 7 + shift);
        assert_int_equal(peer->behind_us, 7 + shift);
        assert_int_equal(other->doubted_us + other->behind_us, 0);
    }
}

TEST_IN(setup, teardown, silence_is_borne_by_the_usual_gap_within_bounds) {
    static const struct {
        int64_t gap_us, limit_us;
    } cases[] = {{200000, 1000000}, {3000000, 3000000}, {30000000, 10000000}};
    group *g = *state;
    found(g, 3);
    wefti_member *m = g->m[0];
    wefti_member_node *peer = peer_of(g, 0, 1);
    for (int k = 0; k < N(cases); k++) {
        peer->alive_us = peer->n_gaps = 0;
        for (int i = 0; i < 5; i++, m->now_us += cases[k].gap_us)
            wefti_watch_heard(m, peer, true);
        assert_int_equal(peer->limit_us, cases[k].limit_us);
    }
}

static void complain(const group *g, int who, int about, int64_t first_us,
                     int64_t last_us) {
    wefti_member *m = g->m[0];
    int32_t now_ms = (int32_t)(m->now_us / 1000) + 1, n = m->config.limits.max_nodes;
    m->complaints.first[who * n + about] = now_ms - (int32_t)(first_us / 1000);
    m->complaints.last[who * n + about] = now_ms - (int32_t)(last_us / 1000);
    m->complaints.at_us = m->now_us;
}

/* One has complained about another for long; nodes 3 and 4 about node 2 for a while. */
TEST_IN(setup, teardown, complaints_of_the_lost_and_about_them_move_nobody) {
    static const struct {
        int who, about, gone, goes; /* gone, goes: 0: nobody */
    } cases[] = {{1, 2, 0, 2}, {1, 2, 1, 0}, {2, 1, 0, 2}, {2, 1, 1, 0}};
    group *g = *state;
    for (int k = 0; k < N(cases); k++) {
        found(g, 5);
        complain(g, cases[k].who, cases[k].about, 4000000, 0);
        for (int i = 3; i < 5; i++) complain(g, i, 2, 1000000, 0);
        if (cases[k].gone)
            peer_of(g, 0, cases[k].gone)->standing.evidence = WEFTI_EVIDENCE_CLOSED;
        wefti_watch_pump(g->m[0]);
        for (int i = 1; i < 5; i++)
            if (i != cases[k].gone)
                assert_int_equal(peer_of(g, 0, i)->standing.evidence,
                                 i == cases[k].goes ? WEFTI_EVIDENCE_LINK
                                                    : WEFTI_EVIDENCE_NONE);
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

/* Complaints of 3 s in one go; what others say of their patience is none. */
TEST_IN(setup, teardown, a_complaint_that_has_ceased_begins_anew) {
    static const struct {
        wefti_evidence evidence;
        int64_t pause_us;
        bool moves;
    } cases[] = {{WEFTI_EVIDENCE_LINK, 400000, true},
                 {WEFTI_EVIDENCE_LINK, 2000000, false},
                 {WEFTI_EVIDENCE_PATIENCE, 400000, false}};
    group *g = *state;
    for (int k = 0; k < N(cases); k++) {
        found(g, 5);
        for (int i = 0; i < 10; i++) {
            wefti_message suspect = {.kind = WEFTI_SAY_SUSPECT,
                                     .subject = g->nodes[3].id,
                                     .evidence = cases[k].evidence};
            says(g, 2, 0, &suspect);
            pass(g, i == 3 ? cases[k].pause_us : 400000);
        }
        assert_int_equal(view_number(g, 0), cases[k].moves ? 2 : 1);
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

/* The impatience ends when it has sent its step, not when it begins another one. */
TEST_IN(setup, teardown, who_sends_is_waited_for_again) {
    static const struct {
        wefti_member_steps steps;
        bool ends;
    } cases[] = {{{4, 4, 4}, false}, {{6, 4, 4}, false}, {{6, 5, 4}, true}};
    group *g = *state;
    found(g, 3);
    for (int k = 0; k < N(cases); k++) {
        wefti_member_node *peer = peer_of(g, 0, 1);
        const wefti_message alive = {.kind = WEFTI_SAY_ALIVE, .steps = cases[k].steps};
        peer->steps = (wefti_member_steps){5, 4, 4};
        peer->standing.evidence = WEFTI_EVIDENCE_PATIENCE;
        wefti_watch_message(g->m[0], peer, &alive);
        assert_int_equal(peer->standing.evidence == WEFTI_EVIDENCE_NONE, cases[k].ends);
    }
}

static int count_sent(const wefti_member *m, wefti_message_kind kind, wefti_node_id to) {
    int n = 0;
    for (int k = 0; k < m->out.actions.n; k++) {
        const wefti_member_action *a = &m->out.actions.list[k];
        n += a->kind == WEFTI_DO_SEND && a->bytes[5] == kind &&
             (to.key == 0 || wefti_node_is(a->peer, to));
    }
    return n;
}

TEST_IN(setup, teardown, three_others_are_asked_about_who_is_silent) {
    group *g = *state;
    found(g, 5);
    wefti_member *m = g->m[0];
    peer_of(g, 0, 2)->heard_us = m->now_us - peer_of(g, 0, 2)->limit_us;
    m->out.actions.n = 0;
    m->out.n_bytes = 0;
    wefti_watch_pump(m);
    assert_int_equal(count_sent(m, WEFTI_SAY_PROBE_REQ, (wefti_node_id){0}), 4);
    assert_int_equal(count_sent(m, WEFTI_SAY_PROBE_REQ, g->nodes[2].id), 1);
}

/* Others are at step 6; node 2 has begun it. */
TEST_IN(setup, teardown, who_has_come_is_waited_for_from_its_first_step_on) {
    group *g = *state;
    found(g, 3);
    wefti_member *m = g->m[0];
    m->config.policy.patience_us = 5000000;
    m->steps = peer_of(g, 0, 1)->steps = (wefti_member_steps){6, 6, 4};
    peer_of(g, 0, 2)->steps = (wefti_member_steps){6, 5, 4};
    for (int64_t first = 6; first <= 7; first++) {
        m->view.nodes[2].first_step = first;
        wefti_watch_pump(m);
        assert_int_equal(peer_of(g, 0, 2)->behind_us > 0, first == 6);
    }
}

TEST_IN(setup, teardown, a_joiner_is_forgotten_after_ten_silences) {
    group *g = *state;
    found(g, 2);
    wefti_member *m = g->m[0];
    wefti_member_node *joiner = wefti_member_add_peer(m, (wefti_node_id){5, 9});
    for (int64_t silences = 9; silences <= 11; silences += 2) {
        joiner->heard_us = m->now_us - silences * m->config.policy.silence_us;
        wefti_watch_pump(m);
        assert_int_equal(joiner->used, silences < 10);
    }
}

/* -- the next view -- */

/* Nodes 1 and 2 have answered. A run that is resumed begins so that nobody has told its steps. */
TEST_IN(setup, teardown, who_has_told_nothing_is_not_taken_for_a_newcomer) {
    static const bool answered[MOST] = {false, true, true};
    group *g = *state;
    found(g, 3);
    wefti_member *m = g->m[0];
    for (int told = 0; told <= 1; told++) {
        for (int i = 1; i < 3; i++) {
            m->view.nodes[i].first_step = 5;
            peer_of(g, 0, i)->steps = (wefti_member_steps){-1, -1, -1};
            peer_of(g, 0, i)->has_told = told;
        }
        assert_int_equal(wefti_change_outvotes(m, answered), !told);
    }
}

TEST_IN(setup, teardown, answers_are_waited_for_twice_as_long_three_times) {
    static const int64_t times[] = {1, 2, 4, 8, 8, 8};
    group *g = *state;
    found(g, 3);
    wefti_member *m = g->m[0];
    for (int k = 0; k < N(times); k++) {
        peer_of(g, 0, 2)->standing.evidence = WEFTI_EVIDENCE_DEAD;
        m->lead.phase = WEFTI_LEAD_IDLE;
        m->lead.attempts = k;
        m->due.backoff_us = m->out.actions.n = 0;
        wefti_change_pump(m);
        assert_int_equal(m->lead.phase, WEFTI_LEAD_ASKING);
        assert_int_equal(m->lead.deadline_us - m->now_us,
                         times[k] * m->config.policy.answer_us);
    }
}

/* A ballot is over its time, and node 3 has not answered. */
TEST_IN(setup, teardown, who_does_not_answer_is_left_out_the_third_time_or_if_silent) {
    static const struct {
        int before;
        bool silent, goes;
    } cases[] = {{0, false, false}, {7, false, false}, {8, false, true}, {0, true, true}};
    group *g = *state;
    found(g, 5);
    wefti_member *m = g->m[0];
    for (int k = 0; k < N(cases); k++) {
        wefti_member_node *peer = peer_of(g, 0, 3);
        for (int i = 0; i < 5; i++) m->lead.asked[i] = m->lead.answered[i] = true;
        m->lead.answered[3] = false;
        m->lead.phase = WEFTI_LEAD_ASKING;
        m->lead.deadline_us = m->now_us;
        m->out.actions.n = 0;
        peer->standing.evidence = WEFTI_EVIDENCE_NONE;
        peer->unanswered = cases[k].before;
        peer->heard_us = m->now_us - (cases[k].silent ? peer->limit_us / 2 + 1 : 0);
        wefti_change_pump(m);
        assert_int_equal(peer->standing.evidence == WEFTI_EVIDENCE_MUTE, cases[k].goes);
    }
}

TEST_IN(setup, teardown, who_has_the_witness_vote_goes_on_at_once) {
    wefti_votes votes;
    group *g = *state;
    assert_ok(g->ctx, wefti_votes_init(g->ctx, &votes));
    g->witness = &votes;
    found(g, 2);
    g->unseen[0] = g->unseen[1] = true;
    g->cut[0][1] = g->cut[1][0] = true;
    pass(g, 3000000);
    wefti_member *m = g->m[0];
    m->due.backoff_us = m->now_us + 1000000;
    const wefti_member_event e = {
        .kind = WEFTI_EVENT_VOTE,
        .vote = {m->config.run, m->view.chain, m->view.number, m->witness.asked},
        .given = true};
    feed(g, 0, &e); /* no time passes */
    assert_int_equal(view_number(g, 0), 2);
    wefti_votes_fini(g->ctx, &votes);
    g->witness = NULL;
}

/* -- what is said and heard -- */

TEST_IN(setup, teardown, a_step_that_is_sent_ends_those_a_window_before) {
    group *g = *state;
    found(g, 3);
    const wefti_member_event data = {
        .kind = WEFTI_EVENT_DATA, .peer = g->nodes[1].id, .steps = {.begun = 10}};
    feed(g, 0, &data);
    assert_int_equal(peer_of(g, 0, 1)->steps.begun, 10);
    assert_int_equal(peer_of(g, 0, 1)->steps.finished, 9);
}

/* Members and joiners hear that a member lives; who has gone does not. */
TEST_IN(setup, teardown, signs_of_life_go_to_members_and_joiners) {
    group *g = *state;
    found(g, 2);
    wefti_member *m = g->m[0];
    wefti_member_node *other = wefti_member_add_peer(m, (wefti_node_id){5, 9});
    for (int departed = 0; departed <= 1; departed++) {
        const wefti_member_event tick = {.kind = WEFTI_EVENT_TICK};
        other->has_departed = departed;
        wefti_member_step(m, &tick, g->now_us += 200000, 7);
        assert_int_equal(count_sent(m, WEFTI_SAY_ALIVE, g->nodes[1].id), 1);
        assert_int_equal(count_sent(m, WEFTI_SAY_ALIVE, other->id), !departed);
    }
}

/* Whether member 0 welcomes this joiner, and does not dismiss it. */
static bool welcomes(group *g, wefti_node_id joiner) {
    unsigned char bytes[512];
    wefti_member *m = g->m[0];
    const wefti_message hello = {
        .kind = WEFTI_SAY_HELLO, .run = 9, .from = joiner, .config_hash = 1};
    wefti_member_event e = {.kind = WEFTI_EVENT_MESSAGE, .peer = joiner, .bytes = bytes};
    e.n_bytes = wefti_message_encode(&m->config.limits, &hello, bytes, sizeof bytes);
    wefti_member_step(m, &e, g->now_us, 7);
    bool welcome = count_sent(m, WEFTI_SAY_WELCOME, joiner);
    assert_int_equal(count_sent(m, WEFTI_SAY_BYE, joiner), !welcome);
    return welcome;
}

TEST_IN(setup, teardown, a_full_run_takes_nobody_in) {
    group *g = *state;
    for (int n = MOST - 1; n <= MOST; n++) {
        found(g, n);
        assert_int_equal(welcomes(g, (wefti_node_id){9, 99}), n < MOST);
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

/* All entries are in use: by a member, by joiners, by one that has left and one that is silent. */
TEST_IN(setup, teardown, a_newcomer_gets_the_entry_of_who_is_gone_longest) {
    group *g = *state;
    found(g, 2);
    wefti_member *m = g->m[0];
    uint64_t key = 10;
    while (wefti_member_add_peer(m, (wefti_node_id){key, 99})) key++;
    const wefti_node_id first = {key, 99}, second = {key + 1, 99}, third = {key + 2, 99};
    wefti_member_node *silent = wefti_member_peer(m, (wefti_node_id){11, 99});
    wefti_member_node *departed = wefti_member_peer(m, (wefti_node_id){12, 99});
    assert_false(welcomes(g, first));
    departed->has_departed = true;
    silent->heard_us = m->now_us - 2 * m->config.policy.silence_us - 1;
    assert_true(welcomes(g, first));
    assert_true(wefti_member_peer(m, first) == silent);
    assert_true(welcomes(g, second));
    assert_true(wefti_member_peer(m, second) == departed);
    assert_false(welcomes(g, third));
}

TEST_IN(setup, teardown, a_joiner_that_hears_nobody_for_three_silences_starts_over) {
    group *g = *state;
    found(g, 2);
    add(g, 3, 0);
    wefti_member *m = g->m[3];
    wefti_member_node *member = wefti_member_add_peer(m, g->nodes[0].id);
    for (int64_t tenths = 29; tenths <= 30; tenths++) {
        m->state = WEFTI_MEMBER_READY;
        member->heard_us = m->now_us - tenths * m->config.policy.silence_us / 10;
        wefti_join_pump(m);
        assert_int_equal(m->state == WEFTI_MEMBER_READY, tenths == 29);
    }
}

/* A message of the view before is answered with this one, at once and then now and then. */
TEST_IN(setup, teardown, who_is_behind_hears_of_the_view_at_once) {
    group *g = *state;
    found(g, 3);
    g->deaf[1] = true; /* it misses the next view */
    end(g, 2);
    closed(g, 0, 2, WEFTI_EVIDENCE_DEAD);
    wefti_member_node *peer = wefti_member_add_peer(g->m[0], (wefti_node_id){7, 7});
    assert_true(g->m[0]->now_us - peer->installed_us >= g->m[0]->config.policy.retry_us);
}

/* Node 1's steps are not known; the view's cut says that all have finished step 6. */
TEST_IN(setup, teardown, nothing_below_the_cut_is_asked_for) {
    group *g = *state;
    found(g, 2);
    wefti_member *m = g->m[0];
    m->steps = (wefti_member_steps){8, 8, 8};
    peer_of(g, 0, 1)->steps = (wefti_member_steps){-1, -1, -1};
    m->view.cut_low = 6;
    assert_int_equal(wefti_member_stable(m), 6);
    for (int64_t step = 5; step < 13; step++) /* two windows of 2 steps */
        assert_int_equal(wefti_member_is_open(m, step), step > 6 && step <= 10);
}

TEST_IN(setup, teardown, a_run_s_rules_are_the_machine_s) {
    static const struct {
        wefti_member_rules rules;
        int64_t patience_us;
        int tie;
    } cases[] = {
        {{.silence_s = 2, .pause_s = 60}, 0, WEFTI_TIE_AUTO},
        {{.patience_s = -1, .own_loop = true}, 0, WEFTI_TIE_AUTO},
        {{.patience_s = 40, .has_witness = true}, 40000000, WEFTI_TIE_WITNESS},
        {{.split = true, .shards = 4}, 0, WEFTI_TIE_AUTO},
    };
    (void)state;
    for (int k = 0; k < N(cases); k++) {
        const wefti_member_rules *r = &cases[k].rules;
        wefti_member_policy p = wefti_member_policy_of(r);
        assert_int_equal(p.patience_us, cases[k].patience_us);
        assert_int_equal(p.tie, cases[k].tie);
        assert_int_equal(p.rests_count, r->own_loop);
        assert_int_equal(p.split, r->split);
        assert_int_equal(p.unit, r->shards);
        assert_int_equal(p.silence_us, (int64_t)(r->silence_s * 1e6));
        assert_int_equal(p.pause_us, (int64_t)(r->pause_s * 1e6));
    }
}
