/* SPDX-License-Identifier: MIT */
/* Random sets and values for tests of the wire. */
#pragma once

#include "check.h"

/* k of 0 .. n - 1, ascending; every set has the same probability (Knuth, algorithm S). */
static inline void draw_set(uint64_t seed, int64_t n, int64_t k, int32_t *set) {
    for (int64_t i = 0; i < n && k > 0; i++)
        if (wefti_rng_uniform(seed, WEFTI_STREAM_TEST, 1, (uint64_t)i) * (double)(n - i) <
            (double)k) {
            *set++ = (int32_t)i;
            k--;
        }
}

/* For each of n chunks a set: the lowest, the highest, then random ones. */
static inline void draw_chunks(uint64_t seed, int64_t n, int64_t elements, int64_t k,
                               int32_t *indices) {
    for (int64_t c = 0; c < n; c++, indices += k) {
        draw_set(seed + (uint64_t)c, elements, k, indices);
        for (int64_t j = 0; j < k && c < 2; j++)
            indices[j] = (int32_t)(c == 0 ? j : elements - k + j);
    }
}

/* Any bytes. */
static inline void draw_bytes(uint64_t seed, int64_t n, unsigned char *bytes) {
    for (int64_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)wefti_rng_u64(seed, WEFTI_STREAM_TEST, 2, (uint64_t)i);
}
