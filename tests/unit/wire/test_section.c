/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "draws.h"
#include "wire/section.h"
#include "wire/values.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

static const struct {
    int64_t elements, k;
} shapes[] = {{1, 1},   {5, 3},   {64, 1},  {64, 3},    {64, 4},    {64, 8},
              {64, 50}, {64, 64}, {100, 7}, {1000, 16}, {4096, 32}, {4096, 200}};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

/* A section with its content: owned, released by data_fini. */
typedef struct data {
    wefti_section s;
    wefti_binomials *table;
    int32_t *indices, *back;
    float *values, *values_back;
} data;

static data data_of(wefti_section s, wefti_binomials *table) {
    size_t n = s.n_values > 0 ? (size_t)s.n_values : 1;
    data d = {s, table, calloc(n, 4), calloc(n, 4), calloc(n, 4), calloc(n, 4)};
    if (!s.dense) draw_chunks(1, s.n_chunks, s.elements, s.k, d.indices);
    fill_normal(2, s.n_values, d.values);
    return d;
}

static data sparse(int shape, int64_t n_chunks, int values, int indices) {
    int64_t elements = shapes[shape].elements, k = shapes[shape].k;
    wefti_binomials *table = NULL;
    if (indices == WEFTI_INDICES_ENUMERATIVE)
        assert_ok(ctx, wefti_binomials_create(ctx, elements, k, &table));
    return data_of(wefti_section_sparse(n_chunks, k, elements, (wefti_value_codec)values,
                                        (wefti_index_codec)indices, table),
                   table);
}

static void data_fini(data *d) {
    wefti_binomials_destroy(ctx, d->table);
    free(d->indices);
    free(d->back);
    free(d->values);
    free(d->values_back);
}

static int64_t first_value(const data *d, int64_t b) { return b * d->s.block_values; }

/* One block in exactly its bytes on the heap, where a sanitizer sees every byte too far.
 */
static unsigned char *encode(data *d, int64_t b) {
    int64_t n_bytes = wefti_section_bytes(&d->s, b, 1), at = first_value(d, b);
    wefti_rounding rounding = {b % 2 == 0, 1, 2, 3};
    unsigned char *block = malloc((size_t)n_bytes + 1);
    block[n_bytes] = 0xa5;
    wefti_section_encode(&d->s, b, d->s.dense ? NULL : d->indices + at, d->values + at,
                         &rounding, block);
    assert_int_equal(block[n_bytes], 0xa5);
    unsigned char *tight = malloc((size_t)n_bytes);
    memcpy(tight, block, (size_t)n_bytes);
    free(block);
    return tight;
}

static weft_status decode(data *d, int64_t b, const unsigned char *block) {
    int64_t at = first_value(d, b);
    return wefti_section_decode(ctx, &d->s, b, block, d->s.dense ? NULL : d->back + at,
                                d->values_back + at);
}

static void assert_comes_back(data *d) {
    int64_t total = 0;
    for (int64_t b = d->s.n_blocks - 1; b >= 0; b--) { /* in any order */
        unsigned char *block = encode(d, b);
        assert_ok(ctx, decode(d, b, block));
        free(block);
        total += wefti_section_bytes(&d->s, b, 1);
        if (b < d->s.n_blocks - 1)
            assert_int_equal(wefti_section_bytes(&d->s, b, 1), d->s.block_bytes);
    }
    size_t n = (size_t)d->s.n_values * 4;
    assert_memory_equal(d->indices, d->back, n);
    assert_memory_equal(d->values, d->values_back, n);
    assert_int_equal(total, wefti_section_bytes(&d->s, 0, d->s.n_blocks));
}

TEST(every_codec_and_shape_comes_back_in_the_bytes_predicted) {
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (int values = 0; values < WEFTI_VALUE_CODECS; values++)
            for (int indices = WEFTI_INDICES_FIXED; indices < WEFTI_INDEX_CODECS;
                 indices++)
                for (int64_t n = 0; n <= 40; n += n < 4 ? 1 : 12) {
                    data d = sparse(shape, n, values, indices);
                    assert_comes_back(&d);
                    data_fini(&d);
                }
}

