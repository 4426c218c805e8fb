/* SPDX-License-Identifier: MIT */
/* The activations of feed-forwards (curves.h) and their gradients, in f32. */
#include "kernels/isa/curves.h"
#include "tensor/isa/parts.h"
#include "kernels/isa/team.h"

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

#define ACTIVATION(name)                                                                 \
    void WEFT_ISA_NAME(wefti_##name##_forward)(int64_t n, const float *x, float *y) {    \
        map_forward(name, n, x, y);                                                      \
    }                                                                                    \
    void WEFT_ISA_NAME(wefti_##name##_backward)(int64_t n, const float *x,               \
                                                const float *dy, float *dx) {            \
        map_backward(name##_slope, n, x, dy, dx);                                        \
    }
ACTIVATION(gelu)
ACTIVATION(gelu_erf)
ACTIVATION(relu)
ACTIVATION(relu2)

static void geglu_row(int64_t F, const float *g, const float *u, float *y) {
    for (int64_t i = 0; i < F; i += LANES) {
        int64_t n = F - i < LANES ? F - i : LANES;
        store_part(y + i, gelu(load_part(g + i, n)) * load_part(u + i, n), n);
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

#define GATE(name)                                                                       \
    void WEFT_ISA_NAME(wefti_##name##_forward)(int64_t N, int64_t F, const float *gu,    \
                                               float *y) {                               \
        TEAM_ROWS(N *F, N, n,                                                            \
                  name##_row(F, gu + n * 2 * F, gu + n * 2 * F + F, y + n * F));         \
    }                                                                                    \
    void WEFT_ISA_NAME(wefti_##name##_backward)(int64_t N, int64_t F, const float *gu,   \
                                                const float *dy, float *dgu) {           \
        TEAM_ROWS(N *F, N, n,                                                            \
                  name##_backward_row(F, gu + n * 2 * F, dy + n * F, dgu + n * 2 * F));  \
    }
GATE(geglu)
GATE(swiglu)
