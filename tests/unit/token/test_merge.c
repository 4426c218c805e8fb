/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include "token/merge.h"

/* A tokenizer with many merges among few letters, so that pairs compete and overlap. */
static weft_tokenizer *busy_tokenizer(weft_ctx *ctx) {
    enum { N = 6000 };
    char text[N];
    weft_tokenizer *t;
    for (int i = 0; i < N; i++)
        text[i] = i % 17 == 16 ? ' ' : (char)('a' + pick(3, i, 3));
    assert_ok(ctx, weft_tokenizer_train(ctx, text, N, 600, "gpt2", &t));
    assert_true(t->merges.n > 100);
    return t;
}

/* The definition, word for word: the lowest rank, leftmost, until none applies. */
static int64_t merge_by_definition(const weft_tokenizer *t, const char *piece, int64_t n,
                                   int32_t *ids) {
    for (int64_t i = 0; i < n; i++) ids[i] = t->byte_ids[(unsigned char)piece[i]];
    for (;;) {
        int64_t best = -1, at = -1;
        for (int64_t i = 0; i + 1 < n; i++) {
            int64_t rank = wefti_u64map_find(&t->merges,
                                             wefti_pair_key(ids[i], ids[i + 1]));
            if (rank >= 0 && (best < 0 || rank < best)) best = rank, at = i;
        }
        if (best < 0) return n;
        ids[at] = t->merged[best];
        for (int64_t i = at + 1; i + 1 < n; i++) ids[i] = ids[i + 1];
        n--;
    }
}

TEST_IN(with_ctx, without_leak, short_and_long_merging_follow_the_definition) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t = busy_tokenizer(ctx);
    wefti_merge_room room = {0};
    for (int64_t trial = 0; trial < 3000; trial++) {
        char piece[WEFTI_MERGE_SHORT];
        int32_t expected[WEFTI_MERGE_SHORT], got[WEFTI_MERGE_SHORT];
        int64_t n = 1 + trial % WEFTI_MERGE_SHORT, n_got;
        int64_t letters = 1 + trial % 4;
        for (int64_t i = 0; i < n; i++)
            piece[i] = (char)('a' + pick((uint64_t)trial, i, letters));
        int64_t n_expected = merge_by_definition(t, piece, n, expected);
        assert_int_equal(wefti_merge_short(t, piece, n, got), n_expected);
        assert_memory_equal(got, expected, (size_t)n_expected * sizeof *got);
        assert_ok(ctx, wefti_merge_long(ctx, t, &room, piece, n, got, &n_got));
        assert_int_equal(n_got, n_expected);
        assert_memory_equal(got, expected, (size_t)n_expected * sizeof *got);
    }
    wefti_merge_room_fini(ctx, &room);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, a_long_piece_follows_the_definition) {
    weft_ctx *ctx = *state;
    enum { N = 1500 };
    weft_tokenizer *t = busy_tokenizer(ctx);
    wefti_merge_room room = {0};
    char piece[N];
    int32_t expected[N], got[N];
    int64_t n_got;
    for (int64_t letters = 1; letters <= 4; letters++) {
        for (int64_t i = 0; i < N; i++) piece[i] = (char)('a' + pick(9, i, letters));
        int64_t n_expected = merge_by_definition(t, piece, N, expected);
        assert_ok(ctx, wefti_merge_piece(ctx, t, &room, piece, N, got, &n_got));
        assert_int_equal(n_got, n_expected);
        assert_memory_equal(got, expected, (size_t)n_expected * sizeof *got);
    }
    wefti_merge_room_fini(ctx, &room);
    weft_tokenizer_destroy(ctx, t);
}
