/* SPDX-License-Identifier: MIT */
#pragma once

/* Philox4x32-10 (Salmon et al., SC'11): the same numbers as wefti_rng_pair gives, for CALLS
 * counters side by side in plain loops, which are too long to unroll and so are vectorized.
 * word[w][i] is word w of the call on counter first + i. */

#include "base/rng.h"

enum { CALLS = 64 };

static void philox_block(const wefti_rng_run *run, uint64_t first,
                         uint32_t word[4][CALLS]) {
    uint32_t k0 = (uint32_t)run->seed, k1 = (uint32_t)(run->seed >> 32);
    for (uint32_t i = 0; i < CALLS; i++) {
        uint64_t counter = first + i;
        word[0][i] = (uint32_t)counter;
        word[1][i] = (uint32_t)(counter >> 32) ^ run->stream << 16;
        word[2][i] = (uint32_t)run->step;
        word[3][i] = (uint32_t)(run->step >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < CALLS; i++) {
            uint64_t a = (uint64_t)0xD2511F53u * word[0][i];
            uint64_t b = (uint64_t)0xCD9E8D57u * word[2][i];
            word[0][i] = (uint32_t)(b >> 32) ^ word[1][i] ^ k0;
            word[2][i] = (uint32_t)(a >> 32) ^ word[3][i] ^ k1;
            word[1][i] = (uint32_t)b;
            word[3][i] = (uint32_t)a;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}
