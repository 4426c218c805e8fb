/* SPDX-License-Identifier: MIT */
/* Ids come back as they were added, whichever of them lie in which block and which in the file;
 * and memory holds each of them once. */
#include "unit/data/datatest.h"

#include <unistd.h>

#include "data/idstore.h"

enum { N = 2 * WEFTI_BLOCK_IDS + 777, WIDE = 1 << 20 };

/* The i-th id, below the vocabulary; no two places of a block look alike for long. */
static int32_t id_at(int64_t i, int64_t vocab) {
    return (int32_t)((uint64_t)i * 2654435761u % (uint64_t)vocab);
}

/* Adds the ids in pieces of all sizes. At no moment is more held than they take and the rest of
 * one block. */
static void add_all(weft_ctx *ctx, wefti_id_store *s, wefti_id_limit *limit,
                    int64_t vocab) {
    int64_t most = 1 << 20;
    int32_t *ids;
    assert_ok(ctx, wefti_alloc_n(ctx, most, sizeof *ids, "a test", &ids));
    int64_t before = weft_ctx_bytes_held(ctx);
    for (int64_t k = 0, n; s->n < N; k++) {
        n = k % 3 == 0 ? 1 + pick(1, k, 9) : pick(2, k, most);
        if (n > N - s->n) n = N - s->n;
        for (int64_t i = 0; i < n; i++) ids[i] = id_at(s->n + i, vocab);
        assert_ok(ctx, wefti_ids_add(ctx, s, limit, ids, n));
        int64_t more = (int64_t)WEFTI_BLOCK_IDS * s->width + 4096;
        assert_true(weft_ctx_bytes_held(ctx) - before <= s->n_held * s->width + more);
    }
    wefti_free(ctx, ids);
}

static void assert_range(const wefti_id_store *s, int64_t start, int64_t n,
                         int64_t vocab) {
    int32_t ids[2000];
    wefti_ids_read(s, start, n, ids);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] != id_at(start + i, vocab))
            fail_msg("id %lld is %d, expected %d", (long long)(start + i), (int)ids[i],
                     (int)id_at(start + i, vocab));
}

/* Held of N ids: as many as the bytes have room for. */
static void assert_store(weft_ctx *ctx, int64_t vocab, int64_t bytes, int64_t held) {
    wefti_id_store s;
    wefti_id_limit limit = {.folder = bytes >= 0 ? "room" : NULL, .bytes_left = bytes};
    wefti_ids_init(&s, vocab);
    add_all(ctx, &s, &limit, vocab);
    assert_ok(ctx, wefti_ids_trim(ctx, &s));
    assert_int_equal(s.n_held, held);
    assert_int_equal(s.spill.fd >= 0, held < N);
    assert_in_range(weft_ctx_bytes_held(ctx), held * s.width, held * s.width + 4096);
    const int64_t borders[] = {0, WEFTI_BLOCK_IDS, 2 * WEFTI_BLOCK_IDS, held, N};
    for (int b = 0; b < COUNT(borders); b++)
        for (int64_t n = 1; n < 2000; n = 3 * n + 1) {
            int64_t start = borders[b] - n / 2;
            if (start < 0) start = 0;
            if (start > N - n) start = N - n;
            assert_range(&s, start, n, vocab);
        }
    for (int k = 0; k < 500; k++) assert_range(&s, pick(3, k, N - 2000), 2000, vocab);
    wefti_ids_close(ctx, &s);
    if (bytes >= 0) assert_int_equal(rmdir("room"), 0); /* the file has no name */
}

TEST_IN(with_ctx, without_leak, without_a_limit_all_ids_stay_in_memory) {
    assert_store(*state, 256, -1, N);
    assert_store(*state, WIDE, -1, N);
}

TEST_IN(with_ctx, without_leak, what_the_limit_has_no_room_for_is_in_the_file) {
    assert_store(*state, 256, 2 * (WEFTI_BLOCK_IDS + 5), WEFTI_BLOCK_IDS + 5);
    assert_store(*state, WIDE, 4 * WEFTI_BLOCK_IDS, WEFTI_BLOCK_IDS);
    assert_store(*state, 256, 1, 0);
}

TEST_IN(with_ctx, without_leak, an_empty_store_holds_nothing) {
    weft_ctx *ctx = *state;
    wefti_id_store s;
    wefti_ids_init(&s, 256);
    assert_ok(ctx, wefti_ids_trim(ctx, &s));
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    wefti_ids_close(ctx, &s);
    wefti_ids_close(ctx, &s);
}
