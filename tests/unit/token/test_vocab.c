/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include <xxhash.h>

#include "token/vocab.h"

TEST_IN(with_ctx, without_leak, the_bytes_tokenizer_maps_each_byte_to_itself) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    int32_t *ids;
    int64_t n;
    char all[256];
    for (int byte = 0; byte < 256; byte++) all[byte] = (char)byte;
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    assert_string_equal(weft_tokenizer_kind(t), "bytes");
    assert_int_equal(weft_tokenizer_vocab(t), 256);
    assert_int_equal(weft_tokenizer_end(t), -1);
    assert_ok(ctx, weft_tokenizer_encode(ctx, t, all, 256, 1, &ids, &n));
    assert_int_equal(n, 256);
    for (int byte = 0; byte < 256; byte++) assert_int_equal(ids[byte], byte);
    wefti_free(ctx, ids);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, ids_outside_the_vocabulary_have_no_bytes) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    int64_t n = 7;
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    assert_null(weft_tokenizer_bytes(t, -1, &n));
    assert_int_equal(n, 0);
    assert_null(weft_tokenizer_bytes(t, 256, &n));
    assert_null(weft_tokenizer_bytes(t, INT32_MAX, &n));
    assert_non_null(weft_tokenizer_bytes(t, 255, &n));
    assert_int_equal(n, 1);
    weft_tokenizer_destroy(ctx, t);
}

static uint64_t hash_after(weft_ctx *ctx, const char *text, int64_t vocab,
                           const char *rule) {
    weft_tokenizer *t;
    assert_ok(ctx,
              weft_tokenizer_train(ctx, text, (int64_t)strlen(text), vocab, rule, &t));
    uint64_t hash = weft_tokenizer_hash(t);
    weft_tokenizer_destroy(ctx, t);
    return hash;
}

TEST_IN(with_ctx, without_leak, the_hash_tells_tokenizers_apart) {
    weft_ctx *ctx = *state;
    uint64_t one = hash_after(ctx, "abab cdcd", 300, "gpt2");
    assert_true(one == hash_after(ctx, "abab cdcd", 300, "gpt2"));
    assert_true(one != hash_after(ctx, "abab cdcd", 300, "llama3"));
    assert_true(one != hash_after(ctx, "abab cecd cecd", 300, "gpt2"));
    assert_true(one != hash_after(ctx, "abab cdcd", 257, "gpt2"));
    assert_true(hash_after(ctx, "x", 256, "gpt2") != hash_after(ctx, "x", 257, "gpt2"));
}

/* The same tokens, "abc" made of ab + c or of a + bc. */
static uint64_t hash_with_merge(weft_ctx *ctx, bool left) {
    static const char *const more[] = {"ab", "bc", "abc"};
    weft_tokenizer *t;
    int missing;
    bool fresh;
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    for (int k = 0; k < COUNT(more); k++) {
        assert_ok(ctx, wefti_vocab_stage(ctx, t, more[k], (int64_t)strlen(more[k])));
        assert_ok(ctx, wefti_vocab_add_staged(ctx, t, 256 + k, WEFTI_TOKEN_MODEL));
    }
    assert_ok(ctx, wefti_vocab_add_merge(ctx, t, left ? 256 : 'a', left ? 'c' : 257, 258,
                                         &fresh));
    assert_true(fresh);
    assert_ok(ctx, wefti_vocab_finish(ctx, t, &missing));
    uint64_t hash = weft_tokenizer_hash(t);
    weft_tokenizer_destroy(ctx, t);
    return hash;
}

TEST_IN(with_ctx, without_leak, the_hash_knows_the_merges) {
    weft_ctx *ctx = *state;
    assert_true(hash_with_merge(ctx, true) == hash_with_merge(ctx, true));
    assert_true(hash_with_merge(ctx, true) != hash_with_merge(ctx, false));
}

/* docs/file-formats.md names the order; the golden shard was hashed by another program. */
TEST_IN(with_ctx, without_leak, the_hash_is_the_documented_one) {
    weft_ctx *ctx = *state;
    unsigned char data[4 + 16 + 256 * 17 + 8] = "none";
    size_t n = 4;
    weft_tokenizer *t;
    data[n + 9] = 1; /* ignore_merges 0, vocabulary 256 */
    n += 16;
    for (int byte = 0; byte < 256; byte++) {
        data[n] = 1 | 2;
        data[n + 8] = 1;
        data[n + 16] = (unsigned char)byte;
        n += 17;
    }
    assert_int_equal(n + 8, sizeof data);
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    assert_true(weft_tokenizer_hash(t) == XXH3_64bits(data, sizeof data));
    weft_tokenizer_destroy(ctx, t);
}
