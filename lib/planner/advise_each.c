/* SPDX-License-Identifier: MIT */
/* Runs predictions on all cores: tasks are numbered, and each thread takes the next one
 * until none is left. Each task has a context of its own, so that errors and memory are
 * separate. If several tasks fail, the first one in the order of the tasks is reported,
 * whichever thread was faster. So the advice does not depend on the number of cores. */
#include <stdio.h>

#include "base/memory.h"
#include "planner/advise.h"

typedef struct outcome {
    weft_status status;
    char sentence[512];
} outcome;

static void do_task(wefti_task task, void *user, int64_t i, outcome *out) {
    weft_ctx *ctx;
    out->status = weft_ctx_create(&ctx);
    snprintf(out->sentence, sizeof out->sentence, "no memory left to make a plan");
    if (out->status != WEFT_OK) return;
    out->status = task(ctx, user, i);
    snprintf(out->sentence, sizeof out->sentence, "%s", weft_ctx_message(ctx));
    weft_ctx_destroy(ctx);
}

weft_status wefti_advise_each(wefti_adviser *a, int64_t n, wefti_task task, void *user) {
    outcome *outcomes;
    weft_status status = WEFT_OK;
    WEFT_TRY(wefti_alloc_n(a->ctx, n, sizeof *outcomes, "outcomes", &outcomes));
#pragma omp parallel for schedule(dynamic)
    for (int64_t i = 0; i < n; i++) do_task(task, user, i, &outcomes[i]);
    for (int64_t i = 0; i < n && status == WEFT_OK; i++)
        if (outcomes[i].status != WEFT_OK)
            status = weft_ctx_fail(a->ctx, outcomes[i].status, "%s",
                                   outcomes[i].sentence);
    wefti_free(a->ctx, outcomes);
    return status;
}
