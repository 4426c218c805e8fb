/* SPDX-License-Identifier: MIT */
/* Decoupled momentum (DeMo, arXiv 2411.19870; FlexDeMo, arXiv 2502.06728),
 * docs/methods.md section 3:
 *
 *     m <- beta m + lr g      q <- top-k per chunk of DCT(m), coded      m <- m - IDCT(q)
 *     Q <- per coefficient, mean over the ranks THAT SENT IT    d <- IDCT(Q), sign(d)
 *
 * Two routes give the same bits of d (docs/wire-format.md section 8):
 *
 *     gather   begin: q to all                  end: combine the R messages in rank order
 *     owner    begin: range j of q to rank j    combine: range me, answer to all
 *              end: d from the R answers
 *
 * This file is the phases; demo_batch.c is the arithmetic. */
#include <string.h>

#include "replicate/demo.h"
#include "replicate/replicators.h"
#include "wire/frame.h"

/* Stages of tags. */
enum { SENT, ANSWERED };

static const char *const *demo_states(const wefti_replicator_config *config) {
    static const char *const names[] = {"momentum", NULL};
    (void)config;
    return names;
}

/* An empty range or answer is no message. */
static int64_t framed(int64_t n_bytes) {
    return n_bytes > 0 ? WEFTI_FRAME_BYTES + n_bytes : 0;
}

static int demo_rounds(const wefti_replicator_config *config, const wefti_bucket *bucket,
                       int R) {
    wefti_demo_rules rules = wefti_demo_rules_make(config, R, NULL);
    return wefti_demo_by_owner(&rules, bucket) ? 2 : 1;
}

static int64_t demo_round_bytes(const wefti_replicator_config *config,
                                const wefti_bucket *bucket, int R, int round, int owner) {
    wefti_demo_rules rules = wefti_demo_rules_make(config, R, NULL);
    if (!wefti_demo_by_owner(&rules, bucket))
        return framed(wefti_demo_end(&rules, bucket).payload_bytes);
    wefti_demo_place begin = wefti_demo_edge(&rules, bucket, owner),
                     end = wefti_demo_edge(&rules, bucket, owner + 1);
    return framed(round ? end.answer_bytes - begin.answer_bytes
                        : end.payload_bytes - begin.payload_bytes);
}

static weft_status check_compression(weft_ctx *ctx,
                                     const wefti_replicator_config *config) {
    int64_t c = config->compression_chunk, k = config->compression_topk;
    int dims = config->compression_dims;
    if (dims != 1 && dims != 2)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "replicator.compression_dims is %d, expected 1 or 2", dims);
    if (c < 2 || c > 1024)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "replicator.compression_chunk is %lld, expected 2 to 1024",
                             (long long)c);
    if (k < 1 || k > (dims == 2 ? c * c : c))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "replicator.compression_topk is %lld, expected 1 to %lld",
                             (long long)k, (long long)(dims == 2 ? c * c : c));
    return WEFT_OK;
}

static weft_status check_coding(weft_ctx *ctx, const wefti_replicator_config *config) {
    int values = (int)config->values, indices = (int)config->indices;
    if (!(config->alpha > 0 && config->alpha <= 1))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "replicator.alpha is %g, expected above 0 and at most 1: "
                             "what is sent has to leave the momentum",
                             config->alpha);
    if (values < 0 || values >= WEFTI_VALUE_CODECS || indices < 0 ||
        indices >= WEFTI_INDEX_CODECS)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "replicator codecs %d and %d, expected names that "
                             "`weft train --help` lists",
                             values, indices);
    return WEFT_OK;
}

static weft_status demo_create(wefti_replicator *r) {
    WEFT_TRY(check_compression(r->ctx, &r->config));
    WEFT_TRY(check_coding(r->ctx, &r->config));
    return wefti_demo_room_create(r);
}

static wefti_momentum momentum_of(const wefti_replicator_config *config, float lr) {
    float decay = (float)config->compression_decay;
    return (wefti_momentum){.decay = decay,
                            .gain = config->ema ? (float)(1 - config->compression_decay)
                                                : lr};
}

/* A step that exchanges nothing: the momentum keeps the gradient. */
static void keep(const wefti_replicator *r, int64_t n, wefti_momentum momentum,
                 const float *g, float *m) {
    const wefti_demo *self = r->self;
    int threads = self->threads;
    (void)threads;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < n; i++) m[i] = momentum.decay * m[i] + momentum.gain * g[i];
}

