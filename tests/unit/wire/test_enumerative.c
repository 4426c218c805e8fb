/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "draws.h"
#include "wire/enumerative.h"

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

/* Every kind of table, joined and long numbers, complements, low bits. */
static const struct {
    int64_t elements, k;
} shapes[] = {
    {1, 1},      {2, 1},       {3, 1},     {3, 2},      {5, 4},       {8, 4},
    {7, 7},      {64, 1},      {64, 2},    {64, 3},     {64, 4},      {72, 4},
    {73, 4},     {60, 4},      {64, 5},    {64, 8},     {64, 16},     {64, 32},
    {64, 33},    {64, 60},     {64, 63},   {64, 64},    {66, 33},     {67, 33},
    {70, 35},    {100, 7},     {128, 4},   {256, 4},    {256, 9},     {256, 16},
    {256, 128},  {256, 250},   {257, 9},   {300, 140},  {1000, 1},    {1000, 3},
    {1000, 30},  {1000, 70},   {4096, 5},  {4096, 8},   {4096, 32},   {4096, 64},
    {4096, 256}, {4096, 4000}, {4095, 32}, {16384, 32}, {1 << 20, 1}, {1 << 20, 7},
};
enum { N_SHAPES = sizeof shapes / sizeof shapes[0] };

static int64_t bits_of(const wefti_binomials *t, int64_t n) {
    int64_t group = t->shape.group;
    return n / group * t->shape.group_bits[group] + t->shape.group_bits[n % group];
}

/* n chunks in exactly their bytes, owned by the caller (free). */
static unsigned char *encoded(const wefti_binomials *t, int64_t n,
                              const int32_t *indices) {
    int64_t n_bytes = (bits_of(t, n) + 7) / 8;
    unsigned char *bytes = malloc((size_t)n_bytes + 1);
    wefti_bit_writer out = {.out = bytes};
    wefti_enumerative_encode(t, n, indices, &out);
    wefti_bits_finish(&out);
    assert_ptr_equal(out.out, bytes + n_bytes);
    return bytes;
}

static int64_t decoded(const wefti_binomials *t, int64_t n, const unsigned char *bytes,
                       int32_t *indices) {
    wefti_bit_reader in = {bytes, (bits_of(t, n) + 7) / 8, 0};
    return wefti_enumerative_decode(t, n, &in, indices);
}

TEST(sets_of_every_shape_come_back) {
    for (int s = 0; s < N_SHAPES; s++) {
        int64_t k = shapes[s].k, n = k > 100 ? 3 : 11;
        wefti_binomials *t;
        int32_t *indices = calloc((size_t)(n * k), 4), *back = calloc((size_t)(n * k), 4);
        assert_ok(ctx, wefti_binomials_create(ctx, shapes[s].elements, k, &t));
        draw_chunks((uint64_t)s, n, shapes[s].elements, k, indices);
        for (int64_t part = 1; part <= n; part += 2) {
            unsigned char *bytes = encoded(t, part, indices);
            assert_int_equal(decoded(t, part, bytes, back), part);
            assert_memory_equal(indices, back, (size_t)(part * k) * 4);
            free(bytes);
        }
        wefti_binomials_destroy(ctx, t);
        free(indices);
        free(back);
    }
}

TEST(four_of_any_number_come_back) {
    int32_t indices[4 * 40], back[4 * 40];
    int tables = 0;
    for (int64_t elements = 4; elements <= 80; elements++) {
        wefti_binomials *t;
        assert_ok(ctx, wefti_binomials_create(ctx, elements, 4, &t));
        tables += t->shape.four;
        draw_chunks((uint64_t)elements, 40, elements, 4, indices);
        unsigned char *bytes = encoded(t, 40, indices);
        assert_int_equal(decoded(t, 40, bytes, back), 40);
        assert_memory_equal(indices, back, sizeof indices);
        free(bytes);
        wefti_binomials_destroy(ctx, t);
    }
    assert_true(tables > 40); /* the fast tables are among them */
}

