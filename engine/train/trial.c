/* SPDX-License-Identifier: MIT */
/* The trials of the engine: it prepares as for a benchmark, and computes the steps of the
 * configured model. */
#include "probe/trial.h"
#include "passes/passes.h"
#include "train/prepare.h"

static weft_status begin(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                         wefti_probe_trial *out) {
    wefti_prepared *p;
    *out = (wefti_probe_trial){0};
    WEFT_TRY(wefti_prepare(ctx, mesh, config, WEFTI_PREPARE_BENCH, &p));
    *out = (wefti_probe_trial){p->job->run.threads, wefti_bootstrap_leads(&p->bootstrap),
                               p};
    return WEFT_OK;
}

static weft_status end(weft_ctx *ctx, wefti_probe_trial *trial) {
    return wefti_prepared_destroy(ctx, trial->prepared);
}

static weft_status job(weft_ctx *ctx, const weft_config *config, wefti_job **out) {
    return wefti_job_create(ctx, config, NULL, wefti_job_vocab(config), out);
}

const wefti_probe_trials wefti_probe_trials_here = {begin, end, job,
                                                    wefti_rank_init_params};
