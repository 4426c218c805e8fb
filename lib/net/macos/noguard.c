/* SPDX-License-Identifier: MIT */
/* No guard on macOS: a process that was forked without a new program may not use most of the
 * system's libraries there, and would hold this process's memory. */
#include "net/guard.h"

wefti_guard *wefti_guard_start(int listener, int port) {
    (void)listener, (void)port;
    return NULL;
}

void wefti_guard_keep(wefti_guard *guard, const void *bytes, size_t n, int n_askers) {
    (void)guard, (void)bytes, (void)n, (void)n_askers;
}

void wefti_guard_end(wefti_guard *guard, bool serve) { (void)guard, (void)serve; }

void wefti_guard_forget(const wefti_guard *guard) { (void)guard; }

bool wefti_guard_dismiss(int port) {
    (void)port;
    return false;
}
