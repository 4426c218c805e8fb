/* SPDX-License-Identifier: MIT */
/* Sections: how long their blocks are, and one block to bytes and back. A block is
 *
 *     scale, 2 bytes, if the value codec has one | indices, to a whole byte
 *     | values, to a whole byte
 */
#include "wire/section.h"

#include <string.h>

#include "wire/binomials.h"
#include "wire/values.h"
#include "wire/enumerative.h"
#include "wire/bits.h"

/* Index codecs: numbers of fixed width, a bit per coefficient, and the number of the set
 * (wire/enumerative.c). */

/* How the indices of chunks become bits. */
typedef struct wefti_index_ops {
    const char *name;
    /* Writes the indices of n chunks of the section: indices[n * k]. */
    void (*encode)(const wefti_section *s, int64_t n, const int32_t *indices,
                   wefti_bit_writer *out);
    /* Reads them back. Returns the first chunk that encode cannot have written, n if
     * there is none. */
    int64_t (*decode)(const wefti_section *s, int64_t n, wefti_bit_reader *in,
                      int32_t *indices);
} wefti_index_ops;

static void fixed_encode(const wefti_section *s, int64_t n, const int32_t *indices,
                         wefti_bit_writer *out) {
    wefti_bits_write_low(out, n * s->k, wefti_bits_for(s->elements), indices);
}

/* The first of n chunks whose indices are not ascending below `elements`. Inlined for
 * constant k. */
static inline int64_t first_bad(int64_t n, int64_t k, int64_t elements,
                                const int32_t *indices) {
    for (int64_t i = 0; i < n; i++, indices += k) {
        bool good = indices[k - 1] < elements;
        for (int64_t j = 1; j < k; j++) good &= indices[j] > indices[j - 1];
        if (!good) return i;
    }
    return n;
}

static int64_t fixed_decode(const wefti_section *s, int64_t n, wefti_bit_reader *in,
                            int32_t *indices) {
    wefti_bits_read_low(in, n * s->k, wefti_bits_for(s->elements), indices);
    if (s->k == 4) return first_bad(n, 4, s->elements, indices);
    return first_bad(n, s->k, s->elements, indices);
}

static void bitmap_encode(const wefti_section *s, int64_t n, const int32_t *indices,
                          wefti_bit_writer *out) {
    for (int64_t i = 0; i < n; i++, indices += s->k) {
        int64_t next = 0;
        for (int64_t at = 0; at < s->elements; at += 64) {
            uint64_t word = 0;
            for (; next < s->k && indices[next] < at + 64; next++)
                word |= 1ull << (indices[next] - at);
            int64_t left = s->elements - at;
            wefti_bits_write(out, word, left < 64 ? (int)left : 64);
        }
    }
}

/* Appends the places of the ones, at most k in all. */
static int64_t list_ones(uint64_t word, int64_t base, int64_t n, int64_t k,
                         int32_t *indices) {
    for (; word; word &= word - 1, n++)
        if (n < k) indices[n] = (int32_t)(base + __builtin_ctzll(word));
    return n;
}

static int64_t bitmap_decode(const wefti_section *s, int64_t n, wefti_bit_reader *in,
                             int32_t *indices) {
    for (int64_t i = 0; i < n; i++, indices += s->k) {
        int64_t ones = 0;
        for (int64_t at = 0; at < s->elements; at += 64) {
            int64_t left = s->elements - at;
            uint64_t word = wefti_bits_read(in, left < 64 ? (int)left : 64);
            ones = list_ones(word, at, ones, s->k, indices);
        }
        if (ones != s->k) return i;
    }
    return n;
}

static void enumerative_encode(const wefti_section *s, int64_t n, const int32_t *indices,
                               wefti_bit_writer *out) {
    wefti_enumerative_encode(s->binomials, n, indices, out);
}

static int64_t enumerative_decode(const wefti_section *s, int64_t n, wefti_bit_reader *in,
                                  int32_t *indices) {
    return wefti_enumerative_decode(s->binomials, n, in, indices);
}

static const wefti_index_ops *index_ops_of(wefti_index_codec codec) {
    static const wefti_index_ops ops[WEFTI_INDEX_CODECS] = {
        [WEFTI_INDICES_AUTO] = {.name = "auto"},
        [WEFTI_INDICES_FIXED] = {"fixed", fixed_encode, fixed_decode},
        [WEFTI_INDICES_BITMAP] = {"bitmap", bitmap_encode, bitmap_decode},
        [WEFTI_INDICES_ENUMERATIVE] = {"enumerative", enumerative_encode,
                                       enumerative_decode},
    };
    return &ops[codec];
}

