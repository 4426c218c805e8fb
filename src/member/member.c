/* SPDX-License-Identifier: MIT */
/* The state machine of one node: create, events in, actions out, installing a view.
 *
 *     JOINING -> LEARNING -> CATCHING -> IN <-> FLUSHING -> IN (next view)
 *                                        IN, FLUSHING <-> PAUSED           any -> OUT
 *
 * Every event is worked on in three parts: what it says (a message, a step), then what
 * has become due (signs of life, doubts, ballots), then when the machine wants to be
 * woken. */
#include "member/state.h"

#include <string.h>

#include "base/memory.h"

wefti_member_policy wefti_member_policy_default(void) {
    return (wefti_member_policy){.alive_us = 200000,
                                 .silence_us = 1000000,
                                 .probe_us = 300000,
                                 .late_us = 100000,
                                 .link_us = 3000000,
                                 .answer_us = 500000,
                                 .takeover_us = 500000,
                                 .retry_us = 100000,
                                 .patience_us = 10000000,
                                 .gather_us = 300000,
                                 .join_us = 600000000,
                                 .pause_us = 600000000,
                                 .donors = 2};
}

/* -- create -- */

static weft_status check_config(weft_ctx *ctx, const wefti_member_config *c) {
    const wefti_member_limits *l = &c->limits;
    if (l->max_nodes < 1 || l->max_nodes > WEFTI_MEMBER_MAX_NODES || l->window < 1 ||
        l->window > WEFTI_MEMBER_MAX_WINDOW || l->rounds < 1 ||
        l->rounds > WEFTI_MEMBER_MAX_ROUNDS || l->parts < 1 ||
        l->parts > WEFTI_MEMBER_MAX_PARTS)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "membership: %d nodes, a window of %d, %d rounds, %d parts; at most "
            "%d, %d, %d, %d",
            l->max_nodes, l->window, l->rounds, l->parts, WEFTI_MEMBER_MAX_NODES,
            WEFTI_MEMBER_MAX_WINDOW, WEFTI_MEMBER_MAX_ROUNDS, WEFTI_MEMBER_MAX_PARTS);
    if ((int64_t)wefti_view_max_departed(l) * l->window > UINT16_MAX ||
        wefti_view_max_owed(l) > UINT16_MAX)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "membership: %d nodes with a window of %d steps are too many", l->max_nodes,
            l->window);
    if (c->n_founders < 0 || c->n_founders > l->max_nodes)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "membership: %d founders of at most %d nodes", c->n_founders,
                             l->max_nodes);
    for (int i = 0; i < c->n_founders; i++)
        if (wefti_node_is(c->founders[i].id, c->self)) return WEFT_OK;
    if (c->n_founders == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                         "membership: this node is not among the %d founders",
                         c->n_founders);
}

static weft_status create_lead(wefti_member *m) {
    const wefti_member_limits *l = &m->config.limits;
    int max_departed = wefti_view_max_departed(l);
    wefti_tally *t = &m->lead.tally;
    WEFT_TRY(
        wefti_alloc_n(m->ctx, l->max_nodes, sizeof(bool), "a ballot", &m->lead.asked));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, l->max_nodes, sizeof(bool), "a ballot", &m->lead.answered));
    WEFT_TRY(wefti_view_init(m->ctx, l, &m->lead.proposal));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, max_departed, sizeof *t->senders, "a tally", &t->senders));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, max_departed, sizeof *t->counted, "a tally", &t->counted));
    return wefti_alloc_n(m->ctx,
                         (int64_t)max_departed * 2 * l->window * l->rounds * l->parts,
                         sizeof *t->holders, "a tally", &t->holders);
}

static weft_status create_tables(wefti_member *m) {
    const wefti_member_limits *l = &m->config.limits;
    int64_t n = l->max_nodes;
    m->max_peers = 2 * l->max_nodes;
    m->max_actions = 24 * l->max_nodes + 64;
    m->most_bytes = wefti_message_max_bytes(l);
    m->max_bytes = 4 * m->most_bytes + 256 * (8 * (size_t)n + 16);
    WEFT_TRY(wefti_view_init(m->ctx, l, &m->view));
    WEFT_TRY(wefti_view_init(m->ctx, l, &m->accepted));
    WEFT_TRY(create_lead(m));
    WEFT_TRY(wefti_message_room_init(m->ctx, l, &m->room));
    WEFT_TRY(wefti_alloc_n(m->ctx, m->max_peers, sizeof *m->peers, "peers", &m->peers));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(int), "peers", &m->peer_of_number));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof *m->standings, "peers", &m->standings));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(bool), "a ballot", &m->stays));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, n * n, sizeof(int32_t), "complaints", &m->complaint_first));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, n * n, sizeof(int32_t), "complaints", &m->complaint_last));
    WEFT_TRY(wefti_alloc(m->ctx, m->most_bytes, "an inventory", &m->flush_ok));
    WEFT_TRY(wefti_alloc(m->ctx, m->max_bytes, "messages", &m->bytes));
    WEFT_TRY(
        wefti_alloc_n(m->ctx, n, sizeof(wefti_node_id), "donors", &m->joining.donors));
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(bool), "donors", &m->joining.offers));
    return wefti_alloc_n(m->ctx, m->max_actions, sizeof *m->actions.list, "actions",
                         &m->actions.list);
}

