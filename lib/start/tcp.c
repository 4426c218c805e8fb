/* SPDX-License-Identifier: MIT */
/* A connection carries frames: lane (4 bytes, little-endian), length (4), bytes. Many
 * frames are sent with one call, and one call reads the rest of a frame together with the
 * head of the next. The thread sleeps (net/readiness.h), edge-triggered: a socket is only
 * asked after it has changed (connection.c). While a frame is arriving, the kernel wakes the
 * thread only when its rest is there.
 *
 *     send: queue -> flush: one sendmsg        wait: ready -> probe: heads, test: bodies
 *
 * The listener stays open while the run trains: accepting calls shows that this process
 * lives, and processes that join later call there (joiner.h). Such callers are served
 * whenever something has arrived at the listener or from one of them; probe reports those
 * that have shown a card. */
#define _GNU_SOURCE
#include "start/tcp.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/text.h"
#include "net/resend.h"
#include "net/socket.h"
#include "start/joiner.h"
#include "start/tcpstate.h"

enum { MAX_SIZE = 1024, MAX_PARTS = 32, MAX_UNSENT_BYTES = 1 << 20 };
static const double lead_s = 1e-3, more_lead_s = 40e-3;

static bool fail(tcp_transport *t, int peer, const char *what, const char *why) {
    snprintf(t->text, sizeof t->text, "%s host %s: %s", what, t->hosts[peer], why);
    return false;
}

/* --- sending --- */

/* The first messages of the queue, from the first byte that was not sent. */
static int parts_of(const connection *c, struct iovec *parts) {
    int n = 0;
    for (outgoing *o = c->first; o && n + 2 <= MAX_PARTS; o = o->next) {
        int64_t sent = o->n_sent;
        union {
            const unsigned char *in;
            void *out;
        } data = {.in = o->data};
        if (sent < WEFTI_TCP_HEAD_BYTES)
            parts[n++] = (struct iovec){o->head + sent,
                                        (size_t)(WEFTI_TCP_HEAD_BYTES - sent)};
        int64_t begin = sent < WEFTI_TCP_HEAD_BYTES ? 0 : sent - WEFTI_TCP_HEAD_BYTES;
        int64_t left = o->n_bytes - WEFTI_TCP_HEAD_BYTES - begin;
        if (left > 0) parts[n++] = (struct iovec){(char *)data.out + begin, (size_t)left};
    }
    return n;
}

static void advance(connection *c, int64_t n) {
    c->n_queued -= n;
    while (n > 0 && c->first) {
        outgoing *o = c->first;
        int64_t left = o->n_bytes - o->n_sent, now = n < left ? n : left;
        o->n_sent += now;
        n -= now;
        if (o->n_sent < o->n_bytes) return;
        c->first = o->next;
    }
}

/* The kernel keeps data for one millisecond, enough time to wake this thread; on a slow
 * wire that is little data, because nothing can overtake it. The further sockets of a long wire
 * keep more: each that runs dry on a busy machine has a lower rate afterwards. */
static void set_unsent(connection *c) {
    double wanted = c->byte_s > 0 ? (c->pair ? more_lead_s : lead_s) / c->byte_s : 0;
    double least = c->pair ? WEFTI_TCP_MORE_UNSENT_BYTES : WEFT_TRANSPORT_UNSENT_BYTES;
    int unsent = (int)fmin(fmax(wanted, least), MAX_UNSENT_BYTES);
    if (unsent < 2 * c->unsent && 2 * unsent > c->unsent) return;
    c->unsent = unsent;
    c->stream.ahead = (size_t)unsent;
    (void)setsockopt(c->stream.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent,
                     sizeof unsent);
}

/* Measures the rate: n bytes were written to a socket, which was full before or was not. */
static void time_bytes(connection *c, int64_t n) {
    double now_s = wefti_now_s();
    if (c->full_s > 0 && n > 0)
        c->byte_s += ((now_s - c->full_s) / (double)n - c->byte_s) / 8;
    c->full_s = c->stream.writable ? 0 : now_s;
    if (c->stream.fd >= 0 && n > 0) set_unsent(c);
}

