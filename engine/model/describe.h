/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/model.h"

/* Hugging Face config.json of a model; the describe_json of the ops tables. A key of weft
 * that Hugging Face's classes keep but do not use: "resid_pdrop" outside gpt2. A llama
 * with qk_norm is not a Hugging Face llama: its model_type is "weft-llama". Token ids of
 * begin, end and padding are null: the tokenizer knows them. */
weft_status wefti_describe_gpt2(weft_ctx *ctx, const weft_model *model,
                                char **json) WEFT_CHECKED;
weft_status wefti_describe_t5(weft_ctx *ctx, const weft_model *model,
                              char **json) WEFT_CHECKED;
weft_status wefti_describe_vit(weft_ctx *ctx, const weft_model *model,
                               char **json) WEFT_CHECKED;
weft_status wefti_describe_decoder(weft_ctx *ctx, const weft_model *model,
                                   char **json) WEFT_CHECKED;
