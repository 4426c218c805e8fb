/* SPDX-License-Identifier: MIT */
/* From one view to the next: peers get their numbers in the new view, departed ones are
 * forgotten, and promises and suspicions of the old view end. */
#include "base/assert.h"
#include "member/memberstate.h"

static void renumber_peers(wefti_member *m) {
    for (int k = 0; k < m->max_peers; k++) {
        wefti_member_node *peer = &m->peers[k];
        if (!peer->used) continue;
        int number = wefti_view_find(&m->view, peer->id);
        if (peer->number >= 0 && number < 0) peer->has_departed = true;
        if (number >= 0 && peer->number < 0) {
            wefti_node_id id = peer->id;
            peer->used = false; /* its entry is replaced by that of a member */
            peer = wefti_member_add_peer(m, id);
            peer->steps.begun = peer->steps.sent = -1;
        }
        peer->number = number;
        peer->says_chain = 0;
        peer->says_later = peer->says_out = false;
    }
    for (int i = 0; i < m->view.n_nodes; i++) {
        if (i == m->number) {
            m->peer_of_number[i] = -1;
            continue;
        }
        wefti_member_node *peer = wefti_member_make_peer(m, m->view.nodes[i].id, true);
        WEFTI_ASSERT(peer); /* there are twice as many entries as members */
        peer->number = i;
        m->peer_of_number[i] = (int)(peer - m->peers);
    }
}

void wefti_member_install(wefti_member *m, const wefti_view *value) {
    int number = wefti_view_find(value, m->config.self);
    if (number < 0) {
        wefti_member_leave(m, WEFTI_OUT_EVICTED);
        return;
    }
    WEFTI_ASSERT(value->number > m->view.number && number < value->n_nodes);
    wefti_view_copy(&m->config.limits, value, &m->view);
    m->past[value->number % WEFTI_PAST_VIEWS] = value->chain;
    m->number = number;
    renumber_peers(m);
    wefti_watch_forget(m);
    m->voter.promised = m->voter.given = (wefti_ballot){0};
    m->voter.has_accepted = m->voter.has_answered = m->voter.frozen = false;
    m->voter.heir = (wefti_node_id){0};
    m->lead.phase = WEFTI_LEAD_IDLE;
    m->lead.attempts = 0;
    m->due.reason_us = m->due.paused_us = 0;
    m->witness.vote = m->witness.refused = m->witness.asked =
        0; /* of the view that is left */
    m->due.progress_us = m->now_us;
    m->due.backoff_us = 0;
    m->state = WEFTI_MEMBER_IN;
    wefti_member_act(m, WEFTI_DO_INSTALL);
}
