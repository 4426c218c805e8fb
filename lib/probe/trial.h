/* SPDX-License-Identifier: MIT */
#pragma once

#include "rank/bootstrap.h"
#include "rank/rank.h"

/* What a probe asks of the engine, which measures itself: a run without text that is prepared as
 * any run is, and steps of the configured model. train/trial.c is the engine's; no_trial.c
 * takes its place in a library without the engine, where no step is measured. */
typedef struct wefti_probe_trial {
    int threads; /* of a rank */
    bool leads;  /* this is the first process */
    void *prepared;
} wefti_probe_trial;

typedef struct wefti_probe_trials {
    /* Checks memory, batch, and that all ranks have the same configuration. [out] *out for
     * end, also after a failure. Collective. */
    weft_status (*begin)(weft_ctx *ctx, weft_mesh *mesh, weft_config *config,
                         wefti_probe_trial *out);
    weft_status (*end)(weft_ctx *ctx, wefti_probe_trial *trial);
    /* The job of a configuration, without text. */
    weft_status (*job)(weft_ctx *ctx, const weft_config *config, wefti_job **out);
    /* Parameters to begin with; NULL: ranks compute no steps. */
    void (*init)(wefti_rank *r);
} wefti_probe_trials;

extern const wefti_probe_trials wefti_probe_trials_here;
