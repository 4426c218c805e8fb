/* SPDX-License-Identifier: MIT */
/* index.json of a checkpoint:
 *
 *   {
 *    "format": 1, "step": N, "layout": {...},
 *    "files": [{"name": "...", "n_bytes": n, "xxh3_128": "32 hex digits"}, ...],
 *    "index_xxh3_128": "32 hex digits"
 *   }
 *
 * The last value is the hash of all bytes before the quote that opens its key. The bytes from
 * that quote on have only one valid form, so a change of any byte of the file is detected. */
#include "checkpoint/index.h"

#include <stdio.h>
#include <string.h>

#include "text/json.h"
#include "base/memory.h"
#include "text/utf8.h"

#define TAIL_BEGIN "\"index_xxh3_128\": \""
#define TAIL_END "\"\n}\n"

enum { FORMAT = 1, TAIL_BYTES = sizeof TAIL_BEGIN TAIL_END - 1 + WEFTI_HASH_TEXT - 1 };

/* [out] tail: TAIL_BYTES + 1. */
static void make_tail(const char *text, size_t n_before, char *tail) {
    char hash[WEFTI_HASH_TEXT];
    wefti_hash_text(text, n_before, hash);
    snprintf(tail, TAIL_BYTES + 1, TAIL_BEGIN "%s" TAIL_END, hash);
}

/* ---- encode ---- */

static weft_status no_memory(weft_ctx *ctx) {
    return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for a checkpoint's index.json");
}

static weft_status add_files(weft_ctx *ctx, json_t *array, const wefti_listing *listing) {
    for (int64_t i = 0; i < listing->n; i++) {
        const wefti_listed_file *file = &listing->files[i];
        json_t *name = json_string(file->name);
        if (!name && wefti_is_utf8(file->name)) return no_memory(ctx);
        if (!name)
            return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                                 "the name of the checkpoint file '%s' is not UTF-8 text",
                                 file->name);
        json_t *entry = json_pack("{s:o, s:I, s:s}", "name", name, "n_bytes",
                                  (json_int_t)file->n_bytes, "xxh3_128", file->hash);
        if (json_array_append_new(array, entry) != 0) return no_memory(ctx);
    }
    return WEFT_OK;
}

static weft_status dump(weft_ctx *ctx, const json_t *root, char **text, int64_t *n_text) {
    static const char joint[] = ",\n ";
    size_t n = json_dumpb(root, NULL, 0, JSON_INDENT(1));
    if (n < 2) return no_memory(ctx);
    WEFT_TRY(wefti_alloc(ctx, n + sizeof joint + TAIL_BYTES + 1, "a checkpoint's index",
                         text));
    if (json_dumpb(root, *text, n, JSON_INDENT(1)) != n) {
        wefti_free(ctx, *text);
        *text = NULL;
        return no_memory(ctx);
    }
    n -= 2; /* the tail writes the closing "\n}" again */
    memcpy(*text + n, joint, sizeof joint);
    n += sizeof joint - 1;
    make_tail(*text, n, *text + n);
    *n_text = (int64_t)n + TAIL_BYTES;
    return WEFT_OK;
}

weft_status wefti_index_encode(weft_ctx *ctx, int64_t step, const char *layout_json,
                               const wefti_listing *listing, char **text,
                               int64_t *n_text) {
    json_t *layout, *files = NULL;
    *text = NULL;
    WEFT_TRY(wefti_json_read(ctx, "the layout of ", "a checkpoint", layout_json,
                             (int64_t)strlen(layout_json), WEFT_ERR_ARGUMENT, &layout));
    json_t *root = json_pack("{s:i, s:I, s:o}", "format", FORMAT, "step",
                             (json_int_t)step, "layout", layout);
    weft_status status = WEFT_OK;
    if (!root || !(files = json_array()) ||
        json_object_set_new(root, "files", files) != 0)
        status = no_memory(ctx);
    if (status == WEFT_OK) status = add_files(ctx, files, listing);
    if (status == WEFT_OK) status = dump(ctx, root, text, n_text);
    json_decref(root);
    return status;
}

