/* SPDX-License-Identifier: MIT */
/* What a node does besides membership: steps of training, in numbers instead of tensors.
 *
 *     gather   each node sends each part of its message to all; a part's result is the
 *              sum over the nodes that are counted for it
 *     owner    node r's part r is range r: contributions go to its owner, the sum to all
 *     gossip   two nodes meet in each step and each goes half the way to the other's value
 *
 * A message is code(residual + gradient), a multiple of 16; what the coding leaves stays
 * in the residual. All arithmetic is exact, so conservation can be checked to the last
 * bit. */
#include "world.h"

#include <string.h>

static held *place(node *n, const world *w, int64_t step, int sender, int round,
                   int part) {
    return &n->pieces[step % RING][w->nodes[sender].host][round][part];
}

static wefti_roster *get_roster(const world *w, int slot, int64_t step,
                                wefti_roster *room) {
    return step >= 0 && wefti_member_roster(w->nodes[slot].m, step, room) ? room : NULL;
}

/* The piece, if this node holds it and it was sent for the view that the step belongs to.
 */
static held *find_held(world *w, int slot, int64_t step, int sender, int round,
                       int part) {
    node *n = &w->nodes[slot];
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    held *h = place(n, w, step, sender, round, part);
    if (!roster || h->step != step || h->slot != sender || h->tag != roster->number)
        return NULL;
    return h;
}

static void keep(world *w, int slot, const wefti_member_piece *piece,
                 const held *content) {
    int sender = slot_of(w, piece->sender);
    held *h = place(&w->nodes[slot], w, piece->step, sender, piece->round, piece->part);
    *h = *content;
    h->slot = sender;
    h->step = piece->step;
}

static bool is_member(const node *n, wefti_node_id id) {
    return wefti_view_find(wefti_member_view(n->m), id) >= 0;
}

/* -- sending -- */

static void send_piece(world *w, int from, int to, const wefti_member_piece *piece,
                       const held *content) {
    watch_sender(w, from, WEFTI_SAY_KINDS);
    if (to == from || to < 0 || !w->nodes[from].alive || !passes(w, from, to)) return;
    event e = {.kind = EV_PIECE,
               .to = to,
               .from = from,
               .sent_us = w->now_us,
               .piece = *piece,
               .content = *content};
    e.at_us = arrival(w, from, to);
    push(w, &e);
}

/* To all members that the step belongs to. */
static void send_to_roster(world *w, int slot, const wefti_member_piece *piece,
                           const held *content) {
    node *n = &w->nodes[slot];
    wefti_roster roster_now, *roster = get_roster(w, slot, piece->step, &roster_now);
    for (int i = 0; roster && i < roster->n_nodes; i++)
        if (is_member(n, roster->nodes[i].id))
            send_piece(w, slot, slot_of(w, roster->nodes[i].id), piece, content);
}

/* Who a node meets in a step of gossip, in the order of the roster's shares; -1: nobody.
 */
static int partner_of(const world *w, const wefti_roster *roster, int slot,
                      int64_t step) {
    int n = 0, mine = -1, slots[HOSTS];
    for (int i = 0; i < roster->n_nodes; i++) {
        if (slot_of(w, roster->nodes[i].id) == slot) mine = n;
        slots[n++] = slot_of(w, roster->nodes[i].id);
    }
    if (mine < 0 || n < 2) return -1;
    int place_now = (int)((mine + step) % n), other = place_now ^ 1;
    if (other >= n) return -1;
    return slots[(other - step % n + n) % n];
}

/* What becomes of a piece of a step, by the view and its cut. */
typedef enum verdict {
    EXPECT, /* its sender is a member: wait for it */
    FETCH,  /* it counts: ask *holder, or use it if that is this node */
    SKIP    /* it does not count */
} verdict;

