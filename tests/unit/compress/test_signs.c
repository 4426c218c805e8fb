/* SPDX-License-Identifier: MIT */
/* Three-valued signs in two bits. */
#include <math.h>

#include "check.h"
#include "compress/signs.h"

TEST(signs_lie_as_documented) {
    const float x[] = {0.0f, 2.5f, -1e-18f, INFINITY, -0.0f, NAN, 1.1e-19f};
    const float want[] = {0, 1, -1, NAN, 0, NAN, 1};
    unsigned char bytes[2];
    assert_int_equal(wefti_signs_bytes(7), 2);
    wefti_signs_encode(7, x, bytes);
    assert_int_equal(bytes[0], 0 | 1 << 2 | 2 << 4 | 3 << 6);
    assert_int_equal(bytes[1], 0 | 3 << 2 | 1 << 4);
    weft_ctx *ctx;
    float decoded[7], direct[7];
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, wefti_signs_decode(ctx, 7, bytes, decoded));
    wefti_signs_of(7, x, direct);
    for (int i = 0; i < 7; i++) {
        assert_true(isnan(want[i]) ? isnan(decoded[i]) : decoded[i] == want[i]);
        assert_memory_equal(&decoded[i], &direct[i], sizeof(float));
    }
    weft_ctx_destroy(ctx);
}

/* 2^-63 is the least that has a sign. */
TEST(what_is_still_has_no_sign) {
    const float x[] = {0x1p-63f, -0x1p-63f, 0x0.ffffffp-63f, -0x0.ffffffp-63f, 1e-45f};
    const float want[] = {1, -1, 0, 0, 0};
    unsigned char bytes[2];
    float direct[5];
    wefti_signs_encode(5, x, bytes);
    assert_int_equal(bytes[0], 1 | 2 << 2);
    assert_int_equal(bytes[1], 0);
    wefti_signs_of(5, x, direct);
    for (int i = 0; i < 5; i++) assert_true(direct[i] == want[i]);
}

TEST(every_length_returns_with_no_byte_more) {
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int64_t n = 0; n < 40; n++) {
        float x[40], back[41] = {0}, direct[40];
        unsigned char bytes[11];
        fill_normal(5, 40, x);
        memset(bytes, 0xa5, sizeof bytes);
        back[n] = 7;
        wefti_signs_encode(n, x, bytes);
        assert_int_equal(bytes[wefti_signs_bytes(n)], 0xa5);
        assert_ok(ctx, wefti_signs_decode(ctx, n, bytes, back));
        wefti_signs_of(n, x, direct);
        assert_memory_equal(back, direct, (size_t)n * sizeof(float));
        assert_true(back[n] == 7);
    }
    weft_ctx_destroy(ctx);
}

TEST(bits_left_over_must_be_zero) {
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    for (int64_t n = 1; n < 8; n++) {
        for (int bit = (int)(2 * n) % 8; n % 4 && bit < 8; bit++) {
            unsigned char bytes[2] = {0, 0};
            float x[8];
            bytes[n / 4] = (unsigned char)(1 << bit);
            assert_int_equal(wefti_signs_decode(ctx, n, bytes, x), WEFT_ERR_WIRE);
            assert_non_null(strstr(weft_ctx_message(ctx), "not zero"));
            weft_ctx_clear(ctx);
        }
    }
    weft_ctx_destroy(ctx);
}
