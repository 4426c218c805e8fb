/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>
#include <weft/model.h>

/* Reads the config.json of a model folder; the result is complete, as weft_model_create
 * leaves it. */
weft_status wefti_adopt_read(weft_ctx *ctx, const char *folder,
                             weft_model_config *out) WEFT_CHECKED;

/* Takes over what a folder in Hugging Face layout says about the model: the whole section
 * of keys; data.length shrinks to the model's context. Keys that are given and contradict
 * the folder are refused. */
weft_status wefti_adopt_model(weft_ctx *ctx, weft_config *config,
                              const char *folder) WEFT_CHECKED;

/* Refuses a folder without tokenizer.json, unless its model has the bytes' 256 ids: texts
 * would be read as bytes, which are other ids than those the model knows. */
weft_status wefti_adopt_bytes(weft_ctx *ctx, const char *folder,
                              int64_t vocab) WEFT_CHECKED;

/* Takes over the folder's tokenizer.json, if it has one, unless data.tokenizer is given.
 * A folder without any tokenizer is read as bytes (wefti_adopt_bytes). */
weft_status wefti_adopt_tokenizer(weft_ctx *ctx, weft_config *config,
                                  const char *folder) WEFT_CHECKED;
