/* SPDX-License-Identifier: MIT */
/* The calls of the system that the library makes, and what they do in the world. The linker sends
 * here what the objects call (--wrap); outside of the world, and for descriptors that are not of
 * it, the real ones are called. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <linux/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

/* WRAP(type, name, (parameters)): the real one, and the one that the objects reach. */
#define WRAP(type, name, parameters)                                                     \
    type __real_##name parameters;                                                       \
    type __wrap_##name parameters;                                                       \
    type __wrap_##name parameters

/* --- descriptors --- */

static bool is_ours(int fd) { return w.current && fd >= FIRST_FILE; }

static file *file_of(int fd) {
    int i = fd - FIRST_FILE;
    file *f = i >= 0 && i < MAX_FILES ? w.current->owner->files[i] : NULL;
    if (!f) errno = EBADF;
    return f;
}

static int give_number(file *f) {
    process *p = w.current->owner;
    for (int i = 0; i < MAX_FILES; i++)
        if (!p->files[i]) {
            p->files[i] = f;
            return FIRST_FILE + i;
        }
    fail_world("a process has more than %d files", (int)MAX_FILES);
    errno = EMFILE;
    return -1;
}

/* What those wait for who wait for files of this machine. */
static const void *here(void) { return &hosts[w.current->owner->host]; }

static int fail_with(int error) {
    errno = error;
    return -1;
}

WRAP(int, close, (int fd)) {
    if (!is_ours(fd)) return disk_close(fd);
    point();
    file *f = file_of(fd);
    if (!f) return -1;
    w.current->owner->files[fd - FIRST_FILE] = NULL;
    file_close(f);
    return 0;
}

WRAP(int, socket, (int domain, int type, int protocol)) {
    if (!w.current) return __real_socket(domain, type, protocol);
    point();
    file *f = file_new(STREAM, w.current->owner->host);
    f->v6 = domain == AF_INET6;
    f->nonblocking = type & SOCK_NONBLOCK;
    return give_number(f);
}

WRAP(int, socketpair, (int domain, int type, int protocol, int ends[2])) {
    if (!w.current) return __real_socketpair(domain, type, protocol, ends);
    file *f[2];
    for (int i = 0; i < 2; i++) {
        f[i] = file_new(STREAM, w.current->owner->host);
        f[i]->state = OPEN;
        f[i]->peer_host = f[i]->host;
        ends[i] = give_number(f[i]);
    }
    f[0]->peer = f[1];
    f[1]->peer = f[0];
    return 0;
}

/* Machine h has the address 10.0.0.h. */
static int host_of(const struct sockaddr *a, int *port) {
    uint32_t v4 = 0;
    if (a->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, a, sizeof in);
        v4 = ntohl(in.sin_addr.s_addr);
        *port = ntohs(in.sin_port);
    } else {
        struct sockaddr_in6 in;
        memcpy(&in, a, sizeof in);
        *port = ntohs(in.sin6_port);
        memcpy(&v4, in.sin6_addr.s6_addr + 12, sizeof v4);
        v4 = ntohl(v4);
    }
    if (v4 >> 24 == 127) return w.current->owner->host;
    return v4 >> 8 == 0x0a0000 ? (int)(v4 & 255) : 0;
}

static void write_address(bool v6, int at, int port, struct sockaddr *to,
                          socklen_t *size) {
    uint32_t v4 = htonl(0x0a000000u + (uint32_t)at);
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = v4};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
                               .sin6_port = htons((uint16_t)port)};
    in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 255;
    memcpy(in6.sin6_addr.s6_addr + 12, &v4, sizeof v4);
    socklen_t n = v6 ? sizeof in6 : sizeof in;
    if (!to) return;
    memcpy(to, v6 ? (const void *)&in6 : (const void *)&in, n < *size ? n : *size);
    *size = n;
}

static int door_number(const struct sockaddr *a, socklen_t size) {
    struct sockaddr_un un = {0};
    memcpy(&un, a, size < sizeof un ? size : sizeof un);
    const char *end = strrchr(un.sun_path + 1, '-');
    return end ? atoi(end + 1) : 0;
}

