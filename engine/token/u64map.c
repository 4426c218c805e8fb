/* SPDX-License-Identifier: MIT */
/* Open addressing with linear search; at most half of the slots are taken. */
#include "token/u64map.h"

#include "base/memory.h"

static void place(wefti_u64map *map, uint64_t key, int64_t index) {
    int64_t i = wefti_u64map_home(map, key);
    while (map->slots[i].index != 0) i = (i + 1) & (map->n_slots - 1);
    map->slots[i] = (wefti_u64slot){.key = key, .index = index + 1};
}

static weft_status make_room(weft_ctx *ctx, wefti_u64map *map) {
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
    WEFT_TRY(make_room(ctx, map));
    *index = map->n;
    map->keys[map->n] = key;
    place(map, key, map->n++);
    return WEFT_OK;
}

void wefti_u64map_fini(weft_ctx *ctx, wefti_u64map *map) {
    wefti_free(ctx, map->slots);
    wefti_free(ctx, map->keys);
    *map = (wefti_u64map){0};
}
