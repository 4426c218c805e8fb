/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/interface.h"
#include "mix/mixer.h"
#include "simulate/arrayplayer.h"

/* Shared by the array player's files: arrayplayer.c has the threads, arraylinks.c the
 * all-to-all messages, arrayorder.c the order of phases. */

enum { WEFTI_ARRAY_ROUNDS = 2, WEFTI_ARRAY_STATUS_SLOTS = 2 * WEFTI_MAX_LAG };

/* As fmax and fmin of numbers, but compiled into one instruction. */
static inline double later(double a, double b) { return a > b ? a : b; }
static inline double sooner(double a, double b) { return a < b ? a : b; }

struct wefti_array_player {
    weft_ctx *ctx; /* borrowed, like the next three */
    const wefti_timed *timed;
    const wefti_job *job;
    const wefti_mixer_ops *mixer; /* of the job; looked up once */
    wefti_partner_lists *partners;
    wefti_weather weather;
    const wefti_timed_shard *shard; /* that of the first rank represents all */
    int R, nodes, copies, S, n_buckets;
    int64_t step;
    /* [R] owned */
    double *clock, *exchange, *begun, *settled, *factor, *halt, *drift, *leaves;
    wefti_interface *interfaces; /* [nodes] owned */
    double *circle;              /* [nodes] owned */
    /* [nodes] owned: factors, relative to the cluster's values, of computing time and of
     * the time of a message at the interface out and in */
    double *own_compute, *own_out, *own_in;
    double *outs; /* [n_outs] owned: the different values in own_out */
    int n_outs;
    double *ready; /* [2 n_buckets][R] owned: when submitted */
    double
        *arrived[2][WEFTI_ARRAY_ROUNDS]; /* [n_buckets][R] owned: replicator's, mixer's */
    int *places;                         /* [2 nodes] owned: of go_round */
    int *jobs;                           /* [2 n_buckets] owned: submitted in this step */
    int n_jobs;
    int64_t done[WEFTI_MAX_PHASES];
    double status_s[WEFTI_ARRAY_STATUS_SLOTS]; /* when the last one of a step was sent */
    double compute_s;                          /* of the step, sum over replicas */
    double stalled_s;            /* of mesh.straggler_time, what is over in this step */
    wefti_played sums;           /* of the step, sums over replicas */
    double *began, *idle, *late; /* [R] owned: of the current phase, see account() */
    double *first[2][WEFTI_ARRAY_ROUNDS],
        *sent[2][WEFTI_ARRAY_ROUNDS]; /* as arrived: see mail */
    double wire;                      /* 0: links cost nothing */
    double work;                      /* 0: coding does not */
    double wire_times;                /* factor of the time of a message */
};

static inline double *row(double *rows, const wefti_array_player *e, int i) {
    return rows + (int64_t)i * e->R;
}

/* Messages of a bucket's round: the times when a replica has the first one and all of
 * them, and when the last one was sent. */
typedef struct mail {
    double *first, *there, *sent; /* [R] */
} mail;

static inline mail mail_of(const wefti_array_player *e, bool mixer, int round,
                           int bucket) {
    return (mail){row(e->first[mixer][round], e, bucket),
                  row(e->arrived[mixer][round], e, bucket),
                  row(e->sent[mixer][round], e, bucket)};
}

static inline const wefti_link_time *wire_of(const wefti_array_player *e) {
    return &e->timed->links[e->nodes > 1 ? WEFTI_LINK_WIRE : WEFTI_LINK_LOCAL];
}

/* The time that the messages of all ranks of a replica take at an interface. */
static inline double busy_s(const wefti_array_player *e, double n_bytes) {
    const wefti_link_time *link = wire_of(e);
    if (link->bandwidth_Bps <= 0) return 0;
    return e->wire * e->wire_times * e->S * wefti_link_bytes(link, n_bytes) /
           link->bandwidth_Bps;
}

/* The least time of a message from one node to another, whose sockets hold no more. */
static inline double pair_s(const wefti_array_player *e, double n_bytes) {
    const wefti_link_time *link = wire_of(e);
    if (link->pair_Bps <= 0) return 0;
    return e->wire * e->S * wefti_link_bytes(link, n_bytes) / link->pair_Bps;
}

/* The phase that an exchange thread runs next, for its oldest job; -1: all have ended. */
int wefti_array_next_phase(const wefti_array_player *e);

/* Sends from every replica to every other one, at the times `x`. */
void wefti_array_send_to_all(wefti_array_player *e, double *x, double n_bytes, mail out);

/* The same of a round's messages (wefti_route_plan). */
void wefti_array_send_lengths(wefti_array_player *e, double *x, const int64_t *lengths,
                              mail out);