TEST(every_small_set_has_a_number_of_its_own) {
    for (int64_t elements = 1; elements <= 11; elements++)
        for (int64_t k = 1; k <= elements; k++) {
            wefti_binomials *t;
            assert_ok(ctx, wefti_binomials_create(ctx, elements, k, &t));
            unsigned char seen[1 << 10] = {0};
            int32_t all[462 * 11], all_back[462 * 11];
            int64_t sets = 0;
            for (int mask = 0; mask < 1 << elements; mask++) {
                int32_t set[16], back[16];
                int n = 0;
                for (int i = 0; i < elements; i++)
                    if (mask >> i & 1) set[n++] = i;
                if (n != k) continue;
                unsigned char *bytes = encoded(t, 1, set);
                wefti_bit_reader in = {bytes, (bits_of(t, 1) + 7) / 8, 0};
                uint64_t number = wefti_bits_read(&in, t->shape.group_bits[1]);
                assert_true(number < t->radix);
                assert_int_equal(seen[number]++, 0);
                assert_int_equal(decoded(t, 1, bytes, back), 1);
                assert_memory_equal(set, back, (size_t)k * 4);
                free(bytes);
                memcpy(all + sets++ * k, set, (size_t)k * 4);
            }
            assert_int_equal(sets, t->radix); /* and no number is left over */
            unsigned char *bytes = encoded(t, sets, all);
            assert_int_equal(decoded(t, sets, bytes, all_back), sets);
            assert_memory_equal(all, all_back, (size_t)(sets * k) * 4);
            free(bytes);
            wefti_binomials_destroy(ctx, t);
        }
}

TEST(the_number_of_4_of_64_is_its_place_in_colexicographic_order) {
    wefti_binomials *t;
    assert_ok(ctx, wefti_binomials_create(ctx, 64, 4, &t));
    uint64_t number = 0, step = UNDER_SANITIZER ? 17 : 1;
    for (int32_t d = 3; d < 64; d++)
        for (int32_t c = 2; c < d; c++)
            for (int32_t b = 1; b < c; b++)
                for (int32_t a = 0; a < b; a++, number++) {
                    if (number % step != 0) continue;
                    unsigned char bytes[3] = {(unsigned char)number,
                                              (unsigned char)(number >> 8),
                                              (unsigned char)(number >> 16)};
                    unsigned char again[8];
                    int32_t back[4];
                    assert_int_equal(decoded(t, 1, bytes, back), 1);
                    assert_true(back[0] == a && back[1] == b && back[2] == c &&
                                back[3] == d);
                    wefti_bit_writer out = {.out = again};
                    wefti_enumerative_encode(t, 1, back, &out);
                    wefti_bits_finish(&out);
                    assert_memory_equal(bytes, again, 3);
                }
    assert_int_equal(number, 635376);
    for (; number < 1 << 20; number++) {
        unsigned char bytes[3] = {(unsigned char)number, (unsigned char)(number >> 8),
                                  (unsigned char)(number >> 16)};
        int32_t back[4];
        assert_int_equal(decoded(t, 1, bytes, back), 0);
    }
    wefti_binomials_destroy(ctx, t);
}

/* Whatever is accepted is what encoding writes: all else has been refused. */
TEST(arbitrary_bits_are_some_sets_or_refused) {
    int accepted = 0, refused = 0;
    for (int s = 0; s < N_SHAPES; s++) {
        int64_t elements = shapes[s].elements, k = shapes[s].k;
        wefti_binomials *t;
        assert_ok(ctx, wefti_binomials_create(ctx, elements, k, &t));
        int64_t n = t->shape.group + 1, bits = bits_of(t, n), n_bytes = (bits + 7) / 8;
        unsigned char *bytes = malloc((size_t)n_bytes);
        int32_t *indices = calloc((size_t)(n * k), 4);
        for (uint64_t seed = 0; seed < (k > 100 ? 10 : 200); seed++) {
            draw_bytes(seed, n_bytes, bytes);
            for (int64_t i = 0; i < n_bytes && seed % 4 == 1; i++) bytes[i] = 0xff;
            for (int64_t i = n_bytes / 2; i < n_bytes && seed % 4 == 2; i++) bytes[i] = 0;
            if (bits % 8) bytes[n_bytes - 1] &= (unsigned char)((1 << bits % 8) - 1);
            if (decoded(t, n, bytes, indices) < n) {
                refused++;
                continue;
            }
            accepted++;
            unsigned char *again = encoded(t, n, indices);
            assert_memory_equal(again, bytes, (size_t)n_bytes);
            free(again);
        }
        free(bytes);
        free(indices);
        wefti_binomials_destroy(ctx, t);
    }
    assert_true(accepted > 1000 && refused > 1000);
}