WRAP(int, bind, (int fd, const struct sockaddr *a, socklen_t size)) {
    if (!is_ours(fd)) return __real_bind(fd, a, size);
    point();
    file *f = file_of(fd);
    int port = 0;
    if (!f) return -1;
    if (a->sa_family == AF_UNIX) {
        f->port = door_number(a, size);
        if (door_at(f->host, f->port)) return fail_with(EADDRINUSE);
        f->kind = ENDPOINT;
        return 0;
    }
    (void)host_of(a, &port);
    if (port == 0) do
            port = (int)draw_between(32768, 60000);
        while (listener_at(f->host, port));
    if (listener_at(f->host, port)) return fail_with(EADDRINUSE);
    f->port = port;
    return 0;
}

WRAP(int, listen, (int fd, int backlog)) {
    if (!is_ours(fd)) return __real_listen(fd, backlog);
    point();
    file *f = file_of(fd);
    if (!f) return -1;
    if (f->kind == ENDPOINT) return 0;
    if (listener_at(f->host, f->port)) return fail_with(EADDRINUSE);
    f->kind = LISTENER;
    return 0;
}

WRAP(int, accept4, (int fd, struct sockaddr *from, socklen_t *size, int flags)) {
    if (!is_ours(fd)) return __real_accept4(fd, from, size, flags);
    point();
    file *f = file_of(fd);
    if (!f) return -1;
    if (f->n_queue == 0) return fail_with(EAGAIN);
    file *s = f->queue[0];
    memmove(f->queue, f->queue + 1, (size_t)--f->n_queue * sizeof *f->queue);
    s->nonblocking = flags & SOCK_NONBLOCK;
    if (from && size) write_address(f->v6, s->peer_host, s->peer_port, from, size);
    return give_number(s);
}

WRAP(int, connect, (int fd, const struct sockaddr *a, socklen_t size)) {
    if (!is_ours(fd)) return __real_connect(fd, a, size);
    point();
    int port;
    file *f = file_of(fd);
    if (!f) return -1;
    int error = a->sa_family == AF_UNIX ? door_call(f, door_number(a, size)) : 0;
    if (a->sa_family != AF_UNIX) {
        int to = host_of(a, &port);
        error = stream_call(f, to, port);
    }
    return error ? fail_with(error) : 0;
}

WRAP(int, getsockname, (int fd, struct sockaddr *a, socklen_t *size)) {
    if (!is_ours(fd)) return __real_getsockname(fd, a, size);
    file *f = file_of(fd);
    if (!f) return -1;
    write_address(f->v6, f->host, f->kind == STREAM && !f->port ? f->local_port : f->port,
                  a, size);
    return 0;
}

WRAP(int, getpeername, (int fd, struct sockaddr *a, socklen_t *size)) {
    if (!is_ours(fd)) return __real_getpeername(fd, a, size);
    file *f = file_of(fd);
    if (!f) return -1;
    if (f->state != OPEN) return fail_with(ENOTCONN);
    write_address(f->v6, f->peer_host, f->peer_port, a, size);
    return 0;
}

WRAP(int, setsockopt, (int fd, int level, int name, const void *value, socklen_t size)) {
    if (!is_ours(fd)) return __real_setsockopt(fd, level, name, value, size);
    point();
    file *f = file_of(fd);
    if (!f) return -1;
    if (level == SOL_SOCKET && name == SO_RCVLOWAT) {
        memcpy(&f->lowat, value, sizeof f->lowat);
        if (f->n_in >= f->lowat)
            file_edge(f); /* what was held back counts, as on Linux */
    }
    return 0;
}

static int tcp_facts(const file *f, void *value, socklen_t *size) {
    struct tcp_info info = {0};
    info.tcpi_bytes_acked = (uint64_t)f->n_sent;
    info.tcpi_delivery_rate = (uint64_t)(1e9 / (hosts[f->host].byte_ns + 0.01));
    memset(value, 0, *size);
    memcpy(value, &info, *size < sizeof info ? *size : sizeof info);
    return 0;
}

