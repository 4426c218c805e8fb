/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Sends bytes to other ranks. A communicator is one rank's view of a group of ranks.
 * Messages are matched by (communicator, sender, tag); a tag may be used again only after
 * its message was released. Several threads of a rank may use different communicators at
 * the same time, one thread each.
 *
 * The receiver sees a message as a view, which stays valid until the receiver releases it;
 * the sender must not change its buffer before wefti_comm_await. So ranks of one process
 * exchange memory without copies; a backend that has to stage messages hides the staging.
 *
 * When a rank fails, it poisons the world: every wait of every rank then returns
 * WEFT_ERR_PEER instead of hanging. */

typedef enum wefti_link_class {
    WEFTI_LINK_LOCAL, /* inside a node */
    WEFTI_LINK_WIRE,  /* between nodes of a site */
    WEFTI_LINK_SITE,  /* between sites */
    WEFTI_LINK_CLASSES
} wefti_link_class;

/* Payload bytes that one rank has sent and received, by link class. */
typedef struct wefti_traffic {
    int64_t bytes_out[WEFTI_LINK_CLASSES];
    int64_t bytes_in[WEFTI_LINK_CLASSES];
    int64_t relayed; /* that passed here between two other processes */
} wefti_traffic;

typedef struct wefti_comm wefti_comm;

/* Kinds of messages of a step during which members may be lost. */
typedef enum wefti_piece_kind {
    WEFTI_PIECE_SAME,  /* its sender sent the same bytes to all members */
    WEFTI_PIECE_ALONE, /* the same, and only its sender can make this answer */
    WEFTI_PIECE_OWN    /* its sender sent these bytes to this rank alone */
} wefti_piece_kind;

/* The message of a lost member that no remaining member has. It was the lost member's
 * answer to parts that the others had sent to it. */
typedef struct wefti_lost {
    int peer;
    int64_t tag, part_tag; /* of the answer, and of the parts */
    int64_t view;          /* the membership in which it is lost; this may change again */
} wefti_lost;

typedef struct wefti_received {
    const void *view; /* NULL: the sender is lost, and the message counts nowhere */
    int64_t membership;
} wefti_received;

/* What a backend implements. */
/* Who takes what all ranks tell each other: one call for each rank in rank order, except for
 * those whose message does not count. */
typedef struct wefti_allgather {
    const void *mine; /* what this rank has sent */
    int64_t n_bytes;
    void (*take)(void *user, int rank, const void *bytes);
    void *user;
} wefti_allgather;

typedef struct wefti_comm_ops {
    const char *name;
    weft_status (*send)(wefti_comm *comm, int peer, int64_t tag, const void *data,
                        int64_t n_bytes);
    weft_status (*receive)(wefti_comm *comm, int peer, int64_t tag, int64_t n_bytes,
                           const void **view);
    /* May be NULL if no mixer has a deadline. */
    weft_status (*receive_by)(wefti_comm *comm, int peer, int64_t tag, int64_t n_bytes,
                              double deadline_s, const void **view);
    void (*release)(wefti_comm *comm, int peer, int64_t tag);
    weft_status (*await)(wefti_comm *comm, int64_t tag);
    bool (*holds)(wefti_comm *comm, const void *data); /* may be NULL, like receive_by */
    /* May be NULL if ranks end, and free their memory, only when all of them have stopped. */
    void (*settle)(wefti_comm *comm);
    weft_status (*reserve)(wefti_comm *comm, int n_messages);
    void (*traffic)(const wefti_comm *comm, wefti_traffic *out);
    /* May be NULL: notes are then ignored. */
    void (*note)(wefti_comm *comm, int64_t step, const char *at);
    /* All three may be NULL: then messages to and from each rank do it. */
    weft_status (*open_board)(wefti_comm *comm, int n_rounds, int n_bytes);
    weft_status (*tell)(wefti_comm *comm, int64_t tag, const void *data, int64_t n_bytes);
    weft_status (*hear)(wefti_comm *comm, int64_t tag, const wefti_allgather *gather);
    /* All of these may be NULL: then no member is ever lost (mesh/elastic.h). */
    weft_status (*send_part)(wefti_comm *comm, int peer, int64_t tag, const void *data,
                             int64_t n_bytes);
    weft_status (*receive_piece)(wefti_comm *comm, int peer, int64_t tag, int64_t n_bytes,
                                 wefti_piece_kind kind, wefti_received *out);
    weft_status (*receive_part)(wefti_comm *comm, const wefti_lost *lost, int peer,
                                int64_t n_bytes, const void **view);
    void (*release_part)(wefti_comm *comm, const wefti_lost *lost, int peer);
    weft_status (*replace)(wefti_comm *comm, const wefti_lost *lost, const void *data,
                           int64_t n_bytes);
    weft_status (*agree)(wefti_comm *comm, int64_t tag);
    void (*destroy)(wefti_comm *comm);
} wefti_comm_ops;

