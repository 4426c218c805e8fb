/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

/* Learning rate of step 0, 1, ... steps - 1. Warm-up is linear from lr/warmup to lr; then
 *
 *     cosine        final + (1 - final) (1 + cos(pi x)) / 2, x from 0 to 1 over the rest
 *     linear        1 - (1 - final) x
 *     inverse_sqrt  sqrt(w / (step + 1)), w = max(warmup, 1) (Vaswani et al. 2017)
 *     constant      1
 *
 * times optimizer.lr. */
double wefti_learning_rate(const weft_config *config, int64_t step);

/* The keys that this kind of schedule reads and not every kind does; NULL: no such
 * kind. */
const char *const *wefti_learning_rate_keys(const char *kind);

/* Warns of a rate that is four times off the method's own. For who begins a run. */
void wefti_job_doubt(weft_ctx *ctx, const weft_config *config);
