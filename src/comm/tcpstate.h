/* SPDX-License-Identifier: MIT */
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include "comm/callers.h"
#include "comm/tcp.h"

/* What the files of this transport share: tcp.c moves messages over connections, seats.c takes in
 * processes that come while the run trains, tcp_connection.c begins a connection. */

enum { WEFTI_TCP_HEAD_BYTES = 8 };

/* A message going out. */
typedef struct outgoing {
    struct outgoing *next;
    unsigned char head[WEFTI_TCP_HEAD_BYTES];
    const unsigned char *data;
    int64_t n_bytes, n_sent; /* with the head */
    unsigned char *own;      /* a copy of the rest of data, once that was withdrawn */
} outgoing;

typedef struct connection {
    wefti_connection stream;
    bool told; /* that it is closed */
    outgoing *first, *last;
    double full_s; /* since the socket was full; 0: it is not */
    double byte_s; /* that a byte takes to leave, while there is more */
    int unsent;    /* that the kernel may keep */
    unsigned char head[WEFTI_TCP_HEAD_BYTES];
    int n_head;
    bool announced;      /* the head was told by probe */
    unsigned char *into; /* where the bytes go, once they are received */
    int n_bytes, n_got;
    struct sockaddr_storage address; /* where its listener is */
    int call; /* to there, since the connection has ended or is silent; -1: none */
    double call_s; /* since when */
} connection;

typedef struct tcp_transport {
    weft_transport head;
    wefti_tls_context *tls; /* or NULL */
    connection *peers;      /* [size] */
    outgoing *spare;
    unsigned char *cards; /* [size][WEFTI_CARD_BYTES] */
    const char **hosts;   /* [size] into cards */
    int epoll, wakeup;    /* wakeup: an eventfd */
    int next;             /* peer that probe looks at first */
    int listener;         /* takes calls: this process lives */
    bool called;          /* somebody has called, or a caller's socket is ready */
    double heard_s;       /* when callers were looked at last */
    wefti_callers callers;
    weft_transport_entry entry; /* owned tables; of who has come late */
    char text[256];
} tcp_transport;

/* --- tcp_connection.c --- */

/* A connection as it is before anything has gone over it; its peer's card is there. */
void wefti_tcp_begin(tcp_transport *t, int p, wefti_connection stream);

/* Tells epoll of a socket (op: EPOLL_CTL_ADD, or _MOD of one that it knows). */
bool wefti_tcp_watch(const tcp_transport *t, int op, int fd, connection *c);

/* Where a peer listens (weft_transport_ops.where). */
bool wefti_tcp_where(const weft_transport *head, int peer, char *out, int size);

/* Calls who is no process of the run (weft_transport_ops.ask). */
int wefti_tcp_ask(weft_transport *head, const char *host, int port, const void *bytes,
                  int n_bytes, double seconds);

/* --- seats.c --- */

/* A caller's card is here. */
wefti_caller_fate wefti_tcp_admit(void *transport, wefti_caller *caller);

/* Goes on with those who have called; whether one of them has shown a card, *found. */
bool wefti_tcp_look_at_callers(tcp_transport *t, weft_transport_found *found);

/* Answers one (weft_transport_ops.seat). */
bool wefti_tcp_seat(weft_transport *head, int caller, const weft_transport_seat *seat);

/* Bytes per second that have lately arrived at the other end of a connection; 0: not known. */
double wefti_tcp_rate(int fd);