TEST(dense_sections_come_back) {
    static const int64_t sizes[] = {0, 1, 63, 64, 65, 1000};
    for (int values = 0; values < WEFTI_VALUE_CODECS; values++)
        for (int i = 0; i < 6; i++) {
            data d = data_of(wefti_section_dense(sizes[i], (wefti_value_codec)values),
                             NULL);
            assert_int_equal(d.s.n_blocks, (sizes[i] + 63) / 64);
            assert_comes_back(&d);
            data_fini(&d);
        }
}

TEST(lengths_do_not_need_the_table) {
    for (int shape = 0; shape < N_SHAPES; shape++) {
        data d = sparse(shape, 100, WEFTI_VALUES_INT8, WEFTI_INDICES_ENUMERATIVE);
        wefti_section s = wefti_section_sparse(
            100, d.s.k, d.s.elements, WEFTI_VALUES_INT8, WEFTI_INDICES_ENUMERATIVE, NULL);
        assert_int_equal(s.block_chunks, d.s.block_chunks);
        assert_int_equal(wefti_section_bytes(&s, 0, s.n_blocks),
                         wefti_section_bytes(&d.s, 0, d.s.n_blocks));
        data_fini(&d);
    }
}

TEST(blocks_are_sums_of_their_parts) {
    data d = sparse(4, 37, WEFTI_VALUES_INT8, WEFTI_INDICES_ENUMERATIVE);
    assert_int_equal(d.s.block_chunks, 16);
    assert_int_equal(d.s.block_bytes, 2 + 39 + 64);
    assert_int_equal(d.s.n_blocks, 3);
    assert_int_equal(wefti_section_block_chunks(&d.s, 2), 5);
    assert_int_equal(wefti_section_block_values(&d.s, 2), 20);
    assert_int_equal(wefti_section_bytes(&d.s, 2, 1), 2 + (2 * 39 + 20 + 7) / 8 + 20);
    assert_int_equal(wefti_section_bytes(&d.s, 1, 2), 105 + 35);
    assert_int_equal(wefti_section_bytes(&d.s, 1, 0), 0);
    data_fini(&d);
}

static double log2_choose(int64_t n, int64_t k) {
    return (lgamma((double)n + 1) - lgamma((double)k + 1) - lgamma((double)(n - k) + 1)) /
           log(2);
}

TEST(enumerative_indices_are_within_3_per_cent_of_the_entropy) {
    static const int64_t elements[] = {64, 100, 128, 256, 1000, 1024, 4096, 16384};
    for (int e = 0; e < 8; e++)
        for (int64_t k = 1; k <= elements[e] / (elements[e] <= 256 ? 2 : 16);
             k += elements[e] <= 128 ? 1 : 1 + k / 4) {
            wefti_section s = wefti_section_sparse(1000, k, elements[e], WEFTI_VALUES_F32,
                                                   WEFTI_INDICES_ENUMERATIVE, NULL);
            double bits = 8 * (double)(s.block_bytes - 4 * s.block_values);
            double entropy = log2_choose(elements[e], k) * (double)s.block_chunks;
            if (wefti_binomials_bytes(elements[e], k) > WEFTI_BINOMIALS_MAX_BYTES)
                continue;
            assert_true(bits >= entropy * (1 - 1e-9) && bits <= 1.03 * entropy);
        }
}

TEST(four_of_64_with_int8_take_at_most_13_and_a_half_bits) {
    for (int64_t n = 1000; n < 1020; n++) {
        wefti_section s = wefti_section_sparse(n, 4, 64, WEFTI_VALUES_INT8,
                                               WEFTI_INDICES_AUTO, NULL);
        assert_int_equal(s.indices, WEFTI_INDICES_ENUMERATIVE);
        assert_true(8.0 * (double)wefti_section_bytes(&s, 0, s.n_blocks) <=
                    13.5 * (double)s.n_values);
    }
}

