/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/ctx.h>

/* The kernel table: everything that touches tensor memory. One table per device and
 * instruction set; tests/reference defines the results that all are tested against.
 *
 * All tensors are row-major, and f32 unless stated. Shapes: B sequences, T positions,
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

/* What lies between the two products of a feed-forward. The first two are gated: a row has gate and
 * up, and gives half as many numbers. */
typedef enum wefti_curve {
    WEFTI_CURVE_SWIGLU, /* silu(gate) up */
    WEFTI_CURVE_GEGLU,  /* gelu(gate) up, tanh form */
    WEFTI_CURVE_GELU,   /* tanh form */
    WEFTI_CURVE_GELU_ERF,
    WEFTI_CURVE_RELU,
    WEFTI_CURVE_RELU2 /* the square of ReLU (So et al. 2021) */
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
    /* What the units of a network compute with; NULL in a library without the engine. */
    const struct wefti_layers *layers;
    const struct wefti_spectrum_ops *spectrum; /* transforms of chunks (lib/compress) */
    /* The same table, except that the products of gemm, head_loss and attention use
     * numbers rounded to bfloat16 (to nearest even), summed in f32. Everything else, such
     * as the master weights, moments, norms and softmax, is in f32. In a bf16 table this
     * points to the table itself. */
    const wefti_kernels *bf16;
    /* Whether this processor has instructions for products of bf16. Without them the
     * products above take as long as in f32. */
    bool (*multiplies_bf16)(void);
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

    /* bias_grad of dy in bfloat16 */
    void (*bias_grad_half)(int64_t N, int64_t C, const uint16_t *dy, float *db);

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

/* DO(kernel) of each kernel but products, so that who has one of each names none of them; and the
 * type of a kernel, by which its function is declared. */
/* clang-format off */
#define WEFTI_KERNELS_EACH(DO) WEFTI_KERNELS_ELEMENTWISE(DO) DO(adam) DO(accum_adam) DO(sgd)
#define WEFTI_KERNELS_ELEMENTWISE(DO) \
    DO(bias_add) DO(bias_grad) DO(bias_grad_half) DO(accumulate) DO(add) DO(scale) DO(clear) \
    DO(sum_squares)
/* clang-format on */
#define WEFTI_KERNEL(kernel) __typeof__(*((const wefti_kernels *)0)->kernel)

/* The fastest table this processor can run, or the one named "base", "avx2", "avx512", "amx";
 * "exact" has the same bits on x86-64, where it is "base" by another name (absent if that was
 * compiled for AVX2 or FMA), and on arm64. NULL if `name` is unknown or not runnable here; NULL
 * = fastest. The table of "amx" is called "avx512", whose bits it has, and its bf16 table "amx". */
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