/* Sends what the socket accepts. When the socket is closed, the rest is dropped; probe
 * reports that it is closed. */
static void push(connection *c) {
    int64_t n = 0, now;
    bool could = c->first && c->stream.writable;
    if (wefti_connection_owes(&c->stream))
        (void)wefti_connection_write(&c->stream, NULL, 0);
    while (c->first && c->stream.writable && c->stream.fd >= 0) {
        struct iovec parts[MAX_PARTS];
        int n_parts = parts_of(c, parts);
        n += now = (int64_t)wefti_connection_write(&c->stream, parts, n_parts);
        advance(c, now);
    }
    if (could) time_bytes(c, n);
    if (c->stream.fd >= 0 || wefti_tcp_may_resume(c)) return;
    for (; c->first; c->first = c->first->next) c->first->n_sent = c->first->n_bytes;
}

static void tcp_flush(weft_transport *head) {
    tcp_transport *t = (tcp_transport *)head;
    for (int p = 0; p < head->size; p++) {
        wefti_tcp_confirm(&t->peers[p]);
        for (int i = 0; i <= t->peers[p].n_more; i++) {
            connection *c = wefti_tcp_socket(&t->peers[p], i);
            if (c->first || wefti_connection_owes(&c->stream)) push(c);
        }
    }
}

/* Puts a message into a queue; without `data`, only a head. */
static outgoing *queue(tcp_transport *t, connection *c, const void *data, int64_t n_bytes,
                       uint32_t lane) {
    outgoing *o = wefti_tcp_spare(t);
    if (!o) return NULL;
    *o = (outgoing){.data = data, .n_bytes = WEFTI_TCP_HEAD_BYTES + (data ? n_bytes : 0)};
    wefti_tcp_queue(c, o, lane, n_bytes);
    return o;
}

static bool tcp_send(weft_transport *head, int peer, int lane, const void *data,
                     int n_bytes, void **request) {
    tcp_transport *t = (tcp_transport *)head;
    connection *c = &t->peers[peer];
    int by = lane == WEFTI_LANE_PIECES && n_bytes > 0 ? wefti_tcp_least_laden(c) : 0;
    uint32_t named = (uint32_t)lane | (uint32_t)by << 16;
    outgoing *lead = by ? queue(t, c, NULL, n_bytes, named) : NULL;
    outgoing *o = by && !lead ? NULL
                              : queue(t, wefti_tcp_socket(c, by), data, n_bytes, named);
    *request = o;
    if (!o) return fail(t, peer, "could not send to", strerror(ENOMEM));
    o->lead = lead;
    o->to = c;
    if (by) o->n_sent = WEFTI_TCP_HEAD_BYTES; /* by the first socket */
    return true;
}

static void tcp_withdraw(weft_transport *head, void *request) {
    tcp_transport *t = (tcp_transport *)head;
    outgoing *o = request;
    int64_t from = o->n_sent > WEFTI_TCP_HEAD_BYTES ? o->n_sent - WEFTI_TCP_HEAD_BYTES
                                                    : 0;
    int64_t left = o->n_bytes - WEFTI_TCP_HEAD_BYTES - from;
    if (o->own || left <= 0) return;
    o->own = malloc((size_t)(from + left));
    if (o->own) memcpy(o->own + from, o->data + from, (size_t)left);
    o->data = o->own;
    for (int p = 0; p < head->size && !o->own; p++)
        for (int i = 0; i <= t->peers[p].n_more; i++) {
            connection *c = wefti_tcp_socket(&t->peers[p], i);
            for (const outgoing *q = c->first; q; q = q->next)
                if (q == o) c->quits = true, wefti_connection_close(&c->stream);
        }
}

/* --- receiving --- */

