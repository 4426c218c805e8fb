/* SPDX-License-Identifier: MIT */
/* Rotary positions: (a, b) -> (a cos - b sin, b cos + a sin), a = x[i], b = x[i + D/2] */
#include "kernels/isa/lanes.h"
#include "tensor/isa/parts.h"
#include "kernels/isa/team.h"

static void rotate_head(int64_t half, const float *cosines, const float *sines,
                        float sign, float *x) {
    int64_t i = 0;
    for (; i + LANES <= half; i += LANES) {
        vfloat a = load(x + i), b = load(x + half + i);
        vfloat c = load(cosines + i), s = load(sines + i) * sign;
        store(x + i, a * c - b * s);
        store(x + half + i, b * c + a * s);
    }
    for (; i < half; i++) {
        float a = x[i], b = x[half + i], c = cosines[i], s = sines[i] * sign;
        x[i] = a * c - b * s;
        x[half + i] = b * c + a * s;
    }
}

void WEFT_ISA_NAME(wefti_rope)(int64_t B, int64_t T, int64_t n_heads, int64_t D,
                               int64_t ld, const float *cos_sin, bool inverse, float *x) {
    float sign = inverse ? -1.0f : 1.0f;
    int t = team_size(B * T * n_heads * D);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < t; k++) {
        span rows = team_slice(B * T, 1, k, t);
        for (int64_t n = rows.begin; n < rows.end; n++) {
            const float *cosines = cos_sin + n % T * D;
            for (int64_t h = 0; h < n_heads; h++)
                rotate_head(D / 2, cosines, cosines + D / 2, sign, x + n * ld + h * D);
        }
    }
}
