/* SPDX-License-Identifier: MIT */
#pragma once

/* The kernels of a fast table, one file per family; table.c collects them. Their meaning,
 * their shapes, and whether results are stored or added: kernels/kernels.h. */

#include "kernels/isa.h"
#include "kernels/kernels.h"

#define DECLARED(kernel) WEFTI_KERNEL(kernel) WEFT_ISA_NAME(wefti_##kernel);
WEFTI_KERNELS_EACH(DECLARED)
WEFTI_KERNEL(gemm)
WEFT_ISA_NAME(wefti_gemm), WEFT_ISA_NAME(wefti_gemm_bf16), WEFT_ISA_NAME(wefti_gemm_amx);
WEFTI_KERNEL(multiplies_bf16) WEFT_ISA_NAME(wefti_multiplies_bf16);
#undef DECLARED

void WEFT_ISA_NAME(wefti_gemm_mixed_bf16)(const wefti_mixed *m);
void WEFT_ISA_NAME(wefti_gemm_mixed_amx)(const wefti_mixed *m);

/* table.c */
extern const wefti_kernels WEFT_ISA_NAME(wefti_kernels),
    WEFT_ISA_NAME(wefti_kernels_bf16);
