/* SPDX-License-Identifier: MIT */
/* Copies a configuration: the same values, each from the same layer. */
#include <string.h>

#include "base/memory.h"
#include "config/layers.h"
#include "config/value.h"

static const wefti_config *whole(const weft_config *config) {
    return (const wefti_config *)(const void *)config;
}

/* Packs the items of a list one after another, each with its NUL. */
static weft_status pack(weft_ctx *ctx, const weft_config_key *key, const char *place,
                        char **packed, int *n) {
    weft_texts texts = {0};
    weft_numbers numbers = {0};
    bool of_texts = key->type == WEFT_KEY_TEXTS;
    memcpy(of_texts ? (void *)&texts : (void *)&numbers, place, sizeof texts);
    *n = of_texts ? texts.n : numbers.n;
    size_t room = (size_t)*n * 40 + 1;
    for (int i = 0; i < texts.n; i++) room += strlen(texts.items[i]) + 1;
    WEFT_TRY(wefti_alloc(ctx, room, key->name, packed));
    char *at = *packed;
    for (int i = 0; i < *n; i++) {
        if (of_texts)
            memcpy(at, texts.items[i], strlen(texts.items[i]) + 1);
        else
            wefti_number_text(numbers.items[i], at, 40);
        at += strlen(at) + 1;
    }
    return WEFT_OK;
}

static weft_status copy_list(weft_ctx *ctx, const wefti_config *from, wefti_config *to,
                             const weft_config_key *key, const wefti_origin *origin) {
    char *packed;
    wefti_typed typed = {.is_list = true};
    WEFT_TRY(
        pack(ctx, key, (const char *)&from->values + key->offset, &packed, &typed.n));
    typed.packed = packed;
    weft_status status = wefti_config_assign(ctx, to, key, origin, &typed);
    wefti_free(ctx, packed);
    return status;
}

static size_t size_of(const weft_config_key *key) {
    switch (key->type) {
    case WEFT_KEY_INT:
    case WEFT_KEY_BYTES: return sizeof(int64_t);
    case WEFT_KEY_NUMBER: return sizeof(double);
    case WEFT_KEY_BOOL: return sizeof(bool);
    case WEFT_KEY_AUTO_BOOL: return sizeof(int);
    default: return sizeof(const char *);
    }
}

static weft_status copy_key(weft_ctx *ctx, const wefti_config *from, wefti_config *to,
                            const weft_config_key *key) {
    int index = wefti_config_key_index(key);
    wefti_origin origin = from->origins[index];
    for (int i = 0; i < from->n_paths; i++)
        if (origin.path == from->paths[i]) origin.path = to->paths[i];
    const char *source = (const char *)&from->values + key->offset, *text;
    if (wefti_key_is_list(key)) return copy_list(ctx, from, to, key, &origin);
    if (key->type == WEFT_KEY_TEXT || key->type == WEFT_KEY_LINK) {
        memcpy(&text, source, sizeof text);
        wefti_typed typed = {text, 1, false};
        return wefti_config_assign(ctx, to, key, &origin, &typed);
    }
    memcpy((char *)&to->values + key->offset, source, size_of(key));
    to->origins[index] = origin;
    return WEFT_OK;
}

static weft_status copy_paths(weft_ctx *ctx, const wefti_config *from, wefti_config *to) {
    WEFT_TRY(
        wefti_alloc_n(ctx, from->n_paths, sizeof *to->paths, "file names", &to->paths));
    for (; to->n_paths < from->n_paths; to->n_paths++)
        WEFT_TRY(wefti_strdup(ctx, from->paths[to->n_paths], &to->paths[to->n_paths]));
    return WEFT_OK;
}

static void copy_links(const weft_config *from, weft_config *to) {
    to->mesh.bandwidth_Bps = from->mesh.bandwidth_Bps;
    to->mesh.latency_s = from->mesh.latency_s;
    to->mesh.site_bandwidth_Bps = from->mesh.site_bandwidth_Bps;
    to->mesh.site_latency_s = from->mesh.site_latency_s;
}

weft_status weft_config_copy(weft_ctx *ctx, const weft_config *values,
                             weft_config **out) {
    weft_config *copy;
    *out = NULL;
    WEFT_TRY(weft_config_create(ctx, &copy));
    wefti_config *to = wefti_config_of(copy);
    weft_status status = copy_paths(ctx, whole(values), to);
    for (const weft_config_key *key = wefti_config_keys; key->name && status == WEFT_OK;
         key++)
        status = copy_key(ctx, whole(values), to, key);
    if (status != WEFT_OK) {
        weft_config_destroy(ctx, copy);
        return status;
    }
    copy_links(values, copy);
    *out = copy;
    return WEFT_OK;
}
