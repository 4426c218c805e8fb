/* SPDX-License-Identifier: MIT */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The two number types of 16 bits, beside the f32 that weft computes with:
 *
 *              sign   exponent   fraction
 *     f32      31     30 .. 23   22 .. 0
 *     bf16     15     14 .. 7     6 .. 0     the upper half of an f32
 *     f16      15     14 .. 10    9 .. 0     IEEE half: bias 15 instead of 127
 *
 * To 16 bits a number is rounded to the nearest, of two equally near ones to the even. Adding
 * 0x7fff and the last bit that stays carries into it exactly if the rest is above its middle,
 * or at it and that bit is set; a carry out of the fraction is the next exponent, as it should
 * be. What is not a number stays one. Widening is exact. */

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

/* Without a branch, so that compilers make vectors of loops over it. */
static inline uint16_t wefti_bf16(float x) {
    uint32_t bits = wefti_f32_bits(x), cut = bits >> 16;
    uint32_t rounded = (bits + 0x7fff + (cut & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? cut | 0x40 : rounded);
}

static inline float wefti_f32_of_bf16(uint32_t half) {
    return wefti_f32_of_bits(half << 16);
}

/* Below 2^-14 an f16 is a multiple of 2^-24; what rounds up to 2^-14 carries over. From half
 * a step above the largest, 65504, on it is infinite. */
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
