/* SPDX-License-Identifier: MIT */
/* Who may decide.
 *
 * The voters of view v decide view v + 1, in both phases of a ballot b, with
 *
 *     U = members of v without those whose record shows that they ended before they
 * accepted anything for v + 1, and that they promised no ballot above b |answered| > |U|
 * / 2,    or = |U| / 2 and the tie goes to them
 *
 * Two such sets, of different ballots and different knowledge of records, always share a
 * voter: a node that ended without having accepted is in no accepting set, and one whose
 * promises are at most b is in no promising set of a ballot above b; so both sets lie in
 * the part of v that is in neither list of the dead, and each has more than half of it.
 * "Proven dead" alone is not enough: {1 2 3} of five may decide, 1 and 2 may then die,
 * and {4 5} would be a majority of the three that are not proven dead, without knowing
 * what 3 knows.
 *
 * A tie goes to the half with the lowest member of U, or (tie = proof) to a half whose
 * others are all dead; each rule excludes two deciding halves, but the two together do
 * not. */
#include "member/quorum.h"

static bool is_dead(const wefti_standing *s) {
    return s->evidence >= WEFTI_EVIDENCE_RESET;
}

/* It has ended, and its vote can neither have been given nor come. */
static bool has_no_vote(const wefti_quorum_question *q, const wefti_standing *s) {
    int64_t next = q->view->number + 1;
    if (s->evidence == WEFTI_EVIDENCE_RESET) return q->policy->trust_reset;
    if (s->evidence != WEFTI_EVIDENCE_RECORD) return false;
    if (s->record.accepted_view >= next || s->record.promised_view > next) return false;
    return s->record.promised_view < next ||
           !wefti_ballot_less(q->ballot, s->record.promised);
}

static bool tie_by_proof(const wefti_quorum_question *q) {
    if (q->policy->tie == WEFTI_TIE_AUTO) return q->view->n_nodes <= 2;
    return q->policy->tie == WEFTI_TIE_PROOF;
}

bool wefti_quorum_is(const wefti_quorum_question *q) {
    int n = 0, n_answered = 0, lowest = -1;
    bool someone_trains = false, others_are_dead = true;
    for (int i = 0; i < q->view->n_nodes; i++) {
        const wefti_standing *s = &q->standings[i];
        if (q->answered[i]) someone_trains = someone_trains || !q->view->nodes[i].witness;
        if (!q->answered[i] && has_no_vote(q, s)) continue;
        n++;
        n_answered += q->answered[i];
        if (lowest < 0) lowest = i;
        others_are_dead = others_are_dead && (q->answered[i] || is_dead(s));
    }
    if (n_answered == 0 || !someone_trains) return false;
    if (q->policy->split || 2 * n_answered > n) return true;
    if (2 * n_answered < n) return false;
    return tie_by_proof(q) ? others_are_dead : q->answered[lowest];
}
