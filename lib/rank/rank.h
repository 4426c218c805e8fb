/* SPDX-License-Identifier: MIT */
#pragma once

#include "mesh/mesh.h"
#include "collectives/robust.h"
#include "comm/sent.h"
#include "comm/world.h"
#include "job/job.h"
#include "job/speeds.h"
#include "rank/timeline.h"

typedef struct wefti_op wefti_op; /* step/schedule.h */
typedef struct wefti_schedule wefti_schedule;
typedef struct wefti_worker wefti_worker; /* comm/worker.h */
typedef struct wefti_replicator wefti_replicator;
typedef struct wefti_mixer wefti_mixer;
typedef struct wefti_matrices wefti_matrices; /* optim/matrices.h */

/* How many ranks say what this one does (a rate that they have set, a mark of their
 * parameters), and one that says something else. */
typedef struct wefti_alikes {
    int alike, others, other;
    double own, theirs;
    bool first; /* the first rank is among them */
} wefti_alikes;

/* What every rank sends to every other rank once per step, as five little-endian f64. */
typedef struct wefti_step_status {
    double loss_sum; /* of this rank's tokens */
    union {
        double stop; /* asked to stop the run of all */
        double
            told_s; /* in a loop whose rows differ: seconds that the step took so far */
    };
    union {
        double distance;  /* of the replicas, squared, in the step before (mix/mixer.h);
                             NAN: no estimate */
        double mark;      /* of the parameters, where copies are equal (weft_sync_mark);
                             NAN: none */
        double told_rows; /* in a loop whose rows differ (loop/sync_weigh.c) */
    };
    union {
        double computed_s;
        double told_since; /* in such a loop: rows of the last steps */
    };
    double rate;    /* that a loop has set for this rank, or 0 */
    double met;     /* ranks that have such an estimate; not sent, as what follows */
    double counted; /* ranks that are in the sum, and their sequences */
    double rows;
    double save; /* the first rank asks for a checkpoint; sent beside `stop` */
    double asked,
        heard;     /* copies of the model that were asked to stop, or to leave; all */
    double leaves; /* this rank's copy was asked to leave */
    wefti_alikes rates, marks;
} wefti_step_status;

_Static_assert(offsetof(wefti_step_status, met) == WEFTI_STATUS_BYTES,
               "job/job.h counts with it");

/* What one step cost and did; summed over the ranks of a node. Doubles, in this order. */
typedef struct wefti_tally {
    double grad_squares, moved; /* squared norms of the node's gradient and its update */
    double exchange_s, wait_s;  /* exchange thread busy; compute thread waiting for it */
    double wire_out, wire_in, local_out, local_in; /* payload bytes */
    double late; /* messages that the mixer did not wait for */
} wefti_tally;

/* Full-size buffers of units in flight when S > 1. */
typedef struct wefti_flight {
    float *buffer[WEFTI_PLACES];
    int unit[WEFTI_PLACES]; /* which unit lies there now, or -1 */
} wefti_flight;

/* A unit's parameters that stay for a step (mesh.keep_whole). */
typedef struct wefti_kept {
    float *buffer;
    bool valid;
} wefti_kept;

/* Seconds of computing, added up while a rank has such a clock (wefti_rank.passes.clock). */
typedef struct wefti_unit_clock {
    double *forward_s, *backward_s; /* [units] */
    double shard_s;                 /* gathering and reducing between shards */
} wefti_unit_clock;

/* A rank's communicators. Sites and replica belong to the exchange thread during a step,
 * to the compute thread between steps. */
typedef struct wefti_comms {
    wefti_comm *shard;   /* the ranks that share this replica */
    wefti_comm *rows;    /* the same, for the optimizer: rows of matrices */
    wefti_comm *replica; /* this shard in all replicas of the site */
    wefti_comm *sites;   /* this shard at its place in all sites; one site: as replica */
    wefti_comm *control; /* all ranks */
} wefti_comms;

/* A rank's place in all groups of a world. [out] all NULL on failure. */
weft_status wefti_comms_join(weft_ctx *ctx, wefti_world *world, int rank,
                             wefti_comms *out) WEFT_CHECKED;