static void found(wefti_member *m) {
    wefti_view *v = &m->lead.proposal;
    v->number = 1;
    v->n_nodes = m->config.n_founders;
    memcpy(v->nodes, m->config.founders, (size_t)v->n_nodes * sizeof *v->nodes);
    v->cut_low = -1;
    v->chain = wefti_view_hash(&m->config.limits, v);
    wefti_member_install(m, v);
}

weft_status wefti_member_create(weft_ctx *ctx, const wefti_member_config *config,
                                wefti_member **out) {
    *out = NULL;
    WEFT_TRY(check_config(ctx, config));
    wefti_member *m;
    WEFT_TRY(wefti_alloc(ctx, sizeof *m, "membership", &m));
    m->ctx = ctx;
    m->config = *config;
    m->config.founders = NULL;
    weft_status status = create_tables(m);
    if (status != WEFT_OK) {
        wefti_member_destroy(m);
        return status;
    }
    for (int k = 0; k < WEFTI_CHECKSUMS; k++) m->checksum_steps[k] = -1;
    m->now_us = config->now_us;
    m->steps = (wefti_member_steps){-1, -1, -1};
    m->number = -1;
    m->state = WEFTI_MEMBER_JOINING;
    m->joining.since_us = m->now_us;
    m->config.founders = config->founders;
    if (config->n_founders > 0) found(m);
    m->config.founders = NULL; /* borrowed only until now */
    m->wake_us = m->now_us;
    *out = m;
    return WEFT_OK;
}

void wefti_member_destroy(wefti_member *m) {
    if (!m) return;
    weft_ctx *ctx = m->ctx;
    wefti_view_fini(ctx, &m->view);
    wefti_view_fini(ctx, &m->accepted);
    wefti_view_fini(ctx, &m->lead.proposal);
    wefti_message_room_fini(ctx, &m->room);
    void *blocks[] = {m->peers,
                      m->peer_of_number,
                      m->standings,
                      m->stays,
                      m->complaint_first,
                      m->complaint_last,
                      m->flush_ok,
                      m->bytes,
                      m->joining.donors,
                      m->joining.offers,
                      m->actions.list,
                      m->lead.asked,
                      m->lead.answered,
                      m->lead.tally.senders,
                      m->lead.tally.counted,
                      m->lead.tally.holders};
    for (size_t k = 0; k < sizeof blocks / sizeof blocks[0]; k++)
        wefti_free(ctx, blocks[k]);
    wefti_free(ctx, m);
}

/* -- small helpers that all files use -- */

/* splitmix64 on the event's random number. */
uint64_t wefti_member_draw(wefti_member *m) {
    uint64_t x = m->random += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

bool wefti_member_is_in(const wefti_member *m) { return m->state >= WEFTI_MEMBER_IN; }

wefti_member_action *wefti_member_act(wefti_member *m, wefti_member_action_kind kind) {
    if (m->actions.n == m->max_actions) {
        m->facts.unsent_messages++;
        return NULL;
    }
    wefti_member_action *a = &m->actions.list[m->actions.n++];
    *a = (wefti_member_action){.kind = kind};
    return a;
}

/* Encodes behind the messages of this event; NULL: there is no room. */
static const unsigned char *put_message(wefti_member *m, wefti_message *message,
                                        size_t *n) {
    unsigned char *at = m->bytes + m->n_bytes;
    *n = wefti_member_encode(m, message, at, m->max_bytes - m->n_bytes);
    if (*n == 0) {
        m->facts.unsent_messages++;
        return NULL;
    }
    m->n_bytes += *n;
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
        const wefti_peer *peer = &m->peers[k];
        if (!peer->used || (test && !test(m, peer))) continue;
        if (!bytes) bytes = put_message(m, message, &n);
        if (!bytes) return;
        send_bytes(m, peer->id, bytes, n);
    }
}

