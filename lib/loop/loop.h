/* SPDX-License-Identifier: MIT */
#pragma once

#include "mesh/elastic.h"
#include "rank/bootstrap.h"

/* What is done whenever membership changes, whoever runs the loop over the steps: `weft train`
 * (train/regroup.c) or a program (sync_regroup.c). */

/* What the ranks of a new world show each other, a card each. It is sent as it lies in memory,
 * numbers of 64 bits: all ranks have one byte order (transport.h carries no others). A card begins
 * with an int64_t, 1 if its rank has parameters and state, and ends with what the rank knows of
 * machines that computed wrongly (wefti_fault [WEFTI_FAULTY_MACHINES]). */
typedef struct wefti_loop_cards {
    void *own;
    int64_t n_bytes; /* of a card */
    int shards;      /* of the model: a copy of it is so many ranks */
    void *all;       /* [ranks] cards; owned, like `has` */
    bool *has;       /* [ranks] who has parameters and state */
    int first;       /* of those who have */
    bool heard;      /* all cards have come: membership has not changed meanwhile */
} wefti_loop_cards;

/* Shows `own` to all members, and takes their cards. Fails if nobody has some part of the model:
 * that is final for all who are here, whatever else changes meanwhile, because who goes on would
 * train with what nobody gave. Collective. */
weft_status wefti_loop_show(weft_ctx *ctx, wefti_bootstrap *members,
                            wefti_loop_cards *cards) WEFT_CHECKED;
void wefti_loop_put_away(weft_ctx *ctx, wefti_loop_cards *cards);
