/* SPDX-License-Identifier: MIT */
/* What the engine offers to the library: models for a job, passes for a rank, tokens for a
 * probe. */
#include <weft/tokenizer.h>

#include "job/engine.h"
#include "model/model.h"
#include "adapter/adapted.h"
#include "job/job.h"

/* Which part of the model is trained, by the sections model and adapter:
 *
 *     adapter.rank > 0     LoRA's matrices of adapter.targets, and all of adapter.save
 *     model.frozen         all but these tensors
 *     neither              everything */

/* Replaces the job's model by one of which a part is trained, if the configuration says so. */
static weft_status job_adapt(weft_ctx *ctx, wefti_job *job) {
    static const char *const usual[] = {"@matrices"};
    const weft_config *c = job->config;
    int64_t rank = c->adapter.rank;
    double alpha = c->adapter.alpha > 0 ? c->adapter.alpha : (double)rank;
    if (rank == 0 && c->adapter.init[0]) /* a run has its rank by now; a plan may not */
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "adapter.init is set, but adapter.rank is 0, expected the rank "
            "of %s",
            c->adapter.init);
    if (rank == 0 && c->model.frozen.n == 0) return WEFT_OK;
    if (job->as.local_rows)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "adapter.rank and model.frozen are of weft's own models; a "
                             "program gives the tensors that it trains");
    wefti_adapting what = {.rank = rank,
                           .scale = rank > 0 ? alpha / (double)rank : 1,
                           .dropout = c->adapter.dropout,
                           .targets = c->adapter.targets.items,
                           .n_targets = c->adapter.targets.n,
                           .saved = c->adapter.save.items,
                           .n_saved = c->adapter.save.n,
                           .frozen = c->model.frozen.items,
                           .n_frozen = c->model.frozen.n};
    if (what.n_targets == 0) {
        what.targets = usual;
        what.n_targets = 1;
    }
    weft_model *whole = job->model;
    job->model = NULL; /* taken */
    return wefti_model_adapt(ctx, whole, &what, &job->model);
}

static weft_status count_ids(weft_ctx *ctx, const char *path, int64_t *n) {
    weft_tokenizer *tokenizer;
    *n = 0;
    WEFT_TRY(weft_tokenizer_load(ctx, path, &tokenizer));
    *n = weft_tokenizer_vocab(tokenizer);
    weft_tokenizer_destroy(ctx, tokenizer);
    return WEFT_OK;
}

const wefti_engine wefti_engine_here = {wefti_model_find, weft_model_create, job_adapt,
                                        count_ids};
