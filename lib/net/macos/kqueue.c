/* SPDX-License-Identifier: MIT */
/* Sockets that have changed, by kqueue (readiness.h). Reading and writing are two filters, so a
 * socket may come twice. The system removes a socket that is closed, and a child has no kqueue of
 * its parent's. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/event.h>
#include <time.h>
#include <unistd.h>

#include "net/readiness.h"

static bool change(const wefti_readiness *r, struct kevent *event) {
    return kevent(r->set, event, 1, NULL, 0, NULL) == 0;
}

bool wefti_readiness_init(wefti_readiness *r) {
    struct kevent wakeup;
    EV_SET(&wakeup, 0, EVFILT_USER, EV_ADD | EV_CLEAR, 0, 0, NULL);
    *r = (wefti_readiness){kqueue(), -1};
    return r->set >= 0 && fcntl(r->set, F_SETFD, FD_CLOEXEC) == 0 && change(r, &wakeup);
}

void wefti_readiness_fini(wefti_readiness *r) {
    if (r->set >= 0) close(r->set);
    r->set = -1;
}

/* The number may be another file's in the child. */
void wefti_readiness_forget(wefti_readiness *r) { r->set = -1; }

/* Not every system reports anew what is added a second time, so it is taken out before. */
bool wefti_readiness_watch(const wefti_readiness *r, wefti_watch how, int fd,
                           unsigned events, void *what) {
    static const int16_t filters[2] = {EVFILT_READ, EVFILT_WRITE};
    bool fine = true;
    for (int i = 0; i < (events & POLLOUT ? 2 : 1) && fine; i++) {
        struct kevent event;
        EV_SET(&event, (uintptr_t)fd, filters[i], EV_DELETE, 0, 0, NULL);
        if (how == WEFTI_WATCH_AGAIN) (void)change(r, &event);
        EV_SET(&event, (uintptr_t)fd, filters[i], EV_ADD | EV_CLEAR, 0, 0, what);
        fine = change(r, &event);
    }
    return fine;
}

static unsigned events_of(const struct kevent *event) {
    bool over = event->flags & EV_EOF;
    if (event->filter == EVFILT_READ) return over ? POLLIN | POLLRDHUP : POLLIN;
    if (event->filter == EVFILT_WRITE) return over ? POLLOUT | POLLHUP : POLLOUT;
    return 0;
}

int wefti_readiness_wait(const wefti_readiness *r, int most_ms,
                         wefti_ready out[WEFTI_READY_MOST]) {
    struct kevent events[WEFTI_READY_MOST];
    struct timespec most = {.tv_sec = most_ms / 1000,
                            .tv_nsec = most_ms % 1000 * 1000000L};
    int n = kevent(r->set, NULL, 0, events, WEFTI_READY_MOST, &most);
    for (int i = 0; i < n; i++)
        out[i] = (wefti_ready){events[i].udata, events_of(&events[i])};
    return n;
}

void wefti_readiness_wake(const wefti_readiness *r) {
    struct kevent wakeup;
    EV_SET(&wakeup, 0, EVFILT_USER, 0, NOTE_TRIGGER, 0, NULL);
    (void)change(r, &wakeup);
}
