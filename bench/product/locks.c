/* SPDX-License-Identifier: MIT */
/* Threads, mutexes and conditions of the library as those of fibers.c. The first bytes of a mutex
 * say which fiber has it; a condition has no state: those that wait for it know its address. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "world.h"

#define WRAP(type, name, parameters)                                                     \
    type __real_##name parameters;                                                       \
    type __wrap_##name parameters;                                                       \
    type __wrap_##name parameters

/* `owner` is where the C library has it, so that the library's own question who holds a mutex
 * (base/lock.c) gets its answer. */
typedef struct lock {
    int unused, depth, owner;
    bool recursive;
} lock;
_Static_assert(sizeof(lock) <= sizeof(pthread_mutex_t), "a lock fits into a mutex");

static lock *lock_of(pthread_mutex_t *m) {
    union {
        pthread_mutex_t *mutex;
        lock *lock;
    } same = {.mutex = m};
    return same.lock;
}

WRAP(int, pthread_mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t *how)) {
    int kind = PTHREAD_MUTEX_NORMAL;
    if (!w.current) return __real_pthread_mutex_init(m, how);
    if (how) pthread_mutexattr_gettype(how, &kind);
    *lock_of(m) = (lock){.recursive = kind == PTHREAD_MUTEX_RECURSIVE};
    return 0;
}

WRAP(int, pthread_mutex_destroy, (pthread_mutex_t * m)) {
    if (!w.current) return __real_pthread_mutex_destroy(m);
    if (lock_of(m)->owner) fail_world("a mutex is destroyed while a thread has it");
    return 0;
}

static void take(lock *l) {
    while (l->owner) (void)fiber_wait(l, NEVER);
    l->owner = w.current->id;
    l->depth = 1;
}

WRAP(int, pthread_mutex_lock, (pthread_mutex_t * m)) {
    lock *l = lock_of(m);
    if (!w.current) return __real_pthread_mutex_lock(m);
    point();
    if (l->owner == w.current->id && l->recursive) {
        l->depth++;
        return 0;
    }
    if (l->owner == w.current->id) fail_world("a thread waits for a mutex that it has");
    take(l);
    return 0;
}

static void let_go(lock *l) {
    l->owner = 0;
    fiber_wake(l, true);
}

WRAP(int, pthread_mutex_unlock, (pthread_mutex_t * m)) {
    lock *l = lock_of(m);
    if (!w.current) return __real_pthread_mutex_unlock(m);
    if (l->owner != w.current->id)
        fail_world("a thread gives back a mutex that it does not have");
    if (--l->depth == 0) let_go(l);
    point();
    return 0;
}

WRAP(int, pthread_cond_init, (pthread_cond_t * c, const pthread_condattr_t *how)) {
    return w.current ? 0 : __real_pthread_cond_init(c, how);
}

WRAP(int, pthread_cond_destroy, (pthread_cond_t * c)) {
    return w.current ? 0 : __real_pthread_cond_destroy(c);
}

static int wait_until(pthread_cond_t *c, pthread_mutex_t *m, int64_t until_ns) {
    lock *l = lock_of(m);
    if (l->owner != w.current->id || l->depth != 1)
        fail_world("a thread waits for a condition without its mutex");
    let_go(l);
    bool woken = fiber_wait(c, until_ns);
    take(l);
    return woken ? 0 : ETIMEDOUT;
}

WRAP(int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m)) {
    return w.current ? wait_until(c, m, NEVER) : __real_pthread_cond_wait(c, m);
}

WRAP(int, pthread_cond_timedwait,
     (pthread_cond_t * c, pthread_mutex_t *m, const struct timespec *t)) {
    if (!w.current) return __real_pthread_cond_timedwait(c, m, t);
    int64_t ns = t->tv_sec > 1000000000
                     ? NEVER
                     : ((int64_t)t->tv_sec - 1000) * SECOND + t->tv_nsec;
    return wait_until(c, m, ns);
}

WRAP(int, pthread_cond_signal, (pthread_cond_t * c)) {
    if (!w.current) return __real_pthread_cond_signal(c);
    fiber_wake(c, false);
    point();
    return 0;
}

WRAP(int, pthread_cond_broadcast, (pthread_cond_t * c)) {
    if (!w.current) return __real_pthread_cond_broadcast(c);
    fiber_wake(c, true);
    point();
    return 0;
}

WRAP(int, pthread_create,
     (pthread_t * out, const pthread_attr_t *how, void *(*run)(void *), void *argument)) {
    if (!w.current) return __real_pthread_create(out, how, run, argument);
    fiber *f = fiber_new(w.current->owner, run, argument);
    *out = (pthread_t)f;
    point();
    return 0;
}

WRAP(pthread_t, pthread_self, (void)) {
    return w.current ? (pthread_t)w.current : __real_pthread_self();
}

WRAP(int, pthread_join, (pthread_t thread, void **result)) {
    if (!w.current) return __real_pthread_join(thread, result);
    const fiber *f = (const fiber *)thread;
    while (f->state != DONE) (void)fiber_wait(f, NEVER);
    if (result) *result = f->result;
    return 0;
}
