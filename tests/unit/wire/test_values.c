/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "draws.h"
#include "wire/values.h"

enum { MAX_N = 300, MAX_BYTES = 2 + 4 * MAX_N };

static const wefti_rounding nearest = {0};

typedef struct coded {
    wefti_value_place place;
    float values[MAX_N]; /* as encoding left them */
    unsigned char bytes[MAX_BYTES];
} coded;

static coded encode(wefti_isa isa, wefti_value_codec codec, int64_t n,
                    const float *values, const wefti_rounding *rounding) {
    const wefti_value_ops *ops = wefti_value_ops_for(isa, codec);
    coded c = {.place = {.first = 0, .n = n, .at = ops->scaled ? 2 : 0}};
    memcpy(c.values, values, (size_t)n * sizeof *values);
    ops->encode(&c.place, rounding, c.values, c.bytes);
    return c;
}

static const char *decode(wefti_value_codec codec, const coded *c, float *values) {
    return wefti_value_ops_of(codec)->decode(&c->place, c->bytes, values);
}

/* Magnitudes of many sizes, zeros among them. */
static void draw_values(uint64_t seed, int64_t n, float *values) {
    fill_normal(seed, n, values);
    float size = ldexpf(1, (int)(seed % 41) - 20);
    for (int64_t i = 0; i < n; i++)
        values[i] *= seed % 3 == 0 ? size : i % 7 == 3 ? 0 : size * values[i] * values[i];
}

static float scale_of(const coded *c) {
    uint32_t bits = (uint32_t)c->bytes[0] << 16 | (uint32_t)c->bytes[1] << 24;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return scale;
}

static float largest_of(int64_t n, const float *values) {
    float most = 0;
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(values[i]));
    return most;
}

TEST(encoding_leaves_what_decoding_returns) {
    float values[MAX_N], back[MAX_N];
    for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec++)
        for (uint64_t seed = 0; seed < 200; seed++) {
            int64_t n = 1 + (int64_t)(seed * 37 % MAX_N);
            wefti_rounding rounding = {seed % 2, seed, 5, 6};
            draw_values(seed, n, values);
            coded c = encode(WEFTI_ISA_BASE, (wefti_value_codec)codec, n, values,
                             &rounding);
            assert_null(decode((wefti_value_codec)codec, &c, back));
            assert_memory_equal(back, c.values, (size_t)n * sizeof *back);
        }
}

TEST(all_instruction_sets_write_and_read_the_same_bits) {
    float values[MAX_N], back[MAX_N];
    for (int isa = WEFTI_ISA_AVX2; isa <= (int)wefti_isa_detect(); isa++)
        for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec++)
            for (uint64_t seed = 0; seed < 100; seed++) {
                int64_t n = 1 + (int64_t)(seed * 37 % MAX_N);
                wefti_rounding rounding = {seed % 2, seed, 5, 6};
                draw_values(seed, n, values);
                coded a = encode(WEFTI_ISA_BASE, (wefti_value_codec)codec, n, values,
                                 &rounding);
                coded b = encode((wefti_isa)isa, (wefti_value_codec)codec, n, values,
                                 &rounding);
                assert_memory_equal(a.bytes, b.bytes, sizeof a.bytes);
                assert_memory_equal(a.values, b.values, (size_t)n * sizeof *values);
                const wefti_value_ops *ops = wefti_value_ops_for(
                    (wefti_isa)isa, (wefti_value_codec)codec);
                assert_null(ops->decode(&a.place, a.bytes, back));
                assert_memory_equal(a.values, back, (size_t)n * sizeof *values);
            }
}

/* With s >= max / limit and s at most 2^-7 above that, and x / s off by a rounding of
 * 2^-23 at most (two roundings of 2^-24): nearest is within s (1/2 + limit 2^-23). */
TEST(integers_are_within_half_a_step_of_a_tight_scale) {
    float values[MAX_N];
    for (int codec = WEFTI_VALUES_INT8; codec <= WEFTI_VALUES_INT4; codec++)
        for (uint64_t seed = 0; seed < 300; seed++) {
            int limit = codec == WEFTI_VALUES_INT8 ? 127 : 7;
            draw_values(seed, 64, values);
            coded c = encode(WEFTI_ISA_BASE, (wefti_value_codec)codec, 64, values,
                             &nearest);
            double s = (double)scale_of(&c), most = (double)largest_of(64, values);
            assert_true(s * limit >= most * (1 - 0x1p-23));
            assert_true(s * limit <= most * (1 + 0x1p-7) * (1 + 0x1p-23));
            for (int i = 0; i < 64; i++)
                assert_true(fabs((double)values[i] - (double)c.values[i]) <=
                            s * (0.5 + limit * 0x1p-23));
        }
}

