/* SPDX-License-Identifier: MIT */
/* What the tests of data/ share: text to order, files, contexts that must end empty. */
#pragma once

#include "check.h"

#include <weft/tokenizer.h>

#define GOLDEN WEFT_SOURCE_DIR "/tests/golden/"
#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static inline int with_ctx(void **state) {
    weft_ctx *ctx;
    if (weft_ctx_create(&ctx) != WEFT_OK) return -1;
    *state = ctx;
    return 0;
}

/* Every test must have given back what it took. */
static inline int without_leak(void **state) {
    weft_ctx *ctx = *state;
    int64_t held = weft_ctx_bytes_held(ctx);
    weft_ctx_destroy(ctx);
    if (held != 0) print_error("%lld bytes leaked\n", (long long)held);
    return held == 0 ? 0 : -1;
}

/* The call fails with this status and a sentence that has `part` in it. */
#define assert_refused(ctx, expr, status, part)                                          \
    do {                                                                                 \
        assert_int_equal(expr, status);                                                  \
        if (!strstr(weft_ctx_message(ctx), part))                                        \
            fail_msg("'%s' is not in: %s", part, weft_ctx_message(ctx));                 \
        weft_ctx_clear(ctx);                                                             \
    } while (0)

/* The k-th number of a test's random sequence, below n. */
static inline int64_t pick(uint64_t seed, int64_t k, int64_t n) {
    return (int64_t)(wefti_rng_u64(seed, WEFTI_STREAM_TEST, 0, (uint64_t)k) %
                     (uint64_t)n);
}

/* Fills out with n bytes of text that has all that splitting cares for: words, digits,
 * contractions, white space of all kinds, scripts, and with `dirty` bytes that are no
 * UTF-8. */
static inline void mixed_text(uint64_t seed, char *out, int64_t n, bool dirty) {
    static const char *const parts[] = {"the",
                                        " warp",
                                        "weft",
                                        " thread",
                                        "a",
                                        "Z",
                                        " ",
                                        "  ",
                                        "\n",
                                        "\n\n",
                                        "\r\n",
                                        "\t",
                                        "'s",
                                        "'LL",
                                        "don't",
                                        "1",
                                        "23",
                                        "4567",
                                        ".",
                                        ", ",
                                        "!!",
                                        "()",
                                        " \n",
                                        "\n ",
                                        "\xc3\xa9",
                                        "\xd0\x96",
                                        "\xe4\xb8\xad",
                                        "\xe3\x80\x80",
                                        "\xc2\x85",
                                        "\xc2\xa0",
                                        "\xe2\x80\xa8",
                                        "\xf0\x9f\xa7\xb5",
                                        "\xe1\xa0\x8e",
                                        "\xff",
                                        "\xe2\x80",
                                        "\xc0\x80",
                                        "\xed\xa0\x80"};
    int n_parts = COUNT(parts) - (dirty ? 0 : 4);
    int64_t at = 0;
    for (int64_t k = 0; at < n; k++) {
        const char *part = parts[pick(seed, k, n_parts)];
        int64_t length = (int64_t)strlen(part);
        if (at + length > n) part = "................", length = n - at;
        memcpy(out + at, part, (size_t)length);
        at += length;
    }
}

static inline void random_bytes(uint64_t seed, char *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = (char)pick(seed, i, 256);
}

/* Plain writing of a new file: the library's own writing syncs each time. */
static inline void write_file(weft_ctx *ctx, const char *path, const void *data,
                              int64_t n) {
    (void)ctx;
    remove(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, (size_t)n, file), n);
    assert_int_equal(fclose(file), 0);
}

static inline void read_file(weft_ctx *ctx, const char *path, char **data, int64_t *n) {
    assert_ok(ctx, wefti_file_read(ctx, path, 1 << 24, data, n));
}

/* Encoding and then joining the bytes of the ids gives the text again. */
static inline void assert_decodes(weft_ctx *ctx, const weft_tokenizer *t,
                                  const char *text, int64_t n, const int32_t *ids,
                                  int64_t n_ids) {
    int64_t at = 0;
    (void)ctx;
    for (int64_t k = 0; k < n_ids; k++) {
        int64_t length;
        const char *bytes = weft_tokenizer_bytes(t, ids[k], &length);
        assert_non_null(bytes);
        assert_true(length > 0 && at + length <= n);
        assert_memory_equal(bytes, text + at, (size_t)length);
        at += length;
    }
    assert_int_equal(at, n);
}
