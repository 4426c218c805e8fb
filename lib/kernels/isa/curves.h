/* SPDX-License-Identifier: MIT */
#pragma once

/* GELU in its tanh form is x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), with the sigmoid
 * s(a) = 1/(1 + exp(-a)); its slope is s + x s (1 - s) 2u'.
 * SwiGLU is silu(g) u, silu(g) = g s(g), silu' = s (1 + g (1 - s)). */
#include "kernels/isa/lanes.h"

static const float twice_slope = 1.5957691216057308f; /* 2 sqrt(2/pi) */
static const float cubic = 0.044715f;

static inline vfloat clamp(vfloat x, float limit) {
    return larger(splat(-limit), smaller(splat(limit), x));
}

/* Beyond +-87 it is 1 or below 2e-38. */
static inline vfloat sigmoid(vfloat a) {
    return 1.0f / (exp_lanes(clamp(-a, 87.0f)) + 1.0f);
}

/* Beyond x = +-9.9, where 2u is +-85, s is 1 or 1e-37 and the slope 1 or 0 to the last
 * bit. */
static inline vfloat gelu(vfloat x) {
    vfloat near = clamp(x, 9.9f);
    vfloat u = near * (near * near * cubic + 1.0f) * twice_slope;
    return x * (1.0f / (exp_lanes(-u) + 1.0f));
}

/* 1 - s is e s, which does not cancel. */
static inline vfloat gelu_slope(vfloat x) {
    vfloat near = clamp(x, 9.9f), square = near * near;
    vfloat u = near * (square * cubic + 1.0f) * twice_slope;
    vfloat e = exp_lanes(-u), s = 1.0f / (e + 1.0f);
    vfloat du = (square * (3 * cubic) + 1.0f) * twice_slope;
    return s + near * du * (s * (e * s));
}

/* The cumulative normal distribution at x. Its tail is exp(-x^2 / 2) times a polynomial in t =
 * 1 / (1 + p |x| / sqrt 2) (Abramowitz & Stegun 7.1.26, absolute error 1.5e-7 / 2). */
static inline vfloat normal(vfloat x) {
    vfloat z = pick(x > 0.0f, x, -x) * 0.70710678f;
    vfloat t = 1.0f / (z * 0.3275911f + 1.0f);
    vfloat q = t * 1.061405429f - 1.453152027f;
    q = q * t + 1.421413741f;
    q = q * t - 0.284496736f;
    q = (q * t + 0.254829592f) * t;
    vfloat tail = q * exp_falling(-(z * z)) * 0.5f;
    return pick(x > 0.0f, 1.0f - tail, tail);
}

static inline vfloat gelu_erf(vfloat x) { return x * normal(x); }

static inline vfloat gelu_erf_slope(vfloat x) {
    return normal(x) + x * exp_falling(x * x * -0.5f) * 0.39894228f;
}

static inline vfloat relu(vfloat x) { return pick(x > 0.0f, x, splat(0)); }

static inline vfloat relu_slope(vfloat x) { return pick(x > 0.0f, splat(1), splat(0)); }

static inline vfloat relu2(vfloat x) { return relu(x) * relu(x); }

static inline vfloat relu2_slope(vfloat x) { return relu(x) * 2.0f; }

/* Replaces gate and up by their gradients. */
static inline void swiglu_slopes(vfloat dy, vfloat *gate, vfloat *up) {
    vfloat s = sigmoid(*gate), silu = *gate * s;
    vfloat dgate = dy * *up * (s + silu * (1.0f - s));
    *up = dy * silu;
    *gate = dgate;
}
