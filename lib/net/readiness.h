/* SPDX-License-Identifier: MIT */
#pragma once

#include <poll.h>
#include <stdbool.h>

#ifndef POLLRDHUP
#define POLLRDHUP 0x2000 /* macOS: between these files and connection.c alone */
#endif

/* The sockets for which one thread sleeps, edge-triggered: one is reported after it has changed,
 * not while it stays as it is. Over epoll (epoll.c), on macOS over kqueue (macos/kqueue.c). */
typedef struct wefti_readiness {
    int set, wakeup; /* -1: none */
} wefti_readiness;

/* A socket that has changed, by the pointer that stands for it; NULL: the thread was woken. Over
 * kqueue one socket may come twice, with one event each. */
typedef struct wefti_ready {
    void *what;
    unsigned events; /* those of poll */
} wefti_ready;

enum { WEFTI_READY_MOST = 64 };

/* `again`: the socket is watched already, and gets another pointer. */
typedef enum wefti_watch { WEFTI_WATCH_NEW, WEFTI_WATCH_AGAIN } wefti_watch;

/* False: errno says why. Ends with fini all the same. */
bool wefti_readiness_init(wefti_readiness *r);
void wefti_readiness_fini(wefti_readiness *r);

/* In a child that fork() made: lets go of it, but the parent still waits. */
void wefti_readiness_forget(wefti_readiness *r);

/* Watches a socket, until it is closed, for POLLIN, or for that and POLLOUT. What is ready already
 * is reported, too. */
bool wefti_readiness_watch(const wefti_readiness *r, wefti_watch how, int fd,
                           unsigned events, void *what);

/* Sleeps until something has changed, most_ms at most; returns how many there are. */
int wefti_readiness_wait(const wefti_readiness *r, int most_ms,
                         wefti_ready out[WEFTI_READY_MOST]);

/* Ends the sleep, or the next one; may be called by any thread. */
void wefti_readiness_wake(const wefti_readiness *r);