void wefti_comms_destroy(wefti_comms *comms);

/* The world of a job's ranks: threads of this process with the wires that the
 * configuration emulates, or the processes of a mesh (NULL: there is none). [out] *out
 * for wefti_world_destroy; NULL on failure. */
weft_status wefti_rank_world(weft_ctx *ctx, const wefti_job *job, weft_mesh *mesh,
                             wefti_world **out) WEFT_CHECKED;

/* Copies of the model that have joined while the others train (rank/learners.h). */
typedef struct wefti_learners {
    int n;                /* copies of the model, the world's last ones; 0: none */
    int64_t first, until; /* they take no part in steps first .. until - 1 */
    int64_t slices, from; /* their state is sent in this many slices, from part `from`
                             on */
    int64_t rows;         /* of each step before `until` that are left out */
    int64_t given;        /* of a learner: all parts before this one have come */
    bool open;            /* they take no part yet */
    bool broken;          /* of a learner: a giver was lost */
    unsigned char *gift;  /* owned: what a giver has sent last, with tag `tag` */
    int64_t tag;
    bool sent; /* the gift may not have left yet */
} wefti_learners;

/* What a rank has of its world and its caller, and who takes its place goes on with. */
typedef struct wefti_onward {
    int64_t
        n_control_messages; /* makes the tags of the control group, beside the status, */
    int64_t n_replica_messages;      /* and of the exchange groups, between steps */
    wefti_traffic traffic;           /* when the step began */
    bool (*should_stop)(void *user); /* or NULL */
    void *stop_user;
    bool leaves_alone; /* asked to stop, its copy leaves, and the others continue */
} wefti_onward;

/* Everything one rank owns. Its compute thread runs the step; its exchange thread runs
 * replicate -> optimize on completed buckets. */