static verdict judge(world *w, int slot, int64_t step, wefti_node_id sender, int round,
                     int part, int *holder) {
    const wefti_view *v = wefti_member_view(w->nodes[slot].m);
    int member = wefti_view_find(v, sender), d = wefti_view_find_departed(v, sender);
    int64_t s = step - v->cut_low - 1;
    *holder = slot_of(w, sender);
    if (member >= 0 && v->nodes[member].first_step <= step) return EXPECT;
    if (d < 0 || s < 0 || s >= v->cut_steps) return SKIP;
    int number = *wefti_view_holder(&w->limits, v, d, (int)s, round, part);
    if (number == WEFTI_MEMBER_NOBODY) return SKIP;
    *holder = slot_of(w, v->nodes[number].id);
    return FETCH;
}

/* A node's part of each range goes to the range's owner; if the owner has departed and nobody
 * holds its sum, to all, who then add by themselves. */
static void send_parts(world *w, int slot, int64_t step, bool again) {
    node *n = &w->nodes[slot];
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    for (int p = 0; roster && p < roster->n_nodes && n->alive; p++) {
        wefti_member_piece piece = {.step = step, .sender = n->id, .part = p};
        const held *h = find_held(w, slot, step, slot, 0, p);
        bool has_owner = is_member(n, roster->nodes[p].id);
        int holder;
        if (!h || (has_owner && again)) continue;
        if (has_owner)
            send_piece(w, slot, slot_of(w, roster->nodes[p].id), &piece, h);
        else if (judge(w, slot, step, roster->nodes[p].id, 1, p, &holder) == SKIP)
            send_to_roster(w, slot, &piece, h);
    }
}

static void send_own(world *w, int slot, int64_t step) {
    node *n = &w->nodes[slot];
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    for (int p = 0; p < w->n_parts; p++) {
        wefti_member_piece piece = {.step = step, .sender = n->id, .part = p};
        held content = {.tag = roster->number, .value = n->own[step % RING][p]};
        if (w->how == GOSSIP) content.value = n->x;
        keep(w, slot, &piece, &content);
        if (w->how != OWNER) send_to_roster(w, slot, &piece, &content);
    }
    if (w->how == OWNER) send_parts(w, slot, step, false);
    n->steps.sent = step;
}

/* -- a step -- */

void host_feed(world *w, int slot) {
    node *n = &w->nodes[slot];
    wefti_member_event e = {.kind = WEFTI_EVENT_STEPS, .steps = n->steps};
    if (!n->has_news) return;
    n->has_news = false;
    step_node(w, slot, &e);
}

/* The machine has a thread of its own (lib/mesh), which looks at what the threads that train have
 * done when the machine wakes, before an inventory, and every so often. */
static void tell_steps(world *w, int slot) {
    node *n = &w->nodes[slot];
    bool waits = n->has_news;
    n->has_news = true;
    if (w->feed_us == 0) host_feed(w, slot);
    if (w->feed_us <= 0 || waits) return;
    event e = {.kind = EV_FEED, .to = slot};
    e.at_us = w->now_us + w->feed_us - (w->now_us + n->offset_us) % w->feed_us;
    push(w, &e);
}

static void begin(world *w, int slot, int64_t step) {
    node *n = &w->nodes[slot];
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    wefti_view as_view = {.n_nodes = roster->n_nodes, .nodes = roster->nodes};
    int number = wefti_view_find(&as_view, n->id);
    check_begin(w, slot, step);
    for (int p = 0; p < w->n_parts; p++) {
        int64_t gradient = row_gradient(step, number, roster->n_nodes, p);
        int64_t signal = n->residual[p] + gradient, message = code(signal);
        n->gradients[p] += gradient;
        n->residual[p] = signal - message;
        n->own[step % RING][p] = message;
        if (w->how == GOSSIP) n->x += gradient;
    }
    n->steps.begun = step;
    n->computes = true;
    n->is_computed = false;
    event e = {.kind = EV_COMPUTED, .to = slot, .piece = {.step = step}};
    e.at_us = w->now_us + n->speed_us / 2 + draw_below(w, n->speed_us);
    push(w, &e);
    tell_steps(w, slot);
}

