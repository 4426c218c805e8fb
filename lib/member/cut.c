/* SPDX-License-Identifier: MIT */
/* How unfinished steps end, and who takes part afterwards.
 *
 * From the answers of all members that stay,
 *
 *     low    = least finished step                  (a step up to low needs nothing any more)
 *     first  = max(first step of the view that is left, 1 + highest step begun)
 *
 * and for each step low < t < first and each node d of t's roster that does not stay: a
 * piece of d counts iff a member that stays holds the whole piece; the lowest-numbered such
 * member is its holder. A node that has applied a bucket had all pieces of it, so
 * everything that a living node has applied counts; and what no node holds, no living node
 * has applied. Members keep the pieces of a step until all have finished it, so this can be
 * asked again at each change of view, and the latest answer is valid: a holder may die
 * before it has forwarded a piece.
 *
 * Rows of d in t that count nowhere are added to the list of owed rows, once: if the view
 * before has already added them, they are in its list, which a first step has taken since
 * then or which is passed on. */
#include "member/memberstate.h"

#include <string.h>

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static int span(const wefti_member *m) { return 2 * m->config.limits.window; }

void wefti_tally_reset(wefti_member *m) {
    wefti_ballot_tally *t = &m->lead.tally;
    t->has_base = false;
    t->n_senders = 0;
}

/* Holders in the tally of sender k's pieces of step base + 1 + s. */
static uint16_t *tally_holders(const wefti_member *m, int k, int s) {
    const wefti_member_limits *l = &m->config.limits;
    int64_t of_step = (int64_t)l->rounds * l->parts;
    return &m->lead.tally.holders[((int64_t)k * span(m) + s) * of_step];
}

/* A sender's index in the tally; -1: there is no room. */
static int tally_sender(wefti_member *m, wefti_node_id id, bool add) {
    const wefti_member_limits *l = &m->config.limits;
    wefti_ballot_tally *t = &m->lead.tally;
    for (int k = 0; k < t->n_senders; k++)
        if (wefti_node_is(t->senders[k], id)) return k;
    if (!add || t->n_senders == wefti_view_max_departed(l)) return -1;
    int k = t->n_senders++;
    t->senders[k] = id;
    t->counted[k] = 0;
    memset(tally_holders(m, k, 0), 0xff,
           (size_t)span(m) * (size_t)l->rounds * (size_t)l->parts * sizeof(uint16_t));
    return k;
}

static void tally_entry(wefti_member *m, int number, const wefti_inventory_entry *entry) {
    const wefti_member_limits *l = &m->config.limits;
    wefti_ballot_tally *t = &m->lead.tally;
    int64_t s = entry->step - t->base - 1;
    if (s < 0 || s >= span(m)) return;
    int k = tally_sender(m, entry->sender, true);
    if (k < 0) return;
    if (entry->counted) t->counted[k] |= (uint64_t)1 << s;
    uint16_t *holders = tally_holders(m, k, (int)s);
    int row = (l->parts + 7) / 8;
    for (int r = 0; r < l->rounds; r++)
        for (int p = 0; p < l->parts; p++) {
            bool held = entry->held[r * row + p / 8] >> p % 8 & 1;
            uint16_t *holder = &holders[r * l->parts + p];
            if (held && number < *holder) *holder = (uint16_t)number;
        }
}

/* Adds a member's answer. False: its steps differ from the others' by more than the window. */
bool wefti_tally_add(wefti_member *m, int number, const wefti_message *flush_ok) {
    wefti_ballot_tally *t = &m->lead.tally;
    const wefti_view_node *node = &m->view.nodes[number];
    if (node->witness) return true;
    int64_t finished = later(flush_ok->steps.finished, node->first_step - 1);
    int64_t begun = later(flush_ok->steps.begun, finished);
    int window = m->config.limits.window;
    if (!t->has_base) {
        t->has_base = true;
        t->base = finished - window;
        t->low = finished;
        t->high = begun;
        t->most_finished = -1;
        t->least_finished = flush_ok->steps.finished;
    }
    if (flush_ok->steps.finished < t->least_finished)
        t->least_finished = flush_ok->steps.finished;
    t->most_finished = later(t->most_finished, flush_ok->steps.finished);
    if (finished < t->low) t->low = finished;
    if (begun > t->high) t->high = begun;
    if (t->high - t->low > window) return false;
    for (int k = 0; k < flush_ok->n_entries; k++)
        tally_entry(m, number, &flush_ok->entries[k]);
    return true;
}