static uint64_t random_of(const wefti_rounding *rounding, uint64_t v) {
    uint64_t pair[2];
    wefti_rng_pair(rounding->seed ^ rounding->place * 0xD1342543DE82EF95u,
                   WEFTI_STREAM_ROUND, rounding->step, v / 8, pair);
    return pair[v % 8 / 4] >> v % 4 * 16 & 0xffff;
}

/* The rule of docs/wire-format.md with the generator one number at a time; in double,
 * where the quotient is exact enough unless it is within 2^-16 of the border. */
TEST(stochastic_rounding_is_the_documented_function) {
    float values[64];
    int decided = 0;
    wefti_rounding rounding = {true, 11, 22, 33};
    for (uint64_t block = 0; block < 50; block++) {
        fill_normal(block, 64, values);
        coded c = {.place = {.first = (int64_t)(block * 67), .n = 64, .at = 2}};
        memcpy(c.values, values, sizeof values);
        wefti_value_ops_of(WEFTI_VALUES_INT8)
            ->encode(&c.place, &rounding, c.values, c.bytes);
        for (uint64_t i = 0; i < 64; i++) {
            double r = (double)random_of(&rounding, block * 67 + i);
            double up = fabs((double)values[i]) / (double)scale_of(&c) +
                        (r + 0.5) / 65536;
            double q = fmin(floor(up), 127);
            if (fabs(up - round(up)) < 0x1p-16) continue;
            decided++;
            assert_true(fabs((double)c.values[i]) == q * (double)scale_of(&c));
        }
    }
    assert_true(decided > 3000);
}

/* With s = 1 and u = (r + 1/2) / 65536, x = 3 + (i + 1/2) / 65536 becomes 4 if i + r
 * reaches 65535, and not before. */
TEST(stochastic_rounding_is_exact_at_its_border) {
    wefti_rounding rounding = {true, 11, 22, 33};
    for (int up = 0; up < 2; up++) {
        float values[64] = {[63] = 127};
        for (uint64_t v = 0; v < 63; v++) {
            double i = 65534 + up - (double)random_of(&rounding, v);
            values[v] = (float)((v % 2 ? -1 : 1) * (3 + (i + 0.5) / 65536));
        }
        coded c = encode(WEFTI_ISA_BASE, WEFTI_VALUES_INT8, 64, values, &rounding);
        assert_true(scale_of(&c) == 1);
        for (int v = 0; v < 63; v++) assert_true(fabsf(c.values[v]) == (float)(3 + up));
    }
}

/* x = 127 s exactly, but the product with 1 / s may come out a little high; with the
 * largest of all random numbers it would be 128 steps. */
TEST(no_rounding_leaves_the_range) {
    wefti_rounding rounding = {true, 1, 2, 3};
    uint64_t v = 0;
    while (random_of(&rounding, v) != 65535) v++;
    for (int i = 128; i < 256; i++) {
        float s = (float)i / 128, x = 127 * s;
        coded c = {.place = {.first = (int64_t)v, .n = 1, .at = 2}, .values = {x}};
        wefti_value_ops_of(WEFTI_VALUES_INT8)
            ->encode(&c.place, &rounding, c.values, c.bytes);
        assert_true(c.values[0] == x);
    }
}

/* A mean of N roundings has a standard deviation of at most s / (2 sqrt(N)); the law is
 * to hold within five of them and the 2^-16 s of the generator's 16 bits. */
