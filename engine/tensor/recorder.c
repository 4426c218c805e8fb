/* SPDX-License-Identifier: MIT */
/* A table whose kernels call those of another table and record the calls.
 *
 *     note(kernel): calls += 1, seconds += end - begin, flop += ..., bytes += ...
 *
 * A kernel has no argument for the recorder, so it is a variable of the thread. Besides
 * the one in wire/binomials.c this is the only variable of the library that is neither
 * constant nor owned by a caller. Only wefti_recorder_begin and _end set it, and only
 * `weft bench kernels` calls those. */
#include "tensor/recorder.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"

static _Thread_local wefti_recorder *current;

static wefti_record *record_of(const char *kernel, const char *shape) {
    for (int i = 0; i < current->n; i++)
        if (strcmp(current->of[i].kernel, kernel) == 0 &&
            strcmp(current->of[i].shape, shape) == 0)
            return &current->of[i];
    if (current->n == WEFTI_RECORDS) return NULL; /* more shapes than any model has */
    wefti_record *fresh = &current->of[current->n++];
    *fresh = (wefti_record){.kernel = kernel};
    snprintf(fresh->shape, sizeof fresh->shape, "%s", shape);
    return fresh;
}

static void note(const char *kernel, const char *shape, double seconds, double flop,
                 double floats) {
    wefti_record *r = record_of(kernel, shape);
    if (!r) return;
    r->calls++;
    r->seconds += seconds;
    r->flop += flop;
    r->bytes += 4 * floats;
}

