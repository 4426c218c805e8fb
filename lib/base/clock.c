/* SPDX-License-Identifier: MIT */
/* The monotonic clock in seconds, and sleeping and waiting until a time of that clock. The
 * wall clock may be changed at any time, so it is used only for times that people read. */
#define _GNU_SOURCE
#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <time.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

static double read_clock(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static struct timespec timespec_of(double when_s) {
    struct timespec t = {.tv_sec = (time_t)when_s};
    t.tv_nsec = (long)((when_s - (double)t.tv_sec) * 1e9);
    return t;
}

/* On macOS it goes on while the machine is suspended. */
double wefti_now_s(void) { return read_clock(CLOCK_MONOTONIC); }

double wefti_unix_now_s(void) { return read_clock(CLOCK_REALTIME); }

double wefti_day_now_s(void) {
    time_t now = (time_t)wefti_unix_now_s();
    struct tm local = {0};
    (void)localtime_r(&now, &local);
    return 3600 * local.tm_hour + 60 * local.tm_min + local.tm_sec;
}

#ifndef __APPLE__
void wefti_sleep_until_s(double when_s) {
    struct timespec t = timespec_of(when_s);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}

void wefti_sleep_finely(void) { prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); }

int wefti_cond_init(pthread_cond_t *condition) {
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    int failure = pthread_cond_init(condition, &monotonic);
    pthread_condattr_destroy(&monotonic);
    return failure;
}

int wefti_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, double when_s) {
    if (isinf(when_s)) return pthread_cond_wait(condition, lock);
    struct timespec t = timespec_of(when_s);
    return pthread_cond_timedwait(condition, lock, &t);
}
#else /* sleeps and waits for a time from now on */
static struct timespec left_until(double when_s) {
    return timespec_of(fmax(when_s - wefti_now_s(), 0));
}

void wefti_sleep_until_s(double when_s) {
    while (wefti_now_s() < when_s) {
        struct timespec t = left_until(when_s);
        (void)nanosleep(&t, NULL);
    }
}

void wefti_sleep_finely(void) {}

int wefti_cond_init(pthread_cond_t *condition) {
    return pthread_cond_init(condition, NULL);
}

int wefti_cond_wait(pthread_cond_t *condition, pthread_mutex_t *lock, double when_s) {
    if (isinf(when_s)) return pthread_cond_wait(condition, lock);
    struct timespec t = left_until(when_s);
    return pthread_cond_timedwait_relative_np(condition, lock, &t);
}
#endif
