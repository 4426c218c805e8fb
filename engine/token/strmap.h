/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* A map from byte strings to numbers, listed in the order of insertion. A key is a
 * stretch of one buffer that the user holds and hands to every call as `base` (it may
 * move between calls). Zeroed memory is an empty map. */
typedef struct wefti_str_entry {
    uint64_t hash;
    int64_t offset, n_bytes; /* the key is base[offset .. offset + n_bytes) */
    int64_t value;           /* the user's; 0 when inserted */
} wefti_str_entry;

typedef struct wefti_strmap {
    wefti_str_entry *entries; /* [n], owned */
    int64_t n, capacity;
    int64_t *slots; /* [n_slots], index of the entry + 1, 0: free; owned */
    int64_t n_slots;
} wefti_strmap;

/* The entry of a key, or NULL. Borrowed until the next put. */
wefti_str_entry *wefti_strmap_find(const wefti_strmap *map, const char *base,
                                   const char *key, int64_t n_bytes);

/* Finds or inserts the key base[offset .. offset + n_bytes). [out] *entry as for find. */
weft_status wefti_strmap_put(weft_ctx *ctx, wefti_strmap *map, const char *base,
                             int64_t offset, int64_t n_bytes,
                             wefti_str_entry **entry) WEFT_CHECKED;

void wefti_strmap_fini(weft_ctx *ctx, wefti_strmap *map);
