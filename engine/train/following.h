/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/cluster.h>
#include <weft/train.h>

#include "job/form.h"
#include "train/prepare.h"

/* A run with method=auto whose choice is kept true while it goes on (docs/planning.md). */

/* The first rank measures each step beside what was expected. When it is another one for long
 * enough, it plans again, and asks for a form with its status; all take it before the next step. */
typedef struct wefti_following wefti_following;

/* Between two steps, before another world may begin with `step`: if the last status asked for a
 * form in which all step alike, behind outer steps, the ranks meet (rank/carried.h). */
weft_status wefti_follow_meet(wefti_prepared *p, wefti_rank *r,
                              int64_t step) WEFT_CHECKED;

/* Between two steps, by all ranks of a world: changes the form before `step` if the last status
 * asked for it; then *r is made again, and the log of views has a line. The first rank looks at
 * the step that has ended. */
weft_status wefti_follow(wefti_prepared *p, wefti_rank **r, int64_t step,
                         const weft_train_hooks *hooks) WEFT_CHECKED;

void wefti_following_end(wefti_prepared *p);

/* What crosses the wire in this step, why, and what that gains: of a record. */
void wefti_following_tell(const wefti_prepared *p, weft_step_record *record);

/* --- the plan by itself --- */

/* What is known where a form is chosen. */
typedef struct wefti_situation {
    const weft_config *config; /* of the run, in the form that it has */
    weft_cluster *cluster;     /* its wire as it is now */
    wefti_form now;
    int64_t steps_left, parameters;
    double step_s;      /* as it is measured now */
    double idle_s;      /* of that: what a step waits in every form, as ranks differ */
    double loss;        /* share of steps more that may be taken */
    double state_bytes; /* of the optimizer's states, which outer steps leave apart */
    double bias[2];     /* measured over predicted, of averaging and of outer forms */
} wefti_situation;

typedef struct wefti_outlook {
    wefti_form form;
    double step_s, gain, low,
        high; /* times as fast for the rest of the run, and its range */
} wefti_outlook;

/* The best of all forms; the one that the run has if no other is sure to be faster, by what the
 * change costs and the ranges of step and learning. */
weft_status wefti_plan_forms(weft_ctx *ctx, const wefti_situation *s,
                             wefti_outlook *out) WEFT_CHECKED;

/* The rate of the wire at which a step of this form takes so long; 0: at any. */
weft_status wefti_wire_of_step(weft_ctx *ctx, const wefti_situation *s,
                               double *out) WEFT_CHECKED;
