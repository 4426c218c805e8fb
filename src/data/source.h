/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_SOURCE_H
#define WEFTI_SOURCE_H

#include <weft/shard_file.h>
#include <weft/tokenizer.h>

/* The tokens of one file: a shard on disk, or text that was encoded when it was
 * opened. */
typedef struct wefti_token_file {
    weft_shard *shard;   /* owned; or NULL and: */
    unsigned char *room; /* n_tokens little-endian numbers of `width` bytes; owned */
    int width;           /* 2 or 4 */
    int64_t n_tokens, capacity;
    int64_t start; /* place of its first token in the source */
} wefti_token_file;

/* One source: a file, or the files of a folder one after another. */
typedef struct wefti_source {
    char *path;              /* owned */
    wefti_token_file *files; /* [n_files], owned */
    int64_t n_files, files_capacity;
    int64_t n_tokens;
    bool folder;
} wefti_source;

/* Opens a file or a folder (its *.bin and *.txt in the order of their names' bytes). A
 * file is a shard if it is named *.bin or begins as one of weft's, else text. `source`
 * is zeroed memory; close accepts it whatever the outcome. */
weft_status wefti_source_open(weft_ctx *ctx, wefti_source *source, const char *path,
                              const weft_tokenizer *tokenizer, int threads) WEFT_CHECKED;
void wefti_source_close(weft_ctx *ctx, wefti_source *source);

/* Copies tokens [start, start + n) of the source to ids[n]; the range lies inside. */
void wefti_source_read(const wefti_source *source, int64_t start, int64_t n,
                       int32_t *ids);

/* "text", a shard format, or "3 files": writes into out and returns it. */
const char *wefti_source_kind(const wefti_source *source, char *out, size_t out_size);

#endif
