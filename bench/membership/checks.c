/* SPDX-License-Identifier: MIT */
/* The invariants, over all nodes at once (README.md). */
#include "world.h"

#include <string.h>

#include "member/quorum.h"

uint64_t mix(uint64_t a, uint64_t b) {
    a = (a ^ b) + 0x9E3779B97F4A7C15u;
    a = (a ^ a >> 30) * 0xBF58476D1CE4E5B9u;
    return a ^ a >> 31;
}

int64_t row_gradient(int64_t step, int share, int of, int part) {
    uint64_t h = mix(mix(mix((uint64_t)step, (uint64_t)share), (uint64_t)of),
                     (uint64_t)part);
    return (int64_t)(h % 20001) - 10000;
}

int64_t code(int64_t x) { return x / 16 * 16; }

/* -- I1: one view per number -- */

static void fill_view(const world *w, const node *n, const wefti_view *v,
                      view_record *r) {
    *r = (view_record){.is_known = true,
                       .number = v->number,
                       .first_step = v->first_step,
                       .cut_low = v->cut_low,
                       .chain = v->chain,
                       .n_nodes = v->n_nodes,
                       .n_departed = v->n_departed,
                       .cut_steps = v->cut_steps};
    (void)n;
    for (int i = 0; i < v->n_nodes; i++) {
        r->nodes[i] = slot_of(w, v->nodes[i].id);
        r->node_first[i] = v->nodes[i].first_step;
    }
    for (int d = 0; d < v->n_departed; d++) {
        r->departed[d] = slot_of(w, v->departed[d].id);
        r->counted[d] = v->departed[d].counted;
        for (int s = 0; s < v->cut_steps; s++)
            for (int k = 0; k < w->limits.rounds; k++)
                for (int p = 0; p < w->limits.parts; p++)
                    r->held[d][s][k][p] = *wefti_view_holder(&w->limits, v, d, s, k, p) !=
                                          WEFTI_MEMBER_NOBODY;
    }
}

static int find_node(const view_record *r, int slot) {
    for (int i = 0; i < r->n_nodes; i++)
        if (r->nodes[i] == slot) return i;
    return -1;
}

/* Who has the vote of a member: itself, or the last of those that it was left to. */
static int voter(const world *w, int slot) {
    while (!w->nodes[slot].alive && w->nodes[slot].record.heir.incarnation)
        slot = slot_of(w, w->nodes[slot].record.heir);
    return slot;
}

/* The living who were left out are never more than the votes that went on. */
static void check_quorum(world *w, const view_record *old, const view_record *new) {
    int stay = 0, left_out = 0;
    for (int i = 0; i < old->n_nodes; i++) {
        int slot = old->nodes[i];
        if (find_node(new, slot) >= 0 || find_node(new, voter(w, slot)) >= 0)
            stay++;
        else
            left_out += w->nodes[slot].alive;
    }
    if (left_out > stay)
        fail(w, "I1: view %lld leaves out %d living members, and %d votes go on",
             (long long)new->number, left_out, stay);
    for (int i = 0; i < new->n_nodes; i++) {
        const node *n = &w->nodes[new->nodes[i]];
        bool is_member = wefti_member_number(n->m) >=
                         0; /* else it does not enter with that */
        if (n->alive && is_member && n->steps.finished >= new->first_step)
            fail(w, "I1: view %lld begins with step %lld, which node %d has finished",
                 (long long)new->number, (long long)new->first_step, new->nodes[i]);
    }
}

