/* SPDX-License-Identifier: MIT */
#pragma once

#include "checkpoint/safetensors.h"

/* The tensors of a model folder in Hugging Face layout: those of model.safetensors, or of
 * the files that model.safetensors.index.json lists. Tensors are numbered consecutively
 * over all files. Read-only. */
typedef struct wefti_weights wefti_weights;

/* Whether the folder contains either file. */
bool wefti_weights_here(const char *folder);

/* [out] *out owned by the caller; NULL on failure. */
weft_status wefti_weights_open(weft_ctx *ctx, const char *folder,
                               wefti_weights **out) WEFT_CHECKED;
/* The same for adapter_model.safetensors. */
weft_status wefti_weights_open_adapter(weft_ctx *ctx, const char *folder,
                                       wefti_weights **out) WEFT_CHECKED;
weft_status wefti_weights_close(weft_ctx *ctx, wefti_weights *weights) WEFT_CHECKED;

int wefti_weights_count(const wefti_weights *weights);
/* Index of the tensor of that name, or -1. */
int wefti_weights_find(const wefti_weights *weights, const char *name);
const wefti_tensor_spec *wefti_weights_spec(const wefti_weights *weights, int index);
/* The path for error messages: of the single file, or of the index. Borrowed. */
const char *wefti_weights_path(const wefti_weights *weights);

/* As wefti_safetensors_read_rows. */
weft_status wefti_weights_read_rows(weft_ctx *ctx, const wefti_weights *weights,
                                    int index, int64_t row_begin, int64_t n_rows,
                                    float *data) WEFT_CHECKED;
