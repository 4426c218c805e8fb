/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include "token/splitter.h"

/* The ends of the pieces of a text, as a list. */
typedef struct edges {
    int64_t at[4096];
    int64_t n;
} edges;

static void find_edges(weft_ctx *ctx, wefti_scan *scan, const char *text, int64_t n,
                       int64_t offset, edges *out) {
    const char *piece;
    int64_t length, at = 0;
    wefti_scan_start(scan, text, n);
    for (;;) {
        assert_ok(ctx, wefti_scan_next(scan, &piece, &length));
        if (length == 0) break;
        assert_ptr_equal(piece, text + at);
        at += length;
        assert_true(out->n < COUNT(out->at));
        out->at[out->n++] = offset + at;
    }
    assert_int_equal(at, n);
}

static void assert_pieces(weft_ctx *ctx, wefti_rule rule, const char *text,
                          const char *expected) {
    wefti_splitter *splitter;
    wefti_scan *scan;
    char got[256] = "";
    size_t n = 0;
    const char *piece;
    int64_t length;
    assert_ok(ctx, wefti_splitter_create(ctx, rule, &splitter));
    assert_ok(ctx, wefti_scan_create(ctx, splitter, &scan));
    wefti_scan_start(scan, text, (int64_t)strlen(text));
    for (;;) {
        assert_ok(ctx, wefti_scan_next(scan, &piece, &length));
        if (length == 0) break;
        memcpy(got + n, piece, (size_t)length);
        n += (size_t)length;
        got[n++] = '|';
    }
    got[n] = '\0';
    assert_string_equal(got, expected);
    wefti_scan_destroy(scan);
    wefti_splitter_destroy(ctx, splitter);
}

TEST_IN(with_ctx, without_leak, gpt2_splits_as_published) {
    weft_ctx *ctx = *state;
    assert_pieces(ctx, WEFTI_RULE_GPT2, "Hello world, it's 2024!",
                  "Hello| world|,| it|'s| 2024|!|");
    assert_pieces(ctx, WEFTI_RULE_GPT2, "a  b\n\nc ", "a| | b|\n|\n|c| |");
    assert_pieces(ctx, WEFTI_RULE_GPT2, "DON'T don't", "DON|'|T| don|'t|");
    assert_pieces(ctx, WEFTI_RULE_GPT2, "x\xc2\xa0y \xe1\xa0\x8e",
                  "x|\xc2\xa0|y| \xe1\xa0\x8e|");
    assert_pieces(ctx, WEFTI_RULE_GPT2, "", "");
}

TEST_IN(with_ctx, without_leak, llama3_splits_as_published) {
    weft_ctx *ctx = *state;
    assert_pieces(ctx, WEFTI_RULE_LLAMA3, "Hello world, it's 12345!",
                  "Hello| world|,| it|'s| |123|45|!|");
    assert_pieces(ctx, WEFTI_RULE_LLAMA3, "a  b\n\nc \n d", "a| | b|\n\n|c| \n| d|");
    assert_pieces(ctx, WEFTI_RULE_LLAMA3, "DON'T (x)!\n\ny", "DON|'T| (|x|)!\n\n|y|");
}

TEST_IN(with_ctx, without_leak, a_byte_that_is_not_utf8_is_a_piece) {
    weft_ctx *ctx = *state;
    assert_pieces(ctx, WEFTI_RULE_GPT2, "ab\xff\xc3z\xe2\x80",
                  "ab|\xff|\xc3|z|\xe2|\x80|");
    assert_pieces(ctx, WEFTI_RULE_LLAMA3, "\xed\xa0\x80 x", "\xed|\xa0|\x80| x|");
}

/* Cuts a text at every place that is reported safe and compares the pieces. */
static int64_t check_cuts(weft_ctx *ctx, wefti_scan *scan, const char *text, int64_t n) {
    static edges whole, parts;
    int64_t cuts = 0, before = -1;
    whole.n = 0;
    find_edges(ctx, scan, text, n, 0, &whole);
    for (int64_t p = 1; p < n; p++) {
        bool safe = wefti_safe_cut_after(text, n, p) == p;
        if (safe) before = p;
        assert_int_equal(wefti_safe_cut_before(text, n, p), before);
        if (!safe) continue;
        cuts++;
        parts.n = 0;
        find_edges(ctx, scan, text, p, 0, &parts);
        find_edges(ctx, scan, text + p, n - p, p, &parts);
        assert_int_equal(parts.n, whole.n);
        assert_memory_equal(parts.at, whole.at, (size_t)whole.n * sizeof whole.at[0]);
    }
    return cuts;
}

