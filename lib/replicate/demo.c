/* SPDX-License-Identifier: MIT */
/* Decoupled momentum (DeMo, arXiv 2411.19870; FlexDeMo, arXiv 2502.06728),
 * docs/methods.md section 3:
 *
 *     m <- beta m + lr g      q <- top-k per chunk of DCT(m), coded      m <- m - IDCT(q)
 *     Q <- per coefficient, mean over the ranks THAT SENT IT    d <- IDCT(Q), sign(d)
 *
 * Two routes give the same bits of d (docs/wire-format.md section 8):
 *
 *     gather   q to all; combine the R messages in rank order
 *     owner    range j of q to rank j; it combines, and answers all; d from the R answers
 *
 * This file has the functions for the driver; demo_batch.c has the arithmetic. */
#include <math.h>
#include <stdio.h>

#include "replicate/demo.h"
#include "replicate/replicator.h"

/* Bytes of a payload with its head. An empty range or answer is not sent. */
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
    return framed(wefti_demo_bytes_about(&rules, bucket, round, owner));
}

static weft_status demo_create(wefti_replicator *r) {
    int64_t c = r->config.compression_chunk;
    int dims = r->config.compression_dims;
    if (dims != 1 && dims != 2)
        return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG,
                             "replicator.compression_dims is %d, expected 1 or 2", dims);
    WEFT_TRY(wefti_replicator_check_coding(r, dims == 2 ? c * c : c));
    return wefti_demo_room_create(r);
}

/* --- functions for the driver --- */

/* The range that a member combines; with one round there is only one range. */
static int range_of(const wefti_demo_bucket *b, int member) {
    return b->by_owner ? member : 0;
}

static wefti_demo_pass pass_of(wefti_replicator *r, const wefti_round *round,
                               int member) {
    const wefti_demo_bucket *b = wefti_demo_bucket_of(r, r->comm->rank, round->bucket);
    return (wefti_demo_pass){.r = r,
                             .number = round->bucket,
                             .bucket = b,
                             .range = range_of(b, member),
                             .counted = round->counted,
                             .weight = round->weight,
                             .d = round->x};
}

/* m <- decay m + gain g for the range; what is sent of it is taken out of m. */
static weft_status demo_encode(wefti_replicator *r, const wefti_round *round, int member,
                               unsigned char *out) {
    wefti_demo_pass pass = pass_of(r, round, member);
    pass.momentum = (wefti_momentum){.decay = (float)r->config.compression_decay,
                                     .gain = wefti_replicator_gain(r)};
    pass.rounding = wefti_replicator_rounding(r, round, 0);
    pass.g = round->from;
    pass.m = wefti_replicator_state(r, 0, round->bucket);
    pass.payload = out;
    return wefti_demo_run(&pass, wefti_demo_send);
}

/* Coefficients wait until those of the others are there; an answer is put into d. */
static weft_status demo_add(wefti_replicator *r, const wefti_round *round, int member,
                            const unsigned char *in) {
    const wefti_demo *self = r->self;
    wefti_demo_pass pass = pass_of(r, round, member);
    if (round->number == 0) {
        self->views[round->counted] = (wefti_demo_view){in, member};
        return WEFT_OK;
    }
    pass.answered = in;
    return wefti_demo_run(&pass, wefti_demo_follow);
}

static weft_status demo_finish(wefti_replicator *r, const wefti_round *round,
                               unsigned char *answer) {
    wefti_demo_pass pass = pass_of(r, round, round->party.me);
    if (round->number == 1) return WEFT_OK;
    pass.answer = answer;
    wefti_demo_heard(&pass);
    return wefti_demo_run(&pass, answer ? wefti_demo_answer : wefti_demo_combine);
}

/* --- predictions --- */

static void demo_label(const wefti_replicator_config *config, char *out, size_t size) {
    long long k = config->compression_topk, c = config->compression_chunk;
    if (config->compression_dims == 1)
        snprintf(out, size, "%lld/%lld ", k, c);
    else
        snprintf(out, size, "%lld/%lldx%lld ", k, c, c);
}

static wefti_content demo_content(const wefti_replicator_config *config,
                                  const wefti_bucket *bucket) {
    wefti_content t = {0, 0, 0};
    for (int i = 0; i < bucket->n_pieces; i++) {
        const wefti_piece *piece = &bucket->pieces[i];
        double n = (double)(piece->rows * piece->cols);
        bool dense = wefti_demo_kind(config, piece) < 0;
        t.answer_bits += n * (!config->sign ? 32 : dense ? log2(3) : 1);
        wefti_chunks s = wefti_chunks_make(
            config->compression_dims, config->compression_chunk, config->compression_topk,
            piece->rows, piece->cols);
        t.values += dense ? n : (double)(s.n * s.k);
        t.index_bits += dense ? 0 : (double)s.n * wefti_log2_choose(s.elements, s.k);
    }
    return t;
}

static wefti_touched demo_touched(const wefti_replicator_config *config, int R) {
    (void)config, (void)R;
    return (wefti_touched){.begin = 32, .combine_peer = 4, .end = 20};
}

static wefti_offer_shape demo_offers(const wefti_replicator_config *config,
                                     const wefti_piece *piece) {
    int64_t n = piece->rows * piece->cols;
    if (wefti_demo_kind(config, piece) < 0) return (wefti_offer_shape){1, n, n, true};
    wefti_chunks s = wefti_chunks_make(
        config->compression_dims, config->compression_chunk, config->compression_topk,
        piece->rows, piece->cols);
    return (wefti_offer_shape){s.n, s.k, s.elements, false};
}

static void demo_destroy(wefti_replicator *r) { wefti_demo_room_destroy(r); }

const wefti_replicator_ops wefti_replicator_demo = {
    .name = "demo",
    .keys = WEFTI_KEYS("compression_topk", "compression_chunk", "compression_decay",
                       "compression_dims", "momentum_style", "alpha", "sign", "exchange",
                       "values", "node_values", "indices", "rounding", "dense_below",
                       "every", "delay"),
    .method = "flexdemo",
    .transforms = true,
    .knobs = WEFTI_KEYS("compression_topk", "compression_chunk", "compression_dims",
                        "exchange"),
    .label = demo_label,
    .content = demo_content,
    .touched = demo_touched,
    .floor_bytes = wefti_replicator_momentum_floor,
    .states = wefti_replicator_momentum_state,
    .rounds = demo_rounds,
    .round_bytes = demo_round_bytes,
    .work_bytes = wefti_demo_room_bytes,
    .create = demo_create,
    .kinds = {WEFTI_FRAME_DEMO, WEFTI_FRAME_DEMO_ANSWER},
    .encode = demo_encode,
    .add = demo_add,
    .finish = demo_finish,
    .offers = demo_offers,
    .destroy = demo_destroy,
};
