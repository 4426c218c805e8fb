/* SPDX-License-Identifier: MIT */
#pragma once

#include "token/vocab.h"

/* Working memory for long pieces; zeroed memory is an empty one. One per thread. */
typedef struct wefti_merge_room {
    int32_t *before, *after; /* [capacity] neighbours of each symbol; owned */
    uint64_t *heap;          /* [2 * capacity], owned */
    int64_t capacity;
} wefti_merge_room;

void wefti_merge_room_fini(weft_ctx *ctx, wefti_merge_room *room);

/* Byte-pair merging of one piece: starts from its bytes and applies the merge of
 * lowest rank, leftmost first, until none applies. ids: room for n_bytes; [out]
 * *n_ids. Time is O(n log n) in the length of the piece. */
weft_status wefti_merge_piece(weft_ctx *ctx, const weft_tokenizer *t,
                              wefti_merge_room *room, const char *piece, int64_t n_bytes,
                              int32_t *ids, int64_t *n_ids) WEFT_CHECKED;

/* The same for long and for short pieces; apart so that tests can compare them. */
enum { WEFTI_MERGE_SHORT = 48 };
int64_t wefti_merge_short(const weft_tokenizer *t, const char *piece, int64_t n_bytes,
                          int32_t *ids);
weft_status wefti_merge_long(weft_ctx *ctx, const weft_tokenizer *t,
                             wefti_merge_room *room, const char *piece, int64_t n_bytes,
                             int32_t *ids, int64_t *n_ids) WEFT_CHECKED;
