/* SPDX-License-Identifier: MIT */
/* The guard (guard.h). After the fork the child calls only what is safe there: other
 * threads may have held locks, malloc's among them. It waits for two things:
 *
 *     pidfd of the process   readable: it has died
 *     a socket to it         'd': done, end;  'e': its part has ended, speak; closed without a
 *                            word: it executes another program, or dies
 *
 * The page that both share holds two slots; a count says which one is valid, so that a kill
 * between two writes leaves a whole one. */
#define _GNU_SOURCE
#include "net/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif
enum { CALLS = 32, ASKERS = 4096, CALL_MS = 2000, GRACE_MS = 500, DISMISS_MS = 1000 };

typedef struct page {
    _Atomic unsigned count; /* slot count % 2 is valid; 0: none */
    _Atomic int n_askers;
    struct {
        size_t n;
        unsigned char bytes[WEFTI_GUARD_BYTES];
    } slot[2];
} page;

struct wefti_guard {
    page *shared;
    int line; /* to the guard */
};

/* --- the guard's own side: only calls that are safe after a fork --- */

typedef struct call {
    int fd;
    int64_t until_ms;
    bool answered; /* it was sent the bytes */
    int place;     /* of who asks; -1: no member */
} call;

typedef struct watch {
    page *shared;
    int process, line, listener,
        endpoint; /* endpoint: where a new owner of the port asks */
    struct sockaddr_un endpoint_address;
    socklen_t endpoint_size;
    call calls[CALLS];
    int n_calls, n_served; /* served: members, each once */
    bool served[ASKERS];
    int64_t until_ms;
} watch;

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Lets go of all files but those that it needs: an inherited connection would stay open
 * when the process dies. */
static void close_others(const watch *w) {
    int top = (int)sysconf(_SC_OPEN_MAX), null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && null >= 0; fd++) dup2(null, fd);
    int keep[3] = {w->process, w->line, w->listener};
    for (int i = 0; i < 3; i++)
        for (int k = i + 1; k < 3; k++)
            if (keep[k] < keep[i]) {
                int swap = keep[i];
                keep[i] = keep[k];
                keep[k] = swap;
            }
    unsigned from = 3;
    for (int i = 0; i <= 3; i++) {
        unsigned to = i < 3 ? (unsigned)keep[i] - 1 : UINT32_MAX;
        if (to >= from && syscall(SYS_close_range, from, to, 0) != 0)
            for (unsigned fd = from; fd <= to && fd < (unsigned)top; fd++) close((int)fd);
        if (i < 3) from = (unsigned)keep[i] + 1;
    }
}

static bool holds(uintptr_t from, uintptr_t to, const void *what) {
    return (uintptr_t)what >= from && (uintptr_t)what < to;
}

/* One line of /proc/self/maps: forgets a large private mapping without a file, so that the
 * process does not copy its pages when it writes to them. */
static void drop_mapping(const char *line, const void *stack) {
    char *end;
    uintptr_t from = strtoul(line, &end, 16), to = *end ? strtoul(end + 1, &end, 16) : 0;
    bool is_private = strncmp(end, " rw-p 00000000 00:00 0 ", 23) == 0;
    if (!is_private || to - from < 1 << 18 || holds(from, to, stack) ||
        holds(from, to, &errno))
        return;
    union {
        uintptr_t number;
        void *at;
    } begin = {.number = from};
    (void)madvise(begin.at, to - from, MADV_DONTNEED);
}

static void drop_memory(void) {
    char text[4096];
    size_t n = 0;
    if (SANITIZED) return; /* a sanitizer needs its tables */
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    for (;;) {
        ssize_t got = maps < 0 ? 0 : read(maps, text + n, sizeof text - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
        text[n] = 0;
        char *line = text;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = 0;
            drop_mapping(line, text);
        }
        n -= (size_t)(line - text);
        memmove(text, line, n);
    }
    if (maps >= 0) close(maps);
}