typedef struct wefti_rank {
    const wefti_job *job;           /* borrowed */
    weft_ctx *ctx;                  /* borrowed */
    int rank, replica, local;       /* rank = replica * S + local */
    wefti_comms comms;              /* owned */
    wefti_arrangement *arrangement; /* owned */
    wefti_schedule *schedule;       /* owned: what a step consists of */
    wefti_timeline *timeline;       /* owned; NULL: nothing is recorded */
    wefti_learners learners;
    wefti_onward onward;
    bool replays; /* what is not finite was not sent then, and does not count now */

    /* Owned by the exchange thread from a bucket's submit to its end, else by the compute
     * thread: params and grads, [arrangement n_elements] shards, and what moves them. */
    float *params, *grads;
    struct {
        float *state[WEFTI_OPTIMIZER_STATES]; /* parallel to params */
        wefti_matrices *matrices;             /* NULL: each element is moved by itself */
    } optimizer;
    wefti_replicator *replicator;
    wefti_replicator *site_replicator; /* NULL with one site */
    wefti_mixer *mixer;

    /* What comes from an earlier form of the exchange, or is handed on (rank/carried.h): between
     * steps. */
    struct {
        float *mean[WEFTI_OPTIMIZER_STATES]; /* of the state, over the nodes; or NULL */
        bool has_mean;
        float *
            owed; /* owned: what the earlier form has left out, and this step's gradient has
                        beside its own; or NULL */
    } carried;

    /* The compute thread's: units on their way through a pass (engine/passes). */
    struct {
        wefti_flight gathered, gradients; /* S > 1 */
        wefti_kept *kept; /* [units] owned, or NULL; then `gathered` has no buffers */
        float *staging;   /* S > 1: largest unit */
        float **outputs;  /* [units - 1] each [B,T,C]: x after each unit but the head */
        float **saved;    /* [units] saved activations; all the same if recomputing */
        float *dy, *scratch;
        wefti_unit_clock *clock; /* borrowed; NULL: nothing is measured */
    } passes;

    /* The compute thread's: rows. */
    struct {
        int32_t *tokens, *targets; /* [B, tokens of a row], [B, targets of a row] */
        int64_t counted,
            inner;         /* targets, and rows, of the optimizer step that is computed */
        int64_t pass_rows; /* rows of the current pass, at most B */
        int64_t micro, row; /* current micro-batch; its first sequence's global index */
    } batch;

    /* Set by the compute thread before a step, read by both: rows of this replica and others. */
    struct {
        double *weights;      /* [R] owned: wefti_job_weight of each; NULL: all 1 */
        double weight;        /* by which its gradient is multiplied before it is sent */
        wefti_speeds *speeds; /* with batch.shares=speed; owned; else NULL */
        wefti_said
            *said;     /* [R] owned: in the step that is read, the slowest of its ranks */
        int64_t *next; /* [R] owned: rows to come */
    } shares;

    /* Whether nodes send what they should. */
    struct {
        wefti_robust_watch watch; /* with mesh.robust; owned; the exchange thread's */
        wefti_sent sent;          /* with run.audit: digests of what it sends */
        uint64_t
            *digests;   /* [W][2] owned: what each has told of a step, in the status read
                              last */
        uint64_t *sums; /* [units] checksums of the parameters */
        int suspect;    /* the node that was named last; -1: none */
    } audit;

    /* The tickets are the compute thread's, which submits; norms belong to the thread that applies,
     * or begins, a bucket. */
    struct {
        wefti_worker *worker;
        int64_t last_ticket;
        int64_t *tickets; /* [buckets] of this step's exchange; 0: not submitted yet */
        double *moved, *squares; /* [buckets] */
    } exchange;

    /* The current step, set anew by wefti_rank_open. The compute thread writes it; the exchange
     * thread reads it after a submit. */
    int64_t step;
    struct {
        double begun_s;   /* when the step's computing began */
        double stopped_s; /* mesh.straggler_time, once it has been slept in this step */
        double paced_s;   /* of this step so far, by mesh.compute_time */
        float lr, grad_scale;
        wefti_step_status status;
        wefti_tally tally;
        _Atomic bool lost_loss;   /* its own loss is not finite in this step */
        int64_t n_shard_messages; /* makes the tags of the shard group */
    } now;

    /* The compute thread's: what it says with its status. */
    struct {
        bool is_sent; /* the status of this step, and received, before its passes ended */
        unsigned char sent[WEFTI_STATUS_SLOTS]
                          [WEFTI_STATUS_ROOM]; /* step t at t % slots */
        bool save;    /* with the next one; the first rank's word counts */
        int64_t form; /* the same for a form (job/form.h); 0: none */
    } says;

    /* The compute thread's: of the last step, or of the status that was read last. */
    struct {
        double distance; /* the mixer's, after the last step; NAN: there is none */
        double busy_before_s;
        int64_t late_before;
        int64_t relayed;   /* bytes that passed here between two others */
        int64_t form;      /* what the first rank asks for; 0: none */
        double computed_s; /* by the slowest rank, */
        double own_s;      /* and by this one */
        int slowest;
    } last;
} wefti_rank;

/* Allocates everything; after the first step nothing more is allocated. Takes `comms`,
 * also on failure. */
weft_status wefti_rank_create(weft_ctx *ctx, const wefti_job *job, int rank,
                              const wefti_comms *comms, wefti_rank **out) WEFT_CHECKED;
void wefti_rank_destroy(wefti_rank *r);

/* Sets the weights of a step, where the job's replicas have different rows. */
void wefti_rank_weigh(wefti_rank *r, int64_t step);

/* Whether this rank has joined, but does not take part yet. */
static inline bool wefti_rank_is_learner(const wefti_rank *r) {
    return r->learners.open && r->replica >= r->job->R - r->learners.n;
}

/* Sequences of its forward passes, at most. */
static inline int64_t wefti_rank_micro(const wefti_rank *r) {
    return wefti_job_micro(r->job, r->replica);
}

/* Copies of the model that take part. */
static inline int wefti_rank_replicas(const wefti_rank *r) {
    return r->job->R - (r->learners.open ? r->learners.n : 0);
}

/* The first row of the text that a step takes, in the endless sequence of rows. */
int64_t wefti_rank_first_row(const wefti_rank *r, int64_t step);