TEST_IN(with_ctx, without_leak, safe_cuts_do_not_change_the_pieces) {
    weft_ctx *ctx = *state;
    char text[120];
    for (wefti_rule rule = WEFTI_RULE_GPT2; rule <= WEFTI_RULE_LLAMA3; rule++) {
        wefti_splitter *splitter;
        wefti_scan *scan;
        int64_t cuts = 0;
        assert_ok(ctx, wefti_splitter_create(ctx, rule, &splitter));
        assert_ok(ctx, wefti_scan_create(ctx, splitter, &scan));
        for (uint64_t seed = 0; seed < 2000; seed++) {
            int64_t n = 8 + (int64_t)(seed % 112);
            mixed_text(seed, text, n, seed % 2 == 0);
            cuts += check_cuts(ctx, scan, text, n);
        }
        assert_true(cuts > 5000); /* the test has seen something */
        wefti_scan_destroy(scan);
        wefti_splitter_destroy(ctx, splitter);
    }
}

/* What follows a chunk must not unmake a cut that was found in the chunk alone. */
TEST_IN(with_ctx, without_leak, safe_cuts_stay_safe_when_text_follows) {
    weft_ctx *ctx = *state;
    wefti_splitter *splitter;
    wefti_scan *scan;
    char text[60];
    static edges whole;
    assert_ok(ctx, wefti_splitter_create(ctx, WEFTI_RULE_GPT2, &splitter));
    assert_ok(ctx, wefti_scan_create(ctx, splitter, &scan));
    for (uint64_t seed = 0; seed < 1000; seed++) {
        mixed_text(seed, text, sizeof text, true);
        whole.n = 0;
        find_edges(ctx, scan, text, sizeof text, 0, &whole);
        for (int64_t n = 5; n < (int64_t)sizeof text; n++) {
            int64_t cut = wefti_safe_cut_before(text, n, n);
            if (cut < 0) continue;
            bool is_edge = false;
            for (int64_t k = 0; k < whole.n; k++) is_edge |= whole.at[k] == cut;
            assert_true(is_edge);
            assert_int_equal(wefti_safe_cut_after(text, sizeof text, cut), cut);
        }
    }
    wefti_scan_destroy(scan);
    wefti_splitter_destroy(ctx, splitter);
}

TEST_IN(with_ctx, without_leak, long_runs_of_one_kind_are_split) {
    weft_ctx *ctx = *state;
    enum { N = 1 << 21 };
    static const char kinds[] = {' ', '\n', 'a', '7', '!', '\r'};
    char *text;
    assert_ok(ctx, wefti_alloc(ctx, N, "text", &text));
    for (wefti_rule rule = WEFTI_RULE_GPT2; rule <= WEFTI_RULE_LLAMA3; rule++) {
        wefti_splitter *splitter;
        wefti_scan *scan;
        assert_ok(ctx, wefti_splitter_create(ctx, rule, &splitter));
        assert_ok(ctx, wefti_scan_create(ctx, splitter, &scan));
        for (int k = 0; k < COUNT(kinds); k++) {
            const char *piece;
            int64_t length, total = 0;
            memset(text, kinds[k], N - 1);
            text[N - 1] = 'x';
            wefti_scan_start(scan, text, N);
            do {
                assert_ok(ctx, wefti_scan_next(scan, &piece, &length));
                total += length;
            } while (length > 0);
            assert_int_equal(total, N);
        }
        wefti_scan_destroy(scan);
        wefti_splitter_destroy(ctx, splitter);
    }
    wefti_free(ctx, text);
}

TEST_IN(with_ctx, without_leak, rules_are_found_by_name_and_by_expression) {
    wefti_rule rule = WEFTI_RULE_NONE;
    assert_true(wefti_rule_by_name("llama3", &rule) && rule == WEFTI_RULE_LLAMA3);
    assert_true(wefti_rule_by_regex(wefti_rule_regex(WEFTI_RULE_GPT2), &rule));
    assert_int_equal(rule, WEFTI_RULE_GPT2);
    assert_false(wefti_rule_by_name("none", &rule));
    assert_false(wefti_rule_by_regex("\\w+", &rule));
}
