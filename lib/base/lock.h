/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/assert.h"

/* For assertions: whether this thread holds the lock. True where the C library does not say. */
bool wefti_lock_is_mine(const pthread_mutex_t *lock);

/* Whether it does not; true, too, where that is not known. */
bool wefti_lock_is_not_mine(const pthread_mutex_t *lock);

/* What a comment "Lock held." claims, and that this thread may wait for a disk or for others. */
#define WEFTI_ASSERT_HELD(lock) WEFTI_ASSERT(wefti_lock_is_mine(lock))
#define WEFTI_ASSERT_FREE(lock) WEFTI_ASSERT(wefti_lock_is_not_mine(lock))
