/* SPDX-License-Identifier: MIT */
/* The next view: one Paxos decision per view number.
 *
 *     leader                            members that stay
 *     FLUSH(ballot, who stays)   --->   promise, freeze, ask the host for the inventory
 *                                <---   FLUSH_OK(my steps, accepted view or none, inventory)
 *     all have answered: a view that a member has accepted, the one of the highest ballot;
 *     if there is none, a new one
 *     VIEW(ballot, view)         --->   accept
 *                                <---   VIEW_OK
 *     a quorum of the old view has accepted, and all that may live or too late: it is decided
 *     INSTALL(view)              --->   install, thaw
 *
 * The lowest-numbered member that is not suspected leads at once; the next one after
 * takeover_us, and so on. A node that has promised is frozen and needs
 * a decision, whichever node leads it: a leader that fails is replaced, at once if it is
 * known to be dead. A higher ballot replaces a lower one, and adopts what the lower one may
 * have decided.
 *
 * If exactly half of the members hear nothing from the others, the one that would lead
 * first asks the witness, if there is one:
 *
 *     ASK(vote of this view, claim of this half)   --->   witness
 *                                                  <---   given: the ballot begins; else: paused */
#include "member/memberstate.h"

#include "base/assert.h"
#include <string.h>

static const wefti_standing no_standing = {.evidence = WEFTI_EVIDENCE_NONE};

/* Known by proof, not by silence: a silent node that is heard again is no longer suspected. */
static bool is_dead(const wefti_member_node *peer) {
    return peer->standing.evidence >= WEFTI_EVIDENCE_DEAD;
}

static wefti_member_node *peer_at(const wefti_member *m, int number) {
    return number == m->number ? NULL : &m->peers[m->peer_of_number[number]];
}

/* A member that has reported that it does not have the state before its first step yet. */
static bool is_new(const wefti_member *m, int i) {
    const wefti_member_node *peer = peer_at(m, i);
    int64_t finished = peer ? peer->steps.finished : m->steps.finished;
    return (!peer || peer->has_told) && finished < m->view.nodes[i].first_step - 1;
}

/* The other one of two has this node's vote, and may have decided by it. The witness's answer may
 * come later. */
static bool has_lent(wefti_member *m) {
    const wefti_member_node *heir = wefti_member_peer(m, m->voter.heir);
    return heir && !is_dead(heir);
}

static wefti_quorum_question question(wefti_member *m, const bool *answered,
                                      wefti_ballot ballot) {
    for (int i = 0; i < m->view.n_nodes; i++) {
        const wefti_member_node *peer = peer_at(m, i);
        m->standings[i] = peer ? peer->standing : no_standing;
        m->standings[i].is_new = is_new(m, i);
    }
    return (wefti_quorum_question){.policy = &m->config.policy,
                                   .view = &m->view,
                                   .answered = answered,
                                   .standings = m->standings,
                                   .ballot = ballot,
                                   .vote = has_lent(m) ? 0 : m->witness.vote};
}

static bool has_quorum(wefti_member *m, const bool *answered, wefti_ballot ballot) {
    wefti_quorum_question q = question(m, answered, ballot);
    return wefti_quorum_is(&q);
}

/* Above all that this node knows of. */
static wefti_ballot next_ballot(const wefti_member *m) {
    return (wefti_ballot){m->voter.highest_counter + 1, m->number};
}

static void say_to_asked(wefti_member *m, wefti_message *message) {
    for (int i = 0; i < m->view.n_nodes; i++)
        if (i != m->number && m->lead.asked[i] && !m->lead.answered[i])
            wefti_member_say(m, m->view.nodes[i].id, message);
}

static void record(wefti_member *m) {
    wefti_member_action *a = wefti_member_act(m, WEFTI_DO_RECORD);
    if (a) a->record = wefti_member_own_record(m);
}

/* -- a member's side -- */

static void promise(wefti_member *m, wefti_ballot ballot) {
    if (m->lead.phase != WEFTI_LEAD_IDLE && !wefti_ballot_is(ballot, m->lead.ballot))
        m->lead.phase = WEFTI_LEAD_IDLE;
    wefti_member_see(m, ballot); /* so that its own ballots are higher */
    WEFTI_ASSERT(!wefti_ballot_less(ballot, m->voter.promised));
    m->voter.promised = ballot;
    m->voter.frozen = true;
    m->voter.n_answer = 0;
    m->due.paused_us = 0;
    m->due.progress_us = m->now_us;
    m->state = WEFTI_MEMBER_FLUSHING;
    record(m); /* of the promise */
}

