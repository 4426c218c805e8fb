/* SPDX-License-Identifier: MIT */
/* Plain top-k with error feedback (arXiv 1704.05021, 1809.07599), the baseline of every
 * compressed method: demo without a transform.
 *
 *     m <- beta m + lr g        q <- the k largest of each chunk of c of m, coded
 *     m <- m - alpha q          d <- mean of q over the nodes, or its sign
 *
 * What is not sent, and what coding loses, stays in m. Payload of a bucket: a sparse section
 * (wire/section.h) for each piece, in order. A piece is cut into chunks from its first element on,
 * and a section is coded block by block, a few chunks at a time:
 *
 *     piece    | chunk 0 | chunk 1 | ... | the last one, filled up with zeros |
 *     block    block_chunks of them: k places and k values of each
 *
 *     encode   the largest of each chunk -> code -> m -= alpha (what is decoded)
 *     add      decode -> d[place] += value
 *
 * If the caller compresses by itself (r->offers), its places and values are taken, and the decoded
 * values are given back; m is the caller's then. */
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "compress/signs.h"
#include "compress/spectrum.h"
#include "replicate/replicator.h"

typedef struct topk {
    wefti_binomials *table; /* NULL unless the index codec needs it */
    int32_t *index;         /* [values of a block], like value */
    float *value;
    wefti_spectrum *largest; /* without a transform */
} topk;

static wefti_section section_of(const wefti_replicator_config *config, int64_t n,
                                const wefti_binomials *table) {
    int64_t chunk = config->compression_chunk;
    return wefti_section_sparse((n + chunk - 1) / chunk, config->compression_topk, chunk,
                                wefti_values_sent(config), config->indices, table);
}

static int64_t elements_of(const wefti_piece *piece) { return piece->rows * piece->cols; }

static int64_t topk_round_bytes(const wefti_replicator_config *config,
                                const wefti_bucket *bucket, int R, int round, int owner) {
    (void)R, (void)round, (void)owner;
    int64_t n_bytes = WEFTI_FRAME_BYTES;
    wefti_section s = section_of(config, 0, NULL);
    for (int i = 0; i < bucket->n_pieces; i++) {
        int64_t n = elements_of(&bucket->pieces[i]);
        s = wefti_section_of_chunks(&s, (n + s.elements - 1) / s.elements);
        n_bytes += wefti_section_bytes(&s, 0, s.n_blocks);
    }
    return n_bytes;
}

static int64_t topk_work_bytes(const wefti_replicator_config *config,
                               const wefti_bucket *buckets, int n_buckets, int R) {
    wefti_section s = section_of(config, 0, NULL);
    size_t lists = (size_t)s.block_values * sizeof(float);
    (void)buckets, (void)n_buckets, (void)R;
    return (int64_t)(2 * wefti_alloc_cost(lists) + wefti_alloc_cost(sizeof(topk)) +
                     (size_t)wefti_spectrum_cost(0, s.elements, 1) +
                     wefti_alloc_cost((size_t)wefti_section_table_bytes(&s)));
}

static weft_status topk_create(wefti_replicator *r) {
    topk *self;
    WEFT_TRY(wefti_replicator_check_coding(r, r->config.compression_chunk));
    WEFT_TRY(wefti_alloc(r->ctx, sizeof *self, "a replicator", &self));
    r->self = self;
    wefti_section s = section_of(&r->config, 0, NULL);
    if (wefti_section_table_bytes(&s) > 0)
        WEFT_TRY(wefti_binomials_create(r->ctx, s.elements, s.k, &self->table));
    WEFT_TRY(wefti_alloc_n(r->ctx, s.block_values, sizeof(int32_t), "places of numbers",
                           &self->index));
    WEFT_TRY(
        wefti_alloc_n(r->ctx, s.block_values, sizeof(float), "numbers", &self->value));
    return wefti_spectrum_create(r->ctx, r->kernels, 0, s.elements, 1, &self->largest);
}

static void topk_destroy(wefti_replicator *r) {
    topk *self = r->self;
    if (!self) return;
    wefti_binomials_destroy(r->ctx, self->table);
    wefti_spectrum_destroy(r->ctx, self->largest);
    WEFTI_FREE(r->ctx, self->index, self->value, self);
}

/* A block of a piece, whose numbers are x[n]. */
typedef struct block {
    const wefti_section *section;
    int64_t number, n;
    float *x;
} block;

static block block_of(const wefti_section *s, int64_t number, const wefti_piece *piece,
                      float *bucket) {
    int64_t first = number * s->block_chunks * s->elements;
    return (block){s, number, elements_of(piece) - first, bucket + piece->offset + first};
}

static void choose_block(const topk *self, const block *b) {
    const wefti_section *s = b->section;
    wefti_chunks cut = wefti_chunks_make(1, s->elements, s->k, 1, b->n);
    wefti_spectrum_select(self->largest, 0, &cut, 0,
                          wefti_section_block_chunks(s, b->number), NULL, NULL, b->x,
                          self->index, self->value);
}

/* x += share of the block's values. */
static void add_block(const topk *self, const block *b, float share) {
    const wefti_section *s = b->section;
    int64_t n = wefti_section_block_values(s, b->number), chunk = 0;
    for (int64_t j = 0; j < n; chunk += s->elements)
        for (int64_t end = j + s->k; j < end; j++) {
            int64_t place = chunk + self->index[j];
            if (place < b->n) b->x[place] += share * self->value[j];
        }
}

