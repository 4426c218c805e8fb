/* SPDX-License-Identifier: MIT */
#pragma once

#include "model/model.h"

/* The parsed weft_model_config.rope_scaling. */
typedef enum wefti_rope_rule {
    WEFTI_ROPE_DEFAULT,
    WEFTI_ROPE_LINEAR,
    WEFTI_ROPE_LLAMA3,
    WEFTI_ROPE_YARN
} wefti_rope_rule;

typedef struct wefti_rope_scaling {
    wefti_rope_rule rule;
    double factor, low, high, original, fast, slow;
    double attention; /* yarn: factor of cosines and sines; 0: as in the paper */
    bool truncate;    /* yarn: bounds are rounded outwards */
} wefti_rope_scaling;

/* Refuses an unknown rule, and numbers that are invalid or missing. */
weft_status wefti_rope_scaling_read(weft_ctx *ctx, const char *text,
                                    wefti_rope_scaling *out) WEFT_CHECKED;

/* Writes a rule as text. */
void wefti_rope_scaling_text(const wefti_rope_scaling *scaling, char *out,
                             size_t out_size);

/* Columns of a head that are rotated. */
int64_t wefti_rotary_columns(const weft_model_config *config);

/* Fills model->tables: [context][R] for all layers; with rope_local_theta followed by a
 * second table, for the layers with a window. */
weft_status wefti_rotary_build(weft_ctx *ctx, weft_model *model) WEFT_CHECKED;
