/* SPDX-License-Identifier: MIT */
/* Which sets of members may decide.
 *
 * The voters of view v decide view v + 1, in both phases of a ballot b, with
 *
 *     U = members of v, without those whose record shows that they ended before they decided v + 1
 *         or accepted anything for it from another member, and promised no ballot above b
 *
 *     |answered| > |U| / 2,    or = |U| / 2 and the tie goes to them
 *
 * Two such sets, of different ballots and with different knowledge of records, always share
 * a voter: a node that ended without having accepted is in no accepting set; a ballot is decided
 * only where its leader has installed its view, or has left by it and its record counts that as
 * accepted, so a node that accepted its own proposals alone is in no set that decided; and one
 * whose promises are at most b is in no promising set of a ballot above b; so both sets lie in
 * the part of v that is in neither list of the dead, and each has more than half of it.
 * "Proven dead" alone is not enough: {1 2 3} of five may decide, 1 and 2 may then die, and
 * {4 5} would be a majority of the three that are not proven dead, without knowing what 3
 * knows.
 *
 * A member that leaves because it and another one can not hear each other any more leaves its
 * vote to that one (heir) and stays in U: where the heir answers, both have. Its record says
 * that it accepted nothing that the heir has not, and promised no ballot above b, so the heir goes
 * on with its state as an acceptor, nobody else can, and each voter still answers once in a ballot.
 * It has no vote only if its heir has none, either. What it accepted in a ballot that the heir led
 * the heir had accepted before it sent it, and what the heir accepts later is of higher ballots,
 * so each promise of the heir names it, or what has replaced it.
 *
 * Fewer decide if nobody else could have: all members of v but those whose record shows that they
 * ended in v (its chain) and promised no ballot above b. A view counts as decided only where the
 * leader of its ballot has installed it, and that leader is a member of v: it has answered in
 * v, and by its promise does not finish an earlier ballot; or it has ended in v. Whoever proposes
 * in a later ballot lives and has accepted this one, and the dead have proposed in earlier ones.
 * This holds whatever the dead have accepted, and beside any of the rules.
 *
 * A tie goes to the half with the lowest member of U, or (tie = proof) to a half whose
 * others are all dead, or (tie = witness) to the half that has the witness's vote. Each
 * rule alone excludes two deciding halves, but two rules together do not.
 *
 * The vote is given to one set of members, by name, and only that set may use it. A set of
 * more than half of U shares a member with each half, so it needs no vote; and two sets
 * that share no member can both decide only if both are half of the same U: then their
 * names differ, and one of them has the vote. */
#include "member/quorum.h"

#include "base/assert.h"
static bool is_dead(const wefti_standing *s) {
    return s->evidence >= WEFTI_EVIDENCE_DEAD;
}

/* The member has ended, and its record shows that it promised no ballot above this one. */
static bool is_below(const wefti_quorum_question *q, const wefti_standing *s) {
    int64_t next = q->view->number + 1;
    if (s->evidence != WEFTI_EVIDENCE_RECORD || s->record.promised_view > next)
        return false;
    return s->record.promised_view < next ||
           !wefti_ballot_less(q->ballot, s->record.promised);
}

/* And that it has not given its vote. */
static bool kept_its_vote(const wefti_quorum_question *q, const wefti_standing *s) {
    return is_below(q, s) && s->record.accepted_view <= q->view->number;
}

/* And that it ended in this view, so that it has decided nothing. */
static bool ended_here(const wefti_quorum_question *q, const wefti_standing *s) {
    return is_below(q, s) && s->record.chain == q->view->chain;
}

/* Who has the vote of member i: itself, or the last of its heirs; -1: nobody. */
static int holder_of(const wefti_quorum_question *q, int i) {
    while (!q->answered[i] && kept_its_vote(q, &q->standings[i])) {
        int heir = wefti_view_find(q->view, q->standings[i].record.heir);
        if (heir < 0 || heir >= i) return -1;
        i = heir;
    }
    return i;
}

static bool tie_by_proof(const wefti_quorum_question *q) {
    if (q->policy->tie == WEFTI_TIE_AUTO)
        return wefti_view_is_of_two(q->view, q->policy->unit);
    return q->policy->tie == WEFTI_TIE_PROOF;
}

/* U, and how many of U have answered. */
typedef struct count {
    int n, n_answered, lowest;
    bool has_copy, others_are_dead;
    bool others_ended_here;
    bool state_is_here, state_is_there; /* with who has answered; with who may live */
} count;

/* Whether all nodes of the unit of member i have answered: without one whole copy of the
 * model nobody could continue. */
static bool is_whole(const wefti_quorum_question *q, int i) {
    uint64_t size = (uint64_t)q->policy->unit, n = 0;
    if (q->policy->unit <= 1) return true;
    for (int k = 0; k < q->view->n_nodes; k++)
        n += q->answered[k] && (q->view->nodes[k].id.key - 1) / size ==
                                   (q->view->nodes[i].id.key - 1) / size;
    return n == size;
}

static count count_voters(const wefti_quorum_question *q) {
    WEFTI_ASSERT(q->view->n_nodes > 0);
    count c = {.lowest = -1, .others_are_dead = true, .others_ended_here = true};
    for (int i = 0; i < q->view->n_nodes; i++) {
        const wefti_standing *s = &q->standings[i];
        c.has_copy = c.has_copy || (q->answered[i] && is_whole(q, i));
        c.state_is_here = c.state_is_here || (q->answered[i] && !s->is_new);
        c.state_is_there = c.state_is_there ||
                           (!q->answered[i] && !s->is_new && !is_dead(s));
        c.others_ended_here = c.others_ended_here && (q->answered[i] || ended_here(q, s));
        int voter = holder_of(q, i);
        if (voter < 0) continue;
        c.n++;
        c.n_answered += q->answered[voter];
        if (c.lowest < 0) c.lowest = voter;
        c.others_are_dead = c.others_are_dead &&
                            (q->answered[voter] || is_dead(&q->standings[voter]));
    }
    WEFTI_ASSERT(c.n_answered <= c.n && c.n <= q->view->n_nodes);
    return c;
}

/* A member that has just joined does not continue without those that have the state, while one of
 * them may live. */
static bool can_train(const count *c) {
    return c->has_copy && (c->state_is_here || !c->state_is_there);
}

static bool is_half(const count *c) {
    return c->n_answered > 0 && can_train(c) && 2 * c->n_answered == c->n;
}

bool wefti_quorum_ties(const wefti_quorum_question *q) {
    count c = count_voters(q);
    return is_half(&c);
}

bool wefti_quorum_is(const wefti_quorum_question *q) {
    count c = count_voters(q);
    if (c.n_answered == 0 || !can_train(&c)) return false;
    if (q->policy->split || c.others_ended_here || 2 * c.n_answered > c.n) return true;
    if (!is_half(&c)) return false;
    if (q->policy->tie == WEFTI_TIE_WITNESS) return q->vote == wefti_quorum_claim(q);
    return tie_by_proof(q) ? c.others_are_dead : q->answered[c.lowest];
}

uint64_t wefti_quorum_claim(const wefti_quorum_question *q) {
    uint64_t hash = q->view->chain;
    for (int i = 0; i < q->view->n_nodes; i++) {
        int voter = holder_of(q, i);
        hash = wefti_view_mix(hash, voter >= 0 && q->answered[voter]);
    }
    return hash ? hash : 1;
}
