/* SPDX-License-Identifier: MIT */
/* A switch in user space whose links have a rate and a latency. In each network namespace
 * named on the command line it opens a TAP device eth0 and passes frames between them:
 *
 *     sender -> outgoing line (rate) -> latency -> incoming line of the receiver (rate)
 *
 * Latency is one for all, so what a sender sent arrives in the order of sending: a queue
 * for each sender's frames under way, one for each receiver's line, and the earliest head
 * among them is next. A line that has WAITING bytes before a frame drops it, as a switch
 * whose buffer is full.
 *
 *     wire RATE LATENCY LOSS BIG NAMESPACE...    bit/s, microseconds one way, share, 0|1
 *
 * LOSS is the share of packets that never arrive, drawn for each by itself.
 *
 * BIG passes the kernel's large packets uncut (up to 64 KB), which saves most of the work
 * at high rates; their headers are counted as if they were cut. Prints "ready" when all
 * devices are there; ends with SIGTERM or SIGINT, or when its input ends. Port i has the
 * hardware address 02:00:00:00:00:<i>. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORTS = 16, FRAME = 66000, WAITING = 4 << 20 };

typedef struct frame {
    struct frame *next;
    int64_t due_ns;       /* leaves the queue it is in */
    int n, on_wire;       /* bytes in data; bytes that its lines count */
    unsigned targets;     /* receivers, a bit each */
    unsigned char data[]; /* virtio header, then the Ethernet frame */
} frame;

typedef struct queue {
    frame *first, *last;
    int64_t free_ns; /* when its line has passed all it holds */
} queue;

static double rate_bps, loss;
static int64_t latency_ns;
static bool big;
static int n_ports, devices[PORTS];
static queue under_way[PORTS], incoming[PORTS];
static int64_t passed, dropped;
static volatile sig_atomic_t ending;

static void end(int number) {
    (void)number;
    ending = 1;
}

static void die(const char *what) {
    fprintf(stderr, "wire: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- queues ---- */

static void append(queue *q, frame *f) {
    f->next = NULL;
    if (q->last)
        q->last->next = f;
    else
        q->first = f;
    q->last = f;
}

static frame *take(queue *q) {
    frame *f = q->first;
    q->first = f->next;
    if (!q->first) q->last = NULL;
    return f;
}

/* Puts a frame on a line at `at_ns`; it is through at the returned time, or -1: no room.
 */
static int64_t pass_line(queue *q, int64_t at_ns, int n_bytes) {
    double waiting = (double)(q->free_ns - at_ns) * rate_bps / 8e9;
    if (waiting > WAITING) return -1;
    if (q->free_ns < at_ns) q->free_ns = at_ns;
    q->free_ns += (int64_t)(n_bytes * 8e9 / rate_bps);
    return q->free_ns;
}

/* ---- devices ---- */

static void set_address(int port) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct ifreq request = {.ifr_name = "eth0"};
    request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    request.ifr_hwaddr.sa_data[0] = 2;
    request.ifr_hwaddr.sa_data[5] = (char)port;
    if (fd < 0 || ioctl(fd, SIOCSIFHWADDR, &request) != 0) die("address of eth0");
    close(fd);
}

static void open_port(int port, const char *namespace) {
    char path[256];
    struct ifreq request = {.ifr_name = "eth0"};
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) != 0) die(path);
    close(space);
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) die("/dev/net/tun");
    request.ifr_flags = (short)(IFF_TAP | IFF_NO_PI | IFF_VNET_HDR);
    if (ioctl(fd, TUNSETIFF, &request) != 0) die("eth0");
    unsigned offload = big ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 : 0;
    if (ioctl(fd, TUNSETOFFLOAD, offload) != 0) die("large packets");
    set_address(port);
    devices[port] = fd;
}

/* Bytes on the wire: a large packet would be cut, each piece with its headers. */
static int wire_bytes(const unsigned char *data, int n) {
    struct virtio_net_hdr head;
    memcpy(&head, data, sizeof head);
    int n_bytes = n - (int)sizeof head;
    if (head.gso_type == VIRTIO_NET_HDR_GSO_NONE || head.gso_size == 0) return n_bytes;
    int pieces = (n_bytes - head.hdr_len + head.gso_size - 1) / head.gso_size;
    return n_bytes + (pieces > 1 ? pieces - 1 : 0) * head.hdr_len;
}

