/* SPDX-License-Identifier: MIT */
/* Messages without waiting, where a late message must not be confused with a newer one: per
 * partner and bucket there is a stream whose steps ascend. The newest message that has
 * arrived by the deadline counts; a later one is received and dropped. */
#include "collectives/stream.h"

#include "base/memory.h"
#include "wire/bits.h"

enum { STEP_AT = 8 /* in the head */ };

int64_t wefti_streams_bytes(int n_buckets, int R) {
    return (int64_t)n_buckets * R * (int64_t)sizeof(wefti_stream);
}

weft_status wefti_streams_init(const wefti_streams_setup *setup, wefti_streams *streams) {
    int64_t n = (int64_t)setup->n_buckets * setup->comm->size;
    streams->setup = *setup;
    WEFT_TRY(
        wefti_alloc_n(setup->ctx, n, sizeof(wefti_stream), "streams", &streams->items));
    for (int64_t i = 0; i < n; i++)
        streams->items[i].last = streams->items[i].missed = -1;
    return WEFT_OK;
}

void wefti_streams_fini(wefti_streams *streams) {
    if (streams->items) wefti_free(streams->setup.ctx, streams->items);
}

static wefti_stream *stream_of(const wefti_streams *streams, int bucket, int member) {
    return &streams->items[(int64_t)bucket * streams->setup.comm->size + member];
}

static int64_t tag_of(const wefti_streams *streams, int64_t number, int bucket) {
    return wefti_comm_tag(number, bucket, streams->setup.stage);
}

weft_status wefti_stream_send(wefti_streams *streams, int target, int bucket,
                              const void *message, int64_t n_bytes) {
    wefti_stream *stream = stream_of(streams, bucket, target);
    int64_t tag = tag_of(streams, stream->n_sent++, bucket);
    return wefti_comm_send(streams->setup.comm, target, tag, message, n_bytes);
}

void wefti_stream_release(wefti_streams *streams, int source, int bucket) {
    wefti_stream *stream = stream_of(streams, bucket, source);
    stream->view = NULL;
    wefti_comm_release(streams->setup.comm, source,
                       tag_of(streams, stream->n_taken - 1, bucket));
}

static int64_t step_of(const wefti_stream *stream) {
    return (int64_t)wefti_get_u64((const unsigned char *)stream->view + STEP_AT);
}

/* The step is chosen by the sender: it has to ascend, and the rest of the head has to
 * match. */
static weft_status check(const wefti_streams *streams, const wefti_stream *stream,
                         const wefti_frame *wanted) {
    weft_ctx *ctx = streams->setup.ctx;
    wefti_frame frame = *wanted;
    frame.step = step_of(stream);
    if (frame.step <= stream->last || frame.step >= streams->setup.steps)
        return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                             "wrong step %lld in the message of rank %d, bucket %d, "
                             "expected more than %lld and less than %lld",
                             (long long)frame.step, frame.sender, frame.bucket,
                             (long long)stream->last, (long long)streams->setup.steps);
    return wefti_frame_check(ctx, &frame, stream->view,
                             WEFTI_FRAME_BYTES + frame.payload_bytes);
}

/* Receives messages until there is one for the wanted step or a later step, or none by the
 * deadline. */
static weft_status advance(wefti_streams *streams, const wefti_frame *wanted,
                           double until_s) {
    wefti_stream *stream = stream_of(streams, wanted->bucket, wanted->sender);
    for (;;) {
        if (stream->view && stream->last >= wanted->step) return WEFT_OK;
        if (stream->view) wefti_stream_release(streams, wanted->sender, wanted->bucket);
        WEFT_TRY(wefti_comm_receive_by(streams->setup.comm, wanted->sender,
                                       tag_of(streams, stream->n_taken, wanted->bucket),
                                       WEFTI_FRAME_BYTES + wanted->payload_bytes, until_s,
                                       &stream->view));
        if (!stream->view) return WEFT_OK;
        stream->n_taken++;
        WEFT_TRY(check(streams, stream, wanted));
        stream->last = step_of(stream);
        if (stream->last >= stream->missed) stream->missed = -1;
    }
}

weft_status wefti_stream_receive(wefti_streams *streams, const wefti_frame *wanted,
                                 double until_s, const void **view) {
    wefti_stream *stream = stream_of(streams, wanted->bucket, wanted->sender);
    *view = NULL;
    stream->wanted = *wanted;
    WEFT_TRY(advance(streams, wanted, until_s));
    if (stream->view && stream->last == wanted->step)
        *view = stream->view;
    else if (!stream->view)
        stream->missed = wanted->step;
    return WEFT_OK;
}

weft_status wefti_streams_catch_up(wefti_streams *streams, int bucket, int64_t step) {
    for (int source = 0; source < streams->setup.comm->size; source++) {
        wefti_stream *stream = stream_of(streams, bucket, source);
        wefti_frame earlier = stream->wanted;
        earlier.step = step;
        if (stream->missed >= 0) WEFT_TRY(advance(streams, &earlier, 0));
    }
    return WEFT_OK;
}
