/* SPDX-License-Identifier: MIT */
#pragma once

#include <stddef.h>

#include "model/model.h"

/* The building blocks of several kinds of model, each a forward and a backward. */

/* The second product of matrices whose adapters have dropout on their inputs. The i-th of them
 * masks an element by a function of (seed, step + i, first + its index). */
typedef struct wefti_linear_side {
    const float *w;              /* in the layout of the matrices; NULL: there is none */
    const wefti_param *matrices; /* of the product, in the order of its outputs */
    const bool *has;             /* [matrices] whether it has an adapter */
    float rate;
    uint64_t seed, step, first;
    float *room; /* [N,in] */
} wefti_linear_side;

/* A product of N rows with a matrix, and a bias if b is not NULL. */
typedef struct wefti_linear {
    int64_t N, in, out;
    bool in_out; /* W is [in,out] and y = x W (Hugging Face Conv1D); else W is [out,in]
                    and y = x W^T (Hugging Face Linear) */
    const float *w, *b;
    float *dw, *db; /* ADDED to; unused in forward */
    bool fresh;     /* dw is STORED; not with a side */
    /* x, or y and dy, are bfloat16; not with a side. Then dx is what x is. */
    bool half_x, half_y;
    /* Forward: [N,out] added to y; or NULL. */
    const float *plus;
    /* With half_y: y is curve(x W + b), its slopes STORED, both bfloat16 [N,out]; or NULL. With
     * half_x: dx is multiplied by `times`, bfloat16 [N,in]; or NULL. Not with a side. */
    uint16_t *slopes;
    wefti_curve curve;
    const uint16_t *times;
    wefti_linear_side side;
} wefti_linear;

/* The side of a product whose matrices are parameter `param` of the unit and, if it has more
 * outputs than that one, the following parameters. */
wefti_linear_side wefti_side_of(const weft_model *model, int unit, const wefti_pass *pass,
                                int param, int64_t out);

/* y[N,out] STORED. */
void wefti_linear_forward(const wefti_kernels *k, const wefti_linear *l, const void *x,
                          void *y);
/* dx[N,in] STORED; it must not be dy, but may be x. With a side, dw is the gradient of
 * the side's matrix, and the first matrix gets no gradient. */
void wefti_linear_backward(const wefti_kernels *k, const wefti_linear *l, const void *x,
                           const void *dy, void *dx);

/* A feed-forward with one hidden layer of out.in numbers, whose gate if it is gated and they
 * themselves are the outputs of `in`. */
typedef struct wefti_ffn {
    wefti_linear in, out;
    wefti_curve curve;
    bool sided; /* the pass has sides */
    float *
        saved; /* wefti_ffn_saved: h[N,in.out]; in bfloat16 h or slopes, and a[N,out.in] */
    void *active;   /* [N,out.in] scratch */
    void *gradient; /* [N,in.out] scratch; it may be `active` if the curve is not gated */
} wefti_ffn;

bool wefti_curve_is_gated(wefti_curve curve);

/* Floats that the feed-forward saves for N rows of width C with `wide` outputs of `in` and F of the
 * curve, with these kernels (NULL: with any). */
int64_t wefti_ffn_saved(const wefti_kernels *kernels, int64_t C, int64_t N, int64_t wide,
                        int64_t F);

/* y[N,out.out] STORED. */
void wefti_ffn_forward(const wefti_kernels *k, const wefti_ffn *f, const void *x,
                       float *y);
/* dx[N,in.in] STORED; it may be dy. */
void wefti_ffn_backward(const wefti_kernels *k, const wefti_ffn *f, const void *x,
                        const float *dy, void *dx);

/* Parameter i of a unit, and its gradient (NULL if none is requested). */
static inline const float *wefti_unit_param(const wefti_unit *unit,
                                            const wefti_pass *pass, int i) {
    return pass->params + unit->params[i].offset;
}

static inline float *wefti_unit_grad(const wefti_unit *unit, const wefti_pass *pass,
                                     int i) {
    return pass->grads ? pass->grads + unit->params[i].offset : NULL;
}

/* Places of dropout in a unit. */
typedef enum wefti_drop_site {
    WEFTI_DROP_FIRST,  /* after the embedding; after attention's output product */
    WEFTI_DROP_SECOND, /* after the feed-forward's output product */
    WEFTI_DROP_THIRD,  /* after the cross-attention's */
    WEFTI_DROP_SITES
} wefti_drop_site;

/* Dropout of x[B,T,C] in place, in training with config.dropout > 0; else nothing. The
 * mask is a function of (seed, step, unit, site, global row, position, column). */
void wefti_drop(const weft_model *model, int unit, wefti_drop_site site,
                const wefti_pass *pass, float *x);

/* y = x + drop(product): with x as `plus` of the product, if wefti_residual does not return NULL,
 * else by drop_and_add after it. */
const float *wefti_residual(const weft_model *model, const wefti_pass *pass,
                            const float *x);
void wefti_drop_and_add(const weft_model *model, int unit, wefti_drop_site site,
                        const wefti_pass *pass, const float *x, float *y);

/* The gradient of the dropout's input: pass->dy itself without dropout, else `copy`,
 * which becomes pass->dy with the mask applied. */
const float *wefti_drop_gradient(const weft_model *model, int unit, wefti_drop_site site,
                                 const wefti_pass *pass, float *copy);

/* The embedding unit: y = table[token] (+ positions), dropout. Its first parameter is the
 * token table [V,C]; its second, if there is one, the position table [context,C]. */
void wefti_embed_forward(const weft_model *model, const wefti_pass *pass);
void wefti_embed_backward(const weft_model *model, const wefti_pass *pass);

/* The head after its norm xn[B,T,C]: loss, and with dxn not NULL gradients. The token
 * matrix is the borrowed unit's first parameter, or the head's last. */
void wefti_head_loss(const weft_model *model, const wefti_pass *pass, const float *xn,
                     float *dxn, float *scratch);
/* logits[B*T,V] = xn w^T */
void wefti_head_logits(const weft_model *model, const wefti_pass *pass, const float *xn,
                       float *logits);
