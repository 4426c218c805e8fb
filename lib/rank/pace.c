/* SPDX-License-Identifier: MIT */
/* Emulated slowness: a rank takes at least mesh.compute_time to compute a step, and one
 * rank, drawn for each step, takes mesh.straggler_time more: it stops for that long when its
 * first part is done, also if computing takes longer than mesh.compute_time. What a rank tells
 * of its speed with batch.shares=speed (reshare.c) is then the emulated time, so that shares are
 * the same in each run. */
#include "base/clock.h"
#include "base/rng.h"
#include "rank/rank.h"

static bool is_struck(const wefti_rank *r) {
    const weft_config *config = r->job->config;
    uint64_t W = (uint64_t)r->job->W, step = (uint64_t)r->step;
    return config->mesh.straggler_time > 0 &&
           wefti_rng_u64((uint64_t)config->run.seed, WEFTI_STREAM_STALL, step, 0) % W ==
               (uint64_t)r->rank;
}

void wefti_rank_pace(wefti_rank *r, double share) {
    const weft_config *config = r->job->config;
    double part = wefti_job_weight(r->job, r->replica);
    r->now.paced_s = share * part * config->mesh.compute_time;
    double due_s = r->now.begun_s + r->now.stopped_s + r->now.paced_s;
    if (r->now.stopped_s == 0 && is_struck(r)) {
        double now_s = wefti_now_s();
        r->now.stopped_s = config->mesh.straggler_time;
        due_s = (now_s > due_s ? now_s : due_s) + r->now.stopped_s;
    }
    if (due_s > r->now.begun_s) wefti_sleep_until_s(due_s);
}
