/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/comm.h"
#include "wire/frame.h"

/* Messages of one bucket from one member to another where nobody waits for anybody: a
 * sender leaves a message out when it has no free buffer, a receiver goes on without one
 * that is late. So the tag is not the exchange's step but the message's number among those
 * of the pair, and the step stands in its head. What a receiver did without it receives
 * and drops later, so that the sender's buffer comes back. */
typedef struct wefti_stream {
    int64_t n_sent;  /* to the other one */
    int64_t n_taken; /* received from it */
    int64_t last;    /* step of the last one received, or -1 */
    int64_t missed;  /* last step that was done without, -1: none is to be looked for */
    wefti_frame
        wanted; /* what was asked for last: all messages are alike but for the step */
    const void *view; /* the last one, not released yet, or NULL */
} wefti_stream;

typedef struct wefti_streams_setup {
    weft_ctx *ctx; /* borrowed, like comm */
    wefti_comm *comm;
    int stage; /* of the tags */
    int n_buckets;
    int64_t steps; /* of the run: no message is of a later one */
} wefti_streams_setup;

typedef struct wefti_streams {
    wefti_streams_setup setup;
    wefti_stream *items; /* [n_buckets][members] owned */
} wefti_streams;

int64_t wefti_streams_bytes(int n_buckets, int R);
weft_status wefti_streams_init(const wefti_streams_setup *setup,
                               wefti_streams *streams) WEFT_CHECKED;
void wefti_streams_fini(wefti_streams *streams);

/* Sends a whole message, head and all, to a member. */
weft_status wefti_stream_send(wefti_streams *streams, int target, int bucket,
                              const void *message, int64_t n_bytes) WEFT_CHECKED;

/* *view: the message that `wanted` describes, checked, until wefti_stream_release; NULL: it
 * was not there at `until_s`, or was left out. Earlier ones are dropped. */
weft_status wefti_stream_receive(wefti_streams *streams, const wefti_frame *wanted,
                                 double until_s, const void **view) WEFT_CHECKED;
void wefti_stream_release(wefti_streams *streams, int source, int bucket);

/* Drops what has come of the bucket, from anybody, for exchanges before `step`. */
weft_status wefti_streams_catch_up(wefti_streams *streams, int bucket,
                                   int64_t step) WEFT_CHECKED;
