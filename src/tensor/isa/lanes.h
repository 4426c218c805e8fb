/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_LANES_H
#define WEFTI_LANES_H

/* Vectors of the instruction set that the including file is compiled for, as the compilers'
 * portable vector extension: LANES floats that add and multiply like one. Reductions over
 * lanes have a fixed order, so results depend on the instruction set but never on the run. */

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef float vfloat __attribute__((vector_size(LANES * 4)));
typedef int32_t vint __attribute__((vector_size(LANES * 4)));
typedef double vdouble __attribute__((vector_size(LANES * 4)));  /* half as many lanes */
typedef float vfloat_half __attribute__((vector_size(LANES * 2)));

static inline vfloat load(const float *p) {
    vfloat v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, vfloat v) {
    memcpy(p, &v, sizeof v);
}

/* The first n < LANES floats; the other lanes are 0. */
static inline vfloat load_part(const float *p, int64_t n) {
    vfloat v = {0};
    memcpy(&v, p, (size_t)n * sizeof *p);
    return v;
}

static inline void store_part(float *p, vfloat v, int64_t n) {
    memcpy(p, &v, (size_t)n * sizeof *p);
}

static inline vfloat splat(float s) {
    return s - (vfloat){0};
}

/* Sum of the lanes, by halves. */
static inline float lane_sum(vfloat v) {
    float a[LANES];
    memcpy(a, &v, sizeof a);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) a[i] += a[i + width];
    return a[0];
}

/* Where mask is all ones a, where it is 0 b. */
static inline vfloat pick(vint mask, vfloat a, vfloat b) {
    return (vfloat)((mask & (vint)a) | (~mask & (vint)b));
}

static inline vfloat larger(vfloat a, vfloat b) {
    return pick(a > b, a, b);
}

static inline float lane_max(vfloat v) {
    float a[LANES];
    memcpy(a, &v, sizeof a);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) a[i] = a[i] > a[i + width] ? a[i] : a[i + width];
    return a[0];
}

/* 2^k, -126 <= k <= 127 */
static inline vfloat power_of_two(vint k) {
    return (vfloat)((k + 127) << 23);
}

/* exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln(2)/2; exp(r) = 1 + r + r^2 q(r) with q
 * the minimax polynomial of degree 4 (relative error 3.2e-9; in all below 2 ulp). Adding 1.5 *
 * 2^23 rounds to an integer that lies in the low bits; ln 2 is split so that n ln2_high is
 * exact; 2^n is applied in two steps, so denormal results and infinity come out right. */
static inline vfloat exp_lanes(vfloat x) {
    const vfloat round = splat(0x1.8p23f);
    const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
    x = pick(x > 89.0f, splat(89.0f), x);
    x = pick(x < -104.0f, splat(-104.0f), x);
    vfloat shifted = x * 0x1.715476p0f + round;
    vfloat n = shifted - round;
    vfloat r = (x - n * ln2_high) - n * ln2_low;
    vfloat q = r * 0x1.6a21acp-10f + 0x1.123b6ap-7f;
    q = q * r + 0x1.5558fap-5f;
    q = q * r + 0x1.55549p-3f;
    q = q * r + 0x1.fffffcp-2f;
    vfloat e = (r + r * r * q) + 1.0f;
    vint k = (vint)shifted - (vint)round;
    vint half = k >> 1;
    return e * power_of_two(half) * power_of_two(k - half);
}

#endif
