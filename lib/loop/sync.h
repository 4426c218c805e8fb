/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/sync.h>

#include "config/value.h"
#include "loop/loop.h"

/* What a copy says of its step: weft_sync_reported. */
typedef struct wefti_sync_report {
    double rows, seconds;
    int was;
} wefti_sync_report;

/* The inside of a weft_sync. Its calls are made by one thread at a time; the exchange
 * thread reads the job's rules and the rank's rate between a bucket's hand-over and its end. */
struct weft_sync {
    weft_ctx *ctx; /* borrowed, like the next two */
    weft_mesh *mesh;
    const weft_config *config;
    weft_config *own_config; /* owned; NULL until processes are lost or join: then the
                                job's */
    weft_sync_setup setup;   /* pointers in it are not used after create */
    wefti_job *job;          /* owned, like the next two */
    wefti_world *world;      /* with a mesh: the mesh's */
    wefti_rank *rank;
    struct wefti_sync_replan *replan; /* owned; NULL: what crosses the wire stays */
    int64_t process;                  /* that created it: its forks take no part */
    bool borrowed;   /* parameters and gradients are the caller's blocks */
    bool elastic;    /* continues when others are lost (sync_regroup.c) */
    bool joins;      /* this process joins a run that is training, */
    bool bare;       /* and has no parameters and no state yet */
    bool begun;      /* parameters are the same everywhere */
    bool primed;     /* the mixer has sent what the first step needs */
    int64_t step;    /* the current step */
    int64_t counted; /* steps whose status was read */
    double rate;     /* NAN: the schedule's */
    double ended_s;  /* the last step, on wefti_now_s; later by what waiting took */

    /* The current step: set anew when it ends. */
    struct {
        bool *ready;         /* [tensors] owned: ready in this step */
        wefti_offer *offers; /* [tensors] owned, where the caller compresses */
        int *missing;        /* [buckets] owned: tensors that are not ready */
        double mark;         /* of the parameters; NAN: none */
        bool opened;         /* its computing has begun */
        bool handed_over;    /* a bucket of it is with the exchange thread */
        bool completed;      /* between weft_sync_complete and weft_sync_step or agree, */
        bool passed;         /* and the ranks have skipped it */
        int named;           /* buckets, by weft_sync_wait_any */
        bool agreed;         /* between weft_sync_agree and weft_sync_mix */
        bool skip;           /* this rank wants to skip it */
    } now;

    /* The world that the ranks are in. */
    struct {
        int round;      /* of the mesh (mesh/mesh.h); -1: none */
        bool started;   /* membership has been started, for this exchange */
        bool anew;      /* it has begun, and nothing was exchanged in it */
        int was;        /* own copy when the last step ended; -1: it had none */
        int64_t number; /* 0: that of the beginning */
    } view;

    /* With setup.uneven: rows of this process, and what each copy has sent of its own. */
    struct {
        double *window; /* [n_window] owned: of the last steps */
        int n_window;
        double loss;                /* the step's mean loss */
        double took_s;              /* what this process says that its step took */
        wefti_sync_report *reports; /* [n_reports] owned */
        int n_reports;
    } rows;

    /* Between two steps: averages of all parameters. */
    struct {
        bool held;         /* the gradients hold the parameters before averaging */
        int64_t n_ended;   /* since the last step */
        int64_t averaging; /* as in a card */
        int64_t known;     /* averages that all have; -1: not all cards have come */
        int64_t owed;      /* of a newcomer: those that the others make again */
        bool missed;       /* the others make some before its first step */
        float *aside;      /* owned: a mean, while the rank is made again; or NULL */
    } average;

    /* Owned copies of the setup's, or NULL; and what the caller has pointers to. */
    struct {
        char *alike, *folder, *decided;
        char change[1200],
            shown[1200]; /* who was lost, or joined, until the caller asks */
        char name[64];   /* of the state array last asked for */
    } text;
};

/* Called when all gradients are complete: submits the buckets that were not submitted
 * before, once in a step. *skipped: the ranks have agreed to skip the step. */
weft_status wefti_sync_close(weft_sync *s, double loss, bool *skipped) WEFT_CHECKED;

