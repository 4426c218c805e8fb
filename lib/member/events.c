/* SPDX-License-Identifier: MIT */
/* Events in, actions out: each event is passed to the part that it concerns (join.c,
 * change.c, watch.c, ask.c), then each part does what is due. */
#include "base/assert.h"
#include "member/memberstate.h"

#include <string.h>

static void say_install(wefti_member *m, wefti_member_node *peer) {
    if (m->now_us - peer->installed_us < m->config.policy.retry_us) return;
    peer->installed_us = m->now_us;
    wefti_message install = {.kind = WEFTI_SAY_INSTALL,
                             .ballot = m->decided.ballot,
                             .n_numbers = m->decided.n_voters,
                             .numbers = m->decided.voters,
                             .value = &m->view};
    wefti_member_say(m, peer->id, &install);
}

/* -- whom to believe that the others have gone on -- */

/* Whether members that could decide are still in this view, as far as is heard: this node, and
 * all that are not suspected and do not say that they have gone on. Then a view that was
 * decided has the vote of one of them, and a second witness will come. */
static bool rest_could_decide(wefti_member *m) {
    for (int i = 0; i < m->view.n_nodes; i++) {
        const wefti_member_node *peer = i == m->number ? NULL
                                                       : &m->peers[m->peer_of_number[i]];
        m->others[i] = !peer || (!peer->says_later &&
                                 peer->standing.evidence == WEFTI_EVIDENCE_NONE);
    }
    return wefti_change_outvotes(m, m->others);
}

/* Whether to believe that this next view is decided (chain), or that the others are in a later one
 * without this node (0): two members say so; or one does, no other that is heard says anything
 * else, and the rest could decide nothing. */
static bool is_believed(wefti_member *m, uint64_t chain) {
    int n = 0, n_other = 0;
    for (int k = 0; k < m->max_peers; k++) {
        const wefti_member_node *peer = &m->peers[k];
        if (!peer->used || peer->number < 0 || !peer->says_later) continue;
        if (chain ? peer->says_chain == chain : peer->says_out)
            n++;
        else
            n_other += peer->standing.evidence == WEFTI_EVIDENCE_NONE;
    }
    return n >= 2 || (n_other == 0 && !rest_could_decide(m));
}

/* The leader of a ballot in which this node has accepted the view says that it is decided, by
 * votes that could decide. */
static bool is_own_ballot(wefti_member *m, const wefti_member_node *peer,
                          const wefti_message *install) {
    if (!m->voter.has_accepted || m->voter.accepted.chain != install->value->chain ||
        !wefti_ballot_is(m->voter.accepted_as, install->ballot) || !peer ||
        peer->number != install->ballot.leader)
        return false;
    memset(m->others, 0, (size_t)m->view.n_nodes * sizeof *m->others);
    for (int k = 0; k < install->n_numbers; k++)
        if (install->numbers[k] < m->view.n_nodes) m->others[install->numbers[k]] = true;
    return m->others[peer->number] && wefti_change_outvotes(m, m->others);
}

static void keep_votes(wefti_member *m, const wefti_message *install) {
    m->decided.ballot = install->ballot;
    m->decided.n_voters = install->n_numbers;
    memcpy(m->decided.voters, install->numbers,
           (size_t)m->decided.n_voters * sizeof *m->decided.voters);
}

/* What this node has accepted may become believable by what is known since a member reported
 * that it is decided, or by the record of one that had installed it. */
static void believe_accepted(wefti_member *m) {
    for (int k = 0; k < m->max_peers; k++) {
        const wefti_member_node *peer = &m->peers[k];
        if (!peer->used || peer->number < 0 || !peer->says_later) continue;
        if (peer->says_chain != m->voter.accepted.chain ||
            !is_believed(m, m->voter.accepted.chain))
            continue;
        m->decided.ballot = m->voter.accepted_as;
        m->decided.n_voters = 0;
        wefti_member_install(m, &m->voter.accepted);
        return;
    }
}

