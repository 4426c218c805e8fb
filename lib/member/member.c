/* SPDX-License-Identifier: MIT */
/* Functions that all parts of the machine use: emitting actions and messages, peers, random
 * numbers, alarms, leaving. create.c creates the state, events.c changes it. */
#include "member/memberstate.h"

/* splitmix64 on the event's random number. */
uint64_t wefti_member_draw(wefti_member *m) {
    uint64_t x = m->random += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

bool wefti_member_is_in(const wefti_member *m) { return m->state >= WEFTI_MEMBER_IN; }

wefti_member_action *wefti_member_act(wefti_member *m, wefti_member_action_kind kind) {
    if (m->out.actions.n == m->out.max_actions) return NULL; /* it is sent again later */
    wefti_member_action *a = &m->out.actions.list[m->out.actions.n++];
    *a = (wefti_member_action){.kind = kind};
    return a;
}

/* Encodes a message after the other messages of this event; NULL: there is no room. */
static const unsigned char *put_message(wefti_member *m, wefti_message *message,
                                        size_t *n) {
    unsigned char *at = m->out.bytes + m->out.n_bytes;
    *n = wefti_member_encode(m, message, at, m->out.max_bytes - m->out.n_bytes);
    if (*n == 0) return NULL;
    m->out.n_bytes += *n;
    return at;
}

static void send_bytes(wefti_member *m, wefti_node_id to, const unsigned char *bytes,
                       size_t n) {
    wefti_member_action *a = wefti_member_act(m, WEFTI_DO_SEND);
    if (!a) return;
    a->peer = to;
    a->bytes = bytes;
    a->n_bytes = n;
}

void wefti_member_say(wefti_member *m, wefti_node_id to, wefti_message *message) {
    size_t n;
    const unsigned char *bytes = put_message(m, message, &n);
    if (bytes) send_bytes(m, to, bytes, n);
}

void wefti_member_say_all(wefti_member *m, wefti_message *message, wefti_peer_test test) {
    size_t n = 0;
    const unsigned char *bytes = NULL;
    for (int k = 0; k < m->max_peers; k++) {
        const wefti_member_node *peer = &m->peers[k];
        if (!peer->used || (test && !test(m, peer))) continue;
        if (!bytes) bytes = put_message(m, message, &n);
        if (!bytes) return;
        send_bytes(m, peer->id, bytes, n);
    }
}

/* A member that is not suspected. */
bool wefti_peer_is_sound(const wefti_member *m, const wefti_member_node *peer) {
    (void)m;
    return peer->number >= 0 && peer->standing.evidence == WEFTI_EVIDENCE_NONE;
}

wefti_member_node *wefti_member_add_peer(wefti_member *m, wefti_node_id id) {
    wefti_member_node *peer = wefti_member_peer(m, id);
    for (int k = 0; !peer && k < m->max_peers; k++)
        if (!m->peers[k].used) {
            peer = &m->peers[k];
            *peer = (wefti_member_node){
                .used = true, .id = id, .number = -1, .heard_us = m->now_us};
            peer->steps = (wefti_member_steps){-1, -1, -1};
            peer->limit_us = wefti_member_least_limit(&m->config.policy);
            peer->installed_us = m->now_us - 1000000000;
        }
    return peer;
}

/* Whether a node that is no member left, or has been silent too long to count as ready. */
static bool is_gone(const wefti_member *m, const wefti_member_node *peer) {
    return peer->has_departed ||
           m->now_us - peer->heard_us > 2 * m->config.policy.silence_us;
}

wefti_member_node *wefti_member_make_peer(wefti_member *m, wefti_node_id id,
                                          bool is_member) {
    wefti_member_node *peer = wefti_member_add_peer(m, id), *oldest = NULL;
    for (int k = 0; !peer && k < m->max_peers; k++) {
        wefti_member_node *other = &m->peers[k];
        if (other->number < 0 && (is_member || is_gone(m, other)) &&
            (!oldest || other->heard_us < oldest->heard_us))
            oldest = other;
    }
    if (!oldest) return peer;
    oldest->used = false;
    return wefti_member_add_peer(m, id);
}

void wefti_member_dismiss(wefti_member *m, wefti_node_id id, wefti_bye_reason reason) {
    wefti_message bye = {.kind = WEFTI_SAY_BYE, .reason = reason};
    wefti_member_say(m, id, &bye);
}

/* The message contains what this node has promised and accepted, so that its vote is not
 * missed. */
void wefti_member_say_leave(wefti_member *m) {
    wefti_message leave = {.kind = WEFTI_SAY_LEAVE, .record = wefti_member_own_record(m)};
    wefti_member_say_all(m, &leave, NULL);
}

void wefti_member_leave(wefti_member *m, wefti_member_out why) {
    if (m->state == WEFTI_MEMBER_OUT) return;
    m->state = WEFTI_MEMBER_OUT;
    if (why == WEFTI_OUT_FAULT) m->facts.faults++;
    wefti_member_action *a = wefti_member_act(m, WEFTI_DO_OUT);
    if (a) a->out = why;
}

void wefti_member_wake_by(wefti_member *m, int64_t when_us) {
    if (when_us < m->out.wake_us) m->out.wake_us = when_us;
}

/* A counter that is further off than ballots ever are is approached with each message that names
 * it: who names the last one takes nothing from those who have to name a higher one. */
void wefti_member_see(wefti_member *m, wefti_ballot ballot) {
    uint64_t most = m->voter.highest_counter + ((uint64_t)1 << 26);
    uint64_t seen = ballot.counter < most ? ballot.counter : most;
    if (seen > m->voter.highest_counter) m->voter.highest_counter = seen;
}

/* The heir has accepted what its own ballot proposed, or by now what a higher one did. */
static bool knows_accepted(const wefti_member *m) {
    int leader = m->voter.given.leader;
    return leader < m->number && wefti_node_is(m->view.nodes[leader].id, m->voter.heir);
}

/* What this node has accepted from itself alone is not decided: it would have installed it. */
wefti_member_record wefti_member_own_record(const wefti_member *m) {
    bool accepted = m->voter.given.counter && !knows_accepted(m);
    return (wefti_member_record){
        .promised_view = m->voter.promised.counter ? m->view.number + 1 : 0,
        .promised = m->voter.promised,
        .accepted_view = accepted ? m->view.number + 1 : m->view.number,
        .heir = m->voter.heir,
        .chain = m->view.chain};
}
