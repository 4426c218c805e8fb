/* SPDX-License-Identifier: MIT */
/* Optimizer steps in one pass over memory; plain loops, whose square root and division
 * the compilers vectorize. AdamW, with g the scaled gradient:
 *   m <- beta1 m + (1 - beta1) g, v <- beta2 v + (1 - beta2) g^2
 *   p <- p - lr (decay p + (m / correction1) / (sqrt(v / correction2) + eps))
 * The changes of p pass through a small buffer on their way to the sum of their squares,
 * which is taken over a fixed number of segments: the same for any thread count. */
#include "tensor/isa/lanes.h"
#include "tensor/isa/parts.h"
#include "tensor/isa/team.h"

#include <math.h>

enum { RUN = 512, SEGMENTS = 64 };

/* Sum of squares of at most RUN floats. */
static float run_squares(int64_t n, const float *x) {
    vfloat a = {0}, b = {0};
    float rest = 0;
    int64_t i = 0;
    for (; i + 2 * LANES <= n; i += 2 * LANES) {
        vfloat u = load(x + i), v = load(x + i + LANES);
        a += u * u;
        b += v * v;
    }
    for (; i < n; i++) rest += x[i] * x[i];
    return lane_sum(a + b) + rest;
}

static double segments_sum(const double part[SEGMENTS]) {
    double total = 0;
    for (int i = 0; i < SEGMENTS; i++) total += part[i];
    return total;
}

static void adamw_run(int64_t n, const wefti_adamw_step *s, const float *restrict g,
                      float *restrict p, float *restrict m, float *restrict v,
                      float *restrict change) {
    const float beta1 = s->beta1, beta2 = s->beta2, eps = s->eps, scale = s->grad_scale;
    const float new1 = 1.0f - beta1, new2 = 1.0f - beta2, shrink = s->lr * s->decay;
    const float rate = s->lr / s->correction1, inverse2 = 1.0f / s->correction2;
    for (int64_t i = 0; i < n; i++) {
        float grad = g[i] * scale;
        float first = beta1 * m[i] + new1 * grad;
        float second = beta2 * v[i] + new2 * grad * grad;
        float step = shrink * p[i] + rate * first / (sqrtf(second * inverse2) + eps);
        m[i] = first;
        v[i] = second;
        p[i] -= step;
        change[i] = step;
    }
}

double WEFT_ISA_NAME(wefti_adamw)(int64_t n, const wefti_adamw_step *s, const float *g,
                                  float *p, float *m, float *v) {
    double part[SEGMENTS];
#pragma omp parallel for num_threads(team_size(n)) schedule(static)
    for (int k = 0; k < SEGMENTS; k++) {
        span segment = team_slice(n, 64, k, SEGMENTS);
        float change[RUN];
        part[k] = 0;
        for (int64_t i = segment.begin; i < segment.end; i += RUN) {
            int64_t run = segment.end - i < RUN ? segment.end - i : RUN;
            adamw_run(run, s, g + i, p + i, m + i, v + i, change);
            part[k] += (double)run_squares(run, change);
        }
    }
    return segments_sum(part);
}

static void sgd_run(int64_t n, float rate, float shrink, const float *restrict d,
                    float *restrict p, float *restrict change) {
    for (int64_t i = 0; i < n; i++) {
        float step = shrink * p[i] + rate * d[i];
        p[i] -= step;
        change[i] = step;
    }
}

double WEFT_ISA_NAME(wefti_sgd)(int64_t n, float lr, float grad_scale, float decay,
                                const float *d, float *p) {
    double part[SEGMENTS];
#pragma omp parallel for num_threads(team_size(n)) schedule(static)
    for (int k = 0; k < SEGMENTS; k++) {
        span segment = team_slice(n, 64, k, SEGMENTS);
        float change[RUN];
        part[k] = 0;
        for (int64_t i = segment.begin; i < segment.end; i += RUN) {
            int64_t run = segment.end - i < RUN ? segment.end - i : RUN;
            sgd_run(run, lr * grad_scale, lr * decay, d + i, p + i, change);
            part[k] += (double)run_squares(run, change);
        }
    }
    return segments_sum(part);
}