static wefti_frame head(const wefti_replicator *r, int bucket, int64_t step) {
    return (wefti_frame){.kind = WEFTI_FRAME_DEMO,
                         .step = step,
                         .bucket = bucket,
                         .sender = r->comm->rank};
}

static int64_t payload_bytes(const wefti_demo_bucket *b, int range) {
    return b->edges[range + 1].payload_bytes - b->edges[range].payload_bytes;
}

static int64_t answer_bytes(const wefti_demo_bucket *b, int range) {
    return b->edges[range + 1].answer_bytes - b->edges[range].answer_bytes;
}

/* Where a range of this rank's message begins, with its head. */
static unsigned char *message_at(const wefti_demo_bucket *b, int range) {
    return b->message + range * WEFTI_FRAME_BYTES + b->edges[range].payload_bytes;
}

static weft_status send_range(const wefti_replicator *r, int bucket, int64_t step,
                              int range) {
    const wefti_demo *self = r->self;
    const wefti_demo_bucket *b = &self->buckets[bucket];
    unsigned char *message = message_at(b, range);
    wefti_frame frame = head(r, bucket, step);
    int64_t tag = wefti_comm_tag(step, bucket, SENT);
    frame.payload_bytes = payload_bytes(b, range);
    if (frame.payload_bytes == 0) return WEFT_OK;
    wefti_frame_encode(&frame, message);
    if (b->by_owner)
        return wefti_comm_send(r->comm, range, tag, message, framed(frame.payload_bytes));
    return wefti_comm_send_all(r->comm, tag, message, framed(frame.payload_bytes));
}

static weft_status send_ranges(const wefti_replicator *r, int bucket, int64_t step) {
    int R = r->comm->size, me = r->comm->rank;
    const wefti_demo *self = r->self;
    if (R == 1) return WEFT_OK;
    if (!self->buckets[bucket].by_owner) return send_range(r, bucket, step, 0);
    for (int k = 1; k < R; k++) WEFT_TRY(send_range(r, bucket, step, (me + k) % R));
    return WEFT_OK;
}

/* Waits until peers have read what was sent under `step`; -1: nothing was. */
static weft_status await_readers(const wefti_replicator *r, int bucket, int64_t step,
                                 int stage) {
    if (step < 0) return WEFT_OK;
    return wefti_comm_await(r->comm, wefti_comm_tag(step, bucket, stage));
}

static weft_status demo_begin(wefti_replicator *r, int bucket, int64_t step, float lr,
                              float *grad) {
    wefti_demo *self = r->self;
    wefti_demo_bucket *b = &self->buckets[bucket];
    uint64_t who = (uint64_t)r->comm->rank << 40 | (uint64_t)bucket << 20;
    wefti_demo_pass pass = {
        .r = r,
        .bucket = b,
        .n_ranges = b->n_ranges,
        .momentum = momentum_of(&r->config, lr),
        .rounding = {r->config.stochastic, r->config.seed, (uint64_t)step, who},
        .g = grad,
        .m = wefti_replicator_state(r, 0, bucket)};
    if (!wefti_replicator_is_due(&r->config, step)) {
        keep(r, r->buckets[bucket].n_elements, pass.momentum, grad, pass.m);
        return WEFT_OK;
    }
    WEFT_TRY(await_readers(r, bucket, b->sent_step, SENT));
    WEFT_TRY(wefti_demo_run(&pass, wefti_demo_send));
    b->sent_step = step;
    return send_ranges(r, bucket, step);
}

/* Fills views with every rank's payload of a range, checked. */
static weft_status receive_range(wefti_replicator *r, int bucket, int64_t step,
                                 int range) {
    wefti_demo *self = r->self;
    const wefti_demo_bucket *b = &self->buckets[bucket];
    wefti_frame frame = head(r, bucket, step);
    frame.payload_bytes = payload_bytes(b, range);
    int64_t tag = wefti_comm_tag(step, bucket, SENT), n = framed(frame.payload_bytes);
    for (int peer = 0; peer < r->comm->size; peer++) {
        const void *view = message_at(b, range);
        frame.sender = peer;
        if (peer != r->comm->rank) {
            WEFT_TRY(wefti_comm_receive(r->comm, peer, tag, n, &view));
            WEFT_TRY(wefti_frame_check(r->ctx, &frame, view, n));
        }
        self->views[peer] = (const unsigned char *)view + WEFTI_FRAME_BYTES;
    }
    return WEFT_OK;
}

static void release_range(const wefti_replicator *r, int bucket, int64_t step) {
    for (int peer = 0; peer < r->comm->size; peer++)
        if (peer != r->comm->rank)
            wefti_comm_release(r->comm, peer, wefti_comm_tag(step, bucket, SENT));
}

