/* SPDX-License-Identifier: MIT */
/* The engine of a library that was built without one. */
#include "job/engine.h"

#ifndef WEFT_ENGINE

static const wefti_model_ops *find(const char *kind) {
    (void)kind;
    return NULL;
}

static weft_status create(weft_ctx *ctx, const weft_model_config *config,
                          weft_model **out) {
    *out = NULL;
    return weft_ctx_fail(
        ctx, WEFT_ERR_CONFIG,
        "model.kind is %s, but this libweft was built without models of its own "
        "(WEFT_ENGINE=OFF); expected the program's tensors",
        config->kind ? config->kind : "not set");
}

static weft_status adapt(weft_ctx *ctx, wefti_job *job) {
    const weft_config *c = job->config;
    if (c->adapter.rank == 0 && !c->adapter.init[0] && c->model.frozen.n == 0)
        return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "adapter.rank and model.frozen are of weft's own models; a "
                         "program gives the tensors that it trains");
}

static weft_status count_ids(weft_ctx *ctx, const char *path, int64_t *n) {
    *n = 0;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s: this libweft was built without tokenizers "
                         "(WEFT_ENGINE=OFF)",
                         path);
}

const wefti_engine wefti_engine_here = {find, create, adapt, count_ids};

#endif
