/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "wire/frame.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

TEST(any_flipped_bit_of_a_message_is_found) {
    unsigned char message[WEFTI_FRAME_BYTES + 57];
    wefti_frame frame = {WEFTI_FRAME_DEMO, 123456789012, 3, 7, 57};
    for (int i = 0; i < 57; i++) message[WEFTI_FRAME_BYTES + i] = (unsigned char)(i * 37);
    wefti_frame_encode(&frame, message);
    assert_ok(ctx, wefti_frame_check(ctx, &frame, message, sizeof message));
    for (size_t bit = 0; bit < 8 * sizeof message; bit++) {
        message[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_int_equal(wefti_frame_check(ctx, &frame, message, sizeof message),
                         WEFT_ERR_WIRE);
        message[bit / 8] ^= (unsigned char)(1 << bit % 8);
        weft_ctx_clear(ctx);
    }
    assert_int_equal(wefti_frame_check(ctx, &frame, message, sizeof message - 1),
                     WEFT_ERR_WIRE);
    weft_ctx_clear(ctx);
}

TEST(a_message_of_another_step_or_rank_is_refused) {
    unsigned char message[WEFTI_FRAME_BYTES];
    wefti_frame frame = {WEFTI_FRAME_DEMO, 5, 3, 7, 0};
    wefti_frame_encode(&frame, message);
    wefti_frame other = frame;
    other.step = 6;
    assert_int_equal(wefti_frame_check(ctx, &other, message, sizeof message),
                     WEFT_ERR_WIRE);
    assert_non_null(strstr(weft_ctx_message(ctx), "wrong step"));
    weft_ctx_clear(ctx);
    other = frame;
    other.sender = 1;
    assert_int_equal(wefti_frame_check(ctx, &other, message, sizeof message),
                     WEFT_ERR_WIRE);
    assert_non_null(strstr(weft_ctx_message(ctx), "wrong sender"));
    weft_ctx_clear(ctx);
}

int main(void) { return check_run(setup, teardown); }