/* Combines a range into d, or into an answer. */
static weft_status combine_range(wefti_replicator *r, int bucket, int64_t step,
                                 wefti_demo_pass *pass, wefti_demo_work work) {
    if (payload_bytes(pass->bucket, pass->first_range) == 0) return WEFT_OK;
    WEFT_TRY(receive_range(r, bucket, step, pass->first_range));
    WEFT_TRY(wefti_demo_run(pass, work));
    release_range(r, bucket, step);
    return WEFT_OK;
}

static weft_status demo_combine(wefti_replicator *r, int bucket, int64_t step,
                                float *grad) {
    wefti_demo *self = r->self;
    wefti_demo_bucket *b = &self->buckets[bucket];
    int me = r->comm->rank;
    if (!b->by_owner || answer_bytes(b, me) == 0) return WEFT_OK;
    WEFT_TRY(await_readers(r, bucket, b->answered_step, ANSWERED));
    wefti_demo_pass pass = {.r = r,
                            .bucket = b,
                            .first_range = me,
                            .n_ranges = 1,
                            .d = grad,
                            .answer = b->answer + WEFTI_FRAME_BYTES};
    WEFT_TRY(combine_range(r, bucket, step, &pass, wefti_demo_answer));
    wefti_frame frame = head(r, bucket, step);
    frame.kind = WEFTI_FRAME_DEMO_ANSWER;
    frame.payload_bytes = answer_bytes(b, me);
    wefti_frame_encode(&frame, b->answer);
    b->answered_step = step;
    return wefti_comm_send_all(r->comm, wefti_comm_tag(step, bucket, ANSWERED), b->answer,
                               framed(frame.payload_bytes));
}

/* Puts the answer of range `owner` into d. */
static weft_status follow_owner(wefti_replicator *r, int bucket, int64_t step, int owner,
                                float *d) {
    const wefti_demo *self = r->self;
    const wefti_demo_bucket *b = &self->buckets[bucket];
    wefti_frame frame = head(r, bucket, step);
    frame.kind = WEFTI_FRAME_DEMO_ANSWER;
    frame.sender = owner;
    frame.payload_bytes = answer_bytes(b, owner);
    if (frame.payload_bytes == 0) return WEFT_OK;
    int64_t tag = wefti_comm_tag(step, bucket, ANSWERED), n = framed(frame.payload_bytes);
    const void *view = b->answer;
    if (owner != r->comm->rank) {
        WEFT_TRY(wefti_comm_receive(r->comm, owner, tag, n, &view));
        WEFT_TRY(wefti_frame_check(r->ctx, &frame, view, n));
    }
    wefti_demo_pass pass = {.r = r,
                            .bucket = b,
                            .first_range = owner,
                            .n_ranges = 1,
                            .d = d,
                            .answered = (const unsigned char *)view + WEFTI_FRAME_BYTES};
    WEFT_TRY(wefti_demo_run(&pass, wefti_demo_follow));
    if (owner != r->comm->rank) wefti_comm_release(r->comm, owner, tag);
    return WEFT_OK;
}

static weft_status demo_end(wefti_replicator *r, int bucket, int64_t step, float *grad) {
    const wefti_demo *self = r->self;
    const wefti_demo_bucket *b = &self->buckets[bucket];
    if (!wefti_replicator_is_due(&r->config, step)) {
        memset(grad, 0, (size_t)r->buckets[bucket].n_elements * sizeof(float));
        return WEFT_OK;
    }
    if (!b->by_owner) {
        wefti_demo_pass pass = {.r = r, .bucket = b, .n_ranges = 1, .d = grad};
        return combine_range(r, bucket, step, &pass, wefti_demo_combine);
    }
    for (int owner = 0; owner < r->comm->size; owner++)
        WEFT_TRY(follow_owner(r, bucket, step, owner, grad));
    return WEFT_OK;
}

static void demo_destroy(wefti_replicator *r) { wefti_demo_room_destroy(r); }

const wefti_replicator_ops wefti_replicator_demo = {
    .name = "demo",
    .summary = "the k fastest-moving DCT coefficients of each chunk of a local momentum",
    .states = demo_states,
    .rounds = demo_rounds,
    .round_bytes = demo_round_bytes,
    .work_bytes = wefti_demo_room_bytes,
    .create = demo_create,
    .begin = demo_begin,
    .combine = demo_combine,
    .end = demo_end,
    .destroy = demo_destroy,
};
