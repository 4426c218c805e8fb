/* SPDX-License-Identifier: MIT */
/* Events in, actions out: each event is passed to the part that it concerns (join.c,
 * change.c, watch.c, ask.c), then each part does what is due. */
#include "member/memberstate.h"

#include <string.h>

static void say_install(wefti_member *m, wefti_member_node *peer) {
    if (m->now_us - peer->installed_us < m->config.policy.retry_us) return;
    peer->installed_us = m->now_us;
    wefti_message install = {.kind = WEFTI_SAY_INSTALL, .value = &m->view};
    wefti_member_say(m, peer->id, &install);
}

/* A decided view: a member takes the next one, a joiner any one that contains it. */
static void take_install(wefti_member *m, const wefti_message *message) {
    const wefti_view *value = message->value;
    if (!wefti_member_is_in(m)) {
        if (wefti_view_find(value, m->config.self) < 0) return;
        if (m->joining.ready_us > 0 && m->steps.finished < value->first_step)
            wefti_member_install(m, value);
        else /* it has started again, and what it was ready with is gone; or the view
                returns to before a step that it was given, because all who did that step
                have died */
            wefti_member_leave(m, WEFTI_OUT_EVICTED);
        return;
    }
    if (value->number <= m->view.number) return;
    if (value->number == m->view.number + 1) {
        if (value->parent == m->view.chain) wefti_member_install(m, value);
    } else { /* no member can miss two views: each view needs its answer to the one
                before */
        bool is_fault = wefti_view_find(value, m->config.self) >= 0;
        wefti_member_leave(m, is_fault ? WEFTI_OUT_FAULT : WEFTI_OUT_EVICTED);
    }
}

/* A message of a node that is not a member here. */
static void take_foreign(wefti_member *m, const wefti_message *message) {
    wefti_member_node *peer = wefti_member_peer(m, message->from);
    if (message->kind == WEFTI_SAY_BYE) {
        bool other_part = m->config.policy.split && peer && peer->has_departed;
        if (message->reason == WEFTI_BYE_EVICTED && message->view > m->view.number &&
            !other_part)
            wefti_member_leave(m, WEFTI_OUT_EVICTED);
        return;
    }
    if (message->view == 0 && !(peer && peer->has_departed)) {
        wefti_join_message(m, peer, message);
        return;
    }
    if (peer) peer->heard_us = m->now_us; /* it is remembered while it sends */
    if (message->view <= m->view.number && message->kind != WEFTI_SAY_LEAVE)
        wefti_member_dismiss(m, message->from, WEFTI_BYE_EVICTED);
}

/* A message of a member of this view; the sender may have left this view, or not reached it
 * yet. */
static void take_member(wefti_member *m, wefti_member_node *peer,
                        const wefti_message *message) {
    wefti_watch_heard(m, peer, message->kind == WEFTI_SAY_ALIVE);
    peer->view = message->view;
    bool is_here = message->view == m->view.number && message->chain == m->view.chain;
    switch (message->kind) {
    case WEFTI_SAY_PROBE_REQ:
    case WEFTI_SAY_PROBE_ACK:
    case WEFTI_SAY_LEAVE: wefti_watch_message(m, peer, message); return;
    case WEFTI_SAY_RESEND_GET:
    case WEFTI_SAY_RESEND:
    case WEFTI_SAY_WELCOME:
    case WEFTI_SAY_SNAP_OFFER:
    case WEFTI_SAY_SNAP_GET:
    case WEFTI_SAY_SNAP_PIECE:
    case WEFTI_SAY_REPLAY_GET:
    case WEFTI_SAY_REPLAY:
    case WEFTI_SAY_READY:
    case WEFTI_SAY_HELLO: wefti_join_message(m, peer, message); break;
    case WEFTI_SAY_BYE:
        if (message->reason == WEFTI_BYE_EVICTED && message->view > m->view.number)
            wefti_member_leave(m, WEFTI_OUT_EVICTED);
        return;
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
        take_install(m, message);
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

static void take_closed(wefti_member *m, const wefti_member_event *event) {
    wefti_member_node *peer = wefti_member_peer(m, event->peer);
    if (!peer) return;
    peer->connected = false;
    if (peer->number < 0)
        peer->used = wefti_member_is_in(m) ? false : peer->used;
    else if (wefti_member_is_in(m))
        wefti_watch_suspect(m, peer, event->evidence);
}

static void take_steps(wefti_member *m, const wefti_member_event *event) {
    if (event->steps.finished >= 0 && event->steps.finished != m->steps.finished) {
        int k = (int)(event->steps.finished % WEFTI_CHECKSUMS);
        m->checksums[k] = event->checksum;
        m->checksum_steps[k] = event->steps.finished;
    }
    m->steps = event->steps;
    wefti_join_steps(m);
}

static void take_data(wefti_member *m, const wefti_member_event *event) {
    wefti_member_node *peer = wefti_member_peer(m, event->peer);
    if (!peer) return;
    wefti_watch_heard(m, peer, false);
    int64_t finished = event->steps.begun - m->config.limits.window + 1;
    if (event->steps.begun > peer->steps.begun) peer->steps.begun = event->steps.begun;
    if (finished > peer->steps.finished) peer->steps.finished = finished;
}

static void take_leave(wefti_member *m) {
    wefti_member_say_leave(m);
    wefti_member_leave(m, WEFTI_OUT_LEFT);
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
    case WEFTI_EVENT_CLOSED: take_closed(m, event); break;
    case WEFTI_EVENT_DATA: take_data(m, event); break;
    case WEFTI_EVENT_STEPS: take_steps(m, event); break;
    case WEFTI_EVENT_INVENTORY: wefti_change_inventory(m, event); break;
    case WEFTI_EVENT_RECORD: wefti_watch_ended(m, event->peer, &event->record); break;
    case WEFTI_EVENT_VOTE: wefti_change_vote(m, event); break;
    case WEFTI_EVENT_LEAVE: take_leave(m); break;
    }
}

static bool is_told(const wefti_member *m, const wefti_member_node *peer) {
    (void)m;
    if (peer->number < 0) return !peer->has_departed;
    return peer->standing.evidence < WEFTI_EVIDENCE_DEAD;
}

static void say_alive(wefti_member *m) {
    if (m->now_us >= m->next_alive_us) {
        wefti_message alive = {.kind = WEFTI_SAY_ALIVE, .steps = m->steps};
        wefti_member_say_all(m, &alive, is_told);
        m->next_alive_us = m->now_us + m->config.policy.alive_us;
    }
    wefti_member_wake_by(m, m->next_alive_us);
}

const wefti_member_actions *wefti_member_step(wefti_member *m,
                                              const wefti_member_event *event,
                                              int64_t now_us, uint64_t random) {
    m->actions.n = 0;
    m->n_bytes = 0;
    if (now_us > m->now_us) m->now_us = now_us;
    m->random = random;
    if (m->state == WEFTI_MEMBER_OUT) {
        m->actions.wake_us = INT64_MAX;
        return &m->actions;
    }
    wefti_watch_late(m);
    take(m, event);
    m->wake_us = m->now_us + m->config.policy.alive_us;
    if (m->state != WEFTI_MEMBER_OUT) say_alive(m);
    if (wefti_member_is_in(m)) wefti_watch_pump(m);
    if (wefti_member_is_in(m)) wefti_change_pump(m);
    if (m->state != WEFTI_MEMBER_OUT) wefti_join_pump(m);
    m->actions.wake_us = m->state == WEFTI_MEMBER_OUT ? INT64_MAX : m->wake_us;
    return &m->actions;
}
