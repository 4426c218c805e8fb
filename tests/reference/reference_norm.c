/* SPDX-License-Identifier: MIT */
/* LayerNorm: n = (x - mean) rstd, y = n gain + bias, rstd = 1/sqrt(var + eps).
 * With h = dy gain: dx = rstd (h - mean(h) - n mean(h n)).
 * RMSNorm: n = x rstd, y = n gain, rstd = 1/sqrt(mean(x^2) + eps).
 * With h = dy gain: dx = rstd (h - n mean(h n)). */
#include "reference/reference_layers.h"

#include <math.h>

static void layernorm_statistics(int64_t C, float eps, const float *x, double *mean,
                                 double *r) {
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < C; c++) sum += (double)x[c];
    *mean = sum / (double)C;
    for (int64_t c = 0; c < C; c++)
        squares += ((double)x[c] - *mean) * ((double)x[c] - *mean);
    *r = 1 / sqrt(squares / (double)C + (double)eps);
}

void wefti_reference_layernorm_forward(int64_t N, int64_t C, float eps, const float *x,
                                       const float *gain, const float *bias, float *y,
                                       float *mean, float *rstd) {
    double center, r;
    for (int64_t n = 0; n < N; n++, x += C, y += C) {
        layernorm_statistics(C, eps, x, &center, &r);
        for (int64_t c = 0; c < C; c++)
            y[c] = (float)(((double)x[c] - center) * r * (double)gain[c] +
                           (double)bias[c]);
        mean[n] = (float)center;
        rstd[n] = (float)r;
    }
}

void wefti_reference_layernorm_forward_half(int64_t N, int64_t C, float eps,
                                            const float *x, const float *gain,
                                            const float *bias, uint16_t *y, float *mean,
                                            float *rstd) {
    double center, r;
    for (int64_t n = 0; n < N; n++, x += C, y += C) {
        layernorm_statistics(C, eps, x, &center, &r);
        for (int64_t c = 0; c < C; c++)
            y[c] = wefti_bf16(
                (float)(((double)x[c] - center) * r * (double)gain[c] + (double)bias[c]));
        mean[n] = (float)center;
        rstd[n] = (float)r;
    }
}

/* Number i of dy, which is f32 or bfloat16. */
static double gradient_at(const void *dy, bool half, int64_t i) {
    if (half) return (double)wefti_f32_of_bf16(((const uint16_t *)dy)[i]);
    return (double)((const float *)dy)[i];
}

static void layernorm_backward_row(int64_t C, const float *x, const float *gain,
                                   const double mean_r[2], const void *dy, bool half,
                                   int64_t at, float *dx) {
    double sum_h = 0, sum_hn = 0, center = mean_r[0], r = mean_r[1];
    for (int64_t c = 0; c < C; c++) {
        double h = gradient_at(dy, half, at + c) * (double)gain[c];
        sum_h += h;
        sum_hn += h * ((double)x[c] - center) * r;
    }
    for (int64_t c = 0; c < C; c++) {
        double h = gradient_at(dy, half, at + c) * (double)gain[c];
        double normal = ((double)x[c] - center) * r;
        double grad = r * (h - sum_h / (double)C - normal * sum_hn / (double)C);
        dx[c] = (float)((double)dx[c] + grad);
    }
}

static void layernorm_backward(int64_t N, int64_t C, const float *x, const float *gain,
                               const float *mean, const float *rstd, const void *dy,
                               bool half, float *dx, float *dgain, float *dbias) {
    for (int64_t c = 0; c < C; c++) {
        double sum = 0, sum_normal = 0;
        for (int64_t n = 0; n < N; n++) {
            double normal = ((double)x[n * C + c] - (double)mean[n]) * (double)rstd[n];
            sum += gradient_at(dy, half, n * C + c);
            sum_normal += gradient_at(dy, half, n * C + c) * normal;
        }
        dgain[c] = (float)((double)dgain[c] + sum_normal);
        dbias[c] = (float)((double)dbias[c] + sum);
    }
    for (int64_t n = 0; n < N; n++) {
        double mean_r[2] = {(double)mean[n], (double)rstd[n]};
        layernorm_backward_row(C, x + n * C, gain, mean_r, dy, half, n * C, dx + n * C);
    }
}

void wefti_reference_layernorm_backward(int64_t N, int64_t C, const float *x,
                                        const float *gain, const float *mean,
                                        const float *rstd, const float *dy, float *dx,
                                        float *dgain, float *dbias) {
    layernorm_backward(N, C, x, gain, mean, rstd, dy, false, dx, dgain, dbias);
}

void wefti_reference_layernorm_backward_half(int64_t N, int64_t C, const float *x,
                                             const float *gain, const float *mean,
                                             const float *rstd, const uint16_t *dy,
                                             float *dx, float *dgain, float *dbias) {
    layernorm_backward(N, C, x, gain, mean, rstd, dy, true, dx, dgain, dbias);
}

void wefti_reference_rmsnorm_forward(int64_t N, int64_t C, int64_t ld, float eps,
                                     const float *x, const float *gain, float *y,
                                     float *rstd) {
    for (int64_t n = 0; n < N; n++, x += ld, y += ld) {
        double squares = 0;
        for (int64_t c = 0; c < C; c++) squares += (double)x[c] * (double)x[c];
        double r = 1 / sqrt(squares / (double)C + (double)eps);
        for (int64_t c = 0; c < C; c++)
            y[c] = (float)((double)x[c] * r * (double)gain[c]);
        rstd[n] = (float)r;
    }
}

static void rmsnorm_backward_row(int64_t C, const float *x, const float *gain, double r,
                                 const float *dy, float *dx) {
    double sum_hn = 0;
    for (int64_t c = 0; c < C; c++)
        sum_hn += (double)dy[c] * (double)gain[c] * (double)x[c] * r;
    for (int64_t c = 0; c < C; c++) {
        double h = (double)dy[c] * (double)gain[c];
        dx[c] = (float)(r * (h - (double)x[c] * r * sum_hn / (double)C));
    }
}

void wefti_reference_rmsnorm_backward(int64_t N, int64_t C, int64_t ld, const float *x,
                                      const float *gain, const float *rstd,
                                      const float *dy, float *dx, float *dgain) {
    for (int64_t c = 0; c < C; c++) { /* first, because dx may be dy */
        double sum = 0;
        for (int64_t n = 0; n < N; n++)
            sum += (double)dy[n * ld + c] * (double)x[n * ld + c] * (double)rstd[n];
        dgain[c] = (float)((double)dgain[c] + sum);
    }
    for (int64_t n = 0; n < N; n++)
        rmsnorm_backward_row(C, x + n * ld, gain, (double)rstd[n], dy + n * ld,
                             dx + n * ld);
}