WRAP(int, getsockopt, (int fd, int level, int name, void *value, socklen_t *size)) {
    if (!is_ours(fd)) return __real_getsockopt(fd, level, name, value, size);
    point();
    file *f = file_of(fd);
    if (!f) return -1;
    if (level == IPPROTO_TCP && name == TCP_INFO) return tcp_facts(f, value, size);
    if (level == SOL_SOCKET && name == SO_PEERCRED) {
        struct ucred who = {.uid = getuid()};
        memcpy(value, &who, sizeof who);
        return 0;
    }
    memset(value, 0, *size);
    if (level == SOL_SOCKET && name == SO_ERROR) {
        memcpy(value, &f->error, sizeof f->error);
        f->error = 0;
    }
    return 0;
}

WRAP(int, ioctl, (int fd, unsigned long what, int *out)) {
    if (!is_ours(fd)) return __real_ioctl(fd, what, out);
    point();
    const file *f = file_of(fd);
    if (!f || what != TIOCOUTQ) return fail_with(EINVAL);
    *out = f->unconfirmed;
    return 0;
}

WRAP(int, shutdown, (int fd, int how)) {
    if (!is_ours(fd)) return __real_shutdown(fd, how);
    point();
    file *f = file_of(fd);
    if (!f) return -1;
    if (f->state != OPEN) return fail_with(ENOTCONN);
    stream_shut(f);
    return 0;
}

WRAP(int, fcntl, (int fd, int command, void *argument)) {
    return is_ours(fd) ? 0 : disk_lock(fd, command, argument);
}

/* --- bytes --- */

static void await_file(file *f, uint32_t events) {
    while (!f->nonblocking && !(file_mask(f) & (events | EPOLLERR | EPOLLHUP)))
        (void)fiber_wait(here(), NEVER);
}

static ssize_t receive(int fd, void *bytes, size_t n, int flags) {
    point();
    file *f = file_of(fd);
    if (!f) return -1;
    if (f->kind == EVENT) {
        memcpy(bytes, &f->count, sizeof f->count);
        f->count = 0;
        return sizeof f->count;
    }
    if (!(flags & MSG_DONTWAIT)) await_file(f, EPOLLIN);
    return stream_receive(f, bytes, n, flags & MSG_PEEK);
}

static ssize_t give(int fd, const void *bytes, size_t n) {
    point();
    file *f = file_of(fd);
    if (!f) return -1;
    if (f->kind == EVENT) {
        uint64_t more;
        memcpy(&more, bytes, sizeof more);
        f->count += more;
        file_edge(f);
        return sizeof more;
    }
    return stream_send(f, bytes, n);
}

WRAP(ssize_t, recv, (int fd, void *bytes, size_t n, int flags)) {
    return is_ours(fd) ? receive(fd, bytes, n, flags) : __real_recv(fd, bytes, n, flags);
}

WRAP(ssize_t, __recv_chk, (int fd, void *bytes, size_t n, size_t room, int flags)) {
    (void)room;
    return is_ours(fd) ? receive(fd, bytes, n, flags) : __real_recv(fd, bytes, n, flags);
}

WRAP(ssize_t, send, (int fd, const void *bytes, size_t n, int flags)) {
    return is_ours(fd) ? give(fd, bytes, n) : __real_send(fd, bytes, n, flags);
}

WRAP(ssize_t, read, (int fd, void *bytes, size_t n)) {
    return is_ours(fd) ? receive(fd, bytes, n, 0) : disk_read(fd, bytes, n);
}

WRAP(ssize_t, __read_chk, (int fd, void *bytes, size_t n, size_t room)) {
    (void)room;
    return is_ours(fd) ? receive(fd, bytes, n, 0) : disk_read(fd, bytes, n);
}

