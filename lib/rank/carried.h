/* SPDX-License-Identifier: MIT */
#pragma once

#include "mix/mixer.h"
#include "rank/rank.h"

/* What a rank keeps from one world to the next, each array as long as the parameters, in backward
 * order of the units whatever the buckets are. */
enum {
    WEFTI_RANK_ARRAYS = 1 + WEFTI_OPTIMIZER_STATES + 2 * WEFTI_REPLICATOR_STATES +
                        WEFTI_MIXER_STATES
};

/* Where a rank has its parameters and all of its state, in one order; not copies of partners'
 * parameters, because partners change. Returns how many arrays there are. */
int wefti_rank_arrays(wefti_rank *r, float **out[WEFTI_RANK_ARRAYS]);

typedef struct wefti_carried {
    float *array[WEFTI_RANK_ARRAYS]; /* owned; first the parameters */
    int n;                           /* the larger number of arrays of the two ranks */
} wefti_carried;

/* Swaps the arrays of a rank with those that are carried; if these are the parameters alone,
 * only them. */
void wefti_carried_swap(wefti_carried *l, wefti_rank *r);

/* Frees what is in it. */
void wefti_carried_fini(weft_ctx *ctx, wefti_carried *l);

/* --- another form of what crosses the wire (job/form.h) --- */

/* What array i of wefti_rank_arrays is. */
enum { WEFTI_OF_RANK, WEFTI_OF_OPTIMIZER, WEFTI_OF_REPLICATOR, WEFTI_OF_MIXER };

typedef struct wefti_array_role {
    int owner;
    const char *name; /* of a replicator's or mixer's state */
} wefti_array_role;

void wefti_rank_roles(const wefti_rank *r, wefti_array_role out[WEFTI_RANK_ARRAYS]);

/* Gives a new rank the n arrays of one with another form, by swapping: what is left in `arrays` is
 * the caller's, and nothing is owed in it. Before prime. Collective over the nodes. */
weft_status wefti_rank_adopt(wefti_rank *r, const wefti_array_role *roles, float **arrays,
                             int n) WEFT_CHECKED;

/* Between two steps, before a rank departs from outer steps to a form in which all step alike: the
 * mean of the optimizer's states (r->mean), beside them, so that nothing has happened if the world
 * changes meanwhile. Collective over the nodes. r->has_mean where that failed: this rank has it,
 * and if no other world begins before `step` some rank goes on with it. */
weft_status wefti_rank_meet(wefti_rank *r, int64_t step) WEFT_CHECKED;

/* The same where the optimizer is a program's: x [n] of its states becomes their mean. */
weft_status wefti_rank_meet_outside(wefti_rank *r, int64_t step, float *x,
                                    int64_t n) WEFT_CHECKED;

/* Between two steps in the same world: what is left of a rank while the job is made with which it
 * goes on. `depart` takes the rank. `arrive` makes it again, primed, for a job whose first step is
 * the one to come; job NULL: there is none, and all is freed. On failure *r is NULL, and *params
 * are the caller's, if it asks for them (else NULL). */
typedef struct wefti_passage {
    weft_ctx *ctx;
    int rank;
    wefti_comms comms;
    wefti_carried arrays;
    wefti_array_role roles[WEFTI_RANK_ARRAYS];
    wefti_onward onward;
    bool averaged;
} wefti_passage;

void wefti_rank_depart(wefti_rank **r, wefti_passage *out);
weft_status wefti_rank_arrive(wefti_passage *departed, const wefti_job *job,
                              wefti_rank **r, float **params) WEFT_CHECKED;
