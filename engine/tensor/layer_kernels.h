/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/rng.h"
#include "kernels/kernels.h"

/* The kernels that only the units of a network need, beside the products and the elementwise
 * kernels of kernels/kernels.h, whose table points to this one: kernels->layers. What holds
 * there holds here. */

/* The layout of the queries, keys and values of attention: row n of q starts at q + n*ld_q.
 */
typedef struct wefti_attention_shape {
    int64_t B, T, H, K, D;
    int64_t ld_q, ld_kv; /* floats between consecutive rows of q, and of k and v */
    int64_t ld_o;        /* floats between consecutive rows of the output (>= H*D) */
    float scale;         /* multiplies q.k; 1/sqrt(D) */
    int64_t window; /* query i sees the keys above i - window, itself included; 0: all */
    float cap;      /* scores are cap tanh(score / cap), after scaling; 0: no cap */
    /* Attention that is not causal: each query sees all keys. */
    bool all;
    int64_t n_rows; /* of k and v in a sequence; 0: T */
    const int32_t
        *n_keys; /* [B] number of these rows that are present, at least 1; NULL: all */
    /* A bias of relative positions, causal or not: score(i, j) += bias[h][i - j + Tk - 1]
     * with Tk rows of k; rows of wefti_attention_bias_row floats, the rest of them 0. */
    bool
        biased; /* true with a bias, also before there is a buffer (for attention_scratch) */
    const float *bias;
    float *dbias; /* backward: the gradient is ADDED */
    /* q, k, v, o and their gradients are bfloat16 behind pointers to float, strides count
     * numbers: where attention_halves says so. */
    bool half;
} wefti_attention_shape;

/* Rows of k and v in a sequence. */
static inline int64_t wefti_attention_rows(const wefti_attention_shape *s) {
    return s->all && s->n_rows > 0 ? s->n_rows : s->T;
}

/* Floats from one head's bias to the next: one for each distance between a query and a
 * key, and room for a vector that begins at the last of these. */
static inline int64_t wefti_attention_bias_row(const wefti_attention_shape *s) {
    return s->T + wefti_attention_rows(s) + 64;
}

