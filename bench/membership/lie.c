/* SPDX-License-Identifier: MIT */
/* A member that lies: it says that another one has ended and had promised nothing, that a view
 * without the others is decided, by all their votes, and that they are no members; it leads
 * the last of all ballots. Nobody who could go on without it may believe it
 * (I6), and it holds nobody up (I10). */
#include "world.h"

#include <string.h>

#include "base/memory.h"
#include "member/memberstate.h"

static void say(world *w, int slot, int to, wefti_message *message) {
    static unsigned char bytes[1 << 20];
    size_t n = wefti_member_encode(w->nodes[slot].m, message, bytes, sizeof bytes);
    if (n == 0 || !passes(w, slot, to)) return;
    event e = {.kind = EV_BYTES, .to = to, .from = slot, .sent_us = w->now_us};
    e.at_us = arrival(w, slot, to);
    e.n_bytes = (uint32_t)n;
    e.bytes = copy_bytes(bytes, n);
    push(w, &e);
    w->counts[COUNT_LIES]++;
}

/* The liar alone, or with `to`. */
static void forge_view(const world *w, int slot, int to, wefti_view *v) {
    const wefti_view *now = wefti_member_view(w->nodes[slot].m);
    wefti_view_copy(&w->limits, now, v);
    v->number = now->number + 1;
    v->parent = now->chain;
    v->first_step = now->first_step + 1;
    v->n_nodes = v->n_departed = v->n_rosters = v->cut_steps = 0;
    for (int i = 0; i < now->n_nodes; i++) {
        int other = slot_of(w, now->nodes[i].id);
        if (other == slot || other == to) v->nodes[v->n_nodes++] = now->nodes[i];
    }
    v->chain = wefti_view_hash(&w->limits, v);
}

static void lie_about_view(world *w, int slot, int to, bool with) {
    wefti_view v;
    const wefti_view *now = wefti_member_view(w->nodes[slot].m);
    uint16_t all[HOSTS];
    if (w->n_lies == FAULTS || wefti_view_init(w->ctx, &w->limits, &v) != WEFT_OK) return;
    forge_view(w, slot, with ? to : slot, &v);
    for (int i = 0; i < now->n_nodes; i++) all[i] = (uint16_t)i;
    wefti_message install = {.kind = WEFTI_SAY_INSTALL,
                             .ballot = {1000, wefti_member_number(w->nodes[slot].m)},
                             .n_numbers = now->n_nodes,
                             .numbers = all,
                             .value = &v};
    say(w, slot, to, &install);
    w->lies[w->n_lies++] = v.chain;
    wefti_view_fini(w->ctx, &v);
}

/* The header says that the liar is in a later view. */
static void lie_about_members(world *w, int slot, int to) {
    wefti_member *m = w->nodes[slot].m;
    wefti_message bye = {.kind = WEFTI_SAY_BYE, .reason = WEFTI_BYE_EVICTED};
    m->view.number++;
    say(w, slot, to, &bye);
    m->view.number--;
}

/* No ballot could follow this one. */
static void lie_about_ballots(world *w, int slot, int to) {
    wefti_message flush = {
        .kind = WEFTI_SAY_FLUSH,
        .ballot = {(uint64_t)1 << 56, wefti_member_number(w->nodes[slot].m)}};
    say(w, slot, to, &flush);
}

void tell_lie(world *w, int slot) {
    const node *n = &w->nodes[slot];
    const wefti_view *now = wefti_member_view(n->m);
    if (!n->alive || wefti_member_number(n->m) < 0) return;
    int about = (int)draw_below(w, now->n_nodes), what = (int)draw_below(w, 5);
    wefti_message suspect = {.kind = WEFTI_SAY_SUSPECT,
                             .subject = now->nodes[about].id,
                             .evidence = WEFTI_EVIDENCE_RECORD};
    w->liar = slot;
    for (int i = 0; i < now->n_nodes; i++) {
        int to = slot_of(w, now->nodes[i].id);
        if (to == slot || !w->nodes[to].alive) continue;
        if (what == 0) say(w, slot, to, &suspect);
        if (what == 1 || what == 2) lie_about_view(w, slot, to, what == 1);
        if (what == 3) lie_about_members(w, slot, to);
        if (what == 4) lie_about_ballots(w, slot, to);
    }
}

/* It has voted for a view without itself. */
static bool has_left_itself(const wefti_member *m) {
    return m->voter.has_accepted &&
           wefti_view_find(&m->voter.accepted, m->config.self) < 0;
}

/* A member that is heard, and has not gone on. */
static bool is_here(const world *w, const wefti_member *m, int i) {
    const node *n = &w->nodes[slot_of(w, m->view.nodes[i].id)];
    return m->peers[m->peer_of_number[i]].standing.evidence == WEFTI_EVIDENCE_NONE &&
           wefti_member_view(n->m)->number <= m->view.number;
}

/* Before an event: whether a node and those that it hears could decide without the liar. */
void judge_lies(world *w, int slot) {
    wefti_member *m = w->nodes[slot].m;
    bool could[HOSTS] = {false};
    if (w->liar < 0 || m->number < 0) return;
    for (int i = 0; i < m->view.n_nodes; i++)
        could[i] = i == m->number ||
                   (slot_of(w, m->view.nodes[i].id) != w->liar && is_here(w, m, i));
    w->could_decide[slot] = wefti_change_outvotes(m, could);
    w->has_left_itself[slot] = has_left_itself(m);
}

static bool liar_says_so(const world *w, const wefti_member *m) {
    for (int k = 0; k < m->max_peers; k++)
        if (m->peers[k].used && m->peers[k].says_later &&
            slot_of(w, m->peers[k].id) == w->liar)
            return true;
    return false;
}

/* A node believes that it is left out. Where it has decided so itself, now or before, that was by
 * a ballot; and who does not lie may say so alone. */
void check_left(world *w, int slot) {
    const wefti_member *m = w->nodes[slot].m;
    if (!w->has_left_itself[slot] && !has_left_itself(m) && liar_says_so(w, m))
        check_believed(w, slot, "leaves");
}

/* Or installs a view that nobody has decided. */
void check_believed(world *w, int slot, const char *what) {
    if (w->could_decide[slot])
        fail(w, "I6: node %d %s because one member says so", slot, what);
    w->is_deceived = true;
}
