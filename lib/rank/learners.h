/* SPDX-License-Identifier: MIT */
#pragma once

#include "rank/rank.h"

/* How a process joins a run that is training, while the other processes continue. Its
 * copies of the model are the last ones of the world and are called learners. A learner
 * receives every message and contributes nothing of its own; with each step it gets a
 * slice of the others' parameters and state.
 *
 *     step first      slice 0 as it is before this step, then the step: the learner applies the
 *                     agreed direction to all its arrays; parts that have not arrived yet are
 *                     overwritten later
 *     ...             slice 1, 2, ...
 *     step until      everything has arrived, and is that of this step: the learner takes part
 *
 * So no rank keeps a history, and a step waits for nothing but its slice, which travels
 * while the others compute. Where replicas are equal, each of d ranks gives 1/d of a
 * slice, and the learner ends with the same bits as they have. Where replicas differ, one
 * rank gives everything: the learner is a replica that began near that rank, is pulled
 * along by the mixer, and does not train before it takes part.
 *
 * Only ranks that take part get rows of text. Which steps these are follows from the
 * world's plan, so the ranks need not agree on anything while steps are running. */

/* Positions in an array are counted in parts: each array has this many, whatever its
 * length. */
enum { WEFTI_LEARNERS_ALL = 1 << 20 };

/* What the world agrees on. slices 0: the state is handed over between two steps (handover.h). */
typedef struct wefti_learners_plan {
    int n;          /* copies that have no state */
    int64_t slices; /* number of steps over which it is sent */
    int64_t from;   /* first part to send: earlier parts have come in an earlier world */
} wefti_learners_plan;

/* Bytes of parameters and state of a rank: what a learner gets. */
int64_t wefti_learners_bytes(wefti_rank *r);

/* Whether this job can have learners: one site, and nodes of one copy each. */
bool wefti_learners_can(const wefti_job *job);

/* Number of steps over which the state is sent, chosen so that no step takes more than a
 * quarter longer for it. 0: it is sent so fast that all ranks wait for it, or the rate is
 * not known. step_s: time of a normal step. */
int64_t wefti_learners_slices(int64_t n_bytes, double rate_Bps, double step_s);

/* Begins a world with learners. Called before the mixer is primed. */
weft_status wefti_learners_begin(wefti_rank *r,
                                 const wefti_learners_plan *plan) WEFT_CHECKED;

/* Gives or takes the slice that `step` begins with. mesh: NULL if all ranks are threads.
 * A learner that has lost a giver continues without it until the next world. Collective. */
weft_status wefti_learners_step(wefti_rank *r, weft_mesh *mesh,
                                int64_t step) WEFT_CHECKED;

/* What all ranks meet for after `done` steps (an evaluation, a comparison, a checkpoint)
 * is done without learners, as if they had not joined yet: no rank waits for their state,
 * and a checkpoint holds the replicas that take part. Call it with aside = true
 * before and with false after. Learners do nothing in between; afterwards all ranks have the
 * same tags again. */
void wefti_learners_set_aside(wefti_rank *r, int64_t done, bool aside);

/* Called between steps. *ends: learners take part from the next step on, which they did not
 * before. Where replicas are equal, all ranks have the same bits then, and this is
 * checked; if the check is interrupted, the learners take part all the same. Collective. */
weft_status wefti_learners_end(wefti_rank *r, int64_t done, bool *ends) WEFT_CHECKED;
