/* SPDX-License-Identifier: MIT */
/* What a node does besides membership: steps of training, in numbers instead of tensors.
 *
 *     gather   each node sends each part of its message to all; a part's result is the
 * sum over the nodes that are counted for it owner    node r's part r is range r:
 * contributions go to its owner, the sum to all gossip   two nodes meet in each step and
 * each goes half the way to the other's value
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
    if (w->sender_kind == WEFTI_SAY_KINDS && --w->sender_count == 0) {
        w->sender_kind = 0;
        trace(w, "fault: node %d dies while it sends pieces", from);
        kill_slot(w, from, true, w->sender_comes_back);
    }
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
        if (!roster->nodes[i].witness && is_member(n, roster->nodes[i].id))
            send_piece(w, slot, slot_of(w, roster->nodes[i].id), piece, content);
}

static int share_in(const wefti_roster *roster, int i) {
    wefti_view as_view = {.n_nodes = roster->n_nodes, .nodes = roster->nodes};
    return wefti_view_share(&as_view, i);
}

/* Who a node meets in a step of gossip, in the order of the roster's shares; -1: nobody.
 */
static int partner_of(const world *w, const wefti_roster *roster, int slot,
                      int64_t step) {
    int n = 0, mine = -1, slots[HOSTS];
    for (int i = 0; i < roster->n_nodes; i++) {
        if (roster->nodes[i].witness) continue;
        if (slot_of(w, roster->nodes[i].id) == slot) mine = n;
        slots[n++] = slot_of(w, roster->nodes[i].id);
    }
    if (mine < 0 || n < 2) return -1;
    int place_now = (int)((mine + step) % n), other = place_now ^ 1;
    if (other >= n) return -1;
    return slots[(other - step % n + n) % n];
}

static void send_own(world *w, int slot, int64_t step) {
    node *n = &w->nodes[slot];
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    wefti_member_piece piece = {.step = step, .sender = n->id};
    for (int p = 0; p < w->n_parts; p++) {
        held content = {.tag = roster->number, .value = n->own[step % RING][p]};
        piece.part = p;
        if (w->how == GOSSIP) content.value = n->x;
        keep(w, slot, &piece, &content);
        if (w->how != OWNER) send_to_roster(w, slot, &piece, &content);
    }
    for (int i = 0; w->how == OWNER && i < roster->n_nodes; i++) {
        wefti_node_id owner = wefti_member_owner(n->m, roster->nodes[i].id);
        piece.part = share_in(roster, i);
        if (piece.part < 0 || !is_member(n, owner)) continue;
        held content = {.tag = roster->number, .value = n->own[step % RING][piece.part]};
        send_piece(w, slot, slot_of(w, owner), &piece, &content);
    }
    n->steps.sent = step;
}

/* -- a step -- */

static void tell_steps(world *w, int slot) {
    wefti_member_event e = {.kind = WEFTI_EVENT_STEPS,
                            .steps = w->nodes[slot].steps,
                            .checksum = w->nodes[slot].state};
    step_node(w, slot, &e);
}

