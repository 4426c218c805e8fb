/* SPDX-License-Identifier: MIT */
/* Sockets that listen and connect, with deadlines. They are non-blocking from the start,
 * because connections are (connection.h). Functions that take time wait in poll, also
 * across interruptions, up to a deadline. */
#define _GNU_SOURCE
#include "net/socket.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "net/guard.h"

enum { BACKLOG = 1024 };
static const double call_s = 5, shake_s = 10;

/* --- sockets of this system --- */

#ifndef __APPLE__ /* macos/sockets.c has these */
int wefti_socket_open(int family, int type) {
    int at_once = type == SOCK_STREAM ? SOCK_NONBLOCK : 0;
    return socket(family, type | SOCK_CLOEXEC | at_once, 0);
}

int wefti_socket_accept(int listener, struct sockaddr *from, socklen_t *size) {
    return accept4(listener, from, size, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

bool wefti_socket_is_left(int fd) {
    struct pollfd one = {.fd = fd, .events = POLLRDHUP};
    return poll(&one, 1, 0) != 0;
}

/* All that a socket may have under way, in one burst after a pause, makes the line's queue
 * overflow; paced, it takes a round trip for that. Any limit turns it on. Of the kernel's
 * rules bbr alone keeps its rate when packets are lost that no queue has dropped; where it is
 * missing or not allowed, the system's stays. */
void wefti_socket_pace(int fd) {
    const unsigned most_Bps = UINT32_MAX - 1;
    static const char bbr[] = "bbr";
    (void)setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &most_Bps, sizeof most_Bps);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, bbr, sizeof bbr - 1);
}
#endif

/* --- names --- */

struct addrinfo *wefti_socket_resolve(const char *host, int port, int *error,
                                      const char **why) {
    char service[16];
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *list = NULL;
    snprintf(service, sizeof service, "%d", port);
    *error = getaddrinfo(host, service, &wanted, &list);
    *why = *error == EAI_SYSTEM ? strerror(errno) : gai_strerror(*error);
    return *error == 0 ? list : NULL;
}

void wefti_socket_address(const struct sockaddr *address, char *out, size_t size) {
    static const char mapped[] = "::ffff:";
    socklen_t n = address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                 : sizeof(struct sockaddr_in);
    memset(out, 0, size);
    if ((address->sa_family != AF_INET && address->sa_family != AF_INET6) ||
        getnameinfo(address, n, out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) != 0)
        out[0] = 0;
    const char *plain = out + sizeof mapped - 1;
    if (strncmp(out, mapped, sizeof mapped - 1) == 0 && strchr(plain, '.'))
        memmove(out, plain, strlen(plain) + 1);
}

void wefti_socket_own(int fd, char *out, size_t size) {
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    union {
        struct sockaddr_storage *storage;
        struct sockaddr *any;
    } address = {.storage = &own};
    socklen_t n = sizeof own;
    (void)getsockname(fd, address.any, &n);
    wefti_socket_address(address.any, out, size);
}

bool wefti_socket_has_moved(int fd) {
    struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
    union {
        struct sockaddr_storage *storage;
        struct sockaddr *any;
        struct sockaddr_in *v4;
        struct sockaddr_in6 *v6;
    } a = {.storage = &own};
    socklen_t size = sizeof own;
    int no = 0;
    if (getsockname(fd, a.any, &size) != 0) return false;
    if (own.ss_family == AF_INET) a.v4->sin_port = 0;
    if (own.ss_family == AF_INET6) a.v6->sin6_port = 0;
    int probe = wefti_socket_open(own.ss_family, SOCK_DGRAM);
    if (probe < 0) return false;
    if (own.ss_family == AF_INET6)
        (void)setsockopt(probe, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    bool gone = bind(probe, a.any, size) != 0 && errno == EADDRNOTAVAIL;
    close(probe);
    return gone;
}

bool wefti_socket_is_loopback(const struct sockaddr *address) {
    union {
        const struct sockaddr *any;
        const struct sockaddr_in *v4;
        const struct sockaddr_in6 *v6;
    } a = {.any = address};
    if (address->sa_family == AF_INET)
        return ntohl(a.v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a.v6->sin6_addr);
}

/* --- listening --- */

typedef union endpoint {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} endpoint;

/* A socket for all addresses, of IPv6 too if available; or for this machine's own only. */
static int open_socket(bool here, int port, endpoint *address, socklen_t *size) {
    int no = 0;
    *address = (endpoint){
        .v6 = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)}};
    *size = sizeof address->v6;
    int fd = here ? -1 : wefti_socket_open(AF_INET6, SOCK_STREAM);
    if (fd >= 0) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (fd >= 0) return fd;
    address->v4 = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons((uint16_t)port),
        .sin_addr.s_addr = htonl(here ? INADDR_LOOPBACK : INADDR_ANY)};
    *size = sizeof address->v4;
    return wefti_socket_open(AF_INET, SOCK_STREAM);
}

