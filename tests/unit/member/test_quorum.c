/* SPDX-License-Identifier: MIT */
#include "check.h"

#include "member/quorum.h"

enum { MOST = 6 };

typedef struct quorum_case {
    wefti_member_policy policy;
    wefti_view_node nodes[MOST];
    wefti_view view;
    bool answered[MOST];
    wefti_standing standings[MOST];
    uint64_t vote;
} quorum_case;

/* Members 0..n-1 of view 4, of whom those in the bit mask have answered. */
static void make(quorum_case *c, int n, unsigned answered) {
    *c = (quorum_case){.policy = wefti_member_policy_default()};
    c->view = (wefti_view){.number = 4, .n_nodes = n, .nodes = c->nodes};
    for (int i = 0; i < n; i++) {
        c->nodes[i].id = (wefti_node_id){(uint64_t)i + 1, (uint64_t)i + 1};
        c->answered[i] = answered >> i & 1;
    }
}

static wefti_quorum_question question_of(const quorum_case *c) {
    return (wefti_quorum_question){.policy = &c->policy,
                                   .view = &c->view,
                                   .answered = c->answered,
                                   .standings = c->standings,
                                   .ballot = {7, 0},
                                   .vote = c->vote};
}

static bool decides(const quorum_case *c) {
    wefti_quorum_question q = question_of(c);
    return wefti_quorum_is(&q);
}

static void ended(quorum_case *c, int i, int64_t promised_view, uint64_t counter,
                  int64_t accepted_view) {
    c->standings[i].evidence = WEFTI_EVIDENCE_RECORD;
    c->standings[i].record = (wefti_member_record){
        promised_view, {counter, 0}, accepted_view, {0, 0}, (uint64_t)accepted_view};
}

static void left_its_vote(quorum_case *c, int i, int heir) {
    ended(c, i, 4, 90, 4);
    c->standings[i].record.heir = c->nodes[heir].id;
}

TEST(more_than_half_decide) {
    quorum_case c;
    make(&c, 5, 0x7);
    assert_true(decides(&c));
    make(&c, 5, 0x18);
    assert_false(decides(&c));
    make(&c, 1, 0x1);
    assert_true(decides(&c));
    make(&c, 3, 0);
    assert_false(decides(&c));
}

TEST(a_tie_goes_to_the_lowest) {
    quorum_case c;
    make(&c, 4, 0x9);
    assert_true(decides(&c));
    make(&c, 4, 0x6);
    assert_false(decides(&c));
}

TEST(of_two_one_goes_on_if_the_other_is_dead_and_not_if_it_is_silent) {
    for (unsigned who = 1; who <= 2; who++) {
        quorum_case c;
        make(&c, 2, who);
        c.standings[who == 1 ? 1 : 0].evidence = WEFTI_EVIDENCE_SILENCE;
        assert_false(decides(&c));
        c.standings[who == 1 ? 1 : 0].evidence = WEFTI_EVIDENCE_DEAD;
        assert_true(decides(&c));
    }
}

/* Two machines of two processes each, which share a copy of the model. */
TEST(of_two_machines_one_goes_on_if_the_other_is_dead_and_not_if_it_is_silent) {
    for (unsigned who = 0x3; who <= 0xc; who += 0x9) {
        quorum_case c;
        make(&c, 4, who);
        c.policy.unit = 2;
        for (int i = 0; i < 4; i++)
            if (!(who >> i & 1)) c.standings[i].evidence = WEFTI_EVIDENCE_SILENCE;
        assert_false(decides(&c));
        for (int i = 0; i < 4; i++)
            if (!(who >> i & 1)) c.standings[i].evidence = WEFTI_EVIDENCE_DEAD;
        assert_true(decides(&c));
    }
}

/* {1 2 3} may have decided before 1 and 2 died. */
TEST(deaths_without_records_do_not_make_a_majority) {
    quorum_case c;
    make(&c, 5, 0x18);
    c.standings[0].evidence = c.standings[1].evidence = WEFTI_EVIDENCE_DEAD;
    assert_false(decides(&c));
}

