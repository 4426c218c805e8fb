/* SPDX-License-Identifier: MIT */
#pragma once

#include "data/tokenfile.h"

/* How much memory the ids of all texts of a data set may still take, and where the rest goes. */
typedef struct wefti_id_limit {
    const char *folder; /* of the file for what is more; NULL: there is no limit */
    int64_t bytes_left;
} wefti_id_limit;

/* Ids that only grow at the end: the first ones in memory, in blocks of WEFTI_BLOCK_IDS, what
 * the limit has no room for in a file without a name. */
typedef struct wefti_id_store {
    int width;              /* bytes of an id: 2 or 4, little-endian */
    int64_t n, n_held;      /* ids in all, and in memory */
    unsigned char **blocks; /* [n_blocks], owned, all full but the last */
    int64_t n_blocks, blocks_capacity;
    int64_t last_capacity;   /* ids that the last block has room for */
    wefti_token_place spill; /* ids [n_held, n); descriptor -1: there are none */
} wefti_id_store;

/* With its header a block takes whole huge pages. */
enum { WEFTI_BLOCK_IDS = (4 << 20) - 32 };

/* Empty, for ids below `vocab`. */
void wefti_ids_init(wefti_id_store *store, int64_t vocab);
void wefti_ids_close(weft_ctx *ctx, wefti_id_store *store);

/* Appends n ids and takes their memory off the limit. */
weft_status wefti_ids_add(weft_ctx *ctx, wefti_id_store *store, wefti_id_limit *limit,
                          const int32_t *ids, int64_t n) WEFT_CHECKED;

/* Gives back what the last block has too much. */
weft_status wefti_ids_trim(weft_ctx *ctx, wefti_id_store *store) WEFT_CHECKED;

/* Copies ids [start, start + n); the range lies inside. Threads share a store. */
void wefti_ids_read(const wefti_id_store *store, int64_t start, int64_t n, int32_t *ids);
