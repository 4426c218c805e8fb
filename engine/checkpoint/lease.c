/* SPDX-License-Identifier: MIT */
/* One writer per run folder.
 *
 *     lease: host, pid, boot of the machine, run, view, token, beat        locked by its owner
 *
 *     lock refused                              another process writes: refused
 *     locked, the owner's boot is ours          the owner is gone: the kernel never grants the
 *                                               lock of a live process to another
 *     no locks here, the owner's boot is ours   checks whether its process exists
 *     else (another machine)                    gone if five beats are missing
 *
 * A process that takes over a lease renames its own, locked file over the old one. So an
 * owner that was only suspended writes its next beat into a file without a name, and
 * finds another token under the name before it writes anything else. A view of the same
 * run replaces an earlier one without waiting, since the members have agreed on it. */
#define _GNU_SOURCE
#include "checkpoint/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/machine.h"
#include "base/text.h"

enum {
    TEXT_BYTES = 512,
    PATIENCE_BEATS = 5,
    TRIES = 64,
    BUSY_TRIES = 6,
    GONE_TRIES = 50
};

/* The data of a lease about its owner. */
typedef struct owner {
    char host[64], boot[40], since[32];
    long long pid, started, space; /* process number, start time, PID namespace */
    unsigned long long run, token;
    long long view, beat;
    double beat_s;
} owner;

struct wefti_lease {
    char path[PATH_MAX];
    weft_ctx *ctx; /* borrowed; used to free this struct */
    owner mine;
    int fd;
    atomic_bool lost;
    atomic_llong seen_us; /* when the file was seen to be this lease's, by awake_us */
    bool beating, ended;  /* ended: guarded by the lock */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

/* ---- the text of a lease ---- */

static const char form[] =
    "weft-lease 1\nhost %s\npid %lld %lld %lld\nboot %s\nsince %s\n"
    "run %llx\nview %lld\ntoken %llx\nevery %s\nbeat %lld\n";

/* Writes the text of a lease. Its length is constant, so that a beat is one write that
 * changes a few bytes. */
static void write_text(const owner *o, char *text) {
    char every[32];
    snprintf(every, sizeof every, "%.3f", o->beat_s);
    wefti_with_point(every);
    int n = snprintf(text, TEXT_BYTES, form, o->host, o->pid, o->started, o->space,
                     o->boot, o->since, o->run, o->view, o->token, every, o->beat);
    memset(text + n, ' ', (size_t)(TEXT_BYTES - 1 - n));
    text[TEXT_BYTES - 1] = '\n';
}

static bool parse_text(const char *text, owner *out) {
    char every[32] = "", *end;
    *out = (owner){.pid = -1};
    int n = sscanf(text,
                   "weft-lease 1 host %63s pid %lld %lld %lld boot %39s since %31s run "
                   "%llx view %lld token %llx every %31s beat %lld",
                   out->host, &out->pid, &out->started, &out->space, out->boot,
                   out->since, &out->run, &out->view, &out->token, every, &out->beat);
    out->beat_s = wefti_strtod(every, &end);
    return n == 11 && end != every && *end == '\0' && out->beat_s >= 0 &&
           out->beat_s <= 60;
}

/* [out] text: TEXT_BYTES + 1, filled up with zeros. */
static bool read_text(int fd, char *text) {
    ssize_t n = pread(fd, text, TEXT_BYTES, 0);
    size_t got = n > 0 ? (size_t)n : 0;
    memset(text + got, 0, TEXT_BYTES + 1 - got);
    return n >= 0;
}

/* Reads the file that has the name now. It is opened again, because a network file system
 * shows the changes of other machines only after an open. False: there is no file. */
static bool read_path(const char *path, char *text) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    memset(text, 0, TEXT_BYTES + 1);
    if (fd < 0) return errno != ENOENT;
    read_text(fd, text);
    close(fd);
    return true;
}

/* ---- identity of processes ---- */

/* Start time of a process in the kernel's clock ticks, -1 if there is no such process:
 * the 22nd field of its stat file, the 20th after the name in brackets, which may contain
 * any character. */
static long long start_of(long long pid) {
    char path[64], text[1024];
    long long start = -1;
    snprintf(path, sizeof path, "/proc/%lld/stat", pid);
    if (!wefti_first_line(NULL, path, text, sizeof text)) return -1;
    char *at = strrchr(text, ')');
    for (int field = 0; at && field < 20; field++) at = strchr(at + 1, ' ');
    return at && sscanf(at, "%lld", &start) == 1 ? start : -1;
}

