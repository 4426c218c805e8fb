/* SPDX-License-Identifier: MIT */
/* The fast tables of layers of one instruction set, as kernels/isa/table.c has them of
 * products: in f32, rounded to bf16, and by AMX. */
#include "kernels/isa/tiles.h"
#include "tensor/isa/parts.h"

#define ENTRIES(suffix)                                                                  \
    .head_loss = WEFT_ISA_NAME(wefti_head_loss##suffix),                                 \
    .gate_forward = WEFT_ISA_NAME(wefti_gate_forward),                                   \
    .gate_backward = WEFT_ISA_NAME(wefti_gate_backward),                                 \
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
    .dropout = WEFT_ISA_NAME(wefti_dropout)

extern const wefti_layers WEFT_ISA_NAME(wefti_layers), WEFT_ISA_NAME(wefti_layers_bf16);
const wefti_layers WEFT_ISA_NAME(wefti_layers) = {ENTRIES()};
const wefti_layers WEFT_ISA_NAME(wefti_layers_bf16) = {
    ENTRIES(_bf16), .gemm_mixed = WEFT_ISA_NAME(wefti_gemm_mixed_bf16)};

#ifdef WEFT_TILES
extern const wefti_layers wefti_layers_amx_bf16;
const wefti_layers wefti_layers_amx_bf16 = {
    ENTRIES(_amx), .gemm_mixed = WEFT_ISA_NAME(wefti_gemm_mixed_amx),
    .attention_halves = WEFT_ISA_NAME(wefti_attention_halves_amx)};
#endif