/* Receivers by the last byte of the hardware address; groups go to all others. */
static unsigned targets_of(const unsigned char *ethernet, int from) {
    unsigned all = (1u << n_ports) - 1, self = 1u << from;
    if (ethernet[0] & 1) return all & ~self;
    if (ethernet[0] == 2 && ethernet[5] < n_ports) return 1u << ethernet[5] & ~self;
    return 0;
}

static void send_on(int port, const unsigned char *data, int n) {
    unsigned targets = targets_of(data + sizeof(struct virtio_net_hdr), port);
    int on_wire = wire_bytes(data, n);
    int64_t out_ns = targets ? pass_line(&under_way[port], now_ns(), on_wire) : -1;
    if (out_ns < 0) {
        dropped += targets != 0;
        return;
    }
    frame *f = malloc(sizeof *f + (size_t)n);
    if (!f) die("memory");
    f->n = n;
    f->on_wire = on_wire;
    f->targets = targets;
    f->due_ns = out_ns + latency_ns;
    memcpy(f->data, data, (size_t)n);
    append(&under_way[port], f);
}

static void put_16(unsigned char *at, unsigned x) {
    at[0] = (unsigned char)(x >> 8);
    at[1] = (unsigned char)x;
}

/* Of a large packet of TCP over IPv4, `n` bytes of payload from byte `from` on. The receiver trusts
 * the checksum of TCP, which the sender has left out. */
static void send_part(int port, const unsigned char *data, int head, int from, int n) {
    static unsigned char part[FRAME];
    struct virtio_net_hdr virtio;
    unsigned char *ip = part + sizeof virtio + 14, *tcp;
    uint32_t sequence, sum = 0;
    memcpy(part, data, (size_t)head);
    memcpy(part + head, data + head + from, (size_t)n);
    memcpy(&virtio, data, sizeof virtio);
    tcp = part + sizeof virtio + virtio.csum_start;
    if (n <= virtio.gso_size)
        virtio.gso_type = VIRTIO_NET_HDR_GSO_NONE, virtio.gso_size = 0;
    memcpy(part, &virtio, sizeof virtio);
    memcpy(&sequence, tcp + 4, 4);
    sequence = htonl(ntohl(sequence) + (uint32_t)from);
    memcpy(tcp + 4, &sequence, 4);
    put_16(ip + 2, (unsigned)(part + head + n - ip));
    put_16(ip + 10, 0);
    for (int i = 0; i < 20; i += 2) sum += (uint32_t)ip[i] << 8 | ip[i + 1];
    put_16(ip + 10, ~(sum % 0xffff) & 0xffff);
    send_on(port, part, head + n);
}

/* Draws for each packet that the wire would carry; what lies between those lost goes on. */
static void send_lossy(int port, const unsigned char *data, int n) {
    struct virtio_net_hdr virtio;
    memcpy(&virtio, data, sizeof virtio);
    if (virtio.gso_type != VIRTIO_NET_HDR_GSO_TCPV4 || virtio.gso_size == 0) {
        if (drand48() >= loss) send_on(port, data, n);
        return;
    }
    int tcp = (int)sizeof virtio + virtio.csum_start;
    int head = tcp + (data[tcp + 12] >> 4) * 4, payload = n - head, from = 0;
    for (int at = 0; at < payload; at += virtio.gso_size) {
        if (drand48() >= loss) continue;
        if (at > from) send_part(port, data, head, from, at - from);
        from = at + virtio.gso_size;
    }
    if (from == 0)
        send_on(port, data, n);
    else if (from < payload)
        send_part(port, data, head, from, payload - from);
}

static void read_port(int port) {
    static unsigned char data[FRAME];
    const int head = (int)sizeof(struct virtio_net_hdr), ethernet = 14;
    for (int burst = 0; burst < 64; burst++) {
        ssize_t n = read(devices[port], data, sizeof data);
        if (n < head + ethernet) return;
        if (loss > 0)
            send_lossy(port, data, (int)n);
        else
            send_on(port, data, (int)n);
    }
}