static void freeze(wefti_member *m) {
    wefti_member_action *a = wefti_member_act(m, WEFTI_DO_FREEZE);
    if (a) a->ballot = m->voter.promised;
}

static void refuse(wefti_member *m, const wefti_member_node *peer,
                   const wefti_message *message) {
    wefti_message no = {.kind = message->kind == WEFTI_SAY_FLUSH ? WEFTI_SAY_FLUSH_OK
                                                                 : WEFTI_SAY_VIEW_OK,
                        .ballot = message->ballot,
                        .refused = true,
                        .other = m->voter.promised,
                        .steps = m->steps};
    wefti_member_say(m, peer->id, &no);
}

static void send_flush_ok(wefti_member *m, wefti_node_id to) {
    WEFTI_ASSERT(m->voter.frozen && m->voter.n_answer > 0);
    wefti_member_action *a = wefti_member_act(m, WEFTI_DO_SEND);
    if (!a) return;
    a->peer = to;
    a->bytes = m->voter.answer;
    a->n_bytes = m->voter.n_answer;
}

/* A member that has led for ten silences in this view, and decided nothing, leads it no more. */
static bool may_lead(wefti_member *m, wefti_member_node *peer, wefti_ballot ballot) {
    int64_t since = m->now_us - peer->led_at_us, most = m->config.policy.answer_us;
    if (ballot.leader != peer->number) return false;
    wefti_member_see(m, ballot);
    peer->led_at_us = m->now_us;
    peer->led_us += since < most ? since : most;
    bool too_long = peer->led_us > 10 * m->config.policy.silence_us;
    if (too_long) wefti_watch_suspect(m, peer, WEFTI_EVIDENCE_MUTE);
    return !too_long && ballot.counter <= m->voter.highest_counter;
}

/* Whether it may answer; a ballot below its promise is refused. */
static bool may_answer(wefti_member *m, wefti_member_node *peer,
                       const wefti_message *message) {
    if (!may_lead(m, peer, message->ballot)) return false;
    bool is_lower = wefti_ballot_less(message->ballot, m->voter.promised);
    if (is_lower) refuse(m, peer, message);
    return !is_lower;
}

/* A view that can come after this one. */
static bool is_next(const wefti_member *m, const wefti_view *value) {
    return value->number == m->view.number + 1 && value->parent == m->view.chain;
}

static void take_flush(wefti_member *m, wefti_member_node *peer,
                       const wefti_message *message) {
    if (!may_answer(m, peer, message)) return;
    if (wefti_ballot_is(message->ballot, m->voter.promised)) { /* repeated */
        m->due.progress_us = m->now_us;                        /* its leader is active */
        if (m->voter.n_answer) send_flush_ok(m, peer->id);
        return;
    }
    promise(m, message->ballot);
    memset(m->voter.stays, 0,
           (size_t)m->config.limits.max_nodes * sizeof *m->voter.stays);
    for (int k = 0; k < message->n_numbers; k++)
        m->voter.stays[message->numbers[k]] = true;
    freeze(m);
}

static void leader_counts_itself(wefti_member *m, wefti_message *flush_ok);

/* The host has reported what it holds: now the promise is answered. */
void wefti_change_inventory(wefti_member *m, const wefti_member_event *event) {
    if (!wefti_member_is_in(m) || !m->voter.frozen ||
        !wefti_ballot_is(event->ballot, m->voter.promised) || m->voter.n_answer)
        return;
    wefti_message flush_ok = {.kind = WEFTI_SAY_FLUSH_OK,
                              .ballot = m->voter.promised,
                              .steps = m->steps,
                              .has_value = m->voter.has_accepted,
                              .other = m->voter.accepted_as,
                              .value = &m->voter.accepted,
                              .n_entries = event->n_entries,
                              .entries = event->entries};
    m->voter.n_answer = wefti_member_encode(m, &flush_ok, m->voter.answer,
                                            m->out.most_bytes);
    m->voter.has_answered = true;
    if (m->voter.n_answer == 0)
        m->facts.faults++;
    else if (m->voter.promised.leader != m->number)
        send_flush_ok(m, m->view.nodes[m->voter.promised.leader].id);
    else
        leader_counts_itself(m, &flush_ok);
}

