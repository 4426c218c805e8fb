/* SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "base/memory.h"
#include "check.h"

/* A sanitizer would stop the program on impossible sizes. */
WEFT_API const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
WEFT_API const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }

static weft_ctx *ctx;

static int setup(void **state) { return ctx_begin(&ctx); }

static int teardown(void **state) { return ctx_end(ctx); }

TEST(every_status_has_its_own_name) {
    for (int a = WEFT_OK; a <= WEFT_ERR_INTERNAL; a++) {
        assert_string_not_equal(weft_status_name((weft_status)a), "unknown");
        for (int b = WEFT_OK; b < a; b++)
            assert_string_not_equal(weft_status_name((weft_status)a),
                                    weft_status_name((weft_status)b));
    }
    assert_string_equal(weft_status_name((weft_status)(WEFT_ERR_INTERNAL + 1)),
                        "unknown");
}

TEST_IN(setup, teardown, the_first_message_stays_until_cleared) {
    assert_string_equal(weft_ctx_message(ctx), "");
    assert_int_equal(weft_ctx_fail(ctx, WEFT_ERR_WIRE, "rank %d stopped", 3),
                     WEFT_ERR_WIRE);
    assert_int_equal(weft_ctx_fail(ctx, WEFT_ERR_PEER, "another"), WEFT_ERR_PEER);
    assert_string_equal(weft_ctx_message(ctx), "rank 3 stopped");
    weft_ctx_clear(ctx);
    assert_string_equal(weft_ctx_message(ctx), "");
    (void)weft_ctx_fail(ctx, WEFT_ERR_PEER, "another");
    assert_string_equal(weft_ctx_message(ctx), "another");
}

TEST_IN(setup, teardown, a_long_message_is_cut) {
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)weft_ctx_fail(ctx, WEFT_ERR_FILE, "%s", text);
    assert_int_equal(strlen(weft_ctx_message(ctx)), 1023);
}

typedef struct heard {
    weft_ctx *ctx; /* NULL: only listens */
    int n;
    weft_log_level level;
    char line[64];
} heard;

static void listen(void *user, weft_log_level level, const char *line) {
    heard *h = user;
    h->n++;
    h->level = level;
    strncpy(h->line, line, sizeof h->line - 1);
    if (h->ctx && h->n == 1) {
        (void)weft_ctx_fail(h->ctx, WEFT_ERR_FILE, "the sink failed");
        weft_ctx_log(h->ctx, WEFT_LOG_WARN, "from the sink");
    }
}

TEST_IN(setup, teardown, log_lines_reach_the_sink) {
    heard h = {0};
    weft_ctx_log(ctx, WEFT_LOG_INFO, "to nobody");
    weft_ctx_set_sink(ctx, listen, &h);
    weft_ctx_log(ctx, WEFT_LOG_WARN, "step %d", 7);
    assert_int_equal(h.n, 1);
    assert_int_equal(h.level, WEFT_LOG_WARN);
    assert_string_equal(h.line, "step 7");
    weft_ctx_set_sink(ctx, NULL, NULL);
    weft_ctx_log(ctx, WEFT_LOG_WARN, "silence");
    assert_int_equal(h.n, 1);
}

TEST_IN(setup, teardown, a_sink_may_fail_and_log_itself) {
    heard h = {.ctx = ctx};
    weft_ctx_set_sink(ctx, listen, &h);
    weft_ctx_log(ctx, WEFT_LOG_INFO, "once");
    assert_int_equal(h.n, 2);
    assert_string_equal(h.line, "from the sink");
    assert_string_equal(weft_ctx_message(ctx), "the sink failed");
}

TEST_IN(setup, teardown, blocks_are_zeroed_aligned_and_counted) {
    static const size_t sizes[] = {
        0, 1, 63, 64, 4096, (4 << 20) - 1, 4 << 20, (9 << 20) + 5};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *block;
        int64_t before = weft_ctx_allocations(ctx);
        assert_int_equal(wefti_alloc(ctx, sizes[i], "a test", &block), WEFT_OK);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % 64, 0);
        assert_int_equal(weft_ctx_allocations(ctx), before + 1);
        assert_int_equal(weft_ctx_bytes_held(ctx), sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            if (block[k]) fail_msg("byte %zu of %zu is %d", k, sizes[i], block[k]);
        memset(block, 0xff, sizes[i]);
        wefti_free(ctx, block);
        assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    }
    wefti_free(ctx, NULL);
}

