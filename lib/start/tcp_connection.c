/* SPDX-License-Identifier: MIT */
/* The beginning of a connection of this transport: how the socket is set up, who wakes the
 * sleeping thread, and at which address the peer can be called again. The same for
 * processes that gathered and for those that join later. */
#define _GNU_SOURCE
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/resend.h"
#include "net/socket.h"
#include "net/window.h"
#include "start/tcpstate.h"

void wefti_tcp_set_port(connection *c, int port) {
    union {
        struct sockaddr_storage *any;
        struct sockaddr_in *v4;
        struct sockaddr_in6 *v6;
    } a = {.any = &c->address};
    if (c->address.ss_family == AF_INET) a.v4->sin_port = htons((uint16_t)port);
    if (c->address.ss_family == AF_INET6) a.v6->sin6_port = htons((uint16_t)port);
}

bool wefti_tcp_watch(const tcp_transport *t, wefti_watch how, int fd, connection *c) {
    return wefti_readiness_watch(&t->readiness, how, fd, POLLIN | POLLOUT, c);
}

/* New callers are watched like connections, all with the same pointer in place of a
 * connection's: an event then means that some caller is ready. */
void wefti_tcp_watch_callers(tcp_transport *t, int from) {
    for (int i = from; i < t->callers.n; i++)
        (void)wefti_readiness_watch(&t->readiness, WEFTI_WATCH_NEW,
                                    t->callers.list[i].stream.fd, POLLIN | POLLOUT,
                                    &t->callers);
}

void wefti_tcp_make_lasting(const tcp_transport *t, connection *c) {
    if (!t->resumes) return;
    const connection *pair = c->pair ? c->pair : c;
    const wefti_connection *first = &pair->stream;
    const struct sockaddr *peer = (const struct sockaddr *)&first->peer;
    bool known = pair == c ? first->token != 0 || first->tls : first->kept != NULL;
    if (c->stream.fd < 0 || !known || wefti_socket_is_loopback(peer)) return;
    memcpy(c->secret, &first->token, sizeof first->token);
    if (pair == c && first->tls && !wefti_tls_secret(first->tls, c->secret)) return;
    c->stream.kept = wefti_resend_create();
    c->stream.n_read = 0; /* what gathered or joined is not part of it */
    c->heard_s = wefti_now_s();
}

void wefti_tcp_end_recall(connection *c) {
    if (c->recall) wefti_connection_close(&c->recall->s);
    free(c->recall);
    c->recall = NULL;
}

void wefti_tcp_end_lasting(connection *c) {
    wefti_tcp_end_recall(c);
    wefti_resend_destroy(c->stream.kept);
    c->stream.kept = NULL;
}

void wefti_tcp_attach(tcp_transport *t, connection *c, wefti_connection stream,
                      wefti_watch how) {
    const int yes = 1, unsent = WEFTI_TCP_MORE_UNSENT_BYTES;
    c->stream = stream;
    if (stream.fd < 0) return;
    c->met = true;
    setsockopt(stream.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(stream.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    wefti_socket_pace(stream.fd);
    c->unsent = unsent;
    wefti_tcp_make_lasting(t, c);
    if (!wefti_tcp_watch(t, how, stream.fd, c)) wefti_connection_close(&c->stream);
}

/* What was going out is as good as sent; what was to come is forgotten. */
static void drop_more(tcp_transport *t, connection *pair) {
    for (int i = 0; i < pair->n_more; i++) {
        connection *c = &pair->more[i];
        wefti_connection_close(&c->stream);
        wefti_tcp_end_lasting(c);
        for (; c->first; c->first = c->first->next) c->first->n_sent = c->first->n_bytes;
        while (c->due) {
            outgoing *o = c->due;
            c->due = o->next;
            o->next = t->spare;
            t->spare = o;
        }
    }
    free(pair->more);
    pair->more = NULL;
    pair->n_more = pair->n_due = 0;
}

/* Gives the pair further sockets in place of those it had. */
static void set_more(tcp_transport *t, connection *pair, wefti_connection *streams,
                     int n) {
    drop_more(t, pair);
    pair->more = n > 0 ? calloc((size_t)n, sizeof *pair->more) : NULL;
    pair->n_more = pair->more ? n : 0;
    for (int i = 0; i < n; i++) {
        if (!pair->more) wefti_connection_close(&streams[i]);
        if (!pair->more) continue;
        pair->more[i] = (connection){.call = -1, .pair = pair};
        wefti_tcp_attach(t, &pair->more[i], streams[i], WEFTI_WATCH_NEW);
    }
    if (pair->n_more < n) wefti_connection_close(&pair->stream);
}

void wefti_tcp_begin(tcp_transport *t, int p, wefti_connection stream) {
    int yes = 1, unsent = WEFT_TRANSPORT_UNSENT_BYTES;
    connection *c = &t->peers[p];
    if (c->call >= 0) close(c->call);
    for (; c->first; c->first = c->first->next) c->first->n_sent = c->first->n_bytes;
    drop_more(t, c);
    wefti_tcp_end_lasting(c);
    wefti_connection *more = stream.more;
    int n_more = stream.n_more;
    stream.more = NULL;
    stream.n_more = 0;
    *c = (connection){.stream = stream, .call = -1, .reported = stream.fd < 0};
    c->address = stream.peer; /* also of a connection that has ended before it began */
    wefti_tcp_set_port(c, wefti_card_port(t->cards + (size_t)p * WEFTI_CARD_BYTES));
    wefti_tcp_make_lasting(t, c);
    if (stream.fd >= 0) set_more(t, c, more, n_more);
    free(more);
    if (stream.fd < 0) return;
    setsockopt(stream.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(stream.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    c->unsent = unsent;
    if (n_more > 0 || wefti_tcp_round_trip_s(stream.fd) >= WEFTI_LONG_WIRE_S)
        wefti_socket_pace(stream.fd);
}

bool wefti_tcp_where(const weft_transport *head, int peer, char *out, int size) {
    const connection *c = &((const tcp_transport *)head)->peers[peer];
    char host[WEFTI_CALLER_ADDRESS_BYTES];
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.any = c->address};
    wefti_socket_address((const struct sockaddr *)&c->address, host, sizeof host);
    if (!host[0]) return false;
    bool v6 = c->address.ss_family == AF_INET6;
    int n = snprintf(out, (size_t)size, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host,
                     ntohs(v6 ? at.v6.sin6_port : at.v4.sin_port));
    return n > 0 && n < size;
}

int wefti_tcp_ask(weft_transport *head, const char *host, int port, const void *bytes,
                  int n_bytes, double seconds) {
    const tcp_transport *t = (const tcp_transport *)head;
    double until_s = wefti_now_s() + seconds;
    unsigned char answer = 0, question[WEFTI_CARD_BYTES];
    if (n_bytes > (int)sizeof question) return 0;
    memcpy(question, bytes, (size_t)n_bytes);
    wefti_connection s = wefti_connection_of(
        wefti_socket_connect(NULL, host, port, until_s));
    bool heard = s.fd >= 0 &&
                 wefti_socket_shake(t->tls, &s, until_s) == WEFTI_SHAKE_DONE &&
                 wefti_connection_all(&s, question, (size_t)n_bytes, true, until_s) &&
                 wefti_connection_all(&s, &answer, 1, false, until_s);
    wefti_connection_close(&s);
    return heard ? answer : 0;
}