/* Asks another node for something; answered by host_answer. */
static void get(world *w, int slot, int from, event_kind kind,
                const wefti_member_piece *piece) {
    if (from < 0 || from == slot || !passes(w, slot, from)) return;
    event e = {.kind = kind, .to = from, .from = slot, .sent_us = w->now_us};
    e.piece = *piece;
    e.at_us = arrival(w, slot, from);
    push(w, &e);
}

static void ask(world *w, int slot, int holder, const wefti_member_piece *piece) {
    watch_sender(w, slot, WEFTI_SAY_KINDS);
    if (w->nodes[slot].alive) get(w, slot, holder, EV_PIECE_GET, piece);
}

/* Adds a piece to a sum, or says that it is missing (and asks for it, if `asks`). */
static bool add(world *w, int slot, const wefti_member_piece *piece, bool asks,
                bool of_members, held *sum) {
    int holder, sender = slot_of(w, piece->sender);
    verdict v = judge(w, slot, piece->step, piece->sender, piece->round, piece->part,
                      &holder);
    if (v == SKIP || (of_members && v != EXPECT)) return true;
    const held *h = find_held(w, slot, piece->step, sender, piece->round, piece->part);
    if (!h) {
        if (asks || (v == FETCH && w->nodes[slot].fetches)) ask(w, slot, holder, piece);
        return false;
    }
    sum->value += h->value;
    sum->mask |= (uint64_t)1 << sender;
    return true;
}

/* The sum of one part over the roster, or over those of it that are still members. */
static bool sum_part(world *w, int slot, const wefti_member_piece *of, bool asks,
                     bool of_members, held *sum) {
    wefti_roster roster_now, *roster = get_roster(w, slot, of->step, &roster_now);
    bool is_whole = true;
    *sum = (held){.tag = roster->number};
    for (int i = 0; i < roster->n_nodes; i++) {
        wefti_member_piece piece = {
            .step = of->step, .sender = roster->nodes[i].id, .part = of->part};
        if (!add(w, slot, &piece, asks, of_members, sum)) is_whole = false;
    }
    return is_whole;
}

/* A range, whose owner in the roster is `of->sender`: its sum is held, comes, or is made; if the
 * owner has departed, each makes it, of what the members sent. */
static bool get_range(world *w, int slot, const wefti_member_piece *of, bool asks,
                      held *sum) {
    int holder, owner = slot_of(w, of->sender);
    verdict v = judge(w, slot, of->step, of->sender, 1, of->part, &holder);
    const held *h = find_held(w, slot, of->step, owner, 1, of->part);
    if (h) {
        *sum = *h;
        return true;
    }
    if (v == FETCH || (v == EXPECT && owner != slot)) {
        if (asks || (v == FETCH && w->nodes[slot].fetches)) ask(w, slot, holder, of);
        return false;
    }
    bool is_lost = v == SKIP; /* it is put in place under the cut that says so */
    if (is_lost && wefti_member_is_frozen(w->nodes[slot].m)) return false;
    if (!sum_part(w, slot, of, asks, is_lost, sum)) return false;
    keep(w, slot, of, sum);
    if (owner == slot) send_to_roster(w, slot, of, sum);
    return true;
}

static bool get_result(world *w, int slot, int64_t step, bool asks, step_record *out) {
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    bool is_whole = true;
    *out = (step_record){.is_known = true, .view = roster->number, .agreed = 1};
    for (int p = 0; p < (w->how == OWNER ? roster->n_nodes : w->n_parts); p++) {
        held sum = {0};
        bool has = true;
        wefti_member_piece of = {.step = step, .part = p};
        if (w->how == GATHER) {
            has = sum_part(w, slot, &of, asks, false, &sum);
        } else {
            of.sender = roster->nodes[p].id;
            of.round = 1;
            has = get_range(w, slot, &of, asks, &sum);
        }
        is_whole = is_whole && has;
        out->sum[p] = sum.value;
        out->mask[p] = sum.mask;
        out->agreed = mix(mix(out->agreed, (uint64_t)sum.value), sum.mask);
    }
    return is_whole;
}

