/* SPDX-License-Identifier: MIT */
#pragma once

#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "start/callers.h"
#include "start/streams.h"
#include "net/guard.h"
#include "net/readiness.h"
#include "start/tcp.h"

/* What the files of this transport share: tcp.c moves messages over connections, serve_joiners.c
 * admits processes that join while the run trains, tcp_connection.c begins a connection,
 * tcp_inquiry.c asks how a lost process stands, and says how this one does. */

enum {
    WEFTI_TCP_HEAD_BYTES = 8,
    WEFTI_LANE_PIECES = 1,
    WEFTI_LANE_CARDS = 2,
    WEFTI_LANE_CONFIRMS = 3 /* a head alone: socket, and how much was read of it */
};

/* What the kernel keeps unsent of a further socket, which short messages do not share. */
enum { WEFTI_TCP_MORE_UNSENT_BYTES = 64 << 10 };

/* A message going out; or the body of one that comes by a further socket. */
typedef struct outgoing {
    struct outgoing *next;
    struct outgoing *lead;   /* its head, which goes by the first socket; or NULL */
    struct connection *to;   /* the first socket of its pair */
    unsigned char *into;     /* comes in; */
    struct connection *from; /* by this socket, of which n_sent bytes have come */
    unsigned char head[WEFTI_TCP_HEAD_BYTES];
    const unsigned char *data;
    int64_t n_bytes, n_sent; /* with the head */
    unsigned char *own;      /* a copy of the rest of data, after it was withdrawn */
    bool part;               /* it is part of its connection, and nobody waits for it */
} outgoing;

/* A call to a peer, to go on with a connection by another socket (tcp_resume.c). */
typedef enum wefti_recall_stage {
    WEFTI_RECALL_CALLS,
    WEFTI_RECALL_SHAKES,
    WEFTI_RECALL_ASKS,  /* the relay for the peer, with whom it shakes hands again */
    WEFTI_RECALL_SHOWS, /* its card */
    WEFTI_RECALL_WAITS  /* for the answer */
} wefti_recall_stage;

typedef struct wefti_recall {
    wefti_connection s;
    wefti_recall_stage stage;
    double since_s;
    bool relayed;    /* from the relay's answer on */
    int64_t shown_n; /* the card says that so much was read */
    int n_card, n_answer;
    unsigned char card[WEFTI_CARD_BYTES], answer[WEFTI_RESUMED_BYTES];
} wefti_recall;

typedef struct connection {
    wefti_connection stream;
    bool reported; /* that its end has come */
    outgoing *first, *last;
    int64_t n_queued;        /* bytes from first to last that were not sent */
    struct connection *pair; /* of a further socket: the first one */
    bool met;                /* of a further socket: it was connected */
    outgoing *due;           /* the same: bodies that come by it, in order */
    struct connection
        *more;        /* [n_more] further sockets of this pair, owned (streams.h) */
    int n_more, turn; /* turn: the one that was used last */
    int n_due, by;    /* bodies that are to come by them; that of the announced one */
    double lame_s;    /* since when one of the sockets has ended; 0: none has */
    double full_s;    /* since when the socket is full; 0: it is not */
    double byte_s;    /* time to send a byte, while the socket is full */
    int unsent;       /* bytes that the kernel may keep unsent */
    unsigned char head[WEFTI_TCP_HEAD_BYTES];
    int n_head;
    bool announced;      /* probe has reported the head */
    unsigned char *into; /* where the body is received to */
    int n_bytes, n_got;
    struct sockaddr_storage address; /* the address of its listener */
    int call;                        /* a pending inquiry at that address; -1: none */
    double call_s;                   /* when it began */
    bool called; /* it was accepted, and this side has announced that it inquires */
    bool tells;  /* a card for this process is arriving (tcp_relay.c) */
    int n_card;
    unsigned char card[WEFTI_CARD_BYTES];
    outgoing telling; /* the same on its way to the peer */
    unsigned char told_card[WEFTI_CARD_BYTES];
    unsigned char secret[WEFTI_SECRET_BYTES]; /* of the pair, for who resumes it */
    wefti_recall *recall;       /* owned; a call to go on by another socket; or NULL */
    double recall_s;            /* when the last one began or ended */
    double resumed_s;           /* when it went on last; 0: never */
    double heard_s;             /* when heard_n bytes had been read, not more */
    int64_t heard_n, resumed_n; /* resumed_n: had been read then */
    bool renew;                 /* it is to go on by another socket, whatever it seems */
    bool called_after;          /* it was called for since its socket ended */
    bool quits;                 /* it was ended on purpose */
    int64_t confirmed_n;        /* bytes read of which the peer knows */
    outgoing confirming;        /* the same on its way, by the first socket */
} connection;

typedef struct tcp_transport {
    weft_transport head;
    wefti_tls_context *tls; /* or NULL */
    connection *peers;      /* [size] */
    outgoing *spare;
    unsigned char *cards; /* [size][WEFTI_CARD_BYTES] */
    const char **hosts;   /* [size] into cards */
    wefti_readiness readiness;
    int next;       /* peer that probe looks at first */
    int endpoint;   /* the first port that processes of this run listen at */
    int streams;    /* how many sockets a pair has; 0: by the wire */
    bool resumes;   /* connections go on from another address: WEFT_RESUME=on */
    int listener;   /* accepts calls, which shows that this process lives */
    bool called;    /* there is a new call, or a caller's socket is ready */
    double heard_s; /* when callers were last served */
    wefti_callers callers;
    struct wefti_relay *relays; /* [n_relays] owned; pairs whose bytes pass here */
    int n_relays;
    bool relaying;          /* some have more bytes for another turn */
    bool recalled;          /* a socket of a recall is ready */
    bool cut;               /* a connection has ended by an error */
    double looked_s;        /* when connections were last looked at */
    atomic_llong n_relayed; /* bytes; read by any thread */
    wefti_guard *guard;     /* owned; NULL: nothing was kept yet, or there can be none */
    bool tried_guard, speaks;   /* speaks: the guard does, also after an orderly end */
    int *replaced;              /* [size] owned; for probe's answer */
    weft_transport_entry entry; /* owned tables; of a process that joined late */
    char text[256];
} tcp_transport;

