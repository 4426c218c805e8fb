/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/world.h"

/* What all members of a group, threads of one process, send each other under one tag: each posts
 * once, with a piece for each other member, and sleeps once, until all have posted. A round of W
 * members costs 2 W wakes, and W^2 reads of memory in place of W^2 messages.
 *
 * The functions are those of a communicator (comm/comm.h) with a poster. Every member must
 * publish before it receives, though it may have no piece for anybody. */
typedef struct wefti_posts wefti_posts; /* of all groups of a world */

weft_status wefti_posts_create(weft_ctx *ctx, wefti_world *world,
                               wefti_posts **out) WEFT_CHECKED;
void wefti_posts_destroy(wefti_posts *posts); /* NULL is accepted */
void wefti_posts_wake(wefti_posts *posts);    /* the world is poisoned */

/* A member of a group. The first part is set by who makes the communicator. */
typedef struct wefti_poster {
    wefti_posts *posts;    /* borrowed */
    wefti_members members; /* of the group */
    int channel;           /* with the first member, names the group */
    int world_rank;        /* of this member */
    pthread_mutex_t *lock; /* borrowed; of the next */
    wefti_traffic
        *traffic; /* borrowed; a round is counted when this member is done with it */
    struct wefti_posting *writing, *reading; /* the rounds of these tags; NULL: none */
    int64_t writing_tag, reading_tag;
    int64_t bytes_in[WEFTI_LINK_CLASSES]; /* of `reading` */
} wefti_poster;

/* n_bytes < 0: none. */
typedef struct wefti_post {
    const void *data;
    int64_t n_bytes;
} wefti_post;

weft_status wefti_posts_put(wefti_comm *comm, int64_t tag, int to,
                            wefti_post piece) WEFT_CHECKED;

/* all: the piece for each other member, if none was put. */
weft_status wefti_posts_publish(wefti_comm *comm, int64_t tag,
                                wefti_post all) WEFT_CHECKED;
weft_status wefti_posts_receive(wefti_comm *comm, int64_t tag, int from, int64_t n_bytes,
                                const void **view) WEFT_CHECKED;
void wefti_posts_release(wefti_comm *comm, int64_t tag, int from);
weft_status wefti_posts_await(const wefti_comm *comm, int64_t tag) WEFT_CHECKED;
