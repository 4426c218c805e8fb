/* SPDX-License-Identifier: MIT */
/* A second decoder for sections, written from docs/wire-format.md, "Sections", alone: bit
 * by bit, with long numbers of its own and Pascal's triangle as it stands there. It finds
 * out for itself where a block begins and how many bits anything has. */
#include <math.h>
#include <stdlib.h>

#include "draws.h"
#include "wire/section.h"

/* -- numbers of up to 320 bits, 16 to a digit, lowest first -- */

enum { DIGITS = 20 };

typedef struct big {
    uint32_t d[DIGITS];
} big;

static big big_of(uint32_t x) { return (big){{x & 0xffff, x >> 16}}; }

static big big_add(big a, big b) {
    uint32_t carry = 0;
    for (int i = 0; i < DIGITS; i++) {
        carry += a.d[i] + b.d[i];
        a.d[i] = carry & 0xffff;
        carry >>= 16;
    }
    assert_int_equal(carry, 0);
    return a;
}

static int big_compare(big a, big b) {
    for (int i = DIGITS - 1; i >= 0; i--)
        if (a.d[i] != b.d[i]) return a.d[i] < b.d[i] ? -1 : 1;
    return 0;
}

static big big_subtract(big a, big b) {
    int32_t borrow = 0;
    for (int i = 0; i < DIGITS; i++) {
        borrow += (int32_t)a.d[i] - (int32_t)b.d[i];
        a.d[i] = (uint32_t)borrow & 0xffff;
        borrow = borrow < 0 ? -1 : 0;
    }
    assert_int_equal(borrow, 0);
    return a;
}

static int big_bit(big a, int i) { return (int)(a.d[i / 16] >> i % 16 & 1); }

static big power_of_two(int i) {
    big a = {{0}};
    a.d[i / 16] = 1u << i % 16;
    return a;
}

static int binary_digits(big a) {
    int n = 16 * DIGITS;
    while (n > 0 && !big_bit(a, n - 1)) n--;
    return n;
}

static big big_multiply(big a, big b) {
    big product = {{0}};
    for (int i = binary_digits(a) - 1; i >= 0; i--) {
        product = big_add(product, product);
        if (big_bit(a, i)) product = big_add(product, b);
    }
    return product;
}

static big shifted(big a, int places) {
    big b = {{0}};
    for (int i = 0; i < binary_digits(a); i++)
        if (big_bit(a, i)) b.d[(i + places) / 16] |= 1u << (i + places) % 16;
    return b;
}

/* a / b, and what is left of a */
static big big_divide(big *a, big b) {
    big quotient = {{0}};
    for (int shift = binary_digits(*a) - binary_digits(b); shift >= 0; shift--) {
        if (big_compare(*a, shifted(b, shift)) < 0) continue;
        *a = big_subtract(*a, shifted(b, shift));
        quotient = big_add(quotient, power_of_two(shift));
    }
    return quotient;
}

/* -- the page's definitions -- */

static big up(big x) {
    int d = binary_digits(x);
    big cut = x;
    for (int i = 0; i < d - 20; i++) cut.d[i / 16] &= ~(1u << i % 16);
    return big_compare(cut, x) == 0 ? x : big_add(cut, power_of_two(d - 20));
}

typedef struct code {
    wefti_index_codec kind;
    int elements, k;
    int l, K, P;
    big *B; /* [P + 1][K + 1] */
    big T;
    int G, bits[17];
} code;

static big *B(const code *c, int n, int j) { return &c->B[n * (c->K + 1) + j]; }

static void make_triangle(code *c) {
    c->B = calloc((size_t)((c->P + 1) * (c->K + 1)), sizeof *c->B);
    for (int n = 0; n <= c->P; n++) {
        *B(c, n, 0) = big_of(1);
        for (int j = 1; j <= c->K && n > 0; j++)
            *B(c, n, j) = up(big_add(*B(c, n - 1, j), *B(c, n - 1, j - 1)));
    }
    c->T = *B(c, c->P, c->K);
}

static int number_bits(const code *c, int r) {
    big all = big_of(1);
    for (int i = 0; i < r; i++) all = big_multiply(all, c->T);
    return binary_digits(big_subtract(all, big_of(1)));
}

static bool is_at_most_2_to_128(const code *c, int r) {
    big all = big_of(1);
    for (int i = 0; i < r; i++) {
        all = big_multiply(all, c->T);
        if (big_compare(all, power_of_two(128)) > 0) return false;
    }
    return true;
}

static void make_groups(code *c) {
    int R = 1;
    c->G = 1;
    c->bits[1] = number_bits(c, 1) + c->k * c->l;
    if (big_compare(c->T, power_of_two(64)) >= 0) return;
    for (int r = 1; r <= 16 && is_at_most_2_to_128(c, r); r++) {
        c->bits[r] = number_bits(c, r) + r * c->k * c->l;
        if (c->bits[r] * R < c->bits[R] * r) R = r;
    }
    while (c->bits[c->G] * 100 * R > c->bits[R] * 101 * c->G) c->G++;
}

