/* SPDX-License-Identifier: MIT */
#include <math.h>

#include "check.h"
#include "compress/selection.h"

static float magnitude(float x) { return x < 0 ? -x : x; }

/* How many elements come before i: larger magnitude, or equal and lower index. */
static int64_t rank_of(int64_t n, const float *x, int64_t i) {
    int64_t before = 0;
    for (int64_t j = 0; j < n; j++)
        before += magnitude(x[j]) > magnitude(x[i]) ||
                  (magnitude(x[j]) == magnitude(x[i]) && j < i);
    return before;
}

static void check(int64_t n, const float *x, int64_t k) {
    int32_t index[600];
    float value[600];
    uint32_t scratch[600];
    wefti_topk(n, x, k, index, value, scratch);
    int64_t next = 0;
    for (int64_t i = 0; i < n; i++) {
        if (rank_of(n, x, i) >= k) continue;
        assert_true(next < k);
        assert_int_equal(index[next], i);
        assert_true(value[next] == x[i]);
        next++;
    }
    assert_int_equal(next, k);
}

TEST(topk_is_the_definition_on_random_vectors) {
    static const int64_t sizes[] = {1, 2, 3, 16, 64, 65, 300, 512};
    float x[600];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int64_t k = 1; k <= sizes[s]; k += 1 + k / 3) {
            fill_normal((uint64_t)(s * 1000) + (uint64_t)k, sizes[s], x);
            check(sizes[s], x, k);
        }
    }
}

TEST(ties_go_to_the_lower_index) {
    float x[600];
    for (int64_t k = 1; k <= 300; k += 7) {
        for (int64_t i = 0; i < 300; i++)
            x[i] =
                (float)((int)(wefti_rng_u64(1, WEFTI_STREAM_TEST, 0, (uint64_t)i) % 5) -
                        2);
        check(300, x, k);
    }
    memset(x, 0, sizeof x);
    check(64, x, 4);
    check(300, x, 299);
}

TEST(what_is_not_a_number_comes_before_everything) {
    float x[40], value[20];
    int32_t index[20];
    uint32_t scratch[40];
    for (int64_t k = 2; k <= 20; k += 9) {
        fill_normal(3, 40, x);
        x[5] = INFINITY, x[17] = NAN, x[30] = -NAN;
        wefti_topk(40, x, k, index, value, scratch);
        int found = 0;
        for (int64_t j = 0; j < k; j++) found += isnan(value[j]) ? 1 : 0;
        assert_int_equal(found, 2);
    }
}