/* Half the way to the other's value; a lost neighbour's weight goes to the node itself.
 */
static bool get_meeting(world *w, int slot, int64_t step, bool asks) {
    node *n = &w->nodes[slot];
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    int other = partner_of(w, roster, slot, step);
    if (other < 0) return true;
    wefti_member_piece piece = {.step = step, .sender = w->nodes[other].id};
    const held *theirs = find_held(w, slot, step, other, 0, 0);
    const held *mine = find_held(w, slot, step, slot, 0, 0);
    if (!mine) {
        fail(w, "I4: node %d sent its value of step %lld for another view", slot,
             (long long)step);
        return false;
    }
    if (!theirs) {
        bool comes = is_member(n, piece.sender);
        if (comes && asks) ask(w, slot, other, &piece);
        return !comes;
    }
    int64_t shift = (theirs->value - mine->value) / 2;
    n->x += shift;
    check_meeting(w, slot, other, step, shift);
    return true;
}

static void finish(world *w, int slot, int64_t step, const step_record *result) {
    node *n = &w->nodes[slot];
    n->steps.finished = step;
    n->state = mix(n->state, result->agreed);
    n->past[step % HISTORY].step = step;
    n->past[step % HISTORY].agreed = result->agreed;
    n->past[step % HISTORY].state = n->state;
    if (step > w->best_finished) w->best_finished = step;
    check_finish(w, slot, step, result);
    tell_steps(w, slot);
}

static bool may_begin(world *w, int slot, int64_t step) {
    node *n = &w->nodes[slot];
    const wefti_view *v = wefti_member_view(n->m);
    int number = wefti_member_number(n->m);
    if (n->computes || step >= STEPS || !n->has_state ||
        step < v->nodes[number].first_step)
        return false;
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    int lag = roster->first_step == step ? 0
                                         : w->lag; /* a world begins when all is done */
    /* nothing else keeps pairs together: the others wait for each other's messages */
    bool asks = w->how == GOSSIP;
    return step - 1 - n->steps.finished <= lag &&
           (!asks || step - 1 - wefti_member_stable(n->m) < w->limits.window);
}

static bool is_in(const node *n) {
    return n->alive && wefti_member_get_state(n->m) >= WEFTI_MEMBER_IN &&
           wefti_member_number(n->m) >= 0;
}

/* Finishes the first unfinished step, if all that counts in it is here. */
static bool try_finish(world *w, int slot, bool asks) {
    node *n = &w->nodes[slot];
    int64_t step = n->steps.finished + 1;
    if (step > n->steps.sent) return false;
    n->fetches = n->fetched != step; /* once, then at each look */
    n->fetched = step;
    wefti_roster roster_now;
    step_record result = {.agreed = 1,
                          .view = get_roster(w, slot, step, &roster_now)->number};
    bool is_done = w->how == GOSSIP ? get_meeting(w, slot, step, asks)
                                    : get_result(w, slot, step, asks, &result);
    if (is_done && n->alive) finish(w, slot, step, &result);
    return is_done;
}

/* Whatever can go on goes on. A node that is frozen begins no step, but sends what it has computed
 * and finishes a step of which it has everything: its threads do not stop. */
static void advance(world *w, int slot, bool asks) {
    node *n = &w->nodes[slot];
    while (is_in(n) && !w->failure[0]) {
        bool frozen = wefti_member_is_frozen(n->m);
        if (n->is_computed && n->computes) {
            n->computes = false;
            send_own(w, slot, n->steps.begun);
            tell_steps(w, slot);
        } else if (!try_finish(w, slot, asks && !frozen)) {
            if (frozen || !is_in(n) || !may_begin(w, slot, n->steps.begun + 1)) return;
            begin(w, slot, n->steps.begun + 1);
        }
    }
}