/* ---- time ---- */

/* The frame has come to the receivers' lines; all but the last get a copy. */
static void arrive(frame *f) {
    for (int port = 0; port < n_ports; port++) {
        if (!(f->targets >> port & 1)) continue;
        int64_t in_ns = pass_line(&incoming[port], f->due_ns, f->on_wire);
        f->targets &= ~(1u << port);
        if (in_ns < 0) {
            dropped++;
            continue;
        }
        frame *own = f;
        if (f->targets) {
            own = malloc(sizeof *own + (size_t)f->n);
            if (!own) die("memory");
            memcpy(own, f, sizeof *f + (size_t)f->n);
        }
        own->due_ns = in_ns;
        append(&incoming[port], own);
        if (own == f) return;
    }
    free(f);
}

static void deliver(int port) {
    frame *f = take(&incoming[port]);
    if (write(devices[port], f->data, (size_t)f->n) == f->n)
        passed += f->on_wire;
    else
        dropped++; /* the interface is down, or its queue is full */
    free(f);
}

/* The queue whose head is due first; NULL if all are empty. */
static queue *earliest(void) {
    queue *best = NULL;
    for (int i = 0; i < 2 * n_ports; i++) {
        queue *q = i < n_ports ? &under_way[i] : &incoming[i - n_ports];
        if (q->first && (!best || q->first->due_ns < best->first->due_ns)) best = q;
    }
    return best;
}

/* Does all that is due; returns when the next thing is, or -1. */
static int64_t work(void) {
    for (;;) {
        queue *q = earliest();
        if (!q) return -1;
        if (q->first->due_ns > now_ns()) return q->first->due_ns;
        if (q >= incoming && q < incoming + PORTS)
            deliver((int)(q - incoming));
        else
            arrive(take(q));
    }
}

static void serve(void) {
    struct pollfd watched[PORTS + 1];
    for (int i = 0; i < n_ports; i++)
        watched[i] = (struct pollfd){.fd = devices[i], .events = POLLIN};
    watched[n_ports] = (struct pollfd){.fd = STDIN_FILENO, .events = POLLIN};
    while (!ending) {
        struct timespec wait = {.tv_sec = 0}, *limit = NULL;
        int64_t next_ns = work(), left_ns = next_ns - now_ns();
        if (next_ns >= 0) {
            if (left_ns > 0) {
                wait.tv_sec = left_ns / 1000000000;
                wait.tv_nsec = left_ns % 1000000000;
            }
            limit = &wait;
        }
        if (ppoll(watched, (nfds_t)n_ports + 1, limit, NULL) <= 0) continue;
        for (int i = 0; i < n_ports; i++)
            if (watched[i].revents) read_port(i);
        char unused;
        if (watched[n_ports].revents && read(STDIN_FILENO, &unused, 1) <= 0) return;
    }
}

int main(int argc, char **argv) {
    if (argc < 7 || argc - 5 > PORTS || atof(argv[1]) <= 0) {
        fprintf(stderr, "usage: wire RATE LATENCY LOSS BIG NAMESPACE NAMESPACE...\n");
        return 2;
    }
    rate_bps = atof(argv[1]);
    latency_ns = (int64_t)(atof(argv[2]) * 1000);
    loss = atof(argv[3]);
    big = atoi(argv[4]) != 0;
    n_ports = argc - 5;
    int home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < n_ports; i++) open_port(i, argv[5 + i]);
    if (home < 0 || setns(home, CLONE_NEWNET) != 0) die("the own network");
    close(home);
    struct sched_param urgent = {.sched_priority = 10};
    if (sched_setscheduler(0, SCHED_FIFO, &urgent) != 0)
        fprintf(stderr, "wire: no real-time priority: frames may be late\n");
    prctl(PR_SET_TIMERSLACK, 1);
    signal(SIGTERM, end);
    signal(SIGINT, end);
    printf("ready\n");
    fflush(stdout);
    serve();
    fprintf(stderr, "wire: %lld bytes passed, %lld frames dropped\n", (long long)passed,
            (long long)dropped);
    return 0;
}
