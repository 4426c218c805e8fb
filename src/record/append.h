/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* A file that only grows, whole pieces at a time: a piece is one write, and if the disk
 * is full half-way, what was written of it is taken back. One writer. */
typedef struct wefti_append {
    char *path; /* owned */
    int fd;
    int64_t n_bytes;
} wefti_append;

/* Opens for appending; with `fresh` it is an error (*exists = true, no message) if the
 * file is there already. On failure nothing is owned. */
weft_status wefti_append_init(weft_ctx *ctx, const char *path, bool fresh, bool *exists,
                              wefti_append *out) WEFT_CHECKED;

weft_status wefti_append_write(weft_ctx *ctx, wefti_append *file, const void *bytes,
                               int64_t n_bytes) WEFT_CHECKED;

/* What was written so far is on the disk. */
weft_status wefti_append_sync(weft_ctx *ctx, wefti_append *file) WEFT_CHECKED;

/* Syncs and closes; the status says whether everything reached the disk. */
weft_status wefti_append_fini(weft_ctx *ctx, wefti_append *file) WEFT_CHECKED;
