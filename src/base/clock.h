/* SPDX-License-Identifier: MIT */
#pragma once

/* Seconds of the monotonic clock. */
double wefti_now_s(void);

/* Sleeps until the monotonic clock reads `when_s`; returns at once if it is past. */
void wefti_sleep_until_s(double when_s);