/* One table for each table of kernels. */
typedef struct wefti_layers {
    /* In a bf16 table, NULL elsewhere: activations that only products and the curves read are
     * kept in bfloat16. A product's numbers are those of gemm on widened factors, but for the
     * order of sums where C is bfloat16. */
    void (*gemm_mixed)(const wefti_mixed *p);
    /* Whether attention of this shape may be `half`; NULL: never. Its results are rounded once,
     * to nearest even, denormal numbers to 0. */
    bool (*attention_halves)(const wefti_attention_shape *s);

    /* LayerNorm (Ba et al. 2016). mean[N], rstd[N] are saved for the backward pass.
     * backward: dx += ..., dgain += ..., dbias += ... */
    void (*layernorm_forward)(int64_t N, int64_t C, float eps, const float *x,
                              const float *gain, const float *bias, float *y, float *mean,
                              float *rstd);
    void (*layernorm_backward)(int64_t N, int64_t C, const float *x, const float *gain,
                               const float *mean, const float *rstd, const float *dy,
                               float *dx, float *dgain, float *dbias);
    /* The same with y and dy in bfloat16. */
    void (*layernorm_forward_half)(int64_t N, int64_t C, float eps, const float *x,
                                   const float *gain, const float *bias, uint16_t *y,
                                   float *mean, float *rstd);
    void (*layernorm_backward_half)(int64_t N, int64_t C, const float *x,
                                    const float *gain, const float *mean,
                                    const float *rstd, const uint16_t *dy, float *dx,
                                    float *dgain, float *dbias);
    /* RMSNorm (Zhang & Sennrich 2019) of C columns of rows ld apart (x and y share ld; so
     * do x, dy and dx). rstd[N] = 1/sqrt(mean(x^2) + eps) is saved. y may be x. backward:
     * dx is STORED and may be dy; dgain += ... */
    void (*rmsnorm_forward)(int64_t N, int64_t C, int64_t ld, float eps, const float *x,
                            const float *gain, float *y, float *rstd);
    void (*rmsnorm_backward)(int64_t N, int64_t C, int64_t ld, const float *x,
                             const float *gain, const float *rstd, const float *dy,
                             float *dx, float *dgain);

    /* GELU, tanh form (Hendrycks & Gimpel 2016; "gelu_new"). y may be x. backward: dx
     * STORED from x and dy; dx may be dy. */
    void (*gelu_forward)(int64_t n, const float *x, float *y);
    void (*gelu_backward)(int64_t n, const float *x, const float *dy, float *dx);
    /* GELU by the error function, as first published; max(x, 0); its square. As gelu. */
    void (*gelu_erf_forward)(int64_t n, const float *x, float *y);
    void (*gelu_erf_backward)(int64_t n, const float *x, const float *dy, float *dx);
    void (*relu_forward)(int64_t n, const float *x, float *y);
    void (*relu_backward)(int64_t n, const float *x, const float *dy, float *dx);
    void (*relu2_forward)(int64_t n, const float *x, float *y);
    void (*relu2_backward)(int64_t n, const float *x, const float *dy, float *dx);
    /* SwiGLU (Shazeer 2020): gu[N,2F] holds gate | up; y[N,F] = silu(gate) * up.
     * backward: dgu[N,2F] STORED; may be gu. */
    void (*swiglu_forward)(int64_t N, int64_t F, const float *gu, float *y);
    void (*swiglu_backward)(int64_t N, int64_t F, const float *gu, const float *dy,
                            float *dgu);
    /* GeGLU: the same with gelu(gate) in its tanh form */
    void (*geglu_forward)(int64_t N, int64_t F, const float *gu, float *y);
    void (*geglu_backward)(int64_t N, int64_t F, const float *gu, const float *dy,
                           float *dgu);

    /* The two gates above on bfloat16, with f32 between: y[N,F] from gu[N,2F]. backward: dgu STORED
     * from gu and dy. */
    void (*gate_forward)(wefti_curve curve, int64_t N, int64_t F, const uint16_t *gu,
                         uint16_t *y);
    void (*gate_backward)(wefti_curve curve, int64_t N, int64_t F, const uint16_t *gu,
                          const uint16_t *dy, uint16_t *dgu);

    /* Rotary positions (Su et al. 2021), Hugging Face halves: element i pairs with i +
     * D/2. Rotates n_heads heads of width D in each row, in place; row n = b*T + t has
     * position t. cos_sin[T][D] holds D/2 cosines then D/2 sines. inverse = true rotates
     * back (backward). */
    void (*rope)(int64_t B, int64_t T, int64_t n_heads, int64_t D, int64_t ld,
                 const float *cos_sin, bool inverse, float *x);

    /* Attention, grouped queries: o = softmax(scale q k^T + bias) v, causal (the lower
     * triangle), or over all keys that are present; k and v may belong to another
     * sequence. lse[B,H,T] (log of the sum of exponentials) is saved. Never stores T x T
     * for all heads. backward needs o and lse; dq, dk, dv are STORED with the strides of
     * q, k, v; `d_o` has o's stride. scratch: attention_scratch(shape, threads) floats. */
    int64_t (*attention_scratch)(const wefti_attention_shape *s, int threads);
    void (*attention_forward)(const wefti_attention_shape *s, const float *q,
                              const float *k, const float *v, float *o, float *lse,
                              float *scratch);
    void (*attention_backward)(const wefti_attention_shape *s, const float *q,
                               const float *k, const float *v, const float *o,
                               const float *lse, const float *d_o, float *dq, float *dk,
                               float *dv, float *scratch);

    /* y[N,C] = table[token[n]] (rows of C); position table added if pos != NULL: row n
     * gets pos[n % T]. */
    void (*embed_forward)(int64_t N, int64_t T, int64_t C, const int32_t *token,
                          const float *table, const float *pos, float *y);
    /* dtable[token[n]] += dy[n], dpos[n % T] += dy[n] (dpos may be NULL); fixed order */
    void (*embed_backward)(int64_t N, int64_t T, int64_t C, const int32_t *token,
                           const float *dy, float *dtable, float *dpos);

    /* Fused head and cross-entropy: logits = x[N,C] w[V,C]^T, a block of rows at a time;
     * with cap > 0 they become cap tanh(logit / cap).
     * Adds the sum over rows of -log softmax(logits)[target] to *loss_sum. A target < 0
     * is skipped. If dx is not NULL: dx STORED and dw (unless NULL) += gradients of
     * grad_scale * loss_sum; dw is STORED if it is fresh. scratch: head_scratch(N, V, threads)
     * floats; never N*V for large N. */
    int64_t (*head_scratch)(int64_t N, int64_t V, int threads);
    void (*head_loss)(int64_t N, int64_t C, int64_t V, const float *x, const float *w,
                      const int32_t *target, float cap, float grad_scale,
                      double *loss_sum, float *dx, float *dw, bool fresh, float *scratch);
    /* logit = cap tanh(logit / cap), in place */
    void (*cap_logits)(int64_t n, float cap, float *logit);

    /* Inverted dropout in place: element i is kept with probability 1 - rate and divided
     * by it; the mask is a pure function of (seed, step, first + i), so backward calls it
     * on the gradient with the same arguments. */
    void (*dropout)(int64_t n, float rate, uint64_t seed, uint64_t step, uint64_t first,
                    float *x);

    /* out[i] = number first + i of the normal numbers of (seed, stream, step): those of the pairs
     * in order (adapter/init.c), rounded to f32; NaN where this kernel cannot tell how, which is
     * rare. On the calling thread. */
    void (*normals)(const wefti_rng_run *run, float mean, float std, float *out);
} wefti_layers;

/* As WEFTI_KERNELS_EACH: DO(kernel) of those that tables of f32 and of bf16 have alike;
 * DO(kernel, suffix) of those with products, and of the room that these take. */
/* clang-format off */
#define WEFTI_LAYERS_ALIKE(DO) \
    DO(layernorm_forward) DO(layernorm_backward) DO(layernorm_forward_half) \
    DO(layernorm_backward_half) DO(rmsnorm_forward) DO(rmsnorm_backward) DO(gelu_forward) \
    DO(gelu_backward) DO(gelu_erf_forward) DO(gelu_erf_backward) DO(relu_forward) \
    DO(relu_backward) DO(relu2_forward) DO(relu2_backward) DO(swiglu_forward) \
    DO(swiglu_backward) DO(geglu_forward) DO(geglu_backward) DO(gate_forward) \
    DO(gate_backward) DO(rope) DO(embed_forward) DO(embed_backward) DO(cap_logits) DO(dropout) \
    DO(normals)
#define WEFTI_LAYERS_PRODUCTS(DO, suffix) \
    DO(attention_forward, suffix) DO(attention_backward, suffix) DO(head_loss, suffix)
#define WEFTI_LAYERS_ROOMS(DO, suffix) DO(attention_scratch, suffix) DO(head_scratch, suffix)
/* clang-format on */
#define WEFTI_LAYER(kernel) __typeof__(*((const wefti_layers *)0)->kernel)