/* Lets the mixer send what the first step's gossip rounds need. Called once, before that
 * step. */
weft_status wefti_rank_prime(wefti_rank *r) WEFT_CHECKED;

/* --- step.c: a step is its schedule's ops --- */

/* Computes step `step`; its exchange may still be running on return. Collective. */
weft_status wefti_rank_step(wefti_rank *r, int64_t step) WEFT_CHECKED;

/* The two ends of a step, for callers that compute gradients themselves. wefti_rank_open
 * begins a step; wefti_rank_close, after the passes, sends the status and submits the
 * buckets that have not been submitted. */
weft_status wefti_rank_open(wefti_rank *r, int64_t step) WEFT_CHECKED;
weft_status wefti_rank_close(wefti_rank *r) WEFT_CHECKED;

/* Hands bucket b, complete, to the exchange thread; without overlap it waits for the
 * exchange. */
weft_status wefti_rank_submit(wefti_rank *r, int b) WEFT_CHECKED;

/* Waits for the exchange of the last step; *tally is that of the replica. Collective over
 * the replica. */
weft_status wefti_rank_settle(wefti_rank *r, wefti_tally *tally) WEFT_CHECKED;

/* Ends the step's timeline. The caller has read the status that this step reads,
 * and began to read it at begun_s (wefti_timeline_now). */
void wefti_rank_end(wefti_rank *r, double begun_s);

/* What this rank has computed in the step, so far. */
double wefti_rank_computed_s(const wefti_rank *r);

/* Sends r->status to all ranks as the status of `step`. */
weft_status wefti_rank_send_status(wefti_rank *r, int64_t step) WEFT_CHECKED;

/* Waits for what the ranks have sent of it, one call of `take` for each. */
weft_status wefti_rank_hear_status(wefti_rank *r, int64_t step,
                                   void (*take)(void *user, int rank, const void *bytes),
                                   void *user) WEFT_CHECKED;

/* The five numbers of a status, from its bytes. */
wefti_step_status wefti_rank_status_of(const void *bytes);

/* Counts a rank whose status of `step` is `theirs`, by its rate. */
void wefti_rates_note(const wefti_rank *r, int64_t step, int rank,
                      const wefti_step_status *theirs, wefti_alikes *rates);

/* Fails if most ranks have set another rate or hold other parameters than this one, or as many,
 * with the first of them. */
weft_status wefti_status_check(weft_ctx *ctx, const wefti_step_status *agreed,
                               int64_t step) WEFT_CHECKED;

/* Waits for the status of all ranks for `step`, at most WEFTI_MAX_LAG steps back: *agreed
 * is their sum in rank order. Called once for each step, in order. Collective. */
weft_status wefti_rank_read_status(wefti_rank *r, int64_t step,
                                   wefti_step_status *agreed) WEFT_CHECKED;

/* The replicas' consensus distance, sqrt(mean |x_i - mean x|^2), that the ranks agree on;
 * NAN if no rank had an estimate. */
double wefti_rank_consensus(const wefti_rank *r, const wefti_step_status *agreed);

/* Consensus control: the gossip round of step + 2 + job->lag.status is a mean of all
 * replicas if the status of `step` says that they are too far apart. By then all ranks
 * have read that status. Does nothing without mixer.consensus_bound. Called between
 * steps. */
void wefti_rank_control(wefti_rank *r, int64_t step, const wefti_step_status *agreed);

/* The same for the status of the next step, `step`, before a checkpoint is written: the
 * ranks of a run that is resumed there know nothing of the last mixing. Collective. */
weft_status wefti_rank_control_early(wefti_rank *r, int64_t step) WEFT_CHECKED;

/* A tag of the control group that no status and no other call uses; all ranks agree on it.
 */
int64_t wefti_rank_control_tag(wefti_rank *r);

/* Emulated slowness (mesh.compute_time, mesh.straggler_time): waits until this share of
 * the step's computing may be done. A rank drawn for the step waits longer. */
void wefti_rank_pace(wefti_rank *r, double share);

