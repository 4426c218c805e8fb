/* SPDX-License-Identifier: MIT */
#pragma once

/* The kernels of a fast table of layers, one file per family; table.c collects them. Their
 * meaning, their shapes, and whether results are stored or added: tensor/layer_kernels.h. */

#include "kernels/isa/parts.h"
#include "tensor/layer_kernels.h"

#define DECLARED(kernel) WEFTI_LAYER(kernel) WEFT_ISA_NAME(wefti_##kernel);
#define DECLARED_AS(kernel, suffix)                                                      \
    WEFTI_LAYER(kernel) WEFT_ISA_NAME(wefti_##kernel##suffix);
#define DECLARED_IN(suffix)                                                              \
    WEFTI_LAYERS_PRODUCTS(DECLARED_AS, suffix) WEFTI_LAYERS_ROOMS(DECLARED_AS, suffix)
WEFTI_LAYERS_ALIKE(DECLARED)
DECLARED_IN()
DECLARED_IN(_bf16)
DECLARED_IN(_amx)
WEFTI_LAYER(attention_halves) WEFT_ISA_NAME(wefti_attention_halves_amx);
#undef DECLARED_IN
#undef DECLARED_AS
#undef DECLARED
