/* SPDX-License-Identifier: MIT */
/* Who computes how many sequences of a step, by what was measured (batch.shares=speed). With its
 * status each rank says for how many seconds it has computed in the step. All read the same
 * numbers, so all know before the next step what is decided, without another message:
 *
 *     e_i <- e_i + (min(t_i / n_i, 2 e_i) - e_i) / 8     every 8 steps: wefti_shares_by_speed
 *
 * so that a step in which a machine was asleep says little about the next ones. n_i are the rows of
 * the step that the status is of, which may be one before the last change.
 * Where a mixer alone sends, rows change at most once in its period, after it has sent its first
 * fragment: a fragment weighs the rows since it was sent last (wefti_job_weight_sent). */
#include <math.h>

#include "base/assert.h"
#include "mix/mixer.h"
#include "rank/rank.h"
#include "step/schedule.h"

enum { SMOOTH = 8, EVERY = 8 };

void wefti_speeds_note(wefti_rank *r, int rank, double seconds) {
    int copy = rank / r->job->S;
    if (!r->speeds.step_s || !(seconds > r->speeds.step_s[copy]))
        return; /* what is no number counts as none */
    r->speeds.step_s[copy] = seconds;
}

void wefti_speeds_end(wefti_rank *r, int64_t step) {
    wefti_speeds *s = &r->speeds;
    for (int i = 0; s->step_s && i < r->job->R; i++) {
        int64_t rows = step < r->job->shared_step ? r->job->earlier_rows[i]
                                                  : wefti_job_rows(r->job, i);
        double row_s = s->step_s[i] / (double)rows;
        s->step_s[i] = 0;
        if (row_s > 0 && s->n > 0) /* the first step warms up */
            s->row_s[i] += s->row_s[i] > 0
                               ? (fmin(row_s, 2 * s->row_s[i]) - s->row_s[i]) / SMOOTH
                               : row_s;
    }
    s->n++;
}

bool wefti_speeds_decide(wefti_rank *r, int64_t step, double took_s[2]) {
    const wefti_job *job = r->job;
    wefti_speeds *s = &r->speeds;
    if (!s->next || r->learners.open || s->n <= 1 || s->n % EVERY != 1) return false;
    if (step % wefti_job_sends_every(job) != 0) {
        s->n--; /* asked again before the next step */
        return false;
    }
    return wefti_shares_by_speed(job->R, s->row_s, job->rows, s->next, took_s);
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
