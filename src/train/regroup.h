/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/elastic.h"
#include "train/prepare.h"

/* A run whose processes change while it trains. A world is made of those that take part; of
 * each new one this rank is made anew, as if the run had been resumed with so many nodes,
 * but for its state, which it keeps. */

/* Whether the run can go on without a node that is lost: weft's own transport, no mixer.deadline
 * between sites of several nodes, and no more processes than membership has room for (202 with
 * gossip, places for joiners included). */
bool wefti_regroup_can(const wefti_prepared *p);

/* Why the loss of a process ends this run, though the configuration lets it go on and its transport
 * could; NULL: it goes on, or nobody expects that of it. */
const char *wefti_regroup_obstacle(const wefti_prepared *p);

/* What the configuration says of membership. own_loop: between the steps is a caller's loop. */
wefti_elastic_policy wefti_regroup_policy(const weft_config *config, bool own_loop);

/* From here on it does. Collective. */
weft_status wefti_regroup_start(weft_ctx *ctx, wefti_prepared *p) WEFT_CHECKED;

/* Enters the world that begins with `step`: prepared has its job, *state is this rank in
 * it, *change what happened. All ranks of the world do so before that step. */
weft_status wefti_regroup(weft_ctx *ctx, weft_ctx *rank_ctx, wefti_prepared *p,
                          int64_t step, wefti_rank **state,
                          wefti_elastic_world *change) WEFT_CHECKED;

/* --- for replays --- */

/* A world's job, in place of p->job, from a first step and row on. */
typedef struct wefti_regroup_batch {
    int ranks;
    int64_t rows_per_rank, micro, first_step, first_row;
    const int *places; /* [ranks] in the mesh, which say of what site each is; NULL: of none */
} wefti_regroup_batch;

weft_status wefti_regroup_job(weft_ctx *ctx, wefti_prepared *p,
                              const wefti_regroup_batch *batch) WEFT_CHECKED;

/* What a rank takes along from one world to the next: parameters and all state, each as long as
 * the parameters, in backward order of the units whatever the buckets are. */
enum {
    WEFTI_LUGGAGE_STATES = WEFTI_OPTIMIZER_STATES + 2 * WEFTI_REPLICATOR_STATES +
                           WEFTI_MIXER_STATES
};
typedef struct wefti_luggage {
    float *params, *state[WEFTI_LUGGAGE_STATES]; /* owned */
    int n;                                       /* most states of either rank */
} wefti_luggage;

/* The arrays of a rank for those of the luggage. */
void wefti_luggage_exchange(wefti_luggage *l, wefti_rank *r);

/* Frees what is in it. */
void wefti_luggage_leave(weft_ctx *ctx, wefti_luggage *l);

/* What each pair of partners knows of each other (choco): the mean of all. Interrupted, the world
 * that comes next begins with it again. */
weft_status wefti_rank_meet_anew(wefti_rank *r) WEFT_CHECKED;