WRAP(ssize_t, write, (int fd, const void *bytes, size_t n)) {
    return is_ours(fd) ? give(fd, bytes, n) : disk_write(fd, bytes, n);
}

/* Part after part, up to the first that does not go or come whole. */
static ssize_t each_part(file *f, const struct msghdr *m, bool out) {
    ssize_t sum = 0;
    for (size_t i = 0; i < m->msg_iovlen; i++) {
        const struct iovec *v = &m->msg_iov[i];
        if (v->iov_len == 0) continue;
        ssize_t n = out ? stream_send(f, v->iov_base, v->iov_len)
                        : stream_receive(f, v->iov_base, v->iov_len, false);
        if (n < 0) return sum > 0 ? sum : -1;
        sum += n;
        if (n < (ssize_t)v->iov_len) break;
    }
    return sum;
}

WRAP(ssize_t, recvmsg, (int fd, struct msghdr *m, int flags)) {
    if (!is_ours(fd)) return __real_recvmsg(fd, m, flags);
    point();
    file *f = file_of(fd);
    return f ? each_part(f, m, false) : -1;
}

WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags)) {
    if (!is_ours(fd)) return __real_sendmsg(fd, m, flags);
    point();
    file *f = file_of(fd);
    return f ? each_part(f, m, true) : -1;
}

/* --- waiting for files --- */

static int64_t deadline_of(int ms) {
    return ms < 0 ? NEVER : w.now_ns + (int64_t)ms * MS;
}

static int look(struct pollfd *all, nfds_t n) {
    int found = 0;
    for (nfds_t i = 0; i < n; i++) {
        bool is_real = all[i].fd >= 0 && all[i].fd < FIRST_FILE; /* a text */
        all[i].revents = is_real ? all[i].events : 0;
        found += is_real;
        if (all[i].fd < FIRST_FILE) continue;
        file *f = file_of(all[i].fd);
        uint32_t m = f ? file_mask(f) : POLLNVAL;
        all[i].revents = (short)(m & ((uint32_t)(unsigned short)all[i].events | POLLERR |
                                      POLLHUP | POLLNVAL));
        found += all[i].revents != 0;
    }
    return found;
}

static int poll_files(struct pollfd *all, nfds_t n, int ms) {
    int64_t until_ns = deadline_of(ms);
    point();
    for (;;) {
        int found = look(all, n);
        if (found || w.now_ns >= until_ns) return found;
        (void)fiber_wait(here(), until_ns);
    }
}

WRAP(int, poll, (struct pollfd * all, nfds_t n, int ms)) {
    return w.current ? poll_files(all, n, ms) : __real_poll(all, n, ms);
}

WRAP(int, __poll_chk, (struct pollfd * all, nfds_t n, int ms, size_t room)) {
    (void)room;
    return w.current ? poll_files(all, n, ms) : __real_poll(all, n, ms);
}

WRAP(int, epoll_create1, (int flags)) {
    if (!w.current) return __real_epoll_create1(flags);
    return give_number(file_new(EPOLL, w.current->owner->host));
}

WRAP(int, eventfd, (unsigned count, int flags)) {
    if (!w.current) return __real_eventfd(count, flags);
    file *f = file_new(EVENT, w.current->owner->host);
    f->count = count;
    return give_number(f);
}

static interest *find_interest(file *set, const file *f) {
    for (interest *i = set->interests; i; i = i->next)
        if (i->of == f) return i;
    return NULL;
}

WRAP(int, epoll_ctl, (int set, int op, int fd, struct epoll_event *event)) {
    if (!is_ours(set)) return __real_epoll_ctl(set, op, fd, event);
    point();
    file *e = file_of(set), *f = file_of(fd);
    if (!e || !f) return -1;
    interest *i = find_interest(e, f);
    if ((op == EPOLL_CTL_ADD) == (i != NULL)) return fail_with(i ? EEXIST : ENOENT);
    if (op == EPOLL_CTL_DEL) {
        i->of = NULL;
        return 0;
    }
    if (!i) {
        i = calloc(1, sizeof *i);
        i->next = e->interests;
        e->interests = i;
        i->of = f;
    }
    i->events = event->events;
    i->data = event->data.u64;
    i->seen = -1;
    fiber_wake(here(), true);
    return 0;
}

