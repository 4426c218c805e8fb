/* SPDX-License-Identifier: MIT */
#pragma once

#include "job/job.h"

/* What a job asks of the engine: models that weft computes itself. train/offer.c is the
 * engine's; no_engine.c takes its place in a library without the engine (WEFT_ENGINE=OFF). */
typedef struct wefti_engine {
    /* The kind of that name, or NULL. */
    const wefti_model_ops *(*find)(const char *kind);
    /* As weft_model_create. */
    weft_status (*create)(weft_ctx *ctx, const weft_model_config *config,
                          weft_model **out);
    /* Replaces the job's model by one of which a part is trained, if the configuration
     * says so. */
    weft_status (*adapt)(weft_ctx *ctx, wefti_job *job);
    /* Ids of the tokenizer in a file. */
    weft_status (*count_ids)(weft_ctx *ctx, const char *path, int64_t *n);
} wefti_engine;

extern const wefti_engine wefti_engine_here;