/* -- the proposal -- */

/* Whether the owners of the steps after t, and the rows they owed, are known. If all
 * members die except a joiner that has only reached t, those steps were never done, and the
 * joiner has to tell whose rows are owed. Half of the room is reserved for changes of view
 * while it catches up. */
static bool knows_steps_after(const wefti_member *m, int64_t t) {
    int k = 0;
    if (m->view.first_step <= t + 1) return true;
    while (k < m->view.n_rosters && m->view.rosters[k].first_step > t + 1) k++;
    return k < m->view.n_rosters && 2 * k < m->view.max_rosters - m->config.limits.window;
}

/* Whether a node wants to enter, and has said so recently. */
static bool is_ready(const wefti_member *m, const wefti_member_node *peer) {
    return peer->used && peer->number < 0 && peer->is_ready &&
           m->now_us - peer->ready_us <= 2 * m->config.policy.silence_us;
}

/* Whether all nodes of a joiner's unit are ready. A node of that unit that is still a
 * member has lost its companions, and will leave first. */
static bool is_unit_ready(const wefti_member *m, const wefti_member_node *peer) {
    uint64_t size = m->config.policy.unit > 1 ? (uint64_t)m->config.policy.unit : 1;
    uint64_t unit = (peer->id.key - 1) / size, n = 0;
    for (int k = 0; k < m->max_peers; k++) {
        const wefti_member_node *other = &m->peers[k];
        if ((other->id.key - 1) / size != unit || !other->used) continue;
        if (other->number >= 0) return false;
        n += is_ready(m, other);
    }
    return n >= size && (m->config.self.key - 1) / size != unit;
}

/* Whether a joiner is ready, with its unit, and its checksum equals this node's for that
 * step. */
bool wefti_cut_may_enter(wefti_member *m, wefti_member_node *peer) {
    if (!is_ready(m, peer)) return false;
    if (m->config.policy.unit > 1 && !is_unit_ready(m, peer)) return false;
    if (peer->witness || m->config.policy.handover) return true;
    int64_t t = peer->ready_step;
    if (t < 0 || t > m->steps.finished) return false;
    if (m->steps.finished - t > WEFTI_CHECKSUMS / 2) return false;
    if (!knows_steps_after(m, t)) return false;
    int k = (int)(t % WEFTI_CHECKSUMS);
    if (m->checksum_steps[k] != t) return false;
    if (m->checksums[k] == peer->ready_checksum) return true;
    peer->is_ready = false;
    wefti_member_dismiss(m, peer->id, WEFTI_BYE_CHECKSUM);
    return false;
}

static bool is_before(wefti_node_id a, wefti_node_id b) {
    return a.key != b.key ? a.key < b.key : a.incarnation < b.incarnation;
}

/* The members that stay, in their order; then the joiners, in the order of their keys. */
static void propose_nodes(wefti_member *m, wefti_view *v) {
    v->n_nodes = 0;
    for (int i = 0; i < m->view.n_nodes; i++)
        if (m->lead.asked[i]) {
            v->nodes[v->n_nodes] = m->view.nodes[i];
            if (v->nodes[v->n_nodes].first_step > v->first_step)
                v->nodes[v->n_nodes].first_step = v->first_step;
            v->n_nodes++;
        }
    int first = v->n_nodes;
    for (int k = 0; k < m->max_peers; k++) {
        wefti_member_node *peer = &m->peers[k];
        if (!peer->used || !wefti_cut_may_enter(m, peer)) continue;
        if (v->n_nodes == m->config.limits.max_nodes) break;
        int place = v->n_nodes++;
        while (place > first && is_before(peer->id, v->nodes[place - 1].id)) {
            v->nodes[place] = v->nodes[place - 1];
            place--;
        }
        v->nodes[place] = (wefti_view_node){
            .id = peer->id, .first_step = v->first_step, .witness = peer->witness};
    }
}

