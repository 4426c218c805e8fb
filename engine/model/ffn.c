/* SPDX-License-Identifier: MIT */
/* The feed-forward of a block, of several models:
 *
 *     h = x W1 + b1     a = curve(h), or curve(gate) up     y = a W2 + b2
 *
 * Where products round their factors to bfloat16 h, a and their gradients are kept in
 * bfloat16: h is rounded by the product that stores it, and a would be by the one that reads it.
 * If the curve is not gated that product stores a and the curve's slopes at h instead of h, and the
 * product that gives a's gradient multiplies by them: nothing else passes over the layer. */
#include "model/pieces.h"

bool wefti_curve_is_gated(wefti_curve curve) {
    return curve == WEFTI_CURVE_SWIGLU || curve == WEFTI_CURVE_GEGLU;
}

static bool rounds(const wefti_kernels *kernels, int64_t C) {
    return kernels && kernels->layers->gemm_mixed && C <= WEFTI_MIXED_TERMS;
}

/* Floats of h in bfloat16, whole lines of 64 bytes. */
static int64_t half_floats(int64_t n) { return (n + 31) / 32 * 16; }

/* In bfloat16 a is kept too, in the room that h alone takes in f32. */
int64_t wefti_ffn_saved(const wefti_kernels *kernels, int64_t C, int64_t N, int64_t wide,
                        int64_t F) {
    if (!rounds(kernels, C)) return N * wide;
    return half_floats(N * wide) + half_floats(N * F);
}

static void curve_forward(const wefti_kernels *k, const wefti_ffn *f) {
    int64_t N = f->in.N, F = f->out.in;
    switch (f->curve) {
    case WEFTI_CURVE_SWIGLU: k->layers->swiglu_forward(N, F, f->saved, f->active); break;
    case WEFTI_CURVE_GEGLU: k->layers->geglu_forward(N, F, f->saved, f->active); break;
    case WEFTI_CURVE_GELU: k->layers->gelu_forward(N * F, f->saved, f->active); break;
    case WEFTI_CURVE_GELU_ERF:
        k->layers->gelu_erf_forward(N * F, f->saved, f->active);
        break;
    case WEFTI_CURVE_RELU: k->layers->relu_forward(N * F, f->saved, f->active); break;
    case WEFTI_CURVE_RELU2: k->layers->relu2_forward(N * F, f->saved, f->active); break;
    }
}

/* The gradient of a, in its place, becomes that of h. */
static void curve_backward(const wefti_kernels *k, const wefti_ffn *f) {
    int64_t N = f->in.N, F = f->out.in;
    const float *h = f->saved, *da = f->active;
    float *dh = f->gradient;
    switch (f->curve) {
    case WEFTI_CURVE_SWIGLU: k->layers->swiglu_backward(N, F, h, da, dh); break;
    case WEFTI_CURVE_GEGLU: k->layers->geglu_backward(N, F, h, da, dh); break;
    case WEFTI_CURVE_GELU: k->layers->gelu_backward(N * F, h, da, dh); break;
    case WEFTI_CURVE_GELU_ERF: k->layers->gelu_erf_backward(N * F, h, da, dh); break;
    case WEFTI_CURVE_RELU: k->layers->relu_backward(N * F, h, da, dh); break;
    case WEFTI_CURVE_RELU2: k->layers->relu2_backward(N * F, h, da, dh); break;
    }
}

/* The same feed-forward in bfloat16, where its numbers can be kept so: with sides dropout
 * changes them in f32. */
typedef struct halves {
    wefti_linear in, out;
    uint16_t *h, *a, *da, *dh; /* h: the slopes if the curve is not gated */
} halves;

static bool take_halves(const wefti_kernels *k, const wefti_ffn *f, halves *t) {
    if (!rounds(k, f->in.in) || f->sided) return false;
    *t = (halves){.in = f->in, .out = f->out, .da = f->active, .dh = f->gradient};
    t->in.half_y = t->out.half_x = true;
    t->h = (uint16_t *)(void *)f->saved;
    t->a = (uint16_t *)(void *)(f->saved + half_floats(f->in.N * f->in.out));
    if (wefti_curve_is_gated(f->curve)) return true;
    t->in.slopes = t->h, t->in.curve = f->curve;
    t->out.times = t->h;
    return true;
}

void wefti_ffn_forward(const wefti_kernels *k, const wefti_ffn *f, const void *x,
                       float *y) {
    halves t;
    if (take_halves(k, f, &t)) {
        wefti_linear_forward(k, &t.in, x, t.in.slopes ? t.a : t.h);
        if (!t.in.slopes) k->layers->gate_forward(f->curve, f->in.N, f->out.in, t.h, t.a);
        wefti_linear_forward(k, &t.out, t.a, y);
        return;
    }
    wefti_linear_forward(k, &f->in, x, f->saved);
    curve_forward(k, f);
    wefti_linear_forward(k, &f->out, f->active, y);
}

void wefti_ffn_backward(const wefti_kernels *k, const wefti_ffn *f, const void *x,
                        const float *dy, void *dx) {
    halves t;
    if (take_halves(k, f, &t)) {
        wefti_linear_backward(k, &t.out, t.a, dy, t.out.times ? t.dh : t.da);
        if (!t.out.times)
            k->layers->gate_backward(f->curve, f->in.N, f->out.in, t.h, t.da, t.dh);
        wefti_linear_backward(k, &t.in, x, t.dh, dx);
        return;
    }
    curve_forward(k, f);
    wefti_linear_backward(k, &f->out, f->active, dy, f->active);
    curve_backward(k, f);
    wefti_linear_backward(k, &f->in, x, f->gradient, dx);
}
