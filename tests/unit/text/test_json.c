/* SPDX-License-Identifier: MIT */
#include "text/json.h"
#include "base/memory.h"

#include <stdlib.h>

#include "check.h"

static weft_ctx *ctx;
static bool has_memory = true;
static int64_t blocks, fail_in = -1; /* allocations until one fails; < 0: none does */

static void *allocate(size_t n) {
    if (!has_memory || fail_in-- == 0) return NULL;
    blocks++;
    return malloc(n);
}

static void release(void *block) {
    if (block) blocks--;
    free(block);
}

/* The JSON library's blocks are counted. */
static int setup(void **state) {
    has_memory = true;
    blocks = 0;
    fail_in = -1;
    json_set_alloc_funcs(allocate, release);
    return ctx_begin(&ctx);
}

static int teardown(void **state) { return ctx_end(ctx) != 0 || blocks != 0; }

static weft_status read(const char *text, json_t **out) {
    weft_ctx_clear(ctx);
    return wefti_json_read(ctx, "the head of ", "a file", text, (int64_t)strlen(text),
                           WEFT_ERR_WIRE, out);
}

TEST_IN(setup, teardown, an_object_is_read) {
    json_t *object;
    assert_ok(ctx, read(" {\"a\": 5}\n", &object));
    assert_int_equal(json_integer_value(json_object_get(object, "a")), 5);
    json_decref(object);
    assert_ok(ctx, wefti_json_read(ctx, "", "", "{}...", 2, WEFT_ERR_WIRE, &object));
    json_decref(object);
}

TEST_IN(setup, teardown, other_texts_are_refused_with_the_place) {
    static const char *const cases[][2] = {
        {"{\n\"a\" 1}", "the head of a file: not a JSON object: line 2, column "},
        {"", "the head of a file: not a JSON object: line 1, column 0: "},
        {"[1, [2]]", "the head of a file: not a JSON object"},
        {"<html>", "the head of a file is an HTML page, expected JSON"},
        {"{} {}", "line 1, column 4"},
        {"{\"a\": 1, \"a\": 2}", "duplicate"},
    };
    for (int i = 0; i < 5; i++) {
        json_t *object = (json_t *)&object;
        assert_int_equal(read(cases[i][0], &object), WEFT_ERR_WIRE);
        assert_null(object);
        if (!strstr(weft_ctx_message(ctx), cases[i][1]))
            fail_msg("'%s' of '%s'", weft_ctx_message(ctx), cases[i][0]);
    }
}

TEST_IN(setup, teardown, without_memory_no_text_is_to_blame) {
    static const char *const texts[] = {"{}", "[", ""};
    json_t *object;
    assert_int_equal(wefti_json_blame(NULL, WEFT_ERR_FORMAT), WEFT_ERR_FORMAT);
    has_memory = false;
    assert_int_equal(wefti_json_blame(NULL, WEFT_ERR_FORMAT), WEFT_ERR_MEMORY);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(read(texts[i], &object), WEFT_ERR_MEMORY);
        assert_string_equal(weft_ctx_message(ctx), "no memory for the head of a file");
        assert_null(object);
    }
}

/* {"x...x": [1...1, "y...y", 0.5...5]} with n of each. */
static void long_tokens(char *text, int n) {
    char *at = text + sprintf(text, "{\"");
    memset(at, 'x', (size_t)n);
    at += n;
    at += sprintf(at, "\": [");
    memset(at, '1', (size_t)(n < 18 ? n : 18));
    at += n < 18 ? n : 18;
    at += sprintf(at, ", \"");
    memset(at, 'y', (size_t)n);
    at += n;
    at += sprintf(at, "\\n\", 0.");
    memset(at, '5', (size_t)n);
    strcpy(at + n, "]}");
}

/* The library's buffer of a token that cannot grow loses a byte, in whatever token it is: a name,
 * a number, the quote that ends a text. */
TEST_IN(setup, teardown, a_failed_allocation_changes_no_text) {
    char text[1000];
    for (int n = 1; n < 140; n += n < 36 ? 1 : 7) {
        json_t *whole, *object;
        long_tokens(text, n);
        assert_ok(ctx, read(text, &whole));
        for (int k = 0; k < 200; k++) {
            fail_in = k;
            weft_status status = read(text, &object);
            bool failed = fail_in < 0;
            fail_in = -1;
            if (status != WEFT_OK) assert_int_equal(status, WEFT_ERR_MEMORY);
            if (status == WEFT_OK && !json_equal(object, whole))
                fail_msg("%d, %d: %s", n, k, text);
            json_decref(object);
            if (!failed) break;
        }
        json_decref(whole);
    }
}

/* Names of an object, too, whose loss the library does not report. */
TEST_IN(setup, teardown, a_failed_allocation_writes_no_other_text) {
    char text[1000], *written, *whole;
    int64_t n;
    json_t *object;
    long_tokens(text, 300);
    assert_ok(ctx, read(text, &object));
    assert_ok(ctx, wefti_json_text(ctx, object, JSON_INDENT(2), &whole, &n));
    for (int k = 0; k < 50; k++) {
        weft_ctx_clear(ctx);
        weft_ctx_fail_allocation(ctx, k);
        weft_status status = wefti_json_text(ctx, object, JSON_INDENT(2), &written, &n);
        weft_ctx_fail_allocation(ctx, -1);
        if (status == WEFT_OK)
            assert_string_equal(written, whole);
        else
            assert_int_equal(status, WEFT_ERR_MEMORY);
        wefti_free(ctx, written);
    }
    wefti_free(ctx, whole);
    json_decref(object);
}

/* What is read alone is refused inside a list, too, and the other way round. */
TEST_IN(setup, teardown, a_text_is_one_value) {
    static const char *const texts[] = {
        "{\"a long name of a value\": 1}, {}", "{\"a long name of a value\": 1}] [1",
        "\"a long text and no object\"", "{\"a long name that does not end: 1}"};
    json_t *object;
    for (int i = 0; i < 4; i++) assert_int_equal(read(texts[i], &object), WEFT_ERR_WIRE);
}
