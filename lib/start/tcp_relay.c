/* SPDX-License-Identifier: MIT */
/* Relayed connections (relay.h): how a member joins two callers and passes their bytes on, and
 * how one that hears of a wish calls. All of it runs on the progress thread and never waits.
 * A slow receiver fills the buffer of its direction, then the sender's socket, and delays
 * nothing else.
 *
 *     side 0 -> buffer of 64 KB -> side 1, and back; at most so much of each in a turn
 *
 * The end of one side is the end of the other, after it has got what came before. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/socket.h"
#include "start/relay.h"
#include "start/tcpstate.h"

#ifndef TCP_KEEPIDLE
#define TCP_KEEPIDLE TCP_KEEPALIVE /* macOS */
#endif
enum { BUFFER_BYTES = 64 << 10, TURNS = 8, MOST_RELAYS = 128, KEEP_IDLE_S = 30 };
static const double last_words_s = 5;

struct wefti_relay {
    struct wefti_relay *next;
    connection side[2];
    double ended_s; /* since when one side has ended; 0: none has */
    int n[2], at[2];
    bool shut[2];
    unsigned char buffer[2]
                        [BUFFER_BYTES]; /* [n] from each side, of which `at` were sent */
};

/* --- passing on --- */

/* What has come from one side goes to the other; *more: its turn was over before that. */
static int64_t pass_on(struct wefti_relay *r, int from, bool *more) {
    wefti_connection *in = &r->side[from].stream, *out = &r->side[!from].stream;
    int64_t n = 0;
    int turn = 0;
    for (; turn < TURNS; turn++) {
        struct iovec part = {r->buffer[from], BUFFER_BYTES};
        if (r->at[from] == r->n[from]) {
            r->at[from] = 0;
            r->n[from] = (int)wefti_connection_read(in, &part, 1);
        }
        part = (struct iovec){r->buffer[from] + r->at[from],
                              (size_t)(r->n[from] - r->at[from])};
        if (part.iov_len == 0) break;
        size_t sent = out->fd >= 0 ? wefti_connection_write(out, &part, 1) : part.iov_len;
        r->at[from] += (int)sent;
        n += (int64_t)sent;
        if (sent < part.iov_len) break;
    }
    *more = *more || turn == TURNS;
    bool last = in->fd < 0 && r->at[from] == r->n[from] && !r->shut[!from];
    if (last && out->fd >= 0) r->shut[!from] = shutdown(out->fd, SHUT_WR) == 0;
    return n;
}

static bool is_over(struct wefti_relay *r) {
    bool ended[2] = {r->side[0].stream.fd < 0, r->side[1].stream.fd < 0};
    if (!ended[0] && !ended[1]) return false;
    if (r->ended_s <= 0) r->ended_s = wefti_now_s();
    if (!(ended[0] && ended[1]) && wefti_now_s() - r->ended_s < last_words_s)
        return false;
    for (int i = 0; i < 2; i++) wefti_connection_close(&r->side[i].stream);
    return true;
}

void wefti_tcp_relay(tcp_transport *t) {
    bool more = false;
    for (struct wefti_relay **link = &t->relays, *r = *link; r; r = *link) {
        for (int i = 0; i < 2; i++) atomic_fetch_add(&t->n_relayed, pass_on(r, i, &more));
        if (!is_over(r)) {
            link = &r->next;
            continue;
        }
        *link = r->next;
        t->n_relays--;
        free(r);
    }
    t->relaying = more;
}

void wefti_tcp_end_relays(tcp_transport *t, bool forget) {
    for (struct wefti_relay *r = t->relays, *next; r; r = next) {
        next = r->next;
        for (int i = 0; i < 2; i++) {
            if (r->side[i].stream.fd >= 0) close(r->side[i].stream.fd);
            r->side[i].stream.fd = -1;
        }
        if (!forget) free(r);
    }
}

/* --- joining two callers --- */

