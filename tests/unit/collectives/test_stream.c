/* SPDX-License-Identifier: MIT */
/* Messages where nobody waits: the newest that is there counts, an old one is received and
 * dropped, and a sender that numbers or dates its messages wrongly is refused. */
#include "collectives/stream.h"

#include "fakecomm.h"

enum { ME = 0, R = 3, STAGE = 6, BUCKETS = 2, BUCKET = 1, STEPS = 50 };
enum { PAYLOAD = 8, MESSAGE = WEFTI_FRAME_BYTES + PAYLOAD, FROM = 2 };

static weft_ctx *ctx;
static fake_comm fake;
static wefti_streams streams;

static int begin(void **state) {
    if (weft_ctx_create(&ctx) != WEFT_OK) return -1;
    fake_begin(&fake, ctx, ME, R);
    wefti_streams_setup setup = {ctx, &fake.comm, STAGE, BUCKETS, STEPS};
    streams = (wefti_streams){.items = NULL};
    return wefti_streams_init(&setup, &streams) == WEFT_OK ? 0 : -1;
}

static int end(void **state) {
    wefti_streams_fini(&streams);
    return ctx_end(ctx);
}

static wefti_frame frame_of(int64_t step) {
    return (wefti_frame){.kind = WEFTI_FRAME_GOSSIP,
                         .step = step,
                         .bucket = BUCKET,
                         .sender = FROM,
                         .payload_bytes = PAYLOAD};
}

/* The message with this number has come, and says that it is of `step`. */
static void deliver(int64_t number, int64_t step) {
    unsigned char message[MESSAGE] = {0};
    wefti_frame frame = frame_of(step);
    memcpy(message + WEFTI_FRAME_BYTES, &step, sizeof step);
    wefti_frame_encode(&frame, message);
    fake_deliver(&fake, FROM, wefti_comm_tag(number, BUCKET, STAGE), message, MESSAGE);
}

/* The step that the message says which is taken for `step`; -1: there is none. */
static int64_t receive(int64_t step) {
    const void *view;
    int64_t said;
    wefti_frame frame = frame_of(step);
    assert_ok(ctx, wefti_stream_receive(&streams, &frame, 0, &view));
    if (!view) return -1;
    memcpy(&said, (const char *)view + WEFTI_FRAME_BYTES, sizeof said);
    wefti_stream_release(&streams, FROM, BUCKET);
    return said;
}

TEST_IN(begin, end, messages_are_numbered_for_each_partner_and_bucket) {
    unsigned char message[MESSAGE] = {0};
    static const int to[] = {1, 2, 1, 1}, bucket[] = {0, 0, 1, 0};
    static const int64_t number[] = {0, 0, 0, 1};
    for (int i = 0; i < 4; i++) {
        assert_ok(ctx, wefti_stream_send(&streams, to[i], bucket[i], message, MESSAGE));
        assert_int_equal(fake.sent[i].peer, to[i]);
        assert_int_equal(fake.sent[i].tag, wefti_comm_tag(number[i], bucket[i], STAGE));
    }
}

TEST_IN(begin, end, the_message_of_the_step_counts) {
    deliver(0, 4);
    deliver(1, 5);
    assert_int_equal(receive(4), 4);
    assert_log(&fake, "R2 L2");
    assert_int_equal(receive(5), 5);
    assert_log(&fake, "R2 L2");
}

/* A sender may leave steps out, so the next number need not be the next step. */
TEST_IN(begin, end, older_messages_are_dropped_and_given_back) {
    deliver(0, 1);
    deliver(1, 3);
    deliver(2, 7);
    assert_int_equal(receive(7), 7);
    assert_log(&fake, "R2 L2 R2 L2 R2 L2");
}

/* What is newer than the step asked for stays here until its step comes. */
TEST_IN(begin, end, a_newer_message_waits_for_its_step) {
    deliver(0, 6);
    assert_int_equal(receive(4), -1);
    assert_log(&fake, "R2");
    assert_int_equal(receive(5), -1);
    assert_log(&fake, "");
    assert_int_equal(receive(6), 6);
    assert_log(&fake, "L2");
}

TEST_IN(begin, end, what_was_missed_is_dropped_when_it_comes) {
    assert_int_equal(receive(4), -1);
    assert_log(&fake, "-2");
    assert_ok(ctx, wefti_streams_catch_up(&streams, BUCKET, 5));
    assert_log(&fake, "-2"); /* still not there */
    deliver(0, 4);
    assert_ok(ctx, wefti_streams_catch_up(&streams, BUCKET, 5));
    assert_log(&fake,
               "R2 L2 -2"); /* the sender has its buffer back, and there is no more */
    assert_ok(ctx, wefti_streams_catch_up(&streams, BUCKET, 6));
    assert_log(&fake, ""); /* nothing is missing any more */
    deliver(1, 7);
    assert_int_equal(receive(7), 7);
}

TEST_IN(begin, end, a_bucket_that_missed_nothing_is_not_asked_about) {
    assert_int_equal(receive(4), -1);
    fake.log[0] = '\0';
    assert_ok(ctx, wefti_streams_catch_up(&streams, 1 - BUCKET, 5));
    assert_log(&fake, "");
}

/* The step in a head is the sender's word. */
static void refused(int64_t step) {
    const void *view;
    wefti_frame frame = frame_of(20);
    deliver(streams.items[BUCKET * R + FROM].n_taken, step);
    assert_int_equal(wefti_stream_receive(&streams, &frame, 0, &view), WEFT_ERR_WIRE);
    assert_non_null(strstr(weft_ctx_message(ctx), "wrong step"));
    assert_null(view);
    weft_ctx_clear(ctx);
    wefti_stream_release(&streams, FROM, BUCKET);
}

TEST_IN(begin, end, a_step_that_does_not_ascend_or_is_none_of_the_runs_is_refused) {
    deliver(0, 10);
    assert_int_equal(receive(10), 10);
    refused(10);
    refused(9);
    refused(-1);
    refused(STEPS);
    refused(INT64_MAX);
}

TEST_IN(begin, end, a_message_of_another_kind_is_refused) {
    unsigned char message[MESSAGE] = {0};
    const void *view;
    wefti_frame wanted = frame_of(4), sent = wanted;
    sent.kind = WEFTI_FRAME_CHOCO;
    wefti_frame_encode(&sent, message);
    fake_deliver(&fake, FROM, wefti_comm_tag(0, BUCKET, STAGE), message, MESSAGE);
    assert_int_equal(wefti_stream_receive(&streams, &wanted, 0, &view), WEFT_ERR_WIRE);
    assert_null(view);
    weft_ctx_clear(ctx);
}
