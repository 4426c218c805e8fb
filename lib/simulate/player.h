/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/predict.h>

#include "comm/interface.h"
#include "mix/mixer.h"
#include "simulate/eventqueue.h"
#include "simulate/timed.h"

/* The state of the event player, shared by its files: eventplayer.c has the threads,
 * phases.c the actions of a phase, wires.c the messages, playtime.c the clock. */

typedef struct wefti_play {
    int64_t steps, warmup; /* steps after warmup are kept */
    uint64_t seed;
    bool calm;            /* no jitter, whatever the cluster says */
    int order;            /* of phases, from 1 (arrayorder.c); 0: the fastest */
    bool mean_only;       /* only the mean step is needed */
    wefti_played *played; /* [steps][W] out; the caller's */
    int64_t max_messages; /* stops after the step in which this many have been sent */
    int64_t done;         /* steps kept, out; all of them without max_messages */
    double wire_bytes;    /* sent between nodes in the kept steps, out, all ranks */
    /* Timeline of rank 0 in the last step; room for n_spans, out: how many there are. */
    weft_span *spans;
    int64_t span_room, n_spans;
} wefti_play;

/* What an exchange thread spends its time on. */
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
    WEFTI_CHANNEL_STATUS
} wefti_channel;

typedef enum wefti_action_kind {
    WEFTI_ACTION_WORK,
    WEFTI_ACTION_SEND,
    WEFTI_ACTION_RECEIVE
} wefti_action_kind;

/* A piece of a phase. */
typedef struct wefti_action {
    wefti_action_kind kind;
    wefti_channel channel;
    int bucket, round;
    int64_t exchange;    /* names the messages: a step */
    double seconds;      /* of work; of a receive, for each message as it comes */
    wefti_mixer_act act; /* of the mixer's channel */
} wefti_action;

/* A thread waits for one thing at a time. */
typedef enum wefti_state {
    WEFTI_RUNS,
    WEFTI_WAITS_MESSAGE,
    WEFTI_WAITS_ROOM,  /* its buffers are still being read */
    WEFTI_WAITS_JOB,   /* exchange thread: nothing to do */
    WEFTI_WAITS_JOBS,  /* compute thread: for the exchange thread */
    WEFTI_WAITS_SHARD, /* for the other ranks of the replica */
    WEFTI_WAITS_STATUS /* for the last of all */
} wefti_state;

enum { WEFTI_MAX_ACTIONS = 16, WEFTI_THREADS = 2, WEFTI_DRAWS = 64 };

typedef struct wefti_thread {
    int rank;
    bool exchanges; /* is the exchange thread */
    wefti_state state;
    double now_s;
    int at; /* compute thread: number of the next part in the list of timed ops */
    double op_begun_s; /* compute thread: of the current op */
    wefti_action actions[WEFTI_MAX_ACTIONS];
    int n_actions, at_action;
    int *peers; /* [group] owned: of the current receive */
    int n_peers, at_peer;
    double until_s;   /* deadline of the current receive; INFINITY: none */
    uint64_t key;     /* of the message that it waits for */
    int64_t mark;     /* events of earlier waits are stale */
    int64_t piece;    /* counts what it has done */
    int phase, job;   /* exchange thread: the current ones */
    double begun_s;   /* the phase, or the wait */
    double resumed_s; /* when it began to run this time */
} wefti_thread;

/* A part of a phase as it was played, for splitting a wait; its components are assumed to
 * be spread evenly over it. */
typedef struct wefti_segment {
    double begin_s, end_s, parts_s[WEFTI_CLASSES];
    int64_t piece;
} wefti_segment;

typedef struct wefti_sim_rank {
    int replica, shard, node, site;
    int64_t step;
    double begun_s, settled_s; /* this step; the one before */
    /* Computing of this step: the factors by which it is slower, the stop at the
     * beginning, and mesh.straggler_time: that still to come, that which is over. */
    double factor, drift, own, halt_s; /* own: constant factor of computing time */
    double stall_s, stalled_s;
    int *jobs; /* [capacity] owned ring */
    int64_t capacity, submitted, done[WEFTI_MAX_PHASES];
    double busy_s, exchange_s, covered_s;
    double counted_s;        /* of busy_s and exchange_s, up to the step before */
    wefti_segment *segments; /* owned; of this step */
    int n_segments, room;
    double *sent_s; /* [n_buckets][2] owned: the mixer's, by exchange */
    int *unread;    /* [n_buckets][2] owned: messages of a buffer not read yet */
    double *read_s; /* [n_buckets][2] owned: when the last one was read */
    wefti_played tally;
} wefti_sim_rank;

