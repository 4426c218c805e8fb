/* SPDX-License-Identifier: MIT */
/* Joining, on both sides.
 *
 *     joiner                                   members
 *     HELLO(hashes)                 --->       WELCOME(view, donors), or BYE
 *     SNAP_GET(which)               --->  d    SNAP_OFFER(step, pieces, checksum)
 *     SNAP_GET(step, piece k)       --->  d    SNAP_PIECE    (k goes to donor k mod donors)
 *     REPLAY_GET(next step)         --->  d    REPLAY        (until there is nothing newer)
 *     READY(step, checksum)         --->       a view with the joiner in it, INSTALL
 *     REPLAY_GET                    --->  d    REPLAY        (up to its first step)
 *
 * If a donor does not answer, the next one is asked. Pieces and replays are passed to the
 * host as they arrive; the host stores and applies them, and feeds WEFTI_EVENT_STEPS. A
 * view's first step can be later than the step with which a joiner was ready; the joiner
 * begins when it has caught up. */
#include "member/memberstate.h"

#include <string.h>

static void to_host(wefti_member *m, const wefti_message *message) {
    wefti_member_action *a = wefti_member_act(m, WEFTI_DO_HOST);
    if (!a) return;
    a->peer = message->from;
    a->message = message;
}

/* -- a member's side -- */

static bool same_run(const wefti_member *m, const wefti_message *hello) {
    return hello->config_hash == m->config.config_hash &&
           hello->data_hash == m->config.data_hash;
}

/* Donors: members that train, beginning at a random one. */
static void say_welcome(wefti_member *m, wefti_node_id to) {
    wefti_message welcome = {
        .kind = WEFTI_SAY_WELCOME, .value = &m->view, .numbers = m->room.numbers};
    int n = m->view.n_nodes, first = (int)(wefti_member_draw(m) % (uint64_t)n);
    for (int k = 0; k < n && welcome.n_numbers < m->config.policy.donors; k++) {
        int i = (first + k) % n;
        const wefti_member_node *peer = i == m->number ? NULL
                                                       : &m->peers[m->peer_of_number[i]];
        if (m->view.nodes[i].witness) continue;
        if (peer && peer->standing.evidence != WEFTI_EVIDENCE_NONE) continue;
        m->room.numbers[welcome.n_numbers++] = (uint16_t)i;
    }
    wefti_member_say(m, to, &welcome);
}

static void take_hello(wefti_member *m, const wefti_message *hello) {
    wefti_member_node *peer = NULL;
    if (!same_run(m, hello)) {
        wefti_member_dismiss(m, hello->from, WEFTI_BYE_OTHER_RUN);
        return;
    }
    if (m->view.n_nodes < m->config.limits.max_nodes)
        peer = wefti_member_add_peer(m, hello->from);
    if (!peer) {
        wefti_member_dismiss(m, hello->from, WEFTI_BYE_FULL);
        return;
    }
    peer->witness = hello->witness;
    wefti_watch_heard(m, peer, false);
    say_welcome(m, hello->from);
}

static void take_ready(wefti_member *m, wefti_member_node *peer,
                       const wefti_message *message) {
    if (!peer || peer->number >= 0) return;
    peer->is_ready = true;
    peer->ready_us = m->now_us;
    peer->ready_step = message->step;
    peer->ready_checksum = message->checksum;
}

/* The host keeps steps that arrive out of order, within a window. A frozen node has already
 * reported how far it is. */
static bool is_wanted(const wefti_member *m, int64_t step) {
    if (m->frozen) return false;
    if (wefti_member_is_in(m) && step >= m->view.nodes[m->number].first_step)
        return false;
    return step > m->steps.finished &&
           step <= m->steps.finished + 2 * WEFTI_REPLAY_WINDOW;
}

static void take_as_member(wefti_member *m, wefti_member_node *peer,
                           const wefti_message *message) {
    if (peer) wefti_watch_heard(m, peer, false);
    switch (message->kind) {
    case WEFTI_SAY_HELLO:
        if (!peer || peer->number < 0) take_hello(m, message);
        break;
    case WEFTI_SAY_READY: take_ready(m, peer, message); break;
    case WEFTI_SAY_RESEND_GET:
    case WEFTI_SAY_RESEND:
    case WEFTI_SAY_SNAP_GET:
    case WEFTI_SAY_REPLAY_GET:
        if (peer) to_host(m, message);
        break;
    case WEFTI_SAY_REPLAY:
        if (peer && is_wanted(m, message->step)) to_host(m, message);
        break;
    default: break;
    }
}

