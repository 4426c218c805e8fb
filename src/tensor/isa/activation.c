/* SPDX-License-Identifier: MIT */
/* GELU in its tanh form is x s(2u), u = sqrt(2/pi) (x + 0.044715 x^3), with the sigmoid
 * s(a) = 1/(1 + exp(-a)); its slope is s + x s (1 - s) 2u'.
 * SwiGLU is silu(g) u, silu(g) = g s(g), silu' = s (1 + g (1 - s)). */
#include "tensor/isa/lanes.h"
#include "tensor/isa/parts.h"
#include "tensor/isa/team.h"

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

/* An activation and its slope; the maps below are compiled for each. */
typedef vfloat (*function)(vfloat x);

static inline void map_forward(function f, int64_t n, const float *x, float *y) {
    int t = team_size(n);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span s = team_slice(n, LANES, k, t);
        int64_t i = s.begin, left;
        for (; i + LANES <= s.end; i += LANES) store(y + i, f(load(x + i)));
        if ((left = s.end - i) > 0) store_part(y + i, f(load_part(x + i, left)), left);
    }
}

static inline void map_backward(function slope, int64_t n, const float *x,
                                const float *dy, float *dx) {
    int t = team_size(n);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span s = team_slice(n, LANES, k, t);
        int64_t i = s.begin, left;
        for (; i + LANES <= s.end; i += LANES)
            store(dx + i, slope(load(x + i)) * load(dy + i));
        if ((left = s.end - i) > 0) {
            vfloat along = slope(load_part(x + i, left));
            store_part(dx + i, along * load_part(dy + i, left), left);
        }
    }
}

void WEFT_ISA_NAME(wefti_gelu_forward)(int64_t n, const float *x, float *y) {
    map_forward(gelu, n, x, y);
}

void WEFT_ISA_NAME(wefti_gelu_backward)(int64_t n, const float *x, const float *dy,
                                        float *dx) {
    map_backward(gelu_slope, n, x, dy, dx);
}

void WEFT_ISA_NAME(wefti_gelu_erf_forward)(int64_t n, const float *x, float *y) {
    map_forward(gelu_erf, n, x, y);
}

void WEFT_ISA_NAME(wefti_gelu_erf_backward)(int64_t n, const float *x, const float *dy,
                                            float *dx) {
    map_backward(gelu_erf_slope, n, x, dy, dx);
}

void WEFT_ISA_NAME(wefti_relu_forward)(int64_t n, const float *x, float *y) {
    map_forward(relu, n, x, y);
}

void WEFT_ISA_NAME(wefti_relu_backward)(int64_t n, const float *x, const float *dy,
                                        float *dx) {
    map_backward(relu_slope, n, x, dy, dx);
}

static void geglu_row(int64_t F, const float *g, const float *u, float *y) {
    for (int64_t i = 0; i < F; i += LANES) {
        int64_t n = F - i < LANES ? F - i : LANES;
        store_part(y + i, gelu(load_part(g + i, n)) * load_part(u + i, n), n);
    }
}

void WEFT_ISA_NAME(wefti_geglu_forward)(int64_t N, int64_t F, const float *gu, float *y) {
    int t = team_size(N * F);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span rows = team_slice(N, 1, k, t);
        for (int64_t n = rows.begin; n < rows.end; n++)
            geglu_row(F, gu + n * 2 * F, gu + n * 2 * F + F, y + n * F);
    }
}

static void geglu_backward_row(int64_t F, const float *gu, const float *dy, float *dgu) {
    for (int64_t i = 0; i < F; i += LANES) {
        int64_t n = F - i < LANES ? F - i : LANES;
        vfloat gate = load_part(gu + i, n), up = load_part(gu + F + i, n);
        vfloat d = load_part(dy + i, n);
        store_part(dgu + i, d * up * gelu_slope(gate), n);
        store_part(dgu + F + i, d * gelu(gate), n);
    }
}

void WEFT_ISA_NAME(wefti_geglu_backward)(int64_t N, int64_t F, const float *gu,
                                         const float *dy, float *dgu) {
    int t = team_size(N * F);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span rows = team_slice(N, 1, k, t);
        for (int64_t n = rows.begin; n < rows.end; n++)
            geglu_backward_row(F, gu + n * 2 * F, dy + n * F, dgu + n * 2 * F);
    }
}

static void swiglu_row(int64_t F, const float *g, const float *u, float *y) {
    int64_t i = 0, left;
    for (; i + LANES <= F; i += LANES) {
        vfloat gate = load(g + i);
        store(y + i, gate * sigmoid(gate) * load(u + i));
    }
    if ((left = F - i) > 0) {
        vfloat gate = load_part(g + i, left);
        store_part(y + i, gate * sigmoid(gate) * load_part(u + i, left), left);
    }
}

void WEFT_ISA_NAME(wefti_swiglu_forward)(int64_t N, int64_t F, const float *gu,
                                         float *y) {
    int t = team_size(N * F);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span rows = team_slice(N, 1, k, t);
        for (int64_t n = rows.begin; n < rows.end; n++)
            swiglu_row(F, gu + n * 2 * F, gu + n * 2 * F + F, y + n * F);
    }
}

/* Replaces gate and up by their gradients. */
static inline void swiglu_slopes(vfloat dy, vfloat *gate, vfloat *up) {
    vfloat s = sigmoid(*gate), silu = *gate * s;
    vfloat dgate = dy * *up * (s + silu * (1.0f - s));
    *up = dy * silu;
    *gate = dgate;
}

static void swiglu_backward_row(int64_t F, const float *gu, const float *dy, float *dgu) {
    int64_t i = 0, left;
    for (; i + LANES <= F; i += LANES) {
        vfloat gate = load(gu + i), up = load(gu + F + i);
        swiglu_slopes(load(dy + i), &gate, &up);
        store(dgu + i, gate);
        store(dgu + F + i, up);
    }
    if ((left = F - i) > 0) {
        vfloat gate = load_part(gu + i, left), up = load_part(gu + F + i, left);
        swiglu_slopes(load_part(dy + i, left), &gate, &up);
        store_part(dgu + i, gate, left);
        store_part(dgu + F + i, up, left);
    }
}

void WEFT_ISA_NAME(wefti_swiglu_backward)(int64_t N, int64_t F, const float *gu,
                                          const float *dy, float *dgu) {
    int t = team_size(N * F);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span rows = team_slice(N, 1, k, t);
        for (int64_t n = rows.begin; n < rows.end; n++)
            swiglu_backward_row(F, gu + n * 2 * F, dy + n * F, dgu + n * 2 * F);
    }
}
