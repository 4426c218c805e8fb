/* SPDX-License-Identifier: MIT */
#ifndef TEST_RECORD_HELPERS_H
#define TEST_RECORD_HELPERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/memory.h"

/* The context of the test at hand. */
static weft_ctx *ctx;

/* Every test begins in an empty folder "room" and ends without a byte held. */
static int setup(void **state) {
    (void)state;
    return weft_ctx_create(&ctx) != WEFT_OK ||
           wefti_file_remove_tree(ctx, "room") != WEFT_OK ||
           wefti_file_mkdirs(ctx, "room") != WEFT_OK;
}

static int teardown(void **state) {
    (void)state;
    int64_t held = weft_ctx_bytes_held(ctx);
    weft_ctx_destroy(ctx);
    return held != 0;
}

#define claim(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

#define assert_ok(expr)                                                                  \
    do {                                                                                 \
        if ((expr) != WEFT_OK) fail_msg("%s: %s", #expr, weft_ctx_message(ctx));         \
    } while (0)

static inline void assert_fails(weft_status got, weft_status expected,
                                const char *words) {
    if (got != expected || !strstr(weft_ctx_message(ctx), words))
        fail_msg("status %s, message '%s'; expected %s and '%s'", weft_status_name(got),
                 weft_ctx_message(ctx), weft_status_name(expected), words);
    weft_ctx_clear(ctx);
}

static inline void write_text(const char *path, const char *text) {
    assert_ok(wefti_file_write(ctx, path, text, (int64_t)strlen(text)));
}

/* Owned by the caller (wefti_free). */
static inline char *read_text(const char *path, int64_t *n) {
    char *data = NULL;
    int64_t size = 0;
    assert_ok(wefti_file_read(ctx, path, 64 << 20, &data, &size));
    if (n) *n = size;
    return data;
}

static inline void assert_contents(const char *path, const char *text) {
    char *data = read_text(path, NULL);
    assert_string_equal(data, text);
    wefti_free(ctx, data);
}

static inline int count_of(const char *text, const char *part) {
    int n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + strlen(part), part))
        n++;
    return n;
}

#endif
