/* SPDX-License-Identifier: MIT */
/* The gated activations of feed-forwards on numbers kept in bfloat16. Each row is widened, and its
 * results are rounded once. */
#include "tensor/isa/parts.h"
#include "kernels/isa/quick.h"
#include "kernels/isa/team.h"

typedef vfloat (*function)(vfloat x);

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
    curve_point g = gelu_point(*gate);
    *gate = dy * *up * g.slope;
    *up = dy * g.y;
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

void WEFT_ISA_NAME(wefti_gate_forward)(wefti_curve curve, int64_t N, int64_t F,
                                       const uint16_t *gu, uint16_t *y) {
    if (curve == WEFTI_CURVE_SWIGLU)
        TEAM_ROWS(N * F, N, n, gate_row(silu, F, gu + n * 2 * F, y + n * F));
    else
        TEAM_ROWS(N * F, N, n, gate_row(quick_gelu, F, gu + n * 2 * F, y + n * F));
}

void WEFT_ISA_NAME(wefti_gate_backward)(wefti_curve curve, int64_t N, int64_t F,
                                        const uint16_t *gu, const uint16_t *dy,
                                        uint16_t *dgu) {
    if (curve == WEFTI_CURVE_SWIGLU)
        TEAM_ROWS(
            N * F, N, n,
            gate_row_back(swiglu_slopes, F, gu + n * 2 * F, dy + n * F, dgu + n * 2 * F));
    else
        TEAM_ROWS(
            N * F, N, n,
            gate_row_back(geglu_slopes, F, gu + n * 2 * F, dy + n * F, dgu + n * 2 * F));
}