static void begin(world *w, int slot, int64_t step) {
    node *n = &w->nodes[slot];
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    wefti_view as_view = {.n_nodes = roster->n_nodes, .nodes = roster->nodes};
    int number = wefti_view_find(&as_view, n->id);
    wefti_row_block blocks[256];
    int n_blocks = wefti_roster_rows(roster, number, step, blocks);
    check_begin(w, slot, step);
    for (int p = 0; p < w->n_parts; p++) {
        int64_t gradient = 0;
        for (int b = 0; b < n_blocks; b++) gradient += row_gradient(&blocks[b], p);
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

static wefti_verdict judge(world *w, int slot, int64_t step, wefti_node_id sender,
                           int round, int part, int *holder) {
    wefti_member_piece piece = {
        .step = step, .sender = sender, .round = round, .part = part};
    wefti_node_id id = {0};
    wefti_verdict v = wefti_member_judge(w->nodes[slot].m, &piece, &id);
    *holder = v == WEFTI_VERDICT_FETCH ? slot_of(w, id) : slot_of(w, sender);
    return v;
}

static void ask(world *w, int slot, int holder, const wefti_member_piece *piece) {
    unsigned char bytes[256];
    wefti_message get = {.kind = WEFTI_SAY_RESEND_GET, .piece = *piece};
    if (holder < 0 || holder == slot) return;
    wefti_member_action a = {.peer = w->nodes[holder].id, .bytes = bytes};
    a.n_bytes = wefti_member_encode(w->nodes[slot].m, &get, bytes, sizeof bytes);
    if (!passes(w, slot, holder)) return;
    event e = {.kind = EV_BYTES, .to = holder, .from = slot, .sent_us = w->now_us};
    e.at_us = arrival(w, slot, holder);
    e.n_bytes = (uint32_t)a.n_bytes;
    e.bytes = copy_bytes(bytes, a.n_bytes);
    push(w, &e);
}

/* Adds a piece to a sum, or says that it is missing (and asks for it, if `asks`). */
static bool add(world *w, int slot, const wefti_member_piece *piece, bool asks,
                held *sum) {
    int holder, sender = slot_of(w, piece->sender);
    wefti_verdict v = judge(w, slot, piece->step, piece->sender, piece->round,
                            piece->part, &holder);
    if (v == WEFTI_VERDICT_SKIP) return true;
    const held *h = find_held(w, slot, piece->step, sender, piece->round, piece->part);
    if (!h) {
        if (asks || v == WEFTI_VERDICT_FETCH) ask(w, slot, holder, piece);
        return false;
    }
    sum->value += h->value;
    sum->mask |= (uint64_t)1 << sender;
    return true;
}

/* The sum of one part over the roster. */
static bool sum_part(world *w, int slot, int64_t step, int part, bool asks, held *sum) {
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    bool is_whole = true;
    *sum = (held){.tag = roster->number};
    for (int i = 0; i < roster->n_nodes; i++) {
        wefti_member_piece piece = {
            .step = step, .sender = roster->nodes[i].id, .part = part};
        if (!roster->nodes[i].witness && !add(w, slot, &piece, asks, sum))
            is_whole = false;
    }
    return is_whole;
}

/* Range `part`, whose owner in the roster is `original`: its sum is held, comes, or is
 * made. */
static bool get_range(world *w, int slot, int64_t step, wefti_node_id original, int part,
                      bool asks, held *sum) {
    node *n = &w->nodes[slot];
    wefti_member_piece piece = {
        .step = step, .sender = original, .round = 1, .part = part};
    int holder, sender = slot_of(w, original);
    wefti_verdict v = judge(w, slot, step, original, 1, part, &holder);
    const held *h = find_held(w, slot, step, sender, 1, part);
    if (h) {
        *sum = *h;
        return true;
    }
    int owner = slot_of(w, wefti_member_owner(n->m, original));
    if (v == WEFTI_VERDICT_FETCH) {
        ask(w, slot, holder, &piece);
        return false;
    }
    if (owner != slot) {
        if (asks) ask(w, slot, owner, &piece);
        return false;
    }
    if (!sum_part(w, slot, step, part, asks, sum)) return false;
    keep(w, slot, &piece, sum);
    send_to_roster(w, slot, &piece, sum);
    return true;
}

static bool get_result(world *w, int slot, int64_t step, bool asks, step_record *out) {
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    bool is_whole = true;
    *out = (step_record){.is_known = true, .view = roster->number, .agreed = 1};
    for (int i = 0, p = 0; i < (w->how == OWNER ? roster->n_nodes : w->n_parts); i++) {
        held sum = {0};
        bool has = true;
        if (w->how == GATHER) {
            has = sum_part(w, slot, step, p, asks, &sum);
        } else {
            if (roster->nodes[i].witness) continue;
            has = get_range(w, slot, step, roster->nodes[i].id, p, asks, &sum);
        }
        is_whole = is_whole && has;
        out->sum[p] = sum.value;
        out->mask[p] = sum.mask;
        out->agreed = mix(mix(out->agreed, (uint64_t)sum.value), sum.mask);
        p++;
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

static bool may_begin(world *w, int slot) {
    node *n = &w->nodes[slot];
    const wefti_view *v = wefti_member_view(n->m);
    int number = wefti_member_number(n->m);
    if (v->nodes[number].witness || n->steps.finished < v->nodes[number].first_step - 1)
        return false;
    return n->steps.begun - wefti_member_stable(n->m) < w->limits.window;
}

static bool can_work(const node *n) {
    return n->alive && wefti_member_get_state(n->m) >= WEFTI_MEMBER_IN &&
           wefti_member_number(n->m) >= 0 && !wefti_member_is_frozen(n->m);
}

/* Whatever can go on goes on. */
static void advance(world *w, int slot, bool asks) {
    node *n = &w->nodes[slot];
    while (can_work(n) && !w->failure[0]) {
        if (n->steps.finished == n->steps.begun) {
            if (may_begin(w, slot) && n->steps.begun + 1 < STEPS)
                begin(w, slot, n->steps.begun + 1);
            return;
        }
        int64_t step = n->steps.begun;
        if (n->is_computed && n->computes) {
            n->computes = false;
            send_own(w, slot, step);
            tell_steps(w, slot);
            continue;
        }
        if (n->computes) return;
        wefti_roster roster_now;
        step_record result = {.agreed = 1,
                              .view = get_roster(w, slot, step, &roster_now)->number};
        bool is_done = w->how == GOSSIP ? get_meeting(w, slot, step, asks)
                                        : get_result(w, slot, step, asks, &result);
        if (!is_done) return;
        finish(w, slot, step, &result);
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

static void answer_piece(world *w, int slot, const wefti_message *get) {
    int to = slot_of(w, get->from), sender = slot_of(w, get->piece.sender);
    if (to < 0 || sender < 0) return;
    const held *h = find_held(w, slot, get->piece.step, sender, get->piece.round,
                              get->piece.part);
    if (h) send_piece(w, slot, to, &get->piece, h);
}

/* -- changes of view -- */

void host_freeze(world *w, int slot, wefti_ballot ballot) {
    node *n = &w->nodes[slot];
    unsigned char held_bits[SLOTS][2];
    wefti_inventory_entry entries[SLOTS];
    wefti_member_event e = {
        .kind = WEFTI_EVENT_INVENTORY, .ballot = ballot, .entries = entries};
    int64_t low = wefti_member_stable(n->m);
    /* also of steps that this node has not begun: who has just entered holds such */
    for (int64_t t = low + 1; t <= low + 2 * w->limits.window && w->how != GOSSIP; t++) {
        wefti_roster roster_now, *roster = get_roster(w, slot, t, &roster_now);
        for (int i = 0; roster && i < roster->n_nodes && e.n_entries < SLOTS; i++) {
            wefti_node_id id = roster->nodes[i].id;
            int sender = slot_of(w, id);
            wefti_inventory_entry *entry = &entries[e.n_entries];
            if (roster->nodes[i].witness || !wefti_member_departs(n->m, id)) continue;
            *entry = (wefti_inventory_entry){.sender = id, .step = t};
            entry->held = held_bits[e.n_entries];
            held_bits[e.n_entries][0] = held_bits[e.n_entries][1] = 0;
            for (int r = 0; r < w->limits.rounds; r++)
                for (int p = 0; p < w->n_parts; p++)
                    if (find_held(w, slot, t, sender, r, p))
                        held_bits[e.n_entries][r] |= (unsigned char)(1u << p);
            entry->counted = held_bits[e.n_entries][0] != 0;
            for (int k = 0, p = 0; w->how == OWNER && k < roster->n_nodes; k++) {
                if (roster->nodes[k].witness) continue;
                const held *mean = find_held(w, slot, t, slot_of(w, roster->nodes[k].id),
                                             1, p++);
                if (mean && mean->mask >> sender & 1) entry->counted = true;
            }
            if (entry->counted || held_bits[e.n_entries][1]) e.n_entries++;
        }
    }
    step_node(w, slot, &e);
}

/* New owners of ranges get this node's contributions again. */
static void contribute_again(world *w, int slot, int64_t step) {
    node *n = &w->nodes[slot];
    wefti_roster roster_now, *roster = get_roster(w, slot, step, &roster_now);
    for (int i = 0; roster && i < roster->n_nodes; i++) {
        wefti_node_id original = roster->nodes[i].id;
        int part = share_in(roster, i), holder;
        if (part < 0 || is_member(n, original)) continue;
        if (judge(w, slot, step, original, 1, part, &holder) != WEFTI_VERDICT_SKIP)
            continue;
        wefti_member_piece piece = {.step = step, .sender = n->id, .part = part};
        const held *h = find_held(w, slot, step, slot, 0, part);
        if (h)
            send_piece(w, slot, slot_of(w, wefti_member_owner(n->m, original)), &piece,
                       h);
    }
}

void host_installed(world *w, int slot) {
    node *n = &w->nodes[slot];
    w->n_installs++;
    for (int64_t t = n->steps.sent - 1; w->how == OWNER && t <= n->steps.sent; t++)
        if (t >= 0) contribute_again(w, slot, t);
    if (n->alive) advance(w, slot, true);
}

/* Now and then: what is still missing is asked for again. */
void host_look(world *w, int slot) {
    tell_deaths(w, slot);
    if (w->nodes[slot].alive) advance(w, slot, true);
}

/* -- joining -- */

static void say(world *w, int slot, wefti_node_id to, wefti_message *message) {
    unsigned char bytes[512];
    int target = slot_of(w, to);
    if (target < 0 || !passes(w, slot, target)) return;
    event e = {.kind = EV_BYTES, .to = target, .from = slot, .sent_us = w->now_us};
    e.at_us = arrival(w, slot, target);
    e.n_bytes = (uint32_t)wefti_member_encode(w->nodes[slot].m, message, bytes,
                                              sizeof bytes);
    e.bytes = copy_bytes(bytes, e.n_bytes);
    push(w, &e);
}

enum { SNAP_PIECES = 20 };

/* Donors give what every member has finished, and nothing later: what only some have finished,
 * the others may finish otherwise if those die. */
static void answer_snapshot(world *w, int slot, const wefti_message *get) {
    const node *n = &w->nodes[slot];
    int64_t step = get->step < 0 ? wefti_member_stable(n->m) : get->step;
    if (step < 0 || step > wefti_member_stable(n->m) ||
        n->past[step % HISTORY].step != step)
        return;
    uint64_t state = n->past[step % HISTORY].state;
    wefti_message out = {.kind = WEFTI_SAY_SNAP_OFFER,
                         .step = step,
                         .checksum = state,
                         .snap_piece = SNAP_PIECES};
    unsigned char payload[8];
    if (get->snap_piece != WEFTI_SNAP_WHICH) {
        out.kind = WEFTI_SAY_SNAP_PIECE;
        out.snap_piece = get->snap_piece;
        int64_t content = w->how == GOSSIP ? n->x : (int64_t)state;
        memcpy(payload, &content, sizeof payload);
        out.payload = payload;
        out.n_payload = sizeof payload;
    }
    say(w, slot, get->from, &out);
}

static void answer_replay(world *w, int slot, const wefti_message *get) {
    const node *n = &w->nodes[slot];
    for (int64_t step = get->step; step < get->step + WEFTI_REPLAY_WINDOW; step++) {
        if (step < 0 || step > wefti_member_stable(n->m) ||
            n->past[step % HISTORY].step != step || n->past[step % HISTORY].agreed == 0)
            return;
        unsigned char payload[8];
        memcpy(payload, &n->past[step % HISTORY].agreed, sizeof payload);
        wefti_message out = {.kind = WEFTI_SAY_REPLAY,
                             .step = step,
                             .payload = payload,
                             .n_payload = sizeof payload};
        say(w, slot, get->from, &out);
    }
}

static void adopt(world *w, int slot, int64_t step, uint64_t agreed, uint64_t state) {
    node *n = &w->nodes[slot];
    n->steps = (wefti_member_steps){step, step, step};
    n->state = state;
    n->past[step % HISTORY].step = step;
    n->past[step % HISTORY].agreed = agreed;
    n->past[step % HISTORY].state = state;
    tell_steps(w, slot);
    advance(w, slot, false);
}

static void take_snapshot(world *w, int slot, const wefti_message *message) {
    node *n = &w->nodes[slot];
    uint64_t content;
    if (message->n_payload != 8) return;
    memcpy(&content, message->payload, sizeof content);
    if (n->snap_step != message->step) n->snap_pieces = 0;
    n->snap_step = message->step;
    n->snap_state = content;
    if (++n->snap_pieces < SNAP_PIECES) return;
    if (w->how == GOSSIP) {
        n->x = (int64_t)content;
        content = 0;
        for (int64_t t = 0; t <= message->step; t++) content = mix(content, 1);
    }
    adopt(w, slot, message->step, 0, content); /* what was agreed in it is not known */
}

static void take_replay(world *w, int slot, const wefti_message *message) {
    node *n = &w->nodes[slot];
    if (message->n_payload != 8) return;
    int k = (int)(message->step % REPLAYS);
    n->replay_steps[k] = message->step;
    memcpy(&n->replays[k], message->payload, sizeof n->replays[k]);
    for (;;) {
        int64_t next = n->steps.finished + 1;
        k = (int)(next % REPLAYS);
        if (!n->alive || n->replay_steps[k] != next || n->steps.begun >= next) return;
        adopt(w, slot, next, n->replays[k], mix(n->state, n->replays[k]));
    }
}

void host_message(world *w, int slot, const wefti_message *message) {
    switch (message->kind) {
    case WEFTI_SAY_RESEND_GET: answer_piece(w, slot, message); break;
    case WEFTI_SAY_SNAP_GET: answer_snapshot(w, slot, message); break;
    case WEFTI_SAY_REPLAY_GET: answer_replay(w, slot, message); break;
    case WEFTI_SAY_SNAP_PIECE: take_snapshot(w, slot, message); break;
    case WEFTI_SAY_REPLAY: take_replay(w, slot, message); break;
    default: break;
    }
}

void host_reset(world *w, int slot) {
    node *n = &w->nodes[slot];
    n->steps = (wefti_member_steps){-1, -1, -1};
    n->snap_step = -1;
    n->is_new = true;
    n->speed_us = 20000 + draw_below(w, 80000);
    for (int k = 0; k < REPLAYS; k++) n->replay_steps[k] = -1;
    for (int k = 0; k < HISTORY; k++) n->past[k].step = -1;
    for (int r = 0; r < RING; r++)
        for (int h = 0; h < HOSTS; h++)
            for (int k = 0; k < 2; k++)
                for (int p = 0; p < PARTS; p++) n->pieces[r][h][k][p].step = -1;
}
