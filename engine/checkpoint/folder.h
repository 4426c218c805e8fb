/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* A checkpoint is a folder `step-<N>` (N zero-padded to 8 digits) under
 * `<run>/checkpoints`. It is written as `step-<N>.partial`, its files are synced,
 * `index.json` (format version, step, caller's JSON, and for each file its size and
 * XXH3-128) is written last, then the folder is renamed and the parent synced: a crash at
 * any time leaves complete checkpoints complete. Only one writer (process or thread) per
 * folder of checkpoints. docs/file-formats.md */

/* Removes what a writer that died left of a checkpoint up to `step`, or of one that it removed: the
 * disk may have no room beside it. To be called by the one writer. */
weft_status wefti_checkpoint_make_room(weft_ctx *ctx, const char *checkpoints,
                                       int64_t step) WEFT_CHECKED;

/* The same, and makes an empty step-<N>.partial. [out] path: PATH_MAX bytes. */
weft_status wefti_checkpoint_begin(weft_ctx *ctx, const char *checkpoints, int64_t step,
                                   char *path) WEFT_CHECKED;

/* step-<N>.partial-<replica>, which a replica writes whose machine does not see the writer's
 * folder: its name; the same, made after those of earlier steps were removed. */
weft_status wefti_checkpoint_part(weft_ctx *ctx, const char *checkpoints, int64_t step,
                                  int replica, char *path) WEFT_CHECKED;
weft_status wefti_checkpoint_begin_part(weft_ctx *ctx, const char *checkpoints,
                                        int64_t step, int replica,
                                        char *path) WEFT_CHECKED;

/* Hashes every file in the partial folder (recursively), writes index.json with
 * `layout_json` (a JSON object text describing mesh, step, tensors; whole numbers up to
 * 2^63-1) embedded under "layout", syncs, renames to step-<N> (replacing an older folder
 * of the same step; while that happens, the older one is step-<N>.old), then removes the
 * oldest complete checkpoints beyond `keep` (keep <= 0: keeps all; this one is always
 * kept) and the remains of earlier crashes. On failure the partial folder is left
 * unchanged; an old checkpoint that cannot be removed is only a warning in the log. */
weft_status wefti_checkpoint_commit(weft_ctx *ctx, const char *checkpoints, int64_t step,
                                    const char *layout_json, int64_t keep) WEFT_CHECKED;

/* Finds the newest complete checkpoint; *step = -1 if there is none, or no folder of that
 * name. Partial folders are ignored. [out] path: at least PATH_MAX. */
weft_status wefti_checkpoint_latest(weft_ctx *ctx, const char *checkpoints, int64_t *step,
                                    char *path) WEFT_CHECKED;

/* Finds the newest checkpoint that wefti_checkpoint_verify accepts. Newer ones that are
 * damaged are skipped with a warning in the log. With `set_aside` (only for the single writer
 * of the folder) they are renamed to step-<N>.damaged, which the next checkpoint of that step
 * or a later one removes. *step = -1 if there is no checkpoint; if all are damaged it fails
 * with the error of the newest. Only steps below `before` count. [out] path: PATH_MAX;
 * *layout_json as in verify, or NULL. */
weft_status wefti_checkpoint_find_whole(weft_ctx *ctx, const char *checkpoints,
                                        bool set_aside, int64_t before, int64_t *step,
                                        char *path, char **layout_json) WEFT_CHECKED;

/* Checks that a folder that is named after a step contains that step. */
weft_status wefti_checkpoint_check_step(weft_ctx *ctx, const char *path,
                                        int64_t step) WEFT_CHECKED;

/* Checks index.json, that exactly its files are there, and every file's size and hash:
 * any changed byte in any file is found, and the message names the file (WEFT_ERR_FORMAT;
 * a file that is not listed was put there by someone else: WEFT_ERR_CONFIG). [out]
 * *layout_json owned by the caller (wefti_free): the values as given and in the same
 * order, but not always in the same notation. */
weft_status wefti_checkpoint_verify(weft_ctx *ctx, const char *path,
                                    char **layout_json) WEFT_CHECKED;