TEST(stochastic_rounding_has_the_right_mean) {
    enum { N = UNDER_SANITIZER ? 2000 : 20000 };
    static const float x[] = {100, 0.1f, -0.25f, 33.3f, -99.99f, 1e-3f, -71.5f, 0};
    double sums[8] = {0}, s = 0;
    for (uint64_t step = 0; step < N; step++) {
        wefti_rounding rounding = {true, 4, step, 0};
        coded c = encode(WEFTI_ISA_BASE, WEFTI_VALUES_INT8, 8, x, &rounding);
        for (int i = 0; i < 8; i++) sums[i] += (double)c.values[i];
        s = (double)scale_of(&c);
    }
    for (int i = 0; i < 8; i++)
        assert_true(fabs(sums[i] / N - (double)x[i]) <= s * (2.5 / sqrt(N) + 0x1p-16));
}

TEST(each_of_seed_step_place_and_number_changes_the_rounding) {
    float values[64];
    for (int i = 0; i < 64; i++) values[i] = 100 + (float)i / 64;
    static const wefti_rounding roundings[] = {
        {true, 1, 1, 1}, {true, 2, 1, 1}, {true, 1, 2, 1}, {true, 1, 1, 2}};
    coded c[5];
    for (int i = 0; i < 4; i++)
        c[i] = encode(WEFTI_ISA_BASE, WEFTI_VALUES_INT8, 64, values, &roundings[i]);
    c[4] = (coded){.place = {.first = 64, .n = 64, .at = 2}};
    memcpy(c[4].values, values, sizeof values);
    wefti_value_ops_of(WEFTI_VALUES_INT8)
        ->encode(&c[4].place, &roundings[0], c[4].values, c[4].bytes);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++) assert_memory_not_equal(c[i].bytes, c[j].bytes, 66);
}

TEST(values_keep_their_rounding_wherever_a_block_begins) {
    float values[128];
    for (int i = 0; i < 128; i++) values[i] = 100 + (float)(i % 64) / 64;
    wefti_rounding rounding = {true, 1, 2, 3};
    coded whole = encode(WEFTI_ISA_BASE, WEFTI_VALUES_INT8, 128, values, &rounding);
    for (int cut = 64; cut < 73; cut++) { /* the largest value, 63, is on both sides */
        coded part = {.place = {.first = cut, .n = 128 - cut, .at = 2}};
        memcpy(part.values, values + cut, (size_t)(128 - cut) * sizeof *values);
        wefti_value_ops_of(WEFTI_VALUES_INT8)
            ->encode(&part.place, &rounding, part.values, part.bytes);
        assert_memory_equal(part.values, whole.values + cut,
                            (size_t)(128 - cut) * sizeof *values);
    }
}

TEST(bf16_is_the_nearest_with_ties_to_even) {
    static const float x[] = {1,
                              1 + 0x1p-8f,
                              1 + 0x3p-8f,
                              1 + 0x1p-8f + 0x1p-20f,
                              -1 - 0x1p-9f,
                              0x1.fffffep127f,
                              0x1p-140f,
                              -0.0f};
    static const float expected[] = {1,  1,        1 + 0x4p-8f,   1 + 0x2p-8f,
                                     -1, INFINITY, 0x1p-133f * 0, -0.0f};
    coded c = encode(WEFTI_ISA_BASE, WEFTI_VALUES_BF16, 8, x, NULL);
    assert_memory_equal(c.values, expected, sizeof expected);
}

/* Cut off after 16 bits it would be infinite. */
TEST(a_nan_whose_upper_half_is_that_of_infinity_stays_one) {
    uint32_t bits = 0x7f800001;
    float x;
    memcpy(&x, &bits, sizeof x);
    coded c = encode(WEFTI_ISA_BASE, WEFTI_VALUES_BF16, 1, &x, NULL);
    assert_true(isnan(c.values[0]));
}

TEST(sign_sends_the_mean_magnitude) {
    static const float x[] = {1, -2, 3, -4, 5, -6, 7, -8.5f, 0};
    coded c = encode(WEFTI_ISA_BASE, WEFTI_VALUES_SIGN, 9, x, NULL);
    for (int i = 0; i < 9; i++) /* 36.5 / 9 = 4.0556, the nearest bf16 is 4.0625 */
        assert_true(c.values[i] == (x[i] < 0 ? -4.0625f : 4.0625f));
    assert_int_equal(c.bytes[2], 0xaa);
    assert_int_equal(c.bytes[3], 0);
}

