/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/comm.h"
#include "wire/frame.h"

/* The exchange driver. A method implements only what is specific to it:
 *
 *     bytes     length of the message about a member
 *     encode    writes what this rank sends about a member
 *     add       adds what a member sent, in ascending order of members, itself included
 *     finish    all messages that count are added; an owner writes its answer
 *
 * The driver does the rest for every method: tags, heads, order of sending, receiving,
 * checks, release, waiting until a buffer may be reused, deadlines, times. It is also the
 * only place where a message can be missing: then `add` is not called for it, and
 * round->weight, by which a mean is divided, is smaller. With a deadline a rank's own
 * message may not have been sent, because no buffer was free: `add` is called for it
 * nevertheless, and takes the numbers from round->x instead of `in`.
 *
 *     shape    first round                               second round
 *     ALL      what I say, to all                        -
 *     EACH     what I say to member j alone              -       of one length both ways
 *     OWNER    what I say about member j, to j           j adds it all and answers all
 *              own_answers: the same to all              and what it answers is its own, too
 *
 * A learner (wefti_comm.n_learners) sends nothing in the first round, and nothing waits for it.
 * It receives all messages, and as an owner it adds and answers like the others, unless
 * answers are a member's own numbers, too.
 *
 *     send     encode, to every other member or target; the next one first
 *     answer   OWNER only: add what they sent about me; finish; the answer to all
 *     receive  add what they sent, or their answers; finish */

typedef enum wefti_shape {
    WEFTI_SHAPE_ALL,
    WEFTI_SHAPE_EACH,
    WEFTI_SHAPE_OWNER
} wefti_shape;

enum {
    WEFTI_DRIVER_ROUNDS = 2,
    WEFTI_DRIVER_BUFFERS = 4,
    WEFTI_MIXER_STAGE = 8 /* in the tags of a mixer's first round */
};

/* The participants. Ranks are in ascending order; NULL: member i is rank i, and all others
 * are targets. */
typedef struct wefti_party {
    int n, me; /* number of members; this rank's index among them */
    const int *members;
    int n_targets; /* the receivers of messages to all */
    const int *targets;
} wefti_party;

/* The state of one exchange of one bucket. The caller fills in the first part. */
typedef struct wefti_round {
    wefti_shape shape;
    int64_t step;
    int bucket;
    wefti_frame_kind kinds[WEFTI_DRIVER_ROUNDS]; /* NONE: see raw */
    bool together; /* messages of the first round stay readable until finish */
    wefti_party party;
    const float *from; /* the caller's: for encode */
    float *x;          /* the caller's */
    int number;        /* 0, or 1: answers */
    int counted;       /* messages added so far; in finish: all of them */
    double weight; /* of those: their number, or the sum of wefti_comm.weights, by which
                          each of them was multiplied before it was coded */
} wefti_round;

typedef struct wefti_driver_ops {
    /* Bytes of a sender's message about a member, including its head; 0: there is none. */
    int64_t (*bytes)(const void *self, const wefti_round *round, int sender, int member);
    /* Writes the payload about a member. */
    weft_status (*encode)(void *self, const wefti_round *round, int member,
                          unsigned char *out);
    /* For messages without a head: the memory of the message about a member. */
    const void *(*raw)(void *self, const wefti_round *round, int member);
    weft_status (*add)(void *self, const wefti_round *round, int member,
                       const unsigned char *in);
    /* answer: the payload to write, or NULL if there is none. */
    weft_status (*finish)(void *self, const wefti_round *round, unsigned char *answer);
} wefti_driver_ops;

/* How long exchanges took; overlapping ones are counted once. */
typedef struct wefti_exchange_times {
    double exchange_s; /* time in which an exchange was under way */
    double waited_s;   /* the part of it in which the receiver waited */
    double covered_s;  /* time up to which exchange_s is counted */
    int64_t late;      /* messages that missed their deadline */
} wefti_exchange_times;

/* Adds an exchange that began at start_s and arrived at comm->arrival_s; the caller has
 * waited for it since wait_begin_s. */
void wefti_exchange_note(wefti_exchange_times *times, const wefti_comm *comm,
                         double start_s, double wait_begin_s);

typedef struct wefti_driver wefti_driver;

typedef struct wefti_driver_setup {
    weft_ctx *ctx; /* borrowed, like the next four pointers */
    wefti_comm *comm;
    const wefti_driver_ops *ops;
    void *self;
    wefti_exchange_times *times; /* NULL: not needed */
    int stage;                   /* in the tags of the first round (wefti_comm_tag) */
    int n_buckets;
    int n_buffers;       /* exchanges of a bucket that may be under way at once */
    bool answers_inside; /* an answer replaces what the owner sent about itself, in the
                           same buffer */
    bool own_answers;    /* for OWNER: what a member sends and answers concerns its own
                         numbers, so no other rank can answer for it; if it is lost, its
                         answer counts nowhere */
    bool here_only; /* a lost member's message counts only on ranks where it has arrived:
                      no rank forwards it, and none answers for the member */
    double deadline_s; /* ALL only: how long a receiver waits; 0: for all messages */
    int64_t steps;     /* with a deadline: steps of the run */
} wefti_driver_setup;

/* Bytes of memory for a bucket whose messages in the two rounds need `room` bytes, heads
 * included; and for everything that does not depend on the buckets' sizes. */
int64_t wefti_driver_bucket_bytes(const int64_t room[WEFTI_DRIVER_ROUNDS], int n_buffers);
int64_t wefti_driver_bytes(int n_buckets, int n_buffers, bool deadline, int R);

weft_status wefti_driver_create(const wefti_driver_setup *setup,
                                wefti_driver **out) WEFT_CHECKED;
void wefti_driver_destroy(wefti_driver *d); /* NULL is accepted */

/* Allocates the buffers of a bucket; once for each bucket, before its first exchange. */
weft_status wefti_driver_open(wefti_driver *d, int bucket,
                              const int64_t room[WEFTI_DRIVER_ROUNDS]) WEFT_CHECKED;

/* Collective among the members; to be called in this order. */
weft_status wefti_driver_send(wefti_driver *d, wefti_round *round) WEFT_CHECKED;
weft_status wefti_driver_answer(wefti_driver *d, wefti_round *round) WEFT_CHECKED;
weft_status wefti_driver_receive(wefti_driver *d, wefti_round *round) WEFT_CHECKED;

/* Waits until the last messages of the bucket in a round are released, so that their memory
 * may be reused. */
weft_status wefti_driver_await(wefti_driver *d, int bucket, int number) WEFT_CHECKED;

/* The payload that this rank sent about a member in the first round. */
const unsigned char *wefti_driver_sent(const wefti_driver *d, const wefti_round *round,
                                       int member);

/* The whole group, for exchanges among all ranks of a communicator. */
wefti_party wefti_party_all(const wefti_comm *comm);
