/* SPDX-License-Identifier: MIT */
/* Units in backward order, so that what becomes ready first lies first, and a bucket of
 * neighbouring units is one contiguous range of parameters, gradients and state. */
#include "base/memory.h"
#include "train/plan.h"

static weft_status allocate(weft_ctx *ctx, const wefti_plan *plan, wefti_arrangement *a) {
    int n = a->n_units;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(wefti_layout), "layouts", &a->layouts));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int64_t), "layouts", &a->unit_offset));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int), "buckets", &a->bucket_of));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int64_t), "buckets", &a->bucket_offset));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int), "buckets", &a->bucket_last_unit));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(wefti_bucket), "buckets", &a->buckets));
    return wefti_alloc_n(ctx, plan->model->n_params, sizeof(wefti_piece), "pieces",
                         &a->pieces);
}

/* Appends unit u's blocks to the bucket; returns where the next piece goes. */
static wefti_piece *append_unit(wefti_arrangement *a, int u, int s, wefti_bucket *bucket,
                                wefti_piece *next) {
    const wefti_layout *layout = &a->layouts[u];
    for (int t = 0; t < layout->n_tensors; t++) {
        wefti_block block = wefti_layout_block(layout, s, t);
        if (block.n_rows == 0) continue;
        *next++ = (wefti_piece){block.n_rows, block.cols,
                                bucket->n_elements + block.shard_offset, block.decays};
        bucket->n_pieces++;
    }
    bucket->n_elements += layout->n_shard;
    return next;
}

static void arrange(const wefti_plan *plan, int s, wefti_arrangement *a) {
    const wefti_replicator_ops *ops = wefti_replicator_find(plan->replicator_config.kind);
    wefti_piece *next = a->pieces;
    bool open = false;
    for (int u = a->n_units - 1; u >= 0; u--) {
        int b = open ? a->n_buckets - 1 : a->n_buckets++;
        wefti_bucket *bucket = &a->buckets[b];
        if (!open) {
            *bucket = (wefti_bucket){.pieces = next};
            a->bucket_offset[b] = a->n_elements;
        }
        a->layouts[u] = wefti_plan_layout(plan, u, s);
        a->unit_offset[u] = a->n_elements;
        a->bucket_of[u] = b;
        a->bucket_last_unit[b] = u;
        next = append_unit(a, u, s, bucket, next);
        a->n_elements += a->layouts[u].n_shard;
        int64_t message = ops->wire_bytes(&plan->replicator_config, bucket, 2, 0);
        open = message < plan->config->mesh.min_message;
    }
}

weft_status wefti_arrangement_create(weft_ctx *ctx, const wefti_plan *plan, int s,
                                     wefti_arrangement **out) {
    *out = NULL;
    wefti_arrangement *a;
    WEFT_TRY(wefti_alloc(ctx, sizeof *a, "the arrangement", &a));
    a->n_units = plan->model->n_units;
    weft_status status = allocate(ctx, plan, a);
    if (status != WEFT_OK) {
        wefti_arrangement_destroy(ctx, a);
        return status;
    }
    arrange(plan, s, a);
    *out = a;
    return WEFT_OK;
}

void wefti_arrangement_destroy(weft_ctx *ctx, wefti_arrangement *a) {
    if (!a) return;
    void *blocks[] = {a->layouts,          a->unit_offset, a->bucket_of, a->bucket_offset,
                      a->bucket_last_unit, a->buckets,     a->pieces};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        wefti_free(ctx, blocks[i]);
    wefti_free(ctx, a);
}
