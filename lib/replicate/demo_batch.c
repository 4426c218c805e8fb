/* SPDX-License-Identifier: MIT */
/* The arithmetic of demo, a batch at a time, so that the batch stays in cache between the
 * first reading and the last writing:
 *
 *     send      m <- decay m + gain g;  q <- the k largest of DCT(m), coded;
 *               m <- m - alpha IDCT(q as it will be decoded)
 *     combine   Q <- the mean of all ranks' q;  d <- IDCT(Q), or its sign; a caller that
 *               compresses by itself may get all q in place of d
 *
 * A dense part has its elements in place of coefficients: every rank sends all of
 * them. */
#include <string.h>

#include "replicate/demo.h"
#include "compress/signs.h"
#include "kernels/isa/team.h"

/* The last part that begins at or before a block or, with is_batch, a batch. */
static const wefti_demo_part *part_at(const wefti_demo_bucket *bucket, int64_t number,
                                      bool is_batch) {
    int low = 0, high = bucket->n_parts;
    while (high - low > 1) {
        int mid = (low + high) / 2;
        const wefti_demo_part *part = &bucket->parts[mid];
        if ((is_batch ? part->first_batch : part->first.block) <= number)
            low = mid;
        else
            high = mid;
    }
    return &bucket->parts[low];
}

static int64_t batch_with(const wefti_demo_bucket *bucket, int64_t block) {
    const wefti_demo_part *part = part_at(bucket, block, false);
    return part->first_batch + (block - part->first.block) / part->batch_blocks;
}

/* The part of a batch that lies in blocks [begin, end) of the bucket. */
static wefti_demo_batch batch_at(const wefti_demo_bucket *bucket, int64_t number,
                                 int64_t begin, int64_t end) {
    const wefti_demo_part *part = part_at(bucket, number, true);
    int64_t first = (number - part->first_batch) * part->batch_blocks;
    int64_t last = first + part->batch_blocks, before = part->first.block;
    if (last > part->section.n_blocks) last = part->section.n_blocks;
    if (first < begin - before) first = begin - before;
    if (last > end - before) last = end - before;
    return (wefti_demo_batch){.part = part,
                              .first_block = first,
                              .n_blocks = last - first,
                              .first = wefti_demo_items(part, 0, first),
                              .n = wefti_demo_items(part, first, last - first)};
}

weft_status wefti_demo_run(const wefti_demo_pass *pass, wefti_demo_work work) {
    const wefti_demo *self = pass->r->self;
    const wefti_demo_bucket *bucket = pass->bucket;
    int64_t begin = bucket->edges[pass->range].block;
    int64_t end = bucket->edges[pass->range + 1].block;
    if (begin == end) return WEFT_OK;
    int64_t first = batch_with(bucket, begin), last = batch_with(bucket, end - 1);
    int worst = WEFT_OK, threads = last > first ? self->threads : 1;
    (void)threads; /* unused without OpenMP */
#pragma omp parallel for num_threads(threads) schedule(dynamic)                          \
    reduction(max                                                                        \
              : worst) if (threads > 1)
    for (int64_t i = first; i <= last; i++) {
        const wefti_demo_scratch *scratch = &self->scratch[team_rank()];
        int status = (int)work(pass, scratch, batch_at(bucket, i, begin, end));
        if (status > worst) worst = status;
    }
    return (weft_status)worst;
}

/* Where a block of a part begins in the payload of a range. */
static int64_t place_of(const wefti_demo_bucket *bucket, int range,
                        const wefti_demo_part *part, int64_t b) {
    int64_t before = bucket->edges[range].payload_bytes;
    return part->first.payload_bytes - before + wefti_section_bytes(&part->section, 0, b);
}

static void encode(const wefti_demo_pass *pass, const wefti_demo_scratch *scratch,
                   wefti_demo_batch batch) {
    const wefti_section *s = &batch.part->section;
    wefti_rounding rounding = pass->rounding;
    rounding.place += (uint64_t)(batch.part - pass->bucket->parts);
    for (int64_t i = 0; i < batch.n_blocks; i++) {
        int64_t b = batch.first_block + i, at = i * s->block_values;
        wefti_section_encode(s, b, s->dense ? NULL : scratch->indices[0] + at,
                             scratch->values[0] + at, &rounding,
                             pass->payload +
                                 place_of(pass->bucket, pass->range, batch.part, b));
    }
}

static void send_dense(const wefti_demo_pass *pass, const wefti_demo_scratch *scratch,
                       wefti_demo_batch batch) {
    int64_t first = batch.part->offset + batch.first, n = batch.n;
    const float *g = pass->g + first;
    float *m = pass->m + first, *sent = scratch->values[0];
    float decay = pass->momentum.decay, gain = pass->momentum.gain;
    for (int64_t i = 0; i < n; i++) sent[i] = m[i] = decay * m[i] + gain * g[i];
    encode(pass, scratch, batch);
    float alpha = (float)pass->r->config.alpha;
    for (int64_t i = 0; i < n; i++) m[i] -= alpha * sent[i];
}

/* The caller's own choice for a part. */
static wefti_offer *offer_of(const wefti_demo_pass *pass, const wefti_demo_part *part) {
    const wefti_replicator *r = pass->r;
    const wefti_piece *pieces = r->buckets[pass->number].pieces;
    return &r->offers[pieces[part - pass->bucket->parts].tensor];
}

