/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include <math.h>

#include <weft/dataset.h>

enum { N = 12000, T = 10 };
enum { N_TRAIN = 9000 /* more than a block at a time */ };

/* The formula on two texts of bytes, by tables. */
static double by_definition(const char *const *texts, int64_t n_train, int64_t n_used) {
    static double pairs[256][256], before[256];
    bool seen[256] = {false};
    double v = 0, sum = 0, n = 0;
    memset(pairs, 0, sizeof pairs);
    memset(before, 0, sizeof before);
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; i < n_train + n_used; i++) {
            unsigned char b = (unsigned char)texts[k][i];
            if (!seen[b]) v++;
            seen[b] = true;
            if (i == 0 || i >= n_train) continue;
            unsigned char a = (unsigned char)texts[k][i - 1];
            pairs[a][b]++;
            before[a]++;
        }
    }
    for (int k = 0; k < 2; k++) {
        for (int64_t i = n_train + 1; i < n_train + n_used; i++, n++) {
            unsigned char a = (unsigned char)texts[k][i - 1],
                          b = (unsigned char)texts[k][i];
            sum -= log((pairs[a][b] + 1) / (before[a] + v));
        }
    }
    return sum / n;
}

TEST_IN(with_ctx, without_leak, the_loss_is_the_formula) {
    weft_ctx *ctx = *state;
    static char texts[2][N];
    static const char *const paths[] = {"first.txt", "second.txt"};
    const char *const both[] = {texts[0], texts[1]};
    weft_tokenizer *t;
    weft_dataset *d;
    double nats;
    weft_dataset_config config = {.struct_size = sizeof config,
                                  .paths = paths,
                                  .n_paths = 2,
                                  .validation = 0.25,
                                  .T = T};
    mixed_text(1, texts[0], N, true);
    mixed_text(2, texts[1], N, false);
    texts[1][9200] = '#'; /* seen in the validation part alone */
    write_file(ctx, paths[0], texts[0], N);
    write_file(ctx, paths[1], texts[1], N);
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    assert_ok(ctx, weft_dataset_open(ctx, &config, t, &d));
    assert_ok(ctx, weft_dataset_bigram_loss(ctx, d, 256, &nats));
    double expected = by_definition(both, N_TRAIN, 2999 / T * T + 1);
    /* two sums of 5980 terms of at most 8: n^2 eps / 2 is far below */
    assert_true(fabs(nats - expected) < 1e-9);
    assert_true(nats > 1 && nats < 5);
    weft_dataset_close(ctx, d);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, a_vocabulary_that_is_too_small_is_refused) {
    weft_ctx *ctx = *state;
    static const char *const paths[] = {"small.txt"};
    weft_tokenizer *t;
    weft_dataset *d;
    double nats;
    weft_dataset_config config = {.struct_size = sizeof config,
                                  .paths = paths,
                                  .n_paths = 1,
                                  .validation = 0.5,
                                  .T = 2};
    write_file(ctx, "small.txt", "abababababab", 12);
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    assert_ok(ctx, weft_dataset_open(ctx, &config, t, &d));
    assert_refused(ctx, weft_dataset_bigram_loss(ctx, d, 'b', &nats), WEFT_ERR_ARGUMENT,
                   "the id 98, expected 0 to 97");
    assert_refused(ctx, weft_dataset_bigram_loss(ctx, d, -1, &nats), WEFT_ERR_MEMORY,
                   "-1");
    assert_ok(ctx, weft_dataset_bigram_loss(ctx, d, 'b' + 1, &nats));
    weft_dataset_close(ctx, d);
    weft_tokenizer_destroy(ctx, t);
}