void host_computed(world *w, int slot, int64_t step) {
    node *n = &w->nodes[slot];
    if (n->steps.begun != step || !n->computes) return;
    n->is_computed = true;
    advance(w, slot, false);
}

/* -- pieces -- */

static void take_piece(world *w, int slot, int from, const wefti_member_piece *piece,
                       const held *content) {
    node *n = &w->nodes[slot];
    wefti_roster roster_now, *roster = get_roster(w, slot, piece->step, &roster_now);
    if (!roster || roster->number != content->tag || !is_member(n, w->nodes[from].id))
        return;
    if (piece->step + RING <= n->steps.begun || piece->step >= n->steps.begun + RING)
        return;
    keep(w, slot, piece, content);
    bool is_own = wefti_node_is(piece->sender, w->nodes[from].id);
    wefti_member_event e = {.kind = WEFTI_EVENT_DATA, .peer = w->nodes[from].id};
    e.steps.begun = is_own ? piece->step : -1;
    step_node(w, slot, &e);
    advance(w, slot, false);
}

void host_piece(world *w, int slot, event *e) {
    node *n = &w->nodes[slot];
    const node *from = &w->nodes[e->from];
    if (!from->alive && e->sent_us > from->lost_after_us[slot]) return;
    if (wefti_member_get_state(n->m) < WEFTI_MEMBER_IN) return;
    if (wefti_member_is_frozen(n->m) ||
        e->content.tag > wefti_member_view(n->m)->number) {
        event later = *e; /* what arrives waits */
        later.at_us = w->now_us + 3000;
        if (++later.tries < 1000) push(w, &later);
        return;
    }
    take_piece(w, slot, e->from, &e->piece, &e->content);
}

/* The state after a step is given away only when all members have finished that step: what
 * only some have finished, the others may finish otherwise if those die. */
static void give_state(world *w, int slot, const event *get) {
    const node *n = &w->nodes[slot];
    int64_t step = get->piece.step;
    if (!n->has_state || step > wefti_member_stable(n->m) || step > n->steps.finished ||
        (step >= 0 && n->past[step % HISTORY].step != step) ||
        !passes(w, slot, get->from))
        return;
    event e = {.kind = EV_STATE, .to = get->from, .from = slot, .piece.step = step};
    e.sent_us = w->now_us;
    e.at_us = arrival(w, slot, get->from);
    e.content.mask = step < 0 ? 0 : n->past[step % HISTORY].state;
    e.content.value = n->x;
    push(w, &e);
}

void host_answer(world *w, int slot, const event *get) {
    node *n = &w->nodes[slot];
    if (wefti_member_get_state(n->m) < WEFTI_MEMBER_IN ||
        !is_member(n, w->nodes[get->from].id))
        return;
    if (get->kind == EV_STATE_GET) {
        give_state(w, slot, get);
        return;
    }
    int sender = slot_of(w, get->piece.sender);
    const held *h = find_held(w, slot, get->piece.step, sender, get->piece.round,
                              get->piece.part);
    if (h) send_piece(w, slot, get->from, &get->piece, h);
}

/* -- changes of view -- */