static void send_offer(const wefti_demo_pass *pass, const wefti_demo_scratch *scratch,
                       wefti_demo_batch batch) {
    const wefti_offer *offer = offer_of(pass, batch.part);
    int64_t k = batch.part->section.dense ? 1 : batch.part->chunks.k;
    int64_t first = batch.first * k, n = batch.n * k;
    if (!batch.part->section.dense)
        memcpy(scratch->indices[0], offer->places + first, (size_t)n * sizeof(int32_t));
    memcpy(scratch->values[0], offer->values + first, (size_t)n * sizeof(float));
    encode(pass, scratch, batch);
    memcpy(offer->values + first, scratch->values[0], (size_t)n * sizeof(float));
}

weft_status wefti_demo_send(const wefti_demo_pass *pass,
                            const wefti_demo_scratch *scratch, wefti_demo_batch batch) {
    wefti_demo *self = pass->r->self;
    const wefti_demo_part *part = batch.part;
    if (pass->r->offers) {
        send_offer(pass, scratch, batch);
        return WEFT_OK;
    }
    if (part->section.dense) {
        send_dense(pass, scratch, batch);
        return WEFT_OK;
    }
    float *m = pass->m + part->offset;
    wefti_spectrum_select(self->spectrum, scratch->thread, &part->chunks, batch.first,
                          batch.n, &pass->momentum, pass->g + part->offset, m,
                          scratch->indices[0], scratch->values[0]);
    encode(pass, scratch, batch);
    wefti_spectrum_subtract(self->spectrum, scratch->thread, &part->chunks, batch.first,
                            batch.n, (float)pass->r->config.alpha, scratch->indices[0],
                            scratch->values[0], m);
    return WEFT_OK;
}

weft_status wefti_demo_decode(const wefti_demo_pass *pass,
                              const wefti_demo_scratch *scratch, wefti_demo_batch batch) {
    const wefti_demo *self = pass->r->self;
    for (int rank = 0; rank < pass->counted; rank++) {
        const wefti_demo_view *view = &self->views[rank];
        const wefti_demo_bucket *sent = wefti_demo_bucket_of(pass->r, view->member,
                                                             pass->number);
        const wefti_demo_part *part = &sent->parts[batch.part - pass->bucket->parts];
        const wefti_section *s = &part->section;
        for (int64_t i = 0; i < batch.n_blocks; i++) {
            int64_t b = batch.first_block + i, to = i * s->block_values;
            const unsigned char *block = view->payload +
                                         place_of(sent, pass->range, part, b);
            WEFT_TRY(wefti_section_decode(pass->r->ctx, s, b, block,
                                          scratch->indices[rank] + to,
                                          scratch->values[rank] + to));
        }
    }
    return WEFT_OK;
}

void wefti_demo_mean(const wefti_demo_pass *pass, int64_t n,
                     const wefti_demo_scratch *scratch) {
    float *mean = scratch->values[0];
    for (int rank = 1; rank < pass->counted; rank++)
        for (int64_t i = 0; i < n; i++) mean[i] += scratch->values[rank][i];
    for (int64_t i = 0; i < n; i++) mean[i] /= (float)pass->weight;
}

static void combine_dense(const wefti_demo_pass *pass, const wefti_demo_scratch *scratch,
                          wefti_demo_batch batch) {
    int64_t first = batch.part->offset + batch.first, n = batch.n;
    wefti_demo_mean(pass, n, scratch);
    if (pass->r->config.sign)
        wefti_signs_of(n, scratch->values[0], pass->d + first);
    else
        memcpy(pass->d + first, scratch->values[0], (size_t)n * sizeof(float));
}

/* The caller transforms back, and gets what each rank sent. */
static void hand_on(const wefti_demo_pass *pass, const wefti_demo_scratch *scratch,
                    wefti_demo_batch batch, const wefti_offer *offer) {
    int64_t k = batch.part->chunks.k, at = batch.first * k;
    size_t n = (size_t)(batch.n * k);
    for (int rank = 0; rank < pass->counted; rank++, at += offer->stride) {
        memcpy(offer->heard_places + at, scratch->indices[rank], n * sizeof(int32_t));
        memcpy(offer->heard_values + at, scratch->values[rank], n * sizeof(float));
    }
}

void wefti_demo_heard(const wefti_demo_pass *pass) {
    const wefti_demo_bucket *b = pass->bucket;
    for (int i = 0; i < b->n_parts && pass->r->offers; i++) {
        wefti_offer *offer = offer_of(pass, &b->parts[i]);
        bool whole = b->parts[i].section.dense;
        offer->n_heard = offer->heard_values && !whole && !b->by_owner ? pass->counted
                                                                       : 0;
    }
}

weft_status wefti_demo_combine(const wefti_demo_pass *pass,
                               const wefti_demo_scratch *scratch,
                               wefti_demo_batch batch) {
    const wefti_demo *self = pass->r->self;
    const wefti_demo_part *part = batch.part;
    WEFT_TRY(wefti_demo_decode(pass, scratch, batch));
    if (part->section.dense) {
        combine_dense(pass, scratch, batch);
        return WEFT_OK;
    }
    if (pass->r->offers && offer_of(pass, part)->heard_values) {
        hand_on(pass, scratch, batch, offer_of(pass, part));
        return WEFT_OK;
    }
    wefti_spectrum_combine(
        self->spectrum, scratch->thread, &part->chunks, batch.first, batch.n,
        pass->counted, (const int32_t *const *)scratch->indices,
        (const float *const *)scratch->values,
        pass->r->config.sign ? WEFTI_DIRECTION_SIGN : WEFTI_DIRECTION_VALUE,
        pass->d + part->offset);
    return WEFT_OK;
}