/* Reads the rest of the body, and with it the head of the next frame. */
static void read_body(connection *c) {
    while (c->n_got < c->n_bytes && c->stream.readable && c->stream.fd >= 0) {
        struct iovec parts[2] = {
            {c->into + c->n_got, (size_t)(c->n_bytes - c->n_got)},
            {c->head, WEFTI_TCP_HEAD_BYTES},
        };
        int got = (int)wefti_connection_read(&c->stream, parts, 2);
        int left = c->n_bytes - c->n_got, body = got < left ? got : left;
        c->n_got += body;
        if (body == left) c->n_head = got - body;
    }
    if (c->n_got < c->n_bytes)
        wefti_connection_expect(&c->stream, (size_t)(c->n_bytes - c->n_got));
}

static void receive_rest(connection *c, bool *done) {
    if (c->n_got < c->n_bytes) read_body(c);
    *done = c->n_got == c->n_bytes;
    if (!*done) return;
    c->into = NULL;
    c->announced = false;
    wefti_connection_expect(&c->stream, 1);
}

static bool is_connection(const tcp_transport *t, const void *request) {
    const connection *c = request;
    return c >= t->peers && c < t->peers + t->head.size;
}

/* A request is an outgoing message, or the connection that receives one. */
static bool tcp_test(weft_transport *head, void *request, bool *done) {
    tcp_transport *t = (tcp_transport *)head;
    if (is_connection(t, request)) {
        receive_rest(request, done);
        return true;
    }
    outgoing *o = request;
    if (o->from) {
        *done = wefti_tcp_awaited(t, o);
        return true;
    }
    *done = wefti_tcp_is_sent(o);
    if (!*done) return true;
    free(o->own);
    o->own = NULL;
    for (outgoing *lead = o->lead; o; o = lead, lead = NULL) {
        o->next = t->spare;
        t->spare = o;
    }
    return true;
}

static bool announce(tcp_transport *t, int peer, weft_transport_found *found) {
    connection *c = &t->peers[peer];
    uint32_t named = wefti_get_u32(c->head), length = wefti_get_u32(c->head + 4);
    uint32_t lane = named & 0xffff, by = named >> 16;
    c->n_head = 0;
    c->n_card = 0;
    c->tells = lane == WEFTI_LANE_CARDS && length == WEFTI_CARD_BYTES && by == 0;
    if (c->tells) return true;
    if (lane == WEFTI_LANE_CONFIRMS && by <= (uint32_t)c->n_more) {
        wefti_resend *kept = wefti_tcp_socket(c, (int)by)->stream.kept;
        if (kept) wefti_resend_confirm(kept, length);
        return true;
    }
    if (lane > WEFTI_LANE_PIECES || length > WEFT_TRANSPORT_BYTES)
        return fail(t, peer, "no message of weft came from", strerror(EPROTO));
    if (by > (uint32_t)c->n_more ||
        (by > 0 && (lane != WEFTI_LANE_PIECES || length == 0))) {
        snprintf(
            t->text, sizeof t->text,
            "host %s sent %u bytes of lane %u by socket %u, expected pieces by one of "
            "the %d after the first",
            t->hosts[peer], length, lane, by, c->n_more);
        return false;
    }
    c->announced = true;
    c->by = (int)by;
    *found = (weft_transport_found){
        .any = true, .peer = peer, .lane = (int)lane, .n_bytes = (int)length};
    return true;
}

/* The card that is arriving for this process. */
static void take_card(tcp_transport *t, int peer) {
    connection *c = &t->peers[peer];
    struct iovec part = {c->card + c->n_card, (size_t)(WEFTI_CARD_BYTES - c->n_card)};
    c->n_card += (int)wefti_connection_read(&c->stream, &part, 1);
    c->tells = c->n_card < WEFTI_CARD_BYTES;
    if (!c->tells) wefti_tcp_hear_told(t, peer, c->card);
}

/* Looks whether a head, or the end of the connection, has arrived from this process; the
 * end may come in a body. */