/* The first number whose last set is none, in place of a group of at most 63 bits; else ones. */
static void spoil(const wefti_binomials *t, int64_t number, bool ones,
                  unsigned char *bytes) {
    int64_t group = t->shape.group, width = t->shape.group_bits[group];
    uint64_t bits = 1;
    for (int64_t i = 0; i < group; i++) bits *= t->radix;
    if (ones || width > 63) bits = UINT64_MAX;
    for (int64_t i = 0, at = number * width; i < width; i++, at++) {
        bytes[at / 8] &= (unsigned char)~(1 << at % 8);
        bytes[at / 8] |= (unsigned char)((bits >> (i < 63 ? i : 63) & 1) << at % 8);
    }
}

/* Several groups at once are read as one after the other, up to the first set that is none. */
static void assert_as_one_by_one(const wefti_binomials *t, int64_t n,
                                 const unsigned char *bytes) {
    int64_t k = t->shape.k, group = t->shape.group, width = t->shape.group_bits[group];
    int32_t *all = calloc((size_t)(n * k), 4), *one = calloc((size_t)(n * k), 4);
    int64_t good = decoded(t, n, bytes, all), at = 0, r = group;
    wefti_bit_reader in = {bytes, (bits_of(t, n) + 7) / 8, 0};
    for (; at < n && r == group; at += r) {
        in.at = at / group * width;
        r = wefti_enumerative_decode(t, group, &in, one + at * k);
    }
    assert_int_equal(good, at);
    if (t->shape.narrow &&
        t->shape.low_bits == 0) /* else low bits may not have been added */
        assert_memory_equal(all, one, (size_t)(good * k) * 4);
    free(all);
    free(one);
}

TEST(the_first_set_that_is_none_is_named) {
    for (int s = 0; s < N_SHAPES; s++) {
        int64_t k = shapes[s].k;
        wefti_binomials *t;
        assert_ok(ctx, wefti_binomials_create(ctx, shapes[s].elements, k, &t));
        int64_t n = 7 * t->shape.group;
        int32_t *indices = calloc((size_t)(n * k), 4);
        draw_chunks((uint64_t)s, n, shapes[s].elements, k, indices);
        for (int64_t i = 0; i < 14; i++) {
            unsigned char *bytes = encoded(t, n, indices);
            spoil(t, i % 7, i < 7, bytes);
            assert_as_one_by_one(t, n, bytes);
            free(bytes);
        }
        wefti_binomials_destroy(ctx, t);
        free(indices);
    }
}

/* Adds one to the number that the bytes begin with. */
static void increment(unsigned char *bytes) {
    while (++*bytes == 0) bytes++;
}

/* Behind the last set of a (m_2 = n, m_1 = n - 1) there may be numbers that are no set's,
 * because B(n + 1, 2) is rounded up. */
TEST(the_numbers_between_sets_are_refused) {
    int refused = 0;
    wefti_binomials *t;
    int32_t set[200], back[200];
    assert_ok(ctx, wefti_binomials_create(ctx, 4096, 200, &t));
    for (int32_t n = 1501; n < 3501; n += 99) {
        for (int32_t j = 0; j < 200; j++) set[j] = j < 2 ? n - 1 + j : 3800 + j;
        unsigned char *bytes = encoded(t, 1, set);
        increment(bytes);
        if (decoded(t, 1, bytes, back) == 1) {
            assert_int_equal(back[0], 0);
            assert_int_equal(back[1], n + 1);
        } else {
            refused++;
        }
        free(bytes);
    }
    assert_true(refused >= 10 && refused < 21);
    wefti_binomials_destroy(ctx, t);
}

/* 4097 and 4104 are coded alike, in eights; index 4097 is in the one and not in the
 * other. */
TEST(an_index_that_low_bits_take_past_the_end_is_refused) {
    wefti_binomials *shorter, *longer;
    int32_t set[32], back[32];
    assert_ok(ctx, wefti_binomials_create(ctx, 4097, 32, &shorter));
    assert_ok(ctx, wefti_binomials_create(ctx, 4104, 32, &longer));
    assert_int_equal(shorter->shape.places, longer->shape.places);
    for (int32_t last = 4096; last <= 4097; last++) {
        for (int32_t j = 0; j < 32; j++) set[j] = j < 31 ? 100 * j : last;
        unsigned char *bytes = encoded(longer, 1, set);
        assert_int_equal(decoded(longer, 1, bytes, back), 1);
        assert_int_equal(decoded(shorter, 1, bytes, back), last == 4096);
        free(bytes);
    }
    wefti_binomials_destroy(ctx, shorter);
    wefti_binomials_destroy(ctx, longer);
}

