/* SPDX-License-Identifier: MIT */
/* RMSNorm, n = x rstd, y = n gain; h = dy gain, dx = rstd (h - n mean(h n)). The gradient
 * of gain is computed before dx is written, because dx may be dy. */
#include "kernels/isa/lanes.h"
#include "tensor/isa/parts.h"
#include "kernels/isa/team.h"

#include <math.h>

static float squares(int64_t C, const float *x) {
    vfloat a = {0}, b = {0};
    float rest = 0;
    int64_t c = 0;
    for (; c + 2 * LANES <= C; c += 2 * LANES) {
        vfloat u = load(x + c), v = load(x + c + LANES);
        a += u * u;
        b += v * v;
    }
    for (; c < C; c++) rest += x[c] * x[c];
    return lane_sum(a + b) + rest;
}

void WEFT_ISA_NAME(wefti_rmsnorm_forward)(int64_t N, int64_t C, int64_t ld, float eps,
                                          const float *x, const float *gain, float *y,
                                          float *rstd) {
    int t = team_size(N * C);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int i = 0; i < t; i++) {
        span rows = team_slice(N, 1, i, t);
        for (int64_t n = rows.begin; n < rows.end; n++) {
            const float *from = x + n * ld;
            float *to = y + n * ld, r = 1.0f / sqrtf(squares(C, from) / (float)C + eps);
            int64_t c = 0;
            for (; c + LANES <= C; c += LANES)
                store(to + c, load(from + c) * r * load(gain + c));
            for (; c < C; c++) to[c] = from[c] * r * gain[c];
            rstd[n] = r;
        }
    }
}

static void backward_row(int64_t C, const float *x, const float *gain, float r,
                         const float *dy, float *dx) {
    vfloat sum = {0};
    float rest = 0;
    int64_t c = 0;
    for (; c + LANES <= C; c += LANES) sum += load(dy + c) * load(gain + c) * load(x + c);
    for (; c < C; c++) rest += dy[c] * gain[c] * x[c];
    float slope = (lane_sum(sum) + rest) * r * r / (float)C;
    for (c = 0; c + LANES <= C; c += LANES)
        store(dx + c, (load(dy + c) * load(gain + c) - load(x + c) * slope) * r);
    for (; c < C; c++) dx[c] = (dy[c] * gain[c] - x[c] * slope) * r;
}

/* Adds rows n to columns c of dgain. */
static void backward_columns(int64_t ld, const float *x, const float *rstd,
                             const float *dy, span n, span c, float *dgain) {
    int64_t i = c.begin;
    for (; i + LANES <= c.end; i += LANES) {
        vfloat sum = {0};
        for (int64_t row = n.begin; row < n.end; row++)
            sum += load(dy + row * ld + i) * (load(x + row * ld + i) * rstd[row]);
        store(dgain + i, load(dgain + i) + sum);
    }
    for (; i < c.end; i++) {
        float sum = 0;
        for (int64_t row = n.begin; row < n.end; row++)
            sum += dy[row * ld + i] * (x[row * ld + i] * rstd[row]);
        dgain[i] += sum;
    }
}

void WEFT_ISA_NAME(wefti_rmsnorm_backward)(int64_t N, int64_t C, int64_t ld,
                                           const float *x, const float *gain,
                                           const float *rstd, const float *dy, float *dx,
                                           float *dgain) {
    enum { ROWS = 16 }; /* at a time: their sum stays in registers */
    TEAM_SLICES(
        N * C, C, 16, columns,
        for (int64_t n = 0; n < N; n += ROWS) backward_columns(
            ld, x, rstd, dy, (span){n, n + ROWS < N ? n + ROWS : N}, columns, dgain));
    TEAM_ROWS(N * C, N, n,
              backward_row(C, x + n * ld, gain, rstd[n], dy + n * ld, dx + n * ld));
}
