/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/model.h"

/* The contents of an adapter_config.json in PEFT's format. */
enum { WEFTI_BASE_NAME = 4096, WEFTI_SAVED_NAMES = 1024 };
typedef struct wefti_adapter_facts {
    int64_t rank;
    double scale;                  /* of the product B A */
    double dropout;                /* of its inputs, in training */
    char base[WEFTI_BASE_NAME];    /* base_model_name_or_path; "": not given */
    char saved[WEFTI_SAVED_NAMES]; /* modules_to_save: n_saved texts, each with its end */
    int n_saved;
} wefti_adapter_facts;

/* Reads an adapter_config.json. A key that requires more than LoRA's two matrices and
 * modules that are trained in full is refused, and named. `path` is for error messages. */
weft_status wefti_adapter_read(weft_ctx *ctx, const char *text, int64_t n_bytes,
                               const char *path, wefti_adapter_facts *out) WEFT_CHECKED;

/* Writes the adapter_config.json of a model with adapters. [out] *json owned by the
 * caller (wefti_free). */
weft_status wefti_adapter_describe(weft_ctx *ctx, const weft_model *model,
                                   const wefti_adapter_facts *facts,
                                   char **json) WEFT_CHECKED;
