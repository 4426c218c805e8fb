/* SPDX-License-Identifier: MIT */
/* Bigram baseline with add-one smoothing (Jurafsky & Martin, ch. 3):
 *   p(b | a) = (n(a, b) + 1) / (n(a) + V)
 * n counted on the whole training part, never across its parts; V = different ids seen in
 * training and validation. The loss is the mean of -log p over the validation targets. */
#include <math.h>

#include "base/memory.h"
#include "token/strmap.h"
#include "token/vocab.h"
#include "data/windows.h"

typedef struct bigram {
    int64_t vocab, n_seen;
    int64_t *followed; /* [vocab] n(a) */
    bool *seen;        /* [vocab] */
    wefti_u64map pairs;
    int64_t *counts; /* [pairs.n] n(a, b) */
    int64_t counts_capacity;
    int32_t last; /* token before the block at hand */
    double sum;
    int64_t n;
} bigram;

/* A shard may have been changed or shortened since it was opened, also between two readings. */
static weft_status check(weft_ctx *ctx, const bigram *b, const int32_t *ids, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= b->vocab)
            return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                 "the data has the id %d, expected 0 to %lld", ids[i],
                                 (long long)b->vocab - 1);
    return WEFT_OK;
}

static weft_status see(weft_ctx *ctx, bigram *b, const int32_t *ids, int64_t n) {
    WEFT_TRY(check(ctx, b, ids, n));
    for (int64_t i = 0; i < n; i++) {
        if (b->seen[ids[i]]) continue;
        b->seen[ids[i]] = true;
        b->n_seen++;
    }
    return WEFT_OK;
}

static weft_status count_pair(weft_ctx *ctx, bigram *b, int32_t left, int32_t right) {
    int64_t pair;
    WEFT_TRY(wefti_reserve(ctx, &b->counts, &b->counts_capacity, b->pairs.n, 1,
                           sizeof *b->counts, "counts of token pairs"));
    WEFT_TRY(wefti_u64map_put(ctx, &b->pairs, wefti_pair_key(left, right), &pair));
    b->counts[pair]++;
    b->followed[left]++;
    return WEFT_OK;
}

static weft_status count_block(weft_ctx *ctx, void *user, const int32_t *ids, int64_t n,
                               bool fresh) {
    bigram *b = user;
    WEFT_TRY(see(ctx, b, ids, n));
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 || !fresh) WEFT_TRY(count_pair(ctx, b, b->last, ids[i]));
        b->last = ids[i];
    }
    return WEFT_OK;
}

static weft_status see_block(weft_ctx *ctx, void *user, const int32_t *ids, int64_t n,
                             bool fresh) {
    (void)fresh;
    return see(ctx, user, ids, n);
}

static weft_status score_block(weft_ctx *ctx, void *user, const int32_t *ids, int64_t n,
                               bool fresh) {
    bigram *b = user;
    WEFT_TRY(check(ctx, b, ids, n));
    for (int64_t i = 0; i < n; i++) {
        if (i > 0 || !fresh) {
            int64_t pair = wefti_u64map_find(&b->pairs, wefti_pair_key(b->last, ids[i]));
            double together = pair < 0 ? 0 : (double)b->counts[pair];
            double before = (double)(b->followed[b->last] + b->n_seen);
            b->sum -= log((together + 1) / before);
            b->n++;
        }
        b->last = ids[i];
    }
    return WEFT_OK;
}

static weft_status run(weft_ctx *ctx, bigram *b, const weft_dataset *d) {
    WEFT_TRY(
        wefti_alloc_n(ctx, b->vocab, sizeof *b->followed, "token counts", &b->followed));
    WEFT_TRY(wefti_alloc_n(ctx, b->vocab, sizeof *b->seen, "token counts", &b->seen));
    for (int k = 0; k < d->n_train; k++)
        WEFT_TRY(
            wefti_part_visit(ctx, &d->train[k], d->train[k].n_tokens, count_block, b));
    for (int k = 0; k < d->n_validation; k++)
        WEFT_TRY(wefti_part_visit(ctx, &d->validation[k],
                                  wefti_part_used(&d->validation[k], d->T), see_block,
                                  b));
    for (int k = 0; k < d->n_validation; k++)
        WEFT_TRY(wefti_part_visit(ctx, &d->validation[k],
                                  wefti_part_used(&d->validation[k], d->T), score_block,
                                  b));
    return WEFT_OK;
}

weft_status weft_dataset_bigram_loss(weft_ctx *ctx, const weft_dataset *dataset,
                                     int64_t vocab, double *nats) {
    bigram b = {.vocab = vocab};
    *nats = 0;
    if (dataset->n_validation == 0)
        return weft_ctx_fail(
            ctx, WEFT_ERR_ARGUMENT,
            "the data has no validation part to measure a bigram model on");
    weft_status status = run(ctx, &b, dataset);
    if (status == WEFT_OK) *nats = b.sum / (double)b.n;
    wefti_u64map_fini(ctx, &b.pairs);
    WEFTI_FREE(ctx, b.counts, b.followed, b.seen);
    return status;
}
