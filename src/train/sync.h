/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/sync.h>

#include "train/rank.h"

/* The inside of a weft_sync. Its calls are made by one thread at a time; the exchange
 * thread reads the job's rules and the rank's rate between a bucket's hand-over and its end. */
struct weft_sync {
    weft_ctx *ctx; /* borrowed, like the next two */
    weft_mesh *mesh;
    const weft_config *config;
    weft_config *own_config; /* owned; NULL until others are lost or come: then the job's */
    weft_sync_setup setup; /* pointers in it are not used after create */
    wefti_job *job;        /* owned, like the next two */
    wefti_world *world;    /* with a mesh: the mesh's */
    wefti_rank *rank;
    int n_tensors;
    bool *ready;         /* [tensors] owned: in this step */
    wefti_offer *offers; /* [tensors] owned, where the caller compresses */
    int *missing;        /* [buckets] owned: tensors that are not */
    double rate;         /* NAN: the schedule's */
    bool begun;          /* parameters are the same everywhere */
    bool primed;         /* the mixer has sent what the first step needs */
    bool opened;         /* the step's computing has begun */
    bool handed_over;    /* a bucket of this step is with the exchange thread */
    bool completed;      /* between weft_sync_complete and weft_sync_step or agree, */
    bool passed;         /* and the ranks have skipped this step */
    int n_told;          /* buckets that weft_sync_wait_any has named */
    bool agreed;         /* between weft_sync_agree and weft_sync_mix */
    bool averaged;       /* the gradients hold the parameters of before */
    bool skip;           /* this rank wants to skip the step */
    bool borrowed;       /* parameters and gradients are the caller's blocks */
    bool elastic;        /* goes on when others are lost (sync_regroup.c) */
    bool started;        /* the mesh does, for this exchange */
    bool joins;          /* this process comes into a run that trains (sync_join.c), */
    bool bare;           /* and has no parameters and no state yet */
    bool averaging;      /* it is in weft_sync_average */
    int64_t n_averages;  /* ended since the last step */
    char change[1200], told[1200]; /* who was lost, or came, until the caller asks; as told */
    int64_t step;        /* under way */
    int64_t counted;     /* steps whose status was read */
    int64_t process;     /* that created it: its forks have no part */
    char name[64];       /* of the state array last asked for */
};

/* All gradients are complete: the exchange of what was not yet handed over begins, once in a
 * step. *skipped: the ranks have agreed to skip it. */
weft_status wefti_sync_close(weft_sync *s, double loss, bool *skipped) WEFT_CHECKED;

/* --- sync_tensors.c --- */

/* The tensors with a configuration as a job of their own. */
weft_status wefti_sync_make_job(weft_sync *s, const weft_config *config,
                                wefti_job **out) WEFT_CHECKED;

/* Counts anew what this step's buckets wait for. */
void wefti_sync_expect_all(weft_sync *s);

/* Reads the status of the steps up to `last`. */
weft_status wefti_sync_read_status(weft_sync *s, int64_t last,
                                   weft_sync_report *report) WEFT_CHECKED;

/* Gives a block back to the caller; or frees one, whoever's it is. */
void wefti_sync_give_back(weft_sync *s, float **block);
void wefti_sync_free_block(weft_sync *s, float **block);

/* An error after one that left no rank. */
weft_status wefti_sync_check_whole(weft_sync *s) WEFT_CHECKED;

/* --- sync_regroup.c --- */

/* Whether this exchange goes on when others are lost. */
bool wefti_sync_can_go_on(const weft_sync *s);

/* The error of a mesh that does so for another exchange. */
weft_status wefti_sync_refuse_mesh(weft_sync *s) WEFT_CHECKED;

/* From here on it does. Collective, before the first step. */
weft_status wefti_sync_start_membership(weft_sync *s) WEFT_CHECKED;

/* Into the world that the step to come belongs to. */
weft_status wefti_sync_follow(weft_sync *s) WEFT_CHECKED;

/* The next world, which has begun: its job, its rank, and what all do there first. */
weft_status wefti_sync_regroup(weft_sync *s) WEFT_CHECKED;

/* The average of weft_sync_average, among those who are left. */
weft_status wefti_sync_average_all(weft_sync *s) WEFT_CHECKED;

/* --- sync_join.c --- */

/* The beginning of who comes into a run: a member of it, with parameters and state. */
weft_status wefti_sync_join(weft_sync *s) WEFT_CHECKED;

/* --- sync_meet.c --- */

/* What all have to have alike: the configuration, and the tensors. */
weft_status wefti_sync_hashes(weft_sync *s, uint64_t *config, uint64_t *data) WEFT_CHECKED;

/* What all of a new world do first; one that is lost meanwhile makes the next world do it again. */
weft_status wefti_sync_meet(weft_sync *s) WEFT_CHECKED;

/* One try at an average of all. *have: this process has it. */
weft_status wefti_sync_average_once(weft_sync *s, bool *have) WEFT_CHECKED;

/* --- sync_tensors.c and sync_offered.c --- */

/* Whether the direction agreed on in this step covers anything. */
bool wefti_sync_moves(const weft_sync *s);

/* Tensor i among the pieces of its bucket; NULL: a shard without rows. */
const wefti_piece *wefti_sync_piece(const weft_sync *s, int i);

/* Where the caller compresses: room for what it offers; and whether it has offered tensor i. */
weft_status wefti_sync_prepare_offers(weft_sync *s) WEFT_CHECKED;
weft_status wefti_sync_check_offered(weft_sync *s, int i) WEFT_CHECKED;

/* An error unless the sync rests between two steps. */
weft_status wefti_sync_check_rest(weft_sync *s, const char *what) WEFT_CHECKED;
