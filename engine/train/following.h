/* SPDX-License-Identifier: MIT */
#pragma once

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
