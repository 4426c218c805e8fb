/* SPDX-License-Identifier: MIT */
/* GELU (tanh form): y = x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3).
 * SwiGLU: y = silu(g) u, silu(g) = g s, s = 1/(1 + exp(-g)); silu' = s (1 + g (1 - s)).
 * Rotation by t: (a, b) -> (a cos - b sin, b cos + a sin), a = x[i], b = x[i + D/2].
 * GELU by the error function: y = x/2 erfc(-x / sqrt 2). GeGLU: y = gelu(g) u.
 * Dropout: element e is dropped if word e % 4 of Philox(seed, dropout, step, e / 4) is
 * below rate 2^32; the words are the halves, low first, of the two numbers of
 * wefti_rng_pair. Normal numbers: 2j and 2j + 1 are sqrt(-2 ln u) times cos and sin of 2 pi v, u
 * and v the two numbers of pair j. */
#include "base/rng.h"
#include "reference/reference_layers.h"

#include <math.h>

static const double gelu_slope = 0.7978845608028654; /* sqrt(2/pi) */
static const double gelu_cubic = 0.044715;
static const double root_half = 0.7071067811865476, root_half_pi = 0.3989422804014327;

void wefti_reference_gelu_forward(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) {
        double a = (double)x[i];
        double t = tanh(gelu_slope * (a + gelu_cubic * a * a * a));
        y[i] = (float)(0.5 * a * (1 + t));
    }
}

void wefti_reference_gelu_backward(int64_t n, const float *x, const float *dy,
                                   float *dx) {
    for (int64_t i = 0; i < n; i++) {
        double a = (double)x[i];
        double t = tanh(gelu_slope * (a + gelu_cubic * a * a * a));
        double du = gelu_slope * (1 + 3 * gelu_cubic * a * a);
        dx[i] = (float)((double)dy[i] * (0.5 * (1 + t) + 0.5 * a * (1 - t * t) * du));
    }
}

/* x s(x), s the normal distribution; its slope is s + x times the density. */
void wefti_reference_gelu_erf_forward(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(0.5 * (double)x[i] * erfc(-(double)x[i] * root_half));
}

void wefti_reference_gelu_erf_backward(int64_t n, const float *x, const float *dy,
                                       float *dx) {
    for (int64_t i = 0; i < n; i++) {
        double a = (double)x[i], density = root_half_pi * exp(-0.5 * a * a);
        dx[i] = (float)((double)dy[i] * (0.5 * erfc(-a * root_half) + a * density));
    }
}

void wefti_reference_relu_forward(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

void wefti_reference_relu_backward(int64_t n, const float *x, const float *dy,
                                   float *dx) {
    for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * (x[i] > 0 ? 1.0f : 0.0f);
}

void wefti_reference_relu2_forward(int64_t n, const float *x, float *y) {
    for (int64_t i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] * x[i] : 0;
}

void wefti_reference_relu2_backward(int64_t n, const float *x, const float *dy,
                                    float *dx) {
    for (int64_t i = 0; i < n; i++) dx[i] = dy[i] * (x[i] > 0 ? 2 * x[i] : 0.0f);
}

static double sigmoid(double a) { return 1 / (1 + exp(-a)); }

void wefti_reference_swiglu_forward(int64_t N, int64_t F, const float *gu, float *y) {
    for (int64_t n = 0; n < N; n++) {
        const float *g = gu + n * 2 * F, *u = g + F;
        for (int64_t f = 0; f < F; f++)
            y[n * F + f] = (float)((double)g[f] * sigmoid((double)g[f]) * (double)u[f]);
    }
}

void wefti_reference_swiglu_backward(int64_t N, int64_t F, const float *gu,
                                     const float *dy, float *dgu) {
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            double g = (double)gu[n * 2 * F + f], u = (double)gu[n * 2 * F + F + f];
            double s = sigmoid(g), d = (double)dy[n * F + f];
            dgu[n * 2 * F + f] = (float)(d * u * s * (1 + g * (1 - s)));
            dgu[n * 2 * F + F + f] = (float)(d * g * s);
        }
    }
}

void wefti_reference_geglu_forward(int64_t N, int64_t F, const float *gu, float *y) {
    for (int64_t n = 0; n < N; n++) {
        const float *g = gu + n * 2 * F, *u = g + F;
        wefti_reference_gelu_forward(F, g, y + n * F);
        for (int64_t f = 0; f < F; f++) y[n * F + f] *= u[f];
    }
}

void wefti_reference_geglu_backward(int64_t N, int64_t F, const float *gu,
                                    const float *dy, float *dgu) {
    for (int64_t n = 0; n < N; n++) {
        for (int64_t f = 0; f < F; f++) {
            float g = gu[n * 2 * F + f], u = gu[n * 2 * F + F + f], d = dy[n * F + f];
            float along = d * u, y;
            wefti_reference_gelu_forward(1, &g, &y);
            wefti_reference_gelu_backward(1, &g, &along, &dgu[n * 2 * F + f]);
            dgu[n * 2 * F + F + f] = d * y;
        }
    }
}

