/* SPDX-License-Identifier: MIT */
/* Who holds a lock, for assertions: glibc keeps the owner's thread in the lock itself. */
#define _GNU_SOURCE
#include "base/lock.h"

#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define UNKNOWN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNKNOWN 1
#endif
#endif

#if defined(__GLIBC__) && !defined(UNKNOWN)
bool wefti_lock_is_mine(const pthread_mutex_t *lock) {
    return lock->__data.__owner == gettid();
}
bool wefti_lock_is_not_mine(const pthread_mutex_t *lock) {
    return !wefti_lock_is_mine(lock);
}
#else
bool wefti_lock_is_mine(const pthread_mutex_t *lock) {
    (void)lock;
    return true;
}
bool wefti_lock_is_not_mine(const pthread_mutex_t *lock) {
    (void)lock;
    return true;
}
#endif
