/* SPDX-License-Identifier: MIT */
/* One writer per run folder: living owners are refused, dead ones are replaced without help,
 * sleepers find out before they write. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "check.h"
#include "checkpoint/lease.h"

static bool no_locks;        /* as on a file system that has none */
static int n_locks;          /* that were asked for */
static wefti_lease *leaving; /* given back when another one is refused its lock twice */
static time_t slept_s;       /* what the clock that counts sleep is ahead */

/* In the place of the C library's: what the library under test calls. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    if (clock == CLOCK_BOOTTIME) now->tv_sec += slept_s;
    return result;
}

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (command == F_OFD_SETLK && ++n_locks == 3 && leaving) {
        wefti_lease_give_back(leaving);
        leaving = NULL;
    }
    if (no_locks && command == F_OFD_SETLK) {
        errno = ENOLCK;
        return -1;
    }
    return (int)syscall(SYS_fcntl, fd, command, argument);
}

static void (*while_it_sleeps)(
    void); /* what others do meanwhile, however busy the machine */

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                    struct timespec *left) {
    int result = (int)syscall(SYS_clock_nanosleep, clock, flags, until, left);
    if (while_it_sleeps) while_it_sleeps();
    return result == 0 ? 0 : errno;
}

static const char *overtaking; /* a file that is renamed over `from` in the last moment */

int rename(const char *from, const char *to) {
    if (overtaking) (void)syscall(SYS_renameat, AT_FDCWD, overtaking, AT_FDCWD, from);
    overtaking = NULL;
    return (int)syscall(SYS_renameat, AT_FDCWD, from, AT_FDCWD, to);
}

static weft_ctx *ctx;
static char heard[4096]; /* what was logged */

static void hear(void *user, weft_log_level level, const char *line) {
    (void)user, (void)level;
    strncat(heard, line, sizeof heard - strlen(heard) - 1);
}

static int setup(void **state) {
    int status = room_begin(&ctx);
    heard[0] = '\0';
    no_locks = false;
    slept_s = 0;
    while_it_sleeps = NULL;
    weft_ctx_set_sink(ctx, hear, NULL);
    return status;
}

static int teardown(void **state) { return ctx_end(ctx); }

static const wefti_lease_claim quick = {.folder = "room", .beat_s = 0.05};

static wefti_lease *take(const wefti_lease_claim *claim) {
    wefti_lease *l;
    assert_ok(ctx, wefti_lease_take(ctx, claim, &l));
    assert_non_null(l);
    return l;
}

static void assert_refused(const wefti_lease_claim *claim, const char *words) {
    wefti_lease *l;
    assert_fails(ctx, wefti_lease_take(ctx, claim, &l), WEFT_ERR_CONFIG, words);
    assert_null(l);
}

/* A process that holds the lease until it is killed. */
static pid_t start_owner(const wefti_lease_claim *claim) {
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        wefti_lease *l;
        weft_ctx *own;
        if (weft_ctx_create(&own) != WEFT_OK ||
            wefti_lease_take(own, claim, &l) != WEFT_OK || write(ends[1], "x", 1) != 1)
            _exit(1);
        for (;;) pause();
    }
    close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    return child;
}

static void end_owner(pid_t owner, int how) {
    int status;
    assert_int_equal(kill(owner, how), 0);
    assert_int_equal(waitpid(owner, &status, 0), owner);
    assert_true(WIFSIGNALED(status));
}

/* Puts another word behind a key of the lease, as another machine would have written it. */
static void change(const char *key, const char *word) {
    char *text, after[1024], place[32];
    int64_t n;
    assert_ok(ctx, wefti_file_read(ctx, "room/lease", 4096, &text, &n));
    snprintf(place, sizeof place, "\n%s ", key);
    char *at = strstr(text, place);
    assert_non_null(at);
    at += strlen(place);
    snprintf(after, sizeof after, "%.*s%s%s", (int)(at - text), text, word,
             at + strcspn(at, strchr(word, ' ') ? "\n" : " \n"));
    wefti_free(ctx, text);
    put_text("room/lease", after);
}

/* Leaves the lease of a process that was killed. */
static void leave_lease_of_dead(void) {
    end_owner(start_owner(&quick), SIGKILL);
    assert_int_equal(access("room/lease", F_OK), 0);
}