/* A message between two interfaces; the receiver's interface is booked when the message
 * arrives there. */
typedef struct wefti_sim_flight {
    uint64_t key;
    double busy_s;
    int to_rank, to_interface;
    bool far;
    int64_t next_free;
} wefti_sim_flight;

typedef struct wefti_player {
    weft_ctx *ctx;
    const wefti_timed *timed;
    const wefti_job *job;
    wefti_play *play;
    wefti_world_shape shape;
    int W, S, R;
    wefti_thread *threads; /* [2 W] compute, then exchange threads */
    wefti_sim_rank *ranks; /* [W] */
    wefti_interface *nodes, *sites;
    double *pair_free_s; /* [nodes^2] or NULL */
    wefti_sim_flight *flights;
    int64_t n_flights, flight_room, free_flight;
    wefti_event_queue posts;
    wefti_agenda agenda;
    struct {
        int n;
        double latest_s;
    } * joined; /* [R] ranks of a replica that have arrived */
    struct {
        int n;
        double last_s; /* cast */
    } status[WEFTI_STATUS_SLOTS];
    int64_t n_settled;  /* ranks and steps */
    int64_t n_messages; /* sent so far */
    int64_t last_step;  /* steps in all; fewer if there are too many messages */
    uint32_t n_draws;
    uint64_t draws[WEFTI_DRAWS][2]; /* the next ones; the first of a pair counts */
    bool shows;                     /* rank 0 is in the step that is shown */
    double shown_s;                 /* when it began */
} wefti_player;

/* With more ranks than this the messages of a status are not simulated one by one: only
 * the time when the last one of a step is sent is kept. */
enum { WEFTI_FEW_RANKS = 32 };

/* Fill in the actions of a thread: those of thread->phase of thread->job, or those of the
 * phases apply and finish of a bucket on the compute thread. */
void wefti_play_fill(wefti_player *player, wefti_thread *thread);
void wefti_play_apply(wefti_player *player, wefti_thread *thread, int bucket);
void wefti_play_finish(wefti_player *player, wefti_thread *thread, int bucket);

/* Plays a timed event by event: each rank is two threads, the compute thread with its
 * ops and the exchange thread with its phases, that wait for messages, jobs and each
 * other as the program's do (rank/step.c, comm/worker.c), and messages that book
 * interfaces as comm/local.c does. */

weft_status wefti_event_player_run(const wefti_timed *timed,
                                   wefti_play *play) WEFT_CHECKED;

/* Schedules the thread to continue at a given time; at its own clock. */
weft_status wefti_play_at(wefti_player *player, wefti_thread *thread,
                          double when_s) WEFT_CHECKED;
weft_status wefti_play_go_on(wefti_player *player, wefti_thread *thread) WEFT_CHECKED;

/* The thread waits for a message, until a deadline. */
weft_status wefti_play_alarm(wefti_player *player, wefti_thread *thread) WEFT_CHECKED;

/* A span of the timeline, if this step is shown; lane: weft_span. */
void wefti_play_show(wefti_player *player, int lane, int index, const char *what,
                     double begin_s, double end_s);

/* Records what a thread's time was spent on. */
void wefti_play_note(wefti_player *player, wefti_thread *thread, wefti_class class,
                     double begin_s, double end_s);

/* The question to the mixer about a bucket of the rank. */
wefti_mixer_question wefti_wires_question(const wefti_player *player,
                                          const wefti_sim_rank *rank, int bucket,
                                          int64_t step);

weft_status wefti_wires_send(wefti_player *player, wefti_thread *thread,
                             const wefti_action *action) WEFT_CHECKED;

/* A message's head is at the receiver's interface. */
weft_status wefti_wires_land(wefti_player *player, int64_t flight,
                             double now_s) WEFT_CHECKED;

/* Begins or continues a receive; *done: all messages have arrived, at thread->now_s. */
weft_status wefti_wires_receive(wefti_player *player, wefti_thread *thread,
                                const wefti_action *action, bool *done) WEFT_CHECKED;

/* Whether the mixer's buffer of this action may be written; else the thread waits. */
bool wefti_wires_have_room(wefti_player *player, wefti_thread *thread,
                           const wefti_action *action);

/* Wakes a thread: what it waited for may have arrived. */
weft_status wefti_wires_wake(wefti_player *player, wefti_thread *thread) WEFT_CHECKED;