/* -- a joiner's side -- */

/* Whether this node needs nothing from the others before it is a member. */
static bool comes_bare(const wefti_member *m) {
    return m->config.witness || m->config.policy.handover;
}

static bool is_catching_up(const wefti_member *m) {
    if (comes_bare(m)) return false;
    if (m->state == WEFTI_MEMBER_CATCHING) return true;
    return wefti_member_is_in(m) &&
           m->steps.finished < m->view.nodes[m->number].first_step - 1;
}

static void take_welcome(wefti_member *m, const wefti_message *message) {
    wefti_joining *j = &m->joining;
    if (m->state != WEFTI_MEMBER_JOINING) return;
    j->n_donors = 0;
    for (int k = 0; k < message->n_numbers; k++) {
        if (message->numbers[k] >= message->value->n_nodes) continue;
        j->offers[j->n_donors] = false;
        j->donors[j->n_donors++] = message->value->nodes[message->numbers[k]].id;
    }
    if (j->n_donors == 0) return;
    for (int i = 0; i < message->value->n_nodes; i++)
        wefti_member_add_peer(m, message->value->nodes[i].id);
    m->state = comes_bare(m) || j->is_learnt ? WEFTI_MEMBER_CATCHING
                                             : WEFTI_MEMBER_LEARNING;
    j->again_us = m->now_us;
    j->has_offer = false;
    j->greeted_us = m->now_us - m->config.policy.join_us; /* due now */
    j->advanced_us = m->now_us;
    to_host(m, message);
}

static int find_donor(const wefti_joining *j, wefti_node_id id) {
    for (int k = 0; k < j->n_donors; k++)
        if (wefti_node_is(j->donors[k], id)) return k;
    return -1;
}

static void take_offer(wefti_member *m, const wefti_message *message) {
    wefti_joining *j = &m->joining;
    int donor = find_donor(j, message->from);
    if (m->state != WEFTI_MEMBER_LEARNING || donor < 0 || message->snap_piece == 0)
        return;
    if (!j->has_offer) {
        j->has_offer = true;
        j->snap_step = message->step;
        j->snap_checksum = message->checksum;
        j->n_pieces = message->snap_piece;
        j->n_stored = j->stored = 0;
    }
    j->offers[donor] = message->step == j->snap_step &&
                       message->checksum == j->snap_checksum &&
                       message->snap_piece == j->n_pieces;
    j->again_us = m->now_us;
}

/* Asks for all pieces of the window that are missing. */
static void ask_pieces(wefti_member *m) {
    wefti_joining *j = &m->joining;
    for (uint32_t k = 0; k < WEFTI_SNAP_WINDOW && j->n_stored + k < j->n_pieces; k++) {
        if (j->stored >> k & 1) continue;
        int donor = -1;
        for (int tries = 0; tries < j->n_donors && donor < 0; tries++) {
            int candidate = (int)((j->n_stored + k + (uint32_t)(j->turn + tries)) %
                                  (uint32_t)j->n_donors);
            if (j->offers[candidate]) donor = candidate;
        }
        if (donor < 0) return;
        wefti_message get = {.kind = WEFTI_SAY_SNAP_GET,
                             .step = j->snap_step,
                             .snap_piece = j->n_stored + k};
        wefti_member_say(m, j->donors[donor], &get);
    }
}

static void take_piece(wefti_member *m, const wefti_message *message) {
    wefti_joining *j = &m->joining;
    uint32_t k = message->snap_piece - j->n_stored;
    if (m->state != WEFTI_MEMBER_LEARNING || !j->has_offer ||
        message->step != j->snap_step || message->snap_piece < j->n_stored ||
        k >= WEFTI_SNAP_WINDOW || message->snap_piece >= j->n_pieces ||
        (j->stored >> k & 1))
        return;
    j->stored |= 1u << k;
    j->advanced_us = m->now_us;
    to_host(m, message);
    bool was_last_of_window = (j->stored & 0xffffu) == 0xffffu;
    while (j->stored & 1) {
        j->stored >>= 1;
        j->n_stored++;
    }
    if (j->n_stored == j->n_pieces) {
        j->is_learnt = true;
        m->state = WEFTI_MEMBER_CATCHING;
        j->again_us = m->now_us;
    } else if (was_last_of_window || j->stored == 0) {
        j->again_us = m->now_us;
    }
}

