/* SPDX-License-Identifier: MIT */
#pragma once

/* What the portable vectors lack: larger and smaller integers, a bit per lane, stores
 * past the caches, and a transposition with fewer and cheaper shuffles than that of
 * strips.h. */

#include "kernels/isa/strips.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#define FLAT static inline __attribute__((always_inline))
/* Before a loop whose vectors must stay in registers. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 64")
#endif

/* a b + c with one rounding if the instruction set has that instruction. Code in two
 * places that must agree to the last bit uses this function, because compilers are free
 * in what they contract. */
static inline vfloat multiply_add(vfloat a, vfloat b, vfloat c) {
#if defined(__AVX512F__)
    return (vfloat)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__AVX2__)
    return (vfloat)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__ARM_FEATURE_FMA)
    vfloat sum;
    for (int i = 0; i < LANES; i++) sum[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return sum;
#else
    return a * b + c;
#endif
}

/* The larger and the smaller of each lane. */
static inline vint larger_int(vint a, vint b) {
#if defined(__AVX512F__)
    return (vint)_mm512_max_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vint)_mm256_max_epi32((__m256i)a, (__m256i)b);
#else
    vint mask = a > b;
    return (a & mask) | (b & ~mask);
#endif
}

static inline vint smaller_int(vint a, vint b) {
#if defined(__AVX512F__)
    return (vint)_mm512_min_epi32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (vint)_mm256_min_epi32((__m256i)a, (__m256i)b);
#else
    vint mask = a > b;
    return (b & mask) | (a & ~mask);
#endif
}

/* Bit i: lane i of the mask (all ones or 0). */
static inline unsigned lane_bits(vint mask) {
#if defined(__AVX512F__)
    return _mm512_movepi32_mask((__m512i)mask);
#elif defined(__AVX2__)
    return (unsigned)_mm256_movemask_ps((__m256)mask);
#elif defined(__SSE2__)
    return (unsigned)_mm_movemask_ps((__m128)mask);
#else
    unsigned bits = 0;
    for (int i = 0; i < LANES; i++) bits |= (unsigned)(mask[i] & 1) << i;
    return bits;
#endif
}

/* Number of lanes whose mask is set. */
static inline int count_lanes(vint mask) {
#if defined(__POPCNT__)
    return __builtin_popcount(lane_bits(mask));
#else
    const uint64_t counts = 0x4332322132212110; /* of the ones in 0 to 15 */
    unsigned bits = lane_bits(mask);
    int count = 0;
    for (int i = 0; i < LANES; i += 4)
        count += (int)(counts >> (bits >> i & 15) * 4 & 15);
    return count;
#endif
}

static inline int32_t lane_max_int(vint v) {
    int32_t a[LANES];
    memcpy(a, &v, sizeof a);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) a[i] = a[i] > a[i + width] ? a[i] : a[i + width];
    return a[0];
}

/* Stores a vector past the caches, which avoids reading the line that is written. Only
 * for whole cache lines, in order; call settle_past after the last one. */
static inline void store_past(float *p, vfloat v) {
#if defined(__AVX512F__)
    _mm512_stream_ps(p, (__m512)v);
#elif defined(__AVX2__)
    _mm256_stream_ps(p, (__m256)v);
#elif defined(__SSE2__)
    _mm_stream_ps(p, (__m128)v);
#else
    store(p, v);
#endif
}

static inline void settle_past(void) {
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* Floats from p to the next line of the cache. */
static inline int64_t floats_to_past(const float *p) {
    return (int64_t)(-(uintptr_t)p / sizeof *p % 16);
}

static inline vint splat_int(int32_t s) { return s - (vint){0}; }

/* Lane i: a where bit i is set, else b. */
static inline vfloat pick_bits(unsigned bits, vfloat a, vfloat b) {
#if defined(__AVX512F__)
    return (vfloat)_mm512_mask_blend_ps((__mmask16)bits, (__m512)b, (__m512)a);
#else
    vint each = splat_int(0);
    for (int i = 0; i < LANES; i++) each[i] = 1 << i;
    return pick((splat_int((int32_t)bits) & each) == each, a, b);
#endif
}

#if defined(__AVX512F__)
/* Transposes the squares of 4 x 4 inside each quarter of four vectors. */
FLAT void transpose_quarters(vfloat v[4]) {
    __m512 a = _mm512_unpacklo_ps((__m512)v[0], (__m512)v[1]),
           b = _mm512_unpackhi_ps((__m512)v[0], (__m512)v[1]),
           c = _mm512_unpacklo_ps((__m512)v[2], (__m512)v[3]),
           d = _mm512_unpackhi_ps((__m512)v[2], (__m512)v[3]);
    v[0] = (vfloat)_mm512_unpacklo_pd((__m512d)a, (__m512d)c);
    v[1] = (vfloat)_mm512_unpackhi_pd((__m512d)a, (__m512d)c);
    v[2] = (vfloat)_mm512_unpacklo_pd((__m512d)b, (__m512d)d);
    v[3] = (vfloat)_mm512_unpackhi_pd((__m512d)b, (__m512d)d);
}

/* rows[i] becomes column i: inside quarters, then the quarters; two shuffles each. */
FLAT void transpose_square(vfloat rows[LANES]) {
    for (int i = 0; i < 16; i += 4) transpose_quarters(rows + i);
    for (int i = 0; i < 4; i++) {
        __m512 p = (__m512)rows[i], q = (__m512)rows[i + 4], r = (__m512)rows[i + 8],
               s = (__m512)rows[i + 12];
        __m512 a = _mm512_shuffle_f32x4(p, q, 0x88), b = _mm512_shuffle_f32x4(p, q, 0xdd),
               c = _mm512_shuffle_f32x4(r, s, 0x88), d = _mm512_shuffle_f32x4(r, s, 0xdd);
        rows[i] = (vfloat)_mm512_shuffle_f32x4(a, c, 0x88);
        rows[i + 4] = (vfloat)_mm512_shuffle_f32x4(b, d, 0x88);
        rows[i + 8] = (vfloat)_mm512_shuffle_f32x4(a, c, 0xdd);
        rows[i + 12] = (vfloat)_mm512_shuffle_f32x4(b, d, 0xdd);
    }
}
#elif defined(__AVX2__)
FLAT void transpose_halves(vfloat v[4]) {
    __m256 a = _mm256_unpacklo_ps((__m256)v[0], (__m256)v[1]),
           b = _mm256_unpackhi_ps((__m256)v[0], (__m256)v[1]),
           c = _mm256_unpacklo_ps((__m256)v[2], (__m256)v[3]),
           d = _mm256_unpackhi_ps((__m256)v[2], (__m256)v[3]);
    v[0] = (vfloat)_mm256_unpacklo_pd((__m256d)a, (__m256d)c);
    v[1] = (vfloat)_mm256_unpackhi_pd((__m256d)a, (__m256d)c);
    v[2] = (vfloat)_mm256_unpacklo_pd((__m256d)b, (__m256d)d);
    v[3] = (vfloat)_mm256_unpackhi_pd((__m256d)b, (__m256d)d);
}

FLAT void transpose_square(vfloat rows[LANES]) {
    transpose_halves(rows);
    transpose_halves(rows + 4);
    for (int i = 0; i < 4; i++) {
        __m256 a = (__m256)rows[i], b = (__m256)rows[i + 4];
        rows[i] = (vfloat)_mm256_permute2f128_ps(a, b, 0x20);
        rows[i + 4] = (vfloat)_mm256_permute2f128_ps(a, b, 0x31);
    }
}
#else
FLAT void transpose_square(vfloat rows[LANES]) { transpose(rows); }
#endif
