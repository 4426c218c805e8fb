/* SPDX-License-Identifier: MIT */
#pragma once

/* The kernels of a fast table, one file per family; table.c collects them. Their meaning,
 * their shapes, and whether results are stored or added: kernels/kernels.h. */

#include "kernels/isa.h"
#include "kernels/kernels.h"

/* gemm.c */
void WEFT_ISA_NAME(wefti_gemm)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                               float alpha, const float *A, int64_t lda, const float *B,
                               int64_t ldb, float beta, float *C, int64_t ldc);

/* gemm_bf16.c */
void WEFT_ISA_NAME(wefti_gemm_bf16)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                                    float alpha, const float *A, int64_t lda,
                                    const float *B, int64_t ldb, float beta, float *C,
                                    int64_t ldc);
void WEFT_ISA_NAME(wefti_gemm_mixed_bf16)(const wefti_mixed *m);
bool WEFT_ISA_NAME(wefti_multiplies_bf16)(void);

/* gemm_amx.c */
void WEFT_ISA_NAME(wefti_gemm_amx)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                                   float alpha, const float *A, int64_t lda,
                                   const float *B, int64_t ldb, float beta, float *C,
                                   int64_t ldc);

void WEFT_ISA_NAME(wefti_gemm_mixed_amx)(const wefti_mixed *m);

/* elementwise.c */
void WEFT_ISA_NAME(wefti_bias_add)(int64_t N, int64_t C, const float *b, float *y);
void WEFT_ISA_NAME(wefti_bias_grad)(int64_t N, int64_t C, const float *dy, float *db);
void WEFT_ISA_NAME(wefti_bias_grad_half)(int64_t N, int64_t C, const uint16_t *dy,
                                         float *db);
void WEFT_ISA_NAME(wefti_accumulate)(int64_t n, const float *a, float *y);
void WEFT_ISA_NAME(wefti_add)(int64_t n, const float *a, const float *b, float *y);
void WEFT_ISA_NAME(wefti_scale)(int64_t n, float s, float *y);
void WEFT_ISA_NAME(wefti_clear)(int64_t n, float *y);
double WEFT_ISA_NAME(wefti_sum_squares)(int64_t n, const float *x);

/* optimizer.c */
double WEFT_ISA_NAME(wefti_adam)(int64_t n, const wefti_adam_step *s, const float *g,
                                 float *p, float *m, float *v);
double WEFT_ISA_NAME(wefti_accum_adam)(int64_t n, const wefti_accum_step *s,
                                       const float *g, float *p, float *m, float *v,
                                       float *a);
double WEFT_ISA_NAME(wefti_sgd)(int64_t n, float lr, float grad_scale, float decay,
                                const float *d, float *p);

/* table.c */
extern const wefti_kernels WEFT_ISA_NAME(wefti_kernels),
    WEFT_ISA_NAME(wefti_kernels_bf16);
