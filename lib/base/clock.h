/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>

/* Seconds of the monotonic clock. */
double wefti_now_s(void);

/* Sleeps until the monotonic clock reads `when_s`; returns at once if it is past. */
void wefti_sleep_until_s(double when_s);

/* Sleeps of this thread end as close to their time as the system can. */
void wefti_sleep_finely(void);

/* Seconds since 1970 by the wall clock. */
double wefti_unix_now_s(void);

/* Seconds of this day, in local time. */
double wefti_day_now_s(void);

/* Initializes a condition whose timed waits use the monotonic clock. Returns 0, or the
 * error of pthread_cond_init. */
int wefti_cond_init(pthread_cond_t *condition);

/* Waits for the condition, at most until the monotonic clock reads `when_s` (INFINITY: without
 * limit); 0, or ETIMEDOUT. */
int wefti_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, double when_s);
