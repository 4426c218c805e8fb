/* SPDX-License-Identifier: MIT */
/* Philox4x32-10: ten rounds of two 32x32->64 multiplications on a 128-bit counter with a
 * 64-bit key (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3,
 * SC'11). key = seed; counter = (index low, index high ^ stream << 16, step low, step
 * high). */
#include "base/rng.h"

#include <math.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

static void philox(uint32_t c[4], uint32_t k0, uint32_t k1) {
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0];
        uint64_t b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t n0 = (uint32_t)(b >> 32) ^ c[1] ^ k0;
        uint32_t n2 = (uint32_t)(a >> 32) ^ c[3] ^ k1;
        c[1] = (uint32_t)b;
        c[3] = (uint32_t)a;
        c[0] = n0;
        c[2] = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

void wefti_rng_pair(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index,
                    uint64_t out[2]) {
    uint32_t c[4] = {(uint32_t)index, (uint32_t)(index >> 32) ^ (stream << 16),
                     (uint32_t)step, (uint32_t)(step >> 32)};
    philox(c, (uint32_t)seed, (uint32_t)(seed >> 32));
    out[0] = (uint64_t)c[1] << 32 | c[0];
    out[1] = (uint64_t)c[3] << 32 | c[2];
}

/* The same for LANES indices in a row, one to a lane. */
enum { LANES = 8 };

#if defined(__SSE2__)
/* Each 32-bit number is in the lower half of 64 bits. The upper half may hold anything,
 * because the multiplication ignores it. */
static inline void philox_round(__m128i c[4], __m128i k0, __m128i k1) {
    __m128i a = _mm_mul_epu32(c[0], _mm_set1_epi64x(0xD2511F53));
    __m128i b = _mm_mul_epu32(c[2], _mm_set1_epi64x(0xCD9E8D57));
    c[0] = _mm_xor_si128(_mm_srli_epi64(b, 32), _mm_xor_si128(c[1], k0));
    c[2] = _mm_xor_si128(_mm_srli_epi64(a, 32), _mm_xor_si128(c[3], k1));
    c[1] = b;
    c[3] = a;
}

/* c[w] to the left of c[w - 1] */
static inline __m128i join_halves(__m128i low, __m128i high) {
    __m128i mask = _mm_set1_epi64x(0xffffffff);
    return _mm_or_si128(_mm_and_si128(low, mask), _mm_slli_epi64(high, 32));
}

static void philox_lanes(const wefti_rng_run *run, uint64_t first, uint64_t (*out)[2]) {
    __m128i c[LANES / 2][4];
    for (uint64_t v = 0; v < LANES / 2; v++) {
        uint64_t i = first + 2 * v, high = (uint64_t)run->stream << 16;
        c[v][0] = _mm_set_epi64x((int64_t)(i + 1), (int64_t)i);
        c[v][1] = _mm_set_epi64x((int64_t)((i + 1) >> 32 ^ high),
                                 (int64_t)(i >> 32 ^ high));
        c[v][2] = _mm_set1_epi64x((int64_t)run->step);
        c[v][3] = _mm_set1_epi64x((int64_t)(run->step >> 32));
    }
    uint32_t k0 = (uint32_t)run->seed, k1 = (uint32_t)(run->seed >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int v = 0; v < LANES / 2; v++)
            philox_round(c[v], _mm_set1_epi64x(k0), _mm_set1_epi64x(k1));
    for (int v = 0; v < LANES / 2; v++) {
        __m128i low = join_halves(c[v][0], c[v][1]), high = join_halves(c[v][2], c[v][3]);
        _mm_storeu_si128((__m128i *)(void *)out[2 * v], _mm_unpacklo_epi64(low, high));
        _mm_storeu_si128((__m128i *)(void *)out[2 * v + 1],
                         _mm_unpackhi_epi64(low, high));
    }
}
#else
static void philox_lanes(const wefti_rng_run *run, uint64_t first, uint64_t (*out)[2]) {
    for (uint64_t l = 0; l < LANES; l++)
        wefti_rng_pair(run->seed, run->stream, run->step, first + l, out[l]);
}
#endif

void wefti_rng_pairs(const wefti_rng_run *run, uint64_t (*out)[2]) {
    int64_t i = 0;
    for (; i + LANES <= run->n; i += LANES)
        philox_lanes(run, run->first + (uint64_t)i, out + i);
    for (; i < run->n; i++)
        wefti_rng_pair(run->seed, run->stream, run->step, run->first + (uint64_t)i,
                       out[i]);
}

uint64_t wefti_rng_u64(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index) {
    uint64_t out[2];
    wefti_rng_pair(seed, stream, step, index, out);
    return out[0];
}

double wefti_rng_uniform(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index) {
    return (double)(wefti_rng_u64(seed, stream, step, index) >> 11) * 0x1p-53;
}

double wefti_rng_normal(uint64_t seed, uint32_t stream, uint64_t step, uint64_t index) {
    uint64_t r[2];
    wefti_rng_pair(seed, stream, step, index, r);
    double u = ((double)(r[0] >> 11) + 0.5) * 0x1p-53;
    double v = (double)(r[1] >> 11) * 0x1p-53;
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

int64_t wefti_rng_permute(uint64_t seed, uint32_t stream, uint64_t step, int64_t n,
                          int64_t i) {
    int half_bits = 1;
    while (half_bits < 31 && (1ll << (2 * half_bits)) < n) half_bits++;
    uint64_t mask = (1ull << half_bits) - 1;
    uint64_t x = (uint64_t)i;
    do {
        uint64_t left = x >> half_bits, right = x & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t mixed = wefti_rng_u64(seed, stream, step, right << 3 | round) & mask;
            uint64_t next = left ^ mixed;
            left = right;
            right = next;
        }
        x = left << half_bits | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}
