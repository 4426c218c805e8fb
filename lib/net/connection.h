/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <weft/ctx.h>

#include "net/tls.h"

/* The bytes of one connection, plain or encrypted, over a socket that never blocks. The
 * thread that sleeps until the socket is ready reports this by wefti_connection_ready; in
 * between the kernel is never asked for something that it would refuse. */
typedef struct wefti_connection {
    int fd;         /* -1: closed */
    wefti_tls *tls; /* owned; NULL: plain */
    bool readable;  /* reading may give something */
    bool writable;  /* the socket may take something */
    bool unread;    /* the socket may have something; else only the TLS layer has */
    bool ending;    /* the other side has closed: read up to the end */
    int error;      /* errno that ended it; 0: an orderly end, or still open */
    bool ended;     /* set by tls.c: no more data in either direction; close it */
    int least;      /* bytes that wake the sleeping thread (SO_RCVLOWAT) */
    size_t ahead;   /* bytes that may be encrypted before the socket takes any */
    int64_t n_read; /* bytes that were read */
    int64_t n_skip; /* bytes that come again, after it has gone on by another socket */
    struct wefti_resend *kept; /* borrowed; what it has to send again then; or NULL */
    const weft_ctx
        *stop; /* borrowed: a wait ends when it is asked to (base/stop.h); or NULL */
    struct sockaddr_storage peer;  /* where the other end was at the beginning */
    struct sockaddr_storage relay; /* who passes the bytes on; AF_UNSPEC: nobody does */
    struct wefti_connection
        *more;      /* [n_more] further sockets to the same process, owned, */
    int n_more;     /* until it takes part (start/streams.h) */
    uint64_t token; /* they show it */
} wefti_connection;

/* Takes over fd. */
wefti_connection wefti_connection_of(int fd);

/* Reports the events of poll: POLLIN and so on. */
void wefti_connection_ready(wefti_connection *s, unsigned events);

/* Reads into the parts, one after another; 0: nothing is there now, or the connection has
 * ended and fd is -1. */
size_t wefti_connection_read(wefti_connection *s, const struct iovec *parts, int n_parts);

/* Writes from the parts; returns how many bytes were accepted. The caller passes the rest
 * again the next time. */
size_t wefti_connection_write(wefti_connection *s, const struct iovec *parts,
                              int n_parts);

/* Whether bytes are to be sent again; writing does that first. */
bool wefti_connection_owes(const wefti_connection *s);

/* n_bytes more bytes are needed before any can be used: do not wake the thread earlier. */
void wefti_connection_expect(wefti_connection *s, size_t n_bytes);

void wefti_connection_close(wefti_connection *s);

/* Both sides go on without this TLS layer: the socket is as a new one. */
void wefti_connection_bare(wefti_connection *s);

/* --- with a deadline, for the beginning of a connection --- */

/* Sends (`out`) or receives all n bytes; false: s->error says why (ETIMEDOUT, ECONNRESET,
 * ...). */
bool wefti_connection_all(wefti_connection *s, void *data, size_t n, bool out,
                          double until_s);

/* Waits for these events (POLLIN, POLLOUT), also across interruptions; false: until_s has
 * passed, or the wait was asked to stop. */
bool wefti_connection_wait(wefti_connection *s, short events, double until_s);
