/* SPDX-License-Identifier: MIT */
/* Who computes how many sequences of a step, by what was measured (batch.shares=speed,
 * job/speeds.c). With its status each rank says for how many seconds it has computed in the step.
 *
 * Emulated time (pace.c) is exact: a block is a step.
 * Of gossip, whose statuses are read a step later, the first one is of the rows before, and does
 * not count. Where a mixer alone sends, rows change at most once in as many steps as its period
 * has: a fragment weighs the rows since it was sent last (wefti_job_weight_sent). */
#include "base/assert.h"
#include "rank/rank.h"
#include "step/schedule.h"

void wefti_rank_note_speed(wefti_rank *r, int rank, double seconds) {
    int copy = rank / r->job->S;
    if (r->shares.said && seconds > r->shares.said[copy].seconds) /* else no number */
        r->shares.said[copy].seconds = seconds;
}

void wefti_rank_end_speeds(wefti_rank *r, int64_t step) {
    const wefti_job *job = r->job;
    if (!r->shares.said) return;
    for (int i = 0; i < job->R; i++) r->shares.said[i].rows = (double)job->batch.rows[i];
    if (step >= job->batch.shared_step)
        wefti_speeds_hear(r->shares.speeds, job->R, r->shares.said,
                          job->config->mesh.compute_time > 0 ? 0 : WEFTI_SPEED_BLOCK_S);
    for (int i = 0; i < job->R; i++) r->shares.said[i].seconds = 0;
}

bool wefti_rank_follows_speed(wefti_rank *r, int64_t step, double took_s[2]) {
    int R = r->job->R;
    if (!r->shares.next || r->learners.open || !wefti_job_may_share(r->job, step) ||
        !wefti_speeds_decide(r->shares.speeds, R, took_s))
        return false;
    for (int i = 0; i < R; i++) r->shares.next[i] = (int64_t)r->shares.speeds->of[i].rows;
    return true;
}

weft_status wefti_rank_reshare(wefti_rank *r) {
    wefti_schedule *schedule;
    WEFT_TRY(
        wefti_schedule_create(r->ctx, r->job, r->arrangement, r->replica, &schedule));
    wefti_schedule old = *r->schedule; /* the worker knows its address */
    WEFTI_ASSERT(old.n_phases == schedule->n_phases && old.order == schedule->order);
    *r->schedule = *schedule;
    *schedule = old;
    wefti_schedule_destroy(r->ctx, schedule);
    return WEFT_OK;
}