static int open_endpoint(watch *w) {
    union {
        struct sockaddr_un *un;
        struct sockaddr *any;
    } a = {.un = &w->endpoint_address};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && bind(fd, a.any, w->endpoint_size) == 0 && listen(fd, 4) == 0)
        return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* A caller has the bytes when its machine has confirmed them: one that has given up, because the
 * way is slow, answers by a reset, and may call again. False: neither yet. */
static bool has_arrived(watch *w, const call *c) {
    int error = 0, left = 0;
    socklen_t size = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error) return true;
    if (ioctl(c->fd, TIOCOUTQ, &left) == 0 && left > 0) return false;
    if (c->place < 0 || c->place >= ASKERS || w->served[c->place]) return true;
    w->served[c->place] = true;
    w->n_served++;
    return true;
}

/* The caller has shown what it wants: an inquiry, or other bytes. False: neither yet, or the
 * answer is on its way. */
static bool serve_call(watch *w, call *c) {
    unsigned char q[WEFTI_GUARD_QUESTION];
    if (c->answered) return has_arrived(w, c);
    ssize_t n = recv(c->fd, q, sizeof q, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    unsigned count = atomic_load(&w->shared->count);
    if (n < 0 || (n > 0 && q[0] != WEFTI_GUARD_ASKS) || count == 0) return true;
    if (n > 0 && n < (ssize_t)sizeof q) return false;
    c->place = n > 0 ? q[1] | q[2] << 8 : -1;
    c->answered = send(c->fd, w->shared->slot[count % 2].bytes,
                       w->shared->slot[count % 2].n, MSG_NOSIGNAL | MSG_DONTWAIT) > 0;
    return !c->answered;
}

static void serve_calls(watch *w) {
    for (int i = w->n_calls - 1; i >= 0; i--) {
        bool over = serve_call(w, &w->calls[i]) || now_ms() >= w->calls[i].until_ms;
        if (!over) continue;
        close(w->calls[i].fd);
        w->calls[i] = w->calls[--w->n_calls];
    }
}

static void take_calls(watch *w) {
    while (w->n_calls < CALLS) {
        int fd = accept4(w->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return;
        w->calls[w->n_calls++] = (call){fd, now_ms() + CALL_MS, false, -1};
    }
}

/* A process of the same user that wants the port: it may have it. */
static bool is_dismissed(const watch *w) {
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t size = sizeof who;
    int fd = accept4(w->endpoint, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) return false;
    bool mine = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 &&
                who.uid == getuid();
    if (!mine) close(fd); /* else the end of this process closes it, after the listener */
    if (mine) close(w->listener);
    return mine;
}

/* All that may ask have been answered: a little later nobody needs the guard any more. */
static void see_whether_done(watch *w) {
    int64_t soon_ms = now_ms() + GRACE_MS;
    if (w->n_served >= atomic_load(&w->shared->n_askers) && soon_ms < w->until_ms)
        w->until_ms = soon_ms;
}

static void speak(watch *w) {
    struct pollfd all[CALLS + 2];
    w->until_ms = now_ms() + (int64_t)WEFTI_GUARD_LINGERS_S * 1000;
    w->endpoint = open_endpoint(w);
    (void)fcntl(w->listener, F_SETFL, O_NONBLOCK);
    while (now_ms() < w->until_ms) {
        all[0] = (struct pollfd){.fd = w->n_calls < CALLS ? w->listener : -1,
                                 .events = POLLIN};
        all[1] = (struct pollfd){.fd = w->endpoint, .events = POLLIN};
        for (int i = 0; i < w->n_calls; i++)
            all[2 + i] = (struct pollfd){.fd = w->calls[i].fd,
                                         .events = w->calls[i].answered ? 0 : POLLIN};
        (void)poll(all, (nfds_t)(2 + w->n_calls), 100);
        if (w->endpoint >= 0 && is_dismissed(w)) return;
        take_calls(w);
        serve_calls(w);
        if (w->n_served > 0) see_whether_done(w);
    }
}

/* Waits for the process's end. False: it was an orderly one. */
static bool wait_for_end(const watch *w) {
    struct pollfd both[2] = {{.fd = w->process, .events = POLLIN},
                             {.fd = w->line, .events = POLLIN}};
    for (;;) {
        char word = 0;
        (void)poll(both, 2, -1);
        ssize_t n = both[1].revents ? read(w->line, &word, 1) : 0;
        if (n == 1) return word == 'e';
        if (both[0].revents || both[1].revents) return true;
    }
}

static void be_guard(watch *w) {
    sigset_t all;
    setsid();
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    signal(SIGTERM, SIG_DFL);
    sigemptyset(&all);
    sigaddset(&all, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    prctl(PR_SET_NAME, "run-guard");
    close_others(w);
    drop_memory();
    if (wait_for_end(w)) speak(w);
    _exit(0);
}

/* --- the process's side --- */

/* In the abstract space of this network namespace. */
static socklen_t endpoint_address(int port, struct sockaddr_un *out) {
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "weft-guard-%d", port);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int pidfd_of_self(void) {
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, getpid(), 0);
#else
    return -1;
#endif
}

/* Forks twice: the guard is nobody's child, so nobody has to wait for it. */
static bool fork_guard(watch *w) {
    pid_t child = fork();
    if (child == 0) {
        pid_t guard = fork();
        if (guard == 0) be_guard(w);
        _exit(guard > 0 ? 0 : 1);
    }
    int code = 1;
    while (child > 0 && waitpid(child, &code, 0) < 0) {
        if (errno == EINTR) continue;
        if (errno == ECHILD) code = 0; /* the program ignores its children */
        break;
    }
    return child > 0 && code == 0;
}

wefti_guard *wefti_guard_start(int listener, int port) {
    int ends[2] = {-1, -1}, process = listener < 0 ? -1 : pidfd_of_self();
    wefti_guard *g = calloc(1, sizeof *g);
    void *shared = MAP_FAILED;
    if (g && process >= 0 &&
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0)
        shared = mmap(NULL, sizeof(page), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool done = false;
    if (shared != MAP_FAILED) {
        watch w = {.shared = shared,
                   .process = process,
                   .line = ends[0],
                   .listener = listener,
                   .endpoint = -1};
        w.endpoint_size = endpoint_address(port, &w.endpoint_address);
        done = fork_guard(&w);
    }
    if (process >= 0) close(process);
    if (ends[0] >= 0) close(ends[0]);
    if (done) {
        *g = (wefti_guard){.shared = shared, .line = ends[1]};
        return g;
    }
    if (ends[1] >= 0) close(ends[1]);
    if (shared != MAP_FAILED) munmap(shared, sizeof(page));
    free(g);
    return NULL;
}

void wefti_guard_keep(wefti_guard *g, const void *bytes, size_t n, int n_askers) {
    if (!g || n > WEFTI_GUARD_BYTES) return;
    unsigned next = atomic_load(&g->shared->count) + 1;
    if (next == 0) next = 2; /* 0 means none */
    g->shared->slot[next % 2].n = n;
    memcpy(g->shared->slot[next % 2].bytes, bytes, n);
    atomic_store(&g->shared->count, next);
    atomic_store(&g->shared->n_askers, n_askers);
}

void wefti_guard_end(wefti_guard *g, bool serve) {
    if (!g) return;
    (void)send(g->line, serve ? "e" : "d", 1, MSG_NOSIGNAL);
    close(g->line);
    munmap(g->shared, sizeof(page));
    free(g);
}

void wefti_guard_forget(const wefti_guard *g) {
    if (g) close(g->line);
}

bool wefti_guard_dismiss(int port) {
    struct sockaddr_un address;
    union {
        struct sockaddr_un *un;
        struct sockaddr *any;
    } a = {.un = &address};
    char end;
    socklen_t size = endpoint_address(port, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pollfd one = {.fd = fd, .events = POLLIN};
    bool there = fd >= 0 && connect(fd, a.any, size) == 0;
    bool gone = there && poll(&one, 1, DISMISS_MS) == 1 && read(fd, &end, 1) <= 0;
    if (fd >= 0) close(fd);
    return gone;
}
