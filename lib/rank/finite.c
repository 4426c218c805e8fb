/* SPDX-License-Identifier: MIT */
/* What is not finite stays where it is. A sum of squares that is not finite shows it, and
 * that sum is there anyway, or costs one pass over a bucket before it is sent:
 *
 *     gradient      its norm, before any of it is sent (step/schedule.c)
 *     parameters    the norm of the optimizer's step, before the mixer sends them
 *     loss          the rank's own, before its status is sent
 *
 * The rank fails before it has sent such a bucket. Where the others go on without it, it
 * leaves, and comes back with their parameters and state (mesh/elastic_return.c). */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>

#include "comm/worker.h"
#include "mesh/elastic.h"
#include "rank/rank.h"

/* The tensor of the first element that is not finite; NULL: all are. */
static const char *find_tensor(const wefti_rank *r, int bucket, const float *x) {
    const wefti_bucket *b = &r->arrangement->buckets[bucket];
    for (int i = 0; i < b->n_pieces; i++) {
        const wefti_piece *piece = &b->pieces[i];
        for (int64_t k = 0; k < piece->rows * piece->cols; k++)
            if (!isfinite(x[piece->offset + k]))
                return r->job->model->params[piece->tensor].name;
    }
    return NULL;
}

weft_status wefti_rank_check_finite(wefti_rank *r, int bucket, const float *x,
                                    double squares) {
    if (isfinite(squares) || r->replays) return WEFT_OK;
    const char *tensor = find_tensor(r, bucket, x);
    if (!tensor) return WEFT_OK;
    bool moved = x == r->params + r->arrangement->bucket_offset[bucket];
    const char *what = r->now.lost_loss ? "loss is"
                       : moved          ? "parameters are"
                                        : "gradient is";
    return weft_ctx_fail(
        r->ctx, WEFT_ERR_NUMERIC,
        "the %s not finite at step %lld (learning rate %g): bucket %d, %s", what,
        (long long)r->step + 1, (double)r->now.lr, bucket, tensor);
}

/* The exchange thread, or else the gradient, says which tensor it is. */
weft_status wefti_rank_check_loss(wefti_rank *r) {
    const wefti_arrangement *a = r->arrangement;
    if (isfinite(r->now.status.loss_sum) || r->replays) return WEFT_OK;
    atomic_store(&r->now.lost_loss, true);
    WEFT_TRY(wefti_worker_wait(r->exchange.worker, r->exchange.last_ticket,
                               &r->now.tally.wait_s));
    for (int b = 0; b < a->n_buckets; b++)
        WEFT_TRY(
            wefti_rank_check_finite(r, b, r->grads + a->bucket_offset[b], (double)NAN));
    return weft_ctx_fail(r->ctx, WEFT_ERR_NUMERIC,
                         "the loss is not finite at step %lld (learning rate %g)",
                         (long long)r->step + 1, (double)r->now.lr);
}

weft_status wefti_wrong_end(weft_ctx *ctx, weft_mesh *mesh) {
    char sentence[900];
    if (mesh && mesh->elastic) {
        wefti_elastic_note(mesh, WEFTI_FACT_WRONG);
        return WEFT_ERR_NUMERIC;
    }
    snprintf(sentence, sizeof sentence, "%s", weft_ctx_message(ctx));
    weft_ctx_clear(ctx);
    return weft_ctx_fail(ctx, WEFT_ERR_NUMERIC, "%s; the last checkpoint is as it was",
                         sentence);
}