static void take_bye(wefti_member *m, const wefti_message *message) {
    switch (message->reason) {
    case WEFTI_BYE_OTHER_RUN:
    case WEFTI_BYE_CHECKSUM: wefti_member_leave(m, WEFTI_OUT_REFUSED); break;
    case WEFTI_BYE_EVICTED: wefti_member_leave(m, WEFTI_OUT_EVICTED); break;
    default: break; /* full, or too early: the joiner tries again */
    }
}

static void take_as_joiner(wefti_member *m, wefti_member_node *peer,
                           const wefti_message *message) {
    if (peer) wefti_watch_heard(m, peer, false);
    switch (message->kind) {
    case WEFTI_SAY_WELCOME: take_welcome(m, message); break;
    case WEFTI_SAY_SNAP_OFFER: take_offer(m, message); break;
    case WEFTI_SAY_SNAP_PIECE: take_piece(m, message); break;
    case WEFTI_SAY_REPLAY:
        if (m->state == WEFTI_MEMBER_CATCHING && is_wanted(m, message->step))
            to_host(m, message);
        break;
    case WEFTI_SAY_BYE: take_bye(m, message); break;
    default: break;
    }
}

void wefti_join_message(wefti_member *m, wefti_member_node *peer,
                        const wefti_message *message) {
    if (wefti_member_is_in(m))
        take_as_member(m, peer, message);
    else
        take_as_joiner(m, peer, message);
}

/* -- actions that are due -- */

/* The next donor: one of those named in WELCOME, or any member once this node is one. */
static wefti_node_id next_donor(wefti_member *m) {
    wefti_joining *j = &m->joining;
    uint32_t turn = (uint32_t)j->turn++;
    if (!wefti_member_is_in(m)) return j->donors[turn % (uint32_t)j->n_donors];
    int i = (int)(turn % (uint32_t)m->view.n_nodes);
    return m->view.nodes[i].id;
}

/* Asks for a window of steps from `step` on. */
static void ask_replay(wefti_member *m, int64_t step) {
    wefti_node_id donor = next_donor(m);
    wefti_message get = {.kind = WEFTI_SAY_REPLAY_GET, .step = step};
    m->joining.asked_step = step + WEFTI_REPLAY_WINDOW - 1;
    if (!wefti_node_is(donor, m->config.self)) wefti_member_say(m, donor, &get);
}

static void say_ready(wefti_member *m) {
    wefti_joining *j = &m->joining;
    int64_t t = m->steps.finished;
    wefti_message ready = {.kind = WEFTI_SAY_READY, .step = t};
    if (t >= 0) ready.checksum = m->checksums[t % WEFTI_CHECKSUMS];
    wefti_member_say_all(m, &ready, NULL);
    j->ready_us = m->now_us;
}

/* A slow link is not loaded with the same request again while the answer is on its way. */
static int64_t replay_patience(wefti_member *m) {
    int doublings = m->joining.unanswered < 4 ? m->joining.unanswered++ : 4;
    return m->config.policy.retry_us << doublings;
}

/* The host has advanced: the next steps are requested before it has used up the last ones. */
void wefti_join_steps(wefti_member *m) {
    m->joining.advanced_us = m->now_us;
    m->joining.unanswered = 0;
    if (!is_catching_up(m)) return;
    if (m->joining.asked_step - m->steps.finished > WEFTI_REPLAY_WINDOW) return;
    ask_replay(m, m->joining.asked_step > m->steps.finished ? m->joining.asked_step + 1
                                                            : m->steps.finished + 1);
    m->joining.again_us = m->now_us + m->config.policy.retry_us;
}

static wefti_message hello_of(const wefti_member *m) {
    return (wefti_message){.kind = WEFTI_SAY_HELLO,
                           .config_hash = m->config.config_hash,
                           .data_hash = m->config.data_hash,
                           .witness = m->config.witness};
}

/* Every member has to know which node asks it for pieces, and which node is ready. */
static void say_hello_to_all(wefti_member *m) {
    wefti_message hello = hello_of(m);
    wefti_member_say_all(m, &hello, NULL);
    m->joining.greeted_us = m->now_us;
}

