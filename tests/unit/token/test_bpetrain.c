/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include "token/bytemap.h"
#include "token/vocab.h"

/* Training by its definition: every count anew before every merge. */
enum { MOST = 4096, MOST_IDS = 400, LONGEST = 64 };

typedef struct slow {
    int32_t ids[MOST]; /* symbols of all pieces; -1 between pieces */
    int64_t n;
    char bytes[MOST_IDS][LONGEST];
    int length[MOST_IDS];
    int32_t n_ids;
    uint64_t merges[MOST_IDS];
    int64_t n_merges;
} slow;

static void slow_start(weft_ctx *ctx, slow *s, const char *text, int64_t n,
                       wefti_rule rule) {
    wefti_splitter *splitter;
    wefti_scan *scan;
    int32_t id_of[256];
    s->n = s->n_merges = s->n_ids = 0;
    for (uint32_t code = 0; code < WEFTI_BYTEMAP_CODES; code++) {
        int byte = wefti_bytemap_byte(code);
        if (byte < 0) continue;
        id_of[byte] = s->n_ids;
        s->bytes[s->n_ids][0] = (char)byte;
        s->length[s->n_ids++] = 1;
    }
    assert_ok(ctx, wefti_splitter_create(ctx, rule, &splitter));
    assert_ok(ctx, wefti_scan_create(ctx, splitter, &scan));
    wefti_scan_start(scan, text, n);
    const char *piece;
    int64_t length;
    for (;;) {
        assert_ok(ctx, wefti_scan_next(scan, &piece, &length));
        if (length == 0) break;
        for (int64_t i = 0; i < length; i++)
            s->ids[s->n++] = id_of[(unsigned char)piece[i]];
        s->ids[s->n++] = -1;
    }
    wefti_scan_destroy(scan);
    wefti_splitter_destroy(ctx, splitter);
}

/* The most frequent pair, the lower one among equals; its count. */
static int64_t slow_best(const slow *s, int32_t *left, int32_t *right) {
    static int64_t counts[MOST_IDS][MOST_IDS];
    int64_t best = 0;
    memset(counts, 0, sizeof counts);
    for (int64_t i = 0; i + 1 < s->n; i++)
        if (s->ids[i] >= 0 && s->ids[i + 1] >= 0) counts[s->ids[i]][s->ids[i + 1]]++;
    for (int32_t a = 0; a < s->n_ids; a++)
        for (int32_t b = 0; b < s->n_ids; b++)
            if (counts[a][b] > best) best = counts[a][b], *left = a, *right = b;
    return best;
}

static void slow_merge(slow *s, int32_t left, int32_t right) {
    char joined[2 * LONGEST];
    int n = s->length[left] + s->length[right];
    memcpy(joined, s->bytes[left], (size_t)s->length[left]);
    memcpy(joined + s->length[left], s->bytes[right], (size_t)s->length[right]);
    int32_t merged = s->n_ids++;
    assert_true(n <= LONGEST && merged < MOST_IDS);
    for (int32_t id = 0; id < merged; id++) /* no bytes are made twice */
        assert_false(s->length[id] == n && memcmp(s->bytes[id], joined, (size_t)n) == 0);
    memcpy(s->bytes[merged], joined, (size_t)n);
    s->length[merged] = n;
    s->merges[s->n_merges++] = wefti_pair_key(left, right);
    int64_t to = 0;
    for (int64_t i = 0; i < s->n; i++) {
        bool hit = i + 1 < s->n && s->ids[i] == left && s->ids[i + 1] == right;
        s->ids[to++] = hit ? merged : s->ids[i];
        i += hit;
    }
    s->n = to;
}

