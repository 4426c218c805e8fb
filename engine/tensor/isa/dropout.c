/* SPDX-License-Identifier: MIT */
/* Dropout: element e is dropped if word e % 4 of Philox4x32-10 (Salmon et al., SC'11)
 * with key = seed and counter = (e / 4, stream, step) is below rate 2^32. */
#include "kernels/isa/lanes.h"
#include "kernels/isa/team.h"
#include "tensor/isa/parts.h"
#include "tensor/isa/philox.h"

#include <math.h>

enum { BLOCK = 4 * CALLS };

/* Element e of the block has word e % 4 of call e / 4: the words interleaved. */
static void drop_block(uint32_t word[4][CALLS], uint32_t threshold, float kept,
                       float *x) {
    const vint sign = INT32_MIN - (vint){0}; /* unsigned order as signed order */
    const vint below = (int32_t)(threshold ^ 0x80000000u) - (vint){0};
    for (int call = 0; call < CALLS; call += LANES) {
        vfloat w[4];
        for (int i = 0; i < 4; i++) memcpy(&w[i], &word[i][call], sizeof w[i]);
        vfloat even_low = interleave_low(w[0], w[2]),
               odd_low = interleave_low(w[1], w[3]);
        vfloat even_high = interleave_high(w[0], w[2]),
               odd_high = interleave_high(w[1], w[3]);
        vfloat draw[4] = {
            interleave_low(even_low, odd_low), interleave_high(even_low, odd_low),
            interleave_low(even_high, odd_high), interleave_high(even_high, odd_high)};
        for (int i = 0; i < 4; i++) {
            float *to = x + 4 * call + i * LANES;
            vint keep = ((vint)draw[i] ^ sign) >= below;
            store(to, (vfloat)(keep & (vint)(load(to) * kept)));
        }
    }
}

static void drop_slice(int64_t n, float rate, uint64_t seed, uint64_t step,
                       uint64_t first, float *x) {
    uint32_t threshold = (uint32_t)ceil((double)rate * 4294967296.0);
    float kept = 1.0f / (1.0f - rate), edge[BLOCK] = {0};
    const wefti_rng_run run = {
        .seed = seed, .stream = WEFTI_STREAM_DROPOUT, .step = step};
    uint32_t word[4][CALLS];
    int64_t from = (int64_t)(first % BLOCK);
    for (int64_t i = 0; i < n;) {
        int64_t count = n - i < BLOCK - from ? n - i : BLOCK - from;
        philox_block(&run, (first + (uint64_t)i) / BLOCK * CALLS, word);
        if (count == BLOCK) {
            drop_block(word, threshold, kept, x + i);
        } else { /* a part of a block passes through `edge` */
            memcpy(edge + from, x + i, (size_t)count * sizeof *x);
            drop_block(word, threshold, kept, edge);
            memcpy(x + i, edge + from, (size_t)count * sizeof *x);
        }
        i += count;
        from = 0;
    }
}

void WEFT_ISA_NAME(wefti_dropout)(int64_t n, float rate, uint64_t seed, uint64_t step,
                                  uint64_t first, float *x) {
    int t = team_size(n);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span s = team_slice(n, BLOCK, k, t);
        drop_slice(s.end - s.begin, rate, seed, step, first + (uint64_t)s.begin,
                   x + s.begin);
    }
}
