/* SPDX-License-Identifier: MIT */
/* The owner's answer, an answer block for each block (docs/wire-format.md section 8).
 * With sign, of n chunks:
 *
 *     states  2 bits per chunk: 0 all signs are zero, 1 the bits say, 2 not finite
 *     bits    1 bit per element of a chunk, 1 = minus; each chunk begins on a byte
 *
 * A dense block has 2 bits per value: 0 zero, 1 plus, 2 minus, 3 not finite. Without
 * sign: the direction itself, f32, of every element of the chunks (dense: of every
 * value).
 *
 * If the combined coefficients were sent in place of the direction, they would be up to R
 * k of a chunk, and uncoded: a rank would then send more than by gather, whatever R
 * is. */
#include <string.h>

#include "base/bytes.h"
#include "replicate/demo.h"
#include "compress/signs.h"

/* Four numbers of 2 bits to a byte, the first one lowest. */
static void pack_twos(int64_t n, const unsigned char *twos, unsigned char *out) {
    memset(out, 0, (size_t)((n + 3) / 4));
    for (int64_t i = 0; i < n; i++) out[i / 4] |= (unsigned char)(twos[i] << 2 * (i % 4));
}

/* False if bits after the last number are not zero. */
static bool unpack_twos(int64_t n, const unsigned char *in, unsigned char *twos) {
    for (int64_t i = 0; i < n; i++) twos[i] = in[i / 4] >> 2 * (i % 4) & 3;
    return n % 4 == 0 || in[n / 4] >> 2 * (n % 4) == 0;
}

/* A block of a batch, and where its answer is. */
typedef struct answer_block {
    const wefti_demo_part *part;
    int64_t first, n; /* its chunks or values */
    int64_t since;    /* those before it in its batch */
    int64_t at;       /* where its answer begins in that of the range */
} answer_block;

static answer_block block_at(const wefti_demo_pass *pass, wefti_demo_batch batch,
                             int64_t i) {
    const wefti_demo *self = pass->r->self;
    const wefti_demo_part *part = batch.part;
    int64_t b = batch.first_block + i;
    wefti_demo_place place = wefti_demo_place_of(&self->rules, part, b);
    int64_t before = pass->bucket->edges[pass->range].answer_bytes;
    return (answer_block){.part = part,
                          .first = wefti_demo_items(part, 0, b),
                          .n = wefti_demo_items(part, b, 1),
                          .since = wefti_demo_items(part, batch.first_block, i),
                          .at = place.answer_bytes - before};
}

static void answer_dense(const wefti_demo_pass *pass, const wefti_demo_scratch *scratch,
                         const answer_block *block) {
    const float *mean = scratch->values[0] + block->since;
    unsigned char *out = pass->answer + block->at;
    if (pass->r->config.sign)
        wefti_signs_encode(block->n, mean, out);
    else
        wefti_put_floats(block->n, mean, out);
}

static void answer_floats(const wefti_demo_pass *pass, const wefti_demo_scratch *scratch,
                          const answer_block *block) {
    const wefti_chunks *s = &block->part->chunks;
    const float *d = pass->d + block->part->offset;
    unsigned char *out = pass->answer + block->at;
    for (int64_t i = 0; i < block->n; i++, out += 4 * s->elements) {
        wefti_chunks_load(s, block->first + i, 1, d, scratch->chunk);
        wefti_put_floats(s->elements, scratch->chunk, out);
    }
}

static void answer_sparse(const wefti_demo_pass *pass, const wefti_demo_scratch *scratch,
                          const answer_block *block) {
    const wefti_chunks *s = &block->part->chunks;
    if (!pass->r->config.sign) {
        answer_floats(pass, scratch, block);
        return;
    }
    int64_t size = wefti_chunks_bits_bytes(s), states = (block->n + 3) / 4;
    pack_twos(block->n, scratch->states + block->since, pass->answer + block->at);
    memcpy(pass->answer + block->at + states, scratch->bits + block->since * size,
           (size_t)(block->n * size));
}

/* Combines a sparse batch: its signs into scratch, or its direction into d. */
static void combine_sparse(const wefti_demo_pass *pass, const wefti_demo_scratch *scratch,
                           wefti_demo_batch batch) {
    const wefti_demo *self = pass->r->self;
    const wefti_demo_part *part = batch.part;
    const int32_t *const *indices = (const int32_t *const *)scratch->indices;
    const float *const *values = (const float *const *)scratch->values;
    int R = pass->counted;
    if (pass->r->config.sign)
        wefti_spectrum_combine_signs(self->spectrum, scratch->thread, &part->chunks,
                                     batch.first, batch.n, R, indices, values,
                                     scratch->states, scratch->bits);
    else
        wefti_spectrum_combine(self->spectrum, scratch->thread, &part->chunks,
                               batch.first, batch.n, R, indices, values,
                               WEFTI_DIRECTION_VALUE, pass->d + part->offset);
}

