/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/ctx.h>

/* The kernel table: everything that touches tensor memory. One table per device and
 * instruction set; the reference table defines the results that the others are tested against.
 *
 * All tensors are row-major, and f32 where not said otherwise. Shapes: B sequences, T positions,
 * N = B*T rows, C width, H query heads, K key/value heads (H % K == 0), D head width, V
 * vocabulary. "dy" is
 * the gradient of the loss with respect to y. A gradient of a parameter is always ADDED to
 * its buffer; the comment of each kernel says whether a gradient of an activation is added
 * or stored. Kernels trust their arguments, allocate nothing and use the OpenMP thread
 * count of the calling thread. For a fixed table and thread count they are deterministic.
 */

/* Constants of one step of Adam (Kingma & Ba 2015). Weight decay is coupled (added to the
 * gradient), decoupled (Loshchilov & Hutter 2019: AdamW), or 0. */
typedef struct wefti_adam_step {
    float lr, beta1, beta2, eps;
    float coupled_decay, decoupled_decay;
    float correction1; /* 1 - beta1^t, t counted from 1 */
    float correction2; /* 1 - beta2^t */
    float grad_scale;  /* the gradient is multiplied by this first (clipping) */
} wefti_adam_step;

/* Constants of one step of AccumAdam (arXiv 2410.11998), and its position in its period
 * of K steps. With K = 1 a step both opens and closes its period. */
typedef struct wefti_accum_step {
    wefti_adam_step adam; /* t counts periods, including the current one */
    float share;          /* 1/K */
    bool opens, closes;
} wefti_accum_step;

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

/* What lies between the two products of a feed-forward. The first two are gated: a row has gate and
 * up, and gives half as many numbers. */
typedef enum wefti_curve {
    WEFTI_CURVE_SWIGLU, /* silu(gate) up */
    WEFTI_CURVE_GEGLU,  /* gelu(gate) up, tanh form */
    WEFTI_CURVE_GELU,   /* tanh form */
    WEFTI_CURVE_GELU_ERF,
    WEFTI_CURVE_RELU
} wefti_curve;

/* A product whose matrices are f32 or, where `half`, bfloat16 in memory (uint16_t, the upper half
 * of an f32), and whose result may get a bias:
 *     C[M,N] = op(A)[M,K] * op(B)[K,N] + beta * C + bias[N]
 * In bfloat16 C is rounded once, to nearest even (denormal numbers may become 0); then beta is 0,
 * and 1 <= K <= WEFTI_MIXED_TERMS. Instead of these results r may be stored, with arrays whose rows
 * are as far apart as C's:
 *     C = r + plus                        in f32; K as in bfloat16
 *     C = r times                         in bfloat16
 *     C = curve(r), slopes = curve'(r)    in bfloat16, both rounded once; no gated curve */
enum { WEFTI_MIXED_TERMS = 1 << 14 };

typedef struct wefti_mixed {
    bool ta, tb;
    int64_t M, N, K;
    const void *A, *B;
    void *C;
    int64_t lda, ldb, ldc; /* in numbers */
    bool half_a, half_b, half_c;
    float beta;
    const float *bias;     /* or NULL */
    const float *plus;     /* or NULL */
    const uint16_t *times; /* or NULL */
    uint16_t *slopes;      /* or NULL */
    wefti_curve curve;     /* with slopes */
} wefti_mixed;

typedef struct wefti_kernels wefti_kernels;

struct wefti_kernels {
    const char *name;
    /* The same table, except that the products of gemm, head_loss and attention use
     * numbers rounded to bfloat16 (to nearest even), summed in f32. Everything else, such
     * as the master weights, moments, norms and softmax, is in f32. In a bf16 table this
     * points to the table itself. */
    const wefti_kernels *bf16;
    /* Whether this processor has instructions for products of bf16. Without them the
     * products above take as long as in f32. */
    bool (*multiplies_bf16)(void);
    /* In a bf16 table, NULL elsewhere: activations that only products and the curves read are
     * kept in bfloat16. A product's numbers are those of gemm on widened factors, but for the
     * order of sums where C is bfloat16. */
    void (*gemm_mixed)(const wefti_mixed *p);
    /* Whether attention of this shape may be `half`; NULL: never. Its results are rounded once,
     * to nearest even, denormal numbers to 0. */
    bool (*attention_halves)(const wefti_attention_shape *s);

