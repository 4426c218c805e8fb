/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/shard_file.h>
#include <weft/tokenizer.h>

#include "base/buffer.h"
#include "data/idstore.h"
#include "data/textfile.h"
#include "input/walk.h"

/* The tokens of one file: a shard on disk, or text that was encoded when it was opened. */
typedef struct wefti_token_file {
    weft_shard *shard; /* owned; or NULL: */
    int64_t first;     /* place of its first token in the source's texts */
    int64_t n_tokens;
    int64_t start; /* place of its first token in the source */
} wefti_token_file;

/* One source: a file, or the files of a folder one after another. */
typedef struct wefti_source {
    char *path;              /* owned */
    wefti_token_file *files; /* [n_files], owned */
    int64_t n_files, files_capacity;
    int64_t n_tokens, n_skipped;
    wefti_id_store texts; /* of those files that are no shards */
    uint64_t hash;        /* of all ids: two sources with one hash are the same */
    bool folder;
} wefti_source;

/* What opening wants to know. */
typedef struct wefti_source_wish {
    wefti_encoding encoding;
    wefti_id_limit *limit; /* of all texts that are opened with it */
} wefti_source_wish;

/* Opens a file or a folder (the files in it that wefti_source_files lists). A file is a
 * shard if it is named *.bin or begins as one of weft's, else text in one of the layouts of
 * documents.h. `source` is zeroed memory; close accepts it whatever the outcome. */
weft_status wefti_source_open(weft_ctx *ctx, wefti_source *source, const char *path,
                              const wefti_source_wish *wish) WEFT_CHECKED;
void wefti_source_close(weft_ctx *ctx, wefti_source *source);

/* Appends the files that a path stands for: itself, or if it is a folder the shards (*.bin)
 * and texts (*.txt, *.md, *.jsonl, *.csv and their kin) below it. None is an error. */
weft_status wefti_source_files(weft_ctx *ctx, const char *path,
                               wefti_walk *files) WEFT_CHECKED;

/* Appends the text of a path, document after document, until *text has `most` bytes; shards
 * have none. */
weft_status wefti_source_text(weft_ctx *ctx, const char *path, const wefti_fields *fields,
                              int64_t most, wefti_buffer *text) WEFT_CHECKED;

/* Refuses standard input and pipes: what is read to train a tokenizer would be missing when
 * the same path is encoded. */
weft_status wefti_source_twice(weft_ctx *ctx, const char *path) WEFT_CHECKED;

/* Whether a file is a shard of token ids, not text. */
bool wefti_source_is_shard(const char *path);

/* Copies tokens [start, start + n) of the source to ids[n]; the range lies inside. */
void wefti_source_read(const wefti_source *source, int64_t start, int64_t n,
                       int32_t *ids);

/* "text", a shard format, or "3 files": writes into out and returns it. */
const char *wefti_source_kind(const wefti_source *source, char *out, size_t out_size);
