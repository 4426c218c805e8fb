/* SPDX-License-Identifier: MIT */
/* What every test file includes: cmocka and a few helpers. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/ctx.h>

#include "base/file.h"
#include "base/memory.h"
#include "base/rng.h"

/* A sanitizer makes everything some ten times slower: long runs are shorter there. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#else
#define UNDER_SANITIZER 0
#endif

/* Fails with the context's sentence. */
#define assert_ok(ctx, expr)                                                             \
    do {                                                                                 \
        if ((expr) != WEFT_OK) fail_msg("%s: %s", #expr, weft_ctx_message(ctx));         \
    } while (0)

/* -- tests: TEST(a_claim) { ... } is a test, and check_run runs those of its file in their
 * order. TEST_IN has a setup and a teardown. A file that needs more has a main of its own, others
 * have that of check.c. -- */

void check_add(int line, const char *name, CMUnitTestFunction run,
               CMFixtureFunction before, CMFixtureFunction after);
int check_run(CMFixtureFunction before, CMFixtureFunction after);

#define TEST(name) TEST_IN(NULL, NULL, name)
#define TEST_IN(before, after, name)                                                     \
    static void name(void **state);                                                      \
    __attribute__((constructor)) static void name##_is_a_test(void) {                    \
        check_add(__LINE__, #name, name, before, after);                                 \
    }                                                                                    \
    static void name(__attribute__((unused)) void **state)

static inline void fill_normal(uint64_t seed, int64_t n, float *x) {
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)wefti_rng_normal(seed, WEFTI_STREAM_TEST, 0, (uint64_t)i);
}

/* -- the halves of a fixture around a context: 0 when all is well -- */

static inline int ctx_begin(weft_ctx **ctx) { return weft_ctx_create(ctx) != WEFT_OK; }

/* The same with an empty folder "room". */
static inline int room_begin(weft_ctx **ctx) {
    return ctx_begin(ctx) != 0 || wefti_file_remove_tree(*ctx, "room") != WEFT_OK ||
           wefti_file_mkdirs(*ctx, "room") != WEFT_OK;
}

/* A test gives back all that it took. */
static inline int ctx_end(weft_ctx *ctx) {
    int64_t held = weft_ctx_bytes_held(ctx);
    weft_ctx_destroy(ctx);
    if (held != 0) print_error("%lld bytes were not given back\n", (long long)held);
    return held != 0;
}

/* -- failures -- */

/* The status is the expected one and the context's sentence has these words. */
static inline void assert_fails(weft_ctx *ctx, weft_status got, weft_status expected,
                                const char *words) {
    if (got != expected || !strstr(weft_ctx_message(ctx), words))
        fail_msg("status %s, message '%s'; expected %s and '%s'", weft_status_name(got),
                 weft_ctx_message(ctx), weft_status_name(expected), words);
    weft_ctx_clear(ctx);
}

/* Does the work with allocation k failing, for k = 0, 1, 2, ... until it succeeds: every
 * failure says so and leaves nothing behind. `prepare` (or NULL) comes before each try,
 * with all the memory there is. Returns the number of failures. */
static inline int64_t fail_each_allocation(weft_ctx *ctx, void (*prepare)(void *user),
                                           weft_status (*work)(void *user), void *user) {
    for (int64_t k = 0;; k++) {
        if (prepare) prepare(user);
        int64_t held = weft_ctx_bytes_held(ctx);
        weft_ctx_fail_allocation(ctx, k);
        weft_status status = work(user);
        weft_ctx_fail_allocation(ctx, -1);
        assert_int_equal(weft_ctx_bytes_held(ctx), held);
        if (status == WEFT_OK) return k;
        assert_fails(ctx, status, WEFT_ERR_MEMORY, "could not allocate");
    }
}

/* -- files -- */

/* Writes a new file plainly: the library's own writing syncs, and some file systems do
 * when a file is cut and written again. */
static inline void put_bytes(const char *path, const void *data, int64_t n) {
    remove(path);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, (size_t)n, file), n);
    assert_int_equal(fclose(file), 0);
}

static inline void put_text(const char *path, const char *text) {
    put_bytes(path, text, (int64_t)strlen(text));
}

/* A file as a text; *n (or NULL) is its bytes. Owned by the caller (wefti_free). */
static inline char *read_text(weft_ctx *ctx, const char *path, int64_t *n) {
    char *data = NULL;
    int64_t size = 0;
    assert_ok(ctx, wefti_file_read(ctx, path, 64 << 20, &data, &size));
    if (n) *n = size;
    return data;
}

static inline void assert_contents(weft_ctx *ctx, const char *path, const char *text) {
    int64_t n;
    char *data = read_text(ctx, path, &n);
    assert_int_equal(n, strlen(text));
    assert_string_equal(data, text); /* and a NUL after it */
    wefti_free(ctx, data);
}
