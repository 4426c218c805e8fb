/* SPDX-License-Identifier: MIT */
/* Head and cross-entropy, a block of rows at a time:
 *   l = x w^T, loss = log sum exp l - l[target]
 *   g = grad_scale (softmax(l) - onehot(target)) in place, dx = g w, dw += g^T x
 * With a cap l becomes cap tanh(l / cap), and g gets the slope 1 - (l / cap)^2; l is
 * recovered from its exponential; where that was rounded to 0 there is no gradient. The
 * number of blocks is the smallest that the budget of floats allows, and they are of
 * nearly equal size. Each block reads all of w twice and adds to all of dw, which weighs
 * more when products are in bf16: so their budget is four times as large (256 MiB). */
#include "kernels/isa/lanes.h"
#include "tensor/isa/parts.h"
#include "kernels/isa/team.h"
#include "kernels/isa/tiles.h"

#include <math.h>
#include <stddef.h>

/* Floats of logits at a time. */
enum { BUDGET = 1 << 24, BUDGET_BF16 = 1 << 26 };

/* Rows of a block: a pure function of N and V. */
static int64_t block_rows(int64_t N, int64_t V, int64_t budget) {
    int64_t most = budget / V < 64 ? 64 : budget / V;
    int64_t blocks = (N + most - 1) / most;
    int64_t rows = blocks > 0 ? (N + blocks - 1) / blocks : 0;
    return (rows + 15) / 16 * 16;
}

/* The logits of a block. */
int64_t WEFT_ISA_NAME(wefti_head_scratch)(int64_t N, int64_t V, int threads) {
    (void)threads;
    return block_rows(N, V, BUDGET) * V;
}

int64_t WEFT_ISA_NAME(wefti_head_scratch_bf16)(int64_t N, int64_t V, int threads) {
    (void)threads;
    return block_rows(N, V, BUDGET_BF16) * V;
}

static float row_max(int64_t n, const float *x) {
    float top = x[0];
    int64_t i = 0;
    if (n >= 2 * LANES) {
        vfloat a = load(x), b = load(x + LANES);
        for (i = 2 * LANES; i + 2 * LANES <= n; i += 2 * LANES) {
            a = larger(load(x + i), a);
            b = larger(load(x + i + LANES), b);
        }
        top = lane_max(larger(a, b));
    }
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

/* x = exp(x - top); the sum: lanes in float within runs of 4096, runs in double. */
static double exponentials(int64_t n, float top, float *x) {
    enum { RUN = 4096 };
    double total = 0;
    int64_t i = 0;
    while (i + LANES <= n) {
        vfloat sum = {0};
        for (int64_t end = i + RUN; i + LANES <= n && i < end; i += LANES) {
            vfloat e = exp_falling(load(x + i) - top);
            store(x + i, e);
            sum += e;
        }
        total += (double)lane_sum(sum);
    }
    if (i < n) {
        float tail[LANES];
        store(tail, exp_falling(load_part(x + i, n - i) - top));
        for (int64_t lane = 0; i < n; i++, lane++) total += (double)(x[i] = tail[lane]);
    }
    return total;
}

static void scale_row(int64_t n, float s, float *x) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(x + i, load(x + i) * s);
    for (; i < n; i++) x[i] *= s;
}

/* The same, rounded to bfloat16 into the first half of the row's memory; element `at` gets
 * `less` less. */
static void scale_row_half(int64_t n, float s, int64_t at, float less, float *x) {
    uint16_t *half = (uint16_t *)x; /* only memcpy reads and writes it */
    float special = x[at] * s - less;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store_half(half + i, load(x + i) * s);
    if (i < n) store_half_part(half + i, load_part(x + i, n - i) * s, n - i);
    store_half_part(half + at, splat(special), 1);
}

void WEFT_ISA_NAME(wefti_cap_logits)(int64_t n, float cap, float *logit) {
    int t = team_size(n);
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
    for (int64_t i = 0; i < n; i++) logit[i] = cap * tanhf(logit[i] / cap);
}

static void cap_gradient(int64_t V, float cap, float top, float *e) {
    for (int64_t v = 0; v < V; v++) {
        float l = (top + logf(e[v])) / cap;
        e[v] = e[v] > 0 ? e[v] * (1 - l * l) : 0;
    }
}

/* What the logits become. */
typedef enum outcome { NOTHING, GRADIENT, HALF_GRADIENT } outcome;

/* The loss of a row; its logits become the gradient. */
static double loss_row(int64_t V, int32_t target, float cap, float grad_scale,
                       outcome grad, float *logit) {
    if (target < 0) {
        if (grad != NOTHING) memset(logit, 0, (size_t)V * sizeof *logit);
        return 0;
    }
    if (cap > 0)
        for (int64_t v = 0; v < V; v++) logit[v] = cap * tanhf(logit[v] / cap);
    float top = row_max(V, logit), slope = cap > 0 ? logit[target] / cap : 0;
    double at_target = (double)logit[target] - (double)top;
    double sum = exponentials(V, top, logit);
    if (grad != NOTHING) {
        float scale = (float)((double)grad_scale / sum);
        float less = grad_scale * (1 - slope * slope);
        if (cap > 0) cap_gradient(V, cap, top, logit);
        if (grad == HALF_GRADIENT) {
            scale_row_half(V, scale, target, less, logit);
        } else {
            scale_row(V, scale, logit);
            logit[target] -= less;
        }
    }
    return log(sum) - at_target;
}

