/* SPDX-License-Identifier: MIT */
/* The feed-forward of a block, of several models:
 *
 *     h = x W1 + b1     a = curve(h), or curve(gate) up     y = a W2 + b2
 *
 * Where products round their factors to bfloat16 h, a and their gradients are kept in
 * bfloat16: h is rounded by the product that stores it, and a would be by the one that reads it. */
#include "model/pieces.h"

bool wefti_curve_is_gated(wefti_curve curve) {
    return curve == WEFTI_CURVE_SWIGLU || curve == WEFTI_CURVE_GEGLU;
}

static bool rounds(const wefti_kernels *kernels, int64_t C) {
    return kernels && kernels->gemm_mixed && C <= WEFTI_MIXED_TERMS;
}

int64_t wefti_hidden_floats(const wefti_kernels *kernels, int64_t C, int64_t n) {
    return rounds(kernels, C) ? (n + 1) / 2 : n;
}

static void curve_forward(const wefti_kernels *k, const wefti_ffn *f) {
    int64_t N = f->in.N, F = f->out.in;
    switch (f->curve) {
    case WEFTI_CURVE_SWIGLU: k->swiglu_forward(N, F, f->hidden, f->active); break;
    case WEFTI_CURVE_GEGLU: k->geglu_forward(N, F, f->hidden, f->active); break;
    case WEFTI_CURVE_GELU: k->gelu_forward(N * F, f->hidden, f->active); break;
    case WEFTI_CURVE_GELU_ERF: k->gelu_erf_forward(N * F, f->hidden, f->active); break;
    case WEFTI_CURVE_RELU: k->relu_forward(N * F, f->hidden, f->active); break;
    }
}

/* The gradient of a, in its place, becomes that of h. */
static void curve_backward(const wefti_kernels *k, const wefti_ffn *f) {
    int64_t N = f->in.N, F = f->out.in;
    const float *h = f->hidden, *da = f->active;
    float *dh = f->gradient;
    switch (f->curve) {
    case WEFTI_CURVE_SWIGLU: k->swiglu_backward(N, F, h, da, dh); break;
    case WEFTI_CURVE_GEGLU: k->geglu_backward(N, F, h, da, dh); break;
    case WEFTI_CURVE_GELU: k->gelu_backward(N * F, h, da, dh); break;
    case WEFTI_CURVE_GELU_ERF: k->gelu_erf_backward(N * F, h, da, dh); break;
    case WEFTI_CURVE_RELU: k->relu_backward(N * F, h, da, dh); break;
    }
}

/* The two products, between which numbers are kept in bfloat16 if they can be: with a side,
 * dropout changes them in f32. */
static bool take_products(const wefti_kernels *k, const wefti_ffn *f, wefti_linear *in,
                          wefti_linear *out) {
    bool half = rounds(k, f->in.in) && !f->sided;
    *in = f->in, *out = f->out;
    in->half_y = out->half_x = half;
    return half;
}

void wefti_ffn_forward(const wefti_kernels *k, const wefti_ffn *f, const float *x, float *y) {
    wefti_linear in, out;
    bool half = take_products(k, f, &in, &out);
    wefti_linear_forward(k, &in, x, f->hidden);
    if (half)
        k->curve_forward(f->curve, in.N, out.in, f->hidden, f->active);
    else
        curve_forward(k, f);
    wefti_linear_forward(k, &out, f->active, y);
}

void wefti_ffn_backward(const wefti_kernels *k, const wefti_ffn *f, const float *x,
                        const float *dy, float *dx) {
    wefti_linear in, out;
    bool half = take_products(k, f, &in, &out);
    if (half)
        k->curve_forward(f->curve, in.N, out.in, f->hidden, f->active);
    else
        curve_forward(k, f);
    wefti_linear_backward(k, &out, f->active, dy, f->active);
    if (half)
        k->curve_backward(f->curve, in.N, out.in, f->hidden, f->active, f->gradient);
    else
        curve_backward(k, f);
    wefti_linear_backward(k, &in, x, f->gradient, dx);
}
