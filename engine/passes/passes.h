/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/train.h>

#include "rank/rank.h"

/* What the engine adds to a rank: parameters to begin with, passes, evaluation. */

/* Initial values of this rank's shards, from the job's seed. */
void wefti_rank_init_params(wefti_rank *r);

/* Adds up the loss on r->tokens, without gradients. Collective over the shard group. */
weft_status wefti_rank_loss(wefti_rank *r, double *loss_sum, double *hits) WEFT_CHECKED;

/* Fills in losses, tokens and distance of *out over run.eval_tokens (0: all) of the validation
 * tokens. 0 tokens: a rank was asked to stop. Collective. */
weft_status wefti_rank_evaluate(wefti_rank *r, weft_eval_record *out) WEFT_CHECKED;

/* Says through the hook for changes how long that will take after step number `step`, if it is
 * long; training, at tokens_per_s, has three times the arithmetic. False: it is short. */
bool wefti_evaluation_announce(const wefti_rank *r, int64_t step, double tokens_per_s,
                               const weft_train_hooks *hooks);
