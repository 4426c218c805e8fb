/* SPDX-License-Identifier: MIT */
/* The fast tables of one instruction set: with products in f32, and with factors rounded
 * to bf16. The instruction set avx512 has a second pair, named amx. The engine's tables of
 * layers are named here and nowhere else in the library, nor are those of transforms. */
#include "kernels/isa/parts.h"
#include "kernels/isa/tiles.h"

#include <stddef.h>

#define NAME_TEXT2(isa) #isa
#define NAME_TEXT(isa) NAME_TEXT2(isa)

#ifdef WEFT_ENGINE
extern const struct wefti_layers WEFT_ISA_NAME(wefti_layers),
    WEFT_ISA_NAME(wefti_layers_bf16);
#define LAYERS(table) &table
#else
#define LAYERS(table) NULL
#endif

extern const struct wefti_spectrum_ops WEFT_ISA_NAME(wefti_spectrum_ops);

#define ENTRY(kernel) .kernel = WEFT_ISA_NAME(wefti_##kernel),
#define ENTRIES(table, rounded, suffix, layers_)                                         \
    WEFTI_KERNELS_EACH(ENTRY).name = table, .bf16 = &rounded, .layers = LAYERS(layers_), \
    .spectrum = &WEFT_ISA_NAME(wefti_spectrum_ops),                                      \
    .multiplies_bf16 = WEFT_ISA_NAME(wefti_multiplies_bf16),                             \
    .gemm = WEFT_ISA_NAME(wefti_gemm##suffix)

#define OWN_NAME NAME_TEXT(WEFT_ISA)
#define OWN_ROUNDED WEFT_ISA_NAME(wefti_kernels_bf16)
#define OWN_LAYERS WEFT_ISA_NAME(wefti_layers)

const wefti_kernels WEFT_ISA_NAME(wefti_kernels) = {
    ENTRIES(OWN_NAME, OWN_ROUNDED, , OWN_LAYERS)};
const wefti_kernels WEFT_ISA_NAME(wefti_kernels_bf16) = {
    ENTRIES(OWN_NAME, OWN_ROUNDED, _bf16, WEFT_ISA_NAME(wefti_layers_bf16))};

#ifdef WEFT_BASE_IS_EXACT
/* Under the name by which other processors have these bits. */
extern const wefti_kernels wefti_kernels_exact, wefti_kernels_exact_bf16;
const wefti_kernels wefti_kernels_exact = {
    ENTRIES("exact", wefti_kernels_exact_bf16, , OWN_LAYERS)};
const wefti_kernels wefti_kernels_exact_bf16 = {
    ENTRIES("exact", wefti_kernels_exact_bf16, _bf16, WEFT_ISA_NAME(wefti_layers_bf16))};
#endif

#ifdef WEFT_TILES
/* The same table, so also its name, with products of bf16 by AMX. */
#ifdef WEFT_ENGINE
extern const struct wefti_layers wefti_layers_amx_bf16;
#endif
extern const wefti_kernels wefti_kernels_amx, wefti_kernels_amx_bf16;
const wefti_kernels wefti_kernels_amx = {
    ENTRIES(OWN_NAME, wefti_kernels_amx_bf16, , OWN_LAYERS)};
const wefti_kernels wefti_kernels_amx_bf16 = {
    ENTRIES("amx", wefti_kernels_amx_bf16, _amx, wefti_layers_amx_bf16)};
#endif
