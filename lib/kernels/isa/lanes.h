/* SPDX-License-Identifier: MIT */
#pragma once

/* Vectors of the instruction set that the including file is compiled for, as the compilers'
 * portable vector extension: LANES floats with the arithmetic of one. Reductions over lanes
 * have a fixed order, so results depend on the instruction set but never on the run. */

#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { LANES = 16 };
#define LANES_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define LANES_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define LANES_COUNT 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#elif defined(__AVX2__)
enum { LANES = 8 };
#define LANES_LOW 0, 8, 1, 9, 2, 10, 3, 11
#define LANES_HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define LANES_COUNT 0, 1, 2, 3, 4, 5, 6, 7
#else
enum { LANES = 4 };
#define LANES_LOW 0, 4, 1, 5
#define LANES_HIGH 2, 6, 3, 7
#define LANES_COUNT 0, 1, 2, 3
#endif

typedef float vfloat __attribute__((vector_size(LANES * 4)));
typedef int32_t vint __attribute__((vector_size(LANES * 4)));
typedef double vdouble __attribute__((vector_size(LANES * 4))); /* half as many lanes */
typedef float vfloat_half __attribute__((vector_size(LANES * 2)));

static inline vfloat load(const float *p) {
    vfloat v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vfloat v) { memcpy(p, &v, sizeof v); }

/* The first n <= LANES floats; the other lanes are 0. */
static inline vfloat load_part(const float *p, int64_t n) {
    vfloat v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}

static inline void store_part(float *p, vfloat v, int64_t n) {
    memcpy(p, &v, (size_t)n * sizeof *p);
}

typedef uint16_t vhalf __attribute__((vector_size(LANES * 2)));
typedef uint32_t vbits __attribute__((vector_size(LANES * 4)));

/* LANES numbers of bfloat16: the upper halves of f32. */
static inline vfloat load_half(const uint16_t *p) {
#if defined(__AVX512F__)
    __m256i v = _mm256_loadu_si256((const void *)p);
    return (vfloat)_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16);
#else
    vhalf v;
    memcpy(&v, p, sizeof v);
    return (vfloat)(__builtin_convertvector(v, vbits) << 16);
#endif
}

/* The first n <= LANES; the other lanes are 0. */
static inline vfloat load_half_part(const uint16_t *p, int64_t n) {
    uint16_t all[LANES] = {0};
    memcpy(all, p, (size_t)n * sizeof *p);
    return load_half(all);
}

/* The nearest number of bfloat16, ties to even, as f32; a NaN stays one. */
static inline vfloat round_bf16(vfloat x) {
    const vint bits = (vint)x, size = bits & 0x7fffffff;
    vint nearest = bits + 0x7fff + ((bits >> 16) & 1), nan = bits | 0x400000;
    vint is_nan = size > 0x7f800000;
    return (vfloat)(((nearest & ~is_nan) | (nan & is_nan)) & (int32_t)0xffff0000);
}

/* The same number as round_bf16. With AVX-512 by hand: gcc converts vectors to 16 bits one by
 * one, and compares twice. */
static inline void store_half(uint16_t *p, vfloat v) {
#if defined(__AVX512F__)
    __m512i exact = (__m512i)v,
            odd = _mm512_and_si512(_mm512_srli_epi32(exact, 16), _mm512_set1_epi32(1));
    __m512i sum = _mm512_add_epi32(_mm512_add_epi32(exact, _mm512_set1_epi32(0x7fff)),
                                   odd);
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_UNORD_Q);
    sum = _mm512_mask_or_epi32(sum, nan, exact, _mm512_set1_epi32(0x400000));
    __m256i bits = _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16));
#else
    vhalf bits = __builtin_convertvector((vbits)round_bf16(v) >> 16, vhalf);
#endif
    memcpy(p, &bits, sizeof bits);
}

static inline void store_half_part(uint16_t *p, vfloat v, int64_t n) {
    uint16_t all[LANES];
    store_half(all, v);
    memcpy(p, all, (size_t)n * sizeof *p);
}

static inline vfloat splat(float s) { return s - (vfloat){0}; }

/* Sum of the lanes, by halves. */
static inline float lane_sum(vfloat v) {
    float a[LANES];
    memcpy(a, &v, sizeof a);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) a[i] += a[i + width];
    return a[0];
}

/* a where mask is all ones, b where it is 0. */
static inline vfloat pick(vint mask, vfloat a, vfloat b) {
    return (vfloat)((mask & (vint)a) | (~mask & (vint)b));
}

/* a > b ? a : b, and a < b ? a : b; the result is b if one of them is a NaN. The
 * instructions max and min of x86 do exactly this; for a comparison and pick the
 * compilers emit three times as many instructions. */
