/* SPDX-License-Identifier: MIT */
#pragma once

#include "net/connection.h"
#include "net/guard.h"
#include "start/rendezvous.h"

/* Callers at a listening socket that have not yet shown who they are: while the processes
 * of a run gather (rendezvous.c), and later, while the run trains (tcp.c).
 *
 *     listener -> accept -> [handshake] -> card -> admit, which decides what happens to the caller
 *
 * Anyone who can reach the port can call. Therefore a caller has a few seconds; there are
 * few callers at a time, and if there are too many, the oldest one of the address with the
 * most is dropped; all callers are served concurrently; nothing is allocated for a caller
 * beyond its handshake; complaints are logged once a minute for an address, and for at most
 * 64 addresses. */

enum { WEFTI_MAX_CALLERS = 64, WEFTI_CALLER_ADDRESS_BYTES = 64 };

typedef struct wefti_caller {
    wefti_connection stream;
    bool
        outward; /* it was called; it is shown the card, and after the answer 1 it is as one
                     that calls, without what was TLS until then (relay.h) */
    bool spoke;  /* its first byte has arrived */
    bool shaken; /* the handshake is over */
    double since_s;
    int n_card;
    unsigned char card[WEFTI_CARD_BYTES];
    char address[WEFTI_CALLER_ADDRESS_BYTES]; /* the address that it calls from */
    unsigned number; /* identifies the caller, so that a later answer finds it */
    bool reported;   /* its card was; for use by the user of this list */
    unsigned char
        *out; /* an answer that is being sent, owned; afterwards the caller is dropped */
    size_t n_out, n_sent;
} wefti_caller;

/* What happens to a caller whose card has arrived. */
typedef enum wefti_caller_fate {
    WEFTI_CALLER_TAKEN, /* its connection was taken over */
    WEFTI_CALLER_WAITS, /* until an answer is made (wefti_callers_find), or sent */
    WEFTI_CALLER_GONE   /* its connection is closed */
} wefti_caller_fate;

typedef struct wefti_callers {
    weft_ctx *ctx;                /* for complaints, borrowed; NULL: silent */
    const wefti_tls_context *tls; /* or NULL */
    int listener;                 /* borrowed */
    int rank;                     /* this process's, for complaints */
    const char *name;             /* used there instead of "rank N", or NULL */
    wefti_caller_fate (*admit)(void *user, wefti_caller *caller);
    void *user;
    wefti_caller *list; /* owned; [WEFTI_MAX_CALLERS] */
    int n;
    bool more; /* there may be calls that were not accepted yet */
    unsigned n_called;
    unsigned char words[WEFTI_GUARD_BYTES]; /* [n_words] for who calls and ends its side
                                               without a byte (guard.h) */
    int n_words;
    struct wefti_spoken *spoken; /* owned; a ring */
    int n_spoken;
} wefti_callers;

/* Allocates the lists; the user sets the other fields. False: no memory. */
bool wefti_callers_init(wefti_callers *all);

/* Closes all remaining connections and frees the lists. */
void wefti_callers_fini(wefti_callers *all);

/* Accepts some of the waiting calls; `more` says whether there may be others. False: the
 * process can open no more files. */
bool wefti_callers_accept(wefti_callers *all);

/* Continues with every caller as far as its socket is ready; returns how many were TAKEN. */
int wefti_callers_hear(wefti_callers *all);

/* Calls `to`, to show it this card; from the answer 1 on it is a caller from `whose` address,
 * which `to` relays if it is another pointer.
 * Nothing is done if it is being called with this card already. False: it is not called. */
bool wefti_callers_call(wefti_callers *all, const struct sockaddr_storage *to,
                        const struct sockaddr_storage *whose, const unsigned char *card);

/* Sleeps until the listener or a caller is ready. */
void wefti_callers_poll(wefti_callers *all, int most_ms);

/* Finds a caller that still waits; NULL: it has hung up. */
wefti_caller *wefti_callers_find(wefti_callers *all, unsigned number);

/* Removes the caller from the list; its connection now belongs to the user. */
wefti_connection wefti_callers_take(wefti_callers *all, wefti_caller *caller);

/* Sends n bytes, which are copied, and then closes the connection. */
void wefti_callers_answer(wefti_callers *all, wefti_caller *caller, const void *bytes,
                          size_t n);

/* Logs a complaint about a caller, at most once a minute for an address. */
void wefti_callers_complain(wefti_callers *all, const char *address, const char *what);
