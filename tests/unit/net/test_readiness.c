/* SPDX-License-Identifier: MIT */
/* What the sleeping thread is told of its sockets: the same over epoll and over kqueue
 * (cmake -DWEFT_KQUEUE=ON tests the latter on Linux, where libkqueue is). */
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "check.h"
#include "net/readiness.h"

enum { SOON_MS = 20000 };

typedef struct pair {
    wefti_readiness r;
    int here, there; /* the ends of a connection */
} pair;

static int begin(void **state) {
    static pair p;
    int ends[2];
    assert_true(wefti_readiness_init(&p.r));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    p.here = ends[0];
    p.there = ends[1];
    *state = &p;
    return 0;
}

static int end(void **state) {
    pair *p = *state;
    if (p->here >= 0) close(p->here);
    if (p->there >= 0) close(p->there);
    wefti_readiness_fini(&p->r);
    return 0;
}

#define CLAIM(name) TEST_IN(begin, end, name)

static void say(const pair *p) { assert_int_equal(write(p->there, "x", 1), 1); }

/* All events that are there now, of which each is of `what`. */
static unsigned heard(const pair *p, int most_ms, const void *what) {
    wefti_ready ready[WEFTI_READY_MOST];
    unsigned events = 0;
    int n = wefti_readiness_wait(&p->r, most_ms, ready);
    for (int i = 0; i < n; i++) {
        assert_ptr_equal(ready[i].what, what);
        events |= ready[i].events;
    }
    return events;
}

CLAIM(a_change_is_reported_once) {
    pair *p = *state;
    int one;
    assert_true(wefti_readiness_watch(&p->r, WEFTI_WATCH_NEW, p->here, POLLIN, &one));
    assert_int_equal(heard(p, 0, &one), 0);
    say(p);
    assert_int_equal(heard(p, SOON_MS, &one), POLLIN);
    assert_int_equal(heard(p, 0, &one), 0); /* unread, but as it was */
    say(p);
    assert_int_equal(heard(p, SOON_MS, &one), POLLIN);
}

CLAIM(what_was_ready_before_is_reported) {
    pair *p = *state;
    int one;
    say(p);
    assert_true(wefti_readiness_watch(&p->r, WEFTI_WATCH_NEW, p->here, POLLIN, &one));
    assert_int_equal(heard(p, SOON_MS, &one), POLLIN);
}

CLAIM(a_socket_that_is_named_anew_is_reported_by_its_new_name) {
    pair *p = *state;
    int one, other;
    say(p);
    assert_true(
        wefti_readiness_watch(&p->r, WEFTI_WATCH_NEW, p->here, POLLIN | POLLOUT, &one));
    assert_int_equal(heard(p, SOON_MS, &one), POLLIN | POLLOUT);
    assert_true(wefti_readiness_watch(&p->r, WEFTI_WATCH_AGAIN, p->here, POLLIN | POLLOUT,
                                      &other));
    assert_int_equal(heard(p, SOON_MS, &other), POLLIN | POLLOUT);
    say(p);
    assert_true(heard(p, SOON_MS, &other) & POLLIN);
}

CLAIM(room_is_reported_when_it_comes_back) {
    pair *p = *state;
    char block[65536] = {0};
    int one;
    assert_true(
        wefti_readiness_watch(&p->r, WEFTI_WATCH_NEW, p->here, POLLIN | POLLOUT, &one));
    assert_int_equal(heard(p, SOON_MS, &one), POLLOUT);
    while (send(p->here, block, sizeof block, MSG_DONTWAIT) > 0) continue;
    (void)heard(p, 0, &one);
    assert_int_equal(heard(p, 0, &one), 0);
    while (recv(p->there, block, sizeof block, MSG_DONTWAIT) > 0) continue;
    assert_true(heard(p, SOON_MS, &one) & POLLOUT);
}

CLAIM(the_end_of_the_other_side_is_reported_as_such) {
    pair *p = *state;
    int one;
    assert_true(
        wefti_readiness_watch(&p->r, WEFTI_WATCH_NEW, p->here, POLLIN | POLLOUT, &one));
    (void)heard(p, SOON_MS, &one);
    close(p->there);
    p->there = -1;
    unsigned events = heard(p, SOON_MS, &one);
    assert_true(events & POLLIN);
    assert_true(events & POLLRDHUP);
}

CLAIM(a_closed_socket_is_forgotten) {
    pair *p = *state;
    int one;
    assert_true(wefti_readiness_watch(&p->r, WEFTI_WATCH_NEW, p->here, POLLIN, &one));
    say(p);
    close(p->here);
    p->here = -1;
    assert_int_equal(heard(p, 0, &one), 0);
}

static void *wake(void *readiness) {
    wefti_readiness_wake(readiness);
    return NULL;
}

CLAIM(any_thread_ends_the_sleep_and_each_time_once) {
    pair *p = *state;
    wefti_ready ready[WEFTI_READY_MOST];
    pthread_t other;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&other, NULL, wake, &p->r), 0);
        assert_int_equal(wefti_readiness_wait(&p->r, SOON_MS, ready), 1);
        assert_null(ready[0].what);
        pthread_join(other, NULL);
        assert_int_equal(wefti_readiness_wait(&p->r, 0, ready), 0);
    }
    wake(&p->r); /* before it sleeps */
    assert_int_equal(wefti_readiness_wait(&p->r, SOON_MS, ready), 1);
}
