/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/connection.h"
#include "comm/rendezvous.h"

/* Those who have called at a listening socket and have not shown yet who they are: while the
 * processes of a run gather (rendezvous.c), and later, while it trains (tcp.c).
 *
 *     listener -> accept -> [handshake] -> card -> admit, which says what becomes of the caller
 *
 * Whoever reaches the port can call. So a caller has a few seconds; there are few at a time, and
 * the oldest of the address with the most gives way; all are heard at the same time; nothing is
 * allocated for them beyond their handshake; an address is complained about once a minute, and
 * 64 of them at most. */

enum { WEFTI_MAX_CALLERS = 64, WEFTI_CALLER_ADDRESS_BYTES = 64 };

typedef struct wefti_caller {
    wefti_connection stream;
    bool shaken; /* the handshake is over */
    double since_s;
    int n_card;
    unsigned char card[WEFTI_CARD_BYTES];
    char address[WEFTI_CALLER_ADDRESS_BYTES]; /* that it calls from */
    unsigned number; /* its own, so that an answer that comes later finds it */
    bool told;       /* of its card; the user's */
    unsigned char
        *out; /* an answer on its way, owned; when it is out the caller is done with */
    size_t n_out, n_sent;
} wefti_caller;

/* What becomes of a caller whose card is here. */
typedef enum wefti_caller_fate {
    WEFTI_CALLER_TAKEN, /* its connection is somebody else's now */
    WEFTI_CALLER_WAITS, /* for an answer (wefti_callers_find), or until one is sent */
    WEFTI_CALLER_GONE   /* hang up */
} wefti_caller_fate;

typedef struct wefti_callers {
    weft_ctx *ctx;                /* for complaints, borrowed; NULL: silent */
    const wefti_tls_context *tls; /* or NULL */
    int listener;                 /* borrowed */
    int rank;                     /* own, for complaints */
    const char *name;             /* in place of "rank N" there, or NULL */
    wefti_caller_fate (*admit)(void *user, wefti_caller *caller);
    void *user;
    wefti_caller *list; /* owned; [WEFTI_MAX_CALLERS] */
    int n;
    bool more; /* calls may wait that were not taken yet */
    unsigned n_called;
    struct wefti_spoken *spoken; /* owned; a ring */
    int n_spoken;
} wefti_callers;

/* Allocates the lists; the other fields are the caller's. False: no memory. */
bool wefti_callers_init(wefti_callers *all);

/* Hangs up on all that are left. */
void wefti_callers_fini(wefti_callers *all);

/* Takes some of the calls that wait, and says in `more` whether there may be others; false: the
 * process can open no more files. */
bool wefti_callers_accept(wefti_callers *all);

/* Goes on with everybody, as far as their sockets are ready; how many were TAKEN. */
int wefti_callers_hear(wefti_callers *all);

/* One that still waits, or NULL: it has hung up. */
wefti_caller *wefti_callers_find(wefti_callers *all, unsigned number);

/* Its connection is the user's now. */
wefti_connection wefti_callers_take(wefti_callers *all, wefti_caller *caller);

/* Sends n bytes, which are copied, and then hangs up. */
void wefti_callers_answer(wefti_callers *all, wefti_caller *caller, const void *bytes,
                          size_t n);

/* Tells of a caller, once a minute for an address. */
void wefti_callers_complain(wefti_callers *all, const char *address, const char *what);