static void leave_behind(wefti_member *m) {
    if (is_believed(m, 0)) wefti_member_leave(m, WEFTI_OUT_EVICTED);
}

/* Others say for ten silences that they have gone on, no two the same, and the rest could decide
 * nothing: one of them may lie, but not all. This node comes back. */
static void leave_the_contrary(wefti_member *m) {
    bool later = false;
    for (int k = 0; k < m->max_peers; k++)
        later = later ||
                (m->peers[k].used && m->peers[k].number >= 0 && m->peers[k].says_later);
    if (!later || rest_could_decide(m)) {
        m->due.behind_us = 0;
        return;
    }
    if (m->due.behind_us == 0) m->due.behind_us = m->now_us;
    if (m->now_us - m->due.behind_us >= 10 * m->config.policy.silence_us)
        wefti_member_leave(m, WEFTI_OUT_EVICTED);
}

/* A decided view: a member takes the next one, a joiner any one that contains it. No member can
 * miss two views, because each needs its answer to the one before: who hears of the second
 * next one is not in it. */
static void take_install(wefti_member *m, wefti_member_node *peer,
                         const wefti_message *message) {
    const wefti_view *value = message->value;
    bool is_in = wefti_member_is_in(m);
    if (is_in && value->number <= m->view.number) return;
    bool is_next = value->number == m->view.number + 1;
    if (is_in && is_next && value->parent != m->view.chain) return;
    if (is_in && peer && peer->number >= 0) {
        peer->says_later = true;
        peer->says_chain = is_next ? value->chain : 0;
        peer->says_out = !is_next;
    }
    if (is_in && !is_next) {
        leave_behind(m);
    } else if (is_in ? is_own_ballot(m, peer, message) || is_believed(m, value->chain)
                     : wefti_view_find(value, m->config.self) >= 0) {
        keep_votes(m, message);
        wefti_member_install(m, value);
    }
}

/* A member, or who has come after this node was left out, says that this node is no member. */
static void take_bye(wefti_member *m, wefti_member_node *peer,
                     const wefti_message *message) {
    if (message->reason != WEFTI_BYE_EVICTED || message->view <= m->view.number) return;
    if (peer && peer->number >= 0) {
        peer->says_later = peer->says_out = true;
        peer->says_chain = message->view == m->view.number + 1 ? message->chain : 0;
    }
    leave_behind(m);
}

/* To a node that is no member: which view has followed its own. Those that it hears may be in
 * different views, and all of them name the same next one. */
static void say_out(wefti_member *m, const wefti_message *message) {
    wefti_message bye = {.kind = WEFTI_SAY_BYE, .reason = WEFTI_BYE_EVICTED};
    int64_t its = message->view;
    bool is_past = its > 0 && its < m->view.number &&
                   its > m->view.number - WEFTI_PAST_VIEWS &&
                   m->past[its % WEFTI_PAST_VIEWS] == message->chain;
    if (is_past) {
        bye.view = its + 1;
        bye.chain = m->past[bye.view % WEFTI_PAST_VIEWS];
    }
    wefti_member_say(m, message->from, &bye);
}

/* A message of a node that is not a member here. */
static void take_foreign(wefti_member *m, const wefti_message *message) {
    wefti_member_node *peer = wefti_member_peer(m, message->from);
    if (message->kind == WEFTI_SAY_BYE) {
        bool other_part = m->config.policy.split && peer && peer->has_departed;
        if (!other_part) take_bye(m, peer, message);
        return;
    }
    if (message->view == 0 && !(peer && peer->has_departed)) {
        wefti_join_message(m, peer, message);
        return;
    }
    if (peer) wefti_watch_silence_ends(m, peer); /* it is remembered while it sends */
    if (message->view <= m->view.number && message->kind != WEFTI_SAY_LEAVE)
        say_out(m, message);
}

/* A message of a member of this view; the sender may have left this view, or not reached it
 * yet. */
