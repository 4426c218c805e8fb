/* SPDX-License-Identifier: MIT */
/* The activations of feed-forwards (curves.h) on numbers kept in bfloat16. Each row is widened, and
 * its results are rounded once, to 9 bits. So with AVX-512 the exponential of GELU needs no more
 * than 2e-6, and its division is an estimate with one step of Newton's. */
#include "tensor/isa/curves.h"
#include "tensor/isa/parts.h"
#include "tensor/isa/team.h"

typedef vfloat (*function)(vfloat x);

static inline void map_row(function f, int64_t n, const uint16_t *x, uint16_t *y) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store_half(y + i, f(load_half(x + i)));
    if (i < n) store_half_part(y + i, f(load_half_part(x + i, n - i)), n - i);
}

static inline void map_row_back(function slope, int64_t n, const uint16_t *x,
                                const uint16_t *dy, uint16_t *dx) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
        store_half(dx + i, slope(load_half(x + i)) * load_half(dy + i));
    if (i < n) {
        int64_t left = n - i;
        vfloat along = slope(load_half_part(x + i, left));
        store_half_part(dx + i, along * load_half_part(dy + i, left), left);
    }
}

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

static inline vfloat quick_gelu_slope(vfloat x) {
    vfloat near = clamp(x, 9.9f), e = quick_tail(near), s = inverse(e + 1.0f);
    vfloat du = near * near * (3 * cubic * twice_slope) + twice_slope;
    return s + near * du * (s * (e * s));
}
#else
static inline vfloat quick_gelu(vfloat x) { return gelu(x); }
static inline vfloat quick_gelu_slope(vfloat x) { return gelu_slope(x); }
#endif

static inline vfloat silu(vfloat x) { return x * sigmoid(x); }

static inline void gate_row(function f, int64_t F, const uint16_t *gu, uint16_t *y) {
    int64_t i = 0;
    for (; i + LANES <= F; i += LANES)
        store_half(y + i, f(load_half(gu + i)) * load_half(gu + F + i));
    if (i < F) {
        vfloat gate = load_half_part(gu + i, F - i),
               up = load_half_part(gu + F + i, F - i);
        store_half_part(y + i, f(gate) * up, F - i);
    }
}

/* Gate and up become their gradients. */
typedef void (*gate_slopes)(vfloat dy, vfloat *gate, vfloat *up);

static inline void geglu_slopes(vfloat dy, vfloat *gate, vfloat *up) {
    vfloat dgate = dy * *up * quick_gelu_slope(*gate);
    *up = dy * quick_gelu(*gate);
    *gate = dgate;
}

static inline void gate_row_back(gate_slopes f, int64_t F, const uint16_t *gu,
                                 const uint16_t *dy, uint16_t *dgu) {
    int64_t i = 0;
    for (; i + LANES <= F; i += LANES) {
        vfloat gate = load_half(gu + i), up = load_half(gu + F + i);
        f(load_half(dy + i), &gate, &up);
        store_half(dgu + i, gate);
        store_half(dgu + F + i, up);
    }
    if (i < F) {
        int64_t n = F - i;
        vfloat gate = load_half_part(gu + i, n), up = load_half_part(gu + F + i, n);
        f(load_half_part(dy + i, n), &gate, &up);
        store_half_part(dgu + i, gate, n);
        store_half_part(dgu + F + i, up, n);
    }
}

static void row_forward(wefti_curve curve, int64_t F, const uint16_t *x, uint16_t *y) {
    switch (curve) {
    case WEFTI_CURVE_GELU: map_row(quick_gelu, F, x, y); break;
    case WEFTI_CURVE_GELU_ERF: map_row(gelu_erf, F, x, y); break;
    case WEFTI_CURVE_RELU: map_row(relu, F, x, y); break;
    case WEFTI_CURVE_SWIGLU: gate_row(silu, F, x, y); break;
    case WEFTI_CURVE_GEGLU: gate_row(quick_gelu, F, x, y); break;
    }
}

static void row_backward(wefti_curve curve, int64_t F, const uint16_t *x,
                         const uint16_t *dy, uint16_t *dx) {
    switch (curve) {
    case WEFTI_CURVE_GELU: map_row_back(quick_gelu_slope, F, x, dy, dx); break;
    case WEFTI_CURVE_GELU_ERF: map_row_back(gelu_erf_slope, F, x, dy, dx); break;
    case WEFTI_CURVE_RELU: map_row_back(relu_slope, F, x, dy, dx); break;
    case WEFTI_CURVE_SWIGLU: gate_row_back(swiglu_slopes, F, x, dy, dx); break;
    case WEFTI_CURVE_GEGLU: gate_row_back(geglu_slopes, F, x, dy, dx); break;
    }
}

/* Numbers of a row of x. */
static int64_t row_of(wefti_curve curve, int64_t F) {
    return curve == WEFTI_CURVE_SWIGLU || curve == WEFTI_CURVE_GEGLU ? 2 * F : F;
}

void WEFT_ISA_NAME(wefti_curve_forward)(wefti_curve curve, int64_t N, int64_t F,
                                        const uint16_t *x, uint16_t *y) {
    int64_t wide = row_of(curve, F);
    int t = team_size(N * F);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span rows = team_slice(N, 1, k, t);
        for (int64_t n = rows.begin; n < rows.end; n++)
            row_forward(curve, F, x + n * wide, y + n * F);
    }
}

void WEFT_ISA_NAME(wefti_curve_backward)(wefti_curve curve, int64_t N, int64_t F,
                                         const uint16_t *x, const uint16_t *dy,
                                         uint16_t *dx) {
    int64_t wide = row_of(curve, F);
    int t = team_size(N * F);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span rows = team_slice(N, 1, k, t);
        for (int64_t n = rows.begin; n < rows.end; n++)
            row_backward(curve, F, x + n * wide, dy + n * F, dx + n * wide);
    }
}