static bool look(tcp_transport *t, int peer, weft_transport_found *found) {
    connection *c = &t->peers[peer];
    if (peer == t->head.rank || c->reported) return true;
    for (bool may = !c->announced && wefti_tcp_has_room(c); may; may = !c->tells) {
        if (c->tells) take_card(t, peer);
        if (!c->tells && c->n_head < WEFTI_TCP_HEAD_BYTES) {
            struct iovec part = {c->head + c->n_head,
                                 (size_t)(WEFTI_TCP_HEAD_BYTES - c->n_head)};
            c->n_head += (int)wefti_connection_read(&c->stream, &part, 1);
        }
        if (c->tells || c->n_head < WEFTI_TCP_HEAD_BYTES) break;
        if (!announce(t, peer, found) || c->announced) return c->announced;
        if (c->tells) take_card(t, peer);
    }
    t->cut = t->cut || wefti_tcp_was_cut(c);
    if (!wefti_tcp_is_over(c)) return true;
    *found = (weft_transport_found){.closed = true, .peer = peer};
    c->reported = true;
    return true;
}

static bool tcp_probe(weft_transport *head, weft_transport_found *found, void **message) {
    tcp_transport *t = (tcp_transport *)head;
    *found = (weft_transport_found){0};
    for (int i = 0; i < head->size; i++) {
        int p = (t->next + i) % head->size;
        if (!look(t, p, found)) return false;
        if (!found->any && !found->closed) continue;
        *message = &t->peers[p];
        t->next = (p + 1) % head->size;
        return true;
    }
    (void)wefti_tcp_look_at_callers(t, found);
    return true;
}

static bool tcp_receive(weft_transport *head, void *message, void *data, int n_bytes,
                        void **request) {
    connection *c = message;
    tcp_transport *t = (tcp_transport *)head;
    if (c->by > 0 && !wefti_tcp_await(t, c, data, n_bytes, request))
        return fail(t, (int)(c - t->peers), "could not receive from", strerror(ENOMEM));
    if (c->by > 0) return true;
    c->into = data;
    c->n_bytes = n_bytes;
    c->n_got = 0;
    *request = c;
    return true;
}

static double tcp_rate(const weft_transport *head, int peer) {
    const connection *c = &((const tcp_transport *)head)->peers[peer];
    double Bps = wefti_tcp_rate(c->stream.fd);
    for (int i = 0; i < c->n_more; i++)
        Bps = (i > 0 ? Bps : 0) + wefti_tcp_rate(c->more[i].stream.fd);
    return Bps;
}

static int64_t tcp_relayed(const weft_transport *head) {
    return atomic_load(&((const tcp_transport *)head)->n_relayed);
}

/* --- sleeping --- */

static void tcp_wait(weft_transport *head, double seconds) {
    tcp_transport *t = (tcp_transport *)head;
    wefti_ready ready[WEFTI_READY_MOST];
    int most_ms = t->called || t->relaying
                      ? 0
                      : (int)ceil(seconds * 1000); /* a caller waits already */
    int n = wefti_readiness_wait(&t->readiness, most_ms, ready);
    for (int i = 0; i < n; i++) {
        connection *c = ready[i].what;
        if (ready[i].what == &t->callers)
            t->called = true;
        else if (ready[i].what == &t->recalled)
            t->recalled = true;
        else if (c)
            wefti_connection_ready(&c->stream, ready[i].events);
    }
    wefti_tcp_relay(t);
    wefti_tcp_resume(t);
}

static void tcp_wake(weft_transport *head) {
    wefti_readiness_wake(&((tcp_transport *)head)->readiness);
}

static void tcp_say(const weft_transport *head, char *text, int size) {
    snprintf(text, (size_t)size, "%s", ((const tcp_transport *)head)->text);
}

/* --- beginning and end --- */

static void free_outgoing(outgoing *o) {
    while (o) {
        outgoing *next = o->next;
        free(o->own);
        if (!o->part) free(o);
        o = next;
    }
}

