/* SPDX-License-Identifier: MIT */
/* Trials of a library that was built without the engine: tensors of the configured size are
 * exchanged and optimized, and nothing computes them. */
#include "base/memory.h"
#include "mesh/mesh.h"
#include "probe/trial.h"

#ifndef WEFT_ENGINE

#include <unistd.h>

static weft_status begin(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                         wefti_probe_trial *out) {
    wefti_bootstrap *b;
    *out = (wefti_probe_trial){0};
    WEFT_TRY(wefti_alloc(ctx, sizeof *b, "a probe", &b));
    out->prepared = b;
    WEFT_TRY(wefti_bootstrap_join(ctx, mesh, b));
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    long ranks = mesh ? weft_mesh_look(mesh)->ranks_here
                      : (long)(config->mesh.nodes * config->mesh.ranks_per_node);
    out->leads = wefti_bootstrap_leads(b);
    out->threads = (int)config->mesh.threads;
    if (out->threads == 0) out->threads = cores > ranks ? (int)(cores / ranks) : 1;
    return WEFT_OK;
}

static weft_status end(weft_ctx *ctx, wefti_probe_trial *trial) {
    if (trial->prepared) wefti_bootstrap_leave(ctx, trial->prepared);
    wefti_free(ctx, trial->prepared);
    return WEFT_OK;
}

/* The tensors of a plain decoder: a table, and four matrices and a vector of each block. */
static weft_status job(weft_ctx *ctx, const weft_config *config, wefti_job **out) {
    enum { EACH = 5 };
    int64_t C = config->model.width,
            V = config->model.vocab > 0 ? config->model.vocab : 256;
    int n = 1 + EACH * (int)config->model.layers;
    const int64_t rows[EACH] = {3 * C, C, 4 * C, C, C}, cols[EACH] = {C, C, C, 4 * C, 1};
    wefti_foreign_tensor *tensors;
    weft_model *model;
    *out = NULL;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *tensors, "tensors", &tensors));
    tensors[0] = (wefti_foreign_tensor){"embedding", V, C, true};
    for (int i = 1; i < n; i++)
        tensors[i] = (wefti_foreign_tensor){"block", rows[(i - 1) % EACH],
                                            cols[(i - 1) % EACH], true};
    weft_status status = wefti_model_foreign(ctx, tensors, n, &model);
    wefti_free(ctx, tensors);
    WEFT_TRY(status);
    WEFT_TRY(wefti_job_create_for(ctx, config, model, NULL, out));
    (*out)->as.local_rows = false;
    return WEFT_OK;
}

const wefti_probe_trials wefti_probe_trials_here = {begin, end, job, NULL};

#endif
