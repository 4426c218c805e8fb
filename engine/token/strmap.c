/* SPDX-License-Identifier: MIT */
/* Open addressing with linear search over entry numbers; at most half of the slots are
 * taken. */
#include <string.h>
#include <xxhash.h>

#include "base/memory.h"
#include "token/strmap.h"

/* The slot of the key, or the free slot where it belongs. */
static int64_t slot_of(const wefti_strmap *map, const char *base, const char *key,
                       int64_t n_bytes, uint64_t hash) {
    int64_t mask = map->n_slots - 1;
    int64_t i = (int64_t)(hash & (uint64_t)mask);
    for (; map->slots[i] != 0; i = (i + 1) & mask) {
        const wefti_str_entry *e = &map->entries[map->slots[i] - 1];
        if (e->hash == hash && e->n_bytes == n_bytes &&
            memcmp(base + e->offset, key, (size_t)n_bytes) == 0)
            break;
    }
    return i;
}

wefti_str_entry *wefti_strmap_find(const wefti_strmap *map, const char *base,
                                   const char *key, int64_t n_bytes) {
    if (map->n_slots == 0) return NULL;
    uint64_t hash = XXH3_64bits(key, (size_t)n_bytes);
    int64_t taken = map->slots[slot_of(map, base, key, n_bytes, hash)];
    return taken ? &map->entries[taken - 1] : NULL;
}

static weft_status make_room(weft_ctx *ctx, wefti_strmap *map) {
    WEFT_TRY(wefti_reserve(ctx, &map->entries, &map->capacity, map->n, 1,
                           sizeof *map->entries, "a string list"));
    if (2 * (map->n + 1) <= map->n_slots) return WEFT_OK;
    int64_t n_slots = map->n_slots ? 2 * map->n_slots : 32;
    int64_t *slots;
    WEFT_TRY(wefti_alloc_n(ctx, n_slots, sizeof *slots, "a hash map", &slots));
    wefti_free(ctx, map->slots);
    map->slots = slots;
    map->n_slots = n_slots;
    for (int64_t k = 0; k < map->n; k++) {
        int64_t i = (int64_t)(map->entries[k].hash & (uint64_t)(n_slots - 1));
        while (slots[i] != 0) i = (i + 1) & (n_slots - 1);
        slots[i] = k + 1;
    }
    return WEFT_OK;
}

weft_status wefti_strmap_put(weft_ctx *ctx, wefti_strmap *map, const char *base,
                             int64_t offset, int64_t n_bytes, wefti_str_entry **entry) {
    WEFT_TRY(make_room(ctx, map));
    const char *key = base + offset;
    uint64_t hash = XXH3_64bits(key, (size_t)n_bytes);
    int64_t i = slot_of(map, base, key, n_bytes, hash);
    if (map->slots[i] == 0) {
        map->entries[map->n] = (wefti_str_entry){
            .hash = hash, .offset = offset, .n_bytes = n_bytes};
        map->slots[i] = ++map->n;
    }
    *entry = &map->entries[map->slots[i] - 1];
    return WEFT_OK;
}

void wefti_strmap_fini(weft_ctx *ctx, wefti_strmap *map) {
    WEFTI_FREE(ctx, map->entries, map->slots);
    *map = (wefti_strmap){0};
}

/* Open addressing with linear search; at most half of the slots are taken. */

static void place(wefti_u64map *map, uint64_t key, int64_t index) {
    int64_t i = wefti_u64map_home(map, key);
    while (map->slots[i].index != 0) i = (i + 1) & (map->n_slots - 1);
    map->slots[i] = (wefti_u64slot){.key = key, .index = index + 1};
}

static weft_status make_room_u64(weft_ctx *ctx, wefti_u64map *map) {
    WEFT_TRY(wefti_reserve(ctx, &map->keys, &map->capacity, map->n, 1, sizeof *map->keys,
                           "a key list"));
    if (2 * (map->n + 1) <= map->n_slots) return WEFT_OK;
    int64_t n_slots = map->n_slots ? 2 * map->n_slots : 32;
    wefti_u64slot *slots;
    WEFT_TRY(wefti_alloc_n(ctx, n_slots, sizeof *slots, "a hash map", &slots));
    wefti_free(ctx, map->slots);
    map->slots = slots;
    map->n_slots = n_slots;
    for (int64_t k = 0; k < map->n; k++) place(map, map->keys[k], k);
    return WEFT_OK;
}

weft_status wefti_u64map_put(weft_ctx *ctx, wefti_u64map *map, uint64_t key,
                             int64_t *index) {
    *index = wefti_u64map_find(map, key);
    if (*index >= 0) return WEFT_OK;
    WEFT_TRY(make_room_u64(ctx, map));
    *index = map->n;
    map->keys[map->n] = key;
    place(map, key, map->n++);
    return WEFT_OK;
}

void wefti_u64map_fini(weft_ctx *ctx, wefti_u64map *map) {
    WEFTI_FREE(ctx, map->slots, map->keys);
    *map = (wefti_u64map){0};
}
