/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_DECODER_H
#define WEFTI_DECODER_H

#include "model/model.h"

/* What llama and olmo2 share: the two branches of a block, without their norms.
 *     a(x) = attention(rotate(x Wqkv^T)) Wo^T       m(x) = (silu(x Wg^T) * (x Wu^T)) Wd^T
 * With qk_norm each token's whole query and key vectors pass an RMSNorm before rotating.
 */

/* A block's parameters, in the order of the unit's table. q|k|v and gate|up are
 * neighbours in the unit's buffer, so that one product serves each. */
typedef enum wefti_decoder_param {
    WEFTI_NORM1,
    WEFTI_Q,
    WEFTI_K,
    WEFTI_V,
    WEFTI_O,
    WEFTI_NORM2,
    WEFTI_GATE,
    WEFTI_UP,
    WEFTI_DOWN,
    WEFTI_Q_NORM, /* the last two only with qk_norm */
    WEFTI_K_NORM,
    WEFTI_DECODER_PARAMS
} wefti_decoder_param;

typedef struct wefti_decoder_saved {
    float *qkv; /* [N,(H+2K)D] rotated; with qk_norm as the product gave it */
    float *o;   /* [N,HD] attention's output */
    float *lse; /* [B,H,T] */
    float *gu;  /* [N,2F] gate|up */
    float *mid; /* [N,C] llama: h; olmo2: attention branch before its norm */
    float *out; /* [N,C] olmo2: feed-forward branch before its norm */
    float *rstd1, *rstd2, *rstd_q, *rstd_k; /* [N] */
} wefti_decoder_saved;

typedef struct wefti_decoder_scratch {
    float *a, *b;      /* [N,C] for the block */
    float *rstd;       /* [N] of the head's norm */
    float *rest;       /* where the sets below begin; the head's kernel scratch */
    float *s, *dgu;    /* feed-forward: [N,F], [N,2F] */
    float *d_o, *dqkv; /* attention: [N,HD], [N,(H+2K)D] */
    float *qk;         /* [N,(H+2K)D] with qk_norm: normed and rotated queries and keys */
    float *attention;  /* kernel scratch */
} wefti_decoder_scratch;

/* What one call works on; borrows model and pass. */
typedef struct wefti_decoder_view {
    const weft_model *model;
    const wefti_pass *pass;
    const wefti_kernels *k;
    const wefti_param *p; /* the unit's parameters */
    int unit;
    int64_t N, C, F, HD, KD, ld; /* ld = HD + 2 KD */
    float eps;
    wefti_decoder_saved s; /* blocks only */
    wefti_decoder_scratch w;
} wefti_decoder_view;

wefti_decoder_view wefti_decoder_frame(const weft_model *model, int unit,
                                       const wefti_pass *pass);

/* Of the ops table. A post-norm block (olmo2) saves `out` too. */
int64_t wefti_decoder_saved_floats(const weft_model *model, int unit, int64_t B,
                                   int64_t T);
int64_t wefti_decoder_scratch_floats(const weft_model *model, int64_t B, int64_t T,
                                     int threads, const wefti_kernels *kernels);

/* RMSNorm of x[N,C] with parameter i as gain; dx is STORED and may be dy. */
void wefti_decoder_norm(const wefti_decoder_view *f, int i, const float *x, float *y,
                        float *rstd);
void wefti_decoder_norm_backward(const wefti_decoder_view *f, int i, const float *x,
                                 const float *rstd, const float *dy, float *dx);

/* y[N,C] = a(x), y[N,C] = m(x). backward: dx is STORED and may be dy. */
void wefti_decoder_attention(const wefti_decoder_view *f, const float *x, float *y);
void wefti_decoder_attention_backward(const wefti_decoder_view *f, const float *x,
                                      const float *dy, float *dx);
void wefti_decoder_ffn(const wefti_decoder_view *f, const float *x, float *y);
void wefti_decoder_ffn_backward(const wefti_decoder_view *f, const float *x,
                                const float *dy, float *dx);

#endif