TEST(what_is_not_finite_is_seen_by_the_receiver) {
    static const float bad[] = {NAN, -NAN, INFINITY, -INFINITY, 0x1p100f, -0x1p127f};
    float values[70], back[70];
    for (int codec = 0; codec < WEFTI_VALUE_CODECS; codec++)
        for (int b = 0; b < 6; b++)
            for (int at = 0; at < 70; at += 23) {
                fill_normal(1, 70, values);
                values[at] = bad[b];
                bool scaled = codec >= WEFTI_VALUES_INT8;
                coded c = encode(WEFTI_ISA_BASE, (wefti_value_codec)codec, 70, values,
                                 NULL);
                assert_null(decode((wefti_value_codec)codec, &c, back));
                assert_memory_equal(back, c.values, sizeof back);
                for (int i = 0; i < 70 && scaled; i++) assert_true(isnan(back[i]));
                assert_int_equal(isnan(back[at]) != 0, isnan(bad[b]) || scaled);
                if (!scaled) assert_true(fabsf(back[at]) >= 0x1p100f || isnan(back[at]));
            }
}

TEST(zeros_and_what_is_too_small_become_zeros) {
    for (int codec = WEFTI_VALUES_INT8; codec < WEFTI_VALUE_CODECS; codec++)
        for (int b = 0; b < 3; b++) {
            float values[10] = {0, -0.0f}, back[10], zeros[10] = {0};
            if (b == 1) values[3] = -0x1p-101f;
            if (b == 2) values[4] = 0x1p-149f;
            coded c = encode(WEFTI_ISA_BASE, (wefti_value_codec)codec, 10, values, NULL);
            assert_null(decode((wefti_value_codec)codec, &c, back));
            assert_memory_equal(back, zeros, sizeof zeros);
            assert_memory_equal(c.values, zeros, sizeof zeros);
        }
}

TEST(the_ends_of_the_range_come_back) {
    static const float ends[] = {0x1.fffffep99f, 0x1p-93f};
    for (int codec = WEFTI_VALUES_INT8; codec < WEFTI_VALUE_CODECS; codec++)
        for (int b = 0; b < 2; b++) {
            float values[64], back[64];
            for (int i = 0; i < 64; i++) values[i] = i % 2 ? -ends[b] : ends[b];
            coded c = encode(WEFTI_ISA_BASE, (wefti_value_codec)codec, 64, values, NULL);
            assert_null(decode((wefti_value_codec)codec, &c, back));
            assert_memory_equal(back, c.values, sizeof back);
            for (int i = 0; i < 64; i++)
                assert_true(fabsf(back[i] / values[i] - 1) <= 0x1p-7f);
        }
}

static void assert_refused(wefti_value_codec codec, const coded *c, const char *words) {
    float back[MAX_N];
    const char *fault = decode(codec, c, back);
    assert_non_null(fault);
    assert_non_null(strstr(fault, words));
}

TEST(what_encoding_does_not_write_is_refused) {
    float values[64];
    fill_normal(1, 64, values);
    for (int codec = WEFTI_VALUES_INT8; codec < WEFTI_VALUE_CODECS; codec++) {
        wefti_value_codec v = (wefti_value_codec)codec;
        coded good = encode(WEFTI_ISA_BASE, v, 64, values, NULL), c = good;
        static const unsigned bad_scales[] = {0xffc0, 0x7fc1, 0x7f80, 0xbf80, 0x8000,
                                              0x0001, 0x0d7f, 0x7181, 0x7fff};
        for (size_t i = 0; i < sizeof bad_scales / sizeof *bad_scales; i++) {
            c.bytes[0] = (unsigned char)bad_scales[i];
            c.bytes[1] = (unsigned char)(bad_scales[i] >> 8);
            assert_refused(v, &c, "a scale that is neither");
        }
        for (int nan = 0; nan < 2; nan++) {
            c = good;
            c.bytes[0] = nan ? 0xc0 : 0;
            c.bytes[1] = nan ? 0x7f : 0;
            assert_refused(v, &c, "beside a scale of 0 or NaN");
        }
        if (v == WEFTI_VALUES_SIGN) continue;
        for (int at = 2; at < (v == WEFTI_VALUES_INT8 ? 66 : 34); at++) {
            c = good;
            c.bytes[at] = v == WEFTI_VALUES_INT8 ? 0x80 : at % 2 ? 0x18 : 0x81;
            assert_refused(v, &c, v == WEFTI_VALUES_INT8 ? "-128" : "-8");
        }
    }
}