static code code_of(wefti_index_codec kind, int elements, int k) {
    code c = {.kind = kind, .elements = elements, .k = k, .G = 1, .P = elements};
    if (kind == WEFTI_INDICES_FIXED)
        while (1 << c.bits[1] < elements) c.bits[1]++;
    if (kind == WEFTI_INDICES_FIXED) c.bits[1] *= k;
    if (kind == WEFTI_INDICES_BITMAP) c.bits[1] = elements;
    if (kind != WEFTI_INDICES_ENUMERATIVE) return c;
    for (int l = 0; l < 20; l++)
        if (elements >> l >= 16 * k && elements >> l >= 128) c.l = l;
    c.K = 2 * k <= elements ? k : elements - k;
    if (c.l > 0) {
        c.K = k;
        c.P = (elements + (1 << c.l) - 1) / (1 << c.l) + k - 1;
    }
    make_triangle(&c);
    make_groups(&c);
    return c;
}

/* -- reading -- */

typedef struct cursor {
    const unsigned char *bytes;
    int64_t bit;
} cursor;

static int next_bit(cursor *c) {
    int bit = c->bytes[c->bit / 8] >> c->bit % 8 & 1;
    c->bit++;
    return bit;
}

static big next_number(cursor *c, int width) {
    big x = {{0}};
    for (int i = 0; i < width; i++)
        if (next_bit(c)) x = big_add(x, power_of_two(i));
    return x;
}

static int small(cursor *c, int width) {
    big x = next_number(c, width);
    return (int)(x.d[0] | x.d[1] << 16);
}

static void to_next_byte(cursor *c) {
    while (c->bit % 8) assert_int_equal(next_bit(c), 0);
}

static void indices_from_members(const code *c, const int *m, int32_t *indices) {
    if (c->l == 0 && 2 * c->k > c->elements) {
        for (int i = 0, j = 0; i < c->elements; i++)
            if (j < c->K && m[j] == i)
                j++;
            else
                *indices++ = i;
        return;
    }
    for (int j = 0; j < c->k; j++) indices[j] = c->l > 0 ? m[j] - j : m[j];
}

static void set_from_number(const code *c, big N, int32_t *indices) {
    int m[64], below = c->P;
    for (int j = c->K; j >= 1; j--) {
        int n = 0;
        while (n + 1 <= c->P && big_compare(*B(c, n + 1, j), N) <= 0) n++;
        assert_true(n < below);
        m[j - 1] = below = n;
        N = big_subtract(N, *B(c, n, j));
    }
    assert_int_equal(binary_digits(N), 0);
    indices_from_members(c, m, indices);
}

static void read_group(const code *c, cursor *in, int r, int32_t *indices) {
    if (c->kind == WEFTI_INDICES_FIXED)
        for (int i = 0; i < c->k; i++) indices[i] = small(in, c->bits[1] / c->k);
    if (c->kind == WEFTI_INDICES_BITMAP)
        for (int i = 0; i < c->elements; i++)
            if (next_bit(in)) *indices++ = i;
    if (c->kind != WEFTI_INDICES_ENUMERATIVE) return;
    big joined = next_number(in, c->bits[r] - r * c->k * c->l);
    for (int i = 0; i < r; i++) {
        big quotient = big_divide(&joined, c->T);
        set_from_number(c, joined, indices + i * c->k);
        joined = quotient;
    }
    assert_int_equal(binary_digits(joined), 0);
    for (int i = 0; i < r * c->k && c->l > 0; i++)
        indices[i] = indices[i] << c->l | small(in, c->l);
}

static float f32_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float read_value(wefti_value_codec codec, float scale, cursor *in) {
    int q;
    switch (codec) {
    case WEFTI_VALUES_F32: q = small(in, 32); return f32_of((uint32_t)q);
    case WEFTI_VALUES_BF16: q = small(in, 16); return f32_of((uint32_t)q << 16);
    case WEFTI_VALUES_INT8:
        q = small(in, 8);
        return (float)(q < 128 ? q : q - 256) * scale;
    case WEFTI_VALUES_INT4: q = small(in, 4); return (float)(q < 8 ? q : q - 16) * scale;
    default: return next_bit(in) ? -scale : scale;
    }
}

static int chunks_of_block(const code *c) {
    int J = 1, w = c->bits[c->G];
    for (;; J++) {
        int zeros = 0;
        while ((J * w + zeros) % 8) zeros++;
        if (J * c->G * c->k >= 64 && zeros * 128 <= J * w) return J * c->G;
    }
}

