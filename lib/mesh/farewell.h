/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/* How long a wait for a message continues after its sender has said farewell, when no
 * message of the sender is still on its way. If a loss ends the run, the wait ends at once.
 * If the others continue, a member that fails says its farewell and leaves; the others
 * receive it at different times and agree on a view without this member, and only that view
 * decides which of its messages count:
 *
 *     wait --- farewell heard ----- view without it          ends: the member is lost
 *     wait --- farewell heard ----- message comes            ends: with the message
 *     wait --- farewell heard ----- nothing, for 10 s        ends: it has left
 *
 * If the farewell came before the wait began, the time counts from the beginning of the
 * wait. Ballots take well under a second, so the last row is a fault of the membership. */
static const double wefti_farewell_patience_s = 10;

/* `farewell`: the sender has said it, and all its messages are here. `goes_on`: the others
 * continue without the sender. *until_s: 0 when the wait begins; afterwards the end of the
 * patience. */
static inline bool wefti_farewell_ends_wait(bool farewell, bool goes_on, double now_s,
                                            double *until_s) {
    if (!farewell || !goes_on) return farewell;
    if (*until_s == 0) *until_s = now_s + wefti_farewell_patience_s;
    return now_s >= *until_s;
}
