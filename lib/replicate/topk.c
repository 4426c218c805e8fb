/* SPDX-License-Identifier: MIT */
/* Plain top-k with error feedback (arXiv 1704.05021, 1809.07599), the baseline of every
 * compressed method: demo without a transform.
 *
 *     m <- beta m + lr g        q <- the k largest of each chunk of c of m, coded
 *     m <- m - alpha q          d <- mean of q over the nodes, or its sign
 *
 * What is not sent, and what coding loses, stays in m. The message: sparse.h. */
#include <string.h>

#include "replicate/replicator.h"
#include "replicate/sparse.h"
#include "compress/signs.h"

static int64_t topk_round_bytes(const wefti_replicator_config *config,
                                const wefti_bucket *bucket, int R, int round, int owner) {
    (void)R, (void)round, (void)owner;
    return wefti_sparse_bytes(config, bucket);
}

static weft_status topk_encode(wefti_replicator *r, const wefti_round *round, int member,
                               unsigned char *out) {
    (void)member;
    float *m = wefti_replicator_state(r, 0, round->bucket);
    if (!r->offers) wefti_replicator_accumulate(r, round->bucket, round->from);
    wefti_sparse_encode(r, round, m, out);
    return WEFT_OK;
}

static weft_status topk_add(wefti_replicator *r, const wefti_round *round, int member,
                            const unsigned char *in) {
    (void)member;
    int64_t n = r->buckets[round->bucket].n_elements;
    if (round->counted == 0) memset(round->x, 0, (size_t)n * sizeof(float));
    return wefti_sparse_add(r, round, in, round->x);
}

static weft_status topk_finish(wefti_replicator *r, const wefti_round *round,
                               unsigned char *answer) {
    (void)answer;
    int64_t n = r->buckets[round->bucket].n_elements;
    r->kernels->scale(n, 1.0f / (float)round->weight, round->x);
    if (r->config.sign) wefti_signs_of(n, round->x, round->x);
    return WEFT_OK;
}

/* Used where nothing is measured. */
static wefti_touched topk_touched(const wefti_replicator_config *config, int R) {
    (void)config, (void)R;
    return (wefti_touched){.begin = 48, .combine_peer = 8, .end = 16};
}

const wefti_replicator_ops wefti_replicator_topk = {
    .name = "topk",
    .keys = wefti_sparse_keys,
    .method = "topk",
    .knobs = wefti_sparse_knobs,
    .label = wefti_sparse_label,
    .content = wefti_sparse_content,
    .touched = topk_touched,
    .floor_bytes = wefti_replicator_momentum_floor,
    .states = wefti_replicator_momentum_state,
    .rounds = wefti_replicator_one_round,
    .round_bytes = topk_round_bytes,
    .one_by_one = true,
    .work_bytes = wefti_sparse_work_bytes,
    .create = wefti_sparse_create,
    .kinds = {WEFTI_FRAME_TOPK},
    .encode = topk_encode,
    .add = topk_add,
    .finish = topk_finish,
    .offers = wefti_sparse_offers,
    .destroy = wefti_sparse_destroy,
};
