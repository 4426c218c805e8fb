/* SPDX-License-Identifier: MIT */
#pragma once

#include "checkpoint/weights.h"
#include "model/model.h"

/* Fails: the folder has no checkpoint and no weights that weft reads. */
weft_status wefti_initial_absent(weft_ctx *ctx, const char *folder) WEFT_CHECKED;

/* Opens the tensors of a model folder for a model: all of its parameters must be there in
 * their shapes, and no other tensor that a model would compute with. [out] *out owned by
 * the caller (wefti_weights_close); NULL on failure. */
weft_status wefti_initial_open(weft_ctx *ctx, const char *folder, const weft_model *model,
                               wefti_weights **out) WEFT_CHECKED;

/* Reads rows [row_begin, row_begin + n_rows) of a parameter of that model. */
weft_status wefti_initial_read(weft_ctx *ctx, const wefti_weights *weights,
                               const wefti_param *param, int64_t row_begin,
                               int64_t n_rows, float *out) WEFT_CHECKED;