static void accept(wefti_member *m, wefti_ballot ballot, const wefti_view *value) {
    if (!wefti_ballot_is(ballot, m->voter.promised)) {
        promise(m, ballot); /* without its FLUSH: no inventory, but bound by it */
        freeze(m);
    }
    m->due.progress_us = m->now_us;
    m->voter.has_accepted = true;
    m->voter.accepted_as = ballot;
    if (ballot.leader != m->number) m->voter.given = ballot;
    wefti_view_copy(&m->config.limits, value, &m->voter.accepted);
    record(m); /* of what it accepted */
}

static void take_view(wefti_member *m, wefti_member_node *peer,
                      const wefti_message *message) {
    if (!may_answer(m, peer, message) || !is_next(m, message->value)) return;
    accept(m, message->ballot, message->value);
    wefti_message ok = {.kind = WEFTI_SAY_VIEW_OK, .ballot = message->ballot};
    wefti_member_say(m, peer->id, &ok);
}

/* -- the leader's side -- */

static bool all_answered(const wefti_member *m) {
    for (int i = 0; i < m->view.n_nodes; i++)
        if (m->lead.asked[i] && !m->lead.answered[i]) return false;
    return true;
}

static int64_t answer_time(const wefti_member *m) {
    int doublings = m->lead.attempts < 3 ? m->lead.attempts : 3;
    return m->config.policy.answer_us << doublings;
}

/* Whether these members could decide, as far as this node knows: then no others can have
 * decided without one of them. */
bool wefti_change_outvotes(wefti_member *m, const bool *answered) {
    return has_quorum(m, answered, next_ballot(m));
}

static void decide(wefti_member *m) {
    m->decided.n_voters = 0;
    for (int i = 0; i < m->view.n_nodes; i++)
        if (m->lead.answered[i]) m->decided.voters[m->decided.n_voters++] = (uint16_t)i;
    m->decided.ballot = m->lead.ballot;
    wefti_member_action *first = wefti_member_act(m, WEFTI_DO_RECORD);
    wefti_message install = {.kind = WEFTI_SAY_INSTALL,
                             .ballot = m->decided.ballot,
                             .n_numbers = m->decided.n_voters,
                             .numbers = m->decided.voters,
                             .value = &m->lead.proposal};
    for (int i = 0; i < m->lead.proposal.n_nodes; i++)
        if (!wefti_node_is(m->lead.proposal.nodes[i].id, m->config.self))
            wefti_member_say(m, m->lead.proposal.nodes[i].id, &install);
    /* of a view without this node its record says no more than this */
    if (wefti_view_find(&m->lead.proposal, m->config.self) < 0)
        m->voter.given = m->decided.ballot;
    wefti_member_install(m, &m->lead.proposal);
    if (first) first->record = wefti_member_own_record(m);
}

/* Whether an answer is missing of a member against which there is evidence of these kinds. */
static bool lacks_answer(const wefti_member *m, wefti_evidence least,
                         wefti_evidence most) {
    for (int i = 0; i < m->view.n_nodes; i++) {
        const wefti_member_node *peer = peer_at(m, i);
        if (peer && m->lead.asked[i] && !m->lead.answered[i] &&
            peer->standing.evidence >= least && peer->standing.evidence <= most)
            return true;
    }
    return false;
}

/* A member that has not accepted what others have decided could not go on if these died before it
 * heard of it: all that may live are waited for, no longer than an answer should take. */
static bool count_accepted(wefti_member *m, bool is_late) {
    if (!is_late && lacks_answer(m, WEFTI_EVIDENCE_NONE, WEFTI_EVIDENCE_NONE))
        return false;
    bool decides = has_quorum(m, m->lead.answered, m->lead.ballot);
    if (decides) decide(m);
    return decides;
}

