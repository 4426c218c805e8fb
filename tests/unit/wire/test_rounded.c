/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "wire/rounded.h"

static uint64_t random_number(uint64_t i, int most_bits) {
    uint64_t x = wefti_rng_u64(1, WEFTI_STREAM_TEST, 0, i);
    return x >> (64 - most_bits + (int)(i % (uint64_t)most_bits));
}

/* Up to 20 significant bits, by the definition. */
static uint64_t rounded_up(uint64_t x) {
    uint64_t unit = 1;
    while (unit << 20 <= x) unit *= 2;
    return (x + unit - 1) / unit * unit;
}

TEST(rounding_down_keeps_the_leading_20_bits) {
    assert_int_equal(wefti_rounded_down(0), 0);
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t x = random_number(i, 64), unit = 1;
        while (x >> 20 >= unit) unit *= 2;
        assert_true(wefti_rounded_value(wefti_rounded_down(x)) == x / unit * unit);
    }
}

TEST(a_number_reaches_a_rounded_one_if_it_does_so_rounded_down) {
    for (uint64_t i = 0; i < 10000; i++) {
        uint64_t bound = rounded_up(random_number(3 * i, 40));
        wefti_rounded b = wefti_rounded_down(bound);
        uint64_t near[] = {bound, bound > 0 ? bound - 1 : 0, bound + 1,
                           random_number(3 * i + 1, 40)};
        assert_true(wefti_rounded_value(b) == bound);
        for (int j = 0; j < 4; j++)
            assert_int_equal(wefti_rounded_down(near[j]) >= b, near[j] >= bound);
    }
}

TEST(sums_are_rounded_up_to_20_bits) {
    for (uint64_t i = 0; i < 40000; i++) {
        uint64_t x = rounded_up(random_number(2 * i, 60));
        uint64_t y = rounded_up(random_number(2 * i + 1, 1 + (int)(i % 60)));
        wefti_rounded sum = wefti_rounded_add(wefti_rounded_down(x),
                                              wefti_rounded_down(y));
        assert_true(wefti_rounded_value(sum) == rounded_up(x + y));
    }
}

TEST(a_small_addend_raises_a_long_number_by_one_unit) {
    wefti_rounded longest = wefti_rounded_make(4000, 0xfffff),
                  one = wefti_rounded_down(1);
    assert_int_equal(wefti_rounded_add(longest, one), wefti_rounded_make(4001, 0x80000));
    assert_int_equal(wefti_rounded_add(one, longest), wefti_rounded_make(4001, 0x80000));
    assert_int_equal(wefti_rounded_add(longest, 0), longest);
    for (int lag = 0; lag < 100; lag++) { /* 1.5 * 2^(999 - lag) onto 2^999 */
        wefti_rounded sum = wefti_rounded_add(wefti_rounded_make(1000, 0x80000),
                                              wefti_rounded_make(1000 - lag, 0xc0000));
        uint64_t lead = lag < 20 ? (0x800000u | 0xc00000u >> lag) + 15 : 0;
        wefti_rounded expected = wefti_rounded_make(1000, 0x80001);
        if (lag == 0)
            expected = wefti_rounded_make(1001, 0xa0000);
        else if (lag < 20)
            expected = wefti_rounded_make(1000, lead >> 4);
        assert_int_equal(sum, expected);
    }
}

TEST(bits_are_those_of_the_numbers_below) {
    static const struct {
        uint64_t total;
        int bits;
    } cases[] = {{1, 0}, {2, 1}, {3, 2}, {4, 2}, {5, 3}, {635376, 20}, {1 << 20, 20}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(wefti_rounded_bits(wefti_rounded_down(cases[i].total)),
                         cases[i].bits);
}
