/* SPDX-License-Identifier: MIT */
/* The rules of Paxos, message by message (lib/member/change.c, events.c): what a member
 * answers, what a leader counts, what a view has to have before it is believed. Five machines;
 * nothing is delivered but what the case says. */
#include "group.h"
#include "member/memberstate.h"

enum { HEARS = 3 }; /* the machine that a case is about */

/* Views that could follow the first one; two cannot. */
typedef enum which { NO_VIEW, VIEW_A, VIEW_B, OTHER_BRANCH, TOO_LATE } which;

typedef struct said {
    wefti_message_kind kind;
    int from;
    uint64_t counter;
    int leader;
    which view;
} said;

static void build(group *g, which of, wefti_view *out) {
    const wefti_member *m = g->m[HEARS];
    assert_ok(g->ctx, wefti_view_init(g->ctx, &m->config.limits, out));
    out->number = of == TOO_LATE ? 3 : 2;
    out->parent = m->view.chain ^ (of == OTHER_BRANCH);
    out->first_step = 5;
    out->cut_low = 4;
    for (int i = 0; i < 5; i++)
        if (i != (of == VIEW_B ? 0 : 4)) out->nodes[out->n_nodes++] = g->nodes[i];
    out->chain = wefti_view_hash(&m->config.limits, out);
}

/* A message as `from` would send it in view `view`. */
static void send_in(group *g, int from, int to, int64_t view, wefti_message *message) {
    unsigned char bytes[2048];
    const wefti_member *m = g->m[to];
    message->run = m->config.run;
    message->from = g->nodes[from].id;
    message->view = view;
    if (!message->chain) message->chain = m->view.chain ^ (view != m->view.number);
    wefti_member_event e = {
        .kind = WEFTI_EVENT_MESSAGE, .peer = g->nodes[from].id, .bytes = bytes};
    e.n_bytes = wefti_message_encode(&m->config.limits, message, bytes, sizeof bytes);
    assert_true(e.n_bytes > 0);
    feed(g, to, &e);
}

static void say(group *g, int to, const said *s) {
    uint16_t stay[] = {0, 1, 2, 3};
    wefti_view value = {0};
    wefti_message message = {.kind = s->kind, .ballot = {s->counter, s->leader}};
    if (s->kind == WEFTI_SAY_FLUSH) message.n_numbers = 4, message.numbers = stay;
    if (s->view != NO_VIEW) build(g, s->view, &value);
    message.value = &value;
    send_in(g, s->from, to, 1, &message);
    wefti_view_fini(g->ctx, &value);
}

/* Reads the last message that machine `i` has sent; false: none. */
static bool answer_of(group *g, int i, wefti_message_room *room, wefti_message *out) {
    const wefti_member *m = g->m[i];
    for (int k = g->n_queue - 1; k >= 0; k--) {
        if (g->queue[k].from != i || g->queue[k].bytes[5] < WEFTI_SAY_FLUSH) continue;
        assert_null(wefti_message_decode(&m->config.limits, room, g->queue[k].bytes,
                                         g->queue[k].n, out));
        return true;
    }
    return false;
}

#define FLUSH(from, counter, leader)                                                     \
    { WEFTI_SAY_FLUSH, from, counter, leader, NO_VIEW }
#define VIEW(from, counter, leader, view)                                                \
    { WEFTI_SAY_VIEW, from, counter, leader, view }
#define INSTALL(from, counter, leader, view)                                             \
    { WEFTI_SAY_INSTALL, from, counter, leader, view }

