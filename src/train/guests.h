/* SPDX-License-Identifier: MIT */
#pragma once

#include "train/rank.h"

/* Who comes into a run that trains, while the others go on. Its copies of the model are the last
 * ones of the world: guests. A guest hears everything and says nothing of its own; with each step
 * comes a slice of the others' parameters and state.
 *
 *     step first      slice 0 as it is before this step, then the step: the guest takes the
 *                     agreed direction into all it has; what has not come yet it overwrites later
 *     ...             slice 1, 2, ...
 *     step until      all is there, and of this step: the guest takes part
 *
 * So nobody keeps a history, and no step waits for more than its slice, which travels while the
 * others compute. Where replicas are equal each of d ranks gives 1/d of a slice, and the guest has
 * their bits. Where they differ one rank gives all: the guest is a replica that began near it, is
 * drawn along by the mixer, and does not train before it takes part.
 *
 * Rows of text go to who takes part only. Which steps these are follows from the world's plan, so
 * nobody has to agree on anything while steps go on. */

/* Positions in arrays are counted in so many parts of them, whatever their length. */
enum { WEFTI_GUESTS_ALL = 1 << 20 };

/* What the world agrees on. slices 0: the state is handed over between two steps (handover.h). */
typedef struct wefti_guests_plan {
    int n;          /* copies that have no state */
    int64_t slices; /* steps in which it comes */
    int64_t from;   /* from there on: what is before has come in an earlier world */
} wefti_guests_plan;

/* Bytes of parameters and state of a rank: what a guest gets. */
int64_t wefti_guests_bytes(const wefti_rank *r);

/* Whether methods of this job can have guests at all: all that a rank knows is in its arrays. */
bool wefti_guests_can(const wefti_job *job);

/* In how many steps the state comes, so that no step takes more than a quarter longer for it; 0:
 * it comes so fast that all wait for it, or nobody knows how fast. step_s: of a calm step. */
int64_t wefti_guests_slices(int64_t n_bytes, double rate_Bps, double step_s);

/* The world begins with guests. Before the mixer is primed. */
weft_status wefti_guests_begin(wefti_rank *r, const wefti_guests_plan *plan) WEFT_CHECKED;

/* Gives or takes what `step` begins with. mesh: or NULL, where all ranks are threads. A guest
 * whose giver is lost goes on without it until the next world. Collective. */
weft_status wefti_guests_step(wefti_rank *r, weft_mesh *mesh, int64_t step) WEFT_CHECKED;

/* What all come together for after `done` steps (an evaluation, a comparison, a checkpoint) is
 * done without guests, as if they had not come yet: nobody waits for their state, and a
 * checkpoint has the replicas that take part. Begins with aside, ends without. Between, guests do
 * nothing; after it, tags are alike again. */
void wefti_guests_set_aside(wefti_rank *r, int64_t done, bool aside);

/* Between steps: whether guests take part from the next one on, which they do not before (*ends).
 * Where replicas are equal all have the same bits then, which is compared; should that be
 * interrupted, they take part all the same. Collective. */
weft_status wefti_guests_end(wefti_rank *r, int64_t done, bool *ends) WEFT_CHECKED;
