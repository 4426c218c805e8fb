/* SPDX-License-Identifier: MIT */
/* Emulated slowness: a rank takes at least mesh.compute_time to compute a step, and one
 * rank, drawn for each step, takes mesh.straggler_time more. */
#include "base/clock.h"
#include "base/rng.h"
#include "train/rank.h"

void wefti_rank_pace(const wefti_rank *r, double share) {
    const weft_config *config = r->job->config;
    uint64_t W = (uint64_t)r->job->W, step = (uint64_t)r->step;
    double due_s = r->begun_s + share * config->mesh.compute_time;
    if (config->mesh.straggler_time > 0 &&
        wefti_rng_u64((uint64_t)config->run.seed, WEFTI_STREAM_STALL, step, 0) % W ==
            (uint64_t)r->rank)
        due_s += config->mesh.straggler_time;
    if (due_s > r->begun_s) wefti_sleep_until_s(due_s);
}
