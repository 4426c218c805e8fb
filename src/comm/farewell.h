/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

/* How long a wait for a message outlives the farewell of its sender, when nothing that the
 * sender sent is still coming. Where a loss ends the run, not at all. Where the others go on, a
 * member that fails says its farewell and leaves; the others hear it at different times, agree
 * on a view without it, and only that view says which of its messages count:
 *
 *     wait --- farewell heard ----- view without it          ends: the member is lost
 *     wait --- farewell heard ----- message comes            ends: with the message
 *     wait --- farewell heard ----- nothing, for 10 s        ends: it has left
 *
 * A farewell that was heard before the wait began counts from the wait's begin. Ballots take
 * well under a second, so the last row is a fault of the membership. */
static const double wefti_farewell_patience_s = 10;

/* `farewell`: the sender has said it, and all that it sent is here. `goes_on`: the others go on
 * without it. *until_s: 0 when the wait begins; afterwards the end of the patience. */
static inline bool wefti_farewell_ends_wait(bool farewell, bool goes_on, double now_s,
                                            double *until_s) {
    if (!farewell || !goes_on) return farewell;
    if (*until_s == 0) *until_s = now_s + wefti_farewell_patience_s;
    return now_s >= *until_s;
}