/* Frees the tables of a process that has joined late. */
static void free_tables(const tcp_transport *t) {
    union {
        const void *in;
        void *out;
    } tables[2] = {{.in = t->entry.rank_of}, {.in = t->entry.names}};
    for (int i = 0; i < 2; i++) free(tables[i].out);
}

static bool tcp_finish(weft_transport *head, bool failed) {
    tcp_transport *t = (tcp_transport *)head;
    for (int p = 0; p < head->size && t->peers; p++) {
        connection *c = &t->peers[p];
        for (int i = 0; i <= c->n_more; i++) {
            connection *s = wefti_tcp_socket(c, i);
            if (s->stream.tls && !failed) wefti_tls_say_end(s->stream.tls, &s->stream);
            wefti_connection_close(&s->stream);
            wefti_tcp_end_lasting(s);
            free_outgoing(s->first);
            free_outgoing(s->due);
        }
        if (c->call >= 0) close(c->call);
        free(c->more);
    }
    wefti_callers_fini(&t->callers);
    wefti_tcp_end_relays(t, false);
    wefti_guard_end(t->guard, failed || t->speaks);
    if (t->listener >= 0) close(t->listener);
    free_outgoing(t->spare);
    wefti_readiness_fini(&t->readiness);
    wefti_tls_context_destroy(t->tls);
    free_tables(t);
    free(t->peers);
    free(t->cards);
    free(t->hosts);
    free(t->replaced);
    free(t);
    return true;
}

static void let_go(int *fd) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
}

/* Closes the child's descriptors, but does not affect what the kernel has behind them: no
 * shutdown, no TLS farewell, and nothing is removed from the set, for which the parent
 * still waits. */
static void tcp_forget(weft_transport *head) {
    tcp_transport *t = (tcp_transport *)head;
    for (int p = 0; p < head->size; p++) {
        for (int i = 0; i <= t->peers[p].n_more; i++) {
            connection *c = wefti_tcp_socket(&t->peers[p], i);
            let_go(&c->stream.fd);
            if (c->recall) let_go(&c->recall->s.fd);
        }
        let_go(&t->peers[p].call);
    }
    for (int i = 0; i < t->callers.n; i++) let_go(&t->callers.list[i].stream.fd);
    wefti_tcp_end_relays(t, true);
    wefti_guard_forget(t->guard);
    let_go(&t->listener);
    wefti_readiness_forget(&t->readiness);
}

/* Calls at the listener wake the thread. */
static bool watch_listener(tcp_transport *t) {
    if (t->listener < 0) return true;
    t->callers.listener = t->listener;
    t->callers.tls = t->tls;
    t->callers.rank = t->head.rank;
    t->callers.admit = wefti_tcp_admit;
    t->callers.user = t;
    t->called = true; /* some may have called during the gathering */
    return wefti_callers_init(&t->callers) &&
           wefti_readiness_watch(&t->readiness, WEFTI_WATCH_NEW, t->listener, POLLIN,
                                 &t->callers);
}

static bool prepare(tcp_transport *t) {
    bool fine = wefti_readiness_init(&t->readiness) && watch_listener(t);
    for (int r = 0; r < t->head.size && fine; r++) {
        wefti_tcp_begin(t, r, t->peers[r].stream);
        if (t->peers[r].stream.fd >= 0)
            fine = wefti_tcp_watch(t, WEFTI_WATCH_NEW, t->peers[r].stream.fd,
                                   &t->peers[r]);
    }
    return fine;
}

/* Allocates tables for `size` processes, none of which is connected. */
static bool make_room(tcp_transport *t, size_t size) {
    t->peers = calloc(size, sizeof *t->peers);
    t->cards = calloc(size, WEFTI_CARD_BYTES);
    t->hosts = calloc(size, sizeof *t->hosts);
    t->replaced = calloc(size, sizeof *t->replaced);
    bool room = t->peers && t->cards && t->hosts && t->replaced;
    t->head.size = room ? (int)size : 0;
    for (size_t r = 0; r < size && room; r++) {
        t->peers[r].stream = wefti_connection_of(-1);
        t->peers[r].call = -1;
        t->hosts[r] = (const char *)t->cards + r * WEFTI_CARD_BYTES + WEFTI_CARD_HOST_AT;
    }
    t->head.host = t->hosts;
    return room;
}

