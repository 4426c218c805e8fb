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

/* A set of 64-bit keys numbered 0, 1, 2, ... in the order of insertion; what belongs
 * to a key is kept by the user in arrays indexed by that number. Zeroed memory is an
 * empty map. */
typedef struct wefti_u64slot {
    uint64_t key;
    int64_t index; /* + 1; 0: the slot is free */
} wefti_u64slot;

typedef struct wefti_u64map {
    wefti_u64slot *slots; /* [n_slots], owned */
    int64_t n_slots;      /* 0 or a power of two, at least twice n */
    uint64_t *keys;       /* [n] by number, owned */
    int64_t n, capacity;
} wefti_u64map;

/* Finds or inserts a key. [out] *index its number; it is new if it equals the former
 * n. */
weft_status wefti_u64map_put(weft_ctx *ctx, wefti_u64map *map, uint64_t key,
                             int64_t *index) WEFT_CHECKED;

void wefti_u64map_fini(weft_ctx *ctx, wefti_u64map *map);

/* Where the search for a key begins. */
static inline int64_t wefti_u64map_home(const wefti_u64map *map, uint64_t key) {
    uint64_t h = key * 0x9E3779B97F4A7C15ull;
    return (int64_t)((h ^ h >> 32) & (uint64_t)(map->n_slots - 1));
}

/* The number of a key, or -1. */
static inline int64_t wefti_u64map_find(const wefti_u64map *map, uint64_t key) {
    if (map->n_slots == 0) return -1;
    int64_t i = wefti_u64map_home(map, key);
    while (map->slots[i].index != 0) {
        if (map->slots[i].key == key) return map->slots[i].index - 1;
        i = (i + 1) & (map->n_slots - 1);
    }
    return -1;
}
