/* SPDX-License-Identifier: MIT */
/* How fast a connection is, as measured by the kernel: the bytes that the other end
 * confirmed, divided by the time that took. This is a separate file because the kernel
 * header that has the number and the C library's netinet/tcp.h exclude each other. */
#include <stdbool.h>
#include <stddef.h>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

double wefti_tcp_rate(int fd);
double wefti_tcp_round_trip_s(int fd);

/* Fewer bytes tell nothing: they went into buffers. */
enum { TELLING_BYTES = 64 * 1024 };

static bool look(int fd, struct tcp_info *info) {
    socklen_t size = sizeof *info;
    const size_t needed = offsetof(struct tcp_info, tcpi_delivery_rate) +
                          sizeof info->tcpi_delivery_rate;
    *info = (struct tcp_info){0};
    return fd >= 0 && getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &size) == 0 &&
           size >= needed;
}

double wefti_tcp_rate(int fd) {
    struct tcp_info info;
    if (!look(fd, &info) || info.tcpi_bytes_acked < TELLING_BYTES) return 0;
    return (double)info.tcpi_delivery_rate;
}

double wefti_tcp_round_trip_s(int fd) {
    struct tcp_info info;
    return look(fd, &info) ? 1e-6 * info.tcpi_rtt : 0;
}