/* Takes the caller's own choice instead, and gives back to it what will be decoded. */
static void load_offer(const topk *self, const block *b, const wefti_offer *offer) {
    const wefti_section *s = b->section;
    size_t n = (size_t)wefti_section_block_values(s, b->number);
    int64_t first = b->number * s->block_values;
    memcpy(self->index, offer->places + first, n * sizeof *self->index);
    memcpy(self->value, offer->values + first, n * sizeof *self->value);
}

static void store_offer(const topk *self, const block *b, const wefti_offer *offer) {
    size_t n = (size_t)wefti_section_block_values(b->section, b->number);
    memcpy(offer->values + b->number * b->section->block_values, self->value,
           n * sizeof *self->value);
}

static wefti_offer_shape topk_offers(const wefti_replicator_config *config,
                                     const wefti_piece *piece) {
    int64_t c = config->compression_chunk;
    return (wefti_offer_shape){(elements_of(piece) + c - 1) / c, config->compression_topk,
                               c, false};
}

static weft_status topk_encode(wefti_replicator *r, const wefti_round *round, int member,
                               unsigned char *out) {
    const topk *self = r->self;
    const wefti_bucket *bucket = &r->buckets[round->bucket];
    float *m = wefti_replicator_state(r, 0, round->bucket);
    wefti_replicator_config config = wefti_replicator_sending(&r->config, member);
    if (!r->offers) wefti_replicator_accumulate(r, round->bucket, round->from);
    for (int i = 0; i < bucket->n_pieces; i++) {
        const wefti_piece *piece = &bucket->pieces[i];
        wefti_section s = section_of(&config, elements_of(piece), self->table);
        wefti_rounding rounding = wefti_replicator_rounding(r, round, i);
        for (int64_t number = 0; number < s.n_blocks; number++) {
            block b = block_of(&s, number, piece, m);
            const wefti_offer *offer = r->offers ? &r->offers[piece->tensor] : NULL;
            if (offer)
                load_offer(self, &b, offer);
            else
                choose_block(self, &b);
            wefti_section_encode(&s, number, self->index, self->value, &rounding, out);
            if (offer)
                store_offer(self, &b, offer);
            else
                add_block(self, &b, -(float)r->config.alpha);
            out += wefti_section_bytes(&s, number, 1);
        }
    }
    return WEFT_OK;
}

static weft_status topk_add(wefti_replicator *r, const wefti_round *round, int member,
                            const unsigned char *in) {
    const topk *self = r->self;
    const wefti_bucket *bucket = &r->buckets[round->bucket];
    float *d = round->x;
    wefti_replicator_config config = wefti_replicator_sending(&r->config, member);
    if (round->counted == 0) memset(d, 0, (size_t)bucket->n_elements * sizeof *d);
    for (int i = 0; i < bucket->n_pieces; i++) {
        const wefti_piece *piece = &bucket->pieces[i];
        wefti_section s = section_of(&config, elements_of(piece), self->table);
        for (int64_t number = 0; number < s.n_blocks; number++) {
            block b = block_of(&s, number, piece, d);
            WEFT_TRY(
                wefti_section_decode(r->ctx, &s, number, in, self->index, self->value));
            add_block(self, &b, 1);
            in += wefti_section_bytes(&s, number, 1);
        }
    }
    return WEFT_OK;
}

static weft_status topk_finish(wefti_replicator *r, const wefti_round *round,
                               unsigned char *answer) {
    (void)answer;
    int64_t n = r->buckets[round->bucket].n_elements;
    r->kernels->scale(n, 1.0f / (float)round->weight, round->x);
    if (r->config.sign) wefti_signs_of(n, round->x, round->x);
    return WEFT_OK;
}

/* --- predictions --- */

static void topk_label(const wefti_replicator_config *config, char *out, size_t size) {
    snprintf(out, size, "%lld/%lld ", (long long)config->compression_topk,
             (long long)config->compression_chunk);
}

static wefti_content topk_content(const wefti_replicator_config *config,
                                  const wefti_bucket *bucket) {
    int64_t c = config->compression_chunk, k = config->compression_topk, n = 0;
    for (int i = 0; i < bucket->n_pieces; i++)
        n += (elements_of(&bucket->pieces[i]) + c - 1) / c;
    return (wefti_content){(double)(n * k), (double)n * wefti_log2_choose(c, k), 0};
}

/* Used where nothing is measured. */
static wefti_touched topk_touched(const wefti_replicator_config *config, int R) {
    (void)config, (void)R;
    return (wefti_touched){.begin = 48, .combine_peer = 8, .end = 16};
}

const wefti_replicator_ops wefti_replicator_topk = {
    .name = "topk",
    .keys = WEFTI_KEYS("compression_topk", "compression_chunk", "compression_decay",
                       "momentum_style", "alpha", "sign", "values", "node_values",
                       "indices", "rounding", "every", "delay"),
    .method = "topk",
    .knobs = WEFTI_KEYS("compression_topk", "compression_chunk"),
    .label = topk_label,
    .content = topk_content,
    .touched = topk_touched,
    .floor_bytes = wefti_replicator_momentum_floor,
    .states = wefti_replicator_momentum_state,
    .rounds = wefti_replicator_one_round,
    .round_bytes = topk_round_bytes,
    .one_by_one = true,
    .work_bytes = topk_work_bytes,
    .create = topk_create,
    .kinds = {WEFTI_FRAME_TOPK},
    .encode = topk_encode,
    .add = topk_add,
    .finish = topk_finish,
    .offers = topk_offers,
    .destroy = topk_destroy,
};
