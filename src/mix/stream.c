/* SPDX-License-Identifier: MIT */
/* Messages of gossip with a deadline, where a late message must not be taken for a newer one:
 * per partner and bucket a stream whose steps ascend. The newest that is there by the
 * deadline counts; what comes later is received and dropped. */
#include "mix/stream.h"

#include "base/memory.h"
#include "wire/bits.h"

enum { STAGE = 10, STEP_AT = 8 /* in the head */ };

int64_t wefti_streams_bytes(int n_buckets, int R) {
    return (int64_t)n_buckets * R * (int64_t)sizeof(wefti_stream);
}

weft_status wefti_streams_init(wefti_mixer *m, wefti_streams *streams) {
    int64_t n = (int64_t)m->n_buckets * m->comm->size;
    WEFT_TRY(wefti_alloc_n(m->ctx, n, sizeof(wefti_stream), "streams", &streams->items));
    for (int64_t i = 0; i < n; i++)
        streams->items[i].last = streams->items[i].missed = -1;
    return WEFT_OK;
}

void wefti_streams_fini(wefti_mixer *m, wefti_streams *streams) {
    wefti_free(m->ctx, streams->items);
}

static wefti_stream *stream_of(const wefti_mixer *m, const wefti_streams *streams,
                               int bucket, int member) {
    return &streams->items[(int64_t)bucket * m->comm->size + member];
}

weft_status wefti_stream_send(wefti_mixer *m, wefti_streams *streams, int target,
                              const wefti_frame *frame, const unsigned char *message) {
    wefti_stream *stream = stream_of(m, streams, frame->bucket, target);
    int64_t tag = wefti_comm_tag(stream->n_sent++, frame->bucket, STAGE);
    return wefti_comm_send(m->comm, target, tag, message,
                           WEFTI_FRAME_BYTES + frame->payload_bytes);
}

void wefti_stream_release(wefti_mixer *m, wefti_streams *streams, int bucket,
                          int source) {
    wefti_stream *stream = stream_of(m, streams, bucket, source);
    stream->view = NULL;
    wefti_comm_release(m->comm, source,
                       wefti_comm_tag(stream->n_taken - 1, bucket, STAGE));
}

/* The step is the sender's word: it has to ascend, and the rest of the head to fit. */
static weft_status check(wefti_mixer *m, const wefti_stream *stream,
                         const wefti_stream_ask *ask) {
    int64_t n = m->buckets[ask->bucket].n_elements * (int64_t)sizeof(float);
    int64_t step = (int64_t)wefti_get_u64((const unsigned char *)stream->view + STEP_AT);
    wefti_frame frame = {.kind = WEFTI_FRAME_GOSSIP,
                         .step = step,
                         .bucket = ask->bucket,
                         .sender = ask->source,
                         .payload_bytes = n};
    if (step <= stream->last || step >= m->config.steps)
        return weft_ctx_fail(m->ctx, WEFT_ERR_WIRE,
                             "wrong step %lld in the message of rank %d, bucket %d, "
                             "expected more than %lld and less than %lld",
                             (long long)step, ask->source, ask->bucket,
                             (long long)stream->last, (long long)m->config.steps);
    return wefti_frame_check(m->ctx, &frame, stream->view, WEFTI_FRAME_BYTES + n);
}

/* Takes messages until there is one for `step` or a later one, or none by the moment. */
static weft_status advance(wefti_mixer *m, wefti_streams *streams,
                           const wefti_stream_ask *ask) {
    wefti_stream *stream = stream_of(m, streams, ask->bucket, ask->source);
    int64_t n_bytes = WEFTI_FRAME_BYTES +
                      m->buckets[ask->bucket].n_elements * (int64_t)sizeof(float);
    for (;;) {
        if (stream->view && stream->last >= ask->step) return WEFT_OK;
        if (stream->view) wefti_stream_release(m, streams, ask->bucket, ask->source);
        WEFT_TRY(wefti_comm_receive_by(
            m->comm, ask->source, wefti_comm_tag(stream->n_taken, ask->bucket, STAGE),
            n_bytes, ask->moment_s, &stream->view));
        if (!stream->view) return WEFT_OK;
        stream->n_taken++;
        WEFT_TRY(check(m, stream, ask));
        stream->last = (int64_t)wefti_get_u64((const unsigned char *)stream->view +
                                              STEP_AT);
        if (stream->last >= stream->missed) stream->missed = -1;
    }
}

weft_status wefti_stream_receive(wefti_mixer *m, wefti_streams *streams,
                                 const wefti_stream_ask *ask, const void **view) {
    wefti_stream *stream = stream_of(m, streams, ask->bucket, ask->source);
    *view = NULL;
    WEFT_TRY(advance(m, streams, ask));
    if (stream->view && stream->last == ask->step) {
        *view = stream->view;
        return WEFT_OK;
    }
    m->late++;
    if (!stream->view) stream->missed = ask->step;
    return WEFT_OK;
}

weft_status wefti_streams_catch_up(wefti_mixer *m, wefti_streams *streams, int bucket,
                                   int64_t step) {
    for (int source = 0; source < m->comm->size; source++) {
        wefti_stream_ask ask = {.bucket = bucket, .source = source, .step = step};
        if (stream_of(m, streams, bucket, source)->missed >= 0)
            WEFT_TRY(advance(m, streams, &ask));
    }
    return WEFT_OK;
}