/* ---- decode ---- */

static weft_status check_tail(weft_ctx *ctx, const char *where, const char *text,
                              int64_t n_text) {
    char tail[TAIL_BYTES + 1];
    if (n_text > TAIL_BYTES) {
        size_t n_before = (size_t)(n_text - TAIL_BYTES);
        make_tail(text, n_before, tail);
        if (memcmp(text + n_before, tail, TAIL_BYTES) == 0) return WEFT_OK;
    }
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "%s is damaged: its bytes do not have the hash at its end",
                         where);
}

static weft_status read_file_entry(weft_ctx *ctx, const char *where, const json_t *entry,
                                   wefti_listing *listing) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *hash = json_string_value(json_object_get(entry, "xxh3_128"));
    const json_t *size = json_object_get(entry, "n_bytes");
    if (!name || !hash || strlen(hash) != WEFTI_HASH_TEXT - 1 || !json_is_integer(size))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                             "entry %lld of \"files\" of %s has no name, n_bytes and "
                             "xxh3_128 of 32 digits",
                             (long long)listing->n, where);
    if (listing->n && strcmp(listing->files[listing->n - 1].name, name) >= 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "the files in %s are not sorted: '%s'",
                             where, name);
    WEFT_TRY(wefti_listing_add(ctx, listing, name));
    wefti_listed_file *file = &listing->files[listing->n - 1];
    file->n_bytes = (int64_t)json_integer_value(size);
    memcpy(file->hash, hash, WEFTI_HASH_TEXT);
    return WEFT_OK;
}

static weft_status take_layout(weft_ctx *ctx, const char *where, const json_t *root,
                               char **layout_json) {
    const json_t *layout = json_object_get(root, "layout");
    if (!json_is_object(layout))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s has no object \"layout\"", where);
    size_t n = json_dumpb(layout, NULL, 0, JSON_COMPACT);
    if (n == 0) return no_memory(ctx);
    WEFT_TRY(wefti_alloc(ctx, n + 1, "a checkpoint's layout", layout_json));
    if (json_dumpb(layout, *layout_json, n, JSON_COMPACT) == n) return WEFT_OK;
    return no_memory(ctx);
}

static weft_status read_index(weft_ctx *ctx, const char *where, const json_t *root,
                              int64_t *step, char **layout_json, wefti_listing *listing) {
    const json_t *format = json_object_get(root, "format");
    const json_t *number = json_object_get(root, "step");
    const json_t *files = json_object_get(root, "files");
    if (!json_is_integer(format) || json_integer_value(format) != FORMAT)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s has format %lld, expected %d",
                             where, (long long)json_integer_value(format), FORMAT);
    if (!json_is_integer(number) || json_integer_value(number) < 0)
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s has no \"step\" >= 0", where);
    if (!json_is_array(files))
        return weft_ctx_fail(ctx, WEFT_ERR_FORMAT, "%s has no list \"files\"", where);
    *step = (int64_t)json_integer_value(number);
    for (size_t i = 0; i < json_array_size(files); i++)
        WEFT_TRY(read_file_entry(ctx, where, json_array_get(files, i), listing));
    return take_layout(ctx, where, root, layout_json);
}

weft_status wefti_index_decode(weft_ctx *ctx, const char *where, const char *text,
                               int64_t n_text, int64_t *step, char **layout_json,
                               wefti_listing *listing) {
    json_t *root;
    *layout_json = NULL;
    *listing = (wefti_listing){0};
    WEFT_TRY(check_tail(ctx, where, text, n_text));
    WEFT_TRY(wefti_json_read(ctx, "", where, text, n_text, WEFT_ERR_FORMAT, &root));
    weft_status status = read_index(ctx, where, root, step, layout_json, listing);
    json_decref(root);
    if (status != WEFT_OK) {
        wefti_listing_fini(ctx, listing);
        wefti_free(ctx, *layout_json);
        *layout_json = NULL;
    }
    return status;
}