static void add_departed(wefti_member *m, wefti_view *v, const wefti_view_node *node) {
    const wefti_member_limits *l = &m->config.limits;
    if (node->witness || wefti_view_find(v, node->id) >= 0 ||
        wefti_view_find_departed(v, node->id) >= 0 ||
        v->n_departed == wefti_view_max_departed(l))
        return;
    int d = v->n_departed++;
    v->departed[d] = (wefti_departed){.id = node->id, .owner = WEFTI_MEMBER_NOBODY};
    memset(wefti_view_holder(l, v, d, 0, 0, 0), 0xff,
           (size_t)l->window * (size_t)l->rounds * (size_t)l->parts * sizeof(uint16_t));
}

/* New owners for the ranges of departed nodes: in turn, the members that took part in all
 * unfinished steps. */
static void propose_owners(wefti_view *v) {
    int n = 0;
    for (int i = 0; i < v->n_nodes; i++)
        n += !v->nodes[i].witness && v->nodes[i].first_step <= v->cut_low + 1;
    for (int d = 0; d < v->n_departed && n > 0; d++) {
        int turn = d % n;
        for (int i = 0; i < v->n_nodes; i++)
            if (!v->nodes[i].witness && v->nodes[i].first_step <= v->cut_low + 1 &&
                turn-- == 0)
                v->departed[d].owner = i;
    }
}

/* What the inventories say about departed node d and step cut_low + 1 + s. */
static void cut_step(wefti_member *m, wefti_view *v, int d, int s) {
    const wefti_member_limits *l = &m->config.limits;
    int k = tally_sender(m, v->departed[d].id, false);
    int64_t in_tally = v->cut_low + 1 + s - m->lead.tally.base - 1;
    if (k < 0 || in_tally < 0 || in_tally >= span(m)) return;
    if (m->lead.tally.counted[k] >> in_tally & 1) v->departed[d].counted |= 1u << s;
    const uint16_t *from = tally_holders(m, k, (int)in_tally);
    uint16_t *to = wefti_view_holder(l, v, d, s, 0, 0);
    for (int i = 0; i < l->rounds * l->parts; i++) {
        if (from[i] == WEFTI_MEMBER_NOBODY) continue;
        int number = wefti_view_find(v, m->view.nodes[from[i]].id);
        to[i] = number < 0 ? WEFTI_MEMBER_NOBODY : (uint16_t)number;
    }
}

/* Adds a block once: a block that was taken in a step which was never done is in the list
 * from which it was taken, and also in the list of the view in which the step's nodes had
 * departed. */
static void owe(wefti_member *m, wefti_view *v, wefti_row_block block) {
    for (int k = 0; k < v->n_owed; k++)
        if (v->owed[k].step == block.step && v->owed[k].share == block.share &&
            v->owed[k].of == block.of)
            return;
    if (v->n_owed == wefti_view_max_owed(&m->config.limits))
        m->facts.faults++;
    else
        v->owed[v->n_owed++] = block;
}

/* Whether the view that is left already lists the node's rows of the step as owed. */
static bool is_owed_already(const wefti_member *m, wefti_node_id id, int64_t step) {
    int d = wefti_view_find_departed(&m->view, id);
    int64_t s = step - m->view.cut_low - 1;
    return d >= 0 && s >= 0 && s < m->view.cut_steps &&
           !(m->view.departed[d].counted >> s & 1);
}

/* Adds the rows of node i of the roster of step t, if the node departed and the rows count
 * nowhere. */
