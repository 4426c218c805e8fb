/* SPDX-License-Identifier: MIT */
/* One read or write asks the kernel once, for as much as possible. A short result means
 * that the socket is empty or full, so the kernel is not asked again before poll or readiness.h
 * has seen the socket change. A socket whose other end has closed is read until the end. */
#define _GNU_SOURCE
#include "net/connection.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stop.h"
#include "net/readiness.h"
#include "net/resend.h"

enum { LEAST_BYTES = 32 << 10, SLICE_MS = 200 };

wefti_connection wefti_connection_of(int fd) {
    wefti_connection s = {
        .fd = fd, .readable = true, .writable = true, .unread = true, .least = 1};
    socklen_t size = sizeof s.peer;
    if (fd >= 0 && getpeername(fd, (struct sockaddr *)&s.peer, &size) != 0)
        s.peer.ss_family = AF_UNSPEC;
    return s;
}

void wefti_connection_ready(wefti_connection *s, unsigned events) {
    if (events & (POLLRDHUP | POLLHUP | POLLERR)) s->ending = true;
    if (events & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)) s->readable = s->unread = true;
    if (events & (POLLOUT | POLLHUP | POLLERR)) s->writable = true;
}

static bool is_later(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

static void end(wefti_connection *s, int error) {
    s->error = error;
    wefti_connection_close(s);
}

static size_t sum(const struct iovec *parts, int n_parts) {
    size_t n = 0;
    for (int i = 0; i < n_parts; i++) n += parts[i].iov_len;
    return n;
}

/* iovec is one struct for both directions; the kernel does not write through these. */
static struct msghdr message_of(const struct iovec *parts, int n_parts) {
    union {
        const struct iovec *in;
        struct iovec *out;
    } same = {.in = parts};
    return (struct msghdr){.msg_iov = same.out, .msg_iovlen = (unsigned short)n_parts};
}

static size_t read_plain(wefti_connection *s, const struct iovec *parts, int n_parts) {
    struct msghdr message = message_of(parts, n_parts);
    ssize_t got = recvmsg(s->fd, &message, MSG_DONTWAIT);
    if (got < 0 && is_later(errno)) {
        s->readable = errno == EINTR;
        return 0;
    }
    if (got <= 0) end(s, got < 0 ? errno : 0);
    if (got <= 0) return 0;
    if ((size_t)got < sum(parts, n_parts) && !s->ending) s->readable = false;
    return (size_t)got;
}

static size_t read_now(wefti_connection *s, const struct iovec *parts, int n_parts) {
    if (s->fd < 0 || !s->readable) return 0;
    if (!s->tls) return read_plain(s, parts, n_parts);
    size_t n = 0;
    for (int i = 0; i < n_parts && s->fd >= 0; i++) {
        size_t got = wefti_tls_read(s->tls, s, parts[i].iov_base, parts[i].iov_len);
        if (s->ended) wefti_connection_close(s);
        n += got;
        if (got < parts[i].iov_len) break;
    }
    return n;
}

size_t wefti_connection_read(wefti_connection *s, const struct iovec *parts,
                             int n_parts) {
    unsigned char known[4096];
    while (s->n_skip > 0) {
        size_t most = s->n_skip < (int64_t)sizeof known ? (size_t)s->n_skip
                                                        : sizeof known;
        size_t got = read_now(s, &(struct iovec){known, most}, 1);
        if (got == 0) return 0;
        s->n_skip -= (int64_t)got;
    }
    size_t n = read_now(s, parts, n_parts);
    s->n_read += (int64_t)n;
    return n;
}

static size_t write_plain(wefti_connection *s, const struct iovec *parts, int n_parts) {
    struct msghdr message = message_of(parts, n_parts);
    ssize_t got = sendmsg(s->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (got < 0 && !is_later(errno)) end(s, errno);
    if (got < 0) s->writable = errno == EINTR;
    if (got < 0) return 0;
    if ((size_t)got < sum(parts, n_parts)) s->writable = false;
    return (size_t)got;
}

static size_t write_now(wefti_connection *s, const struct iovec *parts, int n_parts) {
    if (s->fd < 0 || !s->writable) return 0;
    if (!s->tls) return write_plain(s, parts, n_parts);
    size_t got = wefti_tls_write(s->tls, s, parts, n_parts);
    if (s->ended) wefti_connection_close(s);
    return got;
}

bool wefti_connection_owes(const wefti_connection *s) {
    return s->kept && s->kept->again < s->kept->end;
}

size_t wefti_connection_write(wefti_connection *s, const struct iovec *parts,
                              int n_parts) {
    while (wefti_connection_owes(s)) {
        struct iovec rest[2];
        size_t n = write_now(s, rest, wefti_resend_rest(s->kept, rest));
        s->kept->again += (int64_t)n;
        if (n == 0) return 0;
    }
    size_t n = write_now(s, parts, n_parts);
    if (s->kept) wefti_resend_add(s->kept, parts, n_parts, n);
    return n;
}

void wefti_connection_expect(wefti_connection *s, size_t n_bytes) {
    size_t kept = s->tls ? WEFTI_TLS_BUFFERED : 0;
    int least = n_bytes > LEAST_BYTES ? LEAST_BYTES : (int)n_bytes;
    least = n_bytes > kept + 1 ? least - (int)kept : 1;
    if (least < 1) least = 1;
#ifdef __APPLE__ /* which says nothing when less is asked for than has come meanwhile */
    least = 1;
#endif
    if (s->fd < 0 || s->least == least) return;
    s->least = least;
    (void)setsockopt(s->fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least);
}

void wefti_connection_close(wefti_connection *s) {
    if (s->tls) wefti_tls_destroy(s->tls);
    s->tls = NULL;
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    s->readable = s->writable = s->unread = false;
    for (int i = 0; i < s->n_more; i++) wefti_connection_close(&s->more[i]);
    free(s->more);
    s->more = NULL;
    s->n_more = 0;
}

void wefti_connection_bare(wefti_connection *s) {
    if (s->tls) wefti_tls_destroy(s->tls);
    s->tls = NULL;
    s->readable = s->writable = s->unread = true;
}

bool wefti_connection_wait(wefti_connection *s, short events, double until_s) {
    struct pollfd one = {.fd = s->fd, .events = events};
    for (double most_ms = s->stop ? SLICE_MS : 1e6;;) {
        bool stopped = s->stop && wefti_stop_asked(s->stop);
        double left_s = stopped ? 0 : until_s - wefti_now_s();
        int n = left_s > 0 ? poll(&one, 1, (int)fmin(left_s * 1000 + 1, most_ms)) : 0;
        if (n > 0) wefti_connection_ready(s, (unsigned short)one.revents);
        if (n > 0) return true;
        if (left_s <= 0) return false;
    }
}

bool wefti_connection_all(wefti_connection *s, void *data, size_t n, bool out,
                          double until_s) {
    for (size_t done = 0; done < n;) {
        struct iovec part = {(char *)data + done, n - done};
        done += out ? wefti_connection_write(s, &part, 1)
                    : wefti_connection_read(s, &part, 1);
        if (s->fd < 0 && done < n && s->error == 0) s->error = ECONNRESET;
        if (s->fd < 0) return done == n;
        bool ready = out ? s->writable : s->readable;
        if (done == n || ready) continue;
        if (wefti_connection_wait(s, out ? POLLOUT : POLLIN, until_s)) continue;
        s->error = ETIMEDOUT;
        return false;
    }
    return true;
}
