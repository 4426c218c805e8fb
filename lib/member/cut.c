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
 * before it has forwarded a piece. */
#include "member/memberstate.h"

#include "base/assert.h"
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

/* A sender's index in the tally, where it may be new; -1: there is no room. */
static int tally_sender(wefti_member *m, wefti_node_id id) {
    const wefti_member_limits *l = &m->config.limits;
    wefti_ballot_tally *t = &m->lead.tally;
    for (int k = 0; k < t->n_senders; k++)
        if (wefti_node_is(t->senders[k], id)) return k;
    if (t->n_senders == wefti_view_max_departed(l)) return -1;
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
    int k = tally_sender(m, entry->sender);
    if (k < 0) return;
    if (entry->counted) t->counted[k] |= (uint64_t)1 << s;
    uint16_t *holders = tally_holders(m, k, (int)s);
    WEFTI_ASSERT(number >= 0 && number < m->view.n_nodes);
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
    int64_t finished = later(flush_ok->steps.finished, node->first_step - 1);
    int64_t begun = later(flush_ok->steps.begun, finished);
    int window = m->config.limits.window;
    int64_t low = t->has_base && t->low < finished ? t->low : finished;
    int64_t high = t->has_base && t->high > begun ? t->high : begun;
    if (high - low > window) return false;
    if (!t->has_base) t->base = finished - window;
    t->has_base = true;
    t->low = low;
    t->high = high;
    for (int k = 0; k < flush_ok->n_entries; k++)
        tally_entry(m, number, &flush_ok->entries[k]);
    return true;
}

/* -- the proposal -- */

/* Whether a node has asked to enter, recently. */
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

/* Whether a joiner is ready, with its unit. */
bool wefti_cut_may_enter(wefti_member *m, const wefti_member_node *peer) {
    return is_ready(m, peer) && (m->config.policy.unit <= 1 || is_unit_ready(m, peer));
}

static bool is_before(wefti_node_id a, wefti_node_id b) {
    return a.key != b.key ? a.key < b.key : a.incarnation < b.incarnation;
}

/* The members that stay, in their order; then the joiners, in the order of their keys. */
static void propose_nodes(wefti_member *m, wefti_view *v) {
    v->n_nodes = 0;
    for (int i = 0; i < m->view.n_nodes; i++)
        if (m->lead.asked[i]) {
            WEFTI_ASSERT(m->view.nodes[i].first_step <= v->first_step);
            v->nodes[v->n_nodes++] = m->view.nodes[i];
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
        v->nodes[place] = (wefti_view_node){peer->id, v->first_step};
    }
}

static void add_departed(wefti_member *m, wefti_view *v, const wefti_view_node *node) {
    const wefti_member_limits *l = &m->config.limits;
    if (wefti_view_find(v, node->id) >= 0 || wefti_view_find_departed(v, node->id) >= 0 ||
        v->n_departed == wefti_view_max_departed(l))
        return;
    int d = v->n_departed++;
    v->departed[d] = (wefti_departed){.id = node->id};
    memset(wefti_view_holder(l, v, d, 0, 0, 0), 0xff,
           (size_t)l->window * (size_t)l->rounds * (size_t)l->parts * sizeof(uint16_t));
}

/* What the inventories say about departed node d and step cut_low + 1 + s. */
static void cut_step(wefti_member *m, wefti_view *v, int d, int s) {
    const wefti_member_limits *l = &m->config.limits;
    int k = tally_sender(m, v->departed[d].id);
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

static void propose_cut(wefti_member *m, wefti_view *v) {
    v->n_departed = 0;
    wefti_roster roster;
    for (int64_t t = v->cut_low + 1; t < v->first_step; t++)
        for (int i = 0; wefti_member_roster(m, t, &roster) && i < roster.n_nodes; i++)
            add_departed(m, v, &roster.nodes[i]);
    for (int d = 0; d < v->n_departed; d++)
        for (int s = 0; s < v->cut_steps; s++) cut_step(m, v, d, s);
}

/* The view contains the rosters of the cut's steps, because joiners do not know them. */
static void propose_rosters(wefti_member *m, wefti_view *v) {
    int64_t end = v->first_step; /* the first step of the next roster */
    v->n_rosters = 0;
    for (int k = -1; k < m->view.n_rosters; k++) {
        wefti_roster r = k < 0 ? wefti_view_roster(&m->view) : m->view.rosters[k];
        if (r.first_step >= end || end <= v->cut_low + 1) continue;
        if (v->n_rosters < v->max_rosters)
            wefti_roster_copy(&r, &v->rosters[v->n_rosters++]);
        else
            m->facts.faults++;
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
    if (v->first_step - 1 - v->cut_low > m->config.limits.window) return false;
    v->cut_steps = (int)(v->first_step - 1 - v->cut_low);
    propose_nodes(m, v);
    propose_rosters(m, v);
    propose_cut(m, v);
    WEFTI_ASSERT(v->first_step > v->cut_low && v->cut_steps <= m->config.limits.window);
    WEFTI_ASSERT(v->n_nodes <= m->config.limits.max_nodes);
    v->chain = wefti_view_hash(&m->config.limits, v);
    return true;
}
