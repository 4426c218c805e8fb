/* SPDX-License-Identifier: MIT */
/* The beginning of a connection of this transport: how the socket is set up, who wakes the
 * sleeping thread, and at which address the peer can be called again. The same for
 * processes that gathered and for those that join later. */
#define _GNU_SOURCE
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/dial.h"
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

bool wefti_tcp_watch(const tcp_transport *t, int op, int fd, connection *c) {
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = c};
    if (c) event.events |= EPOLLOUT | EPOLLRDHUP;
    return epoll_ctl(t->epoll, op, fd, &event) == 0;
}

void wefti_tcp_begin(tcp_transport *t, int p, wefti_connection stream) {
    int yes = 1, unsent = WEFT_TRANSPORT_UNSENT_BYTES;
    connection *c = &t->peers[p];
    if (c->call >= 0) close(c->call);
    for (; c->first; c->first = c->first->next) c->first->n_sent = c->first->n_bytes;
    *c = (connection){.stream = stream, .call = -1, .told = stream.fd < 0};
    c->address = stream.peer; /* also of a connection that has ended before it began */
    wefti_tcp_set_port(c, wefti_card_port(t->cards + (size_t)p * WEFTI_CARD_BYTES));
    if (stream.fd < 0) return;
    setsockopt(stream.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    setsockopt(stream.fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
    c->unsent = unsent;
}

bool wefti_tcp_where(const weft_transport *head, int peer, char *out, int size) {
    const connection *c = &((const tcp_transport *)head)->peers[peer];
    char host[WEFTI_CALLER_ADDRESS_BYTES];
    union {
        struct sockaddr_storage any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at = {.any = c->address};
    wefti_dial_address((const struct sockaddr *)&c->address, host, sizeof host);
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
    wefti_connection s = wefti_connection_of(wefti_dial(NULL, host, port, until_s));
    bool heard = s.fd >= 0 && wefti_dial_shake(t->tls, &s, until_s) == WEFTI_SHAKE_DONE &&
                 wefti_connection_all(&s, question, (size_t)n_bytes, true, until_s) &&
                 wefti_connection_all(&s, &answer, 1, false, until_s);
    wefti_connection_close(&s);
    return heard ? answer : 0;
}
