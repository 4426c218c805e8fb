/* SPDX-License-Identifier: MIT */
/* The points that a search tries: inside their ranges, spread evenly, whole numbers whole;
 * and what is no range or list is refused before anything is trained. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "tune/space.h"

static weft_ctx *ctx;
static weft_config *scratch;
static wefti_space space;

static int begin_room(void **state) {
    space.n_axes = 0;
    return ctx_begin(&ctx) != 0 || weft_config_create(ctx, &scratch) != WEFT_OK;
}

static int end_room(void **state) {
    weft_config_destroy(ctx, scratch);
    return ctx_end(ctx);
}

static double value_at(int64_t i, int axis) {
    char text[WEFTI_SPACE_TEXT];
    wefti_space_value(&space, i, axis, text);
    return strtod(text, NULL);
}

/* Of n points of one range, each of n / 2 equal parts of the logarithm has one at least. */
TEST_IN(begin_room, end_room, a_range_is_covered_evenly_in_the_logarithm) {
    assert_ok(ctx, wefti_space_add(ctx, &space, "optimizer.lr=1e-4..1e-2", scratch));
    assert_true(fabs(value_at(0, 0) - 1e-3) < 1e-12); /* the middle first */
    for (int n = 4; n <= 64; n *= 2) {
        int hits[32] = {0};
        for (int i = 0; i < n; i++) {
            double x = value_at(i, 0);
            assert_true(x >= 1e-4 && x <= 1e-2);
            int part = (int)(log10(x / 1e-4) / 2 * (n / 2));
            hits[part < n / 2 ? part : n / 2 - 1]++;
        }
        for (int part = 0; part < n / 2; part++) assert_true(hits[part] > 0);
    }
}

TEST_IN(begin_room, end_room, a_range_from_zero_is_covered_evenly_itself) {
    double sum = 0;
    assert_ok(ctx, wefti_space_add(ctx, &space, "optimizer.weight_decay=0..2", scratch));
    for (int i = 0; i < 100; i++) sum += value_at(i, 0);
    assert_true(fabs(sum / 100 - 1) < 0.05);
}

TEST_IN(begin_room, end_room, whole_numbers_are_whole_and_inside) {
    assert_ok(ctx, wefti_space_add(ctx, &space, "mixer.outer_every=10..300", scratch));
    for (int i = 0; i < 200; i++) {
        double x = value_at(i, 0);
        assert_true(x == floor(x) && x >= 10 && x <= 300);
    }
}

TEST_IN(begin_room, end_room, lists_alone_are_a_grid) {
    char text[WEFTI_SPACE_TEXT];
    int seen[2][3] = {{0}};
    assert_ok(ctx, wefti_space_add(ctx, &space, "replicator.sign=true,false", scratch));
    assert_ok(ctx,
              wefti_space_add(ctx, &space, "replicator.values=f32,int8,sign", scratch));
    assert_int_equal(wefti_space_grid(&space), 6);
    for (int i = 0; i < 6; i++) {
        wefti_space_value(&space, i, 0, text);
        int row = strcmp(text, "true") == 0;
        wefti_space_value(&space, i, 1, text);
        seen[row][strcmp(text, "f32") == 0 ? 0 : strcmp(text, "int8") == 0 ? 1 : 2]++;
    }
    for (int k = 0; k < 6; k++) assert_int_equal(seen[k / 3][k % 3], 1);
    assert_ok(ctx, wefti_space_add(ctx, &space, "optimizer.lr=1e-3..1", scratch));
    assert_int_equal(wefti_space_grid(&space), 0);
}

TEST_IN(begin_room, end_room, two_ranges_are_independent) {
    int hits[4][4] = {{0}};
    assert_ok(ctx, wefti_space_add(ctx, &space, "optimizer.lr=1e-4..1", scratch));
    assert_ok(ctx, wefti_space_add(ctx, &space, "optimizer.beta1=0..0.96", scratch));
    for (int i = 0; i < 64; i++)
        hits[(int)fmin(3, log10(value_at(i, 0) / 1e-4))]
            [(int)fmin(3, value_at(i, 1) / 0.24)]++;
    for (int k = 0; k < 16; k++) assert_true(hits[k / 4][k % 4] > 0);
}

TEST_IN(begin_room, end_room, what_is_no_key_to_search_over_is_refused) {
    static const struct {
        const char *text, *words;
        weft_status status;
    } rows[] = {
        {"optimizer.lr", "expected section.key=LOW..HIGH", WEFT_ERR_CONFIG},
        {"=1..2", "expected section.key=LOW..HIGH", WEFT_ERR_CONFIG},
        {"optimizer.rate=1..2", "unknown key 'optimizer.rate'", WEFT_ERR_CONFIG},
        {"run.folder=a,b", "takes texts", WEFT_ERR_CONFIG},
        {"run.steps=5,6", "the search itself sets the steps", WEFT_ERR_CONFIG},
        {"optimizer.lr=1e-2..1e-4", "a number and a larger one", WEFT_ERR_CONFIG},
        {"optimizer.lr=1..", "expected LOW..HIGH", WEFT_ERR_CONFIG},
        {"optimizer.lr=..1", "expected LOW..HIGH", WEFT_ERR_CONFIG},
        {"optimizer.lr=1,,2", "expected at most", WEFT_ERR_CONFIG},
        {"optimizer.lr=", "expected at most", WEFT_ERR_CONFIG},
        {"optimizer.lr=1e-4..2000", "optimizer.lr", WEFT_ERR_CONFIG},
        {"optimizer.kind=adamw,adamx", "adamx", WEFT_ERR_CONFIG},
        {"replicator.sign=0..1", "expected a list", WEFT_ERR_CONFIG},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_fails(ctx, wefti_space_add(ctx, &space, rows[i].text, scratch),
                     rows[i].status, rows[i].words);
        assert_int_equal(space.n_axes, 0);
    }
    assert_ok(ctx, wefti_space_add(ctx, &space, "optimizer.lr=1..2", scratch));
    assert_fails(ctx, wefti_space_add(ctx, &space, "optimizer.lr=1,2", scratch),
                 WEFT_ERR_CONFIG, "twice");
}
