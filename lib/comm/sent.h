/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "comm/comm.h"

/* Digests of what a rank sends in the exchanges of each step (run.audit), which it tells all
 * others with its status, and which a replay computes again:
 *
 *     step t      each message of round k: sum[t][k] += XXH3-64(message, seed: tag, receiver)
 *     step t+lag  nothing of step t is sent any more: its sums are reported, its place is free
 *
 * A message to all counts once, one for a single receiver once for each of them. Round 0 are
 * the messages that a rank makes of its own numbers, round 1 what it answers to those of
 * others. A sum does not depend on the order of messages. */
enum { WEFTI_SENT_ROUNDS = 2, WEFTI_SENT_BYTES = 8 * WEFTI_SENT_ROUNDS };

typedef struct wefti_sent {
    int64_t lag, slots,
        first;                /* steps; of the world's first one nothing earlier counts */
    _Atomic int64_t reported; /* all before this step are reported */
    _Atomic uint64_t *sums;   /* [slots][WEFTI_SENT_ROUNDS] owned; step t at t % slots */
} wefti_sent;

weft_status wefti_sent_init(weft_ctx *ctx, int64_t lag, int64_t first_step,
                            wefti_sent *sent) WEFT_CHECKED;
void wefti_sent_fini(weft_ctx *ctx, wefti_sent *sent);

/* Counts a message with the tag of its step; receiver: a rank, or -1 for all. Callable from
 * the thread that exchanges. */
void wefti_sent_count(wefti_sent *sent, int64_t step, int round, int64_t tag,
                      int receiver, const void *message, int64_t n_bytes);

/* Called in order, once for each step: the sums of `step` - lag, zeros before the first step;
 * little-endian. */
void wefti_sent_tell(wefti_sent *sent, int64_t step, unsigned char out[WEFTI_SENT_BYTES]);
