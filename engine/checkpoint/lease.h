/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* The right to write a run folder. One process at a time has it; the file
 * `<folder>/lease` names it. The file is locked while its owner lives and gets a new
 * number every few seconds, so a lease whose owner is gone is recognized without the
 * user's help (docs/file-formats.md). */
typedef struct wefti_lease wefti_lease;

typedef struct wefti_lease_claim {
    const char *folder; /* exists */
    uint64_t run;       /* 0: draw a new number; else the number of an earlier lease of
                         * the same run, which a later view may replace at once */
    int64_t view;       /* of the run's members */
    double beat_s;      /* between two signs of life; 0: 2 s */
} wefti_lease_claim;

/* Takes the lease. A lease whose owner is gone is taken over: at once if the system of
 * this machine shows that, or after five missing beats if the owner was on another
 * machine. If the owner may be alive the call fails (WEFT_ERR_CONFIG), unless the lease
 * belongs to an earlier view of the same run. Starts a thread. [out] *out: owned by the
 * caller (wefti_lease_give_back). */
weft_status wefti_lease_take(weft_ctx *ctx, const wefti_lease_claim *claim,
                             wefti_lease **out) WEFT_CHECKED;

/* Fails if another process has taken over the lease in the meantime; then this process
 * must not write anything more. `look`: read the file now, instead of using what the
 * thread has seen last; what it has not seen for two beats, because this process slept, is
 * read in any case. NULL is accepted. May be called from any thread. */
weft_status wefti_lease_check(weft_ctx *ctx, const wefti_lease *lease,
                              bool look) WEFT_CHECKED;

/* The members have agreed on a later view, in which this process still has the lease:
 * writes it down, so that no process of an earlier or another view outranks this one. Fails
 * like wefti_lease_check. NULL is accepted. */
weft_status wefti_lease_renew(weft_ctx *ctx, wefti_lease *lease,
                              int64_t view) WEFT_CHECKED;

/* Whether the file still names this lease, read now; NULL: yes. */
bool wefti_lease_is_held(const wefti_lease *lease);

/* The run's number, for the claims of its other processes. */
uint64_t wefti_lease_run(const wefti_lease *lease);

/* Removes the file if it still belongs to this lease, and frees the lease; NULL is accepted. */
void wefti_lease_give_back(wefti_lease *lease);
