/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "comm/tls.h"

/* The bytes of one connection, plain or encrypted, over a socket that never blocks. The
 * one that sleeps until the socket is ready says so by wefti_connection_ready; in between
 * nothing is asked of the kernel that it would refuse. */
typedef struct wefti_connection {
    int fd;         /* -1: closed */
    wefti_tls *tls; /* owned; NULL: plain */
    bool readable;  /* reading may give something */
    bool writable;  /* the socket may take something */
    bool unread;    /* the socket may have something; else only the TLS layer has */
    bool ending;    /* the other side says nothing more: read up to the end */
    int error;      /* errno that ended it; 0: an orderly end, or none */
    bool ended;     /* tls.c: nothing more comes or goes; to be closed */
    int least;      /* bytes that wake the sleeper (SO_RCVLOWAT) */
} wefti_connection;

/* Takes over fd. */
wefti_connection wefti_connection_of(int fd);

/* What poll or epoll has seen: EPOLLIN and so on, which are POLLIN and so on. */
void wefti_connection_ready(wefti_connection *s, unsigned events);

/* Reads into the parts, one after another; 0: nothing now, or it has ended: fd is -1. */
size_t wefti_connection_read(wefti_connection *s, const struct iovec *parts, int n_parts);

/* Writes from the parts; what is not taken comes first the next time. */
size_t wefti_connection_write(wefti_connection *s, const struct iovec *parts,
                              int n_parts);

/* So many bytes are still to come before anybody can use them: sleep until then. */
void wefti_connection_expect(wefti_connection *s, size_t n_bytes);

void wefti_connection_close(wefti_connection *s);

/* --- with a deadline, for a beginning --- */

/* All n bytes, either way; false: s->error says why (ETIMEDOUT, ECONNRESET, ...). */
bool wefti_connection_all(wefti_connection *s, void *data, size_t n, bool out,
                          double until_s);

/* Waits for these events (POLLIN, POLLOUT), interrupted or not; false: until_s is past. */
bool wefti_connection_wait(wefti_connection *s, short events, double until_s);
