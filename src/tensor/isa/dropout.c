/* SPDX-License-Identifier: MIT */
/* Dropout: element e is dropped if word e % 4 of Philox4x32-10 (Salmon et al., SC'11) with
 * key = seed and counter = (e / 4, stream, step) is below rate 2^32. The same numbers as
 * wefti_rng_pair gives, for CALLS counters side by side in plain loops, which vectorize. */
#include "base/rng.h"
#include "tensor/isa/parts.h"
#include "tensor/isa/team.h"

#include <math.h>

enum { CALLS = 16, BLOCK = 4 * CALLS };

/* word[w][i] is word w of the call on counter first + i. */
static void philox_block(uint64_t seed, uint64_t step, uint64_t first,
                         uint32_t word[4][CALLS]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (uint32_t i = 0; i < CALLS; i++) {
        uint64_t counter = first + i;
        word[0][i] = (uint32_t)counter;
        word[1][i] = (uint32_t)(counter >> 32) ^ (uint32_t)WEFTI_STREAM_DROPOUT << 16;
        word[2][i] = (uint32_t)step;
        word[3][i] = (uint32_t)(step >> 32);
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

/* The elements of x that lie in one block of counters, `from`..`to` of it. */
static void drop_block(uint32_t word[4][CALLS], uint64_t threshold, float kept, int from, int to,
                       float *x) {
    for (int i = from; i < to; i++)
        x[i - from] = word[i % 4][i / 4] < threshold ? 0.0f : x[i - from] * kept;
}

static void drop_slice(int64_t n, float rate, uint64_t seed, uint64_t step, uint64_t first,
                       float *x) {
    uint64_t threshold = (uint64_t)ceil((double)rate * 4294967296.0);
    float kept = 1.0f / (1.0f - rate);
    uint32_t word[4][CALLS];
    int from = (int)(first % BLOCK);
    for (int64_t i = 0; i < n;) {
        int to = n - i < BLOCK - from ? from + (int)(n - i) : BLOCK;
        philox_block(seed, step, (first + (uint64_t)i) / BLOCK * CALLS, word);
        drop_block(word, threshold, kept, from, to, x + i);
        i += to - from;
        from = 0;
    }
}

void WEFT_ISA_NAME(wefti_dropout)(int64_t n, float rate, uint64_t seed, uint64_t step,
                                  uint64_t first, float *x) {
    int t = team_size(4 * n);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span s = team_slice(n, BLOCK, k, t);
        drop_slice(s.end - s.begin, rate, seed, step, first + (uint64_t)s.begin, x + s.begin);
    }
}
