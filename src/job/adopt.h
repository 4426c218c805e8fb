/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>
#include <weft/model.h>

/* Reads the config.json of a model folder; complete, as weft_model_create leaves it. */
weft_status wefti_adopt_read(weft_ctx *ctx, const char *folder,
                             weft_model_config *out) WEFT_CHECKED;

/* Takes over what a folder in Hugging Face layout says of the model: the whole section of
 * keys; data.length shrinks to the model's context. Keys that are given and contradict the
 * folder are refused. */
weft_status wefti_adopt_model(weft_ctx *ctx, weft_config *config,
                              const char *folder) WEFT_CHECKED;

/* Refuses a folder whose tokenizer is there in another form than tokenizer.json: what it means
 * would be taken for bytes. */
weft_status wefti_adopt_other_tokenizer(weft_ctx *ctx, const char *folder) WEFT_CHECKED;

/* The folder's tokenizer.json, if it has one, unless data.tokenizer is given. A folder that has
 * none at all is of bytes. */
weft_status wefti_adopt_tokenizer(weft_ctx *ctx, weft_config *config,
                                  const char *folder) WEFT_CHECKED;
