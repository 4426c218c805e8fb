/* SPDX-License-Identifier: MIT */
/* The ids of texts that were encoded when they were opened, one behind the other:
 *
 *     [ block 0 | block 1 | ... | last block ][ file without a name        ]
 *       in memory, n_held ids                   what there was no room for
 *
 * Blocks are never moved, so that at no moment there are two copies of what is held; only the
 * last one grows, by doubling, which a small text never feels. Once an id is in the file all
 * that follow it are. */
#define _GNU_SOURCE
#include "data/idstore.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "data/shardlayout.h"

enum { CODED_IDS = 4096 }; /* brought into bytes at once */

void wefti_ids_init(wefti_id_store *store, int64_t vocab) {
    int width = vocab <= WEFTI_SHARD_VOCAB_16 ? 2 : 4;
    *store = (wefti_id_store){.width = width, .spill = {.fd = -1, .width = width}};
}

void wefti_ids_close(weft_ctx *ctx, wefti_id_store *store) {
    for (int64_t i = 0; i < store->n_blocks; i++) wefti_free(ctx, store->blocks[i]);
    wefti_free(ctx, store->blocks);
    wefti_tokens_close(ctx, &store->spill);
    *store = (wefti_id_store){.spill = {.fd = -1}};
}

/* ---- in memory ---- */

/* Ids in the last block. */
static int64_t in_last(const wefti_id_store *s) {
    return s->n_held - (s->n_blocks - 1) * WEFTI_BLOCK_IDS;
}

static weft_status grow_last(weft_ctx *ctx, wefti_id_store *s, int64_t capacity) {
    WEFT_TRY(wefti_grow(ctx, &s->blocks[s->n_blocks - 1], in_last(s), capacity,
                        (size_t)s->width, "the tokens of a text"));
    s->last_capacity = capacity;
    return WEFT_OK;
}

static weft_status add_block(weft_ctx *ctx, wefti_id_store *s) {
    WEFT_TRY(wefti_reserve(ctx, &s->blocks, &s->blocks_capacity, s->n_blocks, 1,
                           sizeof *s->blocks, "the tokens of a text"));
    s->blocks[s->n_blocks++] = NULL;
    s->last_capacity = 0;
    return WEFT_OK;
}

/* Room behind the last id for some of n more ids; [out] how many. */
static weft_status make_room(weft_ctx *ctx, wefti_id_store *s, int64_t n, int64_t *room) {
    if (s->n_blocks == 0 || in_last(s) == WEFTI_BLOCK_IDS) WEFT_TRY(add_block(ctx, s));
    int64_t used = in_last(s), wanted = used + n;
    if (wanted > WEFTI_BLOCK_IDS) wanted = WEFTI_BLOCK_IDS;
    *room = wanted - used;
    if (wanted <= s->last_capacity) return WEFT_OK;
    if (wanted < 2 * s->last_capacity) wanted = 2 * s->last_capacity;
    return grow_last(ctx, s, wanted < WEFTI_BLOCK_IDS ? wanted : WEFTI_BLOCK_IDS);
}

static weft_status hold(weft_ctx *ctx, wefti_id_store *s, const int32_t *ids, int64_t n) {
    for (int64_t part; n > 0; ids += part, n -= part) {
        WEFT_TRY(make_room(ctx, s, n, &part));
        wefti_tokens_encode(ids, s->width, part,
                            s->blocks[s->n_blocks - 1] + in_last(s) * s->width);
        s->n_held += part;
        s->n += part;
    }
    return WEFT_OK;
}

weft_status wefti_ids_trim(weft_ctx *ctx, wefti_id_store *store) {
    if (store->n_blocks == 0 || in_last(store) == store->last_capacity) return WEFT_OK;
    return grow_last(ctx, store, in_last(store));
}

/* ---- in a file ---- */

/* As mkostemp wants it: six letters that it chooses. */
static const char spill_name[] = "tokens."
                                 "XX"
                                 "XX"
                                 "XX";

/* A file that is gone when it is closed, also if the process is killed. */
static weft_status open_spill(weft_ctx *ctx, wefti_id_store *s, const char *folder) {
    char path[PATH_MAX];
    WEFT_TRY(wefti_file_mkdirs(ctx, folder));
    int n = snprintf(path, sizeof path, "%s/%s", folder, spill_name);
    if (n >= (int)sizeof path)
        return weft_ctx_fail(ctx, WEFT_ERR_FILE, "path too long: %s", folder);
    s->spill.fd = mkostemp(path, O_CLOEXEC);
    if (s->spill.fd < 0) return wefti_fail_errno(ctx, "create", path);
    unlink(path);
    return WEFT_OK;
}

static weft_status spill(weft_ctx *ctx, wefti_id_store *s, const int32_t *ids,
                         int64_t n) {
    unsigned char coded[CODED_IDS * 4];
    for (int64_t part; n > 0; ids += part, n -= part) {
        part = n < CODED_IDS ? n : CODED_IDS;
        wefti_tokens_encode(ids, s->width, part, coded);
        WEFT_TRY(wefti_file_pwrite(ctx, s->spill.fd, "the run folder's tokens", coded,
                                   part * s->width, (s->n - s->n_held) * s->width));
        s->n += part;
    }
    return WEFT_OK;
}

/* ---- both ---- */

/* How many of n ids stay in memory. */
static int64_t staying(const wefti_id_store *s, const wefti_id_limit *limit, int64_t n) {
    if (s->spill.fd >= 0) return 0;
    if (!limit->folder) return n;
    int64_t room = limit->bytes_left / s->width;
    return n < room ? n : room;
}

weft_status wefti_ids_add(weft_ctx *ctx, wefti_id_store *store, wefti_id_limit *limit,
                          const int32_t *ids, int64_t n) {
    int64_t held = staying(store, limit, n);
    WEFT_TRY(hold(ctx, store, ids, held));
    limit->bytes_left -= held * store->width;
    if (held == n) return WEFT_OK;
    if (store->spill.fd < 0) WEFT_TRY(open_spill(ctx, store, limit->folder));
    return spill(ctx, store, ids + held, n - held);
}

void wefti_ids_read(const wefti_id_store *store, int64_t start, int64_t n, int32_t *ids) {
    for (int64_t part; n > 0 && start < store->n_held;
         start += part, ids += part, n -= part) {
        int64_t at = start % WEFTI_BLOCK_IDS, end = store->n_held - start;
        part = WEFTI_BLOCK_IDS - at;
        if (part > end) part = end;
        if (part > n) part = n;
        wefti_tokens_decode(store->blocks[start / WEFTI_BLOCK_IDS] + at * store->width,
                            store->width, part, ids);
    }
    if (n > 0) wefti_tokens_read(&store->spill, start - store->n_held, n, ids);
}