static int look_at_set(const file *e, struct epoll_event *out, int most) {
    int n = 0;
    for (interest *i = e->interests; i && n < most; i = i->next) {
        if (!i->of || i->of->closed) continue;
        bool edge = !(i->events & EPOLLET) || i->of->edges > i->seen;
        uint32_t m = file_mask(i->of) & (i->events | EPOLLERR | EPOLLHUP);
        if (!edge || !m) continue;
        i->seen = i->of->edges;
        out[n].events = m;
        out[n++].data.u64 = i->data;
    }
    return n;
}

WRAP(int, epoll_wait, (int set, struct epoll_event *out, int most, int ms)) {
    if (!is_ours(set)) return __real_epoll_wait(set, out, most, ms);
    int64_t until_ns = deadline_of(ms);
    point();
    file *e = file_of(set);
    if (!e) return -1;
    for (;;) {
        int n = look_at_set(e, out, most);
        if (n || w.now_ns >= until_ns) return n;
        (void)fiber_wait(here(), until_ns);
    }
}

/* --- names and numbers --- */

WRAP(int, getaddrinfo,
     (const char *name, const char *service, const struct addrinfo *wanted,
      struct addrinfo **out)) {
    if (!w.current) return __real_getaddrinfo(name, service, wanted, out);
    struct {
        struct addrinfo info;
        struct sockaddr_in in;
    } *a = calloc(1, sizeof *a);
    point();
    a->in = (struct sockaddr_in){.sin_family = AF_INET,
                                 .sin_port = htons((uint16_t)atoi(service))};
    *out = NULL;
    if (strncmp(name, "::ffff:", 7) == 0) name += 7;
    if (inet_pton(AF_INET, name, &a->in.sin_addr) != 1) {
        free(a);
        return EAI_NONAME;
    }
    a->info = (struct addrinfo){.ai_family = AF_INET,
                                .ai_socktype = SOCK_STREAM,
                                .ai_addrlen = sizeof a->in,
                                .ai_addr = (struct sockaddr *)&a->in};
    *out = &a->info;
    return 0;
}

WRAP(void, freeaddrinfo, (struct addrinfo * list)) {
    if (w.current)
        free(list);
    else
        __real_freeaddrinfo(list);
}

WRAP(int, gethostname, (char *out, size_t n)) {
    if (!w.current) return __real_gethostname(out, n);
    snprintf(out, n, "%s", hosts[w.current->owner->host].name);
    return 0;
}

WRAP(char *, getenv, (const char *name)) {
    static char machine[32];
    if (!w.current) return __real_getenv(name);
    if (strcmp(name, "WEFT_MACHINE") != 0) return NULL;
    int h = w.current->owner->host;
    snprintf(machine, sizeof machine, "%s boot %d", hosts[h].name, hosts[h].epoch);
    return machine;
}

WRAP(ssize_t, getrandom, (void *out, size_t n, unsigned flags)) {
    if (!w.current) return __real_getrandom(out, n, flags);
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)out)[i] = (unsigned char)(draw() >> 24);
    return (ssize_t)n;
}

WRAP(int, sched_getaffinity, (pid_t id, size_t n, cpu_set_t *set)) {
    if (!w.current) return __real_sched_getaffinity(id, n, set);
    CPU_ZERO_S(n, set);
    CPU_SET_S(0, n, set);
    return 0;
}

/* --- time --- */

WRAP(int, clock_gettime, (clockid_t clock, struct timespec *out)) {
    if (!w.current) return __real_clock_gettime(clock, out);
    point();
    int64_t ns = w.now_ns +
                 (clock == CLOCK_REALTIME ? 1800000000 * SECOND : 1000 * SECOND);
    *out = (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};
    return 0;
}