static weft_status begin(weft_ctx *ctx, const wefti_tcp_place *place,
                         const weft_mesh_security *security, bool *taken,
                         tcp_transport *t) {
    size_t size = (size_t)place->size;
    wefti_connection *streams = calloc(size, sizeof *streams);
    bool room = streams && make_room(t, size + (size_t)place->spare);
    weft_status status = room ? wefti_tls_context_create(ctx, security, &t->tls)
                              : weft_ctx_fail(ctx, WEFT_ERR_MEMORY,
                                              "no memory for connections");
    *taken = status == WEFT_OK;
    if (status == WEFT_OK)
        status = wefti_gather(ctx, place, t->tls, streams, t->cards, &t->listener);
    for (size_t r = 0; r < size && status == WEFT_OK; r++)
        t->peers[r].stream = streams[r];
    free(streams);
    if (status == WEFT_OK && !prepare(t))
        status = weft_ctx_fail(ctx, WEFT_ERR_PEER, "could not watch the connections: %s",
                               strerror(errno));
    return status;
}

static uint64_t tcp_machine(const weft_transport *head, int peer) {
    const tcp_transport *t = (const tcp_transport *)head;
    return wefti_get_u64(t->cards + (size_t)peer * WEFTI_CARD_BYTES +
                         WEFTI_CARD_MACHINE_AT);
}

/* WEFT_RESUME: off, because going on keeps a copy of what is on its way, and TLS takes a call of
 * the kernel for each record. */
static weft_status read_resumes(weft_ctx *ctx, bool *out) {
    const char *value = getenv("WEFT_RESUME");
    *out = value && wefti_is(value, "on");
    if (!value || *out || wefti_is(value, "off")) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "WEFT_RESUME is '%s', expected on or off",
                         value);
}

/* A transport without connections. */
static weft_status create(weft_ctx *ctx, tcp_transport **out) {
    static const weft_transport_ops ops = {
        .struct_size = sizeof ops,
        .name = "tcp",
        .send = tcp_send,
        .probe = tcp_probe,
        .receive = tcp_receive,
        .test = tcp_test,
        .withdraw = tcp_withdraw,
        .flush = tcp_flush,
        .wait = tcp_wait,
        .wake = tcp_wake,
        .keep = wefti_tcp_keep,
        .inquire = wefti_tcp_inquire,
        .turn = wefti_tcp_turn,
        .hang_up = wefti_tcp_hang_up,
        .rate = tcp_rate,
        .where = wefti_tcp_where,
        .give_place = wefti_tcp_give_place,
        .say = tcp_say,
        .finish = tcp_finish,
        .forget = tcp_forget,
        .ask = wefti_tcp_ask,
        .machine = tcp_machine,
        .paths = wefti_tcp_paths,
        .relayed = tcp_relayed,
    };
    bool resumes;
    WEFT_TRY(read_resumes(ctx, &resumes));
    tcp_transport *t = calloc(1, sizeof *t);
    *out = t;
    if (!t) return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for connections");
    t->resumes = resumes;
    t->head = (weft_transport){.ops = &ops, .streams = true, .version = "TCP"};
    t->readiness = (wefti_readiness){-1, -1};
    t->listener = -1;
    return WEFT_OK;
}

/* *out is the transport; or NULL, and the transport is freed. */
static weft_status end_opening(tcp_transport *t, weft_status status,
                               weft_transport **out) {
    *out = NULL;
    if (status != WEFT_OK) {
        (void)tcp_finish(&t->head, true);
        return status;
    }
    if (t->tls) t->head.version = "TCP with TLS 1.3";
    *out = &t->head;
    return WEFT_OK;
}

