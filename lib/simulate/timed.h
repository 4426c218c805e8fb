/* SPDX-License-Identifier: MIT */
#pragma once

#include "mix/mixer.h"
#include "simulate/costs.h"
#include "simulate/links.h"
#include "step/schedule.h"

/* One step of one rank. */
typedef struct wefti_played {
    double step_s, exchange_s, wait_s;
    double codec_s, wire_s, late_s; /* of wait_s */
    double status_s;                /* waiting for the ranks' status, beside it */
} wefti_played;

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
    double
        same_s; /* part of work_s that does not depend on the compute rate of the machine */
    bool ends; /* is the op's last part */
} wefti_timed_op;

/* The exchange of a bucket by a replicator: rounds, and bytes by owner. */
typedef struct wefti_route_plan {
    int n_rounds;
    int64_t *bytes[2]; /* of wefti_replicator_lengths; owned */
    wefti_work work;
    bool one_by_one; /* messages of the first round are added as they come */
} wefti_route_plan;

typedef struct wefti_timed_bucket {
    wefti_route_plan near, far; /* far: between sites */
    wefti_work mixer;
    double optimizer_s, norm_s; /* norm_s: reading the gradient once */
} wefti_timed_bucket;

/* The same for all ranks with this shard. */
typedef struct wefti_timed_shard {
    wefti_arrangement *arrangement; /* owned */
    wefti_schedule *schedule;       /* owned */
    wefti_timed_bucket *buckets;    /* [n_buckets] owned */
    wefti_timed_op *ops;            /* [n_ops] owned */
    int n_ops, room;
} wefti_timed_shard;

typedef struct wefti_timed {
    weft_ctx *ctx; /* borrowed, like the next two */
    const weft_cluster *cluster;
    const wefti_job *job;
    wefti_timed_shard *shards; /* [S] owned */
    wefti_link_time links[WEFTI_LINK_CLASSES];
    bool emulated; /* the wire is mesh.link, and all ranks share this machine */
    double *pair_bandwidth_Bps, *pair_latency_s; /* [nodes^2] owned, or NULL */
    double compute_s; /* compute time of a step without waiting: without minimum times, */
    double paced_s;   /* and with them */
    double mean_s;    /* of cluster->step_s: their median */
} wefti_timed;

/* --- the cost laws that both players share --- */

/* The compute time of a part on a machine whose FLOP take `times` as long as on the
 * cluster's other machines; reading memory and launching take the same time. So a higher
 * rate of the others never makes it longer. */
static inline double wefti_timed_work(const wefti_timed_op *part, double times) {
    return part->work_s + (times - 1) * (part->work_s - part->same_s);
}

/* Bytes that a message of n_bytes takes of a link's rate. */
static inline double wefti_link_bytes(const wefti_link_time *link, double n_bytes) {
    return n_bytes * link->stretch + link->bytes_per_message;
}

/* The time in which a phase first processes the gradient: it is read once for a norm, and
 * read and written to scale it. */
static inline double wefti_timed_gradient_s(const wefti_timed_bucket *bucket,
                                            const wefti_phase *phase) {
    return phase->measures ? bucket->norm_s : phase->scales ? 2 * bucket->norm_s : 0;
}

/* The cost of receiving a round of messages: work for each message of another member, and
 * once after all of them. With one_by_one the work on a message is hidden behind waiting
 * for the next. */
typedef struct wefti_round_cost {
    double each_s, then_s;
    bool one_by_one;
} wefti_round_cost;

/* In round 0 the members' messages are combined; in round 1 the R answers are decoded,
 * including this rank's own. */
static inline wefti_round_cost wefti_timed_round(const wefti_route_plan *route, int round,
                                                 int R) {
    const wefti_work *work = &route->work;
    if (round == 1) return (wefti_round_cost){work->end_s / R, work->end_s / R, true};
    return (wefti_round_cost){work->combine_peer_s, work->combine_s, route->one_by_one};
}

/* Whether the act after act i of n answers what act i receives. */
static inline bool wefti_timed_answers(const wefti_mixer_act *acts, int n, int i) {
    return !acts[i].sends && i + 1 < n && acts[i + 1].sends && acts[i + 1].round == 1;
}

/* The work of a mixer's act: before its messages, for each message that it receives, and
 * after them.
 *
 *     act                       before   each           combine                   end
 *     sends round 0             begin
 *     sends round 1
 *     receives round 0                   combine_peer   combine                   end, unless
 *       among neighbours                                combine + n combine_peer  it answers
 *     receives round 1                                                            end
 *
 * Neighbours that answer each other mix a range of the bucket each: one of n + 1. */
typedef struct wefti_act_cost {
    double before_s, each_s, combine_s, end_s;
} wefti_act_cost;

static inline wefti_act_cost wefti_timed_act(const wefti_work *mixer, bool neighbours,
                                             const wefti_mixer_act *act, bool answers,
                                             int n) {
    bool first = act->round == 0;
    double share = neighbours && answers ? 1.0 / (n + 1) : 1;
    double all_s = neighbours ? share * n * mixer->combine_peer_s : 0;
    if (act->sends) return (wefti_act_cost){.before_s = first ? mixer->begin_s : 0};
    return (wefti_act_cost){.each_s = first && !neighbours ? mixer->combine_peer_s : 0,
                            .combine_s = first ? share * mixer->combine_s + all_s : 0,
                            .end_s = answers ? 0 : mixer->end_s};
}

/* How long a node computes, relative to the passes of the timed schedule: less than 1 where
 * batch.shares gives it fewer sequences. */
double wefti_timed_part(const wefti_timed *timed, int node);

/* `in_detail`: no op is merged with its neighbour or left out, for a timeline. */
weft_status wefti_timed_create(weft_ctx *ctx, const weft_cluster *cluster,
                               const wefti_job *job, bool in_detail,
                               wefti_timed **out) WEFT_CHECKED;
void wefti_timed_destroy(weft_ctx *ctx, wefti_timed *timed);

/* The random delays of a rank, for both players. Each draw depends only on (seed, step,
 * rank), so a seed has the same slow steps in both players. */

/* How much slower than usual the rank computes this step; 1: as usual. */
double wefti_jitter_factor(const wefti_timed *timed, uint64_t seed, int64_t step,
                           int rank);

/* Seconds that the rank stops at the beginning of the step; mostly 0. */
double wefti_jitter_halt(const wefti_timed *timed, uint64_t seed, int64_t step, int rank);

/* The constant factor by which machine number i is slower than others. */
double wefti_jitter_drift(const wefti_timed *timed, uint64_t seed, int i);

/* How much later than others rank r begins its first step, in steps: exponential, mean 1. */
double wefti_jitter_begin(uint64_t seed, int rank);

/* The rank that mesh.straggler_time strikes in the step. */
int wefti_jitter_straggler(const wefti_job *job, int64_t step);
