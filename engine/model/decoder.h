/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/families.h"

/* The branches of a decoder's blocks, of all families: attention with rotary positions or
 * without, feed-forward gated or plain, norms. A call works on a view: parameters,
 * activations saved for the backward pass, scratch. A model may have biases, norms of
 * queries and keys, windows; a part that it does not have has no parameter. */

typedef struct wefti_decoder_saved {
    float *qkv; /* [N,(H+2K)D] rotated; with qk_norm as the product gave it */
    float *o;   /* [N,HD] attention's output */
    float *lse; /* [B,H,T] */
    float *gu;  /* [N,2F] gate|up, or [N,F] */
    float *
        mid; /* [N,C] between the branches; norms after: attention branch before its norm */
    float *out1; /* [N,C] norms on both sides: attention branch before its second norm */
    float *out;  /* [N,C] norms after: feed-forward branch before its norm */
    float *stats1, *stats2, *post1, *post2; /* of norms: [N], LayerNorm [2][N] */
    float *rstd_q, *rstd_k;                 /* [N], of each head [H][N] and [K][N] */
} wefti_decoder_saved;

typedef struct wefti_decoder_scratch {
    float *a, *b, *c;  /* [N,C] for the block; c: parallel branches */
    float *n;          /* [N,C] for the backward pass of a LayerNorm */
    float *gain;       /* [max(C,D)] 1 + a norm's parameter; or [4][C], see gain() */
    float *stats;      /* of the head's norm */
    float *rest;       /* where the sets below begin; the head's kernel scratch */
    float *s, *dgu;    /* feed-forward: [N,F], and as gu */
    float *d_o, *dqkv; /* attention: [N,HD], [N,(H+2K)D] */
    float *qk; /* [N,(H+2K)D] with qk_norm: normalized and rotated queries and keys */
    float *attention; /* kernel scratch */
} wefti_decoder_scratch;

/* The data of one call; borrows model and pass. */
typedef struct wefti_decoder_view {
    const weft_model *model;
    const wefti_traits *traits;
    const wefti_pass *pass;
    const wefti_kernels *k;
    const wefti_param *p; /* the unit's parameters */
    int unit;
    int64_t N, C, F, D, HD, KD, ld; /* ld = HD + 2 KD */
    int64_t gu;                     /* columns of s.gu */
    float eps;
    wefti_decoder_saved s; /* blocks only */
    wefti_decoder_scratch w;
} wefti_decoder_view;

wefti_decoder_view wefti_decoder_frame(const weft_model *model, int unit,
                                       const wefti_pass *pass);

/* Functions of the ops table. */
int64_t wefti_decoder_saved_floats(const weft_model *model, int unit, int64_t B,
                                   int64_t T, const wefti_kernels *kernels);
int64_t wefti_decoder_scratch_floats(const weft_model *model, int64_t B, int64_t T,
                                     int threads, const wefti_kernels *kernels);
void wefti_decoder_forward(const weft_model *model, int unit, const wefti_pass *pass);
void wefti_decoder_backward(const weft_model *model, int unit, const wefti_pass *pass);
void wefti_decoder_logits(const weft_model *model, const wefti_pass *pass, float *out);

/* The norm with that role, applied to x[N,C]; dx is STORED and may be dy. */
void wefti_decoder_norm(const wefti_decoder_view *f, wefti_role role, const float *x,
                        float *y, float *stats);
void wefti_decoder_norm_backward(const wefti_decoder_view *f, wefti_role role,
                                 const float *x, const float *stats, const float *dy,
                                 float *dx);

/* y[N,C] = a(x), y[N,C] = m(x). backward: dx is STORED and may be dy. */
void wefti_decoder_attention(const wefti_decoder_view *f, const float *x, float *y);
void wefti_decoder_attention_backward(const wefti_decoder_view *f, const float *x,
                                      const float *dy, float *dx);
void wefti_decoder_ffn(const wefti_decoder_view *f, const float *x, float *y);
void wefti_decoder_ffn_backward(const wefti_decoder_view *f, const float *x,
                                const float *dy, float *dx);
