/* SPDX-License-Identifier: MIT */
#include "base/rng.h"
#include "check.h"

TEST(permute_hits_every_index_once) {
    static const int64_t sizes[] = {1, 2, 3, 7, 64, 1000, 4097};
    char seen[4097];
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        memset(seen, 0, sizeof seen);
        for (int64_t i = 0; i < sizes[k]; i++) {
            int64_t j = wefti_rng_permute(7, WEFTI_STREAM_TEST, 3, sizes[k], i);
            assert_true(j >= 0 && j < sizes[k]);
            assert_false(seen[j]);
            seen[j] = 1;
        }
    }
}

TEST(permute_depends_on_seed_and_step) {
    int same = 0;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t a = wefti_rng_permute(1, WEFTI_STREAM_TEST, 0, 1000, i);
        same += a == wefti_rng_permute(2, WEFTI_STREAM_TEST, 0, 1000, i);
        same += a == wefti_rng_permute(1, WEFTI_STREAM_TEST, 1, 1000, i);
    }
    assert_true(same < 40);
}

TEST(normal_has_mean_zero_and_variance_one) {
    double sum = 0, squares = 0;
    enum { N = 100000 };
    for (uint64_t i = 0; i < N; i++) {
        double x = wefti_rng_normal(5, WEFTI_STREAM_TEST, 0, i);
        sum += x;
        squares += x * x;
    }
    /* five standard errors: 1/sqrt(N) for the mean, sqrt(2/N) for the variance */
    assert_true(sum / N < 0.016 && sum / N > -0.016);
    assert_true(squares / N > 1 - 0.023 && squares / N < 1 + 0.023);
}

TEST(philox_matches_the_published_zero_vector) {
    uint64_t out[2];
    wefti_rng_pair(0, 0, 0, 0,
                   out); /* Random123 known answer: 6627e8d5 e169c58d bc57ac4c 9b00dbd8 */
    assert_int_equal(out[0], 0xe169c58d6627e8d5ull);
    assert_int_equal(out[1], 0x9b00dbd8bc57ac4cull);
}

TEST(pairs_in_a_row_are_those_one_by_one) {
    static const uint64_t firsts[] = {0, 5, 0xfffffff9ull, 0x123456789abcull};
    for (int f = 0; f < 4; f++)
        for (int64_t n = 0; n < 40; n += 1 + n / 10) {
            wefti_rng_run run = {0x0123456789abcdefull, WEFTI_STREAM_TEST, 1ull << 40 | 7,
                                 firsts[f], n};
            uint64_t pairs[41][2], one[2];
            memset(pairs[n], 0xa5, sizeof one);
            wefti_rng_pairs(&run, pairs);
            for (int64_t i = 0; i < n; i++) {
                wefti_rng_pair(run.seed, run.stream, run.step, firsts[f] + (uint64_t)i,
                               one);
                assert_memory_equal(pairs[i], one, sizeof one);
            }
            assert_int_equal(pairs[n][1], 0xa5a5a5a5a5a5a5a5ull); /* and no further */
        }
}