static void take_member(wefti_member *m, wefti_member_node *peer,
                        const wefti_message *message) {
    wefti_watch_heard(m, peer, message->kind == WEFTI_SAY_ALIVE);
    bool is_here = message->view == m->view.number && message->chain == m->view.chain;
    switch (message->kind) {
    case WEFTI_SAY_PROBE_REQ:
    case WEFTI_SAY_PROBE_ACK:
    case WEFTI_SAY_LEAVE: wefti_watch_message(m, peer, message); return;
    case WEFTI_SAY_WELCOME:
    case WEFTI_SAY_READY:
    case WEFTI_SAY_HELLO: break;
    case WEFTI_SAY_BYE: take_bye(m, peer, message); return;
    case WEFTI_SAY_ALIVE:
    case WEFTI_SAY_SUSPECT:
        if (is_here) wefti_watch_message(m, peer, message);
        break;
    default:
        if (is_here) wefti_change_message(m, peer, message);
    }
    if (message->view < m->view.number) say_install(m, peer);
}

static void take_message(wefti_member *m, const wefti_member_event *event) {
    wefti_message *message = &m->message;
    if (wefti_message_decode(&m->config.limits, &m->room, event->bytes, event->n_bytes,
                             message) ||
        !wefti_node_is(message->from, event->peer)) {
        m->facts.refused_messages++;
        return;
    }
    if (message->run != m->config.run) {
        if (message->kind != WEFTI_SAY_BYE)
            wefti_member_dismiss(m, message->from, WEFTI_BYE_OTHER_RUN);
        return;
    }
    if (message->kind == WEFTI_SAY_INSTALL) {
        wefti_member_node *peer = wefti_member_peer(m, message->from);
        if (peer) wefti_watch_heard(m, peer, false);
        take_install(m, peer, message);
        return;
    }
    wefti_member_node *peer = wefti_member_peer(m, message->from);
    if (!wefti_member_is_in(m))
        wefti_join_message(m, peer, message);
    else if (peer && peer->number >= 0)
        take_member(m, peer, message);
    else
        take_foreign(m, message);
}

/* A connection has ended, or its host says that a node has. Who wanted to come in does not come:
 * another one may have its place by now. */
static void take_end(wefti_member *m, const wefti_member_event *event) {
    wefti_member_node *peer = wefti_member_peer(m, event->peer);
    if (!peer) return;
    peer->connected = false;
    if (peer->number < 0)
        peer->used = wefti_member_is_in(m) ? false : peer->used;
    else if (event->kind == WEFTI_EVENT_RECORD)
        wefti_watch_ended(m, event->peer, &event->record);
    else if (wefti_member_is_in(m))
        wefti_watch_suspect(m, peer, event->evidence);
}

static void take_data(wefti_member *m, const wefti_member_event *event) {
    wefti_member_node *peer = wefti_member_peer(m, event->peer);
    if (!peer) return;
    wefti_watch_heard(m, peer, false);
    int64_t finished = event->steps.begun - m->config.limits.window + 1;
    if (event->steps.begun > peer->steps.begun) peer->steps.begun = event->steps.begun;
    if (finished > peer->steps.finished) peer->steps.finished = finished;
}

/* A frozen node finishes a step of which it has everything. Once it has answered a ballot it says
 * so under the next view only: others that heard it now would leave that step out of what they
 * hold, and the leader, for which it is not finished, would cut it as one that nobody holds. */
static void take_steps(wefti_member *m, const wefti_member_steps *steps) {
    const wefti_member_steps former = m->steps;
    m->steps = *steps;
    bool takes_state = former.begun < 0; /* and has finished nothing itself */
    if (m->voter.has_answered && !takes_state && former.finished < steps->finished)
        m->steps.finished = former.finished;
}

static void take_leave(wefti_member *m) {
    wefti_member_say_leave(m);
    wefti_member_leave(m, WEFTI_OUT_LEFT);
}

