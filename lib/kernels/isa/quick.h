/* SPDX-License-Identifier: MIT */
#pragma once

/* The curves of feed-forwards (curves.h) for results that are rounded to 9 bits: with AVX-512 the
 * exponential of GELU needs no more than 2e-6, and its division is an estimate with one step of
 * Newton's. */
#include "kernels/isa/curves.h"

/* A curve and its slope at the same places. */
typedef struct curve_point {
    vfloat y, slope;
} curve_point;

#if defined(__AVX512F__)
/* 2^x, |x| <= 125: 2^round(x) times a polynomial, relative error 2.6e-6. */
static inline vfloat power_of_two(vfloat x) {
    __m512 n = _mm512_roundscale_ps((__m512)x,
                                    _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    vfloat r = x - (vfloat)n;
    vfloat p = r * 0x1.3997d4p-7f + 0x1.ca1442p-5f;
    p = p * r + 0x1.ec06dap-3f;
    p = p * r + 0x1.62e0dcp-1f;
    p = p * r + 0x1.ffffe8p-1f;
    return (vfloat)_mm512_scalef_ps((__m512)p, n);
}

static inline vfloat inverse(vfloat x) {
    vfloat near = (vfloat)_mm512_rcp14_ps((__m512)x);
    return near * (2.0f - x * near);
}

static const float log2_e = 1.44269504f;

/* exp(-2u) of GELU, curves.h */
static inline vfloat quick_tail(vfloat near) {
    return power_of_two(
        near * (near * near * (-cubic * twice_slope * log2_e) - twice_slope * log2_e));
}

static inline vfloat quick_gelu(vfloat x) {
    return x * inverse(quick_tail(clamp(x, 9.9f)) + 1.0f);
}

static inline curve_point gelu_point(vfloat x) {
    vfloat near = clamp(x, 9.9f), e = quick_tail(near), s = inverse(e + 1.0f);
    vfloat du = near * near * (3 * cubic * twice_slope) + twice_slope;
    return (curve_point){x * s, s + near * du * (s * (e * s))};
}
#else
static inline vfloat quick_gelu(vfloat x) { return gelu(x); }
static inline curve_point gelu_point(vfloat x) {
    return (curve_point){gelu(x), gelu_slope(x)};
}
#endif

static inline curve_point gelu_erf_point(vfloat x) {
    return (curve_point){gelu_erf(x), gelu_erf_slope(x)};
}

static inline curve_point relu_point(vfloat x) {
    return (curve_point){relu(x), relu_slope(x)};
}

static inline curve_point relu2_point(vfloat x) {
    return (curve_point){relu2(x), relu2_slope(x)};
}
