/* SPDX-License-Identifier: MIT */
#pragma once

#include <limits.h>

#include <weft/ctx.h>

/* Fails with "could not <verb> <path>: " and what the system says of errno. */
weft_status wefti_fail_errno(weft_ctx *ctx, const char *verb, const char *path);

/* path <- "folder/name". */
weft_status wefti_file_path(weft_ctx *ctx, const char *folder, const char *name,
                            char path[PATH_MAX]) WEFT_CHECKED;

/* The same, without a failure: whether a file is there. */
bool wefti_file_there(const char *folder, const char *name, char path[PATH_MAX]);

/* Sorts texts, for qsort over char *. */
int wefti_by_name(const void *a, const void *b);

/* Reads a whole file. [out] *data owned by the caller (wefti_free), with a NUL after its
 * *n_bytes bytes. Refuses directories and files over max_bytes. */
weft_status wefti_file_read(weft_ctx *ctx, const char *path, int64_t max_bytes,
                            char **data, int64_t *n_bytes) WEFT_CHECKED;

/* The same from byte `from` on; a shorter file has nothing there. */
weft_status wefti_file_read_from(weft_ctx *ctx, const char *path, int64_t from,
                                 int64_t max_bytes, char **data,
                                 int64_t *n_bytes) WEFT_CHECKED;

/* The last `most` bytes of a file, from its byte *from on; none where there is no file. */
weft_status wefti_file_tail(weft_ctx *ctx, const char *path, int64_t most, char **data,
                            int64_t *n_bytes, int64_t *from) WEFT_CHECKED;

/* Whether all that was written to an open file is on the disk now. */
bool wefti_file_flush(int fd);

/* Writes a temporary file, syncs it and renames it to `path`. After a crash at any time
 * there is either the old file or the new one, never a part of it. */
weft_status wefti_file_write(weft_ctx *ctx, const char *path, const void *data,
                             int64_t n_bytes) WEFT_CHECKED;

/* Writes all bytes at `offset` of an open file, even if the system splits the write. */
weft_status wefti_file_pwrite(weft_ctx *ctx, int fd, const char *path, const void *data,
                              int64_t n_bytes, int64_t offset) WEFT_CHECKED;

/* Flushes the directory entry of `path` to the disk. */
weft_status wefti_file_sync_parent(weft_ctx *ctx, const char *path) WEFT_CHECKED;

/* Makes a directory and its parents. An existing directory is no error. */
weft_status wefti_file_mkdirs(weft_ctx *ctx, const char *path) WEFT_CHECKED;

/* Removes a directory tree. A missing directory is no error. */
weft_status wefti_file_remove_tree(weft_ctx *ctx, const char *path) WEFT_CHECKED;
