/* SPDX-License-Identifier: MIT */
/* The fast tables of layers of one instruction set, as kernels/isa/table.c has them of
 * products: in f32, rounded to bf16, and by AMX. */
#include "kernels/isa/tiles.h"
#include "tensor/isa/parts.h"

#define ENTRY(kernel) .kernel = WEFT_ISA_NAME(wefti_##kernel),
#define ENTRY_AS(kernel, suffix) .kernel = WEFT_ISA_NAME(wefti_##kernel##suffix),
#define ENTRIES(suffix)                                                                  \
    WEFTI_LAYERS_ALIKE(ENTRY)                                                            \
    WEFTI_LAYERS_PRODUCTS(ENTRY_AS, suffix) WEFTI_LAYERS_ROOMS(ENTRY_AS, suffix)

extern const wefti_layers WEFT_ISA_NAME(wefti_layers), WEFT_ISA_NAME(wefti_layers_bf16);
const wefti_layers WEFT_ISA_NAME(wefti_layers) = {ENTRIES()};
const wefti_layers WEFT_ISA_NAME(wefti_layers_bf16) = {
    ENTRIES(_bf16).gemm_mixed = WEFT_ISA_NAME(wefti_gemm_mixed_bf16)};

#ifdef WEFT_TILES
extern const wefti_layers wefti_layers_amx_bf16;
const wefti_layers wefti_layers_amx_bf16 = {
    ENTRIES(_amx).gemm_mixed = WEFT_ISA_NAME(wefti_gemm_mixed_amx),
    .attention_halves = WEFT_ISA_NAME(wefti_attention_halves_amx)};
#endif