static int64_t when_of(const struct timespec *t) {
    if (t->tv_sec > 1000000000) return NEVER;
    return ((int64_t)t->tv_sec - 1000) * SECOND + t->tv_nsec;
}

WRAP(int, clock_nanosleep,
     (clockid_t clock, int flags, const struct timespec *t, struct timespec *rest)) {
    if (!w.current) return __real_clock_nanosleep(clock, flags, t, rest);
    fiber_sleep(flags & TIMER_ABSTIME ? when_of(t) - w.now_ns
                                      : (int64_t)t->tv_sec * SECOND + t->tv_nsec);
    return 0;
}

/* --- processes --- */

WRAP(pid_t, getpid, (void)) { return w.current ? w.current->owner->id : __real_getpid(); }

WRAP(pid_t, gettid, (void)) { return w.current ? w.current->id : __real_gettid(); }

WRAP(pid_t, fork, (void)) {
    if (!w.current) return __real_fork();
    point();
    return fiber_fork();
}

static process *process_of(pid_t id) {
    return id >= 1000 && id < 1000 + w.n_processes ? w.processes[id - 1000] : NULL;
}

WRAP(void, _exit, (int code)) {
    if (!w.current) __real__exit(code);
    w.current->owner->code = code;
    process_kill(w.current->owner);
    abort();
}

WRAP(pid_t, waitpid, (pid_t id, int *code, int options)) {
    process *p = w.current ? process_of(id) : NULL;
    if (!w.current) return __real_waitpid(id, code, options);
    if (!p) return fail_with(ECHILD);
    while (!p->dead) (void)fiber_wait(p, NEVER);
    *code = p->code << 8;
    return id;
}

WRAP(int, kill, (pid_t id, int sign)) {
    if (!w.current) return __real_kill(id, sign);
    process *p = process_of(id);
    if (!p || p->dead) return fail_with(ESRCH);
    if (sign) process_kill(p);
    return 0;
}

WRAP(long, syscall, (long number, long a, long b, long c, long d, long e, long f)) {
    if (!w.current) return __real_syscall(number, a, b, c, d, e, f);
    process *p = w.current->owner;
    if (number == SYS_pidfd_open) {
        file *watched = file_new(LIFE, p->host);
        watched->subject = process_of((pid_t)a);
        return give_number(watched);
    }
    if (number != SYS_close_range) return fail_with(ENOSYS);
    for (int i = 0; i < MAX_FILES; i++)
        if (p->files[i] && FIRST_FILE + i >= a && FIRST_FILE + i <= b) {
            file *closed = p->files[i];
            p->files[i] = NULL;
            file_close(closed);
        }
    return 0;
}

WRAP(int, open, (const char *path, int flags, mode_t mode)) {
    bool hidden = w.current && w.current->owner->guard;
    return hidden ? fail_with(ENOENT) : disk_open(path, flags, mode);
}

WRAP(int, __open_2, (const char *path, int flags)) { return __wrap_open(path, flags, 0); }

WRAP(int, dup2, (int from, int to)) { return w.current ? to : __real_dup2(from, to); }

WRAP(int, madvise, (void *at, size_t n, int advice)) {
    return w.current ? 0 : __real_madvise(at, n, advice);
}

/* Memory that two processes share has one address here. */
WRAP(int, munmap, (void *at, size_t n)) { return w.current ? 0 : __real_munmap(at, n); }

WRAP(int, prctl,
     (int what, unsigned long a, unsigned long b, unsigned long c, unsigned long d)) {
    return w.current ? 0 : __real_prctl(what, a, b, c, d);
}

WRAP(pid_t, setsid, (void)) { return w.current ? 1 : __real_setsid(); }

WRAP(sighandler_t, signal, (int number, sighandler_t handler)) {
    return w.current ? SIG_DFL : __real_signal(number, handler);
}

WRAP(int, sigprocmask, (int how, const sigset_t *set, sigset_t *old)) {
    return w.current ? 0 : __real_sigprocmask(how, set, old);
}
