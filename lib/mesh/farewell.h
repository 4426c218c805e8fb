/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "mesh/elastic.h"

/* How long a wait for a message continues after its sender has said farewell, when no
 * message of the sender is still on its way. If a loss ends the run, the wait ends at once.
 * If the others continue, a member that fails says its farewell and leaves; the others
 * receive it at different times and agree on a view without this member, and only that view
 * decides which of its messages count:
 *
 *     wait --- farewell heard ----- view without it          ends: the member is lost
 *     wait --- farewell heard ----- message comes            ends: with the message
 *     wait --- farewell heard ----- nothing, and all are     ends: it has left
 *                                   heard, for that long
 *
 * If the farewell came before the wait began, the time counts from the beginning of the
 * wait. No view can come where too few are heard, which is noticed after at most 10 silence_s
 * (member/watch.c): while it is so the time does not count. Ballots take well under a second, so
 * the last row is a fault of the membership, or of a loop that ends earlier than another one. */
static inline double wefti_farewell_patience_s(const wefti_elastic *e) {
    return e ? 10 + 10 * e->setup.policy.silence_s : 0;
}

/* `farewell`: the sender has said it, and all its messages are here. `e`: NULL where the others do
 * not continue without the sender. *until_s: 0 when the wait begins; afterwards the end of the
 * patience. Lock of the mesh held. */
static inline bool wefti_farewell_ends_wait(bool farewell, const wefti_elastic *e,
                                            double now_s, double *until_s) {
    if (!farewell || !e) return farewell;
    if (*until_s == 0 || e->was_paused) *until_s = now_s + wefti_farewell_patience_s(e);
    return now_s >= *until_s;
}