/* The body of a kernel: the call, and its FLOP and floats. */
#define RECORDED(table_, kernel_, flop_, floats_, ...)                                   \
    do {                                                                                 \
        double begin = wefti_now_s();                                                    \
        (table_)->kernel_(__VA_ARGS__);                                                  \
        note(#kernel_, "", wefti_now_s() - begin, (double)(flop_), (double)(floats_));   \
    } while (0)
#define NOTED(...) RECORDED(current->under, __VA_ARGS__)
#define LAYER(...) RECORDED(current->under->layers, __VA_ARGS__)

/* The same for a kernel that returns a sum. */
#define NOTED_SUM(kernel_, flop_, floats_, ...)                                          \
    do {                                                                                 \
        double begin = wefti_now_s(), sum = current->under->kernel_(__VA_ARGS__);        \
        note(#kernel_, "", wefti_now_s() - begin, (double)(flop_), (double)(floats_));   \
        return sum;                                                                      \
    } while (0)

static void gemm(bool ta, bool tb, int64_t M, int64_t N, int64_t K, float alpha,
                 const float *A, int64_t lda, const float *B, int64_t ldb, float beta,
                 float *C, int64_t ldc) {
    char shape[64];
    double m = (double)M, n = (double)N, k = (double)K, begin = wefti_now_s();
    current->under->gemm(ta, tb, M, N, K, alpha, A, lda, B, ldb, beta, C, ldc);
    double took = wefti_now_s() - begin;
    snprintf(shape, sizeof shape, "[%lld,%lld]%s x [%lld,%lld]%s%s",
             (long long)(ta ? K : M), (long long)(ta ? M : K), ta ? "'" : "",
             (long long)(tb ? N : K), (long long)(tb ? K : N), tb ? "'" : "",
             beta == 0 ? "" : " +");
    note("gemm", shape, took, 2 * m * n * k, m * k + k * n + m * n * (beta == 0 ? 1 : 2));
}

static double floats_of(double n, bool half) { return half ? n / 2 : n; }

static void gemm_mixed(const wefti_mixed *p) {
    char shape[64];
    double m = (double)p->M, n = (double)p->N, k = (double)p->K, begin = wefti_now_s();
    current->under->layers->gemm_mixed(p);
    double took = wefti_now_s() - begin;
    snprintf(shape, sizeof shape, "[%lld,%lld]%s x [%lld,%lld]%s%s",
             (long long)(p->ta ? p->K : p->M), (long long)(p->ta ? p->M : p->K),
             p->ta ? "'" : "", (long long)(p->tb ? p->N : p->K),
             (long long)(p->tb ? p->K : p->N), p->tb ? "'" : "",
             p->beta == 0 ? "" : " +");
    note("gemm", shape, took, 2 * m * n * k,
         floats_of(m * k, p->half_a) + floats_of(k * n, p->half_b) +
             floats_of(m * n, p->half_c) * (p->beta == 0 ? 1 : 2) +
             (p->plus                 ? m * n
              : p->times || p->slopes ? m * n / 2
                                      : 0));
}

static void bias_add(int64_t N, int64_t C, const float *b, float *y) {
    NOTED(bias_add, N * C, 2 * N * C, N, C, b, y);
}

static void bias_grad(int64_t N, int64_t C, const float *dy, float *db) {
    NOTED(bias_grad, N * C, N * C, N, C, dy, db);
}

static void bias_grad_half(int64_t N, int64_t C, const uint16_t *dy, float *db) {
    NOTED(bias_grad_half, N * C, N * C / 2, N, C, dy, db);
}

static void accumulate(int64_t n, const float *a, float *y) {
    NOTED(accumulate, n, 3 * n, n, a, y);
}

static void add(int64_t n, const float *a, const float *b, float *y) {
    NOTED(add, n, 3 * n, n, a, b, y);
}

static void scale(int64_t n, float s, float *y) { NOTED(scale, n, 2 * n, n, s, y); }

static void clear(int64_t n, float *y) { NOTED(clear, 0, n, n, y); }

static double sum_squares(int64_t n, const float *x) {
    NOTED_SUM(sum_squares, 2 * n, n, n, x);
}

static void layernorm_forward(int64_t N, int64_t C, float eps, const float *x,
                              const float *gain, const float *bias, float *y, float *mean,
                              float *rstd) {
    LAYER(layernorm_forward, 7 * N * C, 2 * N * C, N, C, eps, x, gain, bias, y, mean,
          rstd);
}

static void layernorm_backward(int64_t N, int64_t C, const float *x, const float *gain,
                               const float *mean, const float *rstd, const float *dy,
                               float *dx, float *dgain, float *dbias) {
    LAYER(layernorm_backward, 13 * N * C, 4 * N * C, N, C, x, gain, mean, rstd, dy, dx,
          dgain, dbias);
}

static void layernorm_forward_half(int64_t N, int64_t C, float eps, const float *x,
                                   const float *gain, const float *bias, uint16_t *y,
                                   float *mean, float *rstd) {
    LAYER(layernorm_forward_half, 7 * N * C, 1.5 * (double)(N * C), N, C, eps, x, gain,
          bias, y, mean, rstd);
}

static void layernorm_backward_half(int64_t N, int64_t C, const float *x,
                                    const float *gain, const float *mean,
                                    const float *rstd, const uint16_t *dy, float *dx,
                                    float *dgain, float *dbias) {
    LAYER(layernorm_backward_half, 13 * N * C, 3.5 * (double)(N * C), N, C, x, gain, mean,
          rstd, dy, dx, dgain, dbias);
}

static void rmsnorm_forward(int64_t N, int64_t C, int64_t ld, float eps, const float *x,
                            const float *gain, float *y, float *rstd) {
    LAYER(rmsnorm_forward, 4 * N * C, 2 * N * C, N, C, ld, eps, x, gain, y, rstd);
}

static void rmsnorm_backward(int64_t N, int64_t C, int64_t ld, const float *x,
                             const float *gain, const float *rstd, const float *dy,
                             float *dx, float *dgain) {
    LAYER(rmsnorm_backward, 10 * N * C, 3 * N * C, N, C, ld, x, gain, rstd, dy, dx,
          dgain);
}

/* The kernels of an activation of n numbers and of its gradient. */
#define ACTIVATION(name_, forward_flop, backward_flop)                                   \
    static void name_##_forward(int64_t n, const float *x, float *y) {                   \
        LAYER(name_##_forward, forward_flop *n, 2 * n, n, x, y);                         \
    }                                                                                    \
    static void name_##_backward(int64_t n, const float *x, const float *dy,             \
                                 float *dx) {                                            \
        LAYER(name_##_backward, backward_flop *n, 3 * n, n, x, dy, dx);                  \
    }

ACTIVATION(gelu, 8, 16)
ACTIVATION(gelu_erf, 4, 9)
ACTIVATION(relu, 1, 1)
ACTIVATION(relu2, 2, 2)

/* The kernels of a gated activation: N rows of 2F, gate and up. */
#define GATE(name_, forward_flop, backward_flop)                                         \
    static void name_##_forward(int64_t N, int64_t F, const float *gu, float *y) {       \
        LAYER(name_##_forward, forward_flop *N *F, 3 * N * F, N, F, gu, y);              \
    }                                                                                    \
    static void name_##_backward(int64_t N, int64_t F, const float *gu, const float *dy, \
                                 float *dgu) {                                           \
        LAYER(name_##_backward, backward_flop *N *F, 5 * N * F, N, F, gu, dy, dgu);      \
    }

GATE(swiglu, 5, 11)
GATE(geglu, 9, 26)

static void gate_forward(wefti_curve curve, int64_t N, int64_t F, const uint16_t *gu,
                         uint16_t *y) {
    int flop = curve == WEFTI_CURVE_SWIGLU ? 5 : 9;
    LAYER(gate_forward, flop * N * F, 1.5 * (double)(N * F), curve, N, F, gu, y);
}

static void gate_backward(wefti_curve curve, int64_t N, int64_t F, const uint16_t *gu,
                          const uint16_t *dy, uint16_t *dgu) {
    int flop = curve == WEFTI_CURVE_SWIGLU ? 11 : 26;
    LAYER(gate_backward, flop * N * F, 2.5 * (double)(N * F), curve, N, F, gu, dy, dgu);
}

static void rope(int64_t B, int64_t T, int64_t n_heads, int64_t D, int64_t ld,
                 const float *cos_sin, bool inverse, float *x) {
    int64_t n = B * T * n_heads * D;
    LAYER(rope, 3 * n, 2 * n, B, T, n_heads, D, ld, cos_sin, inverse, x);
}

/* Number of pairs of a query and a key that it sees, over all heads; the first rows of a
 * window count as full ones. */
static double attention_pairs(const wefti_attention_shape *s) {
    double T = (double)s->T, keys = (double)wefti_attention_rows(s);
    double mean = s->all ? keys : (T + 1) / 2;
    if (s->window > 0 && mean > (double)s->window) mean = (double)s->window;
    return (double)(s->B * s->H) * T * mean;
}

/* Floats of `queries` arrays such as q or o, and of `keys` arrays such as k or v. */
static double attention_floats(const wefti_attention_shape *s, double queries,
                               double keys) {
    return (double)(s->B * s->D) * ((double)(s->H * s->T) * queries +
                                    (double)(s->K * wefti_attention_rows(s)) * keys);
}

static void attention_forward(const wefti_attention_shape *s, const float *q,
                              const float *k, const float *v, float *o, float *lse,
                              float *scratch) {
    double pairs = attention_pairs(s);
    LAYER(attention_forward, pairs * (4 * (double)s->D + 3), attention_floats(s, 2, 2), s,
          q, k, v, o, lse, scratch);
}

static void attention_backward(const wefti_attention_shape *s, const float *q,
                               const float *k, const float *v, const float *o,
                               const float *lse, const float *d_o, float *dq, float *dk,
                               float *dv, float *scratch) {
    double pairs = attention_pairs(s);
    LAYER(attention_backward, pairs * (8 * (double)s->D + 4), attention_floats(s, 4, 4),
          s, q, k, v, o, lse, d_o, dq, dk, dv, scratch);
}

static void embed_forward(int64_t N, int64_t T, int64_t C, const int32_t *token,
                          const float *table, const float *pos, float *y) {
    int64_t reads = pos ? 2 : 1;
    LAYER(embed_forward, (reads - 1) * N * C, (reads + 1) * N * C, N, T, C, token, table,
          pos, y);
}

static void embed_backward(int64_t N, int64_t T, int64_t C, const int32_t *token,
                           const float *dy, float *dtable, float *dpos) {
    int64_t sums = dpos ? 2 : 1;
    LAYER(embed_backward, sums * N * C, (1 + 2 * sums) * N * C, N, T, C, token, dy,
          dtable, dpos);
}

static void head_loss(int64_t N, int64_t C, int64_t V, const float *x, const float *w,
                      const int32_t *target, float cap, float grad_scale,
                      double *loss_sum, float *dx, float *dw, bool fresh,
                      float *scratch) {
    double n = (double)N, c = (double)C, v = (double)V, passes = dx ? 3 : 1;
    LAYER(head_loss, passes * 2 * n * c * v + 4 * n * v,
          passes * v * c + (dx ? 2 : 1) * n * c, N, C, V, x, w, target, cap, grad_scale,
          loss_sum, dx, dw, fresh, scratch);
}

static void cap_logits(int64_t n, float cap, float *logit) {
    LAYER(cap_logits, 3 * n, 2 * n, n, cap, logit);
}

static void dropout(int64_t n, float rate, uint64_t seed, uint64_t step, uint64_t first,
                    float *x) {
    LAYER(dropout, n, 2 * n, n, rate, seed, step, first, x);
}

static void normals(const wefti_rng_run *run, float mean, float std, float *out) {
    LAYER(normals, 50 * run->n, run->n, run, mean, std, out);
}

static double adam(int64_t n, const wefti_adam_step *s, const float *g, float *p,
                   float *m, float *v) {
    NOTED_SUM(adam, 16 * n, 7 * n, n, s, g, p, m, v);
}

static double accum_adam(int64_t n, const wefti_accum_step *s, const float *g, float *p,
                         float *m, float *v, float *a) {
    NOTED_SUM(accum_adam, 18 * n, (s->closes ? 9 : 7) * n, n, s, g, p, m, v, a);
}

static double sgd(int64_t n, float lr, float grad_scale, float decay, const float *d,
                  float *p) {
    NOTED_SUM(sgd, 6 * n, 3 * n, n, lr, grad_scale, decay, d, p);
}

#define ENTRY(kernel) .kernel = kernel,
#define ENTRY_AS(kernel, suffix) .kernel = kernel##suffix,

void wefti_recorder_begin(wefti_recorder *r, const wefti_kernels *under) {
    *r = (wefti_recorder){.under = under};
    r->table = (wefti_kernels){WEFTI_KERNELS_EACH(ENTRY).gemm = gemm,
                               .name = under->name,
                               .layers = &r->layers,
                               .spectrum = under->spectrum,
                               .bf16 = under->bf16,
                               .multiplies_bf16 = under->multiplies_bf16};
    r->layers = (wefti_layers){
        WEFTI_LAYERS_ALIKE(ENTRY) WEFTI_LAYERS_PRODUCTS(ENTRY_AS, ).gemm_mixed =
            under->layers->gemm_mixed ? gemm_mixed : NULL,
        .attention_scratch = under->layers->attention_scratch,
        .attention_halves = under->layers->attention_halves,
        .head_scratch = under->layers->head_scratch};
    current = r;
}

void wefti_recorder_end(void) { current = NULL; }
