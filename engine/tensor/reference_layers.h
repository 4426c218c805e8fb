/* SPDX-License-Identifier: MIT */
#pragma once

/* The kernels of wefti_layers_reference that are not in the file of its table. Their
 * meaning, their shapes, and whether results are stored or added: tensor/layer_kernels.h. */

#include "kernels/reference.h"
#include "tensor/layer_kernels.h"

/* reference_norm.c */
void wefti_reference_layernorm_forward_half(int64_t N, int64_t C, float eps,
                                            const float *x, const float *gain,
                                            const float *bias, uint16_t *y, float *mean,
                                            float *rstd);
void wefti_reference_layernorm_backward_half(int64_t N, int64_t C, const float *x,
                                             const float *gain, const float *mean,
                                             const float *rstd, const uint16_t *dy,
                                             float *dx, float *dgain, float *dbias);
void wefti_reference_layernorm_forward(int64_t N, int64_t C, float eps, const float *x,
                                       const float *gain, const float *bias, float *y,
                                       float *mean, float *rstd);
void wefti_reference_layernorm_backward(int64_t N, int64_t C, const float *x,
                                        const float *gain, const float *mean,
                                        const float *rstd, const float *dy, float *dx,
                                        float *dgain, float *dbias);
void wefti_reference_rmsnorm_forward(int64_t N, int64_t C, int64_t ld, float eps,
                                     const float *x, const float *gain, float *y,
                                     float *rstd);
void wefti_reference_rmsnorm_backward(int64_t N, int64_t C, int64_t ld, const float *x,
                                      const float *gain, const float *rstd,
                                      const float *dy, float *dx, float *dgain);

/* reference_activation.c */
void wefti_reference_gelu_forward(int64_t n, const float *x, float *y);
void wefti_reference_gelu_backward(int64_t n, const float *x, const float *dy, float *dx);
void wefti_reference_gelu_erf_forward(int64_t n, const float *x, float *y);
void wefti_reference_gelu_erf_backward(int64_t n, const float *x, const float *dy,
                                       float *dx);
void wefti_reference_relu_forward(int64_t n, const float *x, float *y);
void wefti_reference_relu_backward(int64_t n, const float *x, const float *dy, float *dx);
void wefti_reference_geglu_forward(int64_t N, int64_t F, const float *gu, float *y);
void wefti_reference_geglu_backward(int64_t N, int64_t F, const float *gu,
                                    const float *dy, float *dgu);
void wefti_reference_swiglu_forward(int64_t N, int64_t F, const float *gu, float *y);
void wefti_reference_swiglu_backward(int64_t N, int64_t F, const float *gu,
                                     const float *dy, float *dgu);
/* A curve that is not gated, at x. */
float wefti_reference_curve(wefti_curve curve, float x, float *slope);
void wefti_reference_gate_forward(wefti_curve curve, int64_t N, int64_t F,
                                  const uint16_t *gu, uint16_t *y);
void wefti_reference_gate_backward(wefti_curve curve, int64_t N, int64_t F,
                                   const uint16_t *gu, const uint16_t *dy, uint16_t *dgu);
void wefti_reference_rope(int64_t B, int64_t T, int64_t n_heads, int64_t D, int64_t ld,
                          const float *cos_sin, bool inverse, float *x);
void wefti_reference_dropout(int64_t n, float rate, uint64_t seed, uint64_t step,
                             uint64_t first, float *x);

/* reference_attention.c */
int64_t wefti_reference_attention_scratch(const wefti_attention_shape *s, int threads);
void wefti_reference_attention_forward(const wefti_attention_shape *s, const float *q,
                                       const float *k, const float *v, float *o,
                                       float *lse, float *scratch);
void wefti_reference_attention_backward(const wefti_attention_shape *s, const float *q,
                                        const float *k, const float *v, const float *o,
                                        const float *lse, const float *d_o, float *dq,
                                        float *dk, float *dv, float *scratch);
void wefti_reference_attention_forward_bf16(const wefti_attention_shape *s,
                                            const float *q, const float *k,
                                            const float *v, float *o, float *lse,
                                            float *scratch);
void wefti_reference_attention_backward_bf16(const wefti_attention_shape *s,
                                             const float *q, const float *k,
                                             const float *v, const float *o,
                                             const float *lse, const float *d_o,
                                             float *dq, float *dk, float *dv,
                                             float *scratch);

/* reference_head.c */
void wefti_reference_embed_forward(int64_t N, int64_t T, int64_t C, const int32_t *token,
                                   const float *table, const float *pos, float *y);
void wefti_reference_embed_backward(int64_t N, int64_t T, int64_t C, const int32_t *token,
                                    const float *dy, float *dtable, float *dpos);
void wefti_reference_head_loss_bf16(int64_t N, int64_t C, int64_t V, const float *x,
                                    const float *w, const int32_t *target, float cap,
                                    float grad_scale, double *loss_sum, float *dx,
                                    float *dw, bool fresh, float *scratch);
void wefti_reference_cap_logits(int64_t n, float cap, float *logit);
int64_t wefti_reference_head_scratch(int64_t N, int64_t V, int threads);
void wefti_reference_head_loss(int64_t N, int64_t C, int64_t V, const float *x,
                               const float *w, const int32_t *target, float cap,
                               float grad_scale, double *loss_sum, float *dx, float *dw,
                               bool fresh, float *scratch);
