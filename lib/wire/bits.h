/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"

/* Streams of bits and fixed-width packing. Bit j of a stream is
 * bit j mod 8 (0 the lowest) of byte j / 8; a number's lowest bit comes first. */

/* Bits of a number: 0 for 0, 64 for the largest. */
static inline int wefti_bit_length(uint64_t x) {
    return x == 0 ? 0 : 64 - __builtin_clzll(x);
}

/* Bits that hold every index below n (n >= 1); 0 for n = 1. */
static inline int wefti_bits_for(int64_t n) { return wefti_bit_length((uint64_t)n - 1); }

/* Whole bytes that hold n bits. */
static inline int64_t wefti_bit_bytes(int64_t n_bits) { return (n_bits + 7) / 8; }

/* A stream that is written from its beginning. */
typedef struct wefti_bit_writer {
    unsigned char *out; /* where the next whole 8 bytes go */
    uint64_t pending;   /* bits not yet written, lowest first */
    int n_pending;      /* 0 to 63 */
} wefti_bit_writer;

/* Appends the `width` low bits of x, 0 to 64; x has no others. */
static inline void wefti_bits_write(wefti_bit_writer *w, uint64_t x, int width) {
    w->pending |= x << w->n_pending;
    int n = w->n_pending + width;
    if (n >= 64) {
        wefti_put_u64(w->out, w->pending);
        w->out += 8;
        w->pending = w->n_pending > 0 ? x >> (64 - w->n_pending) : 0;
        n -= 64;
    }
    w->n_pending = n;
}

/* Writes the pending bits; the unused bits of the last byte are zero. */
static inline void wefti_bits_finish(wefti_bit_writer *w) {
    for (; w->n_pending > 0; w->n_pending -= 8, w->pending >>= 8)
        *w->out++ = (unsigned char)w->pending;
}

/* A stream that is read from any place. */
typedef struct wefti_bit_reader {
    const unsigned char *in;
    int64_t n_bytes; /* that may be read, at least the stream's */
    int64_t at;      /* the next bit */
} wefti_bit_reader;

/* The last bytes of the stream, where eight cannot be read at once. */
static inline uint64_t wefti_bits_tail(const unsigned char *in, int64_t n_bytes) {
    uint64_t x = 0;
    for (int64_t i = 0; i < n_bytes && i < 8; i++) x |= (uint64_t)in[i] << (8 * i);
    return x;
}

/* The next `width` bits, 0 to 64; bits after n_bytes read as zero. */
static inline uint64_t wefti_bits_read(wefti_bit_reader *r, int width) {
    int64_t byte = r->at >> 3, left = r->n_bytes - byte;
    int shift = (int)(r->at & 7);
    uint64_t x = left >= 8 ? wefti_get_u64(r->in + byte)
                           : wefti_bits_tail(r->in + byte, left);
    x >>= shift;
    if (shift + width > 64 && left > 8) x |= (uint64_t)r->in[byte + 8] << (64 - shift);
    r->at += width;
    return width < 64 ? x & ((1ull << width) - 1) : x;
}

/* Writes the `width` low bits of n numbers, 0 to 24. */
static inline void wefti_bits_write_low(wefti_bit_writer *w, int64_t n, int width,
                                        const int32_t *numbers) {
    uint64_t mask = (1ull << width) - 1;
    int64_t i = 0;
    for (; width <= 14 && i + 4 <= n; i += 4) {
        uint64_t a = (uint64_t)numbers[i] & mask, b = (uint64_t)numbers[i + 1] & mask;
        uint64_t c = (uint64_t)numbers[i + 2] & mask, d = (uint64_t)numbers[i + 3] & mask;
        uint64_t word = (d << width | c) << 2 * width | (b << width | a);
        wefti_bits_write(w, word, 4 * width);
    }
    for (; i < n; i++) wefti_bits_write(w, (uint64_t)numbers[i] & mask, width);
}

/* Reads n numbers of `width` bits, 0 to 24. */
static inline void wefti_bits_read_low(wefti_bit_reader *r, int64_t n, int width,
                                       int32_t *numbers) {
    uint64_t mask = (1ull << width) - 1;
    int64_t i = 0;
    wefti_bit_reader in = *r; /* a copy, which cannot be one of the numbers */
    for (; width <= 14 && i + 4 <= n; i += 4) {
        uint64_t word = wefti_bits_read(&in, 4 * width);
        numbers[i] = (int32_t)(word & mask);
        numbers[i + 1] = (int32_t)(word >> width & mask);
        numbers[i + 2] = (int32_t)(word >> 2 * width & mask);
        numbers[i + 3] = (int32_t)(word >> 3 * width);
    }
    for (; i < n; i++) numbers[i] = (int32_t)wefti_bits_read(&in, width);
    *r = in;
}