static void name_host(char *out, size_t size) {
    if (gethostname(out, size) != 0) out[0] = '\0';
    out[size - 1] = '\0';
    for (char *p = out; *p; p++)
        if (*p <= ' ' || *p > '~') *p = '?';
    if (!out[0]) strcpy(out, "?");
}

static weft_status describe_self(weft_ctx *ctx, const wefti_lease_claim *claim,
                                 owner *out) {
    struct stat space;
    time_t now = time(NULL);
    struct tm utc;
    unsigned long long drawn[2] = {0};
    *out = (owner){.pid = getpid(), .run = claim->run, .view = claim->view};
    if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
        return wefti_fail_errno(ctx, "draw a number for", claim->folder);
    out->token = drawn[0];
    if (!out->run) out->run = drawn[1] | 1;
    out->beat_s = claim->beat_s > 0 ? claim->beat_s : 2;
    out->started = start_of(out->pid);
    if (stat("/proc/self/ns/pid", &space) == 0) out->space = (long long)space.st_ino;
    name_host(out->host, sizeof out->host);
    if (!wefti_first_line(NULL, "/proc/sys/kernel/random/boot_id", out->boot,
                          sizeof out->boot))
        snprintf(out->boot, sizeof out->boot, "unknown-%llx", drawn[0]);
    strftime(out->since, sizeof out->since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    return WEFT_OK;
}

/* ---- locks and files ---- */

typedef enum hold { HELD_BY_OTHER, LOCKED, NO_LOCKS } hold;

/* Takes a lock of the open file, not of the process, so that a second run in this process
 * is refused too. */
static hold lock_file(int fd) {
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    while (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
        if (errno == EAGAIN || errno == EACCES) return HELD_BY_OTHER;
        if (errno != EINTR) return NO_LOCKS;
    }
    return LOCKED;
}

/* Whether the open file is the one that has the name. */
static bool is_named(int fd, const char *path) {
    struct stat open_one, named;
    int again = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (again < 0) return false;
    bool same = fstat(fd, &open_one) == 0 && fstat(again, &named) == 0 &&
                open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
    close(again);
    return same;
}

static weft_status put_text(weft_ctx *ctx, const wefti_lease *l, int fd,
                            const char *path) {
    char text[TEXT_BYTES];
    write_text(&l->mine, text);
    WEFT_TRY(wefti_file_pwrite(ctx, fd, path, text, TEXT_BYTES, 0));
    if (fsync(fd) == 0) return WEFT_OK;
    return wefti_fail_errno(ctx, "sync", path);
}

/* ---- taking ---- */

typedef enum verdict { MINE, AGAIN, BUSY, TAKEN } verdict;

/* Creates the first lease of a folder. */
static weft_status create_first(weft_ctx *ctx, wefti_lease *l, verdict *v) {
    int fd = open(l->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    *v = AGAIN;
    if (fd < 0)
        return errno == EEXIST ? WEFT_OK : wefti_fail_errno(ctx, "create", l->path);
    weft_status status = WEFT_OK;
    if (lock_file(fd) != HELD_BY_OTHER) {
        status = put_text(ctx, l, fd, l->path);
        if (status == WEFT_OK) status = wefti_file_sync_parent(ctx, l->path);
        if (status != WEFT_OK) unlink(l->path);
        if (status == WEFT_OK && is_named(fd, l->path)) *v = MINE;
    }
    l->fd = *v == MINE ? fd : -1;
    if (*v != MINE) close(fd);
    return status;
}

/* Replaces the lease of an owner that is gone by a locked file of this process. */
static weft_status replace(weft_ctx *ctx, wefti_lease *l, verdict *v) {
    char aside[PATH_MAX + 32], text[TEXT_BYTES + 1];
    owner now;
    snprintf(aside, sizeof aside, "%s.tmp%llx", l->path, l->mine.token);
    int fd = open(aside, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) return wefti_fail_errno(ctx, "create", aside);
    bool locks = lock_file(fd) == LOCKED;
    weft_status status = put_text(ctx, l, fd, aside);
    if (status == WEFT_OK && rename(aside, l->path) != 0)
        status = wefti_fail_errno(ctx, "replace", l->path);
    if (status != WEFT_OK) {
        unlink(aside);
        close(fd);
        return status;
    }
    status = wefti_file_sync_parent(ctx, l->path);
    if (!locks)
        wefti_sleep_until_s(wefti_now_s() + l->mine.beat_s); /* if several replace it, the
                                                                last one wins */
    *v = MINE;
    if (!locks && (!read_path(l->path, text) || !parse_text(text, &now) ||
                   now.token != l->mine.token))
        *v = AGAIN;
    if (*v == MINE && status == WEFT_OK)
        l->fd = fd;
    else
        close(fd);
    return status;
}

/* Whether an owner on another machine shows no sign of life. */
static bool is_silent(weft_ctx *ctx, const wefti_lease *l, const owner *other,
                      const char *text) {
    double beat_s = other->beat_s >= 0.01 ? other->beat_s : l->mine.beat_s;
    if (other->pid >= 0)
        weft_ctx_log(
            ctx, WEFT_LOG_INFO,
            "process %lld on %s may still write here: waiting %.3g s for a sign of it",
            other->pid, other->host, beat_s * PATIENCE_BEATS);
    double end_s = wefti_now_s() + beat_s * PATIENCE_BEATS;
    while (wefti_now_s() < end_s) {
        char now[TEXT_BYTES + 1];
        wefti_sleep_until_s(wefti_now_s() + beat_s / 2);
        if (read_path(l->path, now) && memcmp(now, text, sizeof now) != 0) return false;
    }
    return true;
}

static bool is_gone(weft_ctx *ctx, const wefti_lease *l, hold held, const owner *other,
                    const char *text) {
    if (held == LOCKED && text[0] == '\0')
        return true; /* the owner was killed before it
                                                           wrote */
    bool here = wefti_is(other->boot, l->mine.boot);
    if (here && held == LOCKED) return true;
    if (here && other->space == l->mine.space && l->mine.started >= 0) {
        long long start = start_of(other->pid);
        return start < 0 || start != other->started;
    }
    return is_silent(ctx, l, other, text);
}

static bool outranks(const owner *mine, const owner *other) {
    return mine->run == other->run && mine->view > other->view;
}

/* Examines the file under the name once. */
static weft_status try_once(weft_ctx *ctx, wefti_lease *l, owner *other, verdict *v) {
    char text[TEXT_BYTES + 1];
    int fd = open(l->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return create_first(ctx, l, v);
    if (fd < 0) return wefti_fail_errno(ctx, "open", l->path);
    hold held = lock_file(fd);
    if (!read_text(fd, text)) {
        close(fd);
        return wefti_fail_errno(ctx, "read", l->path);
    }
    bool known = parse_text(text, other);
    *v = held == HELD_BY_OTHER ? BUSY : TAKEN;
    weft_status status = WEFT_OK;
    if (!is_named(fd, l->path))
        *v = AGAIN;
    else if ((known && outranks(&l->mine, other)) ||
             (held != HELD_BY_OTHER && is_gone(ctx, l, held, other, text)))
        status = replace(ctx, l, v);
    close(fd);
    if (status == WEFT_OK && *v == MINE && known)
        weft_ctx_log(ctx, WEFT_LOG_INFO,
                     "process %lld on %s, which wrote here since %s, is gone: its lease "
                     "was taken over",
                     other->pid, other->host, other->since);
    return status;
}

static weft_status refuse(weft_ctx *ctx, const wefti_lease *l, const owner *other) {
    if (other->pid < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "another process is starting a run in the same folder (%s)",
                             l->path);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "process %lld on %s writes here since %s (%s); wait for its end "
                         "or name another run.folder",
                         other->pid, other->host, other->since, l->path);
}

static weft_status acquire(weft_ctx *ctx, wefti_lease *l) {
    owner other = {.pid = -1};
    int busy = 0;
    for (int i = 0; i < TRIES; i++) {
        verdict v = TAKEN;
        WEFT_TRY(try_once(ctx, l, &other, &v));
        if (v == MINE) return WEFT_OK;
        if (v == TAKEN || (v == BUSY && ++busy >= BUSY_TRIES)) break;
        wefti_sleep_until_s(wefti_now_s() + 0.05); /* another process may just be giving
                                                      back or creating it */
    }
    return refuse(ctx, l, &other);
}

/* ---- signs of life ---- */

/* A clock that runs while the machine sleeps. */
static long long awake_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (long long)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

bool wefti_lease_is_held(const wefti_lease *l) {
    char text[TEXT_BYTES + 1];
    owner now;
    if (!l) return true;
    for (int i = 0; !read_path(l->path, text); i++) { /* remove_own may have it */
        if (i == GONE_TRIES) return false;
        wefti_sleep_until_s(wefti_now_s() + 0.01);
    }
    return !parse_text(text, &now) || now.token == l->mine.token;
}

static void *beat_on(void *user) {
    wefti_lease *l = user;
    char text[TEXT_BYTES];
    pthread_mutex_lock(&l->lock);
    while (!l->ended) {
        double until_s = wefti_now_s() + l->mine.beat_s;
        if (wefti_cond_wait(&l->wake, &l->lock, until_s) != ETIMEDOUT) continue;
        long long begun_us = awake_us();
        if (!wefti_lease_is_held(l)) {
            atomic_store(&l->lost, true);
            break;
        }
        atomic_store(&l->seen_us, begun_us);
        l->mine.beat++;
        write_text(&l->mine, text);
        (void)!pwrite(l->fd, text, TEXT_BYTES, 0); /* a full disk is reported elsewhere */
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static weft_status start_beating(weft_ctx *ctx, wefti_lease *l) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &before); /* signals are delivered to the caller's threads */
    int error = pthread_create(&l->thread, NULL, beat_on, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    l->beating = error == 0;
    if (error == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "could not start the thread of %s: %s",
                         l->path, strerror(error));
}

weft_status wefti_lease_take(weft_ctx *ctx, const wefti_lease_claim *claim,
                             wefti_lease **out) {
    wefti_lease *l;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *l, "a lease", &l));
    l->ctx = ctx;
    l->fd = -1;
    atomic_init(&l->lost, false);
    atomic_init(&l->seen_us, awake_us());
    pthread_mutex_init(&l->lock, NULL);
    wefti_cond_init(&l->wake);
    weft_status status = wefti_file_path(ctx, claim->folder, "lease", l->path);
    if (status == WEFT_OK) status = describe_self(ctx, claim, &l->mine);
    if (status == WEFT_OK) status = acquire(ctx, l);
    if (status == WEFT_OK) status = start_beating(ctx, l);
    if (status == WEFT_OK)
        *out = l;
    else
        wefti_lease_give_back(l);
    return status;
}

weft_status wefti_lease_check(weft_ctx *ctx, const wefti_lease *lease, bool look) {
    char text[TEXT_BYTES + 1];
    owner now;
    if (!lease) return WEFT_OK;
    double unseen_s = 1e-6 * (double)(awake_us() - atomic_load(&lease->seen_us));
    look = look || unseen_s > 2 * lease->mine.beat_s;
    if (!atomic_load(&lease->lost) && (!look || wefti_lease_is_held(lease)))
        return WEFT_OK;
    if (!read_path(lease->path, text) || !parse_text(text, &now))
        return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                             "%s was removed: another run may write there, so this one "
                             "does not go on",
                             lease->path);
    return weft_ctx_fail(ctx, WEFT_ERR_FILE,
                         "process %lld on %s took %s over at %s, while this process was "
                         "silent; this one writes nothing more",
                         now.pid, now.host, lease->path, now.since);
}