static void assert_trains_like_the_definition(weft_ctx *ctx, const char *text, int64_t n,
                                              const char *rule_name, int64_t vocab) {
    static slow s;
    wefti_rule rule = WEFTI_RULE_NONE;
    weft_tokenizer *t;
    int32_t left = 0, right = 0;
    assert_true(wefti_rule_by_name(rule_name, &rule));
    slow_start(ctx, &s, text, n, rule);
    while (s.n_ids < vocab - 1 && slow_best(&s, &left, &right) >= 2)
        slow_merge(&s, left, right);
    assert_ok(ctx, weft_tokenizer_train(ctx, text, n, vocab, rule_name, &t));
    assert_int_equal(weft_tokenizer_vocab(t), s.n_ids + 1);
    assert_int_equal(t->merges.n, s.n_merges);
    assert_memory_equal(t->merges.keys, s.merges,
                        (size_t)s.n_merges * sizeof s.merges[0]);
    for (int32_t id = 0; id < s.n_ids; id++) {
        int64_t length;
        const char *bytes = weft_tokenizer_bytes(t, id, &length);
        assert_int_equal(length, s.length[id]);
        assert_memory_equal(bytes, s.bytes[id], (size_t)length);
    }
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, training_follows_the_definition) {
    weft_ctx *ctx = *state;
    char text[1200];
    for (uint64_t seed = 0; seed < 12; seed++) {
        mixed_text(seed, text, sizeof text, true);
        assert_trains_like_the_definition(ctx, text, sizeof text,
                                          seed % 2 ? "gpt2" : "llama3", 300);
    }
}

TEST_IN(with_ctx, without_leak, overlapping_pairs_are_merged_from_the_left) {
    weft_ctx *ctx = *state;
    char text[900];
    for (int64_t letters = 1; letters <= 3; letters++) {
        for (int i = 0; i < COUNT(text); i++)
            text[i] = pick(4, 2 * i, 9) == 0 ? ' '
                                             : (char)('a' + pick(4, 2 * i + 1, letters));
        assert_trains_like_the_definition(ctx, text, sizeof text, "gpt2", 330);
    }
}

TEST_IN(with_ctx, without_leak, one_long_piece_is_trained_on) {
    weft_ctx *ctx = *state;
    enum { N = 1 << 16 };
    char *text;
    weft_tokenizer *t;
    assert_ok(ctx, wefti_alloc(ctx, N, "text", &text));
    for (int64_t i = 0; i < N; i++) text[i] = (char)('a' + pick(5, i, 4));
    assert_ok(ctx, weft_tokenizer_train(ctx, text, N, 2000, "gpt2", &t));
    assert_int_equal(weft_tokenizer_vocab(t), 2000);
    weft_tokenizer_destroy(ctx, t);
    memset(text, 'a', N);
    assert_ok(ctx, weft_tokenizer_train(ctx, text, N, 2000, "gpt2", &t));
    assert_int_equal(weft_tokenizer_vocab(t),
                     256 + 15 + 1); /* aa, aaaa, ..: 2^15 twice */
    weft_tokenizer_destroy(ctx, t);
    wefti_free(ctx, text);
}

TEST_IN(with_ctx, without_leak, the_end_token_is_last_and_only_if_there_is_room) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    int64_t n;
    assert_ok(ctx, weft_tokenizer_train(ctx, "abab", 4, 256, "gpt2", &t));
    assert_int_equal(weft_tokenizer_vocab(t), 256);
    assert_int_equal(weft_tokenizer_end(t), -1);
    weft_tokenizer_destroy(ctx, t);
    assert_ok(ctx, weft_tokenizer_train(ctx, "abab", 4, 257, "gpt2", &t));
    assert_int_equal(weft_tokenizer_end(t), 256);
    assert_memory_equal(weft_tokenizer_bytes(t, 256, &n), "<|endoftext|>", 13);
    assert_int_equal(n, 13);
    weft_tokenizer_destroy(ctx, t);
    assert_ok(ctx, weft_tokenizer_train(ctx, "abab", 4, 5000, "gpt2", &t));
    assert_int_equal(weft_tokenizer_vocab(t), 258); /* "ab" occurs twice, "abab" once */
    assert_int_equal(weft_tokenizer_end(t), 257);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, senseless_arguments_are_refused) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    assert_refused(ctx, weft_tokenizer_train(ctx, "a", 0, 300, "gpt2", &t),
                   WEFT_ERR_ARGUMENT, "no text");
    assert_refused(ctx, weft_tokenizer_train(ctx, "a", 1, 255, "gpt2", &t),
                   WEFT_ERR_ARGUMENT, "255 ids");
    assert_refused(ctx, weft_tokenizer_train(ctx, "a", 1, 1 << 25, "gpt2", &t),
                   WEFT_ERR_ARGUMENT, "33554432 ids");
    assert_refused(ctx, weft_tokenizer_train(ctx, "a", 1, 300, "gpt3", &t),
                   WEFT_ERR_ARGUMENT, "'gpt3'");
    assert_null(t);
}