static void propose(wefti_member *m) {
    if (!m->lead.has_value && !wefti_cut_propose(m)) {
        m->facts.faults++; /* steps are further apart than the window */
        m->lead.phase = WEFTI_LEAD_IDLE;
        m->due.backoff_us = m->now_us + answer_time(m);
        return;
    }
    m->lead.phase = WEFTI_LEAD_PROPOSING;
    m->lead.deadline_us = m->now_us + answer_time(m);
    m->lead.again_us = m->now_us + m->config.policy.retry_us;
    memset(m->lead.answered, 0, (size_t)m->config.limits.max_nodes * sizeof(bool));
    accept(m, m->lead.ballot, &m->lead.proposal);
    m->lead.answered[m->number] = true;
    wefti_message view = {
        .kind = WEFTI_SAY_VIEW, .ballot = m->lead.ballot, .value = &m->lead.proposal};
    say_to_asked(m, &view);
    count_accepted(m, false);
}

/* One more answer to FLUSH. */
static void count_flush_ok(wefti_member *m, int number, const wefti_message *message) {
    if (!wefti_tally_add(m, number, message)) {
        m->facts.faults++;
        return;
    }
    if (message->has_value && is_next(m, message->value) &&
        (!m->lead.has_value || wefti_ballot_less(m->lead.value_ballot, message->other))) {
        m->lead.has_value = true;
        m->lead.value_ballot = message->other;
        wefti_view_copy(&m->config.limits, message->value, &m->lead.proposal);
    }
    m->lead.answered[number] = true;
    if (all_answered(m) ||
        (m->lead.has_value && has_quorum(m, m->lead.answered, m->lead.ballot)))
        propose(m);
}

static void leader_counts_itself(wefti_member *m, wefti_message *flush_ok) {
    if (m->lead.phase == WEFTI_LEAD_ASKING) count_flush_ok(m, m->number, flush_ok);
}

/* An answer that is missing weighs as much as this many refusals, of three missing ones a member
 * is left out. */
enum { REFUSALS = 4 };

static void count_unanswered(wefti_member *m, wefti_member_node *peer, int n,
                             bool is_silent) {
    peer->unanswered += n;
    if (peer->unanswered >= 3 * REFUSALS || is_silent)
        wefti_watch_suspect(m, peer, WEFTI_EVIDENCE_MUTE);
}

static void back_off(wefti_member *m, wefti_member_node *peer, wefti_ballot other) {
    wefti_member_see(m, other);
    count_unanswered(m, peer, 1, false);
    m->lead.phase = WEFTI_LEAD_IDLE;
    int64_t least = m->config.policy.retry_us;
    m->due.backoff_us = m->now_us + least +
                        (int64_t)(wefti_member_draw(m) % (uint64_t)(4 * least));
}

static void take_flush_ok(wefti_member *m, wefti_member_node *peer,
                          const wefti_message *message) {
    if (m->lead.phase != WEFTI_LEAD_ASKING ||
        !wefti_ballot_is(message->ballot, m->lead.ballot) ||
        !m->lead.asked[peer->number] || m->lead.answered[peer->number])
        return;
    peer->has_told = true;
    if (message->steps.finished > peer->steps.finished)
        peer->steps.finished = message->steps.finished;
    if (message->refused)
        back_off(m, peer, message->other);
    else
        count_flush_ok(m, peer->number, message);
}

static void take_view_ok(wefti_member *m, wefti_member_node *peer,
                         const wefti_message *message) {
    if (m->lead.phase != WEFTI_LEAD_PROPOSING ||
        !wefti_ballot_is(message->ballot, m->lead.ballot))
        return;
    if (!message->refused) m->lead.answered[peer->number] = true;
    if (!count_accepted(m, message->refused) && message->refused)
        back_off(m, peer, message->other);
}

/* Asks all members that are not suspected; returns whether they would be a quorum. */
static bool choose_asked(wefti_member *m, wefti_ballot ballot) {
    for (int i = 0; i < m->view.n_nodes; i++) {
        const wefti_member_node *peer = peer_at(m, i);
        m->lead.asked[i] = !peer || peer->standing.evidence == WEFTI_EVIDENCE_NONE;
    }
    return has_quorum(m, m->lead.asked, ballot);
}

static void pause_without_quorum(wefti_member *m) {
    if (m->due.paused_us == 0) m->due.paused_us = m->now_us;
    m->state = WEFTI_MEMBER_PAUSED;
    m->due.backoff_us = m->now_us + 2 * m->config.policy.retry_us;
    for (int i = 0; i < m->view.n_nodes; i++) { /* mute and slow ones are asked again */
        wefti_member_node *peer = peer_at(m, i);
        wefti_evidence was = peer ? peer->standing.evidence : WEFTI_EVIDENCE_NONE;
        if (was != WEFTI_EVIDENCE_MUTE && was != WEFTI_EVIDENCE_PATIENCE) continue;
        peer->standing.evidence = WEFTI_EVIDENCE_NONE;
        peer->led_us = peer->behind_us = peer->unanswered = 0;
    }
    if (m->now_us - m->due.paused_us >= m->config.policy.pause_us)
        wefti_member_leave(m, WEFTI_OUT_NO_QUORUM);
}

