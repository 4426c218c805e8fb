/* SPDX-License-Identifier: MIT */
/* What is asked of any model, whoever computes it: sizes of a row, arithmetic, names. */
#include "job/modelshape.h"

#include <fnmatch.h>

#include "base/memory.h"
#include "base/text.h"

void weft_model_destroy(weft_ctx *ctx, weft_model *model) {
    if (!model) return;
    if (model->fini) model->fini(ctx, model);
    WEFTI_FREE(ctx, model->tables, model->params, model->units, model);
}

int64_t weft_model_parameters(const weft_model *model) { return model->n_elements; }

double weft_model_flop_per_token(const weft_model *model, int64_t T) {
    double sum = 0;
    for (int u = 0; u < model->n_units; u++) sum += model->ops->unit_flop(model, u, T);
    return sum;
}

int64_t wefti_model_row_tokens(const weft_model *model, int64_t T) {
    const weft_model_config *c = &model->config;
    if (model->ops->input != WEFTI_INPUT_IMAGES) return T;
    return c->channels * c->image * c->image;
}

int64_t wefti_model_row_targets(const weft_model *model, int64_t T) {
    if (model->ops->input == WEFTI_INPUT_IMAGES) return 1;
    return model->ops->input == WEFTI_INPUT_PAIRS ? T - model->config.source : T;
}

bool wefti_param_is_in(const char *pattern, const wefti_param *param) {
    if (wefti_is(pattern, "@matrices")) return param->hidden;
    if (wefti_is(pattern, "@vectors")) return param->ndim == 1;
    if (wefti_is(pattern, "@tables")) return param->ndim == 2 && !param->hidden;
    return fnmatch(pattern, param->name, 0) == 0;
}
