/* SPDX-License-Identifier: MIT */
/* The exchange thread of a rank: bucket by bucket, replicate -> optimize. */
#include "train/rank.h"

void wefti_exchange_prepare(void *rank) {
    (void)rank;
    wefti_kernels_set_threads(1);
}

weft_status wefti_exchange_begin(void *rank, int64_t bucket) {
    wefti_rank *r = rank;
    const wefti_arrangement *a = r->arrangement;
    int b = (int)bucket;
    float *grad = r->grads + a->bucket_offset[b];
    int64_t n = a->buckets[b].n_elements;
    bool scaled = !r->clip_after_exchange && r->grad_scale != 1;
    if (scaled) r->plan->kernels->scale(n, r->grad_scale, grad);
    bool local_norm = r->apply_in_exchange && !r->clip_after_exchange;
    if (local_norm) r->squares[b] = r->plan->kernels->sum_squares(n, grad);
    return wefti_replicator_begin(r->replicator, b, r->step, r->lr, grad);
}

weft_status wefti_exchange_end(void *rank, int64_t bucket) {
    wefti_rank *r = rank;
    int b = (int)bucket;
    float *grad = r->grads + r->arrangement->bucket_offset[b];
    WEFT_TRY(wefti_replicator_end(r->replicator, b, r->step, grad));
    int64_t n = r->arrangement->buckets[b].n_elements;
    bool agreed_norm = r->apply_in_exchange && r->clip_after_exchange;
    if (agreed_norm) r->squares[b] = r->plan->kernels->sum_squares(n, grad);
    if (r->apply_in_exchange || !r->clip_after_exchange) wefti_exchange_apply(r, b);
    return WEFT_OK;
}

void wefti_exchange_apply(wefti_rank *r, int bucket) {
    const wefti_plan *plan = r->plan;
    const wefti_arrangement *a = r->arrangement;
    int64_t base = a->bucket_offset[bucket];
    const wefti_bucket *b = &a->buckets[bucket];
    wefti_optimizer_step step = {.count = r->step + 1, .lr = r->lr, .grad_scale = 1};
    if (r->clip_after_exchange) step.grad_scale = r->grad_scale;
    double moved = 0;
    for (int i = 0; i < b->n_pieces; i++) {
        const wefti_piece *piece = &b->pieces[i];
        wefti_span span = {base + piece->offset, piece->rows * piece->cols,
                           piece->decays};
        plan->optimizer->apply(&plan->optimizer_config, plan->kernels, &step, &span,
                               r->grads, r->params, r->state, &moved);
    }
    r->moved[bucket] = moved;
}