static int listen_at(bool here, int port) {
    endpoint address;
    socklen_t size;
    int yes = 1, fd = open_socket(here, port, &address, &size);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(fd, &address.any, size) == 0 && listen(fd, BACKLOG) == 0) return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

int wefti_socket_listen(bool here, int port) {
    int fd = listen_at(here, port);
    if (fd >= 0 || errno != EADDRINUSE) return fd;
    if (wefti_guard_dismiss(port)) return listen_at(here, port);
    errno = EADDRINUSE; /* not why there is no guard */
    return -1;
}

bool wefti_socket_is_free(int port) {
    int fd = port <= UINT16_MAX ? listen_at(false, port) : -1;
    if (fd >= 0) close(fd);
    return fd >= 0;
}

int wefti_socket_listen_from(bool here, int port, int n) {
    for (int i = 0; i < n && port + i <= UINT16_MAX; i++) {
        int fd = listen_at(here, port + i);
        if (fd >= 0) return fd;
    }
    return listen_at(here, 0);
}

int wefti_socket_port(int fd) {
    endpoint address = {.v4 = {0}};
    socklen_t size = sizeof address;
    if (getsockname(fd, &address.any, &size) != 0) return 0;
    return ntohs(address.any.sa_family == AF_INET ? address.v4.sin_port
                                                  : address.v6.sin6_port);
}

/* --- connecting --- */

/* Connected, or -1 with errno. */
static int connect_within(const weft_ctx *ctx, const struct addrinfo *a, double until_s) {
    int error = 0;
    socklen_t size = sizeof error;
    int fd = wefti_socket_open(a->ai_family, SOCK_STREAM);
    if (fd < 0) return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS)
        error = errno;
    wefti_connection s = wefti_connection_of(fd);
    s.stop = ctx;
    if (error == 0 && !wefti_connection_wait(&s, POLLOUT, until_s)) error = ETIMEDOUT;
    if (error == 0) (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) return fd;
    close(fd);
    errno = error;
    return -1;
}

socklen_t wefti_socket_size(const struct sockaddr_storage *address) {
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

int wefti_socket_begin(const struct sockaddr_storage *to) {
    union {
        const struct sockaddr_storage *storage;
        const struct sockaddr *any;
    } address = {.storage = to};
    int fd = wefti_socket_open(to->ss_family, SOCK_STREAM);
    if (fd < 0 || connect(fd, address.any, wefti_socket_size(to)) == 0 ||
        errno == EINPROGRESS)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

bool wefti_socket_parse(const char *text, int port, struct sockaddr_storage *out) {
    struct addrinfo *list = NULL, digits = {.ai_socktype = SOCK_STREAM,
                                            .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV};
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    if (getaddrinfo(text, service, &digits, &list) != 0) return false;
    memset(out, 0, sizeof *out);
    memcpy(out, list->ai_addr, list->ai_addrlen);
    freeaddrinfo(list);
    return true;
}

int wefti_socket_connect(const weft_ctx *ctx, const char *host, int port,
                         double until_s) {
    int fd = -1, unknown;
    const char *why;
    struct addrinfo *list = wefti_socket_resolve(host, port, &unknown, &why);
    errno = EHOSTUNREACH;
    for (struct addrinfo *a = list; a && fd < 0; a = a->ai_next)
        fd = connect_within(ctx, a, fmin(until_s, wefti_now_s() + call_s));
    int error = errno;
    if (list) freeaddrinfo(list);
    errno = error;
    return fd;
}

wefti_shake wefti_socket_shake(const wefti_tls_context *tls, wefti_connection *s,
                               double until_s) {
    until_s = fmin(until_s, wefti_now_s() + shake_s);
    if (!tls) return WEFTI_SHAKE_DONE;
    if (!s->tls) s->tls = wefti_tls_create(tls, false);
    if (!s->tls) return WEFTI_SHAKE_AGAIN;
    for (;;) {
        bool refused;
        wefti_shake result = wefti_tls_shake(s->tls, s, &refused);
        if (result == WEFTI_SHAKE_DONE) return result;
        if (result == WEFTI_SHAKE_FAILED && refused) return result;
        if (result == WEFTI_SHAKE_FAILED) wefti_connection_close(s);
        if (result == WEFTI_SHAKE_FAILED) return WEFTI_SHAKE_AGAIN;
        short events = s->writable ? POLLIN : POLLIN | POLLOUT;
        if (!wefti_connection_wait(s, events, until_s)) return WEFTI_SHAKE_AGAIN;
    }
}