static weft_status open_at(weft_ctx *ctx, const wefti_tcp_place *place,
                           const weft_mesh_security *security, bool *taken,
                           weft_transport **out) {
    *out = NULL;
    if (place->size < 1 || place->size > MAX_SIZE || place->rank < 0 ||
        place->rank >= place->size || place->port < 1 || place->port > 65535)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "rank %d of %d at port %d: expected at most %d ranks, counted "
            "from 0, and a port from 1 to 65535",
            place->rank, place->size, place->port, (int)MAX_SIZE);
    tcp_transport *t;
    WEFT_TRY(create(ctx, &t));
    t->head.rank = place->rank;
    t->endpoint = place->port;
    t->streams = place->streams;
    t->head.founders = place->spare > 0 ? place->size : 0;
    return end_opening(t, begin(ctx, place, security, taken, t), out);
}

/* --- for a process that joins late --- */

/* The table of the run becomes this transport's. */
static weft_status take_table(weft_ctx *ctx, tcp_transport *t, wefti_connection *streams,
                              wefti_late_table *table, const wefti_late_card *card) {
    if (!make_room(t, (size_t)table->n_places))
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for connections");
    memcpy(t->cards, table->cards, (size_t)table->n_places * WEFTI_CARD_BYTES);
    wefti_late_card_as_card(card, t->cards + (size_t)table->place * WEFTI_CARD_BYTES);
    for (int r = 0; r < table->n_places; r++) t->peers[r].stream = streams[r];
    t->entry = (weft_transport_entry){.struct_size = sizeof(weft_transport_entry),
                                      .run = table->run,
                                      .incarnation = card->incarnation,
                                      .group = table->group,
                                      .rank_of = table->rank_of,
                                      .names = table->names};
    table->rank_of = NULL;
    table->names = NULL;
    t->head.rank = table->place;
    t->head.entry = &t->entry;
    if (prepare(t)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_PEER, "could not watch the connections: %s",
                         strerror(errno));
}

weft_status wefti_tcp_enter(weft_ctx *ctx, const wefti_tcp_place *place,
                            const weft_mesh_security *security, weft_transport **out) {
    tcp_transport *t;
    wefti_connection *streams = NULL;
    wefti_late_table table = {0};
    wefti_late_card card;
    *out = NULL;
    WEFT_TRY(create(ctx, &t));
    t->endpoint = place->endpoints[0].port;
    t->streams = place->streams;
    weft_status status = wefti_tls_context_create(ctx, security, &t->tls);
    if (status == WEFT_OK)
        status = wefti_late_enter(ctx, place, t->tls, &streams, &table, &card,
                                  &t->listener);
    if (status == WEFT_OK) status = take_table(ctx, t, streams, &table, &card);
    for (int r = 0; t->head.size == 0 && streams && r < table.n_places; r++)
        wefti_connection_close(&streams[r]);
    free(streams);
    wefti_late_table_fini(&table);
    return end_opening(t, status, out);
}

weft_status wefti_tcp_open(weft_ctx *ctx, const wefti_tcp_place *place,
                           const weft_mesh_security *security, weft_transport **out) {
    bool taken = false; /* whether the listener is the transport's now */
    weft_status status = open_at(ctx, place, security, &taken, out);
    if (place->listener > 0 && !taken) close(place->listener);
    return status;
}

weft_status wefti_tcp_listen_at(weft_ctx *ctx, int port, int *listener) {
    *listener = wefti_socket_listen(false, port);
    if (*listener >= 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_PEER, "could not listen at port %d: %s", port,
                         strerror(errno));
}

weft_status wefti_tcp_listen(weft_ctx *ctx, int *listener, int *port) {
    *listener = wefti_socket_listen(false, 0);
    *port = *listener >= 0 ? wefti_socket_port(*listener) : 0;
    if (*listener >= 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_PEER, "could not listen at any port: %s",
                         strerror(errno));
}
