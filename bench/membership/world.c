/* SPDX-License-Identifier: MIT */
/* Time, the network, the nodes' lives. Events are taken in the order (time, number). */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/rng.h"

/* splitmix64 */
uint64_t draw(world *w) {
    uint64_t x = w->draws += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

int64_t draw_below(world *w, int64_t n) { return (int64_t)(draw(w) % (uint64_t)n); }

void fail(world *w, const char *format, ...) {
    if (w->failure[0] || w->is_deceived) return;
    va_list args;
    va_start(args, format);
    vsnprintf(w->failure, sizeof w->failure, format, args);
    va_end(args);
    if (w->opt.only && strncmp(w->failure, w->opt.only, strlen(w->opt.only)) != 0)
        w->failure[0] = '\0';
}

void trace(const world *w, const char *format, ...) {
    if (!w->opt.verbose) return;
    va_list args;
    va_start(args, format);
    printf("%10.6f  ", (double)w->now_us * 1e-6);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

/* -- the queue: a binary heap -- */

static bool is_earlier(const event *a, const event *b) {
    return a->at_us != b->at_us ? a->at_us < b->at_us : a->order < b->order;
}

void push(world *w, const event *e) {
    if (w->n_queue == w->max_queue) {
        w->max_queue *= 2;
        w->queue = realloc(w->queue, (size_t)w->max_queue * sizeof *w->queue);
        if (!w->queue) abort();
    }
    event new = *e;
    new.order = w->order++;
    int i = w->n_queue++;
    for (; i > 0 && is_earlier(&new, &w->queue[(i - 1) / 2]); i = (i - 1) / 2)
        w->queue[i] = w->queue[(i - 1) / 2];
    w->queue[i] = new;
}

static event pop(world *w) {
    event first = w->queue[0], last = w->queue[--w->n_queue];
    int i = 0;
    for (;;) {
        int child = 2 * i + 1;
        if (child >= w->n_queue) break;
        if (child + 1 < w->n_queue && is_earlier(&w->queue[child + 1], &w->queue[child]))
            child++;
        if (!is_earlier(&w->queue[child], &last)) break;
        w->queue[i] = w->queue[child];
        i = child;
    }
    w->queue[i] = last;
    return first;
}

/* -- the network -- */

int slot_of(const world *w, wefti_node_id id) {
    int slot = (int)id.incarnation - 1;
    return slot >= 0 && slot < w->n_slots && w->nodes[slot].id.key == id.key ? slot : -1;
}

bool passes(world *w, int from, int to) {
    int a = w->nodes[from].host, b = w->nodes[to].host;
    if (w->cut[a][b]) return false;
    return w->loss_percent == 0 || draw_below(w, 100) >= w->loss_percent;
}

int64_t arrival(world *w, int from, int to) {
    int a = w->nodes[from].host, b = w->nodes[to].host;
    int64_t delay = w->latency_us / 2 + draw_below(w, w->latency_us + 1);
    if (draw(w) % 64 == 0) delay += draw_below(w, 20 * w->latency_us + 1);
    if (w->slow[a][b]) delay = 20 * delay + 50000;
    int64_t at = w->now_us + delay + w->delay_us[a];
    if (w->is_fifo && at <= w->last_us[from][to]) at = w->last_us[from][to] + 1;
    if (at > w->last_us[from][to]) w->last_us[from][to] = at;
    return at;
}

unsigned char *copy_bytes(const unsigned char *bytes, size_t n) {
    unsigned char *copy = malloc(n ? n : 1);
    if (!copy) abort();
    memcpy(copy, bytes, n);
    return copy;
}

/* -- the witness -- */

bool has_votes(const world *w) { return w->now_us < w->votes_end_us; }

/* A message to the witness or from it: when it arrives; 0: it is lost. */
static int64_t votes_arrival(world *w, int slot) {
    int host = w->nodes[slot].host;
    if (w->cut[host][VOTES]) return 0;
    if (w->loss_percent > 0 && draw_below(w, 100) < w->loss_percent) return 0;
    return w->now_us + w->latency_us / 2 + draw_below(w, w->latency_us + 1);
}

static void ask_votes(world *w, int slot, const wefti_vote *vote) {
    event e = {.kind = EV_ASK, .to = slot, .vote = *vote};
    e.at_us = votes_arrival(w, slot);
    if (e.at_us > 0) push(w, &e);
}

static void take_ask(world *w, const event *ask) {
    event e = {.kind = EV_VOTE, .to = ask->to, .vote = ask->vote};
    if (!has_votes(w)) return;
    wefti_vote_answer answer = wefti_votes_judge(&w->votes, &ask->vote);
    if (answer == WEFTI_VOTE_NEW) wefti_votes_give(&w->votes, &ask->vote);
    e.given = answer <= WEFTI_VOTE_GIVEN;
    e.at_us = votes_arrival(w, ask->to);
    trace(w, "the vote of view %lld is %s node %d", (long long)e.vote.view,
          e.given ? "given to" : "not given to", ask->to);
    if (e.at_us > 0) push(w, &e);
}

static void send_bytes(world *w, int from, const wefti_member_action *a) {
    int to = slot_of(w, a->peer);
    count_message(w, from, a);
    watch_sender(w, from, a->bytes[5]);
    if (to < 0 || !w->nodes[from].alive || !passes(w, from, to)) return;
    if (draw_below(w, 100) < w->loss_of_kind[a->bytes[5]][w->nodes[to].host]) return;
    event e = {.kind = EV_BYTES, .to = to, .from = from, .sent_us = w->now_us};
    e.at_us = arrival(w, from, to);
    e.n_bytes = (uint32_t)a->n_bytes;
    e.bytes = copy_bytes(a->bytes, a->n_bytes);
    push(w, &e);
}

/* -- nodes -- */

static int64_t node_clock(const world *w, const node *n) {
    return n->offset_us + (int64_t)((double)w->now_us * n->drift);
}

static void out(world *w, int slot, wefti_member_out why) {
    node *n = &w->nodes[slot];
    trace(w, "node %d is out (%d)", slot, why);
    if (why == WEFTI_OUT_EVICTED && w->liar >= 0 && slot != w->liar &&
        n->record.heir.incarnation == 0 && in_last_view(w, slot))
        check_left(w, slot);
    if (why == WEFTI_OUT_FAULT) fail(w, "I1: node %d left because of a fault", slot);
    n->alive = false;
    n->has_record = w->has_launchers;
    w->slot_of_host[n->host] = -1;
    for (int k = 0; k < w->n_slots; k++) n->lost_after_us[k] = w->now_us; /* nothing is */
    if (why == WEFTI_OUT_LEFT && !n->has_lost_mates) return;
    event e = {.kind = EV_START, .to = n->host, .at_us = w->now_us + 300000};
    push(w, &e);
}

void step_node(world *w, int slot, const wefti_member_event *event_in) {
    node *n = &w->nodes[slot];
    if (!n->alive || w->failure[0] || w->is_deceived) return;
    count_event(w, slot, event_in);
    judge_lies(w, slot);
    const wefti_member_actions *todo = wefti_member_step(n->m, event_in, node_clock(w, n),
                                                         draw(w));
    bool installed = false, freeze = false;
    wefti_ballot ballot = {0};
    for (int k = 0; k < todo->n && n->alive; k++) {
        const wefti_member_action *a = &todo->list[k];
        switch (a->kind) {
        case WEFTI_DO_SEND: send_bytes(w, slot, a); break;
        case WEFTI_DO_RECORD: n->record = a->record; break;
        case WEFTI_DO_FREEZE:
            freeze = true;
            ballot = a->ballot;
            break;
        case WEFTI_DO_INSTALL:
            installed = true;
            n->record = wefti_member_own_record(n->m);
            break;
        case WEFTI_DO_ASK: ask_votes(w, slot, &a->vote); break;
        case WEFTI_DO_OUT: out(w, slot, a->out); break;
        }
    }
    int64_t wait = todo->wake_us == INT64_MAX ? 0 : todo->wake_us - node_clock(w, n);
    if (n->alive && (n->tick_us <= w->now_us || n->tick_us > w->now_us + wait)) {
        event e = {
            .kind = EV_TICK, .to = slot, .at_us = w->now_us + (wait > 1 ? wait : 1)};
        n->tick_us = e.at_us;
        push(w, &e);
    }
    if (installed && n->alive) {
        check_install(w, slot);
        if (!w->is_deceived) host_installed(w, slot);
    }
    if (freeze && n->alive) host_freeze(w, slot, ballot);
    if (n->alive) check_node(w, slot);
}

static void connect(world *w, int slot) {
    for (int h = 0; h < w->n_hosts; h++) {
        int other = w->slot_of_host[h];
        if (other < 0 || other == slot) continue;
        wefti_member_event e = {.kind = WEFTI_EVENT_CONNECTED,
                                .peer = w->nodes[other].id};
        if (w->nodes[slot].alive) step_node(w, slot, &e);
    }
}

static void start_node(world *w, int host, int n_founders,
                       const wefti_view_node *founders) {
    if (w->slot_of_host[host] >= 0 || w->n_slots == SLOTS) return;
    int slot = w->n_slots++;
    node *n = &w->nodes[slot];
    memset(n, 0, sizeof *n);
    n->used = n->alive = true;
    n->host = host;
    n->id = (wefti_node_id){.key = (uint64_t)host + 1, .incarnation = (uint64_t)slot + 1};
    n->drift = 1.0 + ((double)draw_below(w, 2001) - 1000) * 5e-5;
    n->offset_us = 1 + draw_below(w, 1000000000);
    n->born_us = w->now_us;
    n->has_state = n_founders > 0;
    w->host_is_off[host] = false;
    w->slot_of_host[host] = slot;
    host_reset(w, slot);
    wefti_member_config config = {.limits = w->limits,
                                  .policy = w->policy,
                                  .run = w->seed,
                                  .self = n->id,
                                  .n_founders = n_founders,
                                  .founders = founders,
                                  .now_us = node_clock(w, n)};
    if (wefti_member_create(w->ctx, &config, &n->m) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_ctx_message(w->ctx));
        abort();
    }
    n->record = wefti_member_own_record(n->m);
    if (n_founders == 0) {
        w->n_joins++;
        trace(w, "host %d starts node %d", host, slot);
    }
    event look = {.kind = EV_LOOK, .to = slot, .at_us = w->now_us + 300000};
    push(w, &look);
    if (n_founders > 0) return;
    connect(w, slot);
    wefti_member_event tick = {.kind = WEFTI_EVENT_TICK};
    step_node(w, slot, &tick);
}

bool is_unit_whole(const world *w, int host) {
    int first = host - host % w->unit;
    for (int h = first; h < first + w->unit; h++)
        if (w->slot_of_host[h] < 0) return false;
    return true;
}

/* A node whose view lacks another one of its unit leaves; it is started again. */
void leave_alone(world *w, int slot) {
    node *n = &w->nodes[slot];
    const wefti_view *v = wefti_member_view(n->m);
    int first = n->host - n->host % w->unit, n_mates = 0;
    for (int i = 0; i < v->n_nodes; i++) {
        int host = (int)v->nodes[i].id.key - 1;
        n_mates += host >= first && host < first + w->unit;
    }
    if (wefti_member_number(n->m) < 0 || n_mates == w->unit) return;
    wefti_member_event e = {.kind = WEFTI_EVENT_LEAVE};
    n->has_lost_mates = true;
    step_node(w, slot, &e);
}

/* One node learns that another is dead, as soon as the network lets it: its connection ends; the
 * host that is left hands out the record; or another process is at the same place. */
void tell_death(world *w, int dead, int slot) {
    const node *d = &w->nodes[dead];
    if (w->cut[d->host][w->nodes[slot].host]) return;
    event e = {.to = slot,
               .from = dead,
               .at_us = w->last_us[dead][slot] + 1,
               .sent_us = w->now_us};
    if (e.at_us < w->now_us) e.at_us = w->now_us;
    e.at_us += w->latency_us + draw_below(w, w->latency_us + 1);
    e.kind = EV_CLOSED;
    e.evidence = w->slot_of_host[d->host] >= 0 ? WEFTI_EVIDENCE_DEAD
                                               : WEFTI_EVIDENCE_CLOSED;
    push(w, &e);
    if (!d->has_record || w->host_is_off[d->host]) return;
    e.kind = EV_RECORD;
    push(w, &e);
}

/* Who redials a member that has died finds out again. */
void tell_deaths(world *w, int slot) {
    const wefti_view *v = wefti_member_view(w->nodes[slot].m);
    for (int i = 0; i < v->n_nodes; i++) {
        int other = slot_of(w, v->nodes[i].id);
        if (!w->nodes[other].alive && w->last_us[other][slot] < w->now_us)
            tell_death(w, other, slot);
    }
}

void kill_slot(world *w, int slot, bool has_power, bool comes_back) {
    node *n = &w->nodes[slot];
    if (!n->alive) return;
    w->n_kills++;
    trace(w, "node %d dies (step %lld begun, %lld finished)", slot,
          (long long)n->steps.begun, (long long)n->steps.finished);
    n->alive = false;
    n->has_record = has_power && w->has_launchers;
    w->slot_of_host[n->host] = -1;
    w->host_is_off[n->host] = !has_power;
    for (int k = 0; k < w->n_slots; k++) {
        n->lost_after_us[k] = w->now_us - draw_below(w, 2 * w->latency_us + 2);
        if (has_power && w->nodes[k].alive) tell_death(w, slot, k);
    }
    if (!comes_back) return;
    event e = {.kind = EV_START, .to = n->host, .at_us = w->now_us + 1000};
    e.at_us += draw(w) % 3 ? 200000 + draw_below(w, 2000000) : draw_below(w, 30000);
    push(w, &e);
}

/* -- the run -- */

static void heal(world *w) {
    w->is_healed = true;
    w->healed_us = w->now_us;
    w->target = w->best_finished + 3;
    memset(w->cut, 0, sizeof w->cut);
    memset(w->slow, 0, sizeof w->slow);
    memset(w->delay_us, 0, sizeof w->delay_us);
    memset(w->loss_of_kind, 0, sizeof w->loss_of_kind);
    w->loss_percent = w->n_armed = 0;
    for (int k = 0; k < w->n_slots; k++) w->nodes[k].paused_until_us = 0;
    for (int h = 0; h < w->n_hosts; h++)
        if (w->slot_of_host[h] < 0) w->host_is_off[h] = false;
    for (int d = 0; d < w->n_slots; d++)
        for (int k = 0; k < w->n_slots; k++)
            if (!w->nodes[d].alive && w->nodes[k].alive) tell_death(w, d, k);
    trace(w, "all is healed; %lld steps are finished", (long long)w->best_finished);
}

static void take_bytes(world *w, const event *e) {
    const node *from = &w->nodes[e->from];
    if (!from->alive && e->sent_us > from->lost_after_us[e->to]) return;
    wefti_member_event in = {.kind = WEFTI_EVENT_MESSAGE,
                             .peer = from->id,
                             .bytes = e->bytes,
                             .n_bytes = e->n_bytes};
    step_node(w, e->to, &in);
}

static void take_node_event(world *w, event *e) {
    node *n = &w->nodes[e->to];
    wefti_member_event in = {.kind = WEFTI_EVENT_TICK};
    if (!n->alive) return;
    if (n->paused_until_us > w->now_us) {
        event again = *e;
        again.at_us = n->paused_until_us;
        again.bytes = e->bytes;
        e->bytes = NULL; /* taken */
        push(w, &again);
        return;
    }
    switch (e->kind) {
    case EV_TICK:
        if (e->at_us < n->tick_us && n->tick_us > w->now_us) break;
        host_feed(w, e->to);
        step_node(w, e->to, &in);
        break;
    case EV_FEED: host_feed(w, e->to); break;
    case EV_BYTES: take_bytes(w, e); break;
    case EV_PIECE: host_piece(w, e->to, e); break;
    case EV_PIECE_GET:
    case EV_STATE_GET: host_answer(w, e->to, e); break;
    case EV_STATE: host_state(w, e->to, e); break;
    case EV_COMPUTED: host_computed(w, e->to, e->piece.step); break;
    case EV_CLOSED:
        in.kind = WEFTI_EVENT_CLOSED;
        in.peer = w->nodes[e->from].id;
        in.evidence = e->evidence;
        step_node(w, e->to, &in);
        if (n->host / w->unit == w->nodes[e->from].host / w->unit &&
            wefti_view_find(wefti_member_view(n->m), in.peer) >= 0) {
            n->has_lost_mates = true;
            in.kind = WEFTI_EVENT_LEAVE;
            step_node(w, e->to, &in);
        }
        break;
    case EV_RECORD:
        in.kind = WEFTI_EVENT_RECORD;
        in.peer = w->nodes[e->from].id;
        in.record = w->nodes[e->from].record;
        step_node(w, e->to, &in);
        break;
    case EV_VOTE:
        in.kind = WEFTI_EVENT_VOTE;
        in.vote = e->vote;
        in.given = e->given;
        step_node(w, e->to, &in);
        break;
    case EV_LOOK:
        if (!wefti_member_view(n->m)->number ||
            wefti_member_get_state(n->m) == WEFTI_MEMBER_PAUSED)
            connect(w, e->to);
        host_look(w, e->to);
        event again = {.kind = EV_LOOK, .to = e->to, .at_us = w->now_us + 300000};
        push(w, &again);
        break;
    default: break;
    }
}

static void take_event(world *w, event *e) {
    switch (e->kind) {
    case EV_START:
        if (w->slot_of_host[e->to] < 0) start_node(w, e->to, 0, NULL);
        break;
    case EV_ASK: take_ask(w, e); break;
    case EV_FAULT: begin_fault(w, e->to); break;
    case EV_FAULT_END: end_fault(w, e->to); break;
    default: take_node_event(w, e);
    }
}

static void found(world *w) {
    wefti_view_node founders[HOSTS];
    for (int h = 0; h < w->n_founders; h++)
        founders[h] = (wefti_view_node){.id = {(uint64_t)h + 1, (uint64_t)h + 1}};
    for (int h = 0; h < HOSTS; h++) w->slot_of_host[h] = -1;
    for (int h = 0; h < w->n_founders; h++) start_node(w, h, w->n_founders, founders);
    for (int k = 0; k < w->n_founders; k++) {
        check_install(w, k);
        host_installed(w, k);
        wefti_member_event tick = {.kind = WEFTI_EVENT_TICK};
        step_node(w, k, &tick);
    }
    for (int h = w->n_founders; h < w->n_hosts; h++) {
        event e = {.kind = EV_START, .to = h, .at_us = draw_below(w, w->opt.fault_us)};
        push(w, &e);
    }
}

static void clean(world *w) {
    for (int k = 0; k < w->n_queue; k++) free(w->queue[k].bytes);
    w->n_queue = 0;
    for (int k = 0; k < w->n_slots; k++) {
        wefti_member_destroy(w->nodes[k].m);
        w->nodes[k].m = NULL;
        w->nodes[k].used = false;
    }
}

/* Two phases: faults and safety, then no faults and progress. w->seed, opt, ctx, tables
 * and the faults' is_off are the caller's. */
void run_world(world *w) {
    int64_t bound_us = 40000000;
    choose(w);
    make_faults(w);
    for (int k = 0; k < w->n_faults; k++) {
        event e = {.kind = EV_FAULT, .to = k, .at_us = w->faults[k].at_us};
        if (!w->faults[k].is_off) push(w, &e);
    }
    w->last_view = 0;
    w->best_finished = -1;
    found(w);
    while (w->n_queue > 0 && !w->failure[0] && !w->is_deceived) {
        event e = pop(w);
        w->now_us = e.at_us;
        w->n_events++;
        if (!w->is_healed && w->now_us >= w->opt.fault_us) heal(w);
        take_event(w, &e);
        free(e.bytes);
        if (!w->is_healed) continue;
        if (w->n_events % 16 == 0 && has_progressed(w)) break;
        if (w->now_us < w->healed_us + bound_us) continue;
        if (!may_be_stuck(w)) trace_members(w);
        if (!may_be_stuck(w))
            fail(w, "I10: no progress within %d s after the last fault",
                 (int)(bound_us / 1000000));
        break;
    }
    if (!w->failure[0] && !w->is_deceived) check_end(w);
    clean(w);
}