static void owe_rows(wefti_member *m, wefti_view *v, const wefti_roster *roster, int i,
                     int64_t t) {
    wefti_node_id id = roster->nodes[i].id;
    int d = wefti_view_find_departed(v, id);
    if (d < 0 || v->departed[d].counted >> (t - v->cut_low - 1) & 1) return;
    if (is_owed_already(m, id, t)) return;
    wefti_view as_view = {.n_nodes = roster->n_nodes, .nodes = roster->nodes};
    int share = wefti_view_share(&as_view, i), of = wefti_view_trainers(&as_view);
    if (share < 0) return;
    owe(m, v, (wefti_row_block){.step = t, .share = share, .of = of});
    for (int k = share; t == roster->first_step && k < roster->n_owed; k += of)
        owe(m, v, roster->owed[k]);
}

static void propose_cut(wefti_member *m, wefti_view *v) {
    v->n_departed = 0;
    wefti_roster roster;
    for (int64_t t = v->cut_low + 1; t < v->first_step; t++)
        for (int i = 0; wefti_member_roster(m, t, &roster) && i < roster.n_nodes; i++)
            add_departed(m, v, &roster.nodes[i]);
    propose_owners(v);
    for (int d = 0; d < v->n_departed; d++)
        for (int s = 0; s < v->cut_steps; s++) cut_step(m, v, d, s);
    for (int64_t t = v->cut_low + 1; t < v->first_step; t++)
        for (int i = 0; wefti_member_roster(m, t, &roster) && i < roster.n_nodes; i++)
            owe_rows(m, v, &roster, i, t);
}

/* The least of the last steps that the members of the new view have. */
static int64_t oldest_step(wefti_member *m, const wefti_view *v) {
    int64_t oldest = v->cut_low;
    if (m->lead.tally.least_finished < oldest) oldest = m->lead.tally.least_finished;
    for (int k = 0; k < m->max_peers; k++) {
        wefti_member_node *peer = &m->peers[k];
        if (!peer->used || peer->witness || wefti_view_find(v, peer->id) < 0) continue;
        if (m->config.policy.handover) continue; /* it will get the others' state */
        if (peer->number < 0 && peer->ready_step < oldest) oldest = peer->ready_step;
    }
    return oldest;
}

/* The view contains the rosters of the cut's steps and of the steps that joiners catch up
 * with, because joiners do not know them. If a roster's first step is taken over by the new
 * view, no node has taken its owed rows: they are passed on. */
static void propose_rosters(wefti_member *m, wefti_view *v, int64_t oldest) {
    int64_t end = INT64_MAX; /* the first step of the next roster */
    bool needed = v->first_step > oldest + 1;
    v->n_rosters = v->n_owed = 0;
    for (int k = -1; k < m->view.n_rosters; k++) {
        wefti_roster r = k < 0 ? wefti_view_roster(&m->view) : m->view.rosters[k];
        if (r.first_step >= v->first_step) {
            for (int i = 0; i < r.n_owed; i++)
                if (r.owed[i].step < v->first_step) owe(m, v, r.owed[i]);
        } else if (end > oldest + 1 && needed) {
            if (v->n_rosters < v->max_rosters)
                wefti_roster_copy(&r, &v->rosters[v->n_rosters++]);
            else if (end > v->cut_low + 1)
                m->facts.faults++;
        }
        end = r.first_step;
    }
}

/* Makes the next view from the tally. False: the steps are further apart than the window. */
bool wefti_cut_propose(wefti_member *m) {
    wefti_view *v = &m->lead.proposal;
    const wefti_ballot_tally *t = &m->lead.tally;
    if (!t->has_base || t->high - t->low > m->config.limits.window) return false;
    v->number = m->view.number + 1;
    v->parent = m->view.chain;
    v->first_step = later(m->view.first_step, t->high + 1);
    v->cut_low = t->low;
    if (t->most_finished <
        t->low) { /* the steps in between are lost with all nodes that did them */
        v->first_step = t->most_finished + 1;
        v->cut_low = t->most_finished;
    }
    if (v->first_step - 1 - v->cut_low > m->config.limits.window) return false;
    v->cut_steps = (int)(v->first_step - 1 - v->cut_low);
    propose_nodes(m, v);
    propose_rosters(m, v, oldest_step(m, v));
    propose_cut(m, v);
    v->chain = wefti_view_hash(&m->config.limits, v);
    return true;
}
