/* SPDX-License-Identifier: MIT */
#pragma once

#include "member/message.h"

/* How a member of a run stands, as it says itself when somebody inquires at its listener
 * (guard.h): while it lives by its own thread, afterwards by its guard.
 *
 *     offset  bytes
 *          0      4   "wefD"
 *          4      4   state
 *          8     16   who: key, incarnation
 *         24      8   its view
 *         32      8   promised view
 *         40     16   promised ballot: counter, leader
 *         56      8   accepted view
 *         64     16   who has its vote: key, incarnation
 *         80      8   chain of its view
 *         88     32   HMAC-SHA256 of the above, with the run's number
 *
 * The run's number is drawn at random and known to its members alone, so what a firewall or
 * a stranger says is not believed. */
enum { WEFTI_VITALS_BYTES = 120 };

typedef enum wefti_vital_state {
    WEFTI_VITAL_NONE,   /* nothing is known */
    WEFTI_VITAL_LIVES,  /* it takes part */
    WEFTI_VITAL_PAUSED, /* it lives, but hears too few of the others */
    WEFTI_VITAL_ENDED,  /* it has ended, or takes no part any more */
    WEFTI_VITAL_OVER    /* the run has ended */
} wefti_vital_state;

typedef struct wefti_vitals {
    wefti_vital_state state;
    wefti_node_id id;
    int64_t view;
    wefti_member_record record; /* what it has promised and accepted */
} wefti_vitals;

void wefti_vitals_write(const wefti_vitals *vitals, uint64_t run, unsigned char *bytes);

/* What somebody says who is not believed, for it may be of any run: NONE if these are no such
 * words. */
wefti_vital_state wefti_vitals_claim(const unsigned char *bytes);

/* False: these are not the words of a member of this run. */
bool wefti_vitals_read(const unsigned char *bytes, int n, uint64_t run,
                       wefti_vitals *out);
