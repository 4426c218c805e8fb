/* SPDX-License-Identifier: MIT */
/* Byte-pair encoding of a piece (Sennrich, Haddow, Birch 2016): among all adjacent
 * pairs of symbols take the one whose merge has the lowest rank, the leftmost among
 * equals, replace it by the merged symbol, repeat. Short pieces: a table of the ranks
 * of adjacent pairs, searched in full each time. Long pieces: the symbols as a linked
 * list, the pairs in a heap of rank << 32 | position. An entry of the heap is stale,
 * and skipped, if the pair at that position has another rank now. */
#include <string.h>

#include "base/memory.h"
#include "text/utf8.h"
#include "token/merge.h"

/* Piece -> symbols. A character is its token; without one, the tokens of its bytes (<0x00> ..
 * <0xFF>) if all of those are there; else the unknown token, one for each or one for several in
 * a row; else nothing. An unknown token waits until a character with a token comes, also behind
 * bytes: so does Hugging Face's library. */

typedef struct symbols {
    const weft_tokenizer *t;
    int32_t *ids;
    int64_t n;
    bool waiting; /* an unknown token is */
} symbols;

static void flush(symbols *s) {
    if (s->waiting) s->ids[s->n++] = s->t->pipeline->unknown;
    s->waiting = false;
}

static bool put_bytes(symbols *s, const char *text, int length) {
    for (int i = 0; i < length; i++)
        if (s->t->byte_ids[(unsigned char)text[i]] < 0) return false;
    for (int i = 0; i < length; i++)
        s->ids[s->n++] = s->t->byte_ids[(unsigned char)text[i]];
    return true;
}

static void put(symbols *s, const char *text, int length) {
    const wefti_pipeline *p = s->t->pipeline;
    int32_t id = p->chars ? wefti_vocab_find(s->t, text, length)
                          : s->t->byte_ids[(unsigned char)text[0]];
    if (id >= 0) {
        flush(s);
        s->ids[s->n++] = id;
        return;
    }
    if (p->chars && p->fallback && put_bytes(s, text, length)) return;
    if (p->unknown < 0) return;
    if (!p->fuse_unknown) flush(s);
    s->waiting = true;
}

static int64_t symbols_of(const weft_tokenizer *t, const char *piece, int64_t n,
                          int32_t *ids) {
    symbols s = {.t = t, .ids = ids};
    uint32_t code;
    for (int64_t at = 0; at < n;) {
        int length = t->pipeline->chars ? wefti_utf8_decode(piece + at, n - at, &code)
                                        : 1;
        if (length == 0) length = 1; /* cannot be: pieces are well-formed */
        put(&s, piece + at, length);
        at += length;
    }
    flush(&s);
    return s.n;
}

static const int32_t NO_RANK = INT32_MAX;

static int32_t rank_of(const weft_tokenizer *t, int32_t left, int32_t right) {
    int64_t rank = wefti_u64map_find(&t->merges, wefti_pair_key(left, right));
    return rank < 0 ? NO_RANK : (int32_t)rank;
}

static void start(const weft_tokenizer *t, const char *piece, int64_t n, int32_t *ids) {
    for (int64_t i = 0; i < n; i++) ids[i] = t->byte_ids[(unsigned char)piece[i]];
}

/* Symbols that are there already, at most WEFTI_MERGE_SHORT of them. */
static int64_t merge_short(const weft_tokenizer *t, int64_t n, int32_t *ids) {
    int32_t ranks[WEFTI_MERGE_SHORT];
    for (int64_t i = 0; i + 1 < n; i++) ranks[i] = rank_of(t, ids[i], ids[i + 1]);
    while (n > 1) {
        int64_t best = 0;
        for (int64_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == NO_RANK) break;
        ids[best] = t->merged[ranks[best]];
        size_t tail = (size_t)(n - best - 2);
        memmove(ids + best + 1, ids + best + 2, tail * sizeof *ids);
        if (tail > 0)
            memmove(ranks + best + 1, ranks + best + 2, (tail - 1) * sizeof *ranks);
        n--;
        if (best > 0) ranks[best - 1] = rank_of(t, ids[best - 1], ids[best]);
        if (best + 1 < n) ranks[best] = rank_of(t, ids[best], ids[best + 1]);
    }
    return n;
}

int64_t wefti_merge_short(const weft_tokenizer *t, const char *piece, int64_t n,
                          int32_t *ids) {
    start(t, piece, n, ids);
    return merge_short(t, n, ids);
}