TEST(auto_is_the_shortest_and_the_simplest_of_equals) {
    static const struct {
        int64_t elements, k;
        wefti_index_codec codec;
    } cases[] = {
        {64, 1, WEFTI_INDICES_FIXED},       {64, 4, WEFTI_INDICES_ENUMERATIVE},
        {2, 1, WEFTI_INDICES_FIXED},        {64, 64, WEFTI_INDICES_ENUMERATIVE},
        {4096, 2048, WEFTI_INDICES_BITMAP}, {4096, 32, WEFTI_INDICES_ENUMERATIVE}};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(
            wefti_index_codec_choose(WEFTI_INDICES_AUTO, cases[i].elements, cases[i].k),
            cases[i].codec);
        for (int codec = WEFTI_INDICES_FIXED; codec < WEFTI_INDEX_CODECS; codec++)
            assert_int_equal(wefti_index_codec_choose((wefti_index_codec)codec,
                                                      cases[i].elements, cases[i].k),
                             codec);
    }
}

/* What was accepted is in range. */
static void assert_well_formed(const data *d, int64_t b) {
    int64_t n = wefti_section_block_values(&d->s, b);
    const int32_t *index = d->back + first_value(d, b);
    for (int64_t i = 0; i < n && !d->s.dense; i++) {
        assert_true(index[i] >= 0 && index[i] < d->s.elements);
        assert_true(i % d->s.k == 0 || index[i] > index[i - 1]);
    }
}

TEST(any_changed_byte_is_refused_or_gives_something_in_range) {
    static const unsigned char changes[] = {0x01, 0x80, 0xff, 0x10};
    int64_t refused = 0;
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (int values = 0; values < WEFTI_VALUE_CODECS; values++)
            for (int indices = WEFTI_INDICES_FIXED; indices < WEFTI_INDEX_CODECS;
                 indices++) {
                data d = sparse(shape, 3, values, indices);
                unsigned char *block = encode(&d, 0);
                for (int64_t at = 0; at < wefti_section_bytes(&d.s, 0, 1);
                     at += UNDER_SANITIZER ? 1 + at / 20 : 1)
                    for (int c = 0; c < 4; c++) {
                        block[at] ^= changes[c];
                        if (decode(&d, 0, block) == WEFT_OK)
                            assert_well_formed(&d, 0);
                        else
                            refused++;
                        weft_ctx_clear(ctx);
                        block[at] ^= changes[c];
                    }
                assert_ok(ctx, decode(&d, 0, block));
                free(block);
                data_fini(&d);
            }
    assert_true(refused > 1000);
}

TEST(arbitrary_bytes_never_leave_the_range) {
    for (int shape = 0; shape < N_SHAPES; shape++)
        for (int indices = WEFTI_INDICES_FIXED; indices < WEFTI_INDEX_CODECS; indices++) {
            data d = sparse(shape, 40, WEFTI_VALUES_F32, indices);
            int64_t n_bytes = wefti_section_bytes(&d.s, 0, 1);
            unsigned char *block = malloc((size_t)n_bytes);
            for (uint64_t seed = 0; seed < 20; seed++) {
                draw_bytes(seed, n_bytes, block);
                if (decode(&d, 0, block) == WEFT_OK) assert_well_formed(&d, 0);
                weft_ctx_clear(ctx);
            }
            free(block);
            data_fini(&d);
        }
}

TEST(a_refusal_says_where_and_what) {
    data d = sparse(4, 37, WEFTI_VALUES_INT8, WEFTI_INDICES_FIXED);
    unsigned char *block = encode(&d, 1);
    memset(block + 2 + 3 * 5, 0, 3); /* chunk 5 of the block: four times index 0 */
    assert_fails(ctx, decode(&d, 1, block), WEFT_ERR_WIRE,
                 "fixed indices of chunk 21 are no ascending 4 numbers below 64");
    free(block);
    block = encode(&d, 1);
    block[1] |= 0x80;
    assert_fails(ctx, decode(&d, 1, block), WEFT_ERR_WIRE,
                 "block 1 of int8 values has a scale that is neither");
    free(block);
    data_fini(&d);
}

