/* SPDX-License-Identifier: MIT */
/* What the engine offers to the library: models for a job, passes for a rank, tokens for a
 * probe. */
#include <weft/tokenizer.h>

#include "job/engine.h"
#include "model/model.h"
#include "train/adapting.h"

static weft_status count_ids(weft_ctx *ctx, const char *path, int64_t *n) {
    weft_tokenizer *tokenizer;
    *n = 0;
    WEFT_TRY(weft_tokenizer_load(ctx, path, &tokenizer));
    *n = weft_tokenizer_vocab(tokenizer);
    weft_tokenizer_destroy(ctx, tokenizer);
    return WEFT_OK;
}

const wefti_engine wefti_engine_here = {wefti_model_find, weft_model_create,
                                        wefti_job_adapt, count_ids};
