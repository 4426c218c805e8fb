/* SPDX-License-Identifier: MIT */
/* The values that a run does not train: the whole model, read once and shared by all
 * ranks of the process.
 *
 *     adapters        model.init, which the checkpoints name and do not repeat; they hold
 *                     its hash, so that a run continues with the same base or not at all
 *     model.frozen    the checkpoint that is resumed, which holds all tensors; model.init;
 *                     or the seed's values */
#define _GNU_SOURCE
#include "runfiles/frozen.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include <xxhash.h>

#include "base/memory.h"
#include "passes/initial.h"
#include "runfiles/state.h"

int64_t wefti_frozen_bytes(const wefti_job *job) {
    const weft_model *whole = wefti_model_whole(job->model);
    if (whole == job->model) return 0;
    return (int64_t)wefti_alloc_cost((size_t)whole->n_elements * sizeof(float));
}

static weft_status read_units(weft_ctx *ctx, const weft_model *whole,
                              const wefti_weights *weights, float *at) {
    for (int u = 0; u < whole->n_units; u++) {
        const wefti_unit *unit = &whole->units[u];
        for (int p = 0; p < unit->n_params; p++) {
            const wefti_param *param = &unit->params[p];
            WEFT_TRY(wefti_initial_read(ctx, weights, param, 0, param->rows,
                                        at + param->offset));
        }
        at += unit->n_elements;
    }
    return WEFT_OK;
}

weft_status wefti_frozen_read(weft_ctx *ctx, const weft_model *whole, const char *folder,
                              wefti_base *base) {
    wefti_weights *weights;
    char *real = realpath(folder, NULL);
    snprintf(base->folder, sizeof base->folder, "%s", real ? real : folder);
    free(real);
    WEFT_TRY(wefti_initial_open(ctx, folder, whole, &weights));
    weft_status status = read_units(ctx, whole, weights, base->values);
    weft_status closed = wefti_weights_close(ctx, weights);
    base->hash = XXH3_64bits(base->values,
                             (size_t)whole->n_elements * sizeof *base->values);
    return status == WEFT_OK ? closed : status;
}

static void draw(const weft_model *whole, uint64_t seed, float *at) {
    for (int u = 0; u < whole->n_units; u++) {
        const wefti_unit *unit = &whole->units[u];
        for (int p = 0; p < unit->n_params; p++)
            wefti_model_init_rows(whole, seed, u, p, 0, unit->params[p].rows,
                                  at + unit->params[p].offset);
        at += unit->n_elements;
    }
}

weft_status wefti_frozen_load(weft_ctx *ctx, wefti_job *job, const char *folder,
                              bool on_text, wefti_base *base) {
    const weft_model *whole = wefti_model_whole(job->model);
    const char *init = job->config->model.init;
    bool adapters = wefti_model_has_adapters(job->model);
    char found[PATH_MAX];
    if (whole == job->model) return WEFT_OK;
    if (adapters && on_text && !init[0])
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "adapter.rank is %lld, but model.init names no model that "
                             "the adapters are of",
                             (long long)job->config->adapter.rank);
    WEFT_TRY(wefti_alloc_n(ctx, whole->n_elements, sizeof *base->values,
                           "frozen parameters", &base->values));
    wefti_model_lend(job->model, base);
    if (folder && !adapters) return wefti_frozen_read(ctx, whole, folder, base);
    if (!init[0]) {
        draw(whole, (uint64_t)job->config->run.seed, base->values);
        return WEFT_OK;
    }
    WEFT_TRY(wefti_state_locate(ctx, init, found));
    return wefti_frozen_read(ctx, whole, found, base);
}