TEST(spare_bits_are_zero_or_refused) {
    data d = sparse(4, 1, WEFTI_VALUES_SIGN, WEFTI_INDICES_ENUMERATIVE);
    unsigned char *block = encode(&d, 0); /* 2, 20 bits in 3, 4 bits in 1 */
    block[4] |= 0x10;
    assert_fails(ctx, decode(&d, 0, block), WEFT_ERR_WIRE, "bits behind the enumerative");
    block[4] ^= 0x10;
    block[5] |= 0x10;
    assert_fails(ctx, decode(&d, 0, block), WEFT_ERR_WIRE, "behind the values");
    free(block);
    data_fini(&d);
}

TEST(names_are_those_of_configurations) {
    static const char *const values[] = {"f32", "bf16", "int8", "int4", "sign"};
    static const char *const indices[] = {"auto", "fixed", "bitmap", "enumerative"};
    for (int i = 0; i < 5; i++) assert_int_equal(wefti_value_codec_find(values[i]), i);
    for (int i = 0; i < 4; i++) assert_int_equal(wefti_index_codec_find(indices[i]), i);
    assert_int_equal(wefti_value_codec_find("int2"), -1);
    assert_int_equal(wefti_index_codec_find(""), -1);
}

/* --- several blocks --- */

enum { MOST = 64 * 37 + 21 };

/* The numbers of several blocks: before, and after coding. */
typedef struct many {
    float from[MOST], values[MOST], rest[MOST];
    unsigned char bytes[MOST * 4];
} many;

/* What wefti_section_encode_blocks should do, block by block. */
static void encode_each(const wefti_section *s, const wefti_blocks *blocks,
                        const wefti_rounding *rounding, many *m) {
    for (int64_t i = 0; i < blocks->n; i++) {
        int64_t at = i * 64, n = wefti_section_block_values(s, blocks->first + i);
        float v[64], d[64];
        for (int64_t l = 0; l < n; l++) {
            volatile float share = m->from[at + l] * blocks->share;
            v[l] = share;
            if (blocks->kind == WEFTI_REST_SENT) v[l] += m->rest[at + l];
        }
        memcpy(d, v, (size_t)n * sizeof *d);
        wefti_section_encode(s, blocks->first + i, NULL, d, rounding,
                             m->bytes + i * s->block_bytes);
        for (int64_t l = 0; l < n; l++) {
            volatile float lost = (v[l] - d[l]) * blocks->times;
            if (blocks->kind == WEFTI_REST_MORE) m->rest[at + l] += lost;
            if (blocks->kind == WEFTI_REST_SENT || blocks->kind == WEFTI_REST_NEW)
                m->rest[at + l] = lost;
            m->values[at + l] = d[l];
        }
    }
}

static void decode_each(const wefti_section *s, const wefti_blocks *blocks, many *m) {
    for (int64_t i = 0; i < blocks->n; i++) {
        int64_t at = i * 64, n = wefti_section_block_values(s, blocks->first + i);
        float d[64];
        assert_ok(ctx, wefti_section_decode(ctx, s, blocks->first + i,
                                            m->bytes + i * s->block_bytes, NULL, d));
        for (int64_t l = 0; l < n; l++)
            m->values[at + l] = blocks->add ? m->values[at + l] + d[l] : d[l];
    }
}

/* NaN has one form in `values`; in `rest` it is what a processor makes of NaN. */
static void assert_same_numbers(int64_t n, const float *a, const float *b) {
    for (int64_t i = 0; i < n; i++)
        if (!(isnan(a[i]) && isnan(b[i]))) assert_memory_equal(a + i, b + i, 4);
}