TEST_IN(setup, teardown, a_second_owner_is_refused_by_name) {
    char words[64];
    wefti_lease *l = take(&quick);
    snprintf(words, sizeof words, "process %d on ", (int)getpid());
    assert_refused(&quick, words); /* in the same process */
    assert_ok(ctx, wefti_lease_check(ctx, l, true));
    wefti_lease_give_back(l);
    assert_int_not_equal(access("room/lease", F_OK), 0);
    pid_t other = start_owner(&quick);
    snprintf(words, sizeof words, "process %d on ", (int)other);
    assert_refused(&quick, words);
    assert_int_equal(kill(other, SIGSTOP), 0); /* asleep is not gone */
    assert_refused(&quick, words);
    end_owner(other, SIGKILL);
    wefti_lease_give_back(take(&quick));
}

TEST_IN(setup, teardown, a_killed_owner_is_replaced_at_once) {
    const wefti_lease_claim slow = {.folder = "room", .beat_s = 30};
    for (int trial = 0; trial < 5; trial++) {
        end_owner(start_owner(&slow), SIGKILL);
        double begun_s = wefti_now_s();
        wefti_lease *l = take(&slow);
        assert_true(wefti_now_s() - begun_s < 5); /* did not wait for signs of life */
        assert_non_null(strstr(heard, "is gone"));
        if (trial % 2) wefti_lease_give_back(l);
        if (trial % 2 == 0) {
            assert_refused(&slow, "writes here");
            wefti_lease_give_back(l);
        }
    }
}

/* The lock is free as it is where locks do not reach over machines. */
TEST_IN(setup, teardown, an_owner_elsewhere_is_replaced_when_it_is_silent) {
    leave_lease_of_dead();
    change("boot", "another-machine");
    change("host", "beta");
    double begun_s = wefti_now_s();
    wefti_lease *l = take(&quick);
    assert_true(wefti_now_s() - begun_s >= 5 * 0.05);
    assert_non_null(strstr(heard, "on beta may still write here"));
    wefti_lease_give_back(l);
}

/* A beat as beta would write it, without a lock that can be seen. */
static void beat_elsewhere(void) {
    static int n;
    int fd = open("room/lease", O_WRONLY);
    assert_int_equal(pwrite(fd, n++ % 2 ? "  " : "\n ", 2, 510), 2);
    close(fd);
}

TEST_IN(setup, teardown, an_owner_elsewhere_that_shows_life_is_refused) {
    leave_lease_of_dead();
    change("boot", "another-machine");
    change("host", "beta");
    change("every", "0.200");
    while_it_sleeps = beat_elsewhere;
    n_locks = 0;
    assert_refused(&quick, "on beta writes here since");
    assert_int_equal(n_locks, 1); /* it was watched for five beats: not again */
    while_it_sleeps = NULL;
    wefti_lease_give_back(take(&quick));
}

TEST_IN(setup, teardown, without_locks_processes_are_looked_for) {
    no_locks = true;
    pid_t other = start_owner(&quick);
    assert_refused(&quick, "writes here");
    end_owner(other, SIGKILL);
    wefti_lease_give_back(take(&quick));
    leave_lease_of_dead();
    char number[64];
    struct stat space;
    assert_int_equal(stat("/proc/self/ns/pid", &space), 0);
    snprintf(number, sizeof number, "%d 1 %lld", (int)getppid(),
             (long long)space.st_ino); /* lives, began at another time */
    change("pid", number);
    heard[0] = '\0';
    wefti_lease *l = take(&quick);
    assert_null(strstr(heard, "may still write")); /* known at once */
    assert_refused(&quick, "writes here");
    wefti_lease_give_back(l);
}

/* In another container of this machine numbers are of other processes; locks are the kernel's. */
TEST_IN(setup, teardown, an_owner_in_another_container_is_known_by_its_lock_alone) {
    for (int locks = 0; locks <= 1; locks++) {
        char number[64];
        leave_lease_of_dead();
        snprintf(number, sizeof number, "%d 1 1", (int)getppid());
        change("pid", number);
        no_locks = !locks;
        heard[0] = '\0';
        wefti_lease *l = take(&quick);
        assert_int_equal(strstr(heard, "may still write") != NULL, !locks);
        wefti_lease_give_back(l);
        no_locks = false;
    }
}

