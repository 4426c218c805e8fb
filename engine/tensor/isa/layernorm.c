/* SPDX-License-Identifier: MIT */
/* LayerNorm, n = (x - mean) rstd, y = n gain + bias; h = dy gain, dx += rstd (h - mean(h)
 * - n mean(h n)). Rows are divided among the threads. The gradients of the parameters are sums of
 * groups of rows, which are added in ascending order. y and dy may be bfloat16. */
#include "base/half.h"
#include "kernels/isa/lanes.h"
#include "tensor/isa/parts.h"
#include "kernels/isa/team.h"

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

/* A row that is f32, or bfloat16 if `half`, from its number i on. */
typedef struct numbers {
    const void *x;
    bool half;
} numbers;

static inline vfloat lanes_at(numbers row, int64_t i) {
    return row.half ? load_half((const uint16_t *)row.x + i)
                    : load((const float *)row.x + i);
}

static inline float number_of(numbers row, int64_t i) {
    return row.half ? wefti_f32_of_bf16(((const uint16_t *)row.x)[i])
                    : ((const float *)row.x)[i];
}

static inline numbers row_of(numbers rows, int64_t C, int64_t n) {
    return (numbers){(const char *)rows.x + n * C * (rows.half ? 2 : 4), rows.half};
}

/* The arrays of a norm. */
typedef struct norm {
    int64_t C;
    float eps;
    const float *x, *gain, *bias;
    float *mean, *rstd;
} norm;

static inline void forward_row(const norm *f, int64_t n, bool half, void *y) {
    const float *x = f->x + n * f->C;
    float center = f->mean[n], r = f->rstd[n], *to = y;
    uint16_t *halves = y;
    int64_t c = 0;
    for (; c + LANES <= f->C; c += LANES) {
        vfloat v = (load(x + c) - center) * r * load(f->gain + c) + load(f->bias + c);
        if (half)
            store_half(halves + c, v);
        else
            store(to + c, v);
    }
    for (; c < f->C; c++) {
        float v = (x[c] - center) * r * f->gain[c] + f->bias[c];
        if (half)
            halves[c] = wefti_bf16(v);
        else
            to[c] = v;
    }
}

static inline void forward(const norm *f, int64_t N, bool half, void *y) {
    int t = team_size(N * f->C);
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int i = 0; i < t; i++) {
        span rows = team_slice(N, 1, i, t);
        for (int64_t n = rows.begin; n < rows.end; n++) {
            const float *row = f->x + n * f->C;
            f->mean[n] = row[0] + centered_sum(f->C, row, row[0], 1) / (float)f->C;
            float variance = centered_sum(f->C, row, f->mean[n], 2) / (float)f->C;
            f->rstd[n] = 1.0f / sqrtf(variance + f->eps);
            forward_row(f, n, half, (char *)y + n * f->C * (half ? 2 : 4));
        }
    }
}

void WEFT_ISA_NAME(wefti_layernorm_forward)(int64_t N, int64_t C, float eps,
                                            const float *x, const float *gain,
                                            const float *bias, float *y, float *mean,
                                            float *rstd) {
    forward(&(norm){C, eps, x, gain, bias, mean, rstd}, N, false, y);
}

void WEFT_ISA_NAME(wefti_layernorm_forward_half)(int64_t N, int64_t C, float eps,
                                                 const float *x, const float *gain,
                                                 const float *bias, uint16_t *y,
                                                 float *mean, float *rstd) {
    forward(&(norm){C, eps, x, gain, bias, mean, rstd}, N, true, y);
}

static inline void backward_row(int64_t C, const float *x, const float *gain,
                                float center, float r, numbers dy, float *dx) {
    vfloat sum_h = {0}, sum_hn = {0};
    float rest_h = 0, rest_hn = 0;
    int64_t c = 0;
    for (; c + LANES <= C; c += LANES) {
        vfloat h = lanes_at(dy, c) * load(gain + c);
        sum_h += h;
        sum_hn += h * (load(x + c) - center);
    }
    for (; c < C; c++) {
        rest_h += number_of(dy, c) * gain[c];
        rest_hn += number_of(dy, c) * gain[c] * (x[c] - center);
    }
    float mean_h = (lane_sum(sum_h) + rest_h) / (float)C;
    float slope = (lane_sum(sum_hn) + rest_hn) * r * r / (float)C;
    for (c = 0; c + LANES <= C; c += LANES) {
        vfloat h = lanes_at(dy, c) * load(gain + c) - mean_h;
        store(dx + c, load(dx + c) + (h - (load(x + c) - center) * slope) * r);
    }
    for (; c < C; c++)
        dx[c] += (number_of(dy, c) * gain[c] - mean_h - (x[c] - center) * slope) * r;
}

