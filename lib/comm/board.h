/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdatomic.h>

#include "comm/comm.h"

/* What each of n threads tells all others, in rounds: W - 1 messages from each of W ranks would
 * be W^2 in a process. A rank writes its few bytes into its place of the round's table, and who
 * comes last wakes those that wait. All of a round read the table; the last one that has read
 * it frees the round.
 *
 *     tell    W places, one lock each        hear    one wait, then W places without a lock */
typedef struct wefti_board wefti_board;

/* Which round: of a communicator's channel. */
typedef struct wefti_board_key {
    int channel;
    int64_t tag;
} wefti_board_key;

/* n_ranks read and write n_rounds rounds at once, each rank n_bytes. poisoned: borrowed; ends
 * every wait (with wefti_board_wake). */
weft_status wefti_board_create(weft_ctx *ctx, int n_ranks, int n_rounds, int n_bytes,
                               const atomic_int *poisoned,
                               wefti_board **out) WEFT_CHECKED;
void wefti_board_destroy(weft_ctx *ctx, wefti_board *board);
void wefti_board_wake(wefti_board *board);

/* arrival_s: when the bytes arrive, by class of the link to a reader. False: more rounds are open
 * than the board has. */
bool wefti_board_tell(wefti_board *board, wefti_board_key key, int rank,
                      const void *bytes, const double arrival_s[WEFTI_LINK_CLASSES]);

/* Waits until all ranks have published, at most until until_s. links [n_ranks]: from each of them
 * to this one; waits for what is still on its way. [out] *bytes: n_ranks tables of n_bytes, valid
 * until wefti_board_leave. False: not all have, or the world is poisoned. */
bool wefti_board_hear(wefti_board *board, wefti_board_key key, const unsigned char *links,
                      double until_s, const unsigned char **bytes);
void wefti_board_leave(wefti_board *board, wefti_board_key key);