bool wefti_peer_is_member(const wefti_member *m, const wefti_peer *peer) {
    (void)m;
    return peer->number >= 0;
}

/* A member that nothing is known against. */
bool wefti_peer_is_sound(const wefti_member *m, const wefti_peer *peer) {
    (void)m;
    return peer->number >= 0 && peer->standing.evidence == WEFTI_EVIDENCE_NONE;
}

wefti_peer *wefti_member_peer(wefti_member *m, wefti_node_id id) {
    for (int k = 0; k < m->max_peers; k++)
        if (m->peers[k].used && wefti_node_is(m->peers[k].id, id)) return &m->peers[k];
    return NULL;
}

wefti_peer *wefti_member_add_peer(wefti_member *m, wefti_node_id id) {
    wefti_peer *peer = wefti_member_peer(m, id);
    for (int k = 0; !peer && k < m->max_peers; k++)
        if (!m->peers[k].used) {
            peer = &m->peers[k];
            *peer = (wefti_peer){
                .used = true, .id = id, .number = -1, .heard_us = m->now_us};
            peer->steps = (wefti_member_steps){-1, -1, -1};
            peer->limit_us = m->config.policy.silence_us;
            peer->installed_us = peer->dismissed_us = m->now_us - 1000000000;
        }
    return peer;
}

void wefti_member_dismiss(wefti_member *m, wefti_node_id id, wefti_bye_reason reason) {
    wefti_message bye = {.kind = WEFTI_SAY_BYE, .reason = reason};
    wefti_member_say(m, id, &bye);
}

void wefti_member_leave(wefti_member *m, wefti_member_out why) {
    if (m->state == WEFTI_MEMBER_OUT) return;
    m->state = WEFTI_MEMBER_OUT;
    if (why == WEFTI_OUT_FAULT) m->facts.faults++;
    wefti_member_action *a = wefti_member_act(m, WEFTI_DO_OUT);
    if (a) a->out = why;
}

void wefti_member_wake_by(wefti_member *m, int64_t when_us) {
    if (when_us < m->wake_us) m->wake_us = when_us;
}

wefti_member_record wefti_member_own_record(const wefti_member *m) {
    return (wefti_member_record){
        .promised_view = m->promised.counter ? m->view.number + 1 : 0,
        .promised = m->promised,
        .accepted_view = m->has_accepted ? m->view.number + 1 : m->view.number};
}

/* -- installing a view -- */

static void renumber_peers(wefti_member *m) {
    for (int k = 0; k < m->max_peers; k++) {
        wefti_peer *peer = &m->peers[k];
        if (!peer->used) continue;
        int number = wefti_view_find(&m->view, peer->id);
        if (peer->number >= 0 && number < 0) peer->has_departed = true;
        if (number >= 0 && peer->number < 0) {
            wefti_node_id id = peer->id;
            peer->used = false; /* it begins anew, as a member */
            peer = wefti_member_add_peer(m, id);
            peer->steps.begun = peer->steps.sent = -1;
        }
        peer->number = number;
    }
    for (int i = 0; i < m->view.n_nodes; i++) {
        if (i == m->number) {
            m->peer_of_number[i] = -1;
            continue;
        }
        wefti_peer *peer = wefti_member_add_peer(m, m->view.nodes[i].id);
        peer->number = i;
        peer->witness = m->view.nodes[i].witness;
        m->peer_of_number[i] = (int)(peer - m->peers);
    }
}

void wefti_member_install(wefti_member *m, const wefti_view *value) {
    int number = wefti_view_find(value, m->config.self);
    if (number < 0) {
        wefti_member_leave(m, WEFTI_OUT_EVICTED);
        return;
    }
    wefti_view_copy(&m->config.limits, value, &m->view);
    m->number = number;
    renumber_peers(m);
    wefti_watch_forget(m);
    m->promised = (wefti_ballot){0};
    m->has_accepted = m->frozen = false;
    m->lead.phase = WEFTI_LEAD_IDLE;
    m->lead.attempts = 0;
    m->reason_us = m->paused_us = 0;
    m->progress_us = m->now_us;
    m->backoff_us = 0;
    m->state = WEFTI_MEMBER_IN;
    wefti_member_act(m, WEFTI_DO_INSTALL);
}

/* -- events -- */

