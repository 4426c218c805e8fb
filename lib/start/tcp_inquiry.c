/* SPDX-License-Identifier: MIT */
/* How a process stands whose connection has ended, as its own listener says (guard.h):
 *
 *     connect, its place, end the sending side  --->  its thread, or after its death its guard
 *                                               <---  the bytes that it has kept, and the end
 *
 * A process that has come there since may listen at another port (turn).
 *
 * An inquiry that the host does not answer is abandoned after a second: the kernel would
 * retry it at longer and longer intervals, and the host may answer a new one by then. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/socket.h"
#include "start/tcpstate.h"

static const double call_patience_s = 1;
enum { PENDING = -1, REFUSED = -2 };

void wefti_tcp_keep(weft_transport *head, const void *now, const void *after, int n_bytes,
                    int n_askers) {
    tcp_transport *t = (tcp_transport *)head;
    if (n_bytes < 0 || n_bytes > WEFTI_GUARD_BYTES) return;
    if (!t->tried_guard && t->listener >= 0)
        t->guard = wefti_guard_start(t->listener, wefti_socket_port(t->listener));
    t->tried_guard = true;
    memcpy(t->callers.words, now, (size_t)n_bytes);
    t->callers.n_words = n_bytes;
    t->speaks = n_askers < 0;
    wefti_guard_keep(t->guard, after, (size_t)n_bytes, n_askers < 0 ? INT_MAX : n_askers);
}

static int end_call(connection *c, int answer) {
    close(c->call);
    c->call = -1;
    return answer;
}

/* The call is pending: whether it was accepted. */
static int look_at_call(connection *c, int place) {
    const unsigned char q[WEFTI_GUARD_QUESTION] = {WEFTI_GUARD_ASKS, (unsigned char)place,
                                                   (unsigned char)(place >> 8)};
    int error = 0;
    socklen_t size = sizeof error;
    struct pollfd one = {.fd = c->call, .events = POLLOUT};
    if (poll(&one, 1, 0) <= 0) return PENDING;
    (void)getsockopt(c->call, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) return end_call(c, error == ECONNREFUSED ? REFUSED : PENDING);
    c->called = send(c->call, q, sizeof q, MSG_NOSIGNAL) == (ssize_t)sizeof q &&
                shutdown(c->call, SHUT_WR) == 0;
    return c->called ? PENDING : end_call(c, PENDING);
}

static int begin_call(connection *c, int place) {
    c->call_s = wefti_now_s();
    c->called = false;
    c->call = wefti_socket_begin(&c->address);
    if (c->call >= 0) return look_at_call(c, place);
    return errno == ECONNREFUSED ? REFUSED : PENDING;
}

static int n_connected(const tcp_transport *t) {
    int n = 0;
    for (int p = 0; p < t->head.size; p++) n += t->peers[p].stream.fd >= 0;
    return n;
}

/* A peer that answers can be reached, but no more by a socket whose own address has gone, of which
 * neither end would hear. Of a pair it stays: the other end keeps its own, and the address may come
 * back. */
static int answered(tcp_transport *t, int peer, int n_bytes) {
    connection *c = &t->peers[peer];
    if (!t->resumes && c->stream.fd >= 0 && n_connected(t) > 1 &&
        wefti_socket_has_moved(c->stream.fd))
        wefti_tcp_hang_up(&t->head, peer);
    return end_call(c, n_bytes);
}

int wefti_tcp_inquire(weft_transport *head, int peer, void *bytes, int size) {
    tcp_transport *t = (tcp_transport *)head;
    connection *c = &t->peers[peer];
    if (c->call < 0) return begin_call(c, head->rank);
    int answer = c->called ? PENDING : look_at_call(c, head->rank);
    if (c->call < 0) return answer;
    if (c->called) {
        ssize_t n = recv(c->call, bytes, (size_t)size, MSG_DONTWAIT);
        if (n > 0) return answered(t, peer, (int)n); /* so few bytes come in one piece */
        if (n == 0) return end_call(c, 0);
        if (errno != EAGAIN && errno != EINTR) return end_call(c, PENDING);
    }
    bool late = wefti_now_s() - c->call_s > call_patience_s;
    return late ? end_call(c, c->called ? 0 : PENDING) : PENDING;
}

int wefti_tcp_turn(weft_transport *head, int peer, int k) {
    tcp_transport *t = (tcp_transport *)head;
    connection *c = &t->peers[peer];
    if (k > WEFTI_TCP_PORTS || t->endpoint + k - 1 > 0xffff) k = 0;
    const unsigned char *card = t->cards + (size_t)peer * WEFTI_CARD_BYTES;
    wefti_tcp_set_port(c, k > 0 ? t->endpoint + k - 1 : wefti_card_port(card));
    if (c->call >= 0) (void)end_call(c, PENDING);
    return k;
}

void wefti_tcp_hang_up(weft_transport *head, int peer) {
    connection *c = &((tcp_transport *)head)->peers[peer];
    c->quits = true;
    for (int i = 0; i <= c->n_more; i++)
        wefti_connection_close(&wefti_tcp_socket(c, i)->stream);
}