static void join(tcp_transport *t, wefti_connection a, wefti_connection b) {
    static const int yes = 1, idle = KEEP_IDLE_S, unsent = BUFFER_BYTES;
    unsigned char code = WEFTI_RELAY_JOINED;
    struct iovec part = {&code, 1};
    struct wefti_relay *r = t->n_relays < MOST_RELAYS ? calloc(1, sizeof *r) : NULL;
    bool fine = r && wefti_connection_write(&a, &part, 1) == 1 &&
                wefti_connection_write(&b, &part, 1) == 1;
    if (!fine) {
        wefti_connection_close(&a);
        wefti_connection_close(&b);
        free(r);
        return;
    }
    r->side[0].stream = a;
    r->side[1].stream = b;
    for (int i = 0; i < 2; i++) {
        wefti_connection *s = &r->side[i].stream;
        wefti_connection_bare(s);
        setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        setsockopt(s->fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
        setsockopt(s->fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
        setsockopt(s->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
        if (!wefti_tcp_watch(t, WEFTI_WATCH_AGAIN, s->fd, &r->side[i]))
            wefti_connection_close(s);
    }
    r->next = t->relays;
    t->relays = r;
    t->n_relays++;
    t->called = true;
}

/* The caller that this one, which asks, is to be joined with; NULL: it has not come. */
static wefti_caller *find_other(tcp_transport *t, const wefti_relay_card *asks) {
    wefti_relay_card card;
    for (int i = 0; i < t->callers.n; i++) {
        wefti_caller *c = &t->callers.list[i];
        if (!c->outward && !c->out && c->n_card == WEFTI_CARD_BYTES &&
            wefti_relay_card_read(c->card, &card) && wefti_relay_fits(asks, &card))
            return c;
    }
    return NULL;
}

void wefti_tcp_join_callers(tcp_transport *t) {
    wefti_relay_card asks;
    for (int i = t->callers.n - 1; i >= 0; i--) {
        wefti_caller *c = i < t->callers.n ? &t->callers.list[i] : NULL;
        if (!c || c->outward || c->out || c->n_card < WEFTI_CARD_BYTES ||
            !wefti_relay_card_read(c->card, &asks) || asks.kind != WEFTI_RELAY_ASKS)
            continue;
        wefti_caller *other = find_other(t, &asks);
        if (!other) continue;
        unsigned number = other->number;
        wefti_connection a = wefti_callers_take(&t->callers, c);
        other = wefti_callers_find(&t->callers, number);
        join(t, a, wefti_callers_take(&t->callers, other));
    }
}

wefti_caller_fate wefti_tcp_admit_relay(tcp_transport *t, wefti_caller *caller,
                                        wefti_relay_card *card) {
    unsigned char bytes[WEFTI_CARD_BYTES], code = WEFTI_RELAY_NOBODY;
    bool there = card->to < t->head.size && t->peers[card->to].stream.fd >= 0;
    if (card->kind == WEFTI_RELAY_COMES) return WEFTI_CALLER_WAITS;
    if (card->kind == WEFTI_RELAY_CALLS)
        return WEFTI_CALLER_GONE; /* nobody waits for it */
    memcpy(card->address, caller->address, sizeof card->address);
    wefti_relay_card_write(card, bytes);
    if (there && card->token != WEFTI_RELAY_GATHERS) wefti_tcp_tell(t, card->to, bytes);
    if (there && card->kind == WEFTI_RELAY_ASKS) return WEFTI_CALLER_WAITS;
    if (there) code = WEFTI_RELAY_JOINED;
    wefti_callers_answer(&t->callers, caller, &code, 1);
    return WEFTI_CALLER_WAITS;
}

/* --- the other one --- */

void wefti_tcp_hear_told(tcp_transport *t, int peer, const unsigned char *bytes) {
    wefti_relay_card wish;
    unsigned char own[WEFTI_CARD_BYTES];
    struct sockaddr_storage whose, relay = t->peers[peer].address;
    if (t->listener < 0 || !wefti_relay_card_read(bytes, &wish) ||
        wish.to != t->head.rank || !wefti_socket_parse(wish.address, wish.port, &whose) ||
        (wish.kind != WEFTI_RELAY_WANTED && wish.kind != WEFTI_RELAY_ASKS))
        return;
    bool direct = wish.kind == WEFTI_RELAY_WANTED;
    const wefti_relay_card card = {direct ? WEFTI_RELAY_CALLS : WEFTI_RELAY_COMES,
                                   wish.to,
                                   wish.from,
                                   wefti_socket_port(t->listener),
                                   wish.token,
                                   ""};
    wefti_relay_card_write(&card, own);
    if (wefti_callers_call(&t->callers, direct ? &whose : &relay, &whose, own))
        wefti_tcp_watch_callers(t, t->callers.n - 1);
}