/* Walks row j of a table from entry to entry. */
static void assert_row_is_found(const wefti_binomials *t, int64_t j) {
    const wefti_binomial_row *row = &t->rows[j];
    for (int64_t n = j; n < t->shape.places; n++)
        for (int above = 0; above < 2; above++) {
            uint64_t x = above ? row->values[n + 1] - 1 : row->values[n];
            int64_t near = row->near[wefti_near_entry(x, row->near_bits)];
            assert_true(near == n || near == n - 1);
        }
}

TEST(near_is_one_of_two_throughout_narrow_tables) {
    for (int s = 0; s < N_SHAPES; s++) {
        wefti_binomials *t;
        assert_ok(ctx, wefti_binomials_create(ctx, shapes[s].elements, shapes[s].k, &t));
        for (int64_t j = 2; j <= t->shape.picked && t->shape.narrow; j++)
            assert_row_is_found(t, j);
        wefti_binomials_destroy(ctx, t);
    }
}

TEST(a_table_takes_the_bytes_that_were_said) {
    for (int s = 0; s < N_SHAPES; s++) {
        int64_t held = weft_ctx_bytes_held(ctx);
        wefti_binomials *t;
        assert_ok(ctx, wefti_binomials_create(ctx, shapes[s].elements, shapes[s].k, &t));
        assert_int_equal(weft_ctx_bytes_held(ctx) - held,
                         wefti_binomials_bytes(shapes[s].elements, shapes[s].k));
        wefti_binomials_destroy(ctx, t);
    }
}

/* What a thread asked for before is kept, and makes no difference: pairs that share one of
 * their numbers, more of them than are kept, one that does not fit, forwards and back. */
TEST(a_shape_does_not_depend_on_what_was_asked_before) {
    static const int64_t asked[][2] = {
        {64, 4}, {64, 8},  {128, 4}, {4096, 2048}, {4096, 32}, {128, 32}, {2048, 32},
        {64, 1}, {64, 63}, {256, 4}, {0, 0},       {100, 50},  {97, 50},  {4096, 2048}};
    enum { ASKED = sizeof asked / sizeof asked[0] };
    wefti_binomial_shape first[ASKED], again;
    bool fits[ASKED];
    for (int i = 0; i < ASKED; i++)
        fits[i] = wefti_binomial_shape_make(asked[i][0], asked[i][1], &first[i]);
    for (int i = ASKED - 1; i >= 0; i--) {
        assert_int_equal(wefti_binomial_shape_make(asked[i][0], asked[i][1], &again),
                         fits[i]);
        assert_int_equal(again.elements, asked[i][0]);
        assert_int_equal(again.k, asked[i][1]);
        assert_memory_equal(again.group_bits, first[i].group_bits,
                            sizeof again.group_bits);
        assert_int_equal(again.total, first[i].total);
        assert_int_equal(again.n_bytes, first[i].n_bytes);
    }
    assert_false(fits[3]);
}

TEST(a_table_that_is_too_large_is_refused_with_the_keys) {
    wefti_binomials *t;
    assert_true(wefti_binomials_bytes(4096, 2048) > WEFTI_BINOMIALS_MAX_BYTES);
    assert_fails(ctx, wefti_binomials_create(ctx, 4096, 2048, &t), WEFT_ERR_CONFIG,
                 "replicator.index_codec enumerative would need");
    assert_null(t);
    assert_true(wefti_binomials_bytes(4096, 256) <= WEFTI_BINOMIALS_MAX_BYTES);
}

TEST(no_memory_for_a_table_is_an_error) {
    wefti_binomials *t;
    weft_ctx_fail_allocation(ctx, 0);
    assert_fails(ctx, wefti_binomials_create(ctx, 64, 4, &t), WEFT_ERR_MEMORY,
                 "a table of binomials");
    weft_ctx_fail_allocation(ctx, -1);
    assert_null(t);
    wefti_binomials_destroy(ctx, NULL);
}

int main(void) { return check_run(setup, teardown); }