void check_install(world *w, int slot) {
    node *n = &w->nodes[slot];
    const wefti_view *v = wefti_member_view(n->m);
    if (v->number >= VIEWS) {
        fail(w, "I10: %d views", VIEWS);
        return;
    }
    view_record *r = &w->views[v->number];
    for (int k = 0; k < w->n_lies; k++)
        if (w->lies[k] == v->chain) check_believed(w, slot, "installs a view");
    if (w->is_deceived) return;
    trace(w,
          "node %d installs view %lld: %d nodes from step %lld on, cut after %lld, %d "
          "departed",
          slot, (long long)v->number, v->n_nodes, (long long)v->first_step,
          (long long)v->cut_low, v->n_departed);
    if (v->number > w->last_view) {
        if (v->number != w->last_view + 1)
            fail(w, "I1: view %lld follows view %lld", (long long)v->number,
                 (long long)w->last_view);
        w->last_view = v->number;
        fill_view(w, n, v, r);
        if (v->number > 1) check_quorum(w, &w->views[v->number - 1], r);
    } else if (r->chain != v->chain) {
        fail(w, "I1: node %d installs another view %lld", slot, (long long)v->number);
    }
}

/* -- steps -- */

/* I8: who is new begins with what the others have. */
void check_begin(world *w, int slot, int64_t step) {
    node *n = &w->nodes[slot];
    wefti_roster roster = {0};
    (void)wefti_member_roster(n->m, step, &roster);
    wefti_view as_view = {.n_nodes = roster.n_nodes, .nodes = roster.nodes};
    if (wefti_view_find(&as_view, n->id) < 0)
        fail(w, "I8: node %d begins step %lld, in which it does not take part", slot,
             (long long)step);
    if (n->is_new && step > 0 && w->how != GOSSIP &&
        (!w->steps[step - 1].is_known || w->steps[step - 1].state != n->state))
        fail(w, "I8: node %d enters at step %lld with other parameters", slot,
             (long long)step);
    n->is_new = false;
}

/* I5 and I9: what this node sent is in the result, and nothing of its gradients is lost.
 */
static void check_own(world *w, int slot, int64_t step, const step_record *mine) {
    node *n = &w->nodes[slot];
    for (int p = 0; p < w->n_parts; p++) {
        if (mine->mask[p] == 0) { /* no such range */
            n->counted[p] += n->own[step % RING][p];
            continue;
        }
        if (!(mine->mask[p] >> slot & 1)) {
            fail(w, "I5: step %lld of node %d is without its own part %d",
                 (long long)step, slot, p);
            continue;
        }
        n->counted[p] += n->own[step % RING][p];
        int64_t under_way = 0;
        for (int64_t t = step + 1; t <= n->steps.begun; t++)
            under_way += n->own[t % RING][p];
        if (n->counted[p] + under_way + n->residual[p] != n->gradients[p])
            fail(w, "I9: node %d has lost gradients in part %d by step %lld", slot, p,
                 (long long)step);
    }
}

bool in_last_view(const world *w, int slot) {
    return find_node(&w->views[w->last_view], slot) >= 0;
}

/* Is one of those who have finished the step like this still a member? Who has died or was left
 * out may have finished it otherwise: what it counted, nobody else may hold. */
static bool is_binding(const world *w, const step_record *r) {
    for (int k = 0; k < w->n_slots; k++)
        if ((r->finished_by >> k & 1) && w->nodes[k].alive && in_last_view(w, k))
            return true;
    return false;
}

void check_finish(world *w, int slot, int64_t step, const step_record *mine) {
    node *n = &w->nodes[slot];
    step_record *r = &w->steps[step];
    if (w->how == GOSSIP || !in_last_view(w, slot)) return;
    trace(w, "node %d finishes step %lld of view %lld, state %016llx", slot,
          (long long)step, (long long)mine->view, (unsigned long long)n->state);
    check_own(w, slot, step, mine);
    if (!r->is_known || !is_binding(w, r)) {
        *r = *mine;
        r->state = n->state;
        r->finished_by = (uint64_t)1 << slot;
        return;
    }
    r->finished_by |= (uint64_t)1 << slot;
    if (r->view != mine->view)
        fail(w, "I4: node %d does step %lld in view %lld, another in view %lld", slot,
             (long long)step, (long long)mine->view, (long long)r->view);
    for (int p = 0; p < w->n_parts; p++)
        if (r->mask[p] != mine->mask[p])
            fail(w, "I3: node %d counts nodes %llx in part %d of step %lld, another %llx",
                 slot, (unsigned long long)mine->mask[p], p, (long long)step,
                 (unsigned long long)r->mask[p]);
    if (r->state != n->state)
        fail(w, "I2: node %d has another state after step %lld", slot, (long long)step);
}

