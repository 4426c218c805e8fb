/* SPDX-License-Identifier: MIT */
/* The fast tables of one instruction set: with products in f32, and with factors rounded
 * to bf16. The instruction set avx512 has a second pair, named amx. */
#include "tensor/isa/parts.h"
#include "tensor/isa/tiles.h"

#define NAME_TEXT2(isa) #isa
#define NAME_TEXT(isa) NAME_TEXT2(isa)

#define ENTRIES(table, rounded, suffix)                                                  \
    .name = table, .bf16 = &rounded,                                                     \
    .multiplies_bf16 = WEFT_ISA_NAME(wefti_multiplies_bf16),                             \
    .gemm = WEFT_ISA_NAME(wefti_gemm##suffix),                                           \
    .head_loss = WEFT_ISA_NAME(wefti_head_loss##suffix),                                 \
    .gate_forward = WEFT_ISA_NAME(wefti_gate_forward),                                   \
    .gate_backward = WEFT_ISA_NAME(wefti_gate_backward),                                 \
    .bias_grad_half = WEFT_ISA_NAME(wefti_bias_grad_half),                               \
    .bias_add = WEFT_ISA_NAME(wefti_bias_add),                                           \
    .bias_grad = WEFT_ISA_NAME(wefti_bias_grad),                                         \
    .accumulate = WEFT_ISA_NAME(wefti_accumulate), .add = WEFT_ISA_NAME(wefti_add),      \
    .scale = WEFT_ISA_NAME(wefti_scale), .clear = WEFT_ISA_NAME(wefti_clear),            \
    .sum_squares = WEFT_ISA_NAME(wefti_sum_squares),                                     \
    .layernorm_forward = WEFT_ISA_NAME(wefti_layernorm_forward),                         \
    .layernorm_backward = WEFT_ISA_NAME(wefti_layernorm_backward),                       \
    .layernorm_forward_half = WEFT_ISA_NAME(wefti_layernorm_forward_half),               \
    .layernorm_backward_half = WEFT_ISA_NAME(wefti_layernorm_backward_half),             \
    .rmsnorm_forward = WEFT_ISA_NAME(wefti_rmsnorm_forward),                             \
    .rmsnorm_backward = WEFT_ISA_NAME(wefti_rmsnorm_backward),                           \
    .gelu_forward = WEFT_ISA_NAME(wefti_gelu_forward),                                   \
    .gelu_backward = WEFT_ISA_NAME(wefti_gelu_backward),                                 \
    .gelu_erf_forward = WEFT_ISA_NAME(wefti_gelu_erf_forward),                           \
    .gelu_erf_backward = WEFT_ISA_NAME(wefti_gelu_erf_backward),                         \
    .relu_forward = WEFT_ISA_NAME(wefti_relu_forward),                                   \
    .relu_backward = WEFT_ISA_NAME(wefti_relu_backward),                                 \
    .swiglu_forward = WEFT_ISA_NAME(wefti_swiglu_forward),                               \
    .swiglu_backward = WEFT_ISA_NAME(wefti_swiglu_backward),                             \
    .geglu_forward = WEFT_ISA_NAME(wefti_geglu_forward),                                 \
    .geglu_backward = WEFT_ISA_NAME(wefti_geglu_backward),                               \
    .rope = WEFT_ISA_NAME(wefti_rope),                                                   \
    .attention_scratch = WEFT_ISA_NAME(wefti_attention_scratch##suffix),                 \
    .attention_forward = WEFT_ISA_NAME(wefti_attention_forward##suffix),                 \
    .attention_backward = WEFT_ISA_NAME(wefti_attention_backward##suffix),               \
    .embed_forward = WEFT_ISA_NAME(wefti_embed_forward),                                 \
    .embed_backward = WEFT_ISA_NAME(wefti_embed_backward),                               \
    .head_scratch = WEFT_ISA_NAME(wefti_head_scratch##suffix),                           \
    .cap_logits = WEFT_ISA_NAME(wefti_cap_logits),                                       \
    .dropout = WEFT_ISA_NAME(wefti_dropout), .adam = WEFT_ISA_NAME(wefti_adam),          \
    .accum_adam = WEFT_ISA_NAME(wefti_accum_adam), .sgd = WEFT_ISA_NAME(wefti_sgd)

#define OWN_NAME NAME_TEXT(WEFT_ISA)
#define OWN_ROUNDED WEFT_ISA_NAME(wefti_kernels_bf16)

const wefti_kernels WEFT_ISA_NAME(wefti_kernels) = {ENTRIES(OWN_NAME, OWN_ROUNDED, )};
const wefti_kernels WEFT_ISA_NAME(wefti_kernels_bf16) = {
    ENTRIES(OWN_NAME, OWN_ROUNDED, _bf16),
    .gemm_mixed = WEFT_ISA_NAME(wefti_gemm_mixed_bf16)};

#ifdef WEFT_TILES
/* The same table, so also its name, with products of bf16 by AMX. */
extern const wefti_kernels wefti_kernels_amx, wefti_kernels_amx_bf16;
const wefti_kernels wefti_kernels_amx = {ENTRIES(OWN_NAME, wefti_kernels_amx_bf16, )};
const wefti_kernels wefti_kernels_amx_bf16 = {
    ENTRIES("amx", wefti_kernels_amx_bf16, _amx),
    .gemm_mixed = WEFT_ISA_NAME(wefti_gemm_mixed_amx),
    .attention_halves = WEFT_ISA_NAME(wefti_attention_halves_amx)};
#endif