static void heap_push(uint64_t *heap, int64_t *n, uint64_t x) {
    int64_t i = (*n)++;
    while (i > 0 && heap[(i - 1) / 2] > x) {
        heap[i] = heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap[i] = x;
}

static uint64_t heap_pop(uint64_t *heap, int64_t *n) {
    uint64_t top = heap[0], x = heap[--*n];
    int64_t i = 0;
    for (int64_t child = 1; child < *n; child = 2 * i + 1) {
        if (child + 1 < *n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= x) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = x;
    return top;
}

static weft_status reserve(weft_ctx *ctx, wefti_merge_room *room, int64_t n) {
    if (n <= room->capacity) return WEFT_OK;
    if (n >= INT32_MAX)
        return weft_ctx_fail(
            ctx, WEFT_ERR_MEMORY,
            "a stretch of %lld bytes of text without a place to split it is too long",
            (long long)n);
    wefti_merge_room_fini(ctx, room);
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *room->before, "a long piece of text",
                           &room->before));
    WEFT_TRY(
        wefti_alloc_n(ctx, n, sizeof *room->after, "a long piece of text", &room->after));
    WEFT_TRY(wefti_alloc_n(ctx, 2 * n, sizeof *room->heap, "a long piece of text",
                           &room->heap));
    room->capacity = n;
    return WEFT_OK;
}

void wefti_merge_room_fini(weft_ctx *ctx, wefti_merge_room *room) {
    WEFTI_FREE(ctx, room->before, room->after, room->heap);
    *room = (wefti_merge_room){0};
}

/* Puts the pair that starts at position i into the heap, if it merges. */
static void offer(const weft_tokenizer *t, const wefti_merge_room *room,
                  const int32_t *ids, int64_t *n_heap, int32_t i) {
    if (i < 0 || room->after[i] < 0) return;
    int32_t rank = rank_of(t, ids[i], ids[room->after[i]]);
    if (rank != NO_RANK)
        heap_push(room->heap, n_heap, (uint64_t)(uint32_t)rank << 32 | (uint32_t)i);
}

/* Merges the pair that starts at i; a symbol that is gone has the id -1. */
static void join(const wefti_merge_room *room, int32_t *ids, int32_t i, int32_t merged) {
    int32_t gone = room->after[i], next = room->after[gone];
    ids[i] = merged;
    ids[gone] = -1;
    room->after[i] = next;
    if (next >= 0) room->before[next] = i;
}

static weft_status merge_long(weft_ctx *ctx, const weft_tokenizer *t,
                              wefti_merge_room *room, int64_t n, int32_t *ids,
                              int64_t *n_ids) {
    WEFT_TRY(reserve(ctx, room, n));
    int64_t n_heap = 0;
    for (int64_t i = 0; i < n; i++) {
        room->before[i] = (int32_t)(i - 1);
        room->after[i] = i + 1 < n ? (int32_t)(i + 1) : -1;
    }
    for (int64_t i = 0; i < n; i++) offer(t, room, ids, &n_heap, (int32_t)i);
    while (n_heap > 0) {
        uint64_t top = heap_pop(room->heap, &n_heap);
        int32_t rank = (int32_t)(top >> 32), i = (int32_t)(uint32_t)top;
        if (ids[i] < 0 || room->after[i] < 0) continue;
        if (rank_of(t, ids[i], ids[room->after[i]]) != rank) continue;
        join(room, ids, i, t->merged[rank]);
        offer(t, room, ids, &n_heap, room->before[i]);
        offer(t, room, ids, &n_heap, i);
    }
    *n_ids = 0;
    for (int64_t i = 0; i < n; i++)
        if (ids[i] >= 0) ids[(*n_ids)++] = ids[i];
    return WEFT_OK;
}

weft_status wefti_merge_long(weft_ctx *ctx, const weft_tokenizer *t,
                             wefti_merge_room *room, const char *piece, int64_t n,
                             int32_t *ids, int64_t *n_ids) {
    start(t, piece, n, ids);
    return merge_long(ctx, t, room, n, ids, n_ids);
}

/* Merges symbols that are there already, in place. */
static weft_status merge_ids(weft_ctx *ctx, const weft_tokenizer *t,
                             wefti_merge_room *room, int64_t n, int32_t *ids,
                             int64_t *n_ids) {
    if (n > WEFTI_MERGE_SHORT) return merge_long(ctx, t, room, n, ids, n_ids);
    *n_ids = merge_short(t, n, ids);
    return WEFT_OK;
}

weft_status wefti_merge_piece(weft_ctx *ctx, const weft_tokenizer *t,
                              wefti_merge_room *room, const char *piece, int64_t n,
                              int32_t *ids, int64_t *n_ids) {
    if (t->pipeline) {
        n = symbols_of(t, piece, n, ids);
        return merge_ids(ctx, t, room, n, ids, n_ids);
    }
    start(t, piece, n, ids);
    return merge_ids(ctx, t, room, n, ids, n_ids);
}