/* Before the first step: fails on all ranks if some have resumed at another one. Collective. */
weft_status wefti_sync_compare_steps(weft_sync *s) WEFT_CHECKED;

/* What all ranks must have alike, where they step along one average: the rate that the program has
 * set, or 0. */
double wefti_sync_rate(const weft_sync *s);

/* Whether tensor i's exchange is waited for in this step: agree has ended, or wait_any named it. */
bool wefti_sync_ended(const weft_sync *s, int i);

/* Passes a status on. If this process's numbers are wrong (WEFT_ERR_NUMERIC) all others hear
 * it; where they go on without it, it may come back. */
weft_status wefti_sync_told(weft_sync *s, weft_status status) WEFT_CHECKED;

/* --- sync_tensors.c --- */

/* Makes the job of the caller's tensors with a configuration. nodes: as in wefti_job, or NULL;
 * taken, also on failure. */
weft_status wefti_sync_make_job(weft_sync *s, const weft_config *config, int *nodes,
                                wefti_job **out) WEFT_CHECKED;

/* Goes on with the same tensors and rules, and a configuration that is taken, also on failure. */
weft_status wefti_sync_renew_job(weft_sync *s, weft_config *config, int *nodes,
                                 int64_t first_step) WEFT_CHECKED;

/* Counts again, because the buckets may be different ones now. */
weft_status wefti_sync_count_anew(weft_sync *s) WEFT_CHECKED;

/* Resets the counts of what this step's buckets wait for. */
void wefti_sync_expect_all(weft_sync *s);

/* Reads the status of the steps up to `last`. */
weft_status wefti_sync_read_status(weft_sync *s, int64_t last,
                                   weft_sync_report *report) WEFT_CHECKED;

/* Gives a block back to the caller; or frees a block, or gives it back if it is the
 * caller's. */
void wefti_sync_give_back(weft_sync *s, float **block);
void wefti_sync_free_block(weft_sync *s, float **block);

/* Fails if an earlier error has left no rank. */
weft_status wefti_sync_check_whole(weft_sync *s) WEFT_CHECKED;

/* --- sync_uneven.c --- */

/* Fails if the means of what is configured have no place for weights. */
weft_status wefti_sync_check_uneven(weft_sync *s) WEFT_CHECKED;

/* Room for the rows of a mixer's period, where setup.uneven. */
weft_status wefti_sync_open_window(weft_sync *s) WEFT_CHECKED;

/* Fails in a step that weft_sync_weigh has to come first in, and has not. */
weft_status wefti_sync_check_weighed(weft_sync *s) WEFT_CHECKED;

/* Nobody has reported anything of the step to come. The copies, which were number `was` of the last
 * one, or copy 0, 1, ... if it is NULL. */
weft_status wefti_sync_unsay(weft_sync *s, int copies, const int64_t *was) WEFT_CHECKED;

/* Multiplies a bucket's gradient by this rank's weight. */
void wefti_sync_weigh_bucket(weft_sync *s, int b);

/* --- sync_regroup.c --- */

/* Whether this exchange continues when others are lost. */
bool wefti_sync_can_go_on(const weft_sync *s);

/* The error of a mesh whose membership has served another exchange. */
weft_status wefti_sync_refuse_mesh(weft_sync *s) WEFT_CHECKED;

/* Starts membership: from here on the exchange continues without lost processes.
 * Collective, before the first step. */
weft_status wefti_sync_start_membership(weft_sync *s) WEFT_CHECKED;

/* Enters the world that the next step belongs to. */
weft_status wefti_sync_follow(weft_sync *s) WEFT_CHECKED;

/* The average of weft_sync_average, among the ranks that are left. */
weft_status wefti_sync_average_all(weft_sync *s) WEFT_CHECKED;

/* Before it ends. */
void wefti_sync_part(weft_sync *s);

/* weft_sync_begin for a process that joins a run: it becomes a member, with parameters
 * and state. */
weft_status wefti_sync_join(weft_sync *s) WEFT_CHECKED;

/* --- sync_replan.c --- */

typedef struct wefti_sync_replan wefti_sync_replan;
void wefti_sync_end_replan(weft_sync *s);

/* What the first process, whoever it is, plans with: as in weft_sync_replan. */
weft_status wefti_sync_may_change(weft_sync *s, const weft_sync_limits *limits,
                                  const wefti_busy *busy) WEFT_CHECKED;
