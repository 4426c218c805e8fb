/* SPDX-License-Identifier: MIT */
/* The front of every replicator: finds the kind, checks the knobs, allocates its state arrays,
 * skips steps that are not due, and passes on. */
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
    int64_t n = 0;
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_buckets, sizeof(int64_t), "replicator state",
                           &r->bucket_at));
    for (int b = 0; b < r->n_buckets; b++) {
        r->bucket_at[b] = n;
        n += r->buckets[b].n_elements;
    }
    for (const char *const *name = r->ops->states(&r->config); *name;
         name++, r->n_states++)
        WEFT_TRY(wefti_alloc_n(r->ctx, n, sizeof(float), "replicator state",
                               &r->state[r->n_states]));
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
    for (int i = 0; i < r->n_states; i++) wefti_free(r->ctx, r->state[i]);
    wefti_free(r->ctx, r->bucket_at);
    wefti_free(r->ctx, r);
}

int64_t wefti_replicator_wire_bytes(const wefti_replicator_config *config,
                                    const wefti_bucket *bucket, int R, int from, int to) {
    const wefti_replicator_ops *ops = wefti_replicator_find(config->kind);
    int n_rounds = from == to ? 0 : ops->rounds(config, bucket, R);
    int64_t n_bytes = 0;
    for (int round = 0; round < n_rounds; round++)
        n_bytes += ops->round_bytes(config, bucket, R, round, round ? from : to);
    return n_bytes;
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

weft_status wefti_replicator_combine(wefti_replicator *r, int bucket, int64_t step,
                                     float *grad) {
    bool due = wefti_replicator_is_due(&r->config, step);
    return r->ops->combine && due ? r->ops->combine(r, bucket, step, grad) : WEFT_OK;
}

wefti_cover wefti_replicator_cover(const wefti_replicator *r, int bucket, int piece,
                                   int64_t step) {
    int64_t due_so_far = step / r->config.every + 1;
    if (!wefti_replicator_is_due(&r->config, step))
        return (wefti_cover){.count = due_so_far};
    if (r->ops->cover) return r->ops->cover(r, bucket, piece, step);
    return (wefti_cover){.all = true, .count = due_so_far};
}

float *wefti_replicator_state(const wefti_replicator *r, int i, int bucket) {
    return r->state[i] + r->bucket_at[bucket];
}
