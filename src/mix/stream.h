/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_STREAM_H
#define WEFTI_STREAM_H

#include "mix/mixer.h"
#include "wire/frame.h"

/* Messages of one bucket from one member to another where nobody waits for anybody: a
 * sender leaves a message out when it has no free buffer, a receiver goes on without one
 * that is late. So the tag is not the meeting's step but the message's number among those
 * of the pair, and the step stands in its head. What a receiver did without it receives
 * and drops later, so that the sender's buffer comes back. */
typedef struct wefti_stream {
    int64_t n_sent;   /* to the other one */
    int64_t n_taken;  /* received from it */
    int64_t last;     /* step of the last one received, or -1 */
    int64_t missed;   /* last step that was done without, -1: none is to be looked for */
    const void *view; /* the last one, not released yet, or NULL */
} wefti_stream;

/* What is asked for. */
typedef struct wefti_stream_ask {
    int bucket, source;
    int64_t step;    /* of the meeting */
    double moment_s; /* at which it goes on without */
} wefti_stream_ask;

typedef struct wefti_streams {
    wefti_stream *items; /* [n_buckets][members] owned */
} wefti_streams;

int64_t wefti_streams_bytes(int n_buckets, int R);
weft_status wefti_streams_init(wefti_mixer *m, wefti_streams *streams) WEFT_CHECKED;
void wefti_streams_fini(wefti_mixer *m, wefti_streams *streams);

/* Sends a whole message, head and all, to a member. */
weft_status wefti_stream_send(wefti_mixer *m, wefti_streams *streams, int target,
                              const wefti_frame *frame,
                              const unsigned char *message) WEFT_CHECKED;

/* *view: the source's message for the meeting, checked, until wefti_stream_release; NULL:
 * it is late, or was left out, and is counted in m->late. Earlier ones are dropped. */
weft_status wefti_stream_receive(wefti_mixer *m, wefti_streams *streams,
                                 const wefti_stream_ask *ask,
                                 const void **view) WEFT_CHECKED;
void wefti_stream_release(wefti_mixer *m, wefti_streams *streams, int bucket, int source);

/* Drops what has come of the bucket, from anybody, for meetings before `step`. */
weft_status wefti_streams_catch_up(wefti_mixer *m, wefti_streams *streams, int bucket,
                                   int64_t step) WEFT_CHECKED;

#endif
