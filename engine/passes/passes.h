/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/train.h>

#include "rank/rank.h"

/* What the engine adds to a rank: parameters to begin with, passes, evaluation. */

/* Initial values of this rank's shards, from the job's seed. */
void wefti_rank_init_params(wefti_rank *r);

/* Adds up the loss on r->tokens, without gradients. Collective over the shard group. */
weft_status wefti_rank_loss(wefti_rank *r, double *loss_sum, double *hits) WEFT_CHECKED;

/* Fills in losses, tokens and distance of *out over the first `max_tokens` (0 = all)
 * validation tokens. Collective. */
weft_status wefti_rank_evaluate(wefti_rank *r, int64_t max_tokens,
                                weft_eval_record *out) WEFT_CHECKED;
