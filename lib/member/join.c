/* SPDX-License-Identifier: MIT */
/* Joining, on both sides.
 *
 *     joiner                      members
 *     HELLO(hashes)    --->       WELCOME(view), or BYE
 *     READY            --->       a view with the joiner in it, INSTALL
 *
 * A joiner has nothing when it enters. The host gives it the state before its first step
 * once all members have finished that step; until then the joiner says that it has finished
 * no step (quorum.c). */
#include "member/memberstate.h"

/* -- a member's side -- */

static bool same_run(const wefti_member *m, const wefti_message *hello) {
    return hello->config_hash == m->config.config_hash &&
           hello->data_hash == m->config.data_hash;
}

static void take_hello(wefti_member *m, const wefti_message *hello) {
    wefti_member_node *peer = NULL;
    if (!same_run(m, hello)) {
        wefti_member_dismiss(m, hello->from, WEFTI_BYE_OTHER_RUN);
        return;
    }
    if (m->view.n_nodes < m->config.limits.max_nodes)
        peer = wefti_member_make_peer(m, hello->from, false);
    if (!peer) {
        wefti_member_dismiss(m, hello->from, WEFTI_BYE_FULL);
        return;
    }
    wefti_watch_heard(m, peer, false);
    wefti_message welcome = {.kind = WEFTI_SAY_WELCOME, .value = &m->view};
    wefti_member_say(m, hello->from, &welcome);
}

static void take_as_member(wefti_member *m, wefti_member_node *peer,
                           const wefti_message *message) {
    if (peer) wefti_watch_heard(m, peer, false);
    if (peer && peer->number >= 0) return;
    if (message->kind == WEFTI_SAY_HELLO) take_hello(m, message);
    if (message->kind != WEFTI_SAY_READY || !peer) return;
    peer->is_ready = true;
    peer->ready_us = m->now_us;
}

/* -- a joiner's side -- */

static void take_welcome(wefti_member *m, const wefti_message *message) {
    wefti_joining *j = &m->joining;
    if (m->state != WEFTI_MEMBER_JOINING) return;
    for (int i = 0; i < message->value->n_nodes; i++) {
        wefti_member_node *peer = wefti_member_add_peer(m, message->value->nodes[i].id);
        if (peer) peer->trains = true;
    }
    m->state = WEFTI_MEMBER_READY;
    j->again_us = m->now_us;
    j->greeted_us = m->now_us - m->config.policy.join_us; /* due now */
}

static void take_bye(wefti_member *m, const wefti_message *message) {
    switch (message->reason) {
    case WEFTI_BYE_OTHER_RUN: wefti_member_leave(m, WEFTI_OUT_REFUSED); break;
    case WEFTI_BYE_EVICTED: wefti_member_leave(m, WEFTI_OUT_EVICTED); break;
    default: break; /* full, or too early: the joiner tries again */
    }
}

static void take_as_joiner(wefti_member *m, wefti_member_node *peer,
                           const wefti_message *message) {
    if (peer) wefti_watch_heard(m, peer, false);
    if (message->kind == WEFTI_SAY_WELCOME) take_welcome(m, message);
    if (message->kind == WEFTI_SAY_BYE) take_bye(m, message);
}

void wefti_join_message(wefti_member *m, wefti_member_node *peer,
                        const wefti_message *message) {
    if (wefti_member_is_in(m))
        take_as_member(m, peer, message);
    else
        take_as_joiner(m, peer, message);
}

/* -- actions that are due -- */

static wefti_message hello_of(const wefti_member *m) {
    return (wefti_message){.kind = WEFTI_SAY_HELLO,
                           .config_hash = m->config.config_hash,
                           .data_hash = m->config.data_hash};
}

/* Every member has to know which node is ready. */
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

static void say_ready(wefti_member *m) {
    wefti_message ready = {.kind = WEFTI_SAY_READY};
    if (m->now_us - m->joining.greeted_us >= 10 * m->config.policy.retry_us)
        say_hello_to_all(m);
    wefti_member_say_all(m, &ready, NULL);
}

/* If no known node has sent anything for long, this node starts again. */
static void start_over_if_alone(wefti_member *m) {
    int64_t limit = 3 * m->config.policy.silence_us;
    for (int k = 0; k < m->max_peers; k++)
        if (m->peers[k].used && m->now_us - m->peers[k].heard_us < limit) return;
    m->state = WEFTI_MEMBER_JOINING;
}

void wefti_join_pump(wefti_member *m) {
    wefti_joining *j = &m->joining;
    int64_t retry = m->config.policy.retry_us;
    if (wefti_member_is_in(m)) return;
    if (m->now_us - j->since_us >= m->config.policy.join_us) {
        wefti_member_leave(m, WEFTI_OUT_NO_ANSWER);
        return;
    }
    start_over_if_alone(m);
    if (m->now_us >= j->again_us) {
        bool joins = m->state == WEFTI_MEMBER_JOINING;
        (joins ? say_hello : say_ready)(m);
        j->again_us = m->now_us + (joins ? 5 * retry : retry);
    }
    wefti_member_wake_by(m, j->again_us);
}