/* The sums of rows n, of columns c, for dbias and dgain. */
static inline void sum_columns(const norm *f, numbers dy, span n, span c, float *dbias,
                               float *dgain) {
    int64_t i = c.begin;
    for (; i + LANES <= c.end; i += LANES) {
        vfloat sum = {0}, sum_n = {0};
        for (int64_t row = n.begin; row < n.end; row++) {
            vfloat d = lanes_at(dy, row * f->C + i);
            sum += d;
            sum_n += d * ((load(f->x + row * f->C + i) - f->mean[row]) * f->rstd[row]);
        }
        store(dbias + i - c.begin, sum);
        store(dgain + i - c.begin, sum_n);
    }
    for (; i < c.end; i++) {
        float sum = 0, sum_n = 0;
        for (int64_t row = n.begin; row < n.end; row++) {
            float d = number_of(dy, row * f->C + i);
            sum += d;
            sum_n += d * ((f->x[row * f->C + i] - f->mean[row]) * f->rstd[row]);
        }
        dbias[i - c.begin] = sum;
        dgain[i - c.begin] = sum_n;
    }
}

static void add_sums(span c, const float *from, float *to) {
    int64_t i = c.begin;
    for (; i + LANES <= c.end; i += LANES) store(to + i, load(to + i) + load(from + i));
    for (; i < c.end; i++) to[i] += from[i];
}

/* Groups of rows whose sums of all columns, for dbias and dgain, fit into ROOM; a group's rows
 * stay in the cache between its rows' gradients and its sums. */
enum { GROUP = 16, ROOM = 1 << 16 };

static inline void backward(const norm *f, int64_t N, numbers dy, float *dx, float *dgain,
                            float *dbias) {
    _Alignas(64) float sums[ROOM];
    int64_t C = f->C, groups = (N + GROUP - 1) / GROUP;
    int64_t width = C < ROOM / 2 ? C : ROOM / 2, at_once = ROOM / 2 / width;
    int t = team_size(N * C);
    (void)t; /* without OpenMP */
#pragma omp parallel num_threads(t) if (t > 1)
    for (int64_t first = 0; first < groups; first += at_once) {
        int64_t end = first + at_once < groups ? first + at_once : groups;
        for (int64_t at = 0; at < C; at += width) {
            span c = {at, at + width < C ? at + width : C};
#pragma omp for schedule(static)
            for (int64_t g = first; g < end; g++) {
                span n = {g * GROUP, (g + 1) * GROUP < N ? (g + 1) * GROUP : N};
                float *sum = sums + (g - first) * 2 * width;
                for (int64_t r = n.begin; at == 0 && r < n.end; r++)
                    backward_row(C, f->x + r * C, f->gain, f->mean[r], f->rstd[r],
                                 row_of(dy, C, r), dx + r * C);
                sum_columns(f, dy, n, c, sum, sum + width);
            }
#pragma omp for schedule(static)
            for (int i = 0; i < t; i++) {
                span mine = team_slice(c.end - at, 16, i, t);
                for (int64_t g = 0; g < end - first; g++) {
                    add_sums(mine, sums + g * 2 * width, dbias + at);
                    add_sums(mine, sums + (g * 2 + 1) * width, dgain + at);
                }
            }
        }
    }
}

void WEFT_ISA_NAME(wefti_layernorm_backward)(int64_t N, int64_t C, const float *x,
                                             const float *gain, const float *mean,
                                             const float *rstd, const float *dy,
                                             float *dx, float *dgain, float *dbias) {
    norm f = {C, 0, x, gain, NULL, (float *)(uintptr_t)mean, (float *)(uintptr_t)rstd};
    backward(&f, N, (numbers){dy, false}, dx, dgain, dbias);
}

void WEFT_ISA_NAME(wefti_layernorm_backward_half)(int64_t N, int64_t C, const float *x,
                                                  const float *gain, const float *mean,
                                                  const float *rstd, const uint16_t *dy,
                                                  float *dx, float *dgain, float *dbias) {
    norm f = {C, 0, x, gain, NULL, (float *)(uintptr_t)mean, (float *)(uintptr_t)rstd};
    backward(&f, N, (numbers){dy, true}, dx, dgain, dbias);
}