/* --- tcp_connection.c --- */

/* Resets connection p to its initial state, over this stream. Its peer's card must be in
 * `cards`. */
void wefti_tcp_begin(tcp_transport *t, int p, wefti_connection stream);

/* This socket, which has just been connected, can go on by another one from now on. */
void wefti_tcp_make_lasting(const tcp_transport *t, connection *c);

/* Forgets what that needs. */
void wefti_tcp_end_lasting(connection *c);
void wefti_tcp_end_recall(connection *c);

/* The thread sleeps for this socket, too. */
bool wefti_tcp_watch(const tcp_transport *t, wefti_watch how, int fd, connection *c);

/* New callers, from this one on, are watched. */
void wefti_tcp_watch_callers(tcp_transport *t, int from);

/* The address at which a peer is called gets this port. */
void wefti_tcp_set_port(connection *c, int port);

/* Where a peer listens (weft_transport_ops.where). */
bool wefti_tcp_where(const weft_transport *head, int peer, char *out, int size);

/* Calls a process outside of the run (weft_transport_ops.ask). */
int wefti_tcp_ask(weft_transport *head, const char *host, int port, const void *bytes,
                  int n_bytes, double seconds);

/* --- tcp_streams.c --- */

/* A socket of the pair, by number; 0 is the first. */
connection *wefti_tcp_socket(connection *pair, int number);

/* The further socket with the fewest bytes queued; 0: the pair has none. */
int wefti_tcp_least_laden(connection *pair);

int wefti_tcp_paths(const weft_transport *head, int peer); /* weft_transport_ops.paths */

/* A further socket is connected. */
void wefti_tcp_attach(tcp_transport *t, connection *c, wefti_connection stream,
                      wefti_watch how);

/* Puts an entry that is filled in at the end of a queue. */
void wefti_tcp_queue(connection *c, outgoing *o, uint32_t lane, int64_t n_bytes);

/* Sends a card to a peer, unless the one before is still on its way. */
void wefti_tcp_tell(tcp_transport *t, int peer, const unsigned char *card);

/* Whether another body may be announced. */
bool wefti_tcp_has_room(const connection *pair);

/* Receives the announced body; *request is for wefti_tcp_awaited, which says whether it is
 * there. False: no memory. */
bool wefti_tcp_await(tcp_transport *t, connection *pair, void *data, int n_bytes,
                     void **request);
bool wefti_tcp_awaited(tcp_transport *t, outgoing *o);

/* Whether an ended socket may yet go on by another one. */
bool wefti_tcp_may_resume(const connection *c);

/* It ended by an error: a router on the way has another address, and knows the connection no more.
 * One call shows whether the peer lives. */
bool wefti_tcp_was_cut(const connection *c);

/* Whether a message that was given to tcp_send has left, and no socket of its pair has to send
 * anything again, or may have to: only then may the pair be closed. */
bool wefti_tcp_is_sent(const outgoing *o);

/* Says to a peer how much was read of what it sent, when it is much. */
void wefti_tcp_confirm(connection *pair);

/* Whether no more comes from this pair; then all its sockets are closed. */
bool wefti_tcp_is_over(connection *pair);

/* An entry for a queue, with any contents; NULL: no memory. */
outgoing *wefti_tcp_spare(tcp_transport *t);

/* --- tcp_inquiry.c (weft_transport_ops.keep, .inquire, .turn, .hang_up) --- */

void wefti_tcp_keep(weft_transport *head, const void *now, const void *after, int n_bytes,
                    int n_askers);
int wefti_tcp_inquire(weft_transport *head, int peer, void *bytes, int size);
int wefti_tcp_turn(weft_transport *head, int peer, int k);
void wefti_tcp_hang_up(weft_transport *head, int peer);

/* --- serve_joiners.c --- */

/* A caller's card has arrived. */
wefti_caller_fate wefti_tcp_admit(void *transport, wefti_caller *caller);

/* Serves the callers; returns whether one of them has shown a card, *found. */
bool wefti_tcp_look_at_callers(tcp_transport *t, weft_transport_found *found);

/* Answers a caller (weft_transport_ops.give_place). */
bool wefti_tcp_give_place(weft_transport *head, int caller,
                          const weft_transport_place *place);

/* --- tcp_relay.c --- */

struct wefti_relay_card;

/* A caller's card asks for a relayed connection, or comes to one. */
wefti_caller_fate wefti_tcp_admit_relay(tcp_transport *t, wefti_caller *caller,
                                        struct wefti_relay_card *card);

/* Joins the callers that belong together. */
void wefti_tcp_join_callers(tcp_transport *t);

/* A relay has passed on that somebody wants to be called. */
void wefti_tcp_hear_told(tcp_transport *t, int peer, const unsigned char *bytes);

/* Passes bytes on. */
void wefti_tcp_relay(tcp_transport *t);

void wefti_tcp_end_relays(tcp_transport *t, bool forget);

/* --- tcp_resume.c --- */

/* Calls peers again whose connections have broken, and goes on with these calls. */
void wefti_tcp_resume(tcp_transport *t);

/* A caller's card asks to go on with a connection. */
wefti_caller_fate wefti_tcp_admit_resume(tcp_transport *t, wefti_caller *caller,
                                         const wefti_resume_card *card);
