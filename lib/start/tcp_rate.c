/* SPDX-License-Identifier: MIT */
/* How fast a connection is, as measured by the kernel: the bytes that the other end
 * confirmed, divided by the time that took. This is a separate file because the kernel
 * header that has the number and the C library's netinet/tcp.h exclude each other. */
#include <stddef.h>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

double wefti_tcp_rate(int fd);

/* Fewer bytes tell nothing: they went into buffers. */
enum { TELLING_BYTES = 64 * 1024 };

double wefti_tcp_rate(int fd) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    const size_t needed = offsetof(struct tcp_info, tcpi_delivery_rate) +
                          sizeof info.tcpi_delivery_rate;
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < needed || info.tcpi_bytes_acked < TELLING_BYTES)
        return 0;
    return (double)info.tcpi_delivery_rate;
}