weft_status wefti_demo_answer(const wefti_demo_pass *pass,
                              const wefti_demo_scratch *scratch, wefti_demo_batch batch) {
    bool dense = batch.part->section.dense;
    WEFT_TRY(wefti_demo_decode(pass, scratch, batch));
    if (dense)
        wefti_demo_mean(pass, batch.n, scratch);
    else
        combine_sparse(pass, scratch, batch);
    for (int64_t i = 0; i < batch.n_blocks; i++) {
        answer_block block = block_at(pass, batch, i);
        (dense ? answer_dense : answer_sparse)(pass, scratch, &block);
    }
    return WEFT_OK;
}

static weft_status refuse(const wefti_demo_pass *pass, int64_t chunk, const char *what) {
    return weft_ctx_fail(pass->r->ctx, WEFT_ERR_WIRE,
                         "the answer of rank %d has %s at chunk %lld of a tensor",
                         pass->range, what, (long long)chunk);
}

static weft_status follow_dense(const wefti_demo_pass *pass,
                                const wefti_demo_scratch *scratch,
                                const answer_block *block) {
    float *d = pass->d + block->part->offset + block->first;
    const unsigned char *in = pass->answered + block->at;
    (void)scratch;
    if (pass->r->config.sign) return wefti_signs_decode(pass->r->ctx, block->n, in, d);
    wefti_get_floats(block->n, in, d);
    return WEFT_OK;
}

/* Whether the bits of a chunk without signs, and those that fill up its last byte, are
 * zero. */
static bool bits_are_clean(const wefti_chunks *s, int state, const unsigned char *bits) {
    int64_t size = wefti_chunks_bits_bytes(s);
    if (s->elements % 8 != 0 && bits[size - 1] >> s->elements % 8 != 0) return false;
    if (state == WEFTI_SIGNS_BITS) return true;
    unsigned char any = 0;
    for (int64_t i = 0; i < size; i++) any |= bits[i];
    return any == 0;
}

/* Unpacks and checks the signs of a block into scratch. */
static weft_status unpack_signs(const wefti_demo_pass *pass,
                                const wefti_demo_scratch *scratch,
                                const answer_block *block) {
    const wefti_chunks *s = &block->part->chunks;
    int64_t size = wefti_chunks_bits_bytes(s);
    unsigned char *states = scratch->states + block->since;
    unsigned char *bits = scratch->bits + block->since * size;
    if (!unpack_twos(block->n, pass->answered + block->at, states))
        return refuse(pass, block->first, "bits that are not zero behind the states");
    memcpy(bits, pass->answered + block->at + (block->n + 3) / 4,
           (size_t)(block->n * size));
    for (int64_t i = 0; i < block->n; i++) {
        if (states[i] > WEFTI_SIGNS_NOT_FINITE)
            return refuse(pass, block->first + i, "state 3, expected 0 to 2,");
        if (!bits_are_clean(s, states[i], bits + i * size))
            return refuse(pass, block->first + i, "bits where none are expected");
    }
    return WEFT_OK;
}

static weft_status follow_sparse(const wefti_demo_pass *pass,
                                 const wefti_demo_scratch *scratch,
                                 const answer_block *block) {
    const wefti_chunks *s = &block->part->chunks;
    float *d = pass->d + block->part->offset;
    const unsigned char *in = pass->answered + block->at;
    if (pass->r->config.sign) return unpack_signs(pass, scratch, block);
    for (int64_t i = 0; i < block->n; i++, in += 4 * s->elements) {
        wefti_get_floats(s->elements, in, scratch->chunk);
        wefti_chunks_store(s, block->first + i, 1, scratch->chunk, d);
    }
    return WEFT_OK;
}

weft_status wefti_demo_follow(const wefti_demo_pass *pass,
                              const wefti_demo_scratch *scratch, wefti_demo_batch batch) {
    const wefti_demo *self = pass->r->self;
    const wefti_demo_part *part = batch.part;
    bool dense = part->section.dense;
    for (int64_t i = 0; i < batch.n_blocks; i++) {
        answer_block block = block_at(pass, batch, i);
        WEFT_TRY((dense ? follow_dense : follow_sparse)(pass, scratch, &block));
    }
    if (!dense && pass->r->config.sign)
        wefti_chunks_store_bits(self->spectrum, &part->chunks, batch.first, batch.n,
                                scratch->states, scratch->bits, pass->d + part->offset);
    return WEFT_OK;
}
