/* SPDX-License-Identifier: MIT */
#pragma once

/* The kernels of a fast table of layers, one file per family; table.c collects them. Their
 * meaning, their shapes, and whether results are stored or added: tensor/layer_kernels.h. */

#include "kernels/isa/parts.h"
#include "tensor/layer_kernels.h"

/* layernorm.c, rmsnorm.c */
void WEFT_ISA_NAME(wefti_layernorm_forward)(int64_t N, int64_t C, float eps,
                                            const float *x, const float *gain,
                                            const float *bias, float *y, float *mean,
                                            float *rstd);
void WEFT_ISA_NAME(wefti_layernorm_backward)(int64_t N, int64_t C, const float *x,
                                             const float *gain, const float *mean,
                                             const float *rstd, const float *dy,
                                             float *dx, float *dgain, float *dbias);
void WEFT_ISA_NAME(wefti_layernorm_forward_half)(int64_t N, int64_t C, float eps,
                                                 const float *x, const float *gain,
                                                 const float *bias, uint16_t *y,
                                                 float *mean, float *rstd);
void WEFT_ISA_NAME(wefti_layernorm_backward_half)(int64_t N, int64_t C, const float *x,
                                                  const float *gain, const float *mean,
                                                  const float *rstd, const uint16_t *dy,
                                                  float *dx, float *dgain, float *dbias);
void WEFT_ISA_NAME(wefti_rmsnorm_forward)(int64_t N, int64_t C, int64_t ld, float eps,
                                          const float *x, const float *gain, float *y,
                                          float *rstd);
void WEFT_ISA_NAME(wefti_rmsnorm_backward)(int64_t N, int64_t C, int64_t ld,
                                           const float *x, const float *gain,
                                           const float *rstd, const float *dy, float *dx,
                                           float *dgain);

/* activation.c */
void WEFT_ISA_NAME(wefti_gelu_forward)(int64_t n, const float *x, float *y);
void WEFT_ISA_NAME(wefti_gelu_backward)(int64_t n, const float *x, const float *dy,
                                        float *dx);
void WEFT_ISA_NAME(wefti_gelu_erf_forward)(int64_t n, const float *x, float *y);
void WEFT_ISA_NAME(wefti_gelu_erf_backward)(int64_t n, const float *x, const float *dy,
                                            float *dx);
void WEFT_ISA_NAME(wefti_relu_forward)(int64_t n, const float *x, float *y);
void WEFT_ISA_NAME(wefti_relu_backward)(int64_t n, const float *x, const float *dy,
                                        float *dx);
void WEFT_ISA_NAME(wefti_geglu_forward)(int64_t N, int64_t F, const float *gu, float *y);
void WEFT_ISA_NAME(wefti_geglu_backward)(int64_t N, int64_t F, const float *gu,
                                         const float *dy, float *dgu);
void WEFT_ISA_NAME(wefti_swiglu_forward)(int64_t N, int64_t F, const float *gu, float *y);
void WEFT_ISA_NAME(wefti_swiglu_backward)(int64_t N, int64_t F, const float *gu,
                                          const float *dy, float *dgu);

/* curve.c */
void WEFT_ISA_NAME(wefti_gate_forward)(wefti_curve curve, int64_t N, int64_t F,
                                       const uint16_t *gu, uint16_t *y);
void WEFT_ISA_NAME(wefti_gate_backward)(wefti_curve curve, int64_t N, int64_t F,
                                        const uint16_t *gu, const uint16_t *dy,
                                        uint16_t *dgu);

/* rope.c, dropout.c */
void WEFT_ISA_NAME(wefti_rope)(int64_t B, int64_t T, int64_t n_heads, int64_t D,
                               int64_t ld, const float *cos_sin, bool inverse, float *x);
void WEFT_ISA_NAME(wefti_dropout)(int64_t n, float rate, uint64_t seed, uint64_t step,
                                  uint64_t first, float *x);