/* y of one number, or of one pair of gate and up. */
static float curve_of(wefti_curve curve, const float x[2]) {
    float y = 0;
    switch (curve) {
    case WEFTI_CURVE_GELU: wefti_reference_gelu_forward(1, x, &y); break;
    case WEFTI_CURVE_GELU_ERF: wefti_reference_gelu_erf_forward(1, x, &y); break;
    case WEFTI_CURVE_RELU: wefti_reference_relu_forward(1, x, &y); break;
    case WEFTI_CURVE_RELU2: wefti_reference_relu2_forward(1, x, &y); break;
    case WEFTI_CURVE_SWIGLU: wefti_reference_swiglu_forward(1, 1, x, &y); break;
    case WEFTI_CURVE_GEGLU: wefti_reference_geglu_forward(1, 1, x, &y); break;
    }
    return y;
}

static void curve_back(wefti_curve curve, const float x[2], float dy, float dx[2]) {
    switch (curve) {
    case WEFTI_CURVE_GELU: wefti_reference_gelu_backward(1, x, &dy, dx); break;
    case WEFTI_CURVE_GELU_ERF: wefti_reference_gelu_erf_backward(1, x, &dy, dx); break;
    case WEFTI_CURVE_RELU: wefti_reference_relu_backward(1, x, &dy, dx); break;
    case WEFTI_CURVE_RELU2: wefti_reference_relu2_backward(1, x, &dy, dx); break;
    case WEFTI_CURVE_SWIGLU: wefti_reference_swiglu_backward(1, 1, x, &dy, dx); break;
    case WEFTI_CURVE_GEGLU: wefti_reference_geglu_backward(1, 1, x, &dy, dx); break;
    }
}

float wefti_reference_curve(wefti_curve curve, float x, float *slope) {
    float both[2] = {x}, slopes[2] = {0};
    curve_back(curve, both, 1, slopes);
    *slope = slopes[0];
    return curve_of(curve, both);
}

void wefti_reference_gate_forward(wefti_curve curve, int64_t N, int64_t F,
                                  const uint16_t *gu, uint16_t *y) {
    for (int64_t n = 0; n < N; n++, gu += 2 * F) {
        for (int64_t i = 0; i < F; i++) {
            float both[2] = {wefti_f32_of_bf16(gu[i]), wefti_f32_of_bf16(gu[F + i])};
            y[n * F + i] = wefti_bf16(curve_of(curve, both));
        }
    }
}

void wefti_reference_gate_backward(wefti_curve curve, int64_t N, int64_t F,
                                   const uint16_t *gu, const uint16_t *dy,
                                   uint16_t *dgu) {
    for (int64_t n = 0; n < N; n++, gu += 2 * F, dgu += 2 * F) {
        for (int64_t i = 0; i < F; i++) {
            float both[2] = {wefti_f32_of_bf16(gu[i]), wefti_f32_of_bf16(gu[F + i])},
                  d[2];
            curve_back(curve, both, wefti_f32_of_bf16(dy[n * F + i]), d);
            dgu[i] = wefti_bf16(d[0]), dgu[F + i] = wefti_bf16(d[1]);
        }
    }
}

void wefti_reference_rope(int64_t B, int64_t T, int64_t n_heads, int64_t D, int64_t ld,
                          const float *cos_sin, bool inverse, float *x) {
    int64_t half = D / 2;
    for (int64_t n = 0; n < B * T; n++) {
        const float *cosines = cos_sin + n % T * D, *sines = cosines + half;
        for (int64_t h = 0; h < n_heads; h++) {
            float *head = x + n * ld + h * D;
            for (int64_t i = 0; i < half; i++) {
                double a = (double)head[i], b = (double)head[i + half];
                double c = (double)cosines[i];
                double s = inverse ? -(double)sines[i] : (double)sines[i];
                head[i] = (float)(a * c - b * s);
                head[i + half] = (float)(b * c + a * s);
            }
        }
    }
}

void wefti_reference_dropout(int64_t n, float rate, uint64_t seed, uint64_t step,
                             uint64_t first, float *x) {
    double threshold = (double)rate * 4294967296.0;
    float kept = 1.0f / (1.0f - rate);
    for (int64_t i = 0; i < n; i++) {
        uint64_t e = first + (uint64_t)i, pair[2];
        wefti_rng_pair(seed, WEFTI_STREAM_DROPOUT, step, e / 4, pair);
        uint32_t word = (uint32_t)(pair[e % 4 / 2] >> (e % 2 * 32));
        x[i] = (double)word < threshold ? 0.0f : x[i] * kept;
    }
}

void wefti_reference_normals(const wefti_rng_run *run, float mean, float std,
                             float *out) {
    for (int64_t i = 0; i < run->n; i++) {
        uint64_t place = run->first + (uint64_t)i, r[2];
        wefti_rng_pair(run->seed, run->stream, run->step, place / 2, r);
        double u = ((double)(r[0] >> 11) + 0.5) * 0x1p-53;
        double angle = 6.283185307179586 * ((double)(r[1] >> 11) * 0x1p-53);
        double rho = sqrt(-2.0 * log(u)), turned = place % 2 ? sin(angle) : cos(angle);
        out[i] = (float)((double)mean + (double)std * (rho * turned));
    }
}