/* At most 1/SPARE_PART of a block's index bits is lost in its last byte. */
enum { SPARE_PART = 128, SCALE_BYTES = 2 };

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t index_bits(const wefti_section *s, int64_t chunks) {
    if (chunks == s->block_chunks) return s->block_index_bits;
    return chunks / s->group * s->group_bits[s->group] + s->group_bits[chunks % s->group];
}

/* Where the values of a block of n chunks begin. */
static int64_t values_at(const wefti_section *s, int64_t chunks) {
    int64_t bits = s->dense ? 0 : index_bits(s, chunks);
    return SCALE_BYTES * s->value_ops->scaled + wefti_bit_bytes(bits);
}

static int64_t bytes_of_block(const wefti_section *s, int64_t chunks, int64_t n) {
    return values_at(s, chunks) + wefti_bit_bytes(n * s->value_ops->bits);
}

/* The smallest number of chunks that has enough values and loses little to whole bytes;
 * with eight groups nothing is lost. */
static int64_t choose_block_chunks(const wefti_section *s) {
    int64_t least = s->group * s->k, bits = s->group_bits[s->group];
    int64_t n = (WEFTI_BLOCK_VALUES + least - 1) / least;
    while ((8 * wefti_bit_bytes(n * bits) - n * bits) * SPARE_PART > n * bits) n++;
    return n * s->group;
}

static void set_index_bits(wefti_section *s) {
    s->group = 1;
    if (s->indices == WEFTI_INDICES_FIXED)
        s->group_bits[1] = (int)s->k * wefti_bits_for(s->elements);
    else
        s->group_bits[1] = (int)s->elements;
    if (s->indices != WEFTI_INDICES_ENUMERATIVE) return;
    wefti_binomial_shape made;
    const wefti_binomial_shape *shape = &made;
    if (s->binomials)
        shape = &s->binomials->shape;
    else
        (void)wefti_binomial_shape_make(s->elements, s->k, &made);
    s->group = shape->group;
    memcpy(s->group_bits, shape->group_bits, sizeof s->group_bits);
}

wefti_section wefti_section_sparse(int64_t n_chunks, int64_t k, int64_t elements,
                                   wefti_value_codec values, wefti_index_codec indices,
                                   const wefti_binomials *binomials) {
    wefti_section s = {.k = k,
                       .elements = elements,
                       .values = values,
                       .indices = wefti_index_codec_choose(indices, elements, k),
                       .binomials = binomials};
    set_index_bits(&s);
    s.value_ops = wefti_value_ops_of(values);
    s.index_ops = index_ops_of(s.indices);
    s.block_chunks = choose_block_chunks(&s);
    s.block_values = s.block_chunks * k;
    s.block_index_bits = s.block_chunks / s.group * s.group_bits[s.group];
    s.block_bytes = bytes_of_block(&s, s.block_chunks, s.block_values);
    return wefti_section_of_chunks(&s, n_chunks);
}

wefti_section wefti_section_of_chunks(const wefti_section *section, int64_t n_chunks) {
    wefti_section s = *section;
    s.n_chunks = n_chunks;
    s.n_values = n_chunks * s.k;
    s.n_blocks = (n_chunks + s.block_chunks - 1) / s.block_chunks;
    return s;
}

int64_t wefti_section_table_bytes(const wefti_section *s) {
    bool needed = s->indices == WEFTI_INDICES_ENUMERATIVE;
    return needed ? wefti_binomials_bytes(s->elements, s->k) : 0;
}

wefti_section wefti_section_dense(int64_t n_values, wefti_value_codec values) {
    wefti_section s = {.n_chunks = (n_values + WEFTI_BLOCK_VALUES - 1) /
                                   WEFTI_BLOCK_VALUES,
                       .k = WEFTI_BLOCK_VALUES,
                       .elements = WEFTI_BLOCK_VALUES,
                       .n_values = n_values,
                       .values = values,
                       .indices = WEFTI_INDICES_FIXED,
                       .dense = true,
                       .block_chunks = 1,
                       .block_values = WEFTI_BLOCK_VALUES,
                       .value_ops = wefti_value_ops_of(values),
                       .group = 1};
    s.block_bytes = bytes_of_block(&s, 1, WEFTI_BLOCK_VALUES);
    s.n_blocks = s.n_chunks;
    return s;
}

int64_t wefti_section_block_values(const wefti_section *s, int64_t b) {
    return min64(s->block_values, s->n_values - b * s->block_values);
}

int64_t wefti_section_block_chunks(const wefti_section *s, int64_t b) {
    return min64(s->block_chunks, s->n_chunks - b * s->block_chunks);
}

