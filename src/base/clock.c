/* SPDX-License-Identifier: MIT */
/* The monotonic clock in seconds, and sleeping until a time of it. */
#define _GNU_SOURCE
#include "base/clock.h"

#include <errno.h>
#include <time.h>

double wefti_now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void wefti_sleep_until_s(double when_s) {
    struct timespec t = {.tv_sec = (time_t)when_s};
    t.tv_nsec = (long)((when_s - (double)t.tv_sec) * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) continue;
}
