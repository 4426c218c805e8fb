/* SPDX-License-Identifier: MIT */
/* The reference tables of layers: each kernel follows its definition literally, with sums in
 * double. Slow and single-threaded on purpose; the fast tables are tested against them. */
#include "tensor/reference_layers.h"

static double factor(const void *x, bool half, int64_t i) {
    if (half) return (double)wefti_f32_of_bf16(((const uint16_t *)x)[i]);
    return (double)wefti_reference_bf16(((const float *)x)[i]);
}

static void store_half(const wefti_mixed *p, int64_t at, double result) {
    float r = (float)result, y = r, slope;
    if (p->times) y = (float)(result * (double)wefti_f32_of_bf16(p->times[at]));
    if (p->slopes) {
        y = wefti_reference_curve(p->curve, r, &slope);
        p->slopes[at] = wefti_bf16(slope);
    }
    ((uint16_t *)p->C)[at] = wefti_bf16(y);
}

static void gemm_mixed(const wefti_mixed *p) {
    for (int64_t m = 0; m < p->M; m++) {
        for (int64_t n = 0; n < p->N; n++) {
            double sum = p->bias ? (double)p->bias[n] : 0;
            int64_t at = m * p->ldc + n;
            for (int64_t k = 0; k < p->K; k++)
                sum += factor(p->A, p->half_a, p->ta ? k * p->lda + m : m * p->lda + k) *
                       factor(p->B, p->half_b, p->tb ? n * p->ldb + k : k * p->ldb + n);
            if (p->half_c) {
                store_half(p, at, sum);
                continue;
            }
            if (p->plus) sum += (double)p->plus[at];
            if (p->beta != 0) sum += (double)p->beta * (double)((float *)p->C)[at];
            ((float *)p->C)[at] = (float)sum;
        }
    }
}

#define ENTRIES(head_loss_, attention_forward_, attention_backward_)                     \
    .head_loss = head_loss_, .layernorm_forward = wefti_reference_layernorm_forward,     \
    .layernorm_backward = wefti_reference_layernorm_backward,                            \
    .layernorm_forward_half = wefti_reference_layernorm_forward_half,                    \
    .layernorm_backward_half = wefti_reference_layernorm_backward_half,                  \
    .rmsnorm_forward = wefti_reference_rmsnorm_forward,                                  \
    .rmsnorm_backward = wefti_reference_rmsnorm_backward,                                \
    .gelu_forward = wefti_reference_gelu_forward,                                        \
    .gelu_backward = wefti_reference_gelu_backward,                                      \
    .gelu_erf_forward = wefti_reference_gelu_erf_forward,                                \
    .gelu_erf_backward = wefti_reference_gelu_erf_backward,                              \
    .relu_forward = wefti_reference_relu_forward,                                        \
    .relu_backward = wefti_reference_relu_backward,                                      \
    .gate_forward = wefti_reference_gate_forward,                                        \
    .gate_backward = wefti_reference_gate_backward,                                      \
    .swiglu_forward = wefti_reference_swiglu_forward,                                    \
    .swiglu_backward = wefti_reference_swiglu_backward,                                  \
    .geglu_forward = wefti_reference_geglu_forward,                                      \
    .geglu_backward = wefti_reference_geglu_backward, .rope = wefti_reference_rope,      \
    .attention_scratch = wefti_reference_attention_scratch,                              \
    .attention_forward = attention_forward_, .attention_backward = attention_backward_,  \
    .embed_forward = wefti_reference_embed_forward,                                      \
    .embed_backward = wefti_reference_embed_backward,                                    \
    .head_scratch = wefti_reference_head_scratch,                                        \
    .cap_logits = wefti_reference_cap_logits, .dropout = wefti_reference_dropout

const wefti_layers wefti_layers_reference = {ENTRIES(wefti_reference_head_loss,
                                                     wefti_reference_attention_forward,
                                                     wefti_reference_attention_backward)};
const wefti_layers wefti_layers_reference_bf16 = {
    ENTRIES(wefti_reference_head_loss_bf16, wefti_reference_attention_forward_bf16,
            wefti_reference_attention_backward_bf16),
    .gemm_mixed = gemm_mixed};