struct wefti_comm {
    const wefti_comm_ops *ops;
    weft_ctx *ctx; /* borrowed */
    int rank, size;
    double arrival_s; /* arrival time of the last received message (wefti_now_s) */
    /* The last n_learners ranks joined while the others train and have no state yet: up to
     * step learner_until (rank/learners.h) they contribute nothing of their own. 0: all ranks
     * contribute. */
    int n_learners;
    int64_t learner_until;
    const double
        *weights; /* [size] borrowed: how much of a mean is each rank's; NULL: 1 */
    struct wefti_robust_watch *watch; /* borrowed: collectives/robust.h; NULL: none */
    struct wefti_sent *sent;     /* borrowed: comm/sent.h; NULL: nothing is counted */
    struct wefti_poster *poster; /* comm/posts.h; NULL: a message to each does it */
};

/* This rank's weight. */
static inline float wefti_comm_weight(const wefti_comm *comm) {
    return comm->weights ? (float)comm->weights[comm->rank] : 1;
}

/* Whether a rank contributes nothing to a step because it is a learner. */
bool wefti_comm_is_learner(const wefti_comm *comm, int rank, int64_t step);

/* Starts sending n_bytes to a peer. `data` is borrowed until wefti_comm_await. Not
 * collective. */
weft_status wefti_comm_send(wefti_comm *comm, int peer, int64_t tag, const void *data,
                            int64_t n_bytes) WEFT_CHECKED;

/* For rounds in which every rank of the group sends, or says by wefti_comm_publish that it
 * sends nothing, before it receives: the tag under which the group may post all at once
 * (comm/posts.h). It is used in all calls of the round; wefti_comm_await takes either. */
int64_t wefti_comm_posted(const wefti_comm *comm, int64_t tag);
bool wefti_comm_is_posted(int64_t tag);

/* After what this rank sends in such a round. Nothing to do for other tags. */
weft_status wefti_comm_publish(wefti_comm *comm, int64_t tag) WEFT_CHECKED;

/* Sends the same bytes to every other rank of the group, and publishes them. */
weft_status wefti_comm_send_all(wefti_comm *comm, int64_t tag, const void *data,
                                int64_t n_bytes) WEFT_CHECKED;

/* Each rank of the group tells all others the same few bytes, once per tag, and hears what all
 * have sent. Like pieces of a step (wefti_comm_receive_piece, WEFTI_PIECE_SAME). `data` is
 * borrowed until wefti_comm_await. Each rank must hear each tag that it has sent; up to n_rounds
 * tags of n_bytes may be open at once. In a process of W ranks a round takes W^2 reads of memory,
 * and no messages. */
weft_status wefti_comm_reserve_allgather(wefti_comm *comm, int n_rounds,
                                         int n_bytes) WEFT_CHECKED;
weft_status wefti_comm_allgather_begin(wefti_comm *comm, int64_t tag, const void *data,
                                       int64_t n_bytes) WEFT_CHECKED;
weft_status wefti_comm_allgather_end(wefti_comm *comm, int64_t tag,
                                     const wefti_allgather *gather) WEFT_CHECKED;

/* Waits for the message of `peer` with `tag`, which must have exactly n_bytes (another
 * length is WEFT_ERR_WIRE). [out] *view is borrowed until wefti_comm_release. */
weft_status wefti_comm_receive(wefti_comm *comm, int peer, int64_t tag, int64_t n_bytes,
                               const void **view) WEFT_CHECKED;

/* The same, but waits at most until `deadline_s` (wefti_now_s; a time in the past asks
 * without waiting): *view is NULL if the message has not arrived by then. It can still be
 * received later. */
