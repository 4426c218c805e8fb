/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_STAGE_H
#define WEFTI_STAGE_H

#include "simulate/eventqueue.h"
#include "simulate/eventplayer.h"

/* What the files of the event player share: eventplayer.c is the threads,
 * phases.c what a phase of a job consists of, wires.c the messages. */

/* What an exchange thread's time went to. */
typedef enum wefti_class {
    WEFTI_CLASS_CODEC,
    WEFTI_CLASS_WIRE,
    WEFTI_CLASS_LATE,
    WEFTI_CLASSES
} wefti_class;

typedef enum wefti_channel {
    WEFTI_CHANNEL_NEAR = 1,
    WEFTI_CHANNEL_FAR,
    WEFTI_CHANNEL_MIXER,
    WEFTI_CHANNEL_VOTE
} wefti_channel;

typedef enum wefti_op_kind {
    WEFTI_OP_WORK,
    WEFTI_OP_SEND,
    WEFTI_OP_RECEIVE
} wefti_op_kind;

/* A piece of a phase. */
typedef struct wefti_op {
    wefti_op_kind kind;
    wefti_channel channel;
    int bucket, round;
    int64_t exchange;    /* names the messages: a step */
    double seconds;      /* of work; of a receive, for each message as it comes */
    wefti_mixer_act act; /* of the mixer's channel */
} wefti_op;

/* A thread waits for one thing at a time. */
typedef enum wefti_state {
    WEFTI_RUNS,
    WEFTI_WAITS_MESSAGE,
    WEFTI_WAITS_ROOM,  /* its buffers are still being read */
    WEFTI_WAITS_JOB,   /* exchange thread: nothing to do */
    WEFTI_WAITS_JOBS,  /* compute thread: for the exchange thread */
    WEFTI_WAITS_SHARD, /* for the other ranks of the replica */
    WEFTI_WAITS_VOTES  /* for the last of all */
} wefti_state;

enum { WEFTI_MAX_OPS = 16, WEFTI_THREADS = 2 };

typedef struct wefti_thread {
    int rank;
    bool exchanges; /* is the exchange thread */
    wefti_state state;
    double now_s;
    int at_act; /* compute thread: in the scene's list */
    wefti_op ops[WEFTI_MAX_OPS];
    int n_ops, at_op;
    int *peers; /* [group] owned: of the receive at hand */
    int n_peers, at_peer;
    double moment_s;  /* at which the receive at hand goes on without; INFINITY: never */
    uint64_t key;     /* that it waits for */
    int64_t mark;     /* events of earlier waits are stale */
    int64_t piece;    /* counts what it has done */
    int phase, job;   /* exchange thread: under way */
    double begun_s;   /* the phase, or the wait */
    double resumed_s; /* when it began to run this time */
} wefti_thread;

/* A piece of a phase as it went, for splitting a wait; its parts are taken to be spread
 * over it evenly. */
typedef struct wefti_segment {
    double begin_s, end_s, parts_s[WEFTI_CLASSES];
    int64_t piece;
} wefti_segment;

typedef struct wefti_sim_rank {
    int replica, shard, node, site;
    int64_t step;
    double begun_s, settled_s; /* this step; the one before */
    /* Computing of this step: slower by so much, stopped at the beginning, and the pace
     * later (mesh.straggler_time). */
    double factor, drift, halt_s, stall_s;
    int *jobs; /* [capacity] owned ring */
    int64_t capacity, submitted, done[8];
    double busy_s, exchange_s, covered_s;
    double counted_s;        /* of busy_s and exchange_s, up to the step before */
    wefti_segment *segments; /* owned; of this step */
    int n_segments, room;
    double *sent_s; /* [n_buckets][2] owned: the mixer's, by exchange */
    int *unread;    /* [n_buckets][2] owned: messages of a buffer not read yet */
    double *read_s; /* [n_buckets][2] owned: when the last one was */
    wefti_played tally;
} wefti_sim_rank;

typedef struct wefti_interface {
    double out_free_s, in_free_s;
} wefti_interface;

/* A message between its interfaces, where the receiver's is booked as it gets there. */
typedef struct wefti_sim_flight {
    uint64_t key;
    double busy_s;
    int to_rank, to_interface;
    bool far;
    int64_t next_free;
} wefti_sim_flight;

typedef struct wefti_stage {
    weft_ctx *ctx;
    const wefti_scene *scene;
    const wefti_job *job;
    wefti_play *play;
    int W, S, R;
    wefti_thread *threads; /* [2 W] compute, then exchange threads */
    wefti_sim_rank *ranks; /* [W] */
    wefti_interface *nodes, *sites;
    double *pair_free_s; /* [nodes^2] or NULL */
    wefti_sim_flight *flights;
    int64_t n_flights, flight_room, free_flight;
    wefti_event_queue board;
    wefti_agenda agenda;
    struct {
        int n;
        double latest_s;
    } * meetings; /* [R] ranks of a replica that have come */
    struct {
        int n;
        double last_s; /* cast */
    } votes[WEFTI_BALLOTS];
    int64_t n_settled;  /* ranks and steps */
    int64_t n_messages; /* sent so far */
    int64_t last_step;  /* steps in all; fewer if there are too many messages */
    uint32_t n_draws;
    bool shows;     /* rank 0 is in the step that is shown */
    double shown_s; /* when it began */
} wefti_stage;

/* With more ranks than these votes are not messages one by one: only when the last one of
 * a step is cast is kept. */
enum { WEFTI_FEW_VOTERS = 32 };

/* The ranks' numbers in a group's order, and the thread's own place. */
typedef struct wefti_sim_members {
    int first, stride, n, me;
} wefti_sim_members;
wefti_sim_members wefti_stage_members(const wefti_stage *stage,
                                      const wefti_sim_rank *rank, wefti_channel channel);

/* eventplayer.c */
weft_status wefti_stage_wake(wefti_stage *stage, wefti_thread *thread) WEFT_CHECKED;
/* It waits for a message, but not for ever. */
weft_status wefti_stage_alarm(wefti_stage *stage, wefti_thread *thread) WEFT_CHECKED;
void wefti_stage_show(wefti_stage *stage, int lane, int index, const char *what,
                      double begin_s, double end_s);
void wefti_stage_note(wefti_stage *stage, wefti_thread *thread, wefti_class class,
                      double begin_s, double end_s);

/* phases.c: fills in what the thread has to do. */
void wefti_phase_fill(wefti_stage *stage, wefti_thread *thread, int phase, int job);
void wefti_phase_apply(wefti_stage *stage, wefti_thread *thread, int bucket);
void wefti_phase_finish(wefti_stage *stage, wefti_thread *thread, int bucket);
wefti_mixer_question wefti_phase_question(const wefti_stage *stage,
                                          const wefti_sim_rank *rank, int bucket,
                                          int64_t step);

/* wires.c */
weft_status wefti_wires_send(wefti_stage *stage, wefti_thread *thread,
                             const wefti_op *op) WEFT_CHECKED;
weft_status wefti_wires_land(wefti_stage *stage, int64_t flight,
                             double now_s) WEFT_CHECKED;

/* Begins or goes on receiving; *done: all is there, thread->now_s says when. */
weft_status wefti_wires_receive(wefti_stage *stage, wefti_thread *thread,
                                const wefti_op *op, bool *done) WEFT_CHECKED;

#endif