#if defined(__AVX512F__)
static inline vfloat larger(vfloat a, vfloat b) {
    return (vfloat)_mm512_max_ps((__m512)a, (__m512)b);
}
static inline vfloat smaller(vfloat a, vfloat b) {
    return (vfloat)_mm512_min_ps((__m512)a, (__m512)b);
}
#elif defined(__AVX2__)
static inline vfloat larger(vfloat a, vfloat b) {
    return (vfloat)_mm256_max_ps((__m256)a, (__m256)b);
}
static inline vfloat smaller(vfloat a, vfloat b) {
    return (vfloat)_mm256_min_ps((__m256)a, (__m256)b);
}
#else
static inline vfloat larger(vfloat a, vfloat b) { return pick(a > b, a, b); }
static inline vfloat smaller(vfloat a, vfloat b) { return pick(a < b, a, b); }
#endif

static inline float lane_max(vfloat v) {
    float a[LANES];
    memcpy(a, &v, sizeof a);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) a[i] = a[i] > a[i + width] ? a[i] : a[i + width];
    return a[0];
}

/* a0 b0 a1 b1 ... of the lower halves, and of the upper halves */
#ifdef __clang__
static inline vfloat interleave_low(vfloat a, vfloat b) {
    return __builtin_shufflevector(a, b, LANES_LOW);
}

static inline vfloat interleave_high(vfloat a, vfloat b) {
    return __builtin_shufflevector(a, b, LANES_HIGH);
}
#else
static inline vfloat interleave_low(vfloat a, vfloat b) {
    return __builtin_shuffle(a, b, (vint){LANES_LOW});
}

static inline vfloat interleave_high(vfloat a, vfloat b) {
    return __builtin_shuffle(a, b, (vint){LANES_HIGH});
}
#endif

/* exp(x), |x| <= 87.3: 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2; exp(r) = 1 + r +
 * r^2 q(r) with q the minimax polynomial of degree 4 (relative error 3.2e-9; in all below
 * 2 ulp). Adding 1.5 * 2^23 rounds to an integer in the low bits; ln 2 is split so that n
 * ln2_high is exact; 2^n is built from its exponent. */
static inline vfloat exp_lanes(vfloat x) {
    const vfloat round = splat(0x1.8p23f);
    const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
    vfloat shifted = x * 0x1.715476p0f + round;
    vfloat n = shifted - round;
    vfloat r = (x - n * ln2_high) - n * ln2_low;
    vfloat q = r * 0x1.6a21acp-10f + 0x1.123b6ap-7f;
    q = q * r + 0x1.5558fap-5f;
    q = q * r + 0x1.55549p-3f;
    q = q * r + 0x1.fffffcp-2f;
    vint power = ((vint)shifted - (vint)round + 127) << 23;
    return ((r + r * r * q) + 1.0f) * (vfloat)power;
}

/* exp(x) for x <= 0; the result is 0 below -87, where the denormal numbers begin. */
static inline vfloat exp_falling(vfloat x) {
    const vint gone = x < -87.0f;
    return (vfloat)(~gone & (vint)exp_lanes(larger(splat(-87.0f), x)));
}

/* tanh(x) = (1 - e) / (1 + e), e = exp(-2 |x|); near 0, where that cancels, the odd
 * series. */
static inline vfloat tanh_lanes(vfloat x) {
    vfloat size = pick(x > 0.0f, x, -x), square = x * x;
    vfloat e = exp_falling(size * -2.0f), far = (1.0f - e) / (1.0f + e);
    vfloat near = square * (-17.0f / 315) + 2.0f / 15;
    near = ((near * square - 1.0f / 3) * square * size) + size;
    vfloat y = pick(size < 0.15f, near, far);
    return pick(x > 0.0f, y, -y);
}

/* log(x) of normal positive x: x = 2^k m, sqrt(1/2) <= m < sqrt(2), log m = 2 atanh(s)
 * with s = (m - 1)/(m + 1), |s| < 0.172; the series ends where its terms fall below 2^-27
 * s. */
static inline vfloat log_lanes(vfloat x) {
    const vint above = (vint)x - 0x3f3504f3; /* the bits of sqrt(1/2) */
    vint k = above >> 23;
    vfloat m = (vfloat)((vint)x - (k << 23));
    vfloat s = (m - 1.0f) / (m + 1.0f), square = s * s;
    vfloat series = square * (1.0f / 9) + 1.0f / 7;
    series = series * square + 1.0f / 5;
    series = series * square + 1.0f / 3;
    vfloat n = __builtin_convertvector(k, vfloat);
    return (series * square * s + s) * 2.0f + n * 0x1.62e43p-1f;
}
