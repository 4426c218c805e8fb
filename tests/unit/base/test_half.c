/* SPDX-License-Identifier: MIT */
/* Rounding to 16 bits against its definition: of all numbers that the type has, the nearest, of
 * two equally near ones the one whose last bit is 0. */
#include "base/half.h"
#include "check.h"

typedef struct type {
    uint16_t (*narrow)(float x);
    float (*widen)(uint32_t half);
    uint32_t infinity;
} type;

static const type types[] = {{wefti_bf16, wefti_f32_of_bf16, 0x7f80},
                             {wefti_f16, wefti_f32_of_f16, 0x7c00}};

enum { N_TYPES = sizeof types / sizeof types[0] };

TEST(every_number_of_16_bits_survives) {
    for (int t = 0; t < N_TYPES; t++)
        for (uint32_t half = 0; half < 0x10000; half++) {
            float x = types[t].widen(half);
            bool is_nan = (half & 0x7fff) > types[t].infinity;
            assert_true(is_nan == (isnan(x) != 0));
            assert_true(is_nan ? (types[t].narrow(x) & 0x7fff) > types[t].infinity
                               : types[t].narrow(x) == half);
        }
}

/* A middle is exact in f32, as both types have fewer bits; its neighbours go their own way. */
TEST(the_nearest_is_taken_and_of_two_the_even_one) {
    for (int t = 0; t < N_TYPES; t++)
        for (uint32_t half = 0; half + 1 < types[t].infinity; half++) {
            float low = types[t].widen(half), high = types[t].widen(half + 1);
            float middle = low + (high - low) / 2;
            uint32_t even = half + (half & 1);
            assert_int_equal(types[t].narrow(middle), even);
            assert_int_equal(types[t].narrow(-middle), even | 0x8000);
            assert_int_equal(types[t].narrow(nextafterf(middle, 0)), half);
            assert_int_equal(types[t].narrow(nextafterf(middle, INFINITY)), half + 1);
        }
}

/* The number behind the largest would be the infinite one: from the middle to it on. */
TEST(too_large_is_infinite) {
    assert_int_equal(wefti_f16(65519.996f), 0x7bff);
    assert_int_equal(wefti_f16(65520.0f), 0x7c00);
    assert_int_equal(wefti_f16(-3e38f), 0xfc00);
    assert_int_equal(wefti_bf16(3.3961775e38f), 0x7f80);
    assert_int_equal(wefti_bf16(-INFINITY), 0xff80);
}

TEST(numbers_that_are_known) {
    assert_int_equal(wefti_f16(1.0f), 0x3c00);
    assert_int_equal(wefti_f16(-2.0f), 0xc000);
    assert_int_equal(wefti_f16(0x1p-24f), 0x0001);
    assert_int_equal(wefti_f16(-0.0f), 0x8000);
    assert_int_equal(wefti_bf16(1.0f), 0x3f80);
    assert_true(wefti_f32_of_f16(0x3555) == 0.333251953125f);
    assert_true(wefti_f32_of_bf16(0x3eab) == 0.333984375f);
}
