/* SPDX-License-Identifier: MIT */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The two 16-bit number types, compared with the f32 that weft computes in:
 *
 *              sign   exponent   fraction
 *     f32      31     30 .. 23   22 .. 0
 *     bf16     15     14 .. 7     6 .. 0     the upper half of an f32
 *     f16      15     14 .. 10    9 .. 0     IEEE half: bias 15 instead of 127
 *
 * Conversion to 16 bits rounds to nearest, ties to even. Adding 0x7fff plus the last bit
 * that is kept carries into that bit exactly if the rest is above half, or is half and
 * the bit is set. A carry out of the fraction gives the next exponent, which is correct.
 * A NaN stays a NaN. Widening is exact. */

static inline uint32_t wefti_f32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float wefti_f32_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Without a branch, so that compilers can vectorize loops over it. */
static inline uint16_t wefti_bf16(float x) {
    uint32_t bits = wefti_f32_bits(x), cut = bits >> 16;
    uint32_t rounded = (bits + 0x7fff + (cut & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? cut | 0x40 : rounded);
}

static inline float wefti_f32_of_bf16(uint32_t half) {
    return wefti_f32_of_bits(half << 16);
}

/* Below 2^-14 an f16 is a multiple of 2^-24; what rounds up to 2^-14 carries over. A
 * value of at least half a step above the largest, 65504, becomes infinite. */
static inline uint16_t wefti_f16(float x) {
    uint32_t bits = wefti_f32_bits(x), sign = bits >> 16 & 0x8000;
    float size = fabsf(x);
    if (isnan(x)) return (uint16_t)(sign | 0x7e00);
    if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00);
    if (size < 0x1p-14f) return (uint16_t)(sign | (uint32_t)nearbyintf(size * 0x1p24f));
    uint32_t positive = (bits & 0x7fffffff) - (112u << 23);
    return (uint16_t)(sign | (positive + 0xfff + (positive >> 13 & 1)) >> 13);
}

static inline float wefti_f32_of_f16(uint32_t half) {
    uint32_t sign = (half & 0x8000) << 16, fraction = half & 0x3ff;
    uint32_t exponent = half >> 10 & 31;
    if (exponent == 31) return wefti_f32_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent > 0)
        return wefti_f32_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24f;
    return sign ? -small : small;
}