/* Bytes of blocks [0, n). */
static int64_t bytes_before(const wefti_section *s, int64_t n) {
    int64_t last = s->n_blocks - 1;
    if (n < s->n_blocks || n == 0) return n * s->block_bytes;
    return last * s->block_bytes + bytes_of_block(s, wefti_section_block_chunks(s, last),
                                                  wefti_section_block_values(s, last));
}

int64_t wefti_section_bytes(const wefti_section *s, int64_t first, int64_t n) {
    return bytes_before(s, first + n) - bytes_before(s, first);
}

/* Compares the index bytes per chunk of full blocks. */
static bool is_shorter(const wefti_section *a, const wefti_section *b) {
    return wefti_bit_bytes(index_bits(a, a->block_chunks)) * b->block_chunks <
           wefti_bit_bytes(index_bits(b, b->block_chunks)) * a->block_chunks;
}

wefti_index_codec wefti_index_codec_choose(wefti_index_codec wanted, int64_t elements,
                                           int64_t k) {
    if (wanted != WEFTI_INDICES_AUTO) return wanted;
    wefti_section best = wefti_section_sparse(1, k, elements, WEFTI_VALUES_F32,
                                              WEFTI_INDICES_FIXED, NULL);
    for (int codec = WEFTI_INDICES_BITMAP; codec < WEFTI_INDEX_CODECS; codec++) {
        if (codec == WEFTI_INDICES_ENUMERATIVE &&
            wefti_binomials_bytes(elements, k) > WEFTI_BINOMIALS_MAX_BYTES)
            continue;
        wefti_section other = wefti_section_sparse(1, k, elements, WEFTI_VALUES_F32,
                                                   (wefti_index_codec)codec, NULL);
        if (is_shorter(&other, &best)) best = other;
    }
    return best.indices;
}

static wefti_value_place place_of(const wefti_section *s, int64_t b) {
    return (wefti_value_place){.first = b * s->block_values,
                               .n = wefti_section_block_values(s, b),
                               .at = values_at(s, wefti_section_block_chunks(s, b))};
}

void wefti_section_encode(const wefti_section *s, int64_t b, const int32_t *indices,
                          float *values, const wefti_rounding *rounding,
                          unsigned char *out) {
    wefti_value_place place = place_of(s, b);
    if (!s->dense)
        wefti_section_encode_indices(s, b, indices,
                                     out + SCALE_BYTES * s->value_ops->scaled);
    s->value_ops->encode(&place, rounding, values, out);
}

/* Whether the bits of the last byte after n_bits are zero. */
static bool spare_is_zero(const unsigned char *in, int64_t n_bits) {
    return n_bits % 8 == 0 || in[n_bits / 8] >> (n_bits % 8) == 0;
}

/* `room`: bytes that may be read from `in` on; eight are read at once where possible. */
static weft_status decode_indices(weft_ctx *ctx, const wefti_section *s, int64_t b,
                                  const unsigned char *in, int64_t room,
                                  int32_t *indices) {
    int64_t n = wefti_section_block_chunks(s, b);
    wefti_bit_reader reader = {in, room, 0};
    int64_t bad = s->index_ops->decode(s, n, &reader, indices);
    if (bad < n)
        return weft_ctx_fail(
            ctx, WEFT_ERR_WIRE,
            "%s indices of chunk %lld are no ascending %lld numbers below %lld",
            s->index_ops->name, (long long)(b * s->block_chunks + bad), (long long)s->k,
            (long long)s->elements);
    if (!spare_is_zero(in, index_bits(s, n)))
        return weft_ctx_fail(ctx, WEFT_ERR_WIRE,
                             "bits behind the %s indices of block %lld are not zero",
                             s->index_ops->name, (long long)b);
    return WEFT_OK;
}

int64_t wefti_section_index_bytes(const wefti_section *s, int64_t b) {
    return wefti_bit_bytes(index_bits(s, wefti_section_block_chunks(s, b)));
}

void wefti_section_encode_indices(const wefti_section *s, int64_t b,
                                  const int32_t *indices, unsigned char *out) {
    wefti_bit_writer writer = {.out = out};
    s->index_ops->encode(s, wefti_section_block_chunks(s, b), indices, &writer);
    wefti_bits_finish(&writer);
}

weft_status wefti_section_decode_indices(weft_ctx *ctx, const wefti_section *s, int64_t b,
                                         const unsigned char *in, int32_t *indices) {
    return decode_indices(ctx, s, b, in, wefti_section_index_bytes(s, b), indices);
}

