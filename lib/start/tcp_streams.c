/* SPDX-License-Identifier: MIT */
/* The further sockets of a pair (streams.h): which one carries a piece, what has been announced
 * and is still to come by one, and the end of a pair of which one has ended.
 *
 *     send: head -> first socket, with the number of another; body -> that one's queue
 *     probe: head -> receive: entry in the list `due` of the socket that it names -> test
 *
 * A pair ends as a whole. Its first socket says what was meant to arrive, so it is read first:
 * other processes close it first. A pair whose first socket lives on without the others, or
 * whose bodies do not come, is ended after a second. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "net/resend.h"
#include "start/tcpstate.h"

static const double lame_patience_s = 1, newborn_s = 1.5;
enum { DUE_PER_SOCKET = 2, CONFIRM_BYTES = 64 << 10 };

connection *wefti_tcp_socket(connection *pair, int number) {
    return number == 0 ? pair : &pair->more[number - 1];
}

int wefti_tcp_least_laden(connection *pair) {
    int best = 0;
    for (int i = 0; i < pair->n_more; i++) {
        int number = 1 + (pair->turn + i) % pair->n_more;
        const connection *c = wefti_tcp_socket(pair, number);
        if (c->stream.fd < 0) continue;
        if (best == 0 || c->n_queued < wefti_tcp_socket(pair, best)->n_queued)
            best = number;
    }
    pair->turn = best;
    return best;
}

int wefti_tcp_paths(const weft_transport *head, int peer) {
    return ((const tcp_transport *)head)->peers[peer].n_more;
}

outgoing *wefti_tcp_spare(tcp_transport *t) {
    outgoing *o = t->spare;
    if (!o) return malloc(sizeof *o);
    t->spare = o->next;
    return o;
}

void wefti_tcp_queue(connection *c, outgoing *o, uint32_t lane, int64_t n_bytes) {
    wefti_put_u32(o->head, lane);
    wefti_put_u32(o->head + 4, (uint32_t)n_bytes);
    if (c->first)
        c->last->next = o;
    else
        c->first = o;
    c->last = o;
    c->n_queued += o->n_bytes;
}

void wefti_tcp_tell(tcp_transport *t, int peer, const unsigned char *card) {
    connection *c = &t->peers[peer];
    if (c->telling.n_sent < c->telling.n_bytes) return;
    memcpy(c->told_card, card, sizeof c->told_card);
    c->telling = (outgoing){.data = c->told_card,
                            .n_bytes = WEFTI_TCP_HEAD_BYTES + WEFTI_CARD_BYTES,
                            .part = true};
    wefti_tcp_queue(c, &c->telling, WEFTI_LANE_CARDS, WEFTI_CARD_BYTES);
}

bool wefti_tcp_has_room(const connection *pair) {
    return pair->n_due <= DUE_PER_SOCKET * pair->n_more;
}

bool wefti_tcp_await(tcp_transport *t, connection *pair, void *data, int n_bytes,
                     void **request) {
    connection *c = wefti_tcp_socket(pair, pair->by);
    outgoing *o = wefti_tcp_spare(t), **link = &c->due;
    *request = o;
    if (!o) return false;
    *o = (outgoing){.into = data, .n_bytes = n_bytes, .from = c};
    while (*link) link = &(*link)->next;
    *link = o;
    pair->n_due++;
    pair->announced = false;
    return true;
}

bool wefti_tcp_awaited(tcp_transport *t, outgoing *o) {
    connection *c = o->from, *pair = c->pair;
    while (c->due == o && o->n_sent < o->n_bytes && c->stream.readable &&
           c->stream.fd >= 0) {
        struct iovec part = {o->into + o->n_sent, (size_t)(o->n_bytes - o->n_sent)};
        size_t got = wefti_connection_read(&c->stream, &part, 1);
        o->n_sent += (int64_t)got;
        if (got > 0) pair->lame_s = 0;
    }
    bool done = o->n_sent == o->n_bytes && c->due == o;
    size_t left = (size_t)(o->n_bytes - o->n_sent);
    if (c->due == o) wefti_connection_expect(&c->stream, done ? 1 : left);
    if (!done) return false;
    c->due = o->next;
    pair->n_due--;
    o->next = t->spare;
    t->spare = o;
    return true;
}

static bool has_lost_one(const connection *pair) {
    for (int i = 0; i < pair->n_more; i++) {
        const connection *c = &pair->more[i];
        if (c->met && (c->stream.fd < 0 || c->stream.ending)) return true;
    }
    return false;
}

/* It has just gone on, and nothing has come since. */
static bool is_newborn(const connection *c) {
    return c->resumed_s > 0 && c->stream.n_read == c->resumed_n &&
           wefti_now_s() - c->resumed_s < newborn_s;
}

bool wefti_tcp_was_cut(const connection *c) {
    return c->stream.kept && c->stream.fd < 0 && c->stream.error != 0 && !c->called_after;
}

bool wefti_tcp_may_resume(const connection *c) {
    const connection *pair = c->pair ? c->pair : c;
    return c->stream.kept && !c->stream.kept->lost && !pair->quits && !pair->reported &&
           (c->recall || is_newborn(c) || wefti_tcp_was_cut(c));
}

static bool owes(connection *pair) {
    bool any = false;
    for (int i = 0; i <= pair->n_more; i++) {
        const connection *c = wefti_tcp_socket(pair, i);
        any |= c->stream.fd >= 0 ? wefti_connection_owes(&c->stream)
                                 : wefti_tcp_may_resume(c);
    }
    return any;
}

bool wefti_tcp_is_sent(const outgoing *o) {
    bool left = o->n_sent == o->n_bytes &&
                (!o->lead || o->lead->n_sent == o->lead->n_bytes);
    return left && !owes(o->to);
}

void wefti_tcp_confirm(connection *pair) {
    for (int i = 0; i <= pair->n_more && pair->stream.kept; i++) {
        connection *c = wefti_tcp_socket(pair, i);
        int64_t n = c->stream.n_read;
        bool under_way = c->confirming.n_sent < c->confirming.n_bytes;
        if (n - c->confirmed_n < CONFIRM_BYTES || under_way) continue;
        c->confirmed_n = n;
        c->confirming = (outgoing){.n_bytes = WEFTI_TCP_HEAD_BYTES, .part = true};
        wefti_tcp_queue(pair, &c->confirming, WEFTI_LANE_CONFIRMS | (uint32_t)i << 16,
                        (int64_t)(n & UINT32_MAX));
    }
}

static bool may_resume(connection *pair) {
    bool any = false;
    for (int i = 0; i <= pair->n_more; i++)
        any = any || wefti_tcp_may_resume(wefti_tcp_socket(pair, i));
    return any;
}

bool wefti_tcp_is_over(connection *pair) {
    bool ended = pair->stream.fd < 0;
    if (!ended && !has_lost_one(pair)) return false;
    if (may_resume(pair)) return false;
    double now_s = wefti_now_s();
    if (pair->lame_s <= 0) pair->lame_s = now_s;
    if (!(ended && pair->n_due == 0) && now_s - pair->lame_s <= lame_patience_s)
        return false;
    for (int i = 0; i <= pair->n_more; i++)
        wefti_connection_close(&wefti_tcp_socket(pair, i)->stream);
    return true;
}
