/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "check.h"
#include "wire/bits.h"

enum { NUMBERS = 500 };

static int width_of(int i) {
    return (int)(wefti_rng_u64(1, WEFTI_STREAM_TEST, 0, (uint64_t)i) % 65);
}

static uint64_t number_of(int i) {
    uint64_t x = wefti_rng_u64(2, WEFTI_STREAM_TEST, 0, (uint64_t)i);
    int width = width_of(i);
    return width == 0 ? 0 : x >> (64 - width);
}

/* Exactly as long as the stream, on the heap: a sanitizer sees what is read beyond. */
static unsigned char *written(int64_t *n_bytes) {
    int64_t bits = 0;
    for (int i = 0; i < NUMBERS; i++) bits += width_of(i);
    *n_bytes = (bits + 7) / 8;
    unsigned char *bytes = malloc((size_t)*n_bytes);
    wefti_bit_writer w = {.out = bytes};
    for (int i = 0; i < NUMBERS; i++) wefti_bits_write(&w, number_of(i), width_of(i));
    wefti_bits_finish(&w);
    assert_ptr_equal(w.out, bytes + *n_bytes);
    return bytes;
}

TEST(numbers_of_every_width_are_read_back) {
    int64_t n_bytes;
    unsigned char *bytes = written(&n_bytes);
    wefti_bit_reader r = {bytes, n_bytes, 0};
    for (int i = 0; i < NUMBERS; i++)
        assert_true(wefti_bits_read(&r, width_of(i)) == number_of(i));
    free(bytes);
}

TEST(bit_j_of_a_stream_is_bit_j_mod_8_of_byte_j_over_8) {
    int64_t n_bytes, at = 0;
    unsigned char *bytes = written(&n_bytes);
    for (int i = 0; i < NUMBERS; i++)
        for (int bit = 0; bit < width_of(i); bit++, at++)
            assert_int_equal(bytes[at / 8] >> at % 8 & 1, number_of(i) >> bit & 1);
    for (; at < 8 * n_bytes; at++) assert_int_equal(bytes[at / 8] >> at % 8 & 1, 0);
    free(bytes);
}

TEST(bits_beyond_the_end_read_as_zero) {
    unsigned char *bytes = malloc(3);
    memset(bytes, 0xff, 3);
    wefti_bit_reader r = {bytes, 3, 20};
    assert_int_equal(wefti_bits_read(&r, 64), 15);
    assert_int_equal(wefti_bits_read(&r, 64), 0);
    free(bytes);
}

TEST(low_bits_come_back_at_every_width_and_count) {
    int32_t numbers[13], back[13];
    unsigned char bytes[13 * 3];
    for (int width = 0; width <= 24; width++)
        for (int n = 0; n <= 13; n++) {
            for (int i = 0; i < 13; i++) numbers[i] = (int32_t)(number_of(i) & 0x7ffffff);
            wefti_bit_writer w = {.out = bytes};
            wefti_bits_write_low(&w, n, width, numbers);
            wefti_bits_finish(&w);
            assert_int_equal(w.out - bytes, wefti_bit_bytes(n * width));
            wefti_bit_reader r = {bytes, wefti_bit_bytes(n * width), 0};
            wefti_bits_read_low(&r, n, width, back);
            for (int i = 0; i < n; i++)
                assert_int_equal(back[i], numbers[i] & ((1 << width) - 1));
        }
}
