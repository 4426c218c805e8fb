/* SPDX-License-Identifier: MIT */
/* Sockets of macOS: what Linux makes in one call takes several, a socket is told once that a write
 * to a closed connection gives no signal, and the kernel says less of a connection. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/socket.h"

static int made(int fd, bool blocks) {
    int yes = 1;
    if (fd < 0) return -1;
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(fd, F_SETFL, blocks ? 0 : O_NONBLOCK);
    if (setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &yes, sizeof yes) == 0) return fd;
    close(fd); /* a caller that has hung up: a word to it would be a signal */
    errno = ECONNABORTED;
    return -1;
}

int wefti_socket_open(int family, int type) {
    return made(socket(family, type, 0), type != SOCK_STREAM);
}

int wefti_socket_accept(int listener, struct sockaddr *from, socklen_t *size) {
    return made(accept(listener, from, size), false);
}

bool wefti_socket_is_left(int fd) {
    char next;
    ssize_t n = recv(fd, &next, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

void wefti_socket_pace(int fd) { (void)fd; }

double wefti_tcp_rate(int fd) {
    (void)fd;
    return 0;
}

/* In milliseconds, so that a short way counts as not known. */
double wefti_tcp_round_trip_s(int fd) {
    struct tcp_connection_info info;
    socklen_t size = sizeof info;
    const size_t needed = offsetof(struct tcp_connection_info, tcpi_srtt) +
                          sizeof info.tcpi_srtt;
    bool fine = fd >= 0 &&
                getsockopt(fd, IPPROTO_TCP, TCP_CONNECTION_INFO, &info, &size) == 0 &&
                size >= needed;
    return fine ? 1e-3 * info.tcpi_srtt : 0;
}
