/* SPDX-License-Identifier: MIT */
#pragma once

#include "collectives/stream.h"
#include "comm/comm.h"
#include "wire/frame.h"

/* The exchange driver. A method says what it alone knows:
 *
 *     bytes     how long the message about a member is
 *     encode    what this rank has to say about a member
 *     add       takes in what a member said, in ascending order of members, itself included
 *     finish    all that count are added; an owner writes its answer
 *
 * The driver does the rest for every method: tags, heads, order of sending, receiving,
 * checks, release, waiting until a buffer is this rank's own again, deadlines, times. It is
 * also the one place where a message can be missing: then `add` is not called for it, and
 * round->counted, by which a mean is divided, is smaller. With a deadline a rank's own message
 * may have been left out, for want of a free buffer: `add` is called for it all the same, and
 * takes the numbers from round->x instead of `in`.
 *
 *     shape    first round                               second round
 *     ALL      what I say, to all                        -
 *     EACH     what I say to member j alone              -       of one length both ways
 *     OWNER    what I say about member j, to j           j adds it all and answers all
 *              own_answers: the same to all              and what it answers is its own, too
 *
 * So it is of a guest (wefti_comm.n_guests): in the first round it says nothing, and nobody waits
 * for it. It hears all that is sent, and as an owner it adds and answers like all others.
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
    WEFTI_MIXER_STAGE = 8 /* of the tags of a mixer's first round */
};

/* Who takes part. Ranks ascend; NULL: member i is rank i, and all others are targets. */
typedef struct wefti_party {
    int n, me; /* members, and this rank's place among them */
    const int *members;
    int n_targets; /* who gets what goes to all */
    const int *targets;
} wefti_party;

/* An exchange of one bucket, as far as it has come. The caller fills in the first part. */
typedef struct wefti_round {
    wefti_shape shape;
    int64_t step;
    int bucket;
    wefti_frame_kind kinds[WEFTI_DRIVER_ROUNDS]; /* NONE: see raw */
    bool together; /* what the first round brings stays readable up to finish */
    wefti_party party;
    const float *from; /* the caller's: for encode */
    float *x;          /* the caller's */
    int number;        /* 0, or 1: answers */
    int counted;       /* messages added so far; in finish: all that count */
} wefti_round;

typedef struct wefti_driver_ops {
    /* Bytes of the message about a member, with its head; 0: there is none. */
    int64_t (*bytes)(const void *self, const wefti_round *round, int member);
    /* Writes the payload about a member. */
    weft_status (*encode)(void *self, const wefti_round *round, int member,
                          unsigned char *out);
    /* Messages without a head: where the one about a member lies. */
    const void *(*raw)(void *self, const wefti_round *round, int member);
    weft_status (*add)(void *self, const wefti_round *round, int member,
                       const unsigned char *in);
    /* answer: the payload to write, or NULL where none follows. */
    weft_status (*finish)(void *self, const wefti_round *round, unsigned char *answer);
} wefti_driver_ops;

/* How long exchanges took, those that overlap counted once. */
typedef struct wefti_exchange_times {
    double exchange_s; /* exchanges were under way */
    double waited_s;   /* of this, their receiver stood still */
    double covered_s;  /* time up to which exchange_s is counted */
    int64_t late;      /* messages that were not there by their deadline */
} wefti_exchange_times;

/* An exchange that began at start_s has arrived at comm->arrival_s; the caller waited for
 * it since wait_begin_s. */
void wefti_exchange_note(wefti_exchange_times *times, const wefti_comm *comm,
                         double start_s, double wait_begin_s);

typedef struct wefti_driver wefti_driver;

typedef struct wefti_driver_setup {
    weft_ctx *ctx; /* borrowed, like what follows */
    wefti_comm *comm;
    const wefti_driver_ops *ops;
    void *self;
    wefti_exchange_times *times; /* NULL: nobody asks */
    int stage;                   /* of the tags of the first round (wefti_comm_tag) */
    int n_buckets;
    int n_buffers; /* exchanges of a bucket whose messages may be under way */
    bool
        answers_inside; /* an answer takes the place of what the owner said about itself */
    bool own_answers; /* of OWNER: what a member says and answers is about its own numbers, so
                         that nobody can answer for it: lost, its answer counts nowhere */
    bool
        here_only; /* a lost member's message counts where it is here, for this rank alone:
                       nobody sends it on, and nobody answers for it */
    double deadline_s; /* ALL only: how long a receiver waits; 0: until all is there */
    int64_t steps;     /* with a deadline: of the run */
} wefti_driver_setup;

/* Bytes of memory for a bucket whose messages of the two rounds take so much, heads
 * included, and for all that does not depend on buckets. */
int64_t wefti_driver_bucket_bytes(const int64_t room[WEFTI_DRIVER_ROUNDS], int n_buffers);
int64_t wefti_driver_bytes(int n_buckets, int n_buffers, bool deadline, int R);

weft_status wefti_driver_create(const wefti_driver_setup *setup,
                                wefti_driver **out) WEFT_CHECKED;
void wefti_driver_destroy(wefti_driver *d); /* NULL is accepted */

/* Makes room for a bucket's messages; once for each, before its first exchange. */
weft_status wefti_driver_open(wefti_driver *d, int bucket,
                              const int64_t room[WEFTI_DRIVER_ROUNDS]) WEFT_CHECKED;

/* Collective among the members, in this order. */
weft_status wefti_driver_send(wefti_driver *d, wefti_round *round) WEFT_CHECKED;
weft_status wefti_driver_answer(wefti_driver *d, wefti_round *round) WEFT_CHECKED;
weft_status wefti_driver_receive(wefti_driver *d, wefti_round *round) WEFT_CHECKED;

/* Waits until what was sent last of the bucket in a round is this rank's own again. */
weft_status wefti_driver_await(wefti_driver *d, int bucket, int number) WEFT_CHECKED;

/* The payload that this rank sent about a member in the first round. */
const unsigned char *wefti_driver_sent(const wefti_driver *d, const wefti_round *round,
                                       int member);

/* The whole group, for exchanges among all ranks of a communicator. */
wefti_party wefti_party_all(const wefti_comm *comm);
