/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Reads a whole file. [out] *data owned by the caller (wefti_free), with a NUL after its
 * *n_bytes bytes. Refuses directories and files over max_bytes. */
weft_status wefti_file_read(weft_ctx *ctx, const char *path, int64_t max_bytes,
                            char **data, int64_t *n_bytes) WEFT_CHECKED;

/* Writes a file aside, syncs it and renames it over `path`: after a crash at any instant
 * there is the old file or the new one, never a part. */
weft_status wefti_file_write(weft_ctx *ctx, const char *path, const void *data,
                             int64_t n_bytes) WEFT_CHECKED;

/* Writes all bytes at `offset` of an open file, however the system splits the call. */
weft_status wefti_file_pwrite(weft_ctx *ctx, int fd, const char *path, const void *data,
                              int64_t n_bytes, int64_t offset) WEFT_CHECKED;

/* Flushes the directory entry of `path` to the disk. */
weft_status wefti_file_sync_parent(weft_ctx *ctx, const char *path) WEFT_CHECKED;

/* Makes a directory and its parents; one that exists is fine. */
weft_status wefti_file_mkdirs(weft_ctx *ctx, const char *path) WEFT_CHECKED;

/* Removes a directory tree; one that is not there is fine. */
weft_status wefti_file_remove_tree(weft_ctx *ctx, const char *path) WEFT_CHECKED;
