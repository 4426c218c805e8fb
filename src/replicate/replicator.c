/* SPDX-License-Identifier: MIT */
#include "replicate/replicator.h"

#include <string.h>

#include "base/memory.h"

const wefti_replicator_ops *wefti_replicator_find(const char *kind) {
    for (int i = 0; wefti_replicator_registry[i]; i++)
        if (strcmp(wefti_replicator_registry[i]->name, kind) == 0)
            return wefti_replicator_registry[i];
    return NULL;
}

static weft_status allocate_state(wefti_replicator *r) {
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_buckets, sizeof(float *), "replicator state",
                           &r->state));
    for (int b = 0; b < r->n_buckets; b++) {
        int64_t n = r->ops->state_floats(&r->config, &r->buckets[b]);
        if (n > 0)
            WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(float), "replicator state",
                                   &r->state[b]));
    }
    return r->ops->create(r);
}

weft_status wefti_replicator_create(weft_ctx *ctx, const wefti_replicator_config *config,
                                    const wefti_kernels *kernels, wefti_comm *comm,
                                    const wefti_bucket *buckets, int n_buckets,
                                    wefti_replicator **out) {
    *out = NULL;
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    if (!ops)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "unknown replicator '%s'",
                             config->kind);
    if (config->every < 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "replicator.every is %lld, expected 1 or more",
                             (long long)config->every);
    wefti_replicator *r;
    WEFT_TRY(wefti_alloc(ctx, sizeof *r, "the replicator", &r));
    *r = (wefti_replicator){.ops = ops,
                            .ctx = ctx,
                            .kernels = kernels,
                            .comm = comm,
                            .config = *config,
                            .n_buckets = n_buckets,
                            .buckets = buckets};
    weft_status status = allocate_state(r);
    if (status != WEFT_OK) {
        wefti_replicator_destroy(r);
        return status;
    }
    *out = r;
    return WEFT_OK;
}

void wefti_replicator_destroy(wefti_replicator *r) {
    if (!r) return;
    r->ops->destroy(r);
    for (int b = 0; r->state && b < r->n_buckets; b++) wefti_free(r->ctx, r->state[b]);
    wefti_free(r->ctx, r->state);
    wefti_free(r->ctx, r);
}

bool wefti_replicator_is_due(const wefti_replicator_config *config, int64_t step) {
    return step % config->every == 0;
}

weft_status wefti_replicator_begin(wefti_replicator *r, int bucket, int64_t step,
                                   float lr, float *grad) {
    return r->ops->begin(r, bucket, step, lr, grad);
}

weft_status wefti_replicator_end(wefti_replicator *r, int bucket, int64_t step,
                                 float *grad) {
    return r->ops->end(r, bucket, step, grad);
}

int64_t wefti_replicator_tag(int64_t step, int bucket, int stage) {
    return (step << 24) | ((int64_t)bucket << 3) | stage;
}