void host_freeze(world *w, int slot, wefti_ballot ballot) {
    node *n = &w->nodes[slot];
    unsigned char held_bits[ENTRIES][ROUNDS * ((PARTS + 7) / 8)];
    wefti_inventory_entry entries[ENTRIES];
    int row = (w->limits.parts + 7) / 8;
    host_feed(w, slot);
    if (!n->alive || !wefti_member_is_frozen(n->m)) return;
    wefti_member_event e = {
        .kind = WEFTI_EVENT_INVENTORY, .ballot = ballot, .entries = entries};
    int64_t low = wefti_member_stable(n->m);
    for (int64_t t = low + 1; wefti_member_is_open(n->m, t) && w->how != GOSSIP; t++) {
        wefti_roster roster_now, *roster = get_roster(w, slot, t, &roster_now);
        for (int i = 0; roster && i < roster->n_nodes && e.n_entries < ENTRIES; i++) {
            wefti_node_id id = roster->nodes[i].id;
            int sender = slot_of(w, id);
            wefti_inventory_entry *entry = &entries[e.n_entries];
            if (!wefti_member_departs(n->m, id)) continue;
            *entry = (wefti_inventory_entry){.sender = id, .step = t};
            unsigned char *bits = held_bits[e.n_entries];
            bool has[ROUNDS] = {false};
            entry->held = bits;
            memset(bits, 0, sizeof held_bits[0]);
            for (int r = 0; r < w->limits.rounds; r++)
                for (int p = 0; p < w->n_parts; p++)
                    if (find_held(w, slot, t, sender, r, p)) {
                        bits[r * row + p / 8] |= (unsigned char)(1u << p % 8);
                        has[r] = true;
                    }
            entry->counted = has[0];
            for (int k = 0; w->how == OWNER && k < roster->n_nodes; k++) {
                const held *mean = find_held(w, slot, t, slot_of(w, roster->nodes[k].id),
                                             1, k);
                if (mean && mean->mask >> sender & 1) entry->counted = true;
            }
            if (entry->counted || has[1]) e.n_entries++;
        }
    }
    step_node(w, slot, &e);
}

/* Who has just joined asks all others for the state before its first step. */
static void ask_state(world *w, int slot) {
    node *n = &w->nodes[slot];
    const wefti_view *v = wefti_member_view(n->m);
    if (n->has_state || wefti_member_number(n->m) < 0) return;
    wefti_member_piece piece = {.step = v->nodes[wefti_member_number(n->m)].first_step -
                                        1};
    for (int i = 0; i < v->n_nodes; i++)
        get(w, slot, slot_of(w, v->nodes[i].id), EV_STATE_GET, &piece);
}

void host_state(world *w, int slot, const event *e) {
    node *n = &w->nodes[slot];
    int64_t step = e->piece.step;
    int number = wefti_member_number(n->m);
    if (n->has_state || number < 0 ||
        step != wefti_member_view(n->m)->nodes[number].first_step - 1)
        return;
    n->has_state = true;
    n->steps = (wefti_member_steps){step, step, step};
    n->state = e->content.mask;
    n->x = e->content.value;
    if (step >= 0) {
        n->past[step % HISTORY].step = step;
        n->past[step % HISTORY].state = n->state;
    }
    w->counts[COUNT_ENTERED]++;
    tell_steps(w, slot);
    advance(w, slot, false);
}

void host_installed(world *w, int slot) {
    node *n = &w->nodes[slot];
    w->n_installs++;
    leave_alone(w, slot);
    if (!n->alive) return;
    ask_state(w, slot);
    int64_t t = wefti_member_stable(n->m);
    for (t = t < 0 ? 0 : t; w->how == OWNER && t <= n->steps.sent && n->alive; t++)
        send_parts(w, slot, t, true);
    if (n->alive) advance(w, slot, true);
}

/* Now and then: what is still missing is asked for again. */
void host_look(world *w, int slot) {
    tell_deaths(w, slot);
    if (w->nodes[slot].alive) ask_state(w, slot);
    if (w->nodes[slot].alive) advance(w, slot, true);
}

void host_reset(world *w, int slot) {
    node *n = &w->nodes[slot];
    n->steps = (wefti_member_steps){-1, -1, -1};
    n->is_new = true;
    n->speed_us = 20000 + draw_below(w, 80000);
    for (int k = 0; k < HISTORY; k++) n->past[k].step = -1;
    for (int r = 0; r < RING; r++)
        for (int h = 0; h < HOSTS; h++)
            for (int k = 0; k < ROUNDS; k++)
                for (int p = 0; p < PARTS; p++) n->pieces[r][h][k][p].step = -1;
}
