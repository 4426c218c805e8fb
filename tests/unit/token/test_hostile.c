/* SPDX-License-Identifier: MIT */
/* A tokenizer.json from elsewhere costs a bounded amount of work and memory for each byte of a
 * text, whatever it says. Each case took minutes to hours, or all memory, without the bounds;
 * the ceilings on processor time leave room for a sanitizer on a slow machine. */
#include "unit/data/datatest.h"

#include <time.h>

#include "base/buffer.h"
#include "token/bytemap.h"

#ifdef __SANITIZE_ADDRESS__
enum { CEILING_S = 60, N_TEXT = 20000, ROUNDS = 2 }; /* a tenth: it checks each access */
#else
enum { CEILING_S = 60, N_TEXT = 200000, ROUNDS = 30 };
#endif

static double begun;

static void begin(void) { begun = (double)clock() / CLOCKS_PER_SEC; }

static void assert_cheap(void) {
    double took = (double)clock() / CLOCKS_PER_SEC - begun;
    if (took > CEILING_S) fail_msg("%.0f s, expected at most %d s", took, CEILING_S);
}

static void put_vocab(weft_ctx *ctx, wefti_buffer *b) {
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte, name[8], row[40];
        int64_t n = wefti_bytemap_encode(&c, 1, name);
        bool escape = name[0] == '"' || name[0] == '\\';
        snprintf(row, sizeof row, "%s\"%s%.*s\":%d", byte ? "," : "", escape ? "\\" : "",
                 (int)n, name, byte);
        wefti_buffer_text(ctx, b, row);
    }
}

/* A byte-level tokenizer with a normalizer, a Split and added tokens. */
static weft_status load(weft_ctx *ctx, const char *normalizer, const char *regex,
                        const char *added, weft_tokenizer **t) {
    wefti_buffer b = {0};
    wefti_buffer_text(ctx, &b, "{\"added_tokens\":[");
    wefti_buffer_text(ctx, &b, added);
    wefti_buffer_text(ctx, &b, "],\"normalizer\":");
    wefti_buffer_text(ctx, &b, normalizer);
    wefti_buffer_text(
        ctx, &b,
        ",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{"
        "\"type\":\"Split\",\"behavior\":\"Isolated\",\"pattern\":{\"Regex\":"
        "\"");
    wefti_buffer_text(ctx, &b, regex);
    wefti_buffer_text(ctx, &b,
                      "\"}},{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
                      "\"use_regex\":false}]},\"model\":{\"type\":\"BPE\",\"vocab\":{");
    put_vocab(ctx, &b);
    wefti_buffer_text(ctx, &b, "},\"merges\":[]}}");
    assert_ok(ctx, b.status);
    assert_ok(ctx, wefti_file_write(ctx, "tokenizer.json", b.bytes, b.n));
    wefti_buffer_fini(ctx, &b);
    return weft_tokenizer_load(ctx, "tokenizer.json", t);
}

static char *repeated(const char *unit, int64_t n_bytes) {
    int64_t n = (int64_t)strlen(unit);
    char *text = malloc((size_t)n_bytes + 1);
    assert_non_null(text);
    for (int64_t i = 0; i < n_bytes; i++) text[i] = unit[i % n];
    text[n_bytes] = '\0';
    return text;
}

TEST_IN(with_ctx, without_leak, an_expression_that_goes_back_and_forth_is_refused) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    int32_t *ids;
    int64_t n;
    char *many = repeated("a?", 6000), *more = repeated("a", 3000), regex[9001];
    char *unit = repeated("a", 1500);
    snprintf(regex, sizeof regex, "%s%s", many, more);
    unit[1499] = 'b';
    char *text = repeated(unit, N_TEXT);
    begin();
    assert_ok(ctx, load(ctx, "null", regex, "", &t));
    assert_refused(ctx, weft_tokenizer_encode(ctx, t, text, N_TEXT, 1, &ids, &n),
                   WEFT_ERR_FORMAT, "goes back and forth over a text");
    weft_tokenizer_destroy(ctx, t);
    /* each place takes less than PCRE2's own limit: what counts is the sum */
    for (int64_t i = 0; i < N_TEXT; i++) text[i] = i % 5000 == 4999 ? 'c' : ' ';
    assert_ok(ctx, load(ctx, "null", "(?: |b)*?(?: |b)*?[xy]", "", &t));
    assert_refused(ctx, weft_tokenizer_encode(ctx, t, text, N_TEXT, 1, &ids, &n),
                   WEFT_ERR_FORMAT, "goes back and forth over a text");
    weft_tokenizer_destroy(ctx, t);
    assert_cheap();
    free(text);
    free(unit);
    free(many);
    free(more);
}

