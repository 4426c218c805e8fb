/* SPDX-License-Identifier: MIT */
/* signSGD with majority vote (arXiv 1802.04434, 1810.05291): a baseline with 1.6 bits per
 * number.
 *
 *     m <- beta m + lr g        d <- sign(sum over the nodes of sign(m)), 0 where they tie
 *
 * Nothing is taken out of m: what a sign loses is not fed back. beta = 0 is signSGD, 0.9
 * signum. Signs are -1, 0 and 1, as in signs.h, five of them in a byte:
 *
 *     byte = t0 + 3 t1 + 9 t2 + 27 t3 + 81 t4, t = 0: 0, 1: 1, 2: -1
 *     243: one of the five was not finite, and all are NaN for the receiver
 *
 * Round 1: rank j gets all ranks' signs of its range, elements [n j/R, n (j+1)/R).
 * Round 2: its answer to all, the signs of their sum. */
#include <math.h>
#include <string.h>

#include "compress/signs.h"
#include "replicate/replicator.h"

enum { FIVE = 5, NOT_FINITE = 243 };

typedef struct range {
    int64_t begin, n;
} range;

static range range_of(int64_t n, int R, int owner) {
    int64_t begin = n * owner / R;
    return (range){begin, n * (owner + 1) / R - begin};
}

static int64_t packed_bytes(int64_t n) { return (n + FIVE - 1) / FIVE; }

static int64_t signs_round_bytes(const wefti_replicator_config *config,
                                 const wefti_bucket *bucket, int R, int round,
                                 int owner) {
    range a = range_of(bucket->n_elements, R, owner);
    (void)config, (void)round;
    return a.n > 0 ? WEFTI_FRAME_BYTES + packed_bytes(a.n) : 0;
}

static weft_status signs_create(wefti_replicator *r) {
    double beta = r->config.compression_decay;
    if (beta >= 0 && beta < 1) return WEFT_OK;
    return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG,
                         "replicator.compression_decay is %g with signsgd, expected 0 to "
                         "below 1: nothing else takes anything out of its momentum",
                         beta);
}

static void pack(int64_t n, const float *x, unsigned char *out) {
    static const int power[FIVE] = {1, 3, 9, 27, 81};
    float signs[FIVE];
    for (int64_t i = 0; i < n; i += FIVE) {
        int64_t here = n - i < FIVE ? n - i : FIVE;
        int byte = 0;
        bool finite = true;
        wefti_signs_of(here, x + i, signs);
        for (int64_t j = 0; j < here; j++) {
            finite &= !isnan(signs[j]);
            byte += power[j] * ((signs[j] > 0) + 2 * (signs[j] < 0));
        }
        *out++ = (unsigned char)(finite ? byte : NOT_FINITE);
    }
}

/* x += the signs. */
static weft_status add_packed(weft_ctx *ctx, int64_t n, const unsigned char *in,
                              float *x) {
    static const float sign_of[] = {0, 1, -1};
    for (int64_t i = 0; i < n; i += FIVE) {
        int64_t here = n - i < FIVE ? n - i : FIVE;
        int byte = *in++, rest = byte == NOT_FINITE ? 0 : byte;
        for (int64_t j = 0; j < here; j++, rest /= 3)
            x[i + j] += byte == NOT_FINITE ? NAN : sign_of[rest % 3];
        if (byte > NOT_FINITE || rest != 0)
            return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                                 "byte %d at sign %lld of %lld stands for no %lld signs",
                                 byte, (long long)i, (long long)n, (long long)here);
    }
    return WEFT_OK;
}

/* For the range that a member is in charge of: takes the gradient into m, and packs the
 * signs of m. */
static weft_status signs_encode(wefti_replicator *r, const wefti_round *round, int member,
                                unsigned char *out) {
    range a = range_of(r->buckets[round->bucket].n_elements, r->comm->size, member);
    float beta = (float)r->config.compression_decay, gain = wefti_replicator_gain(r);
    float *m = wefti_replicator_state(r, 0, round->bucket) + a.begin;
    const float *g = round->from + a.begin;
    for (int64_t i = 0; i < a.n; i++) m[i] = beta * m[i] + gain * g[i];
    pack(a.n, m, out);
    return WEFT_OK;
}

/* In the first round, adds up the signs of the owner's range; the owner is this rank, or
 * a lost rank whose answer is made again. In the second round, takes the answer of each
 * range. */
static weft_status signs_add(wefti_replicator *r, const wefti_round *round, int member,
                             const unsigned char *in) {
    int owner = round->number == 0 ? round->party.me : member;
    range a = range_of(r->buckets[round->bucket].n_elements, r->comm->size, owner);
    float *x = round->x + a.begin;
    if (round->number == 1 || round->counted == 0) memset(x, 0, (size_t)a.n * sizeof *x);
    return add_packed(r->ctx, a.n, in, x);
}

static weft_status signs_finish(wefti_replicator *r, const wefti_round *round,
                                unsigned char *answer) {
    range a = range_of(r->buckets[round->bucket].n_elements, r->comm->size,
                       round->party.me);
    if (answer) pack(a.n, round->x + a.begin, answer);
    return WEFT_OK;
}

/* --- predictions --- */

static wefti_content signs_content(const wefti_replicator_config *config,
                                   const wefti_bucket *bucket) {
    double bits = (double)bucket->n_elements * log2(3);
    (void)config;
    return (wefti_content){0, bits, bits};
}

/* Used where nothing is measured. */
static wefti_touched signs_touched(const wefti_replicator_config *config, int R) {
    (void)config;
    return (wefti_touched){
        .begin = 60, .combine = 16.0 / R, .combine_peer = 16.0 / R, .end = 24};
}

const wefti_replicator_ops wefti_replicator_signsgd = {
    .name = "signsgd",
    .votes = true,
    .keys = WEFTI_KEYS("compression_decay", "momentum_style", "every"),
    .method = "signsgd",
    .is_baseline = true,
    .content = signs_content,
    .touched = signs_touched,
    .floor_bytes = wefti_replicator_momentum_floor,
    .states = wefti_replicator_momentum_state,
    .rounds = wefti_replicator_two_rounds,
    .round_bytes = signs_round_bytes,
    .one_by_one = true,
    .create = signs_create,
    .kinds = {WEFTI_FRAME_MAJORITY, WEFTI_FRAME_MAJORITY_ANSWER},
    .encode = signs_encode,
    .add = signs_add,
    .finish = signs_finish,
};