static void assert_same_as_each(const wefti_section *s, wefti_blocks blocks,
                                bool stochastic) {
    static many one, all;
    int64_t n = s->n_values - blocks.first * 64 < blocks.n * 64
                    ? s->n_values - blocks.first * 64
                    : blocks.n * 64;
    wefti_rounding rounding = {stochastic, 1, 2, 3};
    fill_normal(7, MOST, one.from);
    fill_normal(8, MOST, one.rest);
    memset(one.from + 64 * 2, 0, 64 * 4); /* blocks 2, 3 and 4 have no usual scale */
    if (n > 64 * 3) one.from[64 * 3 + 5] = NAN;
    if (n > 64 * 4) one.from[64 * 4] = 1e-38f;
    memset(one.rest + 64 * 2, 0, 64 * 3 * 4);
    memset(one.bytes, 0, sizeof one.bytes);
    all = one;
    blocks.from = all.from;
    blocks.rest = blocks.kind == WEFTI_REST_NONE ? NULL : all.rest;
    blocks.values = all.values;
    encode_each(s, &blocks, &rounding, &one);
    wefti_section_encode_blocks(s, &blocks, &rounding, all.bytes);
    assert_memory_equal(all.bytes, one.bytes, sizeof one.bytes);
    assert_memory_equal(all.values, one.values, (size_t)n * 4);
    assert_same_numbers(n, all.rest, one.rest);
    decode_each(s, &blocks, &one);
    assert_ok(ctx, wefti_section_decode_blocks(ctx, s, &blocks, all.bytes));
    assert_same_numbers(n, all.values, one.values);
}

TEST(blocks_together_are_those_one_by_one) {
    static const int64_t sizes[] = {1, 64, 65, 64 * 16, MOST};
    for (int isa = 0; isa <= (int)wefti_isa_detect(); isa++)
        for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec++)
            for (int i = 0; i < 5 * 16; i++) {
                wefti_section s = wefti_section_dense(sizes[i / 16],
                                                      (wefti_value_codec)codec);
                wefti_blocks blocks = {.first = s.n_blocks > 30 ? 3 : 0,
                                       .kind = (wefti_rest)(i % 4),
                                       .share = i & 4 ? 1 / 3.0f : 1,
                                       .times = i & 4 ? 3 : 1,
                                       .add = i & 8};
                blocks.n = s.n_blocks - blocks.first;
                s.value_ops = wefti_value_ops_for((wefti_isa)isa,
                                                  (wefti_value_codec)codec);
                if (s.value_ops) assert_same_as_each(&s, blocks, i & 8);
            }
}

TEST(among_many_blocks_the_wrong_one_is_told) {
    static const struct {
        wefti_value_codec codec;
        int byte;
        unsigned char is;
        const char *told;
    } wrong[] = {
        {WEFTI_VALUES_INT8, 9, 0x80, "block 23 of int8 values has a value of -128"},
        {WEFTI_VALUES_INT4, 9, 0x08, "block 23 of int4 values has a value of -8"},
        {WEFTI_VALUES_INT8, 1, 0x7f, "block 23 of int8 values has a scale that is"},
        {WEFTI_VALUES_SIGN, 1, 0x7f, "block 23 of sign values has a scale that is"}};
    static many m;
    for (int i = 0; i < 4; i++) {
        wefti_section s = wefti_section_dense(MOST, wrong[i].codec);
        wefti_blocks blocks = {.first = 3,
                               .n = 30,
                               .from = m.from,
                               .values = m.values,
                               .share = 1,
                               .times = 1};
        fill_normal(7, MOST, m.from);
        wefti_section_encode_blocks(&s, &blocks, NULL, m.bytes);
        m.bytes[20 * s.block_bytes + wrong[i].byte] = wrong[i].is;
        assert_fails(ctx, wefti_section_decode_blocks(ctx, &s, &blocks, m.bytes),
                     WEFT_ERR_WIRE, wrong[i].told);
    }
}

int main(void) { return check_run(setup, teardown); }
