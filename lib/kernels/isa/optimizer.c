/* SPDX-License-Identifier: MIT */
/* Optimizer steps in one pass over memory, as defined in kernels/kernels.h; plain loops,
 * whose square root and division the compilers vectorize. Bytes per parameter, read and
 * written: sgd 12, adam 28, accum_adam 28, where it closes a period 36, with K = 1 always
 * 28. (A step that opens a period does not read a, but a store loads its cache line all the
 * same.) The changes of p pass through a small buffer on their way to the sum of their
 * squares, which is taken over a fixed number of segments: the same for any thread count. */
#include "kernels/isa/lanes.h"
#include "kernels/isa/parts.h"
#include "kernels/isa/team.h"

#include <math.h>

enum { RUN = 512, SEGMENTS = 64 };

/* Constants of a step, computed once so that the loops divide as little as possible. */
typedef struct numbers {
    float scale, coupled;       /* g' = scale g + coupled p */
    float beta1, beta2;         /* share of a moment that is kept */
    float new1, new2;           /* factor of the gradient that is added */
    float shrink, rate;         /* p <- (1 - shrink) p - rate ... */
    float inverse2, eps, share; /* 1/correction2; 1/K */
} numbers;

/* A pass over n parameters; arrays that an optimizer does not have are NULL. */
typedef struct pass {
    numbers s;
    bool opens, closes;
    const float *g;
    float *p, *m, *v, *a;
} pass;

static numbers adam_numbers(const wefti_adam_step *s) {
    return (numbers){
        .scale = s->grad_scale,
        .coupled = s->coupled_decay,
        .beta1 = s->beta1,
        .beta2 = s->beta2,
        .new1 = 1.0f - s->beta1,
        .new2 = 1.0f - s->beta2,
        .shrink = s->lr * s->decoupled_decay,
        .rate = s->lr / s->correction1,
        .inverse2 = 1.0f / s->correction2,
        .eps = s->eps,
    };
}

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

/* Calls `run` for the elements i..i+n of the pass, at most RUN at a time, and sums the
 * squares of the numbers that it stores in `change`. */
static inline double over_segments(int64_t n, const pass *w,
                                   void (*run)(const pass *w, int64_t i, int64_t n,
                                               float *change)) {
    double part[SEGMENTS], total = 0;
    int t = team_size(n);
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int k = 0; k < SEGMENTS; k++) {
        span segment = team_slice(n, 64, k, SEGMENTS);
        float change[RUN];
        part[k] = 0;
        for (int64_t i = segment.begin; i < segment.end; i += RUN) {
            int64_t length = segment.end - i < RUN ? segment.end - i : RUN;
            run(w, i, length, change);
            part[k] += (double)run_squares(length, change);
        }
    }
    for (int k = 0; k < SEGMENTS; k++) total += part[k];
    return total;
}

/* The gradient that the moments see. */
static inline float gradient(numbers s, float g, float p) {
    return s.scale * g + s.coupled * p;
}

/* The amount that is subtracted from a parameter with these moments. */
static inline float adam_step(numbers s, float p, float m, float v) {
    return s.shrink * p + s.rate * m / (sqrtf(v * s.inverse2) + s.eps);
}

static void adam_loop(int64_t n, numbers s, const float *restrict g, float *restrict p,
                      float *restrict m, float *restrict v, float *restrict change) {
    for (int64_t i = 0; i < n; i++) {
        float grad = gradient(s, g[i], p[i]);
        m[i] = s.beta1 * m[i] + s.new1 * grad;
        v[i] = s.beta2 * v[i] + s.new2 * grad * grad;
        change[i] = adam_step(s, p[i], m[i], v[i]);
        p[i] -= change[i];
    }
}

static void adam_run(const pass *w, int64_t i, int64_t n, float *change) {
    adam_loop(n, w->s, w->g + i, w->p + i, w->m + i, w->v + i, change);
}

double WEFT_ISA_NAME(wefti_adam)(int64_t n, const wefti_adam_step *s, const float *g,
                                 float *p, float *m, float *v) {
    pass w = {.s = adam_numbers(s), .g = g, .p = p, .m = m, .v = v};
    return over_segments(n, &w, adam_run);
}

/* `opens` and `closes` are constants at each call, so there are no branches inside the
 * loop, and arrays that are not needed are not accessed. */
static inline void accum_loop(int64_t n, numbers s, bool opens, bool closes,
                              const float *restrict g, float *restrict p,
                              float *restrict m, float *restrict v, float *restrict a,
                              float *restrict change) {
    for (int64_t i = 0; i < n; i++) {
        float grad = gradient(s, g[i], p[i]);
        float mean = grad; /* the mean of a period of one step */
        if (!opens || !closes) mean = (opens ? 0 : a[i]) + s.share * grad;
        change[i] = adam_step(s, p[i], m[i] + s.new1 * grad, v[i] + s.new2 * grad * grad);
        p[i] -= change[i];
        if (closes) {
            m[i] = s.beta1 * (m[i] + s.new1 * mean);
            v[i] = s.beta2 * (v[i] + s.new2 * mean * mean);
        }
        if (!opens || !closes) a[i] = closes ? 0 : mean;
    }
}

static void accum_run(const pass *w, int64_t i, int64_t n, float *change) {
    const float *g = w->g + i;
    float *p = w->p + i, *m = w->m + i, *v = w->v + i, *a = w->a + i;
    if (w->opens && w->closes)
        accum_loop(n, w->s, true, true, g, p, m, v, a, change);
    else if (w->opens)
        accum_loop(n, w->s, true, false, g, p, m, v, a, change);
    else if (w->closes)
        accum_loop(n, w->s, false, true, g, p, m, v, a, change);
    else
        accum_loop(n, w->s, false, false, g, p, m, v, a, change);
}

double WEFT_ISA_NAME(wefti_accum_adam)(int64_t n, const wefti_accum_step *s,
                                       const float *g, float *p, float *m, float *v,
                                       float *a) {
    pass w = {adam_numbers(&s->adam), s->opens, s->closes, g, p, m, v, a};
    w.s.share = s->share;
    return over_segments(n, &w, accum_run);
}

static void sgd_loop(int64_t n, float rate, float shrink, const float *restrict d,
                     float *restrict p, float *restrict change) {
    for (int64_t i = 0; i < n; i++) {
        float step = shrink * p[i] + rate * d[i];
        p[i] -= step;
        change[i] = step;
    }
}

static void sgd_run(const pass *w, int64_t i, int64_t n, float *change) {
    sgd_loop(n, w->s.rate, w->s.shrink, w->g + i, w->p + i, change);
}

double WEFT_ISA_NAME(wefti_sgd)(int64_t n, float lr, float grad_scale, float decay,
                                const float *d, float *p) {
    pass w = {.s = {.rate = lr * grad_scale, .shrink = lr * decay}, .g = d, .p = p};
    return over_segments(n, &w, sgd_run);
}