/* I7: what one gives the other takes. */
void check_meeting(world *w, int slot, int other, int64_t step, int64_t shift) {
    step_record *r = &w->steps[step];
    int a = w->nodes[slot].host, b = w->nodes[other].host;
    r->is_known = true;
    if (r->mask[a] >> slot & 1)
        fail(w, "I7: node %d meets twice in step %lld", slot, (long long)step);
    r->mask[a] |= (uint64_t)1 << slot;
    r->sum[a] = shift;
    if ((r->mask[b] >> other & 1) && r->sum[b] != -shift)
        fail(w, "I7: nodes %d and %d move by %lld and %lld in step %lld", slot, other,
             (long long)shift, (long long)r->sum[b], (long long)step);
}

/* The last step that all members of a node's view have finished, whatever its machine knows. */
static int64_t finished_by_all(const world *w, const wefti_view *v) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < v->n_nodes; i++) {
        int64_t at = w->nodes[slot_of(w, v->nodes[i].id)].steps.finished;
        if (at < v->nodes[i].first_step - 1) at = v->nodes[i].first_step - 1;
        if (at < v->cut_low) at = v->cut_low;
        if (at < least) least = at;
    }
    return least;
}

/* I11: at most `window` steps are unfinished, and the machine kept its own rules. */
void check_node(world *w, int slot) {
    const node *n = &w->nodes[slot];
    wefti_member_facts facts = wefti_member_get_facts(n->m);
    if (facts.faults) fail(w, "I11: node %d broke a rule of its own", slot);
    if (facts.refused_messages) fail(w, "I11: node %d could not read a message", slot);
    if (wefti_member_get_state(n->m) < WEFTI_MEMBER_IN || n->steps.begun < 0 || n->is_new)
        return;
    int64_t kept = n->steps.begun - finished_by_all(w, wefti_member_view(n->m));
    if (kept > w->limits.window)
        fail(w, "I11: node %d keeps the pieces of %lld steps", slot, (long long)kept);
}

/* -- the end -- */

bool has_progressed(world *w) {
    int64_t number = -1;
    int n = 0, n_members = 0;
    for (int h = 0; h < w->n_hosts; h++) {
        int slot = w->slot_of_host[h];
        if (slot < 0) continue;
        const node *x = &w->nodes[slot];
        const wefti_view *v = wefti_member_view(x->m);
        if (!is_unit_whole(w, h) && wefti_member_number(x->m) < 0) continue;
        if (wefti_member_get_state(x->m) != WEFTI_MEMBER_IN ||
            wefti_member_number(x->m) < 0)
            return false;
        if (number >= 0 && v->number != number) return false;
        number = v->number;
        n_members = v->n_nodes;
        if (x->steps.finished < w->target) return false;
        n++;
    }
    return n > 0 && n == n_members;
}

/* Too few members of the last view that is known live, or none of them has the state: to stand
 * still is right. */
