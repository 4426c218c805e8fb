/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/worker.h"
#include "comm/world.h"
#include "job/job.h"

/* One step, written down once: what the compute thread of a rank does in order, and the
 * phases that every bucket passes on its exchange thread. Training executes it
 * (rank/step.c, rank/exchange.c), the event player plays it and the array player sums
 * it (simulate), and timelines take their names from it. */

/* What the compute thread does. `index` is a unit, a bucket or a micro-batch. */
typedef enum wefti_op_kind {
    WEFTI_OP_ANSWER,   /* submit the mixer's answer of a bucket */
    WEFTI_OP_LOAD,     /* the rows of a micro-batch */
    WEFTI_OP_GATHER,   /* a unit's parameters from the ranks of the replica */
    WEFTI_OP_FORWARD,  /* a unit */
    WEFTI_OP_BACKWARD, /* a unit */
    WEFTI_OP_REDUCE,   /* a unit's gradient to the ranks of the replica */
    WEFTI_OP_SUBMIT,   /* a bucket to the exchange thread */
    WEFTI_OP_INNER,    /* an optimizer step between passes (batch.shares=steps) */
    WEFTI_OP_STATUS,   /* loss, stop and failure to all ranks */
    WEFTI_OP_WAIT,     /* until all that was submitted has ended */
    WEFTI_OP_NORM,     /* of the gradient, over the replica: the clipping factor */
    WEFTI_OP_APPLY,    /* the phase of a bucket, on this thread */
    WEFTI_OP_FINISH,   /* the same */
    WEFTI_OP_SETTLE,   /* what the step cost, over the replica */
    WEFTI_OP_READ,     /* all ranks' status of job->lag.status steps ago */
    WEFTI_OP_KINDS
} wefti_op_kind;

typedef struct wefti_op {
    wefti_op_kind kind;
    int index;
    double share; /* BACKWARD: share of the step's computing done when it ends */
} wefti_op;

/* What the exchange thread does with a bucket. */
typedef enum wefti_phase_kind {
    WEFTI_PHASE_BEGIN,         /* replicator: encode, send */
    WEFTI_PHASE_COMBINE,       /* answer what the others sent; the mixer's answer */
    WEFTI_PHASE_END,           /* receive; with sites also: begin between them */
    WEFTI_PHASE_COMBINE_SITES, /* the same between sites */
    WEFTI_PHASE_END_SITES,
    WEFTI_PHASE_APPLY,  /* mixer before, optimizer, mixer after */
    WEFTI_PHASE_FINISH, /* the mixer's */
    WEFTI_PHASE_KINDS
} wefti_phase_kind;

typedef struct wefti_phase {
    wefti_phase_kind kind;
    wefti_group group; /* whose messages it waits for */
    bool measures;     /* reads the gradient's norm first, for the records, and to send
                          nothing that is not finite */
    bool scales;       /* clips the gradient first, and reads its norm */
} wefti_phase;

/* Which gradient is clipped. */
typedef enum wefti_clip {
    WEFTI_CLIP_NONE,
    WEFTI_CLIP_LOCAL, /* the replica's own, before it is exchanged */
    WEFTI_CLIP_AGREED /* what the replicas agreed on, on the compute thread */
} wefti_clip;

typedef struct wefti_schedule {
    wefti_clip clip;
    bool at_once;  /* a bucket is submitted as soon as its gradient is complete */
    bool overlaps; /* else every submit is followed by a wait */
    wefti_op *ops; /* [n_ops] owned */
    int n_ops, room;
    int passes_at, close_at; /* the ops of the micro-batches, and what follows them */
    int settle_at, read_at;  /* the last wait; READ, the last op */
    wefti_phase phases[WEFTI_PHASE_KINDS];
    int n_phases;
    wefti_order order; /* which phase of which bucket is next (comm/worker.h) */
    int n_buckets;
} wefti_schedule;

/* The schedule of a rank with this arrangement, in a replica; -1: in the one with the most rows. */
weft_status wefti_schedule_create(weft_ctx *ctx, const wefti_job *job,
                                  const wefti_arrangement *arrangement, int replica,
                                  wefti_schedule **out) WEFT_CHECKED;
void wefti_schedule_destroy(weft_ctx *ctx, wefti_schedule *schedule);

/* An item of the exchange thread is bucket number `item` or, from n_buckets on, the
 * mixer's answer of bucket item - n_buckets, which does something only in
 * WEFTI_PHASE_COMBINE. */
static inline bool wefti_schedule_is_answer(const wefti_schedule *s, int64_t item) {
    return item >= s->n_buckets;
}

static inline int wefti_schedule_bucket(const wefti_schedule *s, int64_t item) {
    return (int)(wefti_schedule_is_answer(s, item) ? item - s->n_buckets : item);
}

/* Names in timelines. A phase's name for an item; NULL: it does nothing there. */
const char *wefti_op_name(wefti_op_kind kind);
const char *wefti_schedule_phase_name(const wefti_schedule *s, int phase, int64_t item);
