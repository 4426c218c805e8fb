/* SPDX-License-Identifier: MIT */
/* Optimizer steps as their definitions in kernels/kernels.h read, in double. */
#include "reference/reference.h"

#include <math.h>

/* The gradient that the moments see. */
static double gradient(const wefti_adam_step *s, float g, float p) {
    return (double)s->grad_scale * (double)g + (double)s->coupled_decay * (double)p;
}

/* The change of a parameter whose moments are now m and v. */
static double adam_change(const wefti_adam_step *s, float p, double m, double v) {
    double root = sqrt(v / (double)s->correction2) + (double)s->eps;
    double step = m / (double)s->correction1 / root;
    return -(double)s->lr * ((double)s->decoupled_decay * (double)p + step);
}

double wefti_reference_adam(int64_t n, const wefti_adam_step *s, const float *g, float *p,
                            float *m, float *v) {
    double moved = 0, beta1 = (double)s->beta1, beta2 = (double)s->beta2;
    for (int64_t i = 0; i < n; i++) {
        double grad = gradient(s, g[i], p[i]);
        double first = beta1 * (double)m[i] + (1 - beta1) * grad;
        double second = beta2 * (double)v[i] + (1 - beta2) * grad * grad;
        double change = adam_change(s, p[i], first, second);
        p[i] = (float)((double)p[i] + change);
        m[i] = (float)first;
        v[i] = (float)second;
        moved += change * change;
    }
    return moved;
}

double wefti_reference_accum_adam(int64_t n, const wefti_accum_step *s, const float *g,
                                  float *p, float *m, float *v, float *a) {
    double moved = 0, beta1 = (double)s->adam.beta1, beta2 = (double)s->adam.beta2;
    for (int64_t i = 0; i < n; i++) {
        double grad = gradient(&s->adam, g[i], p[i]), M = (double)m[i], V = (double)v[i];
        double first = M + (1 - beta1) * grad, second = V + (1 - beta2) * grad * grad;
        double change = adam_change(&s->adam, p[i], first, second);
        double mean = (s->opens ? 0 : (double)a[i]) + (double)s->share * grad;
        p[i] = (float)((double)p[i] + change);
        moved += change * change;
        if (s->closes) {
            m[i] = (float)(beta1 * (M + (1 - beta1) * mean));
            v[i] = (float)(beta2 * (V + (1 - beta2) * mean * mean));
        }
        if (!s->opens || !s->closes) a[i] = s->closes ? 0 : (float)mean;
    }
    return moved;
}

double wefti_reference_sgd(int64_t n, float lr, float grad_scale, float decay,
                           const float *d, float *p) {
    double moved = 0, step = (double)lr * (double)grad_scale;
    for (int64_t i = 0; i < n; i++) {
        double change = -(double)lr * (double)decay * (double)p[i] - step * (double)d[i];
        p[i] = (float)((double)p[i] + change);
        moved += change * change;
    }
    return moved;
}