TEST_IN(setup, teardown, a_member_answers_by_its_promise) {
    enum { SILENT, YES, NO };
    static const struct {
        const char *what;
        said said[3]; /* the answer to the last one counts */
        int answer;
        uint64_t promised, accepted; /* counters of ballots after it; 0: none */
    } cases[] = {
        {"the first FLUSH", {FLUSH(1, 5, 1)}, YES, 5, 0},
        {"a lower FLUSH", {FLUSH(1, 5, 1), FLUSH(0, 4, 0)}, NO, 5, 0},
        {"a FLUSH of a lower leader", {FLUSH(1, 5, 1), FLUSH(0, 5, 0)}, NO, 5, 0},
        {"a higher FLUSH", {FLUSH(1, 5, 1), FLUSH(0, 6, 0)}, YES, 6, 0},
        {"a FLUSH in another's name", {FLUSH(2, 5, 1)}, SILENT, 0, 0},
        {"a VIEW after its FLUSH", {FLUSH(1, 5, 1), VIEW(1, 5, 1, VIEW_A)}, YES, 5, 5},
        {"a VIEW without its FLUSH", {VIEW(1, 5, 1, VIEW_A)}, YES, 5, 5},
        {"a FLUSH below that", {VIEW(1, 5, 1, VIEW_A), FLUSH(0, 4, 0)}, NO, 5, 5},
        {"a lower VIEW", {FLUSH(1, 5, 1), VIEW(0, 4, 0, VIEW_A)}, NO, 5, 0},
        {"a lower VIEW after one",
         {VIEW(1, 5, 1, VIEW_A), VIEW(0, 4, 0, VIEW_B)},
         NO,
         5,
         5},
        {"a higher VIEW after one",
         {VIEW(1, 5, 1, VIEW_A), VIEW(0, 6, 0, VIEW_B)},
         YES,
         6,
         6},
        {"a VIEW in another's name", {VIEW(2, 5, 1, VIEW_A)}, SILENT, 0, 0},
        {"a VIEW of another branch", {VIEW(1, 5, 1, OTHER_BRANCH)}, SILENT, 0, 0},
        {"a VIEW after the next one", {VIEW(1, 5, 1, TOO_LATE)}, SILENT, 0, 0},
        {"what was accepted", {VIEW(1, 5, 1, VIEW_A), FLUSH(0, 6, 0)}, YES, 6, 5},
    };
    group *g = *state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        wefti_message_room room;
        wefti_message got = {0};
        found(g, 5);
        const wefti_member *m = g->m[HEARS];
        assert_ok(g->ctx, wefti_message_room_init(g->ctx, &m->config.limits, &room));
        for (int i = 0; i < 3 && cases[k].said[i].kind; i++) {
            g->n_queue = 0;
            say(g, HEARS, &cases[k].said[i]);
        }
        int answer = !answer_of(g, HEARS, &room, &got) ? SILENT : got.refused ? NO : YES;
        if (answer != cases[k].answer || m->voter.promised.counter != cases[k].promised ||
            (m->voter.has_accepted ? m->voter.accepted_as.counter : 0) !=
                cases[k].accepted)
            fail_msg("%s: answer %d, promised %d, accepted %d", cases[k].what, answer,
                     (int)m->voter.promised.counter, (int)m->voter.accepted_as.counter);
        /* what its host keeps, and hands out when it has died, is as much */
        if (answer == YES)
            assert_int_equal(g->record[HEARS].promised.counter, cases[k].promised);
        if (cases[k].accepted) assert_int_equal(g->record[HEARS].accepted_view, 2);
        if (got.kind == WEFTI_SAY_FLUSH_OK && answer == YES) {
            assert_int_equal(got.has_value, cases[k].accepted > 0);
            assert_int_equal(got.has_value ? got.other.counter : 0, cases[k].accepted);
        }
        g->n_queue = 0;
        wefti_message_room_fini(g->ctx, &room);
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

/* ---- a leader: machine 0, when 4 has died ---- */

typedef struct answer {
    wefti_message_kind kind;
    int from, late; /* it answers a ballot so many before */
    bool refused;
    which view;
    uint64_t other;
} answer;

static void lead(group *g) {
    found(g, 5);
    closed(g, 0, 4, WEFTI_EVIDENCE_DEAD);
    assert_int_equal(g->m[0]->lead.phase, WEFTI_LEAD_ASKING);
}

static void answer_leader(group *g, const answer *a) {
    wefti_view value = {0};
    wefti_ballot ballot = g->m[0]->lead.ballot;
    ballot.counter -= (uint64_t)a->late;
    wefti_message message = {.kind = a->kind,
                             .ballot = ballot,
                             .refused = a->refused,
                             .has_value = a->view != NO_VIEW,
                             .other = {a->other, a->from},
                             .steps = {4, 4, 4}};
    if (a->view != NO_VIEW) build(g, a->view, &value);
    message.value = &value;
    send_in(g, a->from, 0, 1, &message);
    wefti_view_fini(g->ctx, &value);
}

#define OK(from)                                                                         \
    { WEFTI_SAY_FLUSH_OK, from, 0, false, NO_VIEW, 0 }
#define HAS(from, view, counter)                                                         \
    { WEFTI_SAY_FLUSH_OK, from, 0, false, view, counter }
#define YES(from)                                                                        \
    { WEFTI_SAY_VIEW_OK, from, 0, false, NO_VIEW, 0 }

TEST_IN(setup, teardown, a_leader_counts_answers_to_its_ballot) {
    static const struct {
        const char *what;
        answer answers[6];
        wefti_lead_phase phase; /* after the last one; IDLE: given up, or decided */
        which proposes;         /* or a view of its own */
        int installs;
    } cases[] = {
        {"two of four", {OK(1), OK(2)}, WEFTI_LEAD_ASKING, NO_VIEW, 0},
        {"all four", {OK(1), OK(2), OK(3)}, WEFTI_LEAD_PROPOSING, NO_VIEW, 0},
        {"one twice", {OK(1), OK(2), OK(2)}, WEFTI_LEAD_ASKING, NO_VIEW, 0},
        {"who was not asked", {HAS(1, VIEW_B, 2), OK(4)}, WEFTI_LEAD_ASKING, NO_VIEW, 0},
        {"an answer to an earlier ballot",
         {OK(1), OK(2), {WEFTI_SAY_FLUSH_OK, 3, 1, false, NO_VIEW, 0}},
         WEFTI_LEAD_ASKING,
         NO_VIEW,
         0},
        {"a refusal",
         {OK(1), OK(2), {WEFTI_SAY_FLUSH_OK, 3, 0, true, NO_VIEW, 9}},
         WEFTI_LEAD_IDLE,
         NO_VIEW,
         0},
        {"a view that was accepted",
         {HAS(1, VIEW_B, 2), OK(2)},
         WEFTI_LEAD_PROPOSING,
         VIEW_B,
         0},
        {"the higher one first",
         {HAS(1, VIEW_A, 3), HAS(2, VIEW_B, 2)},
         WEFTI_LEAD_PROPOSING,
         VIEW_A,
         0},
        {"the higher one last",
         {HAS(1, VIEW_B, 2), HAS(2, VIEW_A, 3)},
         WEFTI_LEAD_PROPOSING,
         VIEW_A,
         0},
        {"one of another branch",
         {HAS(1, OTHER_BRANCH, 2), OK(2)},
         WEFTI_LEAD_ASKING,
         NO_VIEW,
         0},
        {"two of five accept",
         {OK(1), OK(2), OK(3), YES(1)},
         WEFTI_LEAD_PROPOSING,
         NO_VIEW,
         0},
        {"three of five accept, and the fourth may yet",
         {OK(1), OK(2), OK(3), YES(1), YES(2)},
         WEFTI_LEAD_PROPOSING,
         NO_VIEW,
         0},
        {"all accept",
         {OK(1), OK(2), OK(3), YES(1), YES(2), YES(3)},
         WEFTI_LEAD_IDLE,
         NO_VIEW,
         1},
        {"three of five accept, and the fourth refuses",
         {OK(1),
          OK(2),
          OK(3),
          YES(1),
          YES(2),
          {WEFTI_SAY_VIEW_OK, 3, 0, true, NO_VIEW, 9}},
         WEFTI_LEAD_IDLE,
         NO_VIEW,
         1},
        {"one accepts twice",
         {OK(1), OK(2), OK(3), YES(1), YES(1)},
         WEFTI_LEAD_PROPOSING,
         NO_VIEW,
         0},
        {"it accepts in an earlier ballot",
         {OK(1), OK(2), OK(3), YES(1), {WEFTI_SAY_VIEW_OK, 2, 1, false, NO_VIEW, 0}},
         WEFTI_LEAD_PROPOSING,
         NO_VIEW,
         0},
        {"it refuses the view",
         {OK(1), OK(2), OK(3), YES(1), {WEFTI_SAY_VIEW_OK, 2, 0, true, NO_VIEW, 9}},
         WEFTI_LEAD_IDLE,
         NO_VIEW,
         0},
        {"it accepts before it was proposed",
         {OK(1), YES(2), YES(3), YES(1)},
         WEFTI_LEAD_ASKING,
         NO_VIEW,
         0},
    };
    group *g = *state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        lead(g);
        wefti_view expected = {0};
        for (int i = 0; i < 6 && cases[k].answers[i].kind; i++)
            answer_leader(g, &cases[k].answers[i]);
        const wefti_member *m = g->m[0];
        if (m->lead.phase != cases[k].phase || g->installs[0] != cases[k].installs)
            fail_msg("%s: phase %d, %d installed", cases[k].what, m->lead.phase,
                     g->installs[0]);
        if (cases[k].proposes != NO_VIEW) {
            build(g, cases[k].proposes, &expected);
            if (m->lead.proposal.chain != expected.chain)
                fail_msg("%s: another one is proposed", cases[k].what);
            wefti_view_fini(g->ctx, &expected);
        }
        g->n_queue = 0;
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

/* Also of ballots that it has only heard of, and that somebody refused it for. */
TEST_IN(setup, teardown, a_leaders_ballot_is_above_all_others) {
    group *g = *state;
    lead(g);
    say(g, 0, &(said)FLUSH(1, 7, 1));
    closed(g, 0, 1, WEFTI_EVIDENCE_DEAD);
    assert_int_equal(g->m[0]->lead.phase, WEFTI_LEAD_ASKING);
    assert_int_equal(g->m[0]->lead.ballot.counter, 8);
    static const struct { uint64_t refused_for, next; } cases[] = {{20, 21}, {3, 22}};
    wefti_member_event tick = {.kind = WEFTI_EVENT_TICK};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        answer_leader(
            g, &(answer){WEFTI_SAY_FLUSH_OK, 2, 0, true, NO_VIEW, cases[k].refused_for});
        g->n_queue = 0;
        for (int i = 0; i < 50 && g->m[0]->lead.phase == WEFTI_LEAD_IDLE; i++) {
            g->now_us += 20000;
            feed(g, 0, &tick);
        }
        assert_int_equal(g->m[0]->lead.ballot.counter, cases[k].next);
    }
}

/* ---- whom to believe ---- */

TEST_IN(setup, teardown, a_view_is_believed_with_its_votes_or_by_two) {
    static const struct {
        const char *what;
        bool accepted; /* view A in ballot 5.1 */
        said said[2];
        uint16_t voters[4];
        int n_voters;
        bool believed;
    } cases[] = {
        {"the leader, with three votes of five",
         true,
         {INSTALL(1, 5, 1, VIEW_A)},
         {1, 2, 3},
         3,
         true},
        {"with two", true, {INSTALL(1, 5, 1, VIEW_A)}, {1, 3}, 2, false},
        {"with one vote counted thrice",
         true,
         {INSTALL(1, 5, 1, VIEW_A)},
         {1, 1, 1},
         3,
         false},
        {"without its own vote", true, {INSTALL(1, 5, 1, VIEW_A)}, {0, 2, 3}, 3, false},
        {"of another ballot", true, {INSTALL(1, 6, 1, VIEW_A)}, {1, 2, 3}, 3, false},
        {"another view", true, {INSTALL(1, 5, 1, VIEW_B)}, {1, 2, 3}, 3, false},
        {"who does not lead", true, {INSTALL(2, 5, 1, VIEW_A)}, {1, 2, 3}, 3, false},
        {"of what was not accepted",
         false,
         {INSTALL(1, 5, 1, VIEW_A)},
         {1, 2, 3},
         3,
         false},
        {"two members",
         false,
         {INSTALL(1, 5, 1, VIEW_A), INSTALL(2, 5, 1, VIEW_A)},
         {1, 2, 3},
         3,
         true},
        {"two that do not agree",
         false,
         {INSTALL(1, 5, 1, VIEW_A), INSTALL(2, 5, 1, VIEW_B)},
         {1, 2, 3},
         3,
         false},
        {"one of them twice",
         false,
         {INSTALL(1, 5, 1, VIEW_A), INSTALL(1, 5, 1, VIEW_A)},
         {1, 2, 3},
         3,
         false},
        {"two, of another branch",
         false,
         {INSTALL(1, 5, 1, OTHER_BRANCH), INSTALL(2, 5, 1, OTHER_BRANCH)},
         {1, 2, 3},
         3,
         false},
    };
    group *g = *state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        found(g, 5);
        if (cases[k].accepted) say(g, HEARS, &(said)VIEW(1, 5, 1, VIEW_A));
        for (int i = 0; i < 2 && cases[k].said[i].kind; i++) {
            const said *s = &cases[k].said[i];
            uint16_t voters[4];
            wefti_view value;
            memcpy(voters, cases[k].voters, sizeof voters);
            build(g, s->view, &value);
            wefti_message install = {.kind = WEFTI_SAY_INSTALL,
                                     .ballot = {s->counter, s->leader},
                                     .n_numbers = cases[k].n_voters,
                                     .numbers = voters,
                                     .value = &value};
            send_in(g, s->from, HEARS, 2, &install);
            wefti_view_fini(g->ctx, &value);
        }
        if (g->installs[HEARS] != cases[k].believed)
            fail_msg("%s: %s", cases[k].what, g->installs[HEARS] ? "believed" : "not");
        g->n_queue = 0;
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

static void bye(group *g, int from, int64_t view) {
    wefti_message message = {.kind = WEFTI_SAY_BYE, .reason = WEFTI_BYE_EVICTED};
    send_in(g, from, HEARS, view, &message);
}

TEST_IN(setup, teardown, one_member_sends_nobody_away) {
    group *g = *state;
    found(g, 5);
    bye(g, 1, 1);
    bye(g, 2, 1); /* of this view, or earlier: said before it was installed */
    bye(g, 1, 3);
    bye(g, 1, 3);
    assert_int_equal(wefti_member_get_state(g->m[HEARS]), WEFTI_MEMBER_IN);
    bye(g, 2, 3);
    assert_int_equal(wefti_member_get_state(g->m[HEARS]), WEFTI_MEMBER_OUT);
}

/* That this view has followed; 0: which one is not said. */
static void bye_after(group *g, int from, which next) {
    wefti_message message = {.kind = WEFTI_SAY_BYE, .reason = WEFTI_BYE_EVICTED};
    wefti_view value;
    build(g, next, &value);
    message.chain = value.chain;
    send_in(g, from, HEARS, 2, &message);
    wefti_view_fini(g->ctx, &value);
}

static void install_says(group *g, int from, which next) {
    uint16_t voters[] = {0, 1, 2};
    wefti_view value;
    build(g, next, &value);
    wefti_message install = {.kind = WEFTI_SAY_INSTALL,
                             .ballot = {5, 0},
                             .n_numbers = 3,
                             .numbers = voters,
                             .value = &value};
    send_in(g, from, HEARS, 2, &install);
    wefti_view_fini(g->ctx, &value);
}

/* Machine 1 is in a view without HEARS, machine 2 in the next one. */
TEST_IN(setup, teardown, two_in_different_later_views_are_believed_for_the_next_one) {
    group *g = *state;
    for (which next = VIEW_A; next <= VIEW_B; next++) {
        found(g, 5);
        bye_after(g, 1, next);
        install_says(g, 2, VIEW_A);
        bye_after(g, 1, next);
        assert_int_equal(g->installs[HEARS], next == VIEW_A);
        assert_int_equal(g->out[HEARS], WEFTI_OUT_NONE);
        for (int i = 0; i < 5; i++) end(g, i);
    }
}

/* Of three that say different things two do not lie. While the rest could decide, they may. */
TEST_IN(setup, teardown, whom_all_tell_something_else_comes_back_after_a_while) {
    group *g = *state;
    for (int n = 2; n <= 3; n++) {
        found(g, 5);
        install_says(g, 1, VIEW_A);
        install_says(g, 2, VIEW_B);
        if (n == 3) bye(g, 0, 3);
        pass(g, 9500000);
        assert_int_equal(g->out[HEARS], WEFTI_OUT_NONE);
        pass(g, 1000000);
        assert_int_equal(g->out[HEARS], n == 3 ? WEFTI_OUT_EVICTED : WEFTI_OUT_NONE);
        assert_int_equal(g->installs[HEARS], 0);
        for (int i = 0; i < 5; i++) end(g, i);
    }
}

TEST_IN(setup, teardown, who_is_left_out_leaves_whichever_view_it_hears_of) {
    group *g = *state;
    found(g, 5);
    bye_after(g, 1, VIEW_A);
    assert_int_equal(g->out[HEARS], WEFTI_OUT_NONE);
    bye(g, 2, 3);
    assert_int_equal(g->out[HEARS], WEFTI_OUT_EVICTED);
}

/* What machine 0 answers to a node that is no member and says that it is in this view. */
static void expect_bye(group *g, const int64_t says_view, uint64_t says_chain,
                       int64_t view, uint64_t chain) {
    const wefti_member *m = g->m[0];
    wefti_message alive = {.kind = WEFTI_SAY_ALIVE, .chain = says_chain}, got;
    wefti_message_room room;
    assert_ok(g->ctx, wefti_message_room_init(g->ctx, &m->config.limits, &room));
    g->n_queue = 0;
    send_in(g, HEARS, 0, says_view, &alive);
    int k = 0;
    while (k < g->n_queue && g->queue[k].bytes[5] != WEFTI_SAY_BYE) k++;
    assert_true(k < g->n_queue);
    assert_null(wefti_message_decode(&m->config.limits, &room, g->queue[k].bytes,
                                     g->queue[k].n, &got));
    assert_int_equal(got.view, view);
    assert_true(got.chain == chain);
    wefti_message_room_fini(g->ctx, &room);
}

TEST_IN(setup, teardown, who_is_left_out_hears_which_view_has_followed_its_own) {
    group *g = *state;
    found(g, 5);
    g->deaf[HEARS] = true;
    pass(g, 3000000);
    uint64_t first = g->m[HEARS]->view.chain;
    closed(g, 0, 4, WEFTI_EVIDENCE_DEAD);
    pass(g, 3000000);
    g->deaf[HEARS] = false;
    wefti_member *m = g->m[0];
    uint64_t third = m->view.chain, second = m->view.parent;
    assert_int_equal(m->view.number, 3);
    expect_bye(g, 1, first, 2, second);
    expect_bye(g, 2, second, 3, third);
    expect_bye(g, 1, first ^ 1, 3, third); /* another branch */
    m->past[4] = 7;
    expect_bye(g, 3, third, 3, third); /* nothing has followed */
    m->view.number = 2 + WEFTI_PAST_VIEWS;
    expect_bye(g, 2, second, m->view.number, third); /* too long ago */
}

/* What is passed on has been read, with the view of another. */
TEST_IN(setup, teardown, all_but_a_bye_names_the_view_of_its_sender) {
    unsigned char bytes[512];
    group *g = *state;
    found(g, 3);
    wefti_message probe = {.kind = WEFTI_SAY_PROBE_REQ, .view = 7, .chain = 7}, got;
    size_t n = wefti_member_encode(g->m[0], &probe, bytes, sizeof bytes);
    assert_null(
        wefti_message_decode(&g->m[0]->config.limits, &g->m[0]->room, bytes, n, &got));
    assert_int_equal(got.view, 1);
    assert_true(got.chain == g->m[0]->view.chain);
}

/* A message in another's name is refused, whatever it says. */
TEST_IN(setup, teardown, names_are_those_of_the_connection) {
    unsigned char bytes[512];
    group *g = *state;
    found(g, 5);
    wefti_message leave = {.kind = WEFTI_SAY_LEAVE, .record = {.accepted_view = 1}};
    wefti_member_event e = {
        .kind = WEFTI_EVENT_MESSAGE, .peer = g->nodes[1].id, .bytes = bytes};
    e.n_bytes = wefti_member_encode(g->m[2], &leave, bytes, sizeof bytes);
    feed(g, 0, &e);
    assert_int_equal(wefti_member_get_facts(g->m[0]).refused_messages, 1);
    assert_false(wefti_member_suspects(g->m[0], g->nodes[2].id));
}

/* Four of five have ended; HEARS has accepted view A in a ballot of machine 1, whose record
 * says that it had installed a view. */
TEST_IN(setup, teardown, a_record_tells_which_view_was_decided) {
    group *g = *state;
    for (int same = 0; same < 2; same++) {
        found(g, 5);
        say(g, HEARS, &(said)VIEW(1, 5, 1, VIEW_A));
        if (!same) say(g, HEARS, &(said)INSTALL(1, 5, 1, VIEW_B));
        for (int i = 0; i < 5; i++) {
            wefti_member_event gone = {.kind = WEFTI_EVENT_RECORD,
                                       .peer = g->nodes[i].id,
                                       .record = {.accepted_view = 1}};
            gone.record.chain = i != 1 ? g->m[HEARS]->view.chain
                                       : g->m[HEARS]->voter.accepted.chain ^ !same;
            if (i == 1) gone.record.accepted_view = 2;
            if (i != HEARS) feed(g, HEARS, &gone);
        }
        pass(g, 100000);
        assert_int_equal(wefti_member_view(g->m[HEARS])->number > 1, same);
        for (int i = 0; i < 5; i++) end(g, i);
    }
}

/* What its host keeps while the leader's INSTALL is on its way. */
TEST_IN(setup, teardown, the_host_knows_a_decision_before_anybody_else) {
    group *g = *state;
    found(g, 2);
    wefti_member_event end = {.kind = WEFTI_EVENT_RECORD,
                              .peer = g->nodes[1].id,
                              .record = wefti_member_own_record(g->m[1])};
    feed(g, 0, &end);
    assert_int_equal(g->installs[0], 1);
    assert_true(g->record[0].chain == wefti_member_view(g->m[0])->chain);
}

/* What a member says of another's end is a suspicion, and none while that one is heard. */
TEST_IN(setup, teardown, only_a_host_and_oneself_prove_an_end) {
    group *g = *state;
    found(g, 5);
    wefti_message suspect = {.kind = WEFTI_SAY_SUSPECT,
                             .subject = g->nodes[4].id,
                             .evidence = WEFTI_EVIDENCE_RECORD};
    says(g, 1, 0, &suspect);
    assert_false(wefti_member_suspects(g->m[0], g->nodes[4].id));
    g->deaf[4] = true; /* nor does it say anything */
    pass(g, 600000);   /* longer than two signs of life, shorter than a silence */
    says(g, 1, 0, &suspect);
    assert_int_equal(g->m[0]->peers[g->m[0]->peer_of_number[4]].standing.evidence,
                     WEFTI_EVIDENCE_SILENCE);
    wefti_message leave = {.kind = WEFTI_SAY_LEAVE, .record = {.accepted_view = 1}};
    says(g, 3, 0, &leave);
    assert_int_equal(g->m[0]->peers[g->m[0]->peer_of_number[3]].standing.evidence,
                     WEFTI_EVIDENCE_RECORD);
}

/* ---- who lies in ballots ---- */

enum { LIAR = 1 };

static const uint64_t LAST = (uint64_t)1 << 56; /* counter that a message can have */

/* Each is told every 0.1 s. */
typedef enum lie {
    FLUSH_WITHOUT_END, /* of one ballot */
    FLUSH_AFTER_FLUSH, /* beside answers to the ballots of others */
    VIEW_WITHOUT_END,
    LAST_FLUSH, /* of all that a message can name */
    LAST_LEAVE,
    REFUSES,
    REFUSES_BY_LAST,
    LATE_STEPS,
    WRONG_VALUE, /* that it has accepted, as a view after the next one */
    LIES
} lie;

/* Its answer to the ballot that `m` leads. */
static void answer_falsely(const wefti_member *m, lie what, wefti_message *out) {
    out->kind = m->lead.phase == WEFTI_LEAD_ASKING ? WEFTI_SAY_FLUSH_OK : WEFTI_SAY_ALIVE;
    out->ballot = m->lead.ballot;
    out->steps = (wefti_member_steps){what == LATE_STEPS ? 1000 : 4, 4, 4};
    out->refused = what == REFUSES || what == REFUSES_BY_LAST;
    out->has_value = what == WRONG_VALUE;
    out->other = (wefti_ballot){out->refused ? m->lead.ballot.counter + 1 : 0, LIAR};
    if (what == REFUSES_BY_LAST) out->other.counter = LAST;
}

/* What the liar says to machine `to`. */
static void lie_to(group *g, lie what, int to, uint64_t round) {
    const wefti_member *m = g->m[to];
    uint16_t all[] = {0, 1, 2, 3, 4};
    wefti_view value = {0};
    wefti_message alive = {.kind = WEFTI_SAY_ALIVE, .steps = {4, 4, 4}};
    wefti_message message = {.kind = WEFTI_SAY_FLUSH,
                             .ballot = {50 + round, LIAR},
                             .n_numbers = 5,
                             .numbers = all,
                             .value = &value};
    build(g, what == WRONG_VALUE ? TOO_LATE : VIEW_A, &value);
    if (what == FLUSH_WITHOUT_END) message.ballot.counter = 50;
    if (what == LAST_FLUSH) message.ballot.counter = LAST;
    if (what == VIEW_WITHOUT_END) message.kind = WEFTI_SAY_VIEW;
    if (what == LAST_LEAVE) {
        message.kind = WEFTI_SAY_LEAVE;
        message.record = (wefti_member_record){2, {LAST, LIAR}, 1, {0, 0}, m->view.chain};
    }
    if (what >= REFUSES) answer_falsely(m, what, &message);
    send_in(g, LIAR, to, 1, &alive);
    send_in(g, LIAR, to, 1, &message);
    if (what == FLUSH_AFTER_FLUSH) {
        answer_falsely(m, what, &message);
        send_in(g, LIAR, to, 1, &message);
    }
    wefti_view_fini(g->ctx, &value);
}

/* As a voter that may have decided: no ballot is above the one that it says it has promised. */
TEST_IN(setup, teardown, who_leaves_with_the_last_ballot_is_counted) {
    group *g = *state;
    const bool answered[MOST] = {[0] = true, [HEARS] = true};
    for (int lies = 0; lies < 2; lies++) {
        found(g, 5);
        wefti_message leave = {.kind = WEFTI_SAY_LEAVE, .record = {.accepted_view = 1}};
        if (lies) leave.record.promised_view = 2, leave.record.promised.counter = LAST;
        send_in(g, 4, HEARS, 1, &leave);
        assert_int_equal(wefti_change_outvotes(g->m[HEARS], answered), !lies);
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}

static bool all_went_on(const group *g) {
    return view_number(g, 0) > 1 && view_number(g, 2) > 1 && view_number(g, 3) > 1;
}

/* The others are told that one has died, and go on all the same; without the liar, where it has
 * answered nobody, or led for long. */
TEST_IN(setup, teardown, who_lies_in_ballots_holds_nobody_up) {
    group *g = *state;
    for (lie what = 0; what < LIES; what++) {
        found(g, 5);
        end(g, LIAR);
        end(g, 4);
        for (uint64_t round = 0; round < 600 && !all_went_on(g); round++) {
            for (int i = 0; i < 4; i++) {
                if (i == LIAR || view_number(g, i) > 1) continue;
                lie_to(g, what, i, round);
                if (round == 1) closed(g, i, 4, WEFTI_EVIDENCE_DEAD);
            }
            pass(g, 100000);
        }
        if (!all_went_on(g)) fail_msg("lie %d holds them up", what);
        bool stays = wefti_view_find(wefti_member_view(g->m[0]), g->nodes[LIAR].id) >= 0;
        bool may = what == WRONG_VALUE ||
                   what == VIEW_WITHOUT_END; /* a view with it is decided */
        if (stays != may) fail_msg("lie %d: stays %d", what, stays);
        for (int i = 0; i < MOST; i++) end(g, i);
    }
}
