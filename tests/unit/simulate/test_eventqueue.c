/* SPDX-License-Identifier: MIT */
/* The board of messages and the agenda against lists that are searched. */
#include <math.h>

#include "check.h"
#include "base/rng.h"
#include "simulate/eventqueue.h"

static uint64_t draw(uint64_t i) { return wefti_rng_u64(7, WEFTI_STREAM_TEST, 0, i); }

/* Posts and takes at random; every key that is on it is found, no other. */
TEST(what_is_posted_is_found_until_it_is_taken) {
    enum { KEYS = 6000, STEPS = 60000 };
    static bool there[KEYS];
    weft_ctx *ctx;
    wefti_event_queue board;
    int64_t n = 0;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_int_equal(wefti_event_queue_init(ctx, &board), WEFT_OK);
    for (uint64_t i = 0; i < STEPS; i++) {
        uint64_t k = draw(i) % KEYS, key = (k + 1) << 20;
        wefti_posted *posted = wefti_event_queue_find(&board, key);
        assert_true((posted != NULL) == there[k]);
        if (posted) {
            assert_true(posted->key == key && posted->sent_s == (double)k);
            wefti_event_queue_take(&board, posted);
        } else {
            assert_int_equal(wefti_event_queue_post(&board, key, (double)k, INFINITY),
                             WEFT_OK);
        }
        n += there[k] ? -1 : 1;
        there[k] = !there[k];
        assert_int_equal(board.n, n);
    }
    for (uint64_t k = 0; k < KEYS; k++)
        assert_true((wefti_event_queue_find(&board, (k + 1) << 20) != NULL) == there[k]);
    wefti_event_queue_fini(&board);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

TEST(events_come_in_their_order) {
    enum { N = 5000 };
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    wefti_agenda agenda = {.ctx = ctx};
    wefti_event event, last = {-1, 0, 0, 0};
    for (uint64_t i = 0; i < N; i++) {
        event = (wefti_event){(double)(draw(i) % 100), (uint32_t)draw(N + i), (int32_t)i,
                              0};
        assert_int_equal(wefti_agenda_add(&agenda, event), WEFT_OK);
    }
    for (int i = 0; i < N; i++) {
        assert_true(wefti_agenda_next(&agenda, &event));
        assert_true(event.when_s > last.when_s ||
                    (event.when_s == last.when_s && event.order >= last.order));
        last = event;
    }
    assert_false(wefti_agenda_next(&agenda, &event));
    wefti_agenda_fini(&agenda);
    weft_ctx_destroy(ctx);
}