/* Half of the members can be asked: the witness's vote would be enough. A vote refused to
 * this half stays refused, because the vote of a view never moves from one half to the
 * other. */
static void ask_witness(wefti_member *m, wefti_ballot ballot) {
    if (m->config.policy.tie != WEFTI_TIE_WITNESS) return;
    wefti_quorum_question q = question(m, m->lead.asked, ballot);
    uint64_t claim = wefti_quorum_claim(&q);
    if (!wefti_quorum_ties(&q) || claim == m->witness.refused) return;
    bool waits = claim == m->witness.asked &&
                 m->now_us - m->witness.asked_us < m->config.policy.vote_us;
    wefti_member_action *a = waits ? NULL : wefti_member_act(m, WEFTI_DO_ASK);
    if (!a) return;
    a->vote = (wefti_vote){m->config.run, m->view.chain, m->view.number, claim};
    m->witness.asked = claim;
    m->witness.asked_us = m->now_us;
}

/* The witness has answered. An answer about another view, or to a claim that this half no
 * longer makes, is ignored. */
void wefti_change_vote(wefti_member *m, const wefti_member_event *event) {
    const wefti_vote *v = &event->vote;
    if (!wefti_member_is_in(m) || v->run != m->config.run || v->view != m->view.number ||
        v->chain != m->view.chain || v->claim == 0 || v->claim != m->witness.asked)
        return;
    if (event->given) {
        m->witness.vote = v->claim;
        m->due.backoff_us = m->now_us; /* the ballot begins at once */
    } else {
        m->witness.refused = v->claim;
    }
}

static void say_flush(wefti_member *m) {
    wefti_message flush = {
        .kind = WEFTI_SAY_FLUSH, .ballot = m->lead.ballot, .numbers = m->room.numbers};
    for (int i = 0; i < m->view.n_nodes; i++)
        if (m->lead.asked[i]) m->room.numbers[flush.n_numbers++] = (uint16_t)i;
    say_to_asked(m, &flush);
    m->lead.again_us = m->now_us + m->config.policy.retry_us;
}

static void start_ballot(wefti_member *m) {
    wefti_ballot ballot = next_ballot(m);
    if (!choose_asked(m, ballot)) {
        ask_witness(m, ballot);
        pause_without_quorum(m);
        return;
    }
    m->due.paused_us = 0;
    m->lead.phase = WEFTI_LEAD_ASKING;
    m->lead.ballot = ballot;
    m->lead.has_value = false;
    m->lead.deadline_us = m->now_us + answer_time(m);
    memset(m->lead.answered, 0, (size_t)m->config.limits.max_nodes * sizeof(bool));
    wefti_tally_reset(m);
    promise(m, ballot);
    memcpy(m->voter.stays, m->lead.asked,
           (size_t)m->view.n_nodes * sizeof *m->voter.stays);
    say_flush(m);
    freeze(m);
}

/* -- actions that are due -- */

/* The ballot lacks answers for too long: a member that is also silent otherwise, or has not
 * answered three times, is left out. */
static void give_up_ballot(wefti_member *m) {
    for (int i = 0; i < m->view.n_nodes; i++) {
        wefti_member_node *peer = peer_at(m, i);
        if (!peer || !m->lead.asked[i] || m->lead.answered[i]) continue;
        bool is_silent = m->now_us - peer->heard_us > wefti_watch_limit(m, peer) / 2;
        count_unanswered(m, peer, REFUSALS, is_silent);
    }
    m->lead.attempts++;
    m->lead.phase = WEFTI_LEAD_IDLE;
    m->due.backoff_us = m->now_us;
}

