/* SPDX-License-Identifier: MIT */
#pragma once

#include "mesh/elastic.h"
#include "rank/bootstrap.h"
#include "rank/carried.h"
#include "rank/learners.h"

/* What is done whenever membership changes, whoever runs the loop over the steps: `weft train`
 * (train/regroup.c) or a program (sync_regroup.c). A world consists of the ranks that take part.
 * For each new world a rank is made again, as if the run had been resumed with that number of
 * nodes, except that it keeps its parameters and state. */

/* What the ranks of a new world show each other, a card each. It is sent as it lies in memory,
 * numbers of 64 bits: all ranks have one byte order (transport.h carries no others). A card begins
 * with an int64_t, 1 if its rank has parameters and state, and ends with what the rank knows of
 * machines that computed wrongly (wefti_fault [WEFTI_FAULTY_MACHINES]). */
typedef struct wefti_loop_cards {
    void *own;
    int64_t n_bytes; /* of a card */
    int shards;      /* of the model: a copy of it is so many ranks */
    void *all;       /* [ranks] cards; owned, like `has` */
    bool *has;       /* [ranks] who has parameters and state */
    int first;       /* of those who have */
    bool heard;      /* all cards have come: membership has not changed meanwhile */
} wefti_loop_cards;

/* Shows `own` to all members, and takes their cards. Fails if nobody has some part of the model:
 * that is final for all who are here, whatever else changes meanwhile, because who goes on would
 * train with what nobody gave. Collective. */
weft_status wefti_loop_show(weft_ctx *ctx, wefti_bootstrap *members,
                            wefti_loop_cards *cards) WEFT_CHECKED;
void wefti_loop_put_away(weft_ctx *ctx, wefti_loop_cards *cards);

typedef struct wefti_loop wefti_loop;

/* What is special to one of the two loops. `user` is the loop's. */
typedef struct wefti_loop_ops {
    /* Fills in what l->cards.own says between its first number and the faults. */
    weft_status (*say)(wefti_loop *l);
    /* Reads the cards, which have all come; says in l->plan how state is handed over. */
    weft_status (*hear)(wefti_loop *l);
    /* Makes the job of l->world; it stays the loop's own. Collective. */
    weft_status (*make_job)(wefti_loop *l, const wefti_job **out);
    /* Hands over what is no array of the rank; NULL: there is nothing. Collective. */
    weft_status (*pass)(wefti_loop *l);
    /* The rank has parameters and state. NULL: nothing is done then. */
    weft_status (*met)(wefti_loop *l);
    /* Fails with what this process has to change if it was refused for a difference. */
    weft_status (*explain)(wefti_loop *l, const void *notice, int64_t n);
} wefti_loop_ops;

struct wefti_loop {
    const wefti_loop_ops *ops;
    void *user;
    weft_ctx *ctx,
        *rank_ctx; /* of what is made and logged between two worlds; of the rank */
    weft_mesh *mesh;
    wefti_bootstrap *members; /* made anew in each world */
    wefti_rank **rank;        /* NULL in a process that joins */
    bool *bare;               /* this rank has no parameters and no state yet */
    wefti_loop_cards cards;

    /* the world that begins */
    wefti_elastic_world world;
    wefti_learners_plan plan;
    wefti_carried carried;
    bool whole; /* membership has not changed meanwhile */
};

/* What membership is started with, but for what the ranks have to agree on first and for sites. */
wefti_elastic_setup wefti_loop_setup(const wefti_job *job, bool joins, bool own_loop);

/* Waits until all have begun membership, or until a view is without those that have not. */
weft_status wefti_loop_gather(weft_ctx *ctx, weft_mesh *mesh, wefti_comm *all,
                              int64_t tag) WEFT_CHECKED;

/* Waits until this process, which joins, is a member; *step: the first that it takes part in. If it
 * is refused, the error says what it has to change. */
weft_status wefti_loop_await_entry(wefti_loop *l, int64_t *step) WEFT_CHECKED;

/* Enters the world that begins with `step`, where *l->rank is this rank then. If a change of
 * membership interrupts this, WEFT_OK is returned and the next world does it again; unless another
 * rank has begun the step: then this rank does it, too, if it has parameters and state. All ranks
 * of the world call it before that step, and leave the loop afterwards; parameters in l->carried
 * are without a rank. */
weft_status wefti_loop_enter(wefti_loop *l, int64_t step) WEFT_CHECKED;
void wefti_loop_leave(wefti_loop *l);

/* wefti_bootstrap_look, which all end before the first step. A process that has not heard all
 * cards does not take part: nobody ends it then, nor begins the step; all make the next world. */
weft_status wefti_loop_look(wefti_loop *l, const char *folder) WEFT_CHECKED;

/* Forgets a failure of waiting for others that comes from a change of membership; the next world
 * does it again. Wrong parameters, for one, remain wrong. */
weft_status wefti_loop_forgive(wefti_loop *l, weft_status status) WEFT_CHECKED;

/* "lost rank 1 (host b); joined by ...; 3 nodes go on with step 7". one, many: who goes on. */
void wefti_loop_tell(const wefti_elastic_world *w, int n, const char *const words[2],
                     char out[1200]);