weft_status wefti_comm_receive_by(wefti_comm *comm, int peer, int64_t tag,
                                  int64_t n_bytes, double deadline_s,
                                  const void **view) WEFT_CHECKED;
void wefti_comm_release(wefti_comm *comm, int peer, int64_t tag);

/* Sends a part of something that `peer` combines and then sends to all as its answer. If
 * `peer` is lost before any rank has the answer, all ranks get the parts and compute the
 * answer themselves. */
weft_status wefti_comm_send_part(wefti_comm *comm, int peer, int64_t tag,
                                 const void *data, int64_t n_bytes) WEFT_CHECKED;

/* Receives a message of a step. If its sender is lost, the message counts if it is here, or
 * (unless WEFTI_PIECE_OWN) if any member has it, which then forwards it; otherwise
 * out->view is NULL. All members decide alike. */
weft_status wefti_comm_receive_piece(wefti_comm *comm, int peer, int64_t tag,
                                     int64_t n_bytes, wefti_piece_kind kind,
                                     wefti_received *out) WEFT_CHECKED;

/* Receives the part that `peer` had sent to the lost member. *view is NULL if `peer` is
 * lost as well, or if the membership has changed since lost->view; in the second case the
 * caller decides everything again. */
weft_status wefti_comm_receive_part(wefti_comm *comm, const wefti_lost *lost, int peer,
                                    int64_t n_bytes, const void **view) WEFT_CHECKED;
void wefti_comm_release_part(wefti_comm *comm, const wefti_lost *lost, int peer);

/* Puts an answer computed here in the place of the lost one, as if it had come from the
 * lost member. Does nothing if the membership has changed since lost->view. */
weft_status wefti_comm_replace(wefti_comm *comm, const wefti_lost *lost, const void *data,
                               int64_t n_bytes) WEFT_CHECKED;

/* Returns when all members that are not lost have called it, too. They then hold what this
 * rank holds of an exchange, and its result may be sent to other groups. Returns at once
 * where members are never lost. Its messages count as signs of life (docs/membership.md). */
weft_status wefti_comm_agree(wefti_comm *comm, int64_t tag) WEFT_CHECKED;

/* Waits until every message that this rank sent with `tag` was released by its receiver.
 * The sender may then use the buffer again. */
weft_status wefti_comm_await(wefti_comm *comm, int64_t tag) WEFT_CHECKED;

/* Whether a message that this rank sent from `data` has not been released yet. */
bool wefti_comm_holds(wefti_comm *comm, const void *data);

/* Waits until nothing reads the memory of messages that this rank sends, by any
 * communicator. To be called before freeing memory that was sent and not awaited. After a
 * wait that failed because of another rank this already holds. */
void wefti_comm_settle(wefti_comm *comm);

/* Reserves memory for n messages of this rank under way at once, in addition to what other
 * communicators of the rank have reserved. Sending then allocates nothing; who posts
 * (wefti_comm_posted) allocates in the first rounds instead. */
weft_status wefti_comm_reserve(wefti_comm *comm, int n_messages) WEFT_CHECKED;

/* What this rank has sent and received so far, over all its communicators. */
void wefti_comm_traffic(const wefti_comm *comm, wefti_traffic *out);

/* Notes what this rank is doing ("block 3" of a step), for the messages of ranks that wait
 * for it in vain. `at` must live as long as the communicator. */
void wefti_comm_note(wefti_comm *comm, int64_t step, const char *at);

/* A tag made of the step, the bucket and the stage (0..15) of its exchange, so that no
 * other message of the same communicator uses it at the same time. */
int64_t wefti_comm_tag(int64_t step, int bucket, int stage);

/* Returns when every rank of the group has called it. Collective. */
weft_status wefti_comm_barrier(wefti_comm *comm, int64_t tag) WEFT_CHECKED;

/* out[size][n_bytes]: each rank's bytes in rank order. Collective. */
weft_status wefti_comm_all_gather(wefti_comm *comm, int64_t tag, const void *mine,
                                  int64_t n_bytes, void *out) WEFT_CHECKED;

/* The sum over ranks, in rank order, of n doubles; in place. Collective; latency-bound.
 */
weft_status wefti_comm_sum(wefti_comm *comm, int64_t tag, int n,
                           double *values) WEFT_CHECKED;

void wefti_comm_destroy(wefti_comm *comm);