TEST_IN(setup, teardown, impossible_sizes_are_a_clean_failure) {
    static const struct {
        int64_t n;
        size_t item;
    } rows[] = {{-1, 4}, {INT64_MIN, 1}, {INT64_MAX, 4}, {INT64_MAX, 1}, {1ll << 62, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *block = &ctx;
        assert_int_equal(wefti_alloc_n(ctx, rows[i].n, rows[i].item, "the moon", &block),
                         WEFT_ERR_MEMORY);
        assert_null(block);
        assert_non_null(strstr(weft_ctx_message(ctx), "the moon"));
        weft_ctx_clear(ctx);
    }
    void *block = &ctx;
    assert_int_equal(wefti_alloc(ctx, SIZE_MAX, "the sun", &block), WEFT_ERR_MEMORY);
    assert_null(block);
    assert_int_equal(weft_ctx_allocations(ctx), 0);
}

TEST_IN(setup, teardown, exactly_the_staged_allocation_fails) {
    for (int64_t k = 0; k < 5; k++) {
        void *blocks[6];
        weft_ctx_fail_allocation(ctx, k);
        for (int64_t i = 0; i < 6; i++)
            assert_int_equal(wefti_alloc(ctx, 8, "a test", &blocks[i]),
                             i == k ? WEFT_ERR_MEMORY : WEFT_OK);
        assert_null(blocks[k]);
        for (int64_t i = 0; i < 6; i++) wefti_free(ctx, blocks[i]);
    }
    void *block;
    weft_ctx_fail_allocation(ctx, 0);
    weft_ctx_fail_allocation(ctx, -1);
    assert_int_equal(wefti_alloc(ctx, 8, "a test", &block), WEFT_OK);
    wefti_free(ctx, block);
}

TEST_IN(setup, teardown, growing_keeps_the_old_items_and_zeroes_the_new) {
    int *items = NULL;
    assert_int_equal(wefti_grow(ctx, &items, 0, 3, sizeof *items, "items"), WEFT_OK);
    for (int i = 0; i < 3; i++) items[i] = i + 1;
    assert_int_equal(wefti_grow(ctx, &items, 3, 100, sizeof *items, "items"), WEFT_OK);
    for (int i = 0; i < 100; i++) assert_int_equal(items[i], i < 3 ? i + 1 : 0);
    assert_int_equal(wefti_grow(ctx, &items, 100, 2, sizeof *items, "items"), WEFT_OK);
    assert_int_equal(items[1], 2);
    assert_int_equal(weft_ctx_bytes_held(ctx), 2 * sizeof *items);
    wefti_free(ctx, items);
}

TEST_IN(setup, teardown, a_failed_growth_leaves_the_block) {
    int *items = NULL;
    assert_int_equal(wefti_grow(ctx, &items, 0, 2, sizeof *items, "items"), WEFT_OK);
    items[1] = 5;
    int *before = items;
    weft_ctx_fail_allocation(ctx, 0);
    assert_int_equal(wefti_grow(ctx, &items, 2, 4, sizeof *items, "items"),
                     WEFT_ERR_MEMORY);
    assert_ptr_equal(items, before);
    assert_int_equal(items[1], 5);
    assert_int_equal(wefti_grow(ctx, &items, 2, -1, sizeof *items, "items"),
                     WEFT_ERR_MEMORY);
    assert_ptr_equal(items, before);
    wefti_free(ctx, items);
}

TEST_IN(setup, teardown, strings_are_copied) {
    char *copy, text[] = "abc";
    assert_int_equal(wefti_strdup(ctx, text, &copy), WEFT_OK);
    text[0] = 'x';
    assert_string_equal(copy, "abc");
    wefti_free(ctx, copy);
    weft_ctx_fail_allocation(ctx, 0);
    assert_int_equal(wefti_strdup(ctx, text, &copy), WEFT_ERR_MEMORY);
    assert_null(copy);
}

static void *allocate_and_fail(void *user) {
    (void)user;
    for (int i = 0; i < 2000; i++) {
        void *block;
        if (wefti_alloc(ctx, (size_t)i, "a thread", &block) != WEFT_OK) return ctx;
        (void)weft_ctx_fail(ctx, WEFT_ERR_WIRE, "thread");
        wefti_free(ctx, block);
    }
    return NULL;
}

TEST_IN(setup, teardown, threads_share_a_context) {
    enum { N = 4 };
    pthread_t threads[N];
    for (int i = 0; i < N; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_fail, NULL), 0);
    for (int i = 0; i < N; i++) {
        void *failed = ctx;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(weft_ctx_allocations(ctx), N * 2000);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    assert_string_equal(weft_ctx_message(ctx), "thread");
}

TEST(destroying_nothing_is_fine) { weft_ctx_destroy(NULL); }
