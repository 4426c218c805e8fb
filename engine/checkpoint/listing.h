/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

enum { WEFTI_HASH_TEXT = 33 }; /* 32 hex digits and a NUL */

/* One file of a checkpoint. */
typedef struct wefti_listed_file {
    char *name; /* owned; relative to the checkpoint, '/' between folders */
    int64_t n_bytes;
    char hash[WEFTI_HASH_TEXT]; /* XXH3-128, as `xxhsum -H2` prints it */
} wefti_listed_file;

typedef struct wefti_listing {
    wefti_listed_file *files; /* owned; sorted by name, bytewise */
    int64_t n, capacity;
} wefti_listing;

/* Lists the files of a folder and its subfolders, except <folder>/index.json. Anything
 * that is neither a regular file nor a folder is refused. Only names are filled in. */
weft_status wefti_listing_scan(weft_ctx *ctx, const char *folder,
                               wefti_listing *out) WEFT_CHECKED;

/* Appends a name. */
weft_status wefti_listing_add(weft_ctx *ctx, wefti_listing *listing,
                              const char *name) WEFT_CHECKED;

/* Reads <folder>/<name> and fills in n_bytes and hash; with `sync` the file is also
 * flushed to the disk. */
weft_status wefti_listing_hash(weft_ctx *ctx, const char *folder, bool sync,
                               wefti_listed_file *file) WEFT_CHECKED;

void wefti_listing_fini(weft_ctx *ctx, wefti_listing *listing);

/* The same hash of bytes in memory. */
void wefti_hash_text(const void *data, size_t n_bytes, char out[WEFTI_HASH_TEXT]);