/* Decodes n chunks; returns the bytes. */
static int64_t read_sparse(const code *c, wefti_value_codec codec, int n,
                           const unsigned char *bytes, int32_t *indices, float *values) {
    cursor in = {bytes, 0};
    int block = chunks_of_block(c);
    for (int first = 0; first < n; first += block) {
        int chunks = n - first < block ? n - first : block;
        float scale = codec >= WEFTI_VALUES_INT8 ? f32_of((uint32_t)small(&in, 16) << 16)
                                                 : 1;
        for (int i = 0; i < chunks; i += c->G)
            read_group(c, &in, chunks - i < c->G ? chunks - i : c->G,
                       indices + (first + i) * c->k);
        to_next_byte(&in);
        for (int i = first * c->k; i < (first + chunks) * c->k; i++)
            values[i] = read_value(codec, scale, &in);
        to_next_byte(&in);
    }
    return in.bit / 8;
}

static int64_t read_dense(wefti_value_codec codec, int n, const unsigned char *bytes,
                          float *values) {
    cursor in = {bytes, 0};
    for (int first = 0; first < n; first += 64) {
        float scale = codec >= WEFTI_VALUES_INT8 ? f32_of((uint32_t)small(&in, 16) << 16)
                                                 : 1;
        for (int i = first; i < n && i < first + 64; i++)
            values[i] = read_value(codec, scale, &in);
        to_next_byte(&in);
    }
    return in.bit / 8;
}

/* -- the library's side -- */

enum { MAX_N = 3000 };

static weft_ctx *ctx;
static int32_t indices[MAX_N], indices_back[MAX_N];
static float values[MAX_N], values_back[MAX_N];
static unsigned char bytes[5 * MAX_N + 8192];

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

static int64_t write_section(const wefti_section *s, uint64_t seed) {
    wefti_rounding rounding = {seed % 2, seed, 1, 2};
    for (int64_t b = 0; b < s->n_blocks; b++) {
        int64_t at = b * s->block_values;
        wefti_section_encode(s, b, s->dense ? NULL : indices + at, values + at, &rounding,
                             bytes + wefti_section_bytes(s, 0, b));
    }
    return wefti_section_bytes(s, 0, s->n_blocks);
}

/* Some blocks have a NaN, some are zero. */
static void draw_content(const wefti_section *s, uint64_t seed) {
    if (!s->dense) draw_chunks(seed, s->n_chunks, s->elements, s->k, indices);
    fill_normal(seed, s->n_values, values);
    for (int64_t i = 0; i < s->n_values; i++)
        if (i / s->block_values % 5 == 3) values[i] = i % 7 == 0 ? NAN : 0;
    for (int64_t i = 0; i < s->n_values; i++)
        if (i / s->block_values % 5 == 4) values[i] = 0;
}

TEST(sparse_sections_mean_the_same_to_both_decoders) {
    static const int shapes[][3] = {{1, 1, 40},    {10, 3, 60},  {64, 1, 150},
                                    {64, 4, 100},  {64, 8, 50},  {64, 32, 10},
                                    {64, 50, 10},  {7, 7, 20},   {256, 4, 40},
                                    {1000, 5, 30}, {4095, 32, 5}};
    for (int i = 0; i < 11; i++)
        for (int kind = WEFTI_INDICES_FIXED; kind < WEFTI_INDEX_CODECS; kind++) {
            int elements = shapes[i][0], k = shapes[i][1];
            code c = code_of((wefti_index_codec)kind, elements, k);
            wefti_binomials *table = NULL;
            if (kind == WEFTI_INDICES_ENUMERATIVE)
                assert_ok(ctx, wefti_binomials_create(ctx, elements, k, &table));
            for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec++) {
                int n = shapes[i][2] - codec;
                wefti_section s = wefti_section_sparse(n, k, elements,
                                                       (wefti_value_codec)codec,
                                                       (wefti_index_codec)kind, table);
                draw_content(&s, (uint64_t)(i * 100 + codec));
                int64_t n_bytes = write_section(&s, (uint64_t)codec);
                assert_int_equal(read_sparse(&c, (wefti_value_codec)codec, n, bytes,
                                             indices_back, values_back),
                                 n_bytes);
                assert_memory_equal(indices, indices_back, (size_t)(n * k) * 4);
                assert_memory_equal(values, values_back, (size_t)(n * k) * 4);
            }
            wefti_binomials_destroy(ctx, table);
            free(c.B);
        }
}

TEST(dense_sections_mean_the_same_to_both_decoders) {
    for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec++)
        for (int n = 1; n < 600; n += 61) {
            wefti_section s = wefti_section_dense(n, (wefti_value_codec)codec);
            draw_content(&s, (uint64_t)n);
            int64_t n_bytes = write_section(&s, (uint64_t)n);
            assert_int_equal(read_dense((wefti_value_codec)codec, n, bytes, values_back),
                             n_bytes);
            assert_memory_equal(values, values_back, (size_t)n * 4);
        }
}

int main(void) { return check_run(setup, teardown); }
