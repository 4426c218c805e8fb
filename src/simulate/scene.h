/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_SCENE_H
#define WEFTI_SCENE_H

#include "simulate/costs.h"

/* What is played: everything about a run on a cluster that does not change from step to
 * step. A rank's step is a list of acts of its compute thread; what its exchange thread
 * does follows from the jobs (eventplayer.c). */

typedef enum wefti_act_kind {
    WEFTI_ACT_RUN,    /* compute for `work_s`, and at least until `floor_s` of the step */
    WEFTI_ACT_SUBMIT, /* job `index` to the exchange thread */
    WEFTI_ACT_WAIT,   /* until all jobs have ended */
    WEFTI_ACT_MEET,   /* all ranks of the replica; then work_s */
    WEFTI_ACT_VOTE,   /* tell all */
    WEFTI_ACT_APPLY,  /* phase of bucket `index`, here instead of there */
    WEFTI_ACT_FINISH, /* the same */
    WEFTI_ACT_SETTLE, /* the step is over */
    WEFTI_ACT_COUNT   /* read the votes of vote_lag steps ago */
} wefti_act_kind;

typedef struct wefti_act {
    wefti_act_kind kind;
    int index;
    double work_s, floor_s; /* floor_s < 0: none */
    const char *what;       /* for the timeline */
} wefti_act;

/* A bucket's exchange of a replicator: rounds, and bytes by owner. */
typedef struct wefti_route_plan {
    int n_rounds;
    int64_t *bytes[2]; /* [R] owned */
    wefti_work work;
} wefti_route_plan;

typedef struct wefti_scene_bucket {
    wefti_route_plan near, far; /* far: between sites */
    wefti_work mixer;
    double optimizer_s, norm_s; /* norm_s: reading the gradient once */
} wefti_scene_bucket;

/* Alike for all ranks with this shard. */
typedef struct wefti_scene_shard {
    wefti_arrangement *arrangement; /* owned */
    wefti_scene_bucket *buckets;    /* [n_buckets] owned */
    wefti_act *acts;                /* [n_acts] owned */
    int n_acts, room;
} wefti_scene_shard;

/* A kind of link as messages find it. */
typedef struct wefti_scene_link {
    double bandwidth_Bps, latency_s, message_s, bytes_per_message;
    double stretch; /* of a message's bytes: what the protocol adds, and the incast */
} wefti_scene_link;

typedef struct wefti_scene {
    weft_ctx *ctx; /* borrowed, like the next two */
    const weft_cluster *cluster;
    const wefti_job *job;
    wefti_scene_shard *shards; /* [S] owned */
    wefti_scene_link links[WEFTI_LINK_CLASSES];
    bool emulated; /* the wire is mesh.link, and all ranks share this machine */
    bool apply_in_exchange, clip_after_exchange;
    int n_phases;
    double *pair_bandwidth_Bps, *pair_latency_s; /* [nodes^2] owned, or NULL */
    double compute_s; /* of a step, nothing waiting: without pace, and */
    double paced_s;   /* with it */
    double mean_s;    /* of cluster->step_s: their median */
} wefti_scene;

/* `in_detail`: every unit is an act of its own, for a timeline. */
weft_status wefti_scene_create(weft_ctx *ctx, const weft_cluster *cluster,
                               const wefti_job *job, bool in_detail,
                               wefti_scene **out) WEFT_CHECKED;
void wefti_scene_destroy(weft_ctx *ctx, wefti_scene *scene);

#endif