static void say_hello(wefti_member *m) {
    wefti_joining *j = &m->joining;
    wefti_message hello = hello_of(m);
    for (int tries = 0; tries < m->max_peers; tries++) {
        const wefti_member_node *peer =
            &m->peers[(unsigned)j->turn++ % (unsigned)m->max_peers];
        if (!peer->used || !peer->connected) continue;
        wefti_member_say(m, peer->id, &hello);
        return;
    }
}

static void learn(wefti_member *m) {
    wefti_joining *j = &m->joining;
    j->turn++;
    for (int k = 0; k < j->n_donors; k++) {
        if (j->offers[k]) continue;
        wefti_message which = {.kind = WEFTI_SAY_SNAP_GET,
                               .step = j->has_offer ? j->snap_step : -1,
                               .snap_piece = WEFTI_SNAP_WHICH};
        wefti_member_say(m, j->donors[k], &which);
    }
    if (j->has_offer) ask_pieces(m);
}

static void pump_joiner(wefti_member *m) {
    wefti_joining *j = &m->joining;
    int64_t retry = m->config.policy.retry_us;
    bool is_slow = m->state == WEFTI_MEMBER_JOINING || m->state == WEFTI_MEMBER_LEARNING;
    if (m->state != WEFTI_MEMBER_JOINING && m->now_us - j->greeted_us >= 10 * retry)
        say_hello_to_all(m);
    if (m->now_us >= j->again_us) {
        if (m->state == WEFTI_MEMBER_JOINING) say_hello(m);
        if (m->state == WEFTI_MEMBER_LEARNING) learn(m);
        bool replays = m->state == WEFTI_MEMBER_CATCHING && !comes_bare(m);
        if (replays) ask_replay(m, m->steps.finished + 1);
        j->again_us = m->now_us + (is_slow   ? 5 * retry
                                   : replays ? replay_patience(m)
                                             : retry);
    }
    if (m->state == WEFTI_MEMBER_CATCHING && m->now_us - j->ready_us >= retry)
        say_ready(m);
    wefti_member_wake_by(m, j->again_us);
    wefti_member_wake_by(m, j->ready_us + retry > m->now_us ? j->ready_us + retry
                                                            : j->again_us);
}

/* If no known node has sent anything for long, this node starts again with what it has
 * learnt. If no node can replay its next step any more, or none answers, it starts again
 * from nothing. */
static void start_over_if_stuck(wefti_member *m) {
    wefti_joining *j = &m->joining;
    int64_t limit = 3 * m->config.policy.silence_us;
    if (m->state == WEFTI_MEMBER_JOINING) return;
    bool is_alone = true;
    for (int k = 0; k < m->max_peers && is_alone; k++)
        is_alone = !m->peers[k].used || m->now_us - m->peers[k].heard_us >= limit;
    bool is_stuck = !comes_bare(m) && m->now_us - j->advanced_us >= limit;
    if (!is_alone && !is_stuck) return;
    if (is_stuck) j->is_learnt = false;
    j->ready_us = 0;
    m->state = WEFTI_MEMBER_JOINING;
}

/* A member whose missing steps can not be replayed (the nodes that did them have died, the
 * others have begun after them) leaves, so that the others need not wait, and starts again. */
static bool leave_if_stuck(wefti_member *m) {
    if (m->frozen || m->state != WEFTI_MEMBER_IN || comes_bare(m)) return false;
    int64_t patience_us = m->config.policy.patience_us;
    if (patience_us == 0 || m->now_us - m->joining.advanced_us < 2 * patience_us)
        return false;
    wefti_member_say_leave(m);
    wefti_member_leave(m, WEFTI_OUT_EVICTED);
    return true;
}

void wefti_join_pump(wefti_member *m) {
    if (!wefti_member_is_in(m)) {
        if (m->now_us - m->joining.since_us >= m->config.policy.join_us) {
            wefti_member_leave(m, WEFTI_OUT_NO_ANSWER);
            return;
        }
        start_over_if_stuck(m);
        pump_joiner(m);
    } else if (is_catching_up(m) && !leave_if_stuck(m)) {
        if (m->now_us >= m->joining.again_us) {
            ask_replay(m, m->steps.finished + 1);
            m->joining.again_us = m->now_us + replay_patience(m);
        }
        wefti_member_wake_by(m, m->joining.again_us);
    }
}
