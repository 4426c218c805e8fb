/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "wire/bits.h"

/* A whole number with 20 significant bits in 32: length << 19 | the bits after the
 * leading one, 0 for zero. These values order like the numbers, and a number is at least
 * a rounded one if and only if the number rounded down is: comparing long numbers takes
 * no more than comparing 32 bits. Numbers of up to 8191 bits. */
typedef uint32_t wefti_rounded;

enum { WEFTI_ROUNDED_BITS = 20, WEFTI_ROUNDED_ONE = 1 << 19 };

static inline int wefti_rounded_length(wefti_rounded a) { return (int)(a >> 19); }

/* The 20 leading bits of a number that is not zero, the first of them 1. */
static inline uint32_t wefti_rounded_lead(wefti_rounded a) {
    return (a & (WEFTI_ROUNDED_ONE - 1)) | WEFTI_ROUNDED_ONE;
}

/* Bits of the numbers below a, which is not zero. */
static inline int wefti_rounded_bits(wefti_rounded a) {
    bool power = (a & (WEFTI_ROUNDED_ONE - 1)) == 0;
    return wefti_rounded_length(a) - power;
}

/* From the length and the 20 leading bits (or 2^20: the carry moves into the length). */
static inline wefti_rounded wefti_rounded_make(int length, uint64_t lead) {
    return ((uint32_t)(length - 1) << 19) + (uint32_t)lead;
}

/* The largest rounded number that is at most x. */
static inline wefti_rounded wefti_rounded_down(uint64_t x) {
    int length = wefti_bit_length(x);
    return x == 0 ? 0 : wefti_rounded_make(length, x << (64 - length) >> 44);
}

/* The number, if it is below 2^64. */
static inline uint64_t wefti_rounded_value(wefti_rounded a) {
    int length = wefti_rounded_length(a);
    uint64_t lead = wefti_rounded_lead(a);
    if (a == 0) return 0;
    return length > WEFTI_ROUNDED_BITS ? lead << (length - WEFTI_ROUNDED_BITS)
                                       : lead >> (WEFTI_ROUNDED_BITS - length);
}

/* a + b, rounded up; sums below 2^20 are exact. */
static inline wefti_rounded wefti_rounded_add(wefti_rounded a, wefti_rounded b) {
    if (a < b) {
        wefti_rounded c = a;
        a = b;
        b = c;
    }
    if (b == 0) return a;
    int length = wefti_rounded_length(a), lag = length - wefti_rounded_length(b);
    uint64_t sum = (uint64_t)wefti_rounded_lead(a) << 24;
    uint64_t small = (uint64_t)wefti_rounded_lead(b) << 24;
    sum += lag < 44 ? small >> lag : 1; /* never all of b is cut off */
    int drop = 24 + (int)(sum >> 44);
    return wefti_rounded_make(length + drop - 24, (sum + (1ull << drop) - 1) >> drop);
}
