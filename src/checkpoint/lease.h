/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Who writes a run folder: one process at a time, named in the file `<folder>/lease`. The
 * file is locked while its owner lives and gets a new number every few seconds, so a lease
 * whose owner is gone is known without the user's help (docs/file-formats.md). */
typedef struct wefti_lease wefti_lease;

typedef struct wefti_lease_claim {
    const char *folder; /* exists */
    uint64_t run;       /* 0: a number of its own is drawn; else that of an earlier lease
                         * of the same run, which a later view may replace at once */
    int64_t view;       /* of the run's members */
    double beat_s;      /* between two signs of life; 0: 2 s */
} wefti_lease_claim;

/* Takes the lease. One whose owner is gone is taken over: at once where the system of
 * this machine shows it, after five signs of life that did not come where the owner was
 * on another machine. One whose owner may live is refused (WEFT_ERR_CONFIG), unless it
 * is of the same run and an earlier view. Starts a thread. [out] *out: owned by the
 * caller (wefti_lease_give_back). */
weft_status wefti_lease_take(weft_ctx *ctx, const wefti_lease_claim *claim,
                             wefti_lease **out) WEFT_CHECKED;

/* Fails if somebody else has taken the lease over meanwhile: what this process still has
 * to write must not be written. `look`: read the file now, else what the thread has seen
 * last. NULL is fine. Any thread. */
weft_status wefti_lease_check(weft_ctx *ctx, const wefti_lease *lease,
                              bool look) WEFT_CHECKED;

/* The run's number, for the claims of its other processes. */
uint64_t wefti_lease_run(const wefti_lease *lease);

/* Removes the file if it is still this lease's, and frees it; NULL is accepted. */
void wefti_lease_give_back(wefti_lease *lease);