static void say_install(wefti_member *m, wefti_peer *peer) {
    if (m->now_us - peer->installed_us < m->config.policy.retry_us) return;
    peer->installed_us = m->now_us;
    wefti_message install = {.kind = WEFTI_SAY_INSTALL, .value = &m->view};
    wefti_member_say(m, peer->id, &install);
}

/* A decided view: the next one for a member, any one with it in it for a joiner. */
static void take_install(wefti_member *m, const wefti_message *message) {
    const wefti_view *value = message->value;
    if (!wefti_member_is_in(m)) {
        if (wefti_view_find(value, m->config.self) < 0) return;
        if (m->joining.ready_us > 0)
            wefti_member_install(m, value);
        else /* it has begun again meanwhile: what it was ready with is gone */
            wefti_member_leave(m, WEFTI_OUT_EVICTED);
        return;
    }
    if (value->number <= m->view.number) return;
    if (value->number == m->view.number + 1) {
        if (value->parent == m->view.chain) wefti_member_install(m, value);
    } else { /* no member can miss two views, for each needs its answer to the one before
              */
        bool is_fault = wefti_view_find(value, m->config.self) >= 0;
        wefti_member_leave(m, is_fault ? WEFTI_OUT_FAULT : WEFTI_OUT_EVICTED);
    }
}

/* A message of somebody who is no member here. */
static void take_foreign(wefti_member *m, const wefti_message *message) {
    wefti_peer *peer = wefti_member_peer(m, message->from);
    if (message->kind == WEFTI_SAY_BYE) {
        if (message->reason == WEFTI_BYE_EVICTED && message->view > m->view.number)
            wefti_member_leave(m, WEFTI_OUT_EVICTED);
        return;
    }
    if (message->view == 0 && !(peer && peer->has_departed)) {
        wefti_join_message(m, peer, message);
        return;
    }
    if (peer) peer->heard_us = m->now_us; /* it is not forgotten while it speaks */
    if (message->view <= m->view.number && message->kind != WEFTI_SAY_LEAVE)
        wefti_member_dismiss(m, message->from, WEFTI_BYE_EVICTED);
}

/* A message of a member of my view, in which it may not be any more or not yet. */
static void take_member(wefti_member *m, wefti_peer *peer, const wefti_message *message) {
    wefti_watch_heard(m, peer, message->kind == WEFTI_SAY_ALIVE);
    peer->view = message->view;
    bool is_here = message->view == m->view.number && message->chain == m->view.chain;
    switch (message->kind) {
    case WEFTI_SAY_PROBE_REQ:
    case WEFTI_SAY_PROBE_ACK:
    case WEFTI_SAY_LEAVE: wefti_watch_message(m, peer, message); return;
    case WEFTI_SAY_RESEND_GET:
    case WEFTI_SAY_RESEND:
    case WEFTI_SAY_WELCOME:
    case WEFTI_SAY_SNAP_OFFER:
    case WEFTI_SAY_SNAP_GET:
    case WEFTI_SAY_SNAP_PIECE:
    case WEFTI_SAY_REPLAY_GET:
    case WEFTI_SAY_REPLAY:
    case WEFTI_SAY_READY:
    case WEFTI_SAY_HELLO: wefti_join_message(m, peer, message); break;
    case WEFTI_SAY_BYE:
        if (message->reason == WEFTI_BYE_EVICTED && message->view > m->view.number)
            wefti_member_leave(m, WEFTI_OUT_EVICTED);
        return;
    case WEFTI_SAY_ALIVE:
    case WEFTI_SAY_SUSPECT:
        if (is_here) wefti_watch_message(m, peer, message);
        break;
    default:
        if (is_here) wefti_change_message(m, peer, message);
    }
    if (message->view < m->view.number) say_install(m, peer);
}

static void take_message(wefti_member *m, const wefti_member_event *event) {
    wefti_message *message = &m->message;
    if (wefti_message_decode(&m->config.limits, &m->room, event->bytes, event->n_bytes,
                             message) ||
        !wefti_node_is(message->from, event->peer)) {
        m->facts.refused_messages++;
        return;
    }
    if (message->run != m->config.run) {
        if (message->kind != WEFTI_SAY_BYE)
            wefti_member_dismiss(m, message->from, WEFTI_BYE_OTHER_RUN);
        return;
    }
    if (message->kind == WEFTI_SAY_INSTALL) {
        wefti_peer *peer = wefti_member_peer(m, message->from);
        if (peer) wefti_watch_heard(m, peer, false);
        take_install(m, message);
        return;
    }
    wefti_peer *peer = wefti_member_peer(m, message->from);
    if (!wefti_member_is_in(m))
        wefti_join_message(m, peer, message);
    else if (peer && peer->number >= 0)
        take_member(m, peer, message);
    else
        take_foreign(m, message);
}

