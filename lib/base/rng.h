/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* Counter-based randomness: a pure function of (seed, stream, step, index), Philox4x32-10
 * (Salmon et al., SC'11). A stream is one use of randomness; different streams never
 * share numbers.
 */
typedef enum wefti_rng_stream {
    WEFTI_STREAM_INIT = 1, /* parameter initialization; step = parameter number */
    WEFTI_STREAM_DATA,     /* order of the windows; step = epoch */
    WEFTI_STREAM_MIX,      /* choice among data sources */
    WEFTI_STREAM_DROPOUT,  /* step = optimizer step mixed with the unit */
    WEFTI_STREAM_SAMPLE,   /* text generation */
    WEFTI_STREAM_SELECT,   /* coordinates of the random replicator */
    WEFTI_STREAM_TEST,
    WEFTI_STREAM_STALL,    /* emulated stalls; index 0 = which rank */
    WEFTI_STREAM_MATCHING, /* topology `matching`; index = member */
    WEFTI_STREAM_ROUND,    /* rounding of coded values; index = value number / 8 */
    WEFTI_STREAM_PUSH,     /* topology `push`; index = member */
    WEFTI_STREAM_JITTER    /* predicted computing times; index = 4 rank + 0..3 */
} wefti_rng_stream;

/* Two independent 64-bit numbers. */
void wefti_rng_pair(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index,
                    uint64_t out[2]);

/* n pairs, of the indices first, first + 1, ... Several times as fast as n single calls.
 */
typedef struct wefti_rng_run {
    uint64_t seed;
    uint32_t stream;
    uint64_t step, first;
    int64_t n;
} wefti_rng_run;
void wefti_rng_pairs(const wefti_rng_run *run, uint64_t (*out)[2]);

/* One 64-bit number. */
uint64_t wefti_rng_u64(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index);

/* Uniform in [0, 1), 53 bits. */
double wefti_rng_uniform(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index);

/* Standard normal, Box-Muller. */
double wefti_rng_normal(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index);

/* The image of i under a seeded permutation of 0..n-1 (a four-round Feistel network with
 * cycle walking): O(1), no table. 0 <= i < n. */
int64_t wefti_rng_permute(uint64_t seed, uint32_t stream, uint64_t step, int64_t n,
                          int64_t i);