static void pump_lead(wefti_member *m) {
    int64_t sent_us = m->lead.deadline_us - answer_time(m);
    bool is_late = m->now_us - sent_us >= m->config.policy.answer_us / 2;
    if (m->lead.phase == WEFTI_LEAD_PROPOSING) {
        if (count_accepted(m, is_late)) return;
    } else if (lacks_answer(m, WEFTI_EVIDENCE_DEAD, WEFTI_EVIDENCE_RECORD)) {
        m->lead.phase = WEFTI_LEAD_IDLE; /* again, with the living */
        return;
    }
    if (m->now_us >= m->lead.deadline_us) {
        give_up_ballot(m);
        return;
    }
    if (m->now_us >= m->lead.again_us) {
        wefti_message view = {
            .kind = WEFTI_SAY_VIEW, .ballot = m->lead.ballot, .value = &m->lead.proposal};
        if (m->lead.phase == WEFTI_LEAD_ASKING)
            say_flush(m);
        else
            say_to_asked(m, &view);
        m->lead.again_us = m->now_us + m->config.policy.retry_us;
    }
    wefti_member_wake_by(m, m->lead.again_us);
    wefti_member_wake_by(m, m->lead.deadline_us);
}

/* How many members would lead before this one. */
static int position(const wefti_member *m) {
    int n = 0;
    for (int i = 0; i < m->view.n_nodes; i++) {
        const wefti_member_node *peer = peer_at(m, i);
        n += peer && i < m->number && peer->standing.evidence == WEFTI_EVIDENCE_NONE;
    }
    return n;
}

typedef enum reason { NO_REASON, TO_JOIN, TO_DEPART } reason;

/* may_come: a joiner is ready with a step that this node has not finished yet. */
static reason find_reason(wefti_member *m, bool *may_come) {
    reason found = m->voter.frozen ? TO_DEPART : NO_REASON;
    *may_come = false;
    for (int k = 0; k < m->max_peers && found != TO_DEPART; k++) {
        wefti_member_node *peer = &m->peers[k];
        if (!peer->used) continue;
        if (peer->number >= 0 && peer->standing.evidence != WEFTI_EVIDENCE_NONE)
            found = TO_DEPART;
        else if (peer->number < 0 && found == NO_REASON && wefti_cut_may_enter(m, peer))
            found = TO_JOIN;
        *may_come = *may_come || (peer->number < 0 && peer->is_ready);
    }
    return found;
}

void wefti_change_pump(wefti_member *m) {
    if (m->lead.phase != WEFTI_LEAD_IDLE) pump_lead(m);
    if (m->lead.phase != WEFTI_LEAD_IDLE) return;
    bool may_come;
    reason why = find_reason(m, &may_come);
    if (why == NO_REASON) {
        if (!may_come) m->due.reason_us = 0;
        m->due.paused_us = 0;
        m->state = WEFTI_MEMBER_IN;
        return;
    }
    const wefti_member_policy *policy = &m->config.policy;
    if (m->due.reason_us == 0) m->due.reason_us = m->now_us;
    int64_t due = m->voter.frozen && m->due.progress_us > m->due.reason_us
                      ? m->due.progress_us
                      : m->due.reason_us;
    const wefti_member_node *leader = m->voter.frozen
                                          ? peer_at(m, m->voter.promised.leader)
                                          : NULL;
    bool by_another = leader && !is_dead(leader);
    due += policy->takeover_us * (position(m) + by_another);
    if (why == TO_JOIN) due += policy->gather_us;
    if (due < m->due.backoff_us) due = m->due.backoff_us;
    if (m->now_us >= due)
        start_ballot(m);
    else
        wefti_member_wake_by(m, due);
    /* after a new pause; a node whose turn comes later would otherwise be woken all the
     * time */
    if (m->state == WEFTI_MEMBER_PAUSED && m->due.backoff_us > m->now_us)
        wefti_member_wake_by(m, m->due.backoff_us);
    if (m->lead.phase != WEFTI_LEAD_IDLE) wefti_member_wake_by(m, m->lead.again_us);
}

void wefti_change_message(wefti_member *m, wefti_member_node *peer,
                          const wefti_message *message) {
    switch (message->kind) {
    case WEFTI_SAY_FLUSH: take_flush(m, peer, message); break;
    case WEFTI_SAY_FLUSH_OK: take_flush_ok(m, peer, message); break;
    case WEFTI_SAY_VIEW: take_view(m, peer, message); break;
    case WEFTI_SAY_VIEW_OK: take_view_ok(m, peer, message); break;
    default: break;
    }
}