/* The record first: what it says is all that this node will ever have voted. */
static void take_yield(wefti_member *m, const wefti_member_event *event) {
    if (!wefti_member_is_in(m)) return;
    m->voter.heir = event->peer;
    /* who stays may still decide what it has proposed */
    if (event->kind == WEFTI_EVENT_LEND && m->voter.has_accepted)
        m->voter.given = m->voter.accepted_as;
    wefti_member_action *a = wefti_member_act(m, WEFTI_DO_RECORD);
    if (a) a->record = wefti_member_own_record(m);
    if (event->kind == WEFTI_EVENT_YIELD) wefti_member_leave(m, WEFTI_OUT_EVICTED);
}

static void take(wefti_member *m, const wefti_member_event *event) {
    wefti_member_node *peer;
    switch (event->kind) {
    case WEFTI_EVENT_TICK: break;
    case WEFTI_EVENT_MESSAGE: take_message(m, event); break;
    case WEFTI_EVENT_CONNECTED:
        peer = wefti_member_peer(m, event->peer);
        /* a paused node may have been left out by a view all of whose members are unknown
         * to it */
        if (!peer && (!wefti_member_is_in(m) || m->state == WEFTI_MEMBER_PAUSED))
            peer = wefti_member_add_peer(m, event->peer);
        if (peer) {
            peer->connected = true;
            wefti_watch_heard(m, peer, false);
        }
        break;
    case WEFTI_EVENT_CLOSED:
    case WEFTI_EVENT_RECORD: take_end(m, event); break;
    case WEFTI_EVENT_DATA: take_data(m, event); break;
    case WEFTI_EVENT_STEPS:
        WEFTI_ASSERT(event->steps.begun >= event->steps.sent &&
                     event->steps.sent >= event->steps.finished);
        take_steps(m, &event->steps);
        break;
    case WEFTI_EVENT_INVENTORY: wefti_change_inventory(m, event); break;
    case WEFTI_EVENT_VOTE: wefti_change_vote(m, event); break;
    case WEFTI_EVENT_LEAVE: take_leave(m); break;
    case WEFTI_EVENT_YIELD:
    case WEFTI_EVENT_LEND: take_yield(m, event); break;
    }
}

static bool is_told(const wefti_member *m, const wefti_member_node *peer) {
    (void)m;
    if (peer->number < 0) return !peer->has_departed;
    return peer->standing.evidence < WEFTI_EVIDENCE_DEAD;
}

static void say_alive(wefti_member *m) {
    if (m->now_us >= m->out.next_alive_us) {
        wefti_message alive = {.kind = WEFTI_SAY_ALIVE, .steps = m->steps};
        wefti_member_say_all(m, &alive, is_told);
        m->out.next_alive_us = m->now_us + m->config.policy.alive_us;
    }
    wefti_member_wake_by(m, m->out.next_alive_us);
}

const wefti_member_actions *wefti_member_step(wefti_member *m,
                                              const wefti_member_event *event,
                                              int64_t now_us, uint64_t random) {
    m->out.actions.n = 0;
    m->out.n_bytes = 0;
    if (now_us > m->now_us) m->now_us = now_us;
    m->random = random;
    if (m->state == WEFTI_MEMBER_OUT) {
        m->out.actions.wake_us = INT64_MAX;
        return &m->out.actions;
    }
    wefti_watch_late(m);
    take(m, event);
    m->out.wake_us = m->now_us + m->config.policy.alive_us;
    if (m->state != WEFTI_MEMBER_OUT) say_alive(m);
    if (wefti_member_is_in(m) && m->voter.has_accepted) believe_accepted(m);
    if (wefti_member_is_in(m)) leave_the_contrary(m);
    if (wefti_member_is_in(m)) wefti_watch_pump(m);
    if (wefti_member_is_in(m)) wefti_change_pump(m);
    if (m->state != WEFTI_MEMBER_OUT) wefti_join_pump(m);
    m->out.actions.wake_us = m->state == WEFTI_MEMBER_OUT ? INT64_MAX : m->out.wake_us;
    return &m->out.actions;
}
