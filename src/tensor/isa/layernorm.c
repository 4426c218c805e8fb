/* SPDX-License-Identifier: MIT */
/* LayerNorm, n = (x - mean) rstd, y = n gain + bias; h = dy gain, dx += rstd (h - mean(h)
 * - n mean(h n)). Rows are divided among the threads. For the gradients of the parameters
 * the columns are divided, and rows are added in ascending order. */
#include "tensor/isa/lanes.h"
#include "tensor/isa/parts.h"
#include "tensor/isa/team.h"

#include <math.h>

/* sum of (x - center)^power over a row, power 1 or 2 */
static inline float centered_sum(int64_t C, const float *x, float center, int power) {
    vfloat a = {0}, b = {0};
    float rest = 0;
    int64_t c = 0;
    for (; c + 2 * LANES <= C; c += 2 * LANES) {
        vfloat u = load(x + c) - center, v = load(x + c + LANES) - center;
        a += power == 2 ? u * u : u;
        b += power == 2 ? v * v : v;
    }
    for (; c < C; c++) {
        float u = x[c] - center;
        rest += power == 2 ? u * u : u;
    }
    return lane_sum(a + b) + rest;
}

static void forward_row(int64_t C, float center, float r, const float *x,
                        const float *gain, const float *bias, float *y) {
    int64_t c = 0;
    for (; c + LANES <= C; c += LANES)
        store(y + c, (load(x + c) - center) * r * load(gain + c) + load(bias + c));
    for (; c < C; c++) y[c] = (x[c] - center) * r * gain[c] + bias[c];
}

void WEFT_ISA_NAME(wefti_layernorm_forward)(int64_t N, int64_t C, float eps,
                                            const float *x, const float *gain,
                                            const float *bias, float *y, float *mean,
                                            float *rstd) {
    int t = team_size(N * C);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int i = 0; i < t; i++) {
        span rows = team_slice(N, 1, i, t);
        for (int64_t n = rows.begin; n < rows.end; n++) {
            const float *row = x + n * C;
            mean[n] = row[0] + centered_sum(C, row, row[0], 1) / (float)C;
            float variance = centered_sum(C, row, mean[n], 2) / (float)C;
            rstd[n] = 1.0f / sqrtf(variance + eps);
            forward_row(C, mean[n], rstd[n], row, gain, bias, y + n * C);
        }
    }
}

static void backward_row(int64_t C, const float *x, const float *gain, float center,
                         float r, const float *dy, float *dx) {
    vfloat sum_h = {0}, sum_hn = {0};
    float rest_h = 0, rest_hn = 0;
    int64_t c = 0;
    for (; c + LANES <= C; c += LANES) {
        vfloat h = load(dy + c) * load(gain + c);
        sum_h += h;
        sum_hn += h * (load(x + c) - center);
    }
    for (; c < C; c++) {
        rest_h += dy[c] * gain[c];
        rest_hn += dy[c] * gain[c] * (x[c] - center);
    }
    float mean_h = (lane_sum(sum_h) + rest_h) / (float)C;
    float slope = (lane_sum(sum_hn) + rest_hn) * r * r / (float)C;
    for (c = 0; c + LANES <= C; c += LANES) {
        vfloat h = load(dy + c) * load(gain + c) - mean_h;
        store(dx + c, load(dx + c) + (h - (load(x + c) - center) * slope) * r);
    }
    for (; c < C; c++) dx[c] += (dy[c] * gain[c] - mean_h - (x[c] - center) * slope) * r;
}

typedef struct parameter_grads {
    int64_t C;
    const float *x, *mean, *rstd, *dy;
    float *dgain, *dbias;
} parameter_grads;

/* Adds rows n to columns c of dgain and dbias. */
static void backward_columns(const parameter_grads *g, span n, span c) {
    int64_t i = c.begin;
    for (; i + LANES <= c.end; i += LANES) {
        vfloat sum = {0}, sum_n = {0};
        for (int64_t row = n.begin; row < n.end; row++) {
            vfloat d = load(g->dy + row * g->C + i);
            sum += d;
            sum_n += d * ((load(g->x + row * g->C + i) - g->mean[row]) * g->rstd[row]);
        }
        store(g->dbias + i, load(g->dbias + i) + sum);
        store(g->dgain + i, load(g->dgain + i) + sum_n);
    }
    for (; i < c.end; i++) {
        float sum = 0, sum_n = 0;
        for (int64_t row = n.begin; row < n.end; row++) {
            float d = g->dy[row * g->C + i];
            sum += d;
            sum_n += d * ((g->x[row * g->C + i] - g->mean[row]) * g->rstd[row]);
        }
        g->dbias[i] += sum;
        g->dgain[i] += sum_n;
    }
}

void WEFT_ISA_NAME(wefti_layernorm_backward)(int64_t N, int64_t C, const float *x,
                                             const float *gain, const float *mean,
                                             const float *rstd, const float *dy,
                                             float *dx, float *dgain, float *dbias) {
    enum { ROWS = 16 }; /* at a time: their sum stays in registers, the rows in the cache */
    parameter_grads g = {C, x, mean, rstd, dy, dgain, dbias};
    int t = team_size(N * C);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int i = 0; i < t; i++) {
        span rows = team_slice(N, ROWS, i, t), columns = team_slice(C, 16, i, t);
        for (int64_t first = 0; first < N; first += ROWS) {
            int64_t end = first + ROWS < N ? first + ROWS : N;
            bool mine = first >= rows.begin && first < rows.end;
            for (int64_t n = first; mine && n < end; n++)
                backward_row(C, x + n * C, gain, mean[n], rstd[n], dy + n * C,
                             dx + n * C);
            backward_columns(&g, (span){first, end}, columns);
        }
    }
}
