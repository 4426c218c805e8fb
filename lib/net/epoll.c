/* SPDX-License-Identifier: MIT */
/* Sockets that have changed, by epoll (readiness.h). Its events equal those of poll. The number in
 * the eventfd is never read: each addition is an edge. */
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net/readiness.h"

bool wefti_readiness_init(wefti_readiness *r) {
    r->set = epoll_create1(EPOLL_CLOEXEC);
    r->wakeup = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return r->set >= 0 && r->wakeup >= 0 &&
           wefti_readiness_watch(r, WEFTI_WATCH_NEW, r->wakeup, POLLIN, NULL);
}

void wefti_readiness_fini(wefti_readiness *r) {
    if (r->set >= 0) close(r->set);
    if (r->wakeup >= 0) close(r->wakeup);
    r->set = r->wakeup = -1;
}

/* Nothing is removed from the set. */
void wefti_readiness_forget(wefti_readiness *r) { wefti_readiness_fini(r); }

bool wefti_readiness_watch(const wefti_readiness *r, wefti_watch how, int fd,
                           unsigned events, void *what) {
    struct epoll_event event = {.events = events | EPOLLET, .data.ptr = what};
    if (events & POLLOUT) event.events |= EPOLLRDHUP;
    int op = how == WEFTI_WATCH_NEW ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    return epoll_ctl(r->set, op, fd, &event) == 0;
}

int wefti_readiness_wait(const wefti_readiness *r, int most_ms,
                         wefti_ready out[WEFTI_READY_MOST]) {
    struct epoll_event events[WEFTI_READY_MOST];
    int n = epoll_wait(r->set, events, WEFTI_READY_MOST, most_ms);
    for (int i = 0; i < n; i++)
        out[i] = (wefti_ready){events[i].data.ptr, events[i].events};
    return n;
}

void wefti_readiness_wake(const wefti_readiness *r) {
    const uint64_t one = 1;
    ssize_t n = write(r->wakeup, &one, sizeof one);
    (void)n;
}
