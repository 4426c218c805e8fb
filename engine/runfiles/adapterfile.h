/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/config.h>

#include "adapter/adapted.h"
#include "adapter/adapterjson.h"

/* A folder in PEFT's format: adapter_config.json and adapter_model.safetensors. */

/* Whether the folder holds an adapter and no whole model. */
bool wefti_adapter_here(const char *folder);

/* Reads adapter_config.json and lists the modules that the folder's tensors belong to.
 * [out] *modules: names one after another, each ended by a NUL, owned by the caller
 * (wefti_free). */
weft_status wefti_adapter_open(weft_ctx *ctx, const char *folder,
                               wefti_adapter_facts *facts, char **modules,
                               int *n_modules) WEFT_CHECKED;

/* Sets adapter.rank, alpha, dropout, targets and save from the folder, unless the
 * configuration gives them. */
weft_status wefti_adapter_adopt(weft_ctx *ctx, weft_config *config,
                                const char *folder) WEFT_CHECKED;

/* Writes the adapter_config.json of a model with adapters. */
weft_status wefti_adapter_write(weft_ctx *ctx, const weft_model *model,
                                const char *folder) WEFT_CHECKED;

/* Replaces *model, which it takes, by a model with the folder's adapters. On failure
 * *model is NULL or unchanged; the caller may destroy it in both cases. */
weft_status wefti_adapter_put_on(weft_ctx *ctx, const char *folder,
                                 weft_model **model) WEFT_CHECKED;

/* Checks that a checkpoint's base is this one, if its index.json says which one it
 * was. */
weft_status wefti_adapter_check_base(weft_ctx *ctx, const char *folder,
                                     const wefti_base *base) WEFT_CHECKED;