static void take_closed(wefti_member *m, const wefti_member_event *event) {
    wefti_peer *peer = wefti_member_peer(m, event->peer);
    if (!peer) return;
    peer->connected = false;
    if (peer->number < 0)
        peer->used = wefti_member_is_in(m) ? false : peer->used;
    else if (wefti_member_is_in(m))
        wefti_watch_suspect(m, peer, event->evidence);
}

static void take_steps(wefti_member *m, const wefti_member_event *event) {
    if (event->steps.finished >= 0 && event->steps.finished != m->steps.finished) {
        int k = (int)(event->steps.finished % WEFTI_CHECKSUMS);
        m->checksums[k] = event->checksum;
        m->checksum_steps[k] = event->steps.finished;
    }
    m->steps = event->steps;
    wefti_join_steps(m);
}

static void take_data(wefti_member *m, const wefti_member_event *event) {
    wefti_peer *peer = wefti_member_peer(m, event->peer);
    if (!peer) return;
    wefti_watch_heard(m, peer, false);
    int64_t finished = event->steps.begun - m->config.limits.window + 1;
    if (event->steps.begun > peer->steps.begun) peer->steps.begun = event->steps.begun;
    if (finished > peer->steps.finished) peer->steps.finished = finished;
}

static void take_leave(wefti_member *m) {
    wefti_message leave = {.kind = WEFTI_SAY_LEAVE,
                           .subject = m->config.self,
                           .record = wefti_member_own_record(m)};
    wefti_member_say_all(m, &leave, NULL);
    wefti_member_leave(m, WEFTI_OUT_LEFT);
}

static void take(wefti_member *m, const wefti_member_event *event) {
    wefti_peer *peer;
    switch (event->kind) {
    case WEFTI_EVENT_TICK: break;
    case WEFTI_EVENT_MESSAGE: take_message(m, event); break;
    case WEFTI_EVENT_CONNECTED:
        peer = wefti_member_peer(m, event->peer);
        if (!peer && !wefti_member_is_in(m)) peer = wefti_member_add_peer(m, event->peer);
        if (peer) {
            peer->connected = true;
            wefti_watch_heard(m, peer, false);
        }
        break;
    case WEFTI_EVENT_CLOSED: take_closed(m, event); break;
    case WEFTI_EVENT_DATA: take_data(m, event); break;
    case WEFTI_EVENT_STEPS: take_steps(m, event); break;
    case WEFTI_EVENT_INVENTORY: wefti_change_inventory(m, event); break;
    case WEFTI_EVENT_RECORD: wefti_watch_ended(m, event->peer, &event->record); break;
    case WEFTI_EVENT_LEAVE: take_leave(m); break;
    }
}

static bool is_told(const wefti_member *m, const wefti_peer *peer) {
    (void)m;
    if (peer->number < 0) return !peer->has_departed;
    return peer->standing.evidence < WEFTI_EVIDENCE_RESET;
}

static void say_alive(wefti_member *m) {
    if (m->now_us >= m->next_alive_us) {
        wefti_message alive = {.kind = WEFTI_SAY_ALIVE, .steps = m->steps};
        wefti_member_say_all(m, &alive, is_told);
        m->next_alive_us = m->now_us + m->config.policy.alive_us;
    }
    wefti_member_wake_by(m, m->next_alive_us);
}

const wefti_member_actions *wefti_member_step(wefti_member *m,
                                              const wefti_member_event *event,
                                              int64_t now_us, uint64_t random) {
    m->actions.n = 0;
    m->n_bytes = 0;
    if (now_us > m->now_us) m->now_us = now_us;
    m->random = random;
    if (m->state == WEFTI_MEMBER_OUT) {
        m->actions.wake_us = INT64_MAX;
        return &m->actions;
    }
    wefti_watch_late(m);
    take(m, event);
    m->wake_us = m->now_us + m->config.policy.alive_us;
    if (m->state != WEFTI_MEMBER_OUT) say_alive(m);
    if (wefti_member_is_in(m)) wefti_watch_pump(m);
    if (wefti_member_is_in(m)) wefti_change_pump(m);
    if (m->state != WEFTI_MEMBER_OUT) wefti_join_pump(m);
    m->actions.wake_us = m->state == WEFTI_MEMBER_OUT ? INT64_MAX : m->wake_us;
    return &m->actions;
}