    /* C[M,N] = alpha * op(A)[M,K] * op(B)[K,N] + beta * C; op is transposition when ta, tb
     * (A is then stored [K,M], B [N,K]). beta = 0 ignores the previous contents of C. */
    void (*gemm)(bool ta, bool tb, int64_t M, int64_t N, int64_t K, float alpha,
                 const float *A, int64_t lda, const float *B, int64_t ldb, float beta,
                 float *C, int64_t ldc);

    /* y[N,C] += b[C] on each row */
    void (*bias_add)(int64_t N, int64_t C, const float *b, float *y);
    /* db[C] += sum over rows of dy[N,C] */
    void (*bias_grad)(int64_t N, int64_t C, const float *dy, float *db);

    /* y += a; y = a + b; y *= s; all of n elements */
    void (*accumulate)(int64_t n, const float *a, float *y);
    void (*add)(int64_t n, const float *a, const float *b, float *y);
    void (*scale)(int64_t n, float s, float *y);
    /* y = 0; for memory that is not read soon, which passes the cache */
    void (*clear)(int64_t n, float *y);
    /* sum of squares in double, fixed order */
    double (*sum_squares)(int64_t n, const float *x);

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
    /* GELU by the error function, as first published; and max(x, 0). As gelu. */
    void (*gelu_erf_forward)(int64_t n, const float *x, float *y);
    void (*gelu_erf_backward)(int64_t n, const float *x, const float *dy, float *dx);
    void (*relu_forward)(int64_t n, const float *x, float *y);
    void (*relu_backward)(int64_t n, const float *x, const float *dy, float *dx);
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
    /* bias_grad of dy in bfloat16 */
    void (*bias_grad_half)(int64_t N, int64_t C, const uint16_t *dy, float *db);

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

    /* Optimizers, in place on n parameters; one pass over memory. All return the sum of
     * squares of the change of p (double, fixed order), for the update norm. */

    /* g' = grad_scale g + coupled_decay p
     * m <- beta1 m + (1 - beta1) g',  v <- beta2 v + (1 - beta2) g'^2
     * p <- (1 - lr decoupled_decay) p
     *      - lr (m / correction1) / (sqrt(v / correction2) + eps) */
    double (*adam)(int64_t n, const wefti_adam_step *s, const float *g, float *p,
                   float *m, float *v);
    /* M = beta1 m and V = beta2 v are stored; a is the period's mean gradient so far. p takes
     * adam's step with m = M + (1 - beta1) g' and v = V + (1 - beta2) g'^2; a <- a + g'/K,
     * but the previous contents of a are not read if the step opens the period. If it closes
     * the period: M <- beta1 (M + (1 - beta1) a), V <- beta2 (V + (1 - beta2) a^2), then a <-
     * 0; if not, M and V are only read. A step that opens and closes does not use a. */
    double (*accum_adam)(int64_t n, const wefti_accum_step *s, const float *g, float *p,
                         float *m, float *v, float *a);
    /* p <- (1 - lr decay) p - lr grad_scale d */
    double (*sgd)(int64_t n, float lr, float grad_scale, float decay, const float *d,
                  float *p);
};

/* The reference table: plain loops as in the formulas, with sums in double where it matters. */
extern const wefti_kernels wefti_kernels_reference;

/* The fastest table this processor can run, or the one named "reference", "base", "avx2",
 * "avx512", "amx". NULL if `name` is unknown or not runnable here; name NULL = fastest. The table
 * of "amx" is called "avx512", whose bits it has, and its bf16 table "amx". */
const wefti_kernels *wefti_kernels_find(const char *name);

/* Names of the runnable tables, fastest first, NULL-terminated. */
const char *const *wefti_kernels_names(void);

/* Whether so many threads can multiply matrices under the limits of this process: to be asked
 * before the first product. WEFT_ERR_MEMORY: the matrix library would wait for ever. */
weft_status wefti_products_check(weft_ctx *ctx, int threads) WEFT_CHECKED;

/* Sets the number of OpenMP threads that kernels called from this thread use. */
void wefti_kernels_set_threads(int threads);
/* Ends the threads that wait for further kernels of the calling thread; its next kernel starts
 * others. libgomp counts waiting threads as running ones: where all together are more than the
 * machine has cores, no thread of any team spins before it sleeps. */
void wefti_kernels_end_threads(void);
int wefti_kernels_threads(void);
