/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_STREAM_H
#define WEFTI_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

#include "comm/tls.h"

/* The bytes of one connection, plain or encrypted, over a socket that never blocks. Whoever
 * sleeps until the socket is ready says so by wefti_stream_ready; in between nothing is
 * asked of the kernel that it would refuse. */
typedef struct wefti_stream {
    int fd;         /* -1: closed */
    wefti_tls *tls; /* owned; NULL: plain */
    bool readable;  /* reading may give something */
    bool writable;  /* the socket may take something */
    bool unread;    /* the socket may have something; else only the TLS layer has */
    bool ending;    /* the other side says nothing more: read up to the end */
    int error;      /* errno that ended it; 0: an orderly end, or none */
    int least;      /* bytes that wake whoever sleeps (SO_RCVLOWAT) */
} wefti_stream;

/* Takes over fd. */
wefti_stream wefti_stream_of(int fd);

/* What poll or epoll has seen: EPOLLIN and so on, which are POLLIN and so on. */
void wefti_stream_ready(wefti_stream *s, unsigned events);

/* Reads into the parts, one after another; 0: nothing now, or it has ended: fd is -1. */
size_t wefti_stream_read(wefti_stream *s, const struct iovec *parts, int n_parts);

/* Writes from the parts; what is not taken comes first the next time. */
size_t wefti_stream_write(wefti_stream *s, const struct iovec *parts, int n_parts);

/* So many bytes are still to come before anybody can use them: sleep until then. */
void wefti_stream_expect(wefti_stream *s, size_t n_bytes);

void wefti_stream_close(wefti_stream *s);

/* --- with a deadline, for a beginning --- */

/* All n bytes, either way; false: s->error says why (ETIMEDOUT, ECONNRESET, ...). */
bool wefti_stream_all(wefti_stream *s, void *data, size_t n, bool out, double until_s);

/* Waits for these events (POLLIN, POLLOUT), interrupted or not; false: until_s is past. */
bool wefti_stream_wait(wefti_stream *s, short events, double until_s);

#endif
