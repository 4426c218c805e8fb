/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_TIMED_H
#define WEFTI_TIMED_H

#include "simulate/costs.h"
#include "step/schedule.h"

/* The schedule of a step (step/schedule.h) with the time that its parts take on a cluster:
 * everything about a run that does not change from step to step. */

/* How the time of an op's part passes. */
typedef enum wefti_timing {
    WEFTI_TIMING_COMPUTE, /* work_s, and at least until floor_s of the step */
    WEFTI_TIMING_MEET,    /* until all ranks of the replica are there; then work_s */
    WEFTI_TIMING_ACT      /* as the players act on the op */
} wefti_timing;

/* A part of an op. */
typedef struct wefti_timed_op {
    wefti_timing timing;
    wefti_op op;
    double work_s, floor_s; /* floor_s < 0: none */
    bool ends;              /* is the op's last part */
} wefti_timed_op;

/* A bucket's exchange of a replicator: rounds, and bytes by owner. */
typedef struct wefti_route_plan {
    int n_rounds;
    int64_t *bytes[2]; /* [R] owned */
    wefti_work work;
} wefti_route_plan;

typedef struct wefti_timed_bucket {
    wefti_route_plan near, far; /* far: between sites */
    wefti_work mixer;
    double optimizer_s, norm_s; /* norm_s: reading the gradient once */
} wefti_timed_bucket;

/* Alike for all ranks with this shard. */
typedef struct wefti_timed_shard {
    wefti_arrangement *arrangement; /* owned */
    wefti_schedule *schedule;       /* owned */
    wefti_timed_bucket *buckets;    /* [n_buckets] owned */
    wefti_timed_op *ops;            /* [n_ops] owned */
    int n_ops, room;
} wefti_timed_shard;

/* A kind of link as messages find it. */
typedef struct wefti_link_time {
    double bandwidth_Bps, latency_s, message_s, bytes_per_message;
    double stretch; /* of a message's bytes: what the protocol adds, and the incast */
} wefti_link_time;

typedef struct wefti_timed {
    weft_ctx *ctx; /* borrowed, like the next two */
    const weft_cluster *cluster;
    const wefti_job *job;
    wefti_timed_shard *shards; /* [S] owned */
    wefti_link_time links[WEFTI_LINK_CLASSES];
    bool emulated; /* the wire is mesh.link, and all ranks share this machine */
    double *pair_bandwidth_Bps, *pair_latency_s; /* [nodes^2] owned, or NULL */
    double compute_s; /* of a step, nothing waiting: without pace, and */
    double paced_s;   /* with it */
    double mean_s;    /* of cluster->step_s: their median */
} wefti_timed;

/* `in_detail`: no op is merged with its neighbour or left out, for a timeline. */
weft_status wefti_timed_create(weft_ctx *ctx, const weft_cluster *cluster,
                               const wefti_job *job, bool in_detail,
                               wefti_timed **out) WEFT_CHECKED;
void wefti_timed_destroy(weft_ctx *ctx, wefti_timed *timed);

#endif