TEST(records_of_the_dead_count_if_they_exclude_a_vote) {
    quorum_case c;
    make(&c, 5, 0x18);
    ended(&c, 0, 4, 90, 4);
    ended(&c, 1, 5, 7, 4);
    assert_true(decides(&c));
    ended(&c, 1, 5, 8, 4); /* it promised a higher ballot, which may count it */
    assert_false(decides(&c));
    ended(&c, 1, 5, 7, 5); /* it accepted, and what it accepted may be decided */
    assert_false(decides(&c));
}

/* 0 and 2 have ended in this view; whatever they accepted, nobody was told of a decision. */
TEST(who_is_left_of_a_view_decides_if_all_others_ended_in_it) {
    quorum_case c;
    make(&c, 3, 0x2);
    c.view.chain = 44;
    ended(&c, 0, 5, 7, 5);
    ended(&c, 2, 4, 90, 4);
    c.standings[0].record.chain = c.standings[2].record.chain = 44;
    assert_true(decides(&c));
    c.policy.tie = WEFTI_TIE_WITNESS;
    assert_true(decides(&c));
    c.standings[0].record.promised.counter = 8; /* what it proposed may yet be accepted */
    assert_false(decides(&c));
    ended(&c, 0, 5, 7, 5); /* it ended in the next view, and may have told somebody */
    assert_false(decides(&c));
    c.standings[0].record.chain = 44;
    c.standings[0].evidence = WEFTI_EVIDENCE_DEAD;
    assert_false(decides(&c));
}

TEST(who_prefers_it_goes_on_in_both_halves) {
    quorum_case c;
    make(&c, 4, 0x8);
    c.policy.split = true;
    assert_true(decides(&c));
}

static uint64_t claim_of(const quorum_case *c) {
    wefti_quorum_question q = question_of(c);
    return wefti_quorum_claim(&q);
}

TEST(with_a_witness_a_half_decides_that_has_its_vote) {
    quorum_case c, other;
    make(&c, 4, 0x6);
    make(&other, 4, 0x9);
    c.policy.tie = other.policy.tie = WEFTI_TIE_WITNESS;
    assert_false(decides(&c));
    assert_false(decides(&other)); /* the lowest member alone is not enough */
    c.vote = other.vote = claim_of(&c);
    assert_true(decides(&c));
    assert_false(decides(&other)); /* the same vote, which is not theirs */
    c.answered[1] = false;
    assert_false(decides(&c)); /* nor that of a part of them */
    c.vote = claim_of(&c);
    assert_false(decides(&c)); /* and less than half is never enough */
    make(&c, 4, 0x7);
    c.policy.tie = WEFTI_TIE_WITNESS;
    assert_true(decides(&c)); /* more than half need nobody */
}

/* Of two the other one was cut off, may have got the vote, gone on, and then died. */
TEST(with_a_witness_a_death_alone_decides_nothing) {
    quorum_case c;
    make(&c, 2, 0x1);
    c.policy.tie = WEFTI_TIE_WITNESS;
    c.standings[1].evidence = WEFTI_EVIDENCE_DEAD;
    assert_false(decides(&c));
    c.vote = claim_of(&c);
    assert_true(decides(&c));
    make(&c, 2, 0x1);
    c.policy.tie = WEFTI_TIE_WITNESS;
    ended(&c, 1, 4, 90, 4); /* a record says that it had not gone on */
    assert_true(decides(&c));
    ended(&c, 1, 5, 7, 5);
    assert_false(decides(&c));
}

TEST(claims_differ_by_view_and_by_who_is_in_them) {
    quorum_case a, b;
    make(&a, 4, 0x3);
    make(&b, 4, 0xc);
    assert_true(claim_of(&a) != claim_of(&b));
    uint64_t before = claim_of(&a);
    a.view.chain++;
    assert_true(claim_of(&a) != before && before != 0);
}