/* What cannot be read is nobody else's lease. */
TEST_IN(setup, teardown, a_lease_is_lost_to_another_one_alone) {
    const wefti_lease_claim slow = {.folder = "room", .beat_s = 30};
    wefti_lease *l = take(&slow);
    char *text;
    int64_t n;
    assert_ok(ctx, wefti_file_read(ctx, "room/lease", 4096, &text, &n));
    put_text("room/lease", "no lease at all");
    assert_ok(ctx, wefti_lease_check(ctx, l, true));
    put_text("room/lease", text);
    change("token", "1");
    assert_fails(ctx, wefti_lease_check(ctx, l, true), WEFT_ERR_FILE, "took");
    wefti_free(ctx, text);
    wefti_lease_give_back(l);
}

TEST_IN(setup, teardown, a_later_view_of_the_same_run_replaces_a_living_owner) {
    wefti_lease_claim first = {.folder = "room", .beat_s = 0.05, .run = 77, .view = 3};
    wefti_lease_claim later = first, other = first;
    later.view = 4;
    other.view = 9;
    other.run = 78;
    wefti_lease *old = take(&first);
    assert_int_equal(wefti_lease_run(old), 77);
    assert_refused(&first, "writes here");
    assert_refused(&other, "writes here");
    wefti_lease *new = take(&later);
    assert_fails(ctx, wefti_lease_check(ctx, old, true), WEFT_ERR_FILE,
                 "took room/lease over");
    assert_ok(ctx, wefti_lease_check(ctx, new, true));
    for (int i = 0; i < 400 && wefti_lease_check(ctx, old, false) == WEFT_OK; i++)
        usleep(10000);
    assert_fails(ctx, wefti_lease_check(ctx, old, false), WEFT_ERR_FILE, "took");
    wefti_lease_give_back(old); /* leaves the new one's file alone */
    assert_ok(ctx, wefti_lease_check(ctx, new, true));
    assert_refused(&first, "writes here");
    wefti_lease_give_back(new);
    assert_int_not_equal(access("room/lease", F_OK), 0);
}

/* Who still writes in a later view has agreed on it: another part that calls its own view by the
 * same number takes nothing over. */
TEST_IN(setup, teardown, a_renewed_lease_is_outranked_by_later_views_alone) {
    wefti_lease_claim claim = {.folder = "room", .beat_s = 0.05, .run = 77};
    wefti_lease *old = take(&claim), *none = NULL;
    assert_ok(ctx, wefti_lease_renew(ctx, old, 2));
    claim.view = 2;
    assert_refused(&claim, "writes here");
    claim.view = 3;
    wefti_lease *later = take(&claim);
    assert_fails(ctx, wefti_lease_renew(ctx, old, 4), WEFT_ERR_FILE,
                 "took room/lease over");
    assert_true(wefti_lease_is_held(later) && !wefti_lease_is_held(old));
    assert_ok(ctx, wefti_lease_renew(ctx, none, 1));
    assert_true(wefti_lease_is_held(none));
    wefti_lease_give_back(old);
    wefti_lease_give_back(later);
}

/* The thread that beats may come later than the one that writes. */
TEST_IN(setup, teardown, a_sleeper_looks_before_its_next_beat) {
    const wefti_lease_claim first = {.folder = "room", .beat_s = 30, .run = 77};
    const wefti_lease_claim later = {
        .folder = "room", .beat_s = 30, .run = 77, .view = 2};
    wefti_lease *old = take(&first), *new = take(&later);
    assert_ok(ctx, wefti_lease_check(ctx, old, false)); /* what was seen last */
    slept_s = 59;
    assert_ok(ctx, wefti_lease_check(ctx, old, false));
    slept_s = 61;
    assert_fails(ctx, wefti_lease_check(ctx, old, false), WEFT_ERR_FILE, "took");
    assert_ok(ctx, wefti_lease_check(ctx, new, false));
    wefti_lease_give_back(old);
    wefti_lease_give_back(new);
}

/* An owner that is about to end is waited for. */
TEST_IN(setup, teardown, an_owner_that_leaves_lets_the_next_one_in) {
    leaving = take(&quick);
    n_locks = 0;
    wefti_lease_give_back(take(&quick));
    assert_null(leaving);
}

static void put_back(void) {
    while_it_sleeps = NULL;
    assert_int_equal(rename("room/lease.away", "room/lease"), 0);
}

/* As by an owner that leaves, and finds that the name is another one's by now. */
TEST_IN(setup, teardown, a_lease_that_comes_back_at_once_is_held) {
    const wefti_lease_claim slow = {.folder = "room", .beat_s = 30};
    wefti_lease *l = take(&slow);
    assert_int_equal(rename("room/lease", "room/lease.away"), 0);
    while_it_sleeps = put_back;
    assert_true(wefti_lease_is_held(l));
    assert_null(while_it_sleeps);
    wefti_lease_give_back(l);
    assert_int_equal(access("room/lease", F_OK), -1);
}