TEST_IN(with_ctx, without_leak, rules_that_make_a_text_grow_without_end_are_refused) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    int32_t *ids;
    int64_t n;
    wefti_buffer rules = {0};
    char *text = repeated("a", N_TEXT);
    wefti_buffer_text(ctx, &rules, "{\"type\":\"Sequence\",\"normalizers\":[");
    for (int k = 0; k < 40; k++)
        wefti_buffer_text(ctx, &rules,
                          k ? ",{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"
                              "\"content\":\"aa\"}"
                            : "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},"
                              "\"content\":\"aa\"}");
    wefti_buffer_text(ctx, &rules, "]}");
    assert_ok(ctx, rules.status);
    begin();
    assert_ok(ctx, load(ctx, rules.bytes, "x", "", &t));
    assert_refused(ctx, weft_tokenizer_encode(ctx, t, text, N_TEXT, 1, &ids, &n),
                   WEFT_ERR_FORMAT, "more than 64 bytes of each byte of a text");
    weft_tokenizer_destroy(ctx, t);
    /* the same while the file is read, of an added token */
    assert_refused(ctx,
                   load(ctx, rules.bytes, "x", "{\"id\":256,\"content\":\"aa\"}", &t),
                   WEFT_ERR_FORMAT, "more than 64 bytes of each byte of a text");
    assert_cheap();
    wefti_buffer_fini(ctx, &rules);
    free(text);
}

/* Tokens aa, aaa, ..., each with `end` behind it: all of them begin alike. */
static void put_tokens(weft_ctx *ctx, wefti_buffer *out, int n, const char *end,
                       bool single) {
    char head[64];
    for (int k = 1; k <= n; k++) {
        char *text = repeated("a", k + 1);
        snprintf(head, sizeof head, "%s{\"id\":%d,\"single_word\":%s,\"content\":\"",
                 k > 1 ? "," : "", 255 + k, single ? "true" : "false");
        wefti_buffer_text(ctx, out, head);
        wefti_buffer_text(ctx, out, text);
        wefti_buffer_text(ctx, out, end);
        wefti_buffer_text(ctx, out, "\",\"special\":false,\"normalized\":false}");
        free(text);
    }
}

TEST_IN(with_ctx, without_leak, added_tokens_that_begin_alike_are_found_at_once) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    wefti_buffer tokens = {0};
    enum { N = 1500 };
    char *text = repeated("a", N_TEXT);
    int32_t *ids;
    int64_t n;
    put_tokens(ctx, &tokens, N, "b", false);
    assert_ok(ctx, load(ctx, "null", "x", tokens.bytes, &t));
    text[N_TEXT - 1] = 'b';
    begin();
    for (int round = 0; round < ROUNDS; round++) {
        assert_ok(ctx, weft_tokenizer_encode(ctx, t, text, N_TEXT, 1, &ids, &n));
        assert_int_equal(n, N_TEXT - N - 1); /* the longest token is at the end */
        assert_int_equal(ids[n - 1], 255 + N);
        assert_int_equal(ids[0], 'a');
        wefti_free(ctx, ids);
    }
    assert_cheap();
    weft_tokenizer_destroy(ctx, t);
    wefti_buffer_fini(ctx, &tokens);
    free(text);
}

TEST_IN(with_ctx, without_leak, of_added_tokens_the_longest_counts) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    wefti_buffer tokens = {0};
    int32_t *ids;
    int64_t n;
    put_tokens(ctx, &tokens, 40, "", false);
    assert_ok(ctx, load(ctx, "null", "x", tokens.bytes, &t));
    for (int64_t length = 1; length <= 100; length++) {
        char text[120];
        memset(text, 'a', (size_t)length);
        text[length] = 'b';
        assert_ok(ctx, weft_tokenizer_encode(ctx, t, text, length + 1, 1, &ids, &n));
        int64_t rest = length % 41;
        assert_int_equal(n, length / 41 + (rest > 0) + 1);
        assert_int_equal(ids[n - 1], 'b');
        assert_int_equal(ids[n - 2], rest == 0 ? 295 : rest == 1 ? 'a' : 254 + rest);
        wefti_free(ctx, ids);
    }
    weft_tokenizer_destroy(ctx, t);
    wefti_buffer_fini(ctx, &tokens);
}

TEST_IN(with_ctx, without_leak, a_thousand_steps_and_endless_tokens_are_refused) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    wefti_buffer b = {0};
    char *text = repeated("a", 5000);
    wefti_buffer_text(ctx, &b,
                      "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"}");
    for (int k = 0; k < 1000; k++) wefti_buffer_text(ctx, &b, ",{\"type\":\"NFC\"}");
    wefti_buffer_text(ctx, &b, "]}");
    assert_refused(ctx, load(ctx, b.bytes, "x", "", &t), WEFT_ERR_FORMAT,
                   "more than 256 steps");
    b.n = 0;
    wefti_buffer_text(ctx, &b, "{\"id\":256,\"normalized\":false,\"content\":\"");
    wefti_buffer_text(ctx, &b, text);
    wefti_buffer_text(ctx, &b, "\"}");
    assert_refused(ctx, load(ctx, "null", "x", b.bytes, &t), WEFT_ERR_FORMAT,
                   "has 5000 bytes, expected at most 4096");
    wefti_buffer_fini(ctx, &b);
    free(text);
}