void wefti_sync_tell_replan(const weft_sync *s, weft_sync_limits *out, wefti_busy *busy);

/* Where what crosses the wire may change: the parameters have gone to all others since then, on
 * wefti_now_s(); measures each node's way out, where nothing did. Collective. */
weft_status wefti_sync_note_spread(weft_sync *s, double since_s) WEFT_CHECKED;

/* Before the status of a step: whether the first steps would take too long to tell the wire. */
void wefti_sync_foresee(weft_sync *s);

/* A step has ended: what the slowest process computed, what the step took beyond that, and bytes
 * that the node has sent. */
void wefti_sync_note_step(weft_sync *s, double computing_s, double wait_s, double sent);

/* The form that the exchange has; 0: it has none, or keeps it (job/form.h). */
int64_t wefti_sync_form_code(const weft_sync *s, double *momentum);

/* Before a world may begin with the step that opens: if the last status asked to leave outer steps,
 * the mean of the optimizer's states, beside them. */
weft_status wefti_sync_meet(weft_sync *s) WEFT_CHECKED;

/* Before a step opens: changes what crosses the wire if the last status asked for it. */
weft_status wefti_sync_change_form(weft_sync *s) WEFT_CHECKED;

/* --- sync_hold.c --- */

/* Before the world ends: what the program keeps elsewhere is in the rank's arrays. */
weft_status wefti_sync_settle(weft_sync *s) WEFT_CHECKED;

/* --- sync_alike.c --- */

/* Compares what must be equal in all processes that begin. Collective. */
weft_status wefti_sync_compare(weft_sync *s) WEFT_CHECKED;

/* Fills in config_hash and notice for membership. [out] *notice is owned by the caller. */
weft_status wefti_sync_notice(weft_sync *s, wefti_elastic_setup *setup,
                              void **notice) WEFT_CHECKED;

/* Fails with what a process that was refused has to change, if a member's notice says so. */
weft_status wefti_sync_explain(wefti_loop *l, const void *notice, int64_t n) WEFT_CHECKED;

/* --- sync_meet.c --- */

/* In an average; and 1 + n more: it has the mean, which was made in view n. */
#define WEFTI_SYNC_AVERAGES 1

/* What a rank's card says when a world begins (loop.h). */
typedef struct wefti_sync_card {
    int64_t has;        /* parameters and state */
    int64_t n_averages; /* ended since the last step */
    int64_t averaging;  /* 0, or from WEFTI_SYNC_AVERAGES on */
    int64_t was;        /* its copy when the last step ended; -1: it had none */
    int64_t form;       /* in which it exchanges (job/form.h); 0: as configured */
    double momentum;    /* of its outer steps */
    int64_t follows;    /* its form may change, so all tell how long they compute, */
    double loss;        /* and whoever is the first plans with this */
    int64_t steps;
    double bytes_per_day;
    wefti_busy busy;
    wefti_fault faults[WEFTI_FAULTY_MACHINES];
} wefti_sync_card;

/* Ops of the loop. */
weft_status wefti_sync_say(wefti_loop *l) WEFT_CHECKED;
weft_status wefti_sync_hear(wefti_loop *l) WEFT_CHECKED;
weft_status wefti_sync_pass(wefti_loop *l) WEFT_CHECKED;

/* --- sync_tensors.c and sync_offered.c --- */

/* Whether the direction agreed on in this step covers anything. */
bool wefti_sync_moves(const weft_sync *s);

/* The piece of tensor i in its bucket; NULL: a shard without rows. */
const wefti_piece *wefti_sync_piece(const weft_sync *s, int i);

/* For a caller that compresses: makes room for its offers; fails if tensor i was not
 * offered. */
weft_status wefti_sync_prepare_offers(weft_sync *s) WEFT_CHECKED;
weft_status wefti_sync_check_offered(weft_sync *s, int i) WEFT_CHECKED;

/* Fails unless a step is under way or may begin. */
weft_status wefti_sync_check_step(weft_sync *s) WEFT_CHECKED;

/* Fails unless the sync is between two steps. */
weft_status wefti_sync_check_rest(weft_sync *s, const char *what) WEFT_CHECKED;
