/* SPDX-License-Identifier: MIT */
#pragma once

#include "mix/mixer.h"

/* When the mixer `outer` does what: computed from step numbers alone, so the same on all
 * ranks. Bucket b of n belongs to fragment f = floor(b P / n). An exchange of it
 *
 *     starts        in steps t with (t + 1) mod H = floor(f H / P), if the run has a step
 *                   t + tau
 *     is answered   in step t + ceil(tau / 2)
 *     is applied    in step t + tau */

/* A bucket's number, and the number of all buckets. */
typedef struct wefti_outer_part {
    int number, n_buckets;
} wefti_outer_part;

/* The start of the bucket's latest exchange that is due in a step up to `step`; -1: there
 * is none, or the run ends before it could be applied. */
int64_t wefti_outer_start(const wefti_mixer_config *config, wefti_outer_part part,
                          int64_t step);

/* The step in which the exchange that starts in `start` is answered. */
int64_t wefti_outer_answer_step(const wefti_mixer_config *config, int64_t start);

/* Number of fragments that have a bucket. */
int64_t wefti_outer_fragments(const wefti_mixer_config *config, int n_buckets);

/* Checks the knobs that all outer mixers have. */
weft_status wefti_outer_check(weft_ctx *ctx,
                              const wefti_mixer_config *config) WEFT_CHECKED;
