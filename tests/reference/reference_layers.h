/* SPDX-License-Identifier: MIT */
#pragma once

/* The kernels of wefti_layers_reference that are not in the file of its table. Their
 * meaning, their shapes, and whether results are stored or added: tensor/layer_kernels.h. */

#include "reference/reference.h"
#include "tensor/layer_kernels.h"

#define DECLARED(kernel) WEFTI_LAYER(kernel) wefti_reference_##kernel;
#define DECLARED_AS(kernel, suffix) WEFTI_LAYER(kernel) wefti_reference_##kernel##suffix;
WEFTI_LAYERS_ALIKE(DECLARED)
WEFTI_LAYERS_ROOMS(DECLARED_AS, )
WEFTI_LAYERS_PRODUCTS(DECLARED_AS, )
WEFTI_LAYERS_PRODUCTS(DECLARED_AS, _bf16)
extern const wefti_layers wefti_layers_reference, wefti_layers_reference_bf16;
#undef DECLARED_AS
#undef DECLARED

/* A curve that is not gated, at x. */
float wefti_reference_curve(wefti_curve curve, float x, float *slope);