bool may_be_stuck(world *w) {
    int64_t number = 1; /* the last view that one of the living knows */
    for (int k = 0; k < w->n_slots; k++) {
        const node *n = &w->nodes[k];
        if (n->alive && wefti_member_number(n->m) >= 0 &&
            wefti_member_view(n->m)->number > number)
            number = wefti_member_view(n->m)->number;
    }
    const view_record *r = &w->views[number];
    wefti_view_node nodes[HOSTS];
    wefti_standing standings[HOSTS];
    bool lives[HOSTS], has_state = false;
    for (int i = 0; i < r->n_nodes; i++) {
        const node *n = &w->nodes[r->nodes[i]];
        nodes[i] = (wefti_view_node){.id = n->id};
        lives[i] = n->alive &&
                   wefti_member_number(n->m) >= 0 /* and is a member already */
                   && r->nodes[i] != w->liar;     /* which may decide nothing */
        has_state = has_state || (lives[i] && n->has_state);
        bool is_replaced = w->slot_of_host[n->host] >= 0;
        standings[i] = (wefti_standing){.evidence = is_replaced ? WEFTI_EVIDENCE_DEAD
                                                                : WEFTI_EVIDENCE_CLOSED};
        if (!n->has_record || n->alive || n->record.accepted_view > r->number) continue;
        standings[i].evidence = WEFTI_EVIDENCE_RECORD;
        standings[i].record = n->record;
    }
    wefti_view v = {
        .number = r->number, .chain = r->chain, .n_nodes = r->n_nodes, .nodes = nodes};
    wefti_quorum_question q = {.policy = &w->policy,
                               .view = &v,
                               .answered = lives,
                               .standings = standings,
                               .ballot = {UINT64_MAX, 0}};
    wefti_vote half = {w->seed, v.chain, v.number, wefti_quorum_claim(&q)};
    bool votes = has_votes(w) && wefti_votes_judge(&w->votes, &half) <= WEFTI_VOTE_GIVEN;
    if (votes) q.vote = half.claim;
    return !wefti_quorum_is(&q) || !has_state;
}

/* Who counts in part p of step t, by the views alone. A range whose owner has departed, and whose
 * sum nobody holds, is the sum of what the members sent. */
static uint64_t counted_by_views(const world *w, int64_t t, int part) {
    const view_record *roster = &w->views[w->steps[t].view];
    uint64_t mask = 0;
    int original = w->how == OWNER && part < roster->n_nodes ? roster->nodes[part] : -1;
    for (int i = 0; i < roster->n_nodes; i++) mask |= (uint64_t)1 << roster->nodes[i];
    for (int64_t u = roster->number + 1; u <= w->last_view; u++) {
        const view_record *v = &w->views[u];
        int64_t s = t - v->cut_low - 1;
        if (s < 0 || s >= v->cut_steps) continue;
        bool is_mean_held = false, is_made_again = false;
        uint64_t gone = 0, there = 0;
        for (int d = 0; d < v->n_departed; d++) {
            uint64_t bit = (uint64_t)1 << v->departed[d];
            gone |= bit;
            if (v->held[d][s][0][part]) there |= bit;
            if (v->departed[d] != original) continue;
            is_mean_held = v->held[d][s][1][part];
            is_made_again = !is_mean_held;
        }
        if (!is_mean_held) mask = (mask & ~gone) | (is_made_again ? 0 : there);
    }
    return mask;
}

/* Who enters has nothing, even if it was in a view before, and left out before it heard so. */
static int64_t message_of(const world *w, int i, int64_t t, int part, int64_t *residual) {
    const view_record *r = &w->views[w->steps[t].view];
    if (r->node_first[i] == t) *residual = 0;
    int64_t signal = *residual + row_gradient(t, i, r->n_nodes, part);
    *residual = signal - code(signal);
    return code(signal);
}

/* I12: one process that has the views alone gets the same states. */
static void replay(world *w) {
    int64_t residual[SLOTS][PARTS] = {{0}};
    uint64_t state = 0;
    for (int64_t t = 0; t <= w->best_finished && !w->failure[0]; t++) {
        const view_record *r = &w->views[w->steps[t].view];
        uint64_t agreed = 1;
        for (int p = 0; p < w->n_parts; p++) {
            uint64_t mask = counted_by_views(w, t, p);
            int64_t sum = 0;
            for (int i = 0; i < r->n_nodes; i++) {
                int64_t message = message_of(w, i, t, p, &residual[r->nodes[i]][p]);
                if (mask >> r->nodes[i] & 1) sum += message;
            }
            if (w->how == OWNER && p >= r->n_nodes) continue;
            agreed = mix(mix(agreed, (uint64_t)sum), mask);
        }
        state = mix(state, agreed);
        if (state != w->steps[t].state)
            fail(w, "I12: the views alone give another state after step %lld",
                 (long long)t);
    }
}

void check_end(world *w) {
    w->has_progressed = has_progressed(w);
    if (w->how == GOSSIP) return;
    if (!w->has_progressed) return;
    replay(w);
}
