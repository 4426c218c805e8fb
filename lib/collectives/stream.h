/* SPDX-License-Identifier: MIT */
#pragma once

#include "comm/comm.h"
#include "wire/frame.h"

/* Messages of one bucket from one member to another without any waiting: a sender leaves a
 * message out if it has no free buffer, a receiver continues without a message that is
 * late. So the tag is not the exchange's step but the message's number among those of the
 * pair, and the step is in its head. A receiver later receives and drops the messages that
 * it did without, so that the sender's buffers become free. */
typedef struct wefti_stream {
    int64_t n_sent;     /* messages sent to the other member */
    int64_t n_taken;    /* messages received from it */
    int64_t last;       /* step of the last received message, or -1 */
    int64_t missed;     /* last step whose message was missing; -1: none is missing */
    wefti_frame wanted; /* the last request: all messages are alike except for the step */
    const void *view;   /* the last received message, not released yet, or NULL */
} wefti_stream;

typedef struct wefti_streams_setup {
    weft_ctx *ctx; /* borrowed, like comm */
    wefti_comm *comm;
    int stage; /* in the tags */
    int n_buckets;
    int64_t steps; /* of the run: no message has a later step */
} wefti_streams_setup;

typedef struct wefti_streams {
    wefti_streams_setup setup;
    wefti_stream *items; /* [n_buckets][members] owned */
} wefti_streams;

int64_t wefti_streams_bytes(int n_buckets, int R);
weft_status wefti_streams_init(const wefti_streams_setup *setup,
                               wefti_streams *streams) WEFT_CHECKED;
void wefti_streams_fini(wefti_streams *streams);

/* Sends a whole message, with its head, to a member. */
weft_status wefti_stream_send(wefti_streams *streams, int target, int bucket,
                              const void *message, int64_t n_bytes) WEFT_CHECKED;

/* *view: the message that `wanted` describes, checked, until wefti_stream_release; NULL: it
 * had not arrived at `until_s`, or was left out. Earlier messages are dropped. */
weft_status wefti_stream_receive(wefti_streams *streams, const wefti_frame *wanted,
                                 double until_s, const void **view) WEFT_CHECKED;
void wefti_stream_release(wefti_streams *streams, int source, int bucket);

/* Drops what has arrived of the bucket, from any member, for exchanges before `step`. */
weft_status wefti_streams_catch_up(wefti_streams *streams, int bucket,
                                   int64_t step) WEFT_CHECKED;
