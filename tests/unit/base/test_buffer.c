/* SPDX-License-Identifier: MIT */
#include "unit/record/helpers.h"

#include <locale.h>
#include <math.h>

#include <jansson.h>

#include "base/rng.h"
#include "base/buffer.h"

TEST_IN(setup, teardown, pieces_are_put_one_after_the_other) {
    wefti_buffer b = {0};
    char expected[20001];
    for (int i = 0; i < 2000; i++) {
        wefti_buffer_text(ctx, &b, "a");
        wefti_buffer_print(ctx, &b, "%04d", i);
        wefti_buffer_put(ctx, &b, "\0bcde", 5);
        snprintf(expected + 10 * i, 6, "a%04u", (unsigned)i % 10000);
        memcpy(expected + 10 * i + 5, "\0bcde", 5);
    }
    assert_int_equal(b.status, WEFT_OK);
    assert_int_equal(b.n, 20000);
    assert_memory_equal(b.bytes, expected, 20000);
    assert_int_equal(b.bytes[b.n], 0);
    wefti_buffer_fini(ctx, &b);
}

TEST_IN(setup, teardown, the_first_failure_stays_and_stops_the_rest) {
    wefti_buffer b = {0};
    wefti_buffer_text(ctx, &b, "kept");
    weft_ctx_fail_allocation(ctx, 0);
    char big[1000];
    memset(big, 'x', sizeof big);
    wefti_buffer_put(ctx, &b, big, sizeof big);
    assert_int_equal(b.status, WEFT_ERR_MEMORY);
    wefti_buffer_text(ctx, &b, "y");
    wefti_buffer_print(ctx, &b, "%d", 1);
    wefti_buffer_real(ctx, &b, 2);
    assert_string_equal(b.bytes, "kept");
    wefti_buffer_fini(ctx, &b);
}

TEST_IN(setup, teardown, what_is_reserved_is_put_without_allocating) {
    wefti_buffer b = {0};
    wefti_buffer_reserve(ctx, &b, 1000);
    int64_t before = weft_ctx_allocations(ctx);
    for (int i = 0; i < 1000; i++) wefti_buffer_text(ctx, &b, "x");
    assert_int_equal(weft_ctx_allocations(ctx), before);
    wefti_buffer_fini(ctx, &b);
}

static void assert_real(double value, const char *expected) {
    wefti_buffer b = {0};
    wefti_buffer_real(ctx, &b, value);
    assert_string_equal(b.bytes, expected);
    wefti_buffer_fini(ctx, &b);
}

TEST_IN(setup, teardown, reals_are_short_and_read_back_the_same) {
    assert_real(0, "0");
    assert_real(0.1, "0.1");
    assert_real(-2.5, "-2.5");
    assert_real(1e300, "1e+300");
    assert_real(1.0 / 3, "0.3333333333333333");
    assert_real(NAN, "null");
    assert_real(INFINITY, "null");
    assert_real(-INFINITY, "null");
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t bits = wefti_rng_u64(1, WEFTI_STREAM_TEST, 0, i);
        double value;
        memcpy(&value, &bits, sizeof value);
        if (!isfinite(value)) continue;
        wefti_buffer b = {0};
        wefti_buffer_real(ctx, &b, value);
        assert_true(strtod(b.bytes, NULL) == value);
        wefti_buffer_fini(ctx, &b);
    }
}

TEST_IN(setup, teardown, short_numbers_have_seven_digits) {
    static const struct {
        double value;
        const char *text;
    } rows[] = {
        {1.25, "1.25"},         {-3, "-3"},        {123456789012345, "123456789012345"},
        {1.0 / 3, "0.3333333"}, {1e300, "1e+300"}, {1e-9, "1e-09"},
        {NAN, "null"},          {INFINITY, "null"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        wefti_buffer b = {0};
        wefti_buffer_short(ctx, &b, rows[i].value);
        assert_string_equal(b.bytes, rows[i].text);
        wefti_buffer_fini(ctx, &b);
    }
}

TEST_IN(setup, teardown, numbers_have_a_point_in_every_locale) {
    static const char *const names[] = {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8",
                                        "C.UTF-8"};
    for (int i = 0; i < 4; i++)
        if (setlocale(LC_NUMERIC, names[i])) break;
    assert_real(0.5, "0.5");
    setlocale(LC_NUMERIC, "C");
}

static void assert_json(const char *text, const char *expected) {
    wefti_buffer b = {0};
    wefti_buffer_json(ctx, &b, text);
    assert_string_equal(b.bytes, expected);
    json_t *value = json_loads(b.bytes, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    json_decref(value);
    wefti_buffer_fini(ctx, &b);
}

TEST_IN(setup, teardown, json_text_is_escaped) {
    assert_json("", "\"\"");
    assert_json("a\"b\\c", "\"a\\\"b\\\\c\"");
    assert_json("</script><!--", "\"\\u003c/script>\\u003c!--\"");
    assert_json("\n\t\x1f", "\"\\u000a\\u0009\\u001f\"");
    assert_json("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
}

TEST_IN(setup, teardown, bytes_that_are_not_utf8_are_replaced) {
    static const char *const bad[] = {"\x80",
                                      "\xc3",
                                      "\xc0\x80",
                                      "\xc1\xbf",
                                      "\xe0\x80\x80",
                                      "\xed\xa0\x80",
                                      "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80",
                                      "\xf5\x80\x80\x80",
                                      "\xff",
                                      "\xe2\x82",
                                      "\xf0\x9f\x98"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        wefti_buffer b = {0};
        wefti_buffer_json(ctx, &b, bad[i]);
        assert_int_equal(b.n, 2 + 3 * strlen(bad[i])); /* U+FFFD for each byte */
        json_t *value = json_loads(b.bytes, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        json_decref(value);
        wefti_buffer_fini(ctx, &b);
    }
}
