/* SPDX-License-Identifier: MIT */
/* Selection without a transform, of chunks side by side, has the bits of wefti_topk. */
#include "check.h"

#include <math.h>

#include "compress/selection.h"
#include "compress/spectrum.h"
#include "reference/reference.h"

enum { MOST = 1024, N = 40 * MOST };

static weft_ctx *ctx;
static float m[N];
static int32_t places[N], want_place[MOST];
static float values[N], want_value[MOST];

/* Numbers of which some are equal, 0 with either sign, or not finite. */
static void fill(int64_t n) {
    fill_normal(3, n, m);
    for (int64_t i = 0; i < n; i++) {
        if (i % 5 == 0) m[i] = i % 2 ? 0.5f : -0.5f;
        if (i % 977 == 13) m[i] = i % 2 ? NAN : -INFINITY;
        if (i / 100 % 7 == 3) m[i] = i % 3 ? 0.0f : -0.0f;
    }
}

static void check_chunk(const wefti_chunks *s, int64_t chunk) {
    float x[MOST] = {0};
    uint32_t keys[MOST];
    wefti_chunks_load(s, chunk, 1, m, x);
    wefti_topk(s->c, x, s->k, want_place, want_value, keys);
    size_t n_bytes = (size_t)s->k * sizeof(float);
    assert_memory_equal(places + chunk * s->k, want_place, n_bytes);
    assert_memory_equal(values + chunk * s->k, want_value, n_bytes);
}

static void check_cut(const wefti_kernels *kernels, int64_t c, int64_t k, int64_t n) {
    wefti_spectrum *largest;
    wefti_chunks s = wefti_chunks_make(1, c, k, 1, n);
    assert_ok(ctx, wefti_spectrum_create(ctx, kernels, 0, c, 1, &largest));
    for (int64_t first = 0; first < s.n; first += 19)
        wefti_spectrum_select(largest, 0, &s, first, s.n - first < 19 ? s.n - first : 19,
                              NULL, NULL, m, places + first * k, values + first * k);
    for (int64_t i = 0; i < s.n; i++) check_chunk(&s, i);
    wefti_spectrum_destroy(ctx, largest);
}

TEST(chunks_side_by_side_have_the_bits_of_one) {
    static const int64_t cuts[][3] = {{2, 1, 75},     {7, 7, 400},      {16, 2, 1000},
                                      {64, 1, 4096},  {64, 4, 4100},    {64, 8, 9999},
                                      {100, 3, 2345}, {1024, 17, 30001}};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    fill(N);
    for (const char *const *name = test_kernels_names(); *name; name++)
        for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++)
            check_cut(test_kernels_find(*name), cuts[i][0], cuts[i][1], cuts[i][2]);
    ctx_end(ctx);
}