TEST_IN(setup, teardown, who_leaves_removes_nobody_elses_lease) {
    wefti_lease *old = take(&quick);
    FILE *f = fopen("room/other", "w");
    assert_non_null(f);
    fclose(f);
    overtaking = "room/other";
    wefti_lease_give_back(old);
    assert_null(overtaking);
    assert_int_equal(access("room/lease", F_OK), 0);
    assert_int_equal(unlink("room/lease"), 0);
}

TEST_IN(setup, teardown, a_removed_lease_is_lost) {
    wefti_lease *l = take(&quick);
    assert_int_equal(unlink("room/lease"), 0);
    assert_fails(ctx, wefti_lease_check(ctx, l, true), WEFT_ERR_FILE, "was removed");
    wefti_lease *next = take(&quick);
    wefti_lease_give_back(l);
    assert_ok(ctx, wefti_lease_check(ctx, next, true));
    wefti_lease_give_back(next);
}

/* Cut or changed anywhere, a lease whose owner is gone ends nobody's start. */
TEST_IN(setup, teardown, a_damaged_lease_is_taken_over) {
    char *text;
    int64_t n;
    leave_lease_of_dead();
    assert_ok(ctx, wefti_file_read(ctx, "room/lease", 4096, &text, &n));
    assert_int_equal(n, 512);
    for (int64_t cut = 0; cut < n; cut += cut < 240 ? 7 : 97) {
        assert_ok(ctx, wefti_file_write(ctx, "room/lease", text, cut));
        wefti_lease_claim claim = quick;
        claim.beat_s = 0.01;
        wefti_lease_give_back(take(&claim));
    }
    wefti_free(ctx, text);
    put_text("room/lease", "no lease at all");
    wefti_lease_give_back(take(&quick));
}

/* Starters at the same instant: one gets it, whatever was there before. Without locks the last
 * one wins who replaces it within a beat, so a beat is longer there than a busy machine holds
 * a process up. */
TEST_IN(setup, teardown, one_of_many_starters_wins) {
    enum { STARTERS = 12 };
    for (int round = 0; round < 8; round++) {
        int ends[2], winners = 0, status;
        pid_t children[STARTERS];
        no_locks = round >= 4;
        wefti_lease_claim claim = quick;
        if (no_locks) claim.beat_s = 1;
        if (round % 2) leave_lease_of_dead();
        assert_int_equal(pipe(ends), 0);
        for (int i = 0; i < STARTERS; i++) {
            children[i] = fork();
            assert_true(children[i] >= 0);
            if (children[i] > 0) continue;
            char byte;
            weft_ctx *own;
            wefti_lease *l;
            close(ends[1]);
            (void)!read(ends[0], &byte, 1); /* all begin when the pipe closes */
            if (weft_ctx_create(&own) != WEFT_OK) _exit(3);
            if (wefti_lease_take(own, &claim, &l) != WEFT_OK) _exit(2);
            usleep(800000);
            _exit(wefti_lease_check(own, l, true) == WEFT_OK ? 1 : 3);
        }
        close(ends[0]);
        close(ends[1]);
        for (int i = 0; i < STARTERS; i++) {
            assert_int_equal(waitpid(children[i], &status, 0), children[i]);
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 3);
            winners += WEXITSTATUS(status) == 1;
        }
        assert_int_equal(winners, 1);
        wefti_lease_give_back(take(&quick)); /* the winner ended without giving it back */
    }
}

TEST_IN(setup, teardown, folders_that_can_not_be_written_are_an_error) {
    wefti_lease *l;
    assert_fails(ctx,
                 wefti_lease_take(ctx, &(wefti_lease_claim){.folder = "room/absent"}, &l),
                 WEFT_ERR_FILE, "room/absent/lease");
    assert_null(l);
    assert_int_equal(symlink("/etc/passwd", "room/lease"), 0);
    assert_fails(ctx, wefti_lease_take(ctx, &quick, &l), WEFT_ERR_FILE, "room/lease");
    assert_int_equal(unlink("room/lease"), 0);
    weft_ctx_fail_allocation(ctx, 0);
    assert_fails(ctx, wefti_lease_take(ctx, &quick, &l), WEFT_ERR_MEMORY, "lease");
    assert_null(l);
    wefti_lease_give_back(NULL);
    assert_ok(ctx, wefti_lease_check(ctx, NULL, true));
}