weft_status wefti_lease_renew(weft_ctx *ctx, wefti_lease *lease, int64_t view) {
    char text[TEXT_BYTES];
    WEFT_TRY(wefti_lease_check(ctx, lease, true));
    if (!lease) return WEFT_OK;
    pthread_mutex_lock(&lease->lock);
    lease->mine.view = view;
    write_text(&lease->mine, text);
    (void)!pwrite(lease->fd, text, TEXT_BYTES, 0);
    pthread_mutex_unlock(&lease->lock);
    return WEFT_OK;
}

uint64_t wefti_lease_run(const wefti_lease *lease) { return lease->mine.run; }

/* Another process may take the name over between a look and the removal. So the file is first
 * renamed to a name that no other process uses, and put back if another process owns it. */
static void remove_own(const wefti_lease *l) {
    char gone[PATH_MAX + 32];
    snprintf(gone, sizeof gone, "%s.%llx", l->path, l->mine.token);
    if (!is_named(l->fd, l->path) || rename(l->path, gone) != 0) return;
    if (is_named(l->fd, gone) || link(gone, l->path) == 0 || errno == EEXIST)
        unlink(gone);
    else
        (void)!rename(gone, l->path);
}

void wefti_lease_give_back(wefti_lease *lease) {
    if (!lease) return;
    pthread_mutex_lock(&lease->lock);
    lease->ended = true;
    pthread_cond_signal(&lease->wake);
    pthread_mutex_unlock(&lease->lock);
    if (lease->beating) pthread_join(lease->thread, NULL);
    if (lease->fd >= 0) remove_own(lease);
    if (lease->fd >= 0) close(lease->fd);
    pthread_cond_destroy(&lease->wake);
    pthread_mutex_destroy(&lease->lock);
    wefti_free(lease->ctx, lease);
}