/* How the ops of a step that compute are done: the engine's train/forward_backward.c. A
 * library without it has passes.c, where all fail: a caller that computes gradients itself
 * runs none of them. */
typedef struct wefti_passes {
    weft_status (*load)(wefti_rank *r, const wefti_op *op);
    weft_status (*gather)(wefti_rank *r, const wefti_op *op);
    weft_status (*forward)(wefti_rank *r, const wefti_op *op);
    weft_status (*backward)(wefti_rank *r, const wefti_op *op);
    weft_status (*reduce)(wefti_rank *r, const wefti_op *op);
} wefti_passes;

extern const wefti_passes wefti_passes_here;

/* Called when parameters have changed: no gathered unit is valid any more. */
void wefti_rank_forget_gathered(wefti_rank *r);

/* --- exchange.c: what the exchange thread does with a bucket --- */

/* Makes the thread, with the phases of the schedule. */
weft_status wefti_exchange_create(wefti_rank *r) WEFT_CHECKED;

/* The optimizer alone, on one bucket. */
weft_status wefti_exchange_optimize(wefti_rank *r, int bucket) WEFT_CHECKED;

/* Optimizes and mixes one bucket: all but the mixer's finish. */
weft_status wefti_exchange_apply(wefti_rank *r, int bucket) WEFT_CHECKED;

/* --- reshare.c: with batch.shares=speed --- */

/* The seconds that a rank says its passes took in the step that is read; all have said it of
 * `step`. Without batch.shares=speed nothing is done. */
void wefti_rank_note_speed(wefti_rank *r, int rank, double seconds);
void wefti_rank_end_speeds(wefti_rank *r, int64_t step);

/* Whether the step to come, `step`, has other rows than the last: shares.next. All ranks that have
 * read the same statuses decide alike. took_s: as wefti_speeds_decide. */
bool wefti_rank_follows_speed(wefti_rank *r, int64_t step, double took_s[2]);

/* Between two steps, when the job has other rows: weights and passes are theirs. */
weft_status wefti_rank_reshare(wefti_rank *r) WEFT_CHECKED;

/* --- finite.c: what is not finite is not sent --- */

/* Fails, with the bucket and the tensor in the message, if the sum of squares of a bucket's
 * gradient, or of its optimizer's step, is not finite, for a number in `x`, the bucket's
 * gradient or parameters, is not. The second: if this rank's loss is not. */
weft_status wefti_rank_check_finite(wefti_rank *r, int bucket, const float *x,
                                    double squares) WEFT_CHECKED;
weft_status wefti_rank_check_loss(wefti_rank *r) WEFT_CHECKED;

/* The error of a rank whose numbers are wrong, WEFT_ERR_NUMERIC. Where the others go on it
 * ends alone, and comes back; else all end, and resume from a checkpoint. */
weft_status wefti_wrong_end(weft_ctx *ctx, weft_mesh *mesh) WEFT_CHECKED;

/* --- replicas.c: one model out of several --- */

/* params <- their mean over all replicas, in the order of the replicas; the old values
 * are kept in the gradients until wefti_rank_restore. Collective; between steps. */
weft_status wefti_rank_average(wefti_rank *r) WEFT_CHECKED;
void wefti_rank_restore(wefti_rank *r);

/* Between average and restore: this rank's share of |x_i - mean x|^2. */
double wefti_rank_distance_squares(const wefti_rank *r);

/* Compares a checksum of each unit's parameters over the replicas that must be equal
 * after step `step`; WEFT_ERR_NUMERIC names the first unit and replica that differ.
 * Collective; between steps. */
weft_status wefti_rank_compare(wefti_rank *r, int64_t step) WEFT_CHECKED;

/* Of R lists of sums, n_bytes long each: the first one of those that most ranks have. */
int wefti_rank_find_most(const uint64_t *all, int R, size_t n_bytes);

/* Before the first step: checks that all replicas have the same parameters. If not, all
 * ranks fail with an error that names the first rank that differs. Collective. */
weft_status wefti_rank_compare_initial(wefti_rank *r) WEFT_CHECKED;
