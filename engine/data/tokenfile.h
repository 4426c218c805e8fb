/* SPDX-License-Identifier: MIT */
#pragma once

#include <sys/types.h>

#include <weft/ctx.h>

/* Little-endian token ids in a file, read by place. A file that was shortened since gives
 * WEFTI_LOST_TOKEN for what is gone, which whoever computes with ids refuses: a mapped file
 * would end the process instead. */
enum { WEFTI_LOST_TOKEN = -1 };

typedef struct wefti_token_place {
    char *path;   /* owned; NULL: the descriptor is all there is */
    int fd;       /* -1: the file is opened for each read, see wefti_tokens_open */
    off_t offset; /* of the first id */
    int width;    /* 2 or 4 bytes */
} wefti_token_place;

/* Opens a file to read ids from; offset and width are the caller's to set. The descriptor is
 * kept, unless so many are in use already that a folder of thousands of shards would leave
 * none to others. Nothing is held after a failure. */
weft_status wefti_tokens_open(weft_ctx *ctx, wefti_token_place *place,
                              const char *path) WEFT_CHECKED;
void wefti_tokens_close(weft_ctx *ctx, wefti_token_place *place);

/* Copies ids [start, start + n). Threads share a place. */
void wefti_tokens_read(const wefti_token_place *place, int64_t start, int64_t n,
                       int32_t *ids);

/* Reads n_bytes at `at`; returns how many there were. */
int64_t wefti_tokens_bytes(const wefti_token_place *place, off_t at, void *out,
                           int64_t n_bytes);

/* Changes ids to and from their bytes. */
void wefti_tokens_decode(const unsigned char *from, int width, int64_t n, int32_t *ids);
void wefti_tokens_encode(const int32_t *ids, int width, int64_t n, unsigned char *to);
