/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A second process on the same machine that speaks for this one after it has died, however
 * it died: a refused call alone can also come from a firewall. It is forked when the first
 * bytes are kept, shares the listening socket and does nothing until this process ends:
 *
 *     process lives   its own thread accepts the calls at the listener
 *     process died    the guard accepts them. Who inquires gets the kept bytes; anybody else is
 *                     hung up on
 *
 * To inquire is to call and to end the sending side, without a byte, or, as a member, after three:
 * WEFTI_GUARD_ASKS and its place as u16.
 *
 * No call is refused in between, since the listener stays open. The guard ends by itself:
 * at once after an orderly end; else when as many members have inquired as may want to know, after
 * WEFTI_GUARD_LINGERS_S, or when a new process needs the port (wefti_guard_dismiss). It
 * ignores the terminal's signals, and holds none of this process's memory or files. */
enum { WEFTI_GUARD_BYTES = 128, WEFTI_GUARD_LINGERS_S = 60 };
enum { WEFTI_GUARD_ASKS = 0, WEFTI_GUARD_QUESTION = 3 }; /* its first byte, its length */

typedef struct wefti_guard wefti_guard;

/* port: the listener's. NULL: the system has no pidfd (macOS, old Linux), or no more
 * processes; then nobody speaks for this one. */
wefti_guard *wefti_guard_start(int listener, int port);

/* Replaces what the guard will say, at most WEFTI_GUARD_BYTES; n_askers: how many processes
 * may inquire. A death in the middle leaves the former bytes. */
void wefti_guard_keep(wefti_guard *guard, const void *bytes, size_t n, int n_askers);

/* Ends this side. `serve`: what this process took part in has ended for it although it may
 * live on, so the guard speaks from now on; else the guard ends. NULL is allowed. */
void wefti_guard_end(wefti_guard *guard, bool serve);

/* In a child that fork() made: closes what it inherited. Takes no locks. */
void wefti_guard_forget(const wefti_guard *guard);

/* A guard of a dead process of the same user holds this port: it gives it up. False: there
 * is none. */
bool wefti_guard_dismiss(int port);