/* attention.c */
int64_t WEFT_ISA_NAME(wefti_attention_scratch)(const wefti_attention_shape *s,
                                               int threads);
void WEFT_ISA_NAME(wefti_attention_forward)(const wefti_attention_shape *s,
                                            const float *q, const float *k,
                                            const float *v, float *o, float *lse,
                                            float *scratch);
void WEFT_ISA_NAME(wefti_attention_backward)(const wefti_attention_shape *s,
                                             const float *q, const float *k,
                                             const float *v, const float *o,
                                             const float *lse, const float *d_o,
                                             float *dq, float *dk, float *dv,
                                             float *scratch);

/* attention_bf16.c */
int64_t WEFT_ISA_NAME(wefti_attention_scratch_bf16)(const wefti_attention_shape *s,
                                                    int threads);
void WEFT_ISA_NAME(wefti_attention_forward_bf16)(const wefti_attention_shape *s,
                                                 const float *q, const float *k,
                                                 const float *v, float *o, float *lse,
                                                 float *scratch);
void WEFT_ISA_NAME(wefti_attention_backward_bf16)(const wefti_attention_shape *s,
                                                  const float *q, const float *k,
                                                  const float *v, const float *o,
                                                  const float *lse, const float *d_o,
                                                  float *dq, float *dk, float *dv,
                                                  float *scratch);

/* attention_amx.c */
bool WEFT_ISA_NAME(wefti_attention_halves_amx)(const wefti_attention_shape *s);
int64_t WEFT_ISA_NAME(wefti_attention_scratch_amx)(const wefti_attention_shape *s,
                                                   int threads);
void WEFT_ISA_NAME(wefti_attention_forward_amx)(const wefti_attention_shape *s,
                                                const float *q, const float *k,
                                                const float *v, float *o, float *lse,
                                                float *scratch);
void WEFT_ISA_NAME(wefti_attention_backward_amx)(const wefti_attention_shape *s,
                                                 const float *q, const float *k,
                                                 const float *v, const float *o,
                                                 const float *lse, const float *d_o,
                                                 float *dq, float *dk, float *dv,
                                                 float *scratch);

/* embed.c, head.c */
void WEFT_ISA_NAME(wefti_embed_forward)(int64_t N, int64_t T, int64_t C,
                                        const int32_t *token, const float *table,
                                        const float *pos, float *y);
void WEFT_ISA_NAME(wefti_embed_backward)(int64_t N, int64_t T, int64_t C,
                                         const int32_t *token, const float *dy,
                                         float *dtable, float *dpos);
int64_t WEFT_ISA_NAME(wefti_head_scratch)(int64_t N, int64_t V, int threads);
int64_t WEFT_ISA_NAME(wefti_head_scratch_bf16)(int64_t N, int64_t V, int threads);
int64_t WEFT_ISA_NAME(wefti_head_scratch_amx)(int64_t N, int64_t V, int threads);
void WEFT_ISA_NAME(wefti_head_loss)(int64_t N, int64_t C, int64_t V, const float *x,
                                    const float *w, const int32_t *target, float cap,
                                    float grad_scale, double *loss_sum, float *dx,
                                    float *dw, bool fresh, float *scratch);
void WEFT_ISA_NAME(wefti_head_loss_bf16)(int64_t N, int64_t C, int64_t V, const float *x,
                                         const float *w, const int32_t *target, float cap,
                                         float grad_scale, double *loss_sum, float *dx,
                                         float *dw, bool fresh, float *scratch);
void WEFT_ISA_NAME(wefti_head_loss_amx)(int64_t N, int64_t C, int64_t V, const float *x,
                                        const float *w, const int32_t *target, float cap,
                                        float grad_scale, double *loss_sum, float *dx,
                                        float *dw, bool fresh, float *scratch);
void WEFT_ISA_NAME(wefti_cap_logits)(int64_t n, float cap, float *logit);
