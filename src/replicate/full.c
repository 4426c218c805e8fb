/* SPDX-License-Identifier: MIT */
/* d = mean over the R nodes of g: an all-reduce, exact to rounding and the same bits on
 * every node, because element i is summed in rank order by the one rank that owns its
 * range:
 *
 *     begin: send range j of g to rank j                       (R-1)/R of the bucket
 *     end:   sum my range over ranks 0..R-1, times 1/R; send it to all      (R-1)/R
 *
 * The same traffic as a ring all-reduce, in two latencies instead of 2. */
#include <string.h>

#include "base/memory.h"
#include "replicate/replicators.h"

typedef struct full {
    float **sums; /* [n_buckets] my range's mean, unchanged until peers have read it */
    int64_t *sent_step; /* [n_buckets] the step whose mean is on its way, or -1 */
} full;

static int64_t range_begin(int64_t n, int R, int r) { return n * r / R; }

static int64_t range_floats(int64_t n, int R, int r) {
    return range_begin(n, R, r + 1) - range_begin(n, R, r);
}

static int64_t full_state_floats(const wefti_replicator_config *config,
                                 const wefti_bucket *bucket) {
    (void)config;
    (void)bucket;
    return 0;
}

static int64_t full_wire_bytes(const wefti_replicator_config *config,
                               const wefti_bucket *bucket, int R, int rank) {
    (void)config;
    int64_t n = bucket->n_elements, own = range_floats(n, R, rank);
    return (n - own + (R - 1) * own) * (int64_t)sizeof(float);
}

static int64_t full_work_bytes(const wefti_replicator_config *config,
                               const wefti_bucket *buckets, int n_buckets, int R) {
    (void)config;
    int64_t n = 0;
    for (int b = 0; b < n_buckets && R > 1; b++) n += buckets[b].n_elements / R + 1;
    return n * (int64_t)sizeof(float);
}

static weft_status full_create(wefti_replicator *r) {
    int R = r->comm->size;
    if (r->config.every != 1)
        return weft_ctx_fail(
            r->ctx, WEFT_ERR_CONFIG,
            "replicator.every is %lld with full, expected 1: between exchanges "
            "the nodes' models would drift apart; demo can wait, full cannot",
            (long long)r->config.every);
    full *self;
    WEFT_TRY(wefti_alloc(r->ctx, sizeof *self, "the full replicator", &self));
    r->self = self;
    WEFT_TRY(wefti_alloc_n(r->ctx, r->n_buckets, sizeof(float *), "sums", &self->sums));
    WEFT_TRY(
        wefti_alloc_n(r->ctx, r->n_buckets, sizeof(int64_t), "steps", &self->sent_step));
    for (int b = 0; b < r->n_buckets; b++) self->sent_step[b] = -1;
    for (int b = 0; b < r->n_buckets && R > 1; b++)
        WEFT_TRY(wefti_alloc_n(r->ctx,
                               range_floats(r->buckets[b].n_elements, R, r->comm->rank),
                               sizeof(float), "all-reduce sums", &self->sums[b]));
    return WEFT_OK;
}

static weft_status full_begin(wefti_replicator *r, int bucket, int64_t step, float lr,
                              float *grad) {
    (void)lr;
    int R = r->comm->size, me = r->comm->rank;
    int64_t n = r->buckets[bucket].n_elements,
            tag = wefti_replicator_tag(step, bucket, 0);
    for (int k = 1; k < R; k++) {
        int peer = (me + k) % R;
        int64_t n_bytes = range_floats(n, R, peer) * (int64_t)sizeof(float);
        WEFT_TRY(
            wefti_comm_send(r->comm, peer, tag, grad + range_begin(n, R, peer), n_bytes));
    }
    return WEFT_OK;
}

/* sums[bucket] <- mean of my range over ranks, in rank order. */
static weft_status sum_own_range(wefti_replicator *r, int bucket, int64_t step,
                                 const float *grad) {
    full *self = r->self;
    int R = r->comm->size, me = r->comm->rank;
    int64_t n = r->buckets[bucket].n_elements,
            tag = wefti_replicator_tag(step, bucket, 0);
    int64_t mine = range_floats(n, R, me);
    float *sum = self->sums[bucket];
    int64_t sent = self->sent_step[bucket];
    if (sent >= 0)
        WEFT_TRY(wefti_comm_await(r->comm, wefti_replicator_tag(sent, bucket, 1)));
    memset(sum, 0, (size_t)mine * sizeof(float));
    for (int peer = 0; peer < R; peer++) {
        const void *view = grad + range_begin(n, R, me);
        if (peer != me)
            WEFT_TRY(wefti_comm_receive(r->comm, peer, tag, mine * (int64_t)sizeof(float),
                                        &view));
        r->kernels->accumulate(mine, view, sum);
        if (peer != me) wefti_comm_release(r->comm, peer, tag);
    }
    r->kernels->scale(mine, 1.0f / (float)R, sum);
    return WEFT_OK;
}

static weft_status collect_ranges(wefti_replicator *r, int bucket, int64_t step,
                                  float *grad) {
    full *self = r->self;
    int R = r->comm->size, me = r->comm->rank;
    int64_t n = r->buckets[bucket].n_elements,
            tag = wefti_replicator_tag(step, bucket, 1);
    for (int peer = 0; peer < R; peer++) {
        int64_t n_bytes = range_floats(n, R, peer) * (int64_t)sizeof(float);
        const void *view = self->sums[bucket];
        if (peer != me) WEFT_TRY(wefti_comm_receive(r->comm, peer, tag, n_bytes, &view));
        memcpy(grad + range_begin(n, R, peer), view, (size_t)n_bytes);
        if (peer != me) wefti_comm_release(r->comm, peer, tag);
    }
    return WEFT_OK;
}

static weft_status full_end(wefti_replicator *r, int bucket, int64_t step, float *grad) {
    full *self = r->self;
    int R = r->comm->size;
    if (R == 1) return WEFT_OK;
    int64_t n = r->buckets[bucket].n_elements,
            tag = wefti_replicator_tag(step, bucket, 1);
    WEFT_TRY(sum_own_range(r, bucket, step, grad));
    int64_t n_bytes = range_floats(n, R, r->comm->rank) * (int64_t)sizeof(float);
    WEFT_TRY(wefti_comm_send_all(r->comm, tag, self->sums[bucket], n_bytes));
    self->sent_step[bucket] = step;
    WEFT_TRY(wefti_comm_await(r->comm, wefti_replicator_tag(step, bucket, 0)));
    return collect_ranges(r, bucket, step, grad);
}

static void full_destroy(wefti_replicator *r) {
    full *self = r->self;
    if (!self) return;
    for (int b = 0; self->sums && b < r->n_buckets; b++)
        wefti_free(r->ctx, self->sums[b]);
    wefti_free(r->ctx, self->sums);
    wefti_free(r->ctx, self->sent_step);
    wefti_free(r->ctx, self);
}

const wefti_replicator_ops wefti_replicator_full = {
    .name = "full",
    .summary = "mean of the nodes' gradients (all-reduce); the exact baseline",
    .keeps_norm = true,
    .state_floats = full_state_floats,
    .wire_bytes = full_wire_bytes,
    .work_bytes = full_work_bytes,
    .create = full_create,
    .begin = full_begin,
    .end = full_end,
    .destroy = full_destroy,
};
