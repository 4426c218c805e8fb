/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/inference.h>

#include "model/past.h"

/* A model without training, as inference.c and translate.c see it. */
struct weft_inference {
    weft_model *model;
    weft_tokenizer *tokenizer;
    const wefti_kernels *kernels;
    char *folder;                           /* of model and tokenizer; owned */
    float **params;                         /* [units] */
    float *x[2], *saved, *scratch, *logits; /* for B x T = capacity positions */
    int32_t *order;                         /* [V] for top-k */
    int64_t capacity_B, capacity_T;
    wefti_past past; /* its kv and cross are those of the first block that keeps any */
    int first_kept;  /* unit of that block */
    int64_t kept_B;
    bool whole_passes; /* nothing is kept, every token is a pass over the whole text */
    double accuracy;   /* of the last evaluation; NAN: none */
};

/* --- merged.c: an adapter and the model that it belongs to --- */

/* Finds the folder of an adapter's base: `base`, or if that is NULL the one that the
 * adapter names. [out] found: PATH_MAX bytes. */
weft_status wefti_merge_locate(weft_ctx *ctx, const char *folder, const char *base,
                               char *found) WEFT_CHECKED;

/* Fills inf->params with the merged parameters W0 + s B A; inf->model is the base's. */
weft_status wefti_merge_read(weft_ctx *ctx, weft_inference *inf, const char *folder,
                             const char *base) WEFT_CHECKED;

/* Makes room for B rows of T positions. */
weft_status wefti_inference_reserve(weft_ctx *ctx, weft_inference *inf, int64_t B,
                                    int64_t T) WEFT_CHECKED;

/* Makes room for keys and values of B sequences of `rows` positions, of all blocks that
 * decode; frees those of before. Floats: B rows 2KD for each block, and for a source, whose
 * length is the model's config.source, as much for each of its rows. */
weft_status wefti_inference_keep(weft_ctx *ctx, weft_inference *inf, int64_t B,
                                 int64_t rows) WEFT_CHECKED;

/* What unit u keeps. */
wefti_past wefti_inference_past(const weft_inference *inf, int u);

/* Sets how many positions of a row are a source; room that was made for another number is
 * freed. */
void wefti_inference_set_source(weft_ctx *ctx, weft_inference *inf, int64_t source);

/* The pass of unit u over rows whose x is in inf->x[(u + 1) % 2]; its y will be in
 * inf->x[u % 2]. */
wefti_pass wefti_inference_pass(weft_inference *inf, int u, int64_t B, int64_t T);