/* 0 has no power; 1 and 2 can not hear each other, so 2 leaves. */
TEST(a_vote_that_was_left_counts_with_that_of_its_heir) {
    quorum_case c;
    make(&c, 3, 0x2);
    ended(&c, 2, 4, 90, 4);
    assert_false(decides(&c)); /* half, and not the lowest: 0 may have gone on */
    left_its_vote(&c, 2, 1);
    assert_true(decides(&c));
    c.standings[2].record.accepted_view = 5; /* it has given its vote */
    assert_false(decides(&c));
    make(&c, 3, 0x1);
    left_its_vote(&c, 2, 1);
    assert_false(decides(&c)); /* 1 may have gone on, with two votes */
    ended(&c, 1, 4, 90, 4);
    assert_true(decides(&c)); /* it has not, and nobody has the other vote */
    make(&c, 3, 0x1);
    left_its_vote(&c, 1, 2);
    assert_true(decides(&c)); /* an heir is lower-numbered, or none */
}

/* The dead of the bit mask have ended, and what is left to whom is a number of base n. */
static void end_with_heirs(quorum_case *c, int n, unsigned dead, unsigned heirs) {
    for (int i = 0; i < n; i++, heirs /= (unsigned)i) {
        unsigned heir = heirs % ((unsigned)i + 1);
        if (!(dead >> i & 1)) continue;
        ended(c, i, 0, 0, 4);
        if (heir > 0) left_its_vote(c, i, (int)heir - 1);
    }
}

/* As below, and each of the dead may have left its vote to any lower one, who may be dead, too. */
static void pairs_with_heirs_share_a_voter(wefti_member_tie tie, int n, unsigned most) {
    for (unsigned heirs = 0; heirs < most; heirs++)
        for (unsigned dead_a = 0; dead_a < 1u << n; dead_a++)
            for (unsigned dead_b = 0; dead_b < 1u << n; dead_b++)
                for (unsigned a = 1; a < 1u << n; a++) {
                    quorum_case c;
                    if (a & (dead_a | dead_b)) continue;
                    make(&c, n, a);
                    end_with_heirs(&c, n, dead_a, heirs);
                    c.policy.tie = tie;
                    uint64_t vote = c.vote = claim_of(&c);
                    if (!decides(&c)) continue;
                    unsigned b = ((1u << n) - 1) & ~a & ~dead_a & ~dead_b;
                    make(&c, n, b);
                    end_with_heirs(&c, n, dead_b, heirs);
                    c.policy.tie = tie;
                    c.vote = vote;
                    if (b != 0 && decides(&c))
                        fail_msg("%d nodes: %x and %x both decide", n, a, b);
                }
}

TEST(deciding_sets_with_heirs_share_a_voter) {
    unsigned most = 1;
    for (int n = 1; n <= 5; n++) {
        most *= (unsigned)n;
        pairs_with_heirs_share_a_voter(WEFTI_TIE_AUTO, n, most);
        pairs_with_heirs_share_a_voter(WEFTI_TIE_WITNESS, n, most);
    }
}

/* All pairs of deciding sets of six nodes share one, whatever is dead and known. */
static void all_pairs_share_a_voter(wefti_member_tie tie) {
    for (int n = 1; n <= MOST; n++)
        for (unsigned dead_a = 0; dead_a < 1u << n; dead_a++)
            for (unsigned dead_b = 0; dead_b < 1u << n; dead_b++)
                for (unsigned a = 1; a < 1u << n; a++) {
                    if (a & (dead_a | dead_b)) continue;
                    quorum_case c;
                    make(&c, n, a);
                    c.policy.tie = tie;
                    uint64_t vote = claim_of(&c); /* the first to ask */
                    c.vote = vote;
                    for (int i = 0; i < n; i++)
                        if (dead_a >> i & 1) ended(&c, i, 0, 0, 4);
                    if (!decides(&c)) continue;
                    unsigned b = ((1u << n) - 1) & ~a & ~dead_a & ~dead_b;
                    make(&c, n, b);
                    c.policy.tie = tie;
                    c.vote = vote;
                    for (int i = 0; i < n; i++)
                        if (dead_b >> i & 1) ended(&c, i, 0, 0, 4);
                    if (b != 0 && decides(&c))
                        fail_msg("%d nodes: %x and %x both decide", n, a, b);
                }
}

TEST(deciding_sets_share_a_voter) {
    all_pairs_share_a_voter(WEFTI_TIE_AUTO);
    all_pairs_share_a_voter(WEFTI_TIE_WITNESS);
}
