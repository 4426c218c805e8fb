/* SPDX-License-Identifier: MIT */
/* What the host may ask the machine between events: which nodes a step belongs to, which
 * of them are suspected.
 *
 *     roster of step t    the last view whose first step is <= t */
#include "member/memberstate.h"

wefti_member_state wefti_member_get_state(const wefti_member *m) { return m->state; }

bool wefti_member_is_frozen(const wefti_member *m) { return m->voter.frozen; }

const wefti_view *wefti_member_view(const wefti_member *m) { return &m->view; }

int wefti_member_number(const wefti_member *m) { return m->number; }

wefti_member_facts wefti_member_get_facts(const wefti_member *m) { return m->facts; }

bool wefti_member_roster(const wefti_member *m, int64_t step, wefti_roster *out) {
    *out = wefti_view_roster(&m->view);
    if (m->view.number > 0 && m->view.first_step <= step) return true;
    for (int k = 0; k < m->view.n_rosters; k++) {
        *out = m->view.rosters[k];
        if (out->first_step <= step) return true;
    }
    return false;
}

wefti_member_node *wefti_member_peer(const wefti_member *m, wefti_node_id id) {
    for (int k = 0; k < m->max_peers; k++)
        if (m->peers[k].used && wefti_node_is(m->peers[k].id, id)) return &m->peers[k];
    return NULL;
}

bool wefti_member_suspects(const wefti_member *m, wefti_node_id id) {
    int number = wefti_view_find(&m->view, id);
    if (number < 0 || number == m->number) return false;
    return m->peers[m->peer_of_number[number]].standing.evidence != WEFTI_EVIDENCE_NONE;
}

bool wefti_member_is_dead(const wefti_member *m, wefti_node_id id) {
    const wefti_member_node *peer = wefti_member_peer(m, id);
    return peer && peer->standing.evidence >= WEFTI_EVIDENCE_DEAD;
}

bool wefti_member_departs(const wefti_member *m, wefti_node_id id) {
    int number = wefti_view_find(&m->view, id);
    return number < 0 || !m->voter.stays[number];
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t wefti_member_stable(const wefti_member *m) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < m->view.n_nodes; i++) {
        const wefti_view_node *node = &m->view.nodes[i];
        const wefti_member_steps *steps = i == m->number
                                              ? &m->steps
                                              : &m->peers[m->peer_of_number[i]].steps;
        /* a new member has not received the steps of all others yet; the cut tells them */
        int64_t known = later(node->first_step - 1, m->view.cut_low);
        int64_t finished = later(steps->finished, known);
        if (finished < least) least = finished;
    }
    return least == INT64_MAX ? -1 : least;
}

/* Another member finishes at most `window` steps before this one has finished the next, and
 * begins at most `window` more. */
bool wefti_member_is_open(const wefti_member *m, int64_t step) {
    int64_t stable = wefti_member_stable(m);
    return step > stable && step <= stable + 2 * m->config.limits.window;
}

size_t wefti_member_encode(const wefti_member *m, wefti_message *message,
                           unsigned char *out, size_t size) {
    message->run = m->config.run;
    message->from = m->config.self;
    bool is_other = message->kind == WEFTI_SAY_BYE && message->view > 0; /* see say_out */
    if (!is_other) {
        message->view = m->number >= 0 ? m->view.number : 0;
        message->chain = m->number >= 0 ? m->view.chain : 0;
    }
    return wefti_message_encode(&m->config.limits, message, out, size);
}

bool wefti_member_trains(const wefti_member *m, wefti_node_id id) {
    const wefti_member_node *peer = wefti_member_peer(m, id);
    return peer && peer->trains;
}
