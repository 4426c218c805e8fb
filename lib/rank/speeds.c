/* SPDX-License-Identifier: MIT */
/* Who computes how many sequences of a step, by what was measured (batch.shares=speed). With its
 * status each rank says for how many seconds it has computed in the step. All read the same
 * numbers, so all know before the next step what is decided, without another message:
 *
 *     block: a step, or so many that the slowest has computed for a quarter of a second
 *     t_i:   the median of the means of the last 8 blocks     then: wefti_shares_by_speed
 *
 * so that steps in which a machine was asleep say nothing about the next ones. A processor's quota
 * is given in periods of up to 100 ms, of which short steps take nothing or all: in a block, the
 * mean of both. And who has left of its quota looks fast, until it has more rows. So a change is
 * judged by t of the slowest, 8 blocks later: if it is longer than before, the rows before are
 * taken again, and the next change waits for twice as many blocks (up to 128), unless t is another
 * than it was by a half: then speeds have changed.
 *
 * Emulated time (pace.c) is exact: a block is a step.
 * Of gossip, whose statuses are read some steps later, the first ones are of the rows before, and
 * do not count. Where a mixer alone sends, rows change at most once in its period, after it has
 * sent its first fragment: a fragment weighs the rows since it was sent last
 * (wefti_job_weight_sent). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "mix/mixer.h"
#include "rank/rank.h"
#include "step/schedule.h"

enum { most_patience = 16 };
static const double block_s = 0.25;

void wefti_speeds_note(wefti_rank *r, int rank, double seconds) {
    int copy = rank / r->job->S;
    if (!r->shares.speeds.step_s || !(seconds > r->shares.speeds.step_s[copy]))
        return; /* what is no number counts as none */
    r->shares.speeds.step_s[copy] = seconds;
}

static void add(wefti_speed_sum *to, double seconds) {
    if (seconds > 0) to->seconds += seconds, to->steps++;
}

void wefti_speeds_end(wefti_rank *r, int64_t step) {
    wefti_speeds *s = &r->shares.speeds;
    int64_t place = (s->n + WEFTI_SPEED_BLOCKS - 1) % WEFTI_SPEED_BLOCKS;
    int R = r->job->R;
    double slowest_s = 0;
    bool counts = step >= r->job->batch.shared_step;
    if (!s->step_s) return;
    for (int i = 0; i < R; i++) {
        if (counts && s->n > 0) add(&s->block[i], s->step_s[i]); /* the first warms up */
        slowest_s = fmax(slowest_s, s->step_s[i]);
        s->step_s[i] = 0;
    }
    if (!counts) return;
    if (s->n == 0) {
        s->n = 1;
        return;
    }
    add(&s->block[R], slowest_s);
    double least_s = r->job->config->mesh.compute_time > 0 ? 0 : block_s;
    if (s->block[R].seconds < least_s) return;
    for (int i = 0; i <= R; i++) {
        wefti_speed_sum *sum = &s->block[i];
        s->last_s[i * WEFTI_SPEED_BLOCKS + place] =
            sum->steps > 0 ? sum->seconds / (double)sum->steps : 0;
        *sum = (wefti_speed_sum){0};
    }
    s->n++;
}

/* The lower one of the known times; 0: there is none. */
static double median_of(const double *last_s) {
    double sorted[WEFTI_SPEED_BLOCKS];
    int n = 0;
    for (int i = 0; i < WEFTI_SPEED_BLOCKS; i++) {
        int at = n;
        if (!(last_s[i] > 0)) continue;
        for (; at > 0 && sorted[at - 1] > last_s[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = last_s[i];
        n++;
    }
    return n > 0 ? sorted[(n - 1) / 2] : 0;
}

/* Whether the rows before are taken again, since the slowest takes `now_s` with those of now. */
static bool goes_back(wefti_speeds *s, double now_s) {
    double before_s = s->before_s;
    s->before_s = 0;
    if (before_s > 0) s->known_s = fmin(now_s, before_s);
    if (!(before_s > 0 && now_s > before_s)) return false;
    s->patience = s->patience < most_patience / 2 ? 2 * s->patience : most_patience;
    s->waited = 0;
    return true;
}

/* Whether another change of rows may be tried. */
static bool may_try(wefti_speeds *s, int R, double now_s) {
    bool as_known = 2 * s->known_s < 3 * now_s && 2 * now_s < 3 * s->known_s;
    if (as_known) return ++s->waited >= s->patience;
    s->patience = 1;
    if (s->known_s > 0) /* another speed: nothing that was measured before holds */
        for (int i = 0; i < R; i++) s->taken[i].earlier_rows = 0;
    s->known_s = now_s;
    return true;
}

bool wefti_speeds_decide(wefti_rank *r, int64_t step, double took_s[2]) {
    const wefti_job *job = r->job;
    wefti_speeds *s = &r->shares.speeds;
    if (!s->next || r->learners.open || s->n <= WEFTI_SPEED_BLOCKS ||
        step % wefti_job_sends_every(job) != 0)
        return false;
    s->n = 1;
    for (int i = 0; i < job->R; i++) {
        s->taken[i].rows = job->batch.rows[i];
        s->taken[i].step_s = median_of(s->last_s + i * WEFTI_SPEED_BLOCKS);
    }
    double now_s = median_of(s->last_s + job->R * WEFTI_SPEED_BLOCKS);
    double before_s = s->before_s;
    if (goes_back(s, now_s)) {
        took_s[0] = now_s;
        took_s[1] = before_s;
        memcpy(s->next, job->batch.earlier, (size_t)job->R * sizeof *s->next);
    } else {
        if (!may_try(s, job->R, now_s) ||
            !wefti_shares_by_speed(job->R, s->taken, s->next, took_s))
            return false;
        s->before_s = now_s;
        s->waited = 0;
    }
    memset(s->block, 0, (size_t)(job->R + 1) * sizeof *s->block);
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
