/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_RANK_H
#define WEFTI_RANK_H

#include "comm/comm.h"
#include "comm/worker.h"
#include "train/plan.h"

/* What every rank tells every other once per step; travels as three little-endian f64. */
typedef struct wefti_vote {
    double loss_sum; /* of this rank's tokens */
    double stop;     /* asked to stop */
    double failed;   /* the loss is not finite */
} wefti_vote;

enum { WEFTI_VOTE_BYTES = 24 };

/* What one step cost and did; summed over the ranks of a node. Doubles, in this order. */
typedef struct wefti_tally {
    double grad_squares, moved; /* squared norms of the node's gradient and its update */
    double exchange_s, wait_s;  /* exchange thread busy; compute thread waiting for it */
    double wire_out, wire_in, local_out, local_in; /* payload bytes */
} wefti_tally;

/* Full-size buffers of units in flight when S > 1: a tied embedding has its own place,
 * all other units share one. */
enum { WEFTI_PLACES = 2 };

typedef struct wefti_flight {
    float *buffer[WEFTI_PLACES];
    int unit[WEFTI_PLACES]; /* which unit lies there now, or -1 */
} wefti_flight;

/* Everything one rank owns. Its compute thread runs the step; its exchange thread runs
 * replicate -> optimize on completed buckets. */
typedef struct wefti_rank {
    const wefti_plan *plan; /* borrowed */
    weft_ctx *ctx;          /* borrowed */
    int rank, node, local;
    wefti_comm *shard, *replica,
        *control;                   /* owned; replica belongs to the exchange thread */
    wefti_arrangement *arrangement; /* owned */

    float *params, *grads;            /* [arrangement n_elements] shards, owned */
    float *state[2];                  /* optimizer state, parallel to params */
    wefti_flight gathered, gradients; /* S > 1 */
    float *staging;                   /* S > 1: largest unit */

    int32_t *tokens, *targets; /* [B,T] */
    float **outputs; /* [units - 1] each [B,T,C]: x after each unit but the head */
    float **saved;   /* [units] saved activations; all the same if recomputing */
    float *dy, *scratch;

    wefti_replicator *replicator;
    wefti_worker *worker;
    int64_t last_ticket;
    bool apply_in_exchange;   /* the exchange thread also optimizes: no clipping */
    bool clip_after_exchange; /* norm of the agreed gradient (full), else of the local one
                               */
    double *moved,
        *squares; /* [buckets] written by whoever applies, or begins, a bucket */

    /* the step under way; read by the exchange thread after a submit */
    int64_t step;
    float lr, grad_scale;
    wefti_vote vote;
    unsigned char ballot[WEFTI_VOTE_BYTES]; /* the vote as it travels */
    wefti_tally tally;
    double busy_before_s;
    wefti_traffic traffic_before;
    int64_t n_shard_messages;        /* makes the tags of the shard group */
    int64_t n_control_messages;      /* and of the control group, beside the votes */
    bool (*should_stop)(void *user); /* or NULL */
    void *stop_user;
} wefti_rank;

/* Allocates everything; after the first step nothing more is allocated. `comms` are
 * taken. */
weft_status wefti_rank_create(weft_ctx *ctx, const wefti_plan *plan, int rank,
                              wefti_comm *shard, wefti_comm *replica, wefti_comm *control,
                              wefti_rank **out) WEFT_CHECKED;
void wefti_rank_destroy(wefti_rank *r);

/* Initial values of this rank's shards, from the plan's seed. */
void wefti_rank_init_params(wefti_rank *r);

/* Bytes wefti_rank_create takes, item by item (tests/dist/test_memory.c). */
typedef struct wefti_footprint {
    int64_t parameters, gradients, optimizer, replicator, in_flight, activations, batch,
        total;
} wefti_footprint;

wefti_footprint wefti_rank_footprint(const wefti_plan *plan, const wefti_arrangement *a);

/* --- step.c: the way of one step --- */

/* Computes step `step` and leaves its exchange under way. Collective. */
weft_status wefti_rank_step(wefti_rank *r, int64_t step) WEFT_CHECKED;

/* Waits for the exchange of the last step and for everybody's vote: *agreed is their sum
 * in rank order, *tally the node's. Collective. */
weft_status wefti_rank_settle(wefti_rank *r, wefti_vote *agreed,
                              wefti_tally *tally) WEFT_CHECKED;

/* A tag of the control group that no vote and no other call uses; all ranks agree on it.
 */
int64_t wefti_rank_control_tag(wefti_rank *r);

/* --- passes.c: units forward and backward --- */

/* All units but the head forward on r->tokens; `row` is the first sequence's global
 * index. */
weft_status wefti_rank_forward(wefti_rank *r, bool training, int64_t row) WEFT_CHECKED;

/* The head's loss alone, after wefti_rank_forward(training = false). */
weft_status wefti_rank_loss(wefti_rank *r, double *loss_sum) WEFT_CHECKED;

/* All units backward. After the last micro-batch every completed bucket is handed over,
 * unless the gradient has to be clipped first. */
weft_status wefti_rank_backward(wefti_rank *r, int64_t row, int64_t micro) WEFT_CHECKED;

/* Parameters of unit u in full, gathered if S > 1. Collective over the shard group. */
weft_status wefti_rank_gather(wefti_rank *r, int u, const float **params) WEFT_CHECKED;

/* Parameters changed: nothing gathered is valid any more. */
void wefti_rank_forget_gathered(wefti_rank *r);

/* Hands bucket b to the exchange thread; without overlap waits for it. */
weft_status wefti_rank_submit(wefti_rank *r, int b) WEFT_CHECKED;

/* --- exchange.c: the two phases of the exchange thread --- */
weft_status wefti_exchange_begin(void *rank, int64_t bucket);
weft_status wefti_exchange_end(void *rank, int64_t bucket);
void wefti_exchange_prepare(void *rank);

/* Applies the optimizer to one bucket. */
void wefti_exchange_apply(wefti_rank *r, int bucket);

/* --- evaluate.c --- */

/* Mean loss in nats over the first `max_tokens` (0 = all) validation tokens. Collective.
 */
weft_status wefti_rank_evaluate(wefti_rank *r, int64_t max_tokens, double *loss,
                                int64_t *n_tokens) WEFT_CHECKED;

#endif
