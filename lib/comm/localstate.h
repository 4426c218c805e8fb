/* SPDX-License-Identifier: MIT */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "comm/board.h"
#include "comm/interface.h"
#include "comm/local.h"
#include "comm/posts.h"

/* The state of ranks as threads (local.c). */

typedef struct interface interface;

enum {
    BUCKETS = 256,
    POSTERS = 32 /* members from which on a group posts; fewer add while they wait */
};

typedef struct message {
    struct message *next; /* in the receiver's mailbox, or among spares */
    struct message *next_sent,
        *prev_sent;            /* in the sender's list of unreleased messages */
    struct message *next_head; /* wire_lock: in the list of an interface's coming heads */
    int64_t tag;
    int64_t n_bytes;
    const void *data;
    interface *to;    /* NULL: no interface is involved */
    bool booked;      /* wire_lock: arrival_s is final; else the head's time */
    double arrival_s; /* wire_lock */
    double busy_s;
    int sender;  /* world rank */
    int channel; /* group * 8 + channel */
    bool taken;
    struct local_comm *origin;
} message;

typedef struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    message *posted[BUCKETS];     /* each list newest first */
    unsigned char waits[BUCKETS]; /* threads that wait for a message of this bucket */
    int awaits;                   /* threads that wait until their messages are
                                     released */
    message *spare;               /* released nodes for the owner's next sends */
} mailbox;

struct interface {
    wefti_interface wire;
    message *coming; /* not booked yet, in the order of their heads */
};

typedef struct local_world {
    wefti_world head;
    weft_ctx *ctx;          /* borrowed; owns the messages */
    mailbox *boxes;         /* [size] */
    int n_boxes;            /* initialized */
    interface *interfaces;  /* [nodes], guarded by wire_lock */
    interface *uplinks;     /* [sites], the same */
    wefti_traffic *traffic; /* [size], each guarded by its mailbox's lock */
    pthread_mutex_t wire_lock;
    wefti_board *board;          /* owned; wire_lock until it is there */
    wefti_posts *posts;          /* owned */
    const wefti_missed *skipped; /* [n_skipped] borrowed: what a replay leaves out */
    int n_skipped;
} local_world;

typedef struct local_comm {
    wefti_comm head;
    local_world *world;
    int world_rank;
    wefti_members members;
    int channel;
    unsigned char
        *links; /* [size] owned; class of each rank of the world, once there is a board */
    message *sent; /* not yet released; guarded by the own mailbox's lock */
    wefti_poster poster;
} local_comm;
