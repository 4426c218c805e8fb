/* SPDX-License-Identifier: MIT */
/* The list that is measured, and the bits and bytes that it is measured against. */
#include <math.h>

#include "check.h"
#include "replicate/variants.h"

/* GPT-2's kinds of tensors, one of them with ragged ends. */
static const wefti_piece pieces[] = {
    {384, 1152, 0, true, 0}, {1152, 1, 442368, false, 1}, {70, 33, 443520, true, 2}};
static const wefti_bucket two_buckets[] = {{2, pieces, 443520}, {1, pieces + 2, 2310}};

TEST(every_replicator_that_sends_and_every_codec_is_in_the_list) {
    int kinds[16] = {0}, codecs[WEFTI_VALUE_CODECS] = {0};
    wefti_replicator_config config;
    for (int i = 0; wefti_variant_at(i, &config); i++) {
        codecs[config.values]++;
        for (int k = 0; wefti_replicator_registry[k]; k++)
            kinds[k] += wefti_replicator_registry[k] ==
                        wefti_replicator_find(config.kind);
    }
    for (int k = 0; wefti_replicator_registry[k]; k++) {
        const wefti_replicator_ops *ops = wefti_replicator_registry[k];
        bool wanted = strcmp(ops->name, "none") != 0 && !ops->is_baseline;
        assert_true((kinds[k] > 0) == wanted);
    }
    for (int c = 0; c < WEFTI_VALUE_CODECS; c++) assert_true(codecs[c] > 0);
}

TEST(no_two_have_a_name_in_common) {
    wefti_replicator_config config;
    char one[64], other[64];
    assert_false(wefti_variant_at(-1, &config));
    for (int i = 0; wefti_variant_at(i, &config); i++) {
        wefti_variant_name(&config, one, sizeof one);
        for (int j = 0; j < i; j++) {
            assert_true(wefti_variant_at(j, &config));
            assert_string_not_equal(one,
                                    wefti_variant_name(&config, other, sizeof other));
        }
    }
}

static wefti_replicator_config named(const char *name) {
    wefti_replicator_config config;
    char found[64];
    for (int i = 0; wefti_variant_at(i, &config); i++)
        if (strcmp(wefti_variant_name(&config, found, sizeof found), name) == 0)
            return config;
    fail_msg("no variant is named '%s'", name);
    return config;
}

static wefti_variant_work work_of(const char *name, const wefti_bucket *bucket, int R) {
    wefti_replicator_config config = named(name);
    wefti_variant_load load = {bucket, 1, R};
    return wefti_variant_work_of(&config, &load);
}

static void assert_near(double found, double expected) {
    if (!(fabs(found - expected) <= 1e-9 * fabs(expected)))
        fail_msg("%.12g, expected %.12g", found, expected);
}

/* 64 x 96 elements are 96 chunks of 64, or 6 blocks of 16 chunks. With int8 a block has 2
 * bytes of scale, 64 of values and 16 x log2 C(64, 4) = 308.4 bits of places: 39 bytes.
 */
TEST(a_message_of_demo_by_hand) {
    const wefti_piece piece = {64, 96, 0, true, 0};
    const wefti_bucket bucket = {1, &piece, 6144};
    wefti_variant_work w = work_of("demo 4/64 int8 all_gather", &bucket, 2);
    double places = log2(64.0 * 63 * 62 * 61 / 24);
    assert_true(w.elements == 6144 && w.values == 384 && w.floor_bytes == 16 * 6144);
    assert_true(w.wire_bits == 8 * (40 + 6 * 105));
    assert_near(w.bound_bits, 96 * (4 * 8 + places));
    w = work_of("demo 4/64 int8 all_gather", &bucket, 4);
    assert_true(w.wire_bits == 3 * 8 * (40 + 6 * 105));
    assert_near(w.bound_bits, 3 * 96 * (4 * 8 + places));

    /* By owner half of it goes to the other one of two, who answers with 2 bits for each
     * chunk and a bit for each element: 12 and 384 bytes. */
    w = work_of("demo 4/64 int8 sharded", &bucket, 2);
    assert_true(w.wire_bits == 8 * (40 + 3 * 105 + 40 + 12 + 384));
    assert_near(w.bound_bits, 0.5 * (96 * (4 * 8 + places) + 6144));
}

/* Small tensors go whole: 3 blocks of 66 bytes, 2 of them to the one and 1 to the other
 * of two, who answer in 2 bits per element, 48 bytes. */
TEST(a_small_tensor_by_hand) {
    const wefti_piece piece = {192, 1, 0, false, 0};
    const wefti_bucket bucket = {1, &piece, 192};
    wefti_variant_work w = work_of("demo 4/64 int8 sharded", &bucket, 2);
    assert_true(w.values == 192 && w.wire_bits == 8 * (4 * 40 + 3 * 66 + 48) / 2.0);
    assert_near(w.bound_bits, 0.5 * 192 * (8 + log2(3)));
}

/* 384 rows at 1/16 are 24; a rank sends half of their values and the signs of its half,
 * of which the bound counts log2 3 bits and the wire 2. */
TEST(messages_of_an_all_reduce_by_hand) {
    const wefti_piece piece = {384, 128, 0, true, 0};
    const wefti_bucket bucket = {1, &piece, 49152};
    wefti_variant_work w = work_of("full f32", &bucket, 2);
    assert_true(w.values == 49152 && w.floor_bytes == 10 * 49152);
    assert_true(w.wire_bits == 32.0 * 49152 && w.bound_bits == 32.0 * 49152);
    w = work_of("full bf16", &bucket, 4);
    assert_near(w.bound_bits, 0.75 * 2 * 16 * 49152);
    assert_true(w.floor_bytes == 16 * 49152);
    w = work_of("striding 1/16 f32", &bucket, 2);
    assert_true(w.values == 24 * 128);
    assert_true(w.floor_bytes == 12.0 * 49152 + 4 * 24 * 128);
    assert_true(w.wire_bits == 8 * (4 * 1536 + 40 + 1536 / 4));
    assert_near(w.bound_bits, 1536 * (32 + log2(3)));
}

TEST(no_message_is_below_its_bound_or_far_above) {
    wefti_replicator_config config;
    for (int i = 0; wefti_variant_at(i, &config); i++) {
        for (int R = 1; R <= 5; R++) {
            wefti_variant_load load = {two_buckets, 2, R};
            wefti_variant_work w = wefti_variant_work_of(&config, &load);
            assert_true(w.elements == 445830);
            assert_true((R > 1) == (w.bound_bits > 0));
            assert_true(w.bound_bits <= w.wire_bits);
            assert_true(w.wire_bits <= 1.12 * w.bound_bits);
        }
    }
}

TEST(what_sends_nothing_has_nothing_to_do) {
    wefti_replicator_config none = {.kind = "none", .every = 1};
    wefti_variant_load load = {two_buckets, 2, 3};
    wefti_variant_work w = wefti_variant_work_of(&none, &load);
    assert_true(w.values == 0 && w.wire_bits == 0 && w.bound_bits == 0);
    assert_true(w.floor_bytes == 0);
    w = work_of("full f32", two_buckets, 1);
    assert_true(w.floor_bytes == 0 && w.wire_bits == 0);
}
