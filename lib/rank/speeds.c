/* SPDX-License-Identifier: MIT */
/* Who computes how many sequences of a step, by what was measured (batch.shares=speed). With its
 * status each rank says for how many seconds it has computed in the step. All read the same
 * numbers, so all know before the next step what is decided, without another message:
 *
 *     t_i: the median of the last 8 steps with the rows of now     then: wefti_shares_by_speed
 *
 * so that steps in which a machine was asleep say nothing about the next ones. Of gossip, whose
 * statuses are read some steps later, the first ones are of the rows before, and do not count.
 * Where a mixer alone sends, rows change at most once in its period, after it has sent its first
 * fragment: a fragment weighs the rows since it was sent last (wefti_job_weight_sent). */
#include <stdlib.h>

#include "base/assert.h"
#include "mix/mixer.h"
#include "rank/rank.h"
#include "step/schedule.h"

void wefti_speeds_note(wefti_rank *r, int rank, double seconds) {
    int copy = rank / r->job->S;
    if (!r->shares.speeds.step_s || !(seconds > r->shares.speeds.step_s[copy]))
        return; /* what is no number counts as none */
    r->shares.speeds.step_s[copy] = seconds;
}

void wefti_speeds_end(wefti_rank *r, int64_t step) {
    wefti_speeds *s = &r->shares.speeds;
    int64_t place = (s->n + WEFTI_SPEED_STEPS - 1) % WEFTI_SPEED_STEPS;
    bool counts = step >= r->job->batch.shared_step;
    for (int i = 0; s->step_s && i < r->job->R; i++) {
        if (counts && s->n > 0) /* the first step warms up */
            s->last_s[i * WEFTI_SPEED_STEPS + place] = s->step_s[i];
        s->step_s[i] = 0;
    }
    s->n += counts;
}

/* The lower one of the known times; 0: there is none. */
static double median_of(const double *last_s) {
    double sorted[WEFTI_SPEED_STEPS];
    int n = 0;
    for (int i = 0; i < WEFTI_SPEED_STEPS; i++) {
        int at = n;
        if (!(last_s[i] > 0)) continue;
        for (; at > 0 && sorted[at - 1] > last_s[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = last_s[i];
        n++;
    }
    return n > 0 ? sorted[(n - 1) / 2] : 0;
}

bool wefti_speeds_decide(wefti_rank *r, int64_t step, double took_s[2]) {
    const wefti_job *job = r->job;
    wefti_speeds *s = &r->shares.speeds;
    if (!s->next || r->learners.open || s->n <= WEFTI_SPEED_STEPS ||
        step % wefti_job_sends_every(job) != 0)
        return false;
    s->n = 1;
    for (int i = 0; i < job->R; i++) {
        s->taken[i].rows = job->batch.rows[i];
        s->taken[i].step_s = median_of(s->last_s + i * WEFTI_SPEED_STEPS);
    }
    if (!wefti_shares_by_speed(job->R, s->taken, s->next, took_s)) return false;
    for (int i = 0; i < job->R; i++) {
        wefti_taken *taken = &s->taken[i];
        if (4 * llabs(s->next[i] - taken->rows) < s->next[i]) continue;
        taken->earlier_rows = taken->rows;
        taken->earlier_s = taken->step_s;
    }
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