/* All rows of a block; their losses are added in ascending order. */
static double loss_rows(int64_t rows, int64_t V, const int32_t *target, float cap,
                        float grad_scale, outcome grad, float *logit) {
    enum { GROUP = 64 };
    double loss[GROUP], total = 0;
    for (int64_t first = 0; first < rows; first += GROUP) {
        int64_t end = first + GROUP < rows ? first + GROUP : rows;
        int t = team_size((end - first) * V);
        (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(static) if (t > 1)
        for (int64_t n = first; n < end; n++)
            loss[n - first] = loss_row(V, target[n], cap, grad_scale, grad,
                                       logit + n * V);
        for (int64_t n = first; n < end; n++) total += loss[n - first];
    }
    return total;
}

void WEFT_ISA_NAME(wefti_head_loss)(int64_t N, int64_t C, int64_t V, const float *x,
                                    const float *w, const int32_t *target, float cap,
                                    float grad_scale, double *loss_sum, float *dx,
                                    float *dw, bool fresh, float *scratch) {
    int64_t block = block_rows(N, V, BUDGET);
    for (int64_t n = 0; n < N; n += block) {
        int64_t rows = n + block < N ? block : N - n;
        const float *xn = x + n * C;
        WEFT_ISA_NAME(wefti_gemm)
        (false, true, rows, V, C, 1, xn, C, w, C, 0, scratch, V);
        *loss_sum += loss_rows(rows, V, target + n, cap, grad_scale,
                               dx ? GRADIENT : NOTHING, scratch);
        if (dx == NULL) continue;
        WEFT_ISA_NAME(wefti_gemm)
        (false, false, rows, C, V, 1, scratch, V, w, C, 0, dx + n * C, C);
        if (dw) WEFT_ISA_NAME(wefti_gemm)
        (true, false, V, C, rows, 1, scratch, V, xn, C, fresh && n == 0 ? 0 : 1, dw, C);
    }
}

/* The same by products of rounded factors, which read the gradient of the logits twice: so it is
 * kept in bfloat16. */
static void head_loss_half(void (*gemm)(const wefti_mixed *), int64_t N, int64_t C,
                           int64_t V, const float *x, const float *w,
                           const int32_t *target, float cap, float grad_scale,
                           double *loss_sum, float *dx, float *dw, bool fresh,
                           float *scratch) {
    int64_t block = block_rows(N, V, BUDGET_BF16);
    for (int64_t n = 0; n < N; n += block) {
        int64_t rows = n + block < N ? block : N - n;
        const float *xn = x + n * C;
        gemm(&(wefti_mixed){.tb = true,
                            .M = rows,
                            .N = V,
                            .K = C,
                            .A = xn,
                            .lda = C,
                            .B = w,
                            .ldb = C,
                            .C = scratch,
                            .ldc = V});
        *loss_sum += loss_rows(rows, V, target + n, cap, grad_scale,
                               dx ? HALF_GRADIENT : NOTHING, scratch);
        if (dx == NULL) continue;
        gemm(&(wefti_mixed){.M = rows,
                            .N = C,
                            .K = V,
                            .A = scratch,
                            .lda = 2 * V,
                            .half_a = true,
                            .B = w,
                            .ldb = C,
                            .C = dx + n * C,
                            .ldc = C});
        if (dw)
            gemm(&(wefti_mixed){.ta = true,
                                .M = V,
                                .N = C,
                                .K = rows,
                                .A = scratch,
                                .lda = 2 * V,
                                .half_a = true,
                                .B = xn,
                                .ldb = C,
                                .C = dw,
                                .ldc = C,
                                .beta = fresh && n == 0 ? 0 : 1});
    }
}

#define HEAD_LOSS(suffix)                                                                \
    void WEFT_ISA_NAME(wefti_head_loss##suffix)(                                         \
        int64_t N, int64_t C, int64_t V, const float *x, const float *w,                 \
        const int32_t *target, float cap, float grad_scale, double *loss_sum, float *dx, \
        float *dw, bool fresh, float *scratch) {                                         \
        head_loss_half(WEFT_ISA_NAME(wefti_gemm_mixed##suffix), N, C, V, x, w, target,   \
                       cap, grad_scale, loss_sum, dx, dw, fresh, scratch);               \
    }
HEAD_LOSS(_bf16)

#ifdef WEFT_TILES
int64_t WEFT_ISA_NAME(wefti_head_scratch_amx)(int64_t N, int64_t V, int threads) {
    (void)threads;
    return block_rows(N, V, BUDGET_BF16) * V;
}

HEAD_LOSS(_amx)
#endif