weft_status wefti_section_decode(weft_ctx *ctx, const wefti_section *s, int64_t b,
                                 const unsigned char *in, int32_t *indices,
                                 float *values) {
    int64_t scale = SCALE_BYTES * s->value_ops->scaled;
    int64_t room = wefti_section_bytes(s, b, 1) - scale; /* values follow the indices */
    if (!s->dense) WEFT_TRY(decode_indices(ctx, s, b, in + scale, room, indices));
    wefti_value_place place = place_of(s, b);
    const char *fault = s->value_ops->decode(&place, in, values);
    if (!fault && !spare_is_zero(in + place.at, place.n * s->value_ops->bits))
        fault = "bits that are not zero behind the values";
    if (fault)
        return weft_ctx_fail(ctx, WEFT_ERR_WIRE, "block %lld of %s values has %s",
                             (long long)b, s->value_ops->name, fault);
    return WEFT_OK;
}

/* --- several blocks of a dense section --- */

/* How many of them are full. (A copy of *blocks would be read in other pieces than its fields
 * were written in, and so wait until the values stored before have left the processor.) */
static int64_t full_of(const wefti_section *s, const wefti_blocks *blocks) {
    int64_t n = s->n_values / WEFTI_BLOCK_VALUES - blocks->first;
    return n < 0 ? 0 : min64(n, blocks->n);
}

/* Block number `i` of them, which is short. */
static void encode_short(const wefti_section *s, const wefti_blocks *blocks, int64_t i,
                         const wefti_rounding *rounding, unsigned char *out) {
    int64_t b = blocks->first + i, at = i * WEFTI_BLOCK_VALUES;
    int64_t n = wefti_section_block_values(s, b);
    const float *from = blocks->from + at;
    float *rest = blocks->rest ? blocks->rest + at : NULL;
    float v[WEFTI_BLOCK_VALUES], d[WEFTI_BLOCK_VALUES], lost[WEFTI_BLOCK_VALUES];
    for (int64_t l = 0; l < n; l++) v[l] = from[l] * blocks->share;
    for (int64_t l = 0; l < n && blocks->kind == WEFTI_REST_SENT; l++) v[l] += rest[l];
    for (int64_t l = 0; l < n; l++) d[l] = v[l];
    wefti_section_encode(s, b, NULL, d, rounding, out);
    for (int64_t l = 0; l < n; l++) lost[l] = (v[l] - d[l]) * blocks->times;
    for (int64_t l = 0; l < n && rest; l++)
        rest[l] = blocks->kind == WEFTI_REST_MORE ? rest[l] + lost[l] : lost[l];
    if (blocks->values) memcpy(blocks->values + at, d, (size_t)n * sizeof *d);
}

void wefti_section_encode_blocks(const wefti_section *s, const wefti_blocks *blocks,
                                 const wefti_rounding *rounding, unsigned char *out) {
    int64_t n_full = full_of(s, blocks);
    s->value_ops->encode_blocks(blocks, n_full, rounding, out);
    if (n_full < blocks->n)
        encode_short(s, blocks, n_full, rounding, out + n_full * s->block_bytes);
}

static weft_status decode_one(weft_ctx *ctx, const wefti_section *s,
                              const wefti_blocks *blocks, int64_t i,
                              const unsigned char *in) {
    float d[WEFTI_BLOCK_VALUES], *to = blocks->values + i * WEFTI_BLOCK_VALUES;
    int64_t b = blocks->first + i, n = wefti_section_block_values(s, b);
    WEFT_TRY(wefti_section_decode(ctx, s, b, in, NULL, d));
    for (int64_t l = 0; l < n; l++) to[l] = blocks->add ? to[l] + d[l] : d[l];
    return WEFT_OK;
}

weft_status wefti_section_decode_blocks(weft_ctx *ctx, const wefti_section *s,
                                        const wefti_blocks *blocks,
                                        const unsigned char *in) {
    int64_t n_full = full_of(s, blocks);
    const char *fault = s->value_ops->decode_blocks(blocks, n_full, in);
    int64_t from = fault ? 0 : n_full; /* which block it is, and its sentence */
    for (int64_t i = from; i < blocks->n; i++)
        WEFT_TRY(decode_one(ctx, s, blocks, i, in + i * s->block_bytes));
    return WEFT_OK;
}

int wefti_value_codec_find(const char *name) {
    for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec++)
        if (strcmp(name, wefti_value_ops_of((wefti_value_codec)codec)->name) == 0)
            return codec;
    return -1;
}

int wefti_index_codec_find(const char *name) {
    for (int codec = 0; codec < WEFTI_INDEX_CODECS; codec++)
        if (strcmp(name, index_ops_of((wefti_index_codec)codec)->name) == 0) return codec;
    return -1;
}
