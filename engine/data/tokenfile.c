/* SPDX-License-Identifier: MIT */
/* Token ids in a file. They are read by pread into a small buffer: what the file holds at that
 * moment, or less, and never a fault of the process. A row of training is a read of a few
 * kilobytes from the page cache, some microseconds beside the milliseconds of its step. */
#define _GNU_SOURCE
#include "data/tokenfile.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/bytes.h"
#include "base/file.h"

enum {
    BLOCK_BYTES = 1 << 14,
    MOST_DESCRIPTORS = 512 /* numbers from here on are left to connections and files */
};

weft_status wefti_tokens_open(weft_ctx *ctx, wefti_token_place *place, const char *path) {
    *place = (wefti_token_place){.fd = -1, .width = 2};
    WEFT_TRY(wefti_strdup(ctx, path, &place->path));
    place->fd = open(path, O_RDONLY | O_CLOEXEC);
    weft_status status = place->fd < 0 ? wefti_fail_errno(ctx, "open", path) : WEFT_OK;
    if (status != WEFT_OK) wefti_tokens_close(ctx, place);
    if (place->fd >= MOST_DESCRIPTORS) {
        close(place->fd);
        place->fd = -1;
    }
    return status;
}

void wefti_tokens_close(weft_ctx *ctx, wefti_token_place *place) {
    if (place->fd >= 0) close(place->fd);
    wefti_free(ctx, place->path);
    *place = (wefti_token_place){.fd = -1};
}

static int64_t read_bytes(int fd, off_t at, unsigned char *out, int64_t n_bytes) {
    int64_t n = 0;
    while (n < n_bytes) {
        ssize_t got = pread(fd, out + n, (size_t)(n_bytes - n), at + n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        n += got;
    }
    return n;
}

int64_t wefti_tokens_bytes(const wefti_token_place *place, off_t at, void *out,
                           int64_t n_bytes) {
    if (place->fd >= 0) return read_bytes(place->fd, at, out, n_bytes);
    int fd = open(place->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    int64_t n = read_bytes(fd, at, out, n_bytes);
    close(fd);
    return n;
}

void wefti_tokens_read(const wefti_token_place *place, int64_t start, int64_t n,
                       int32_t *ids) {
    unsigned char block[BLOCK_BYTES];
    int64_t most = BLOCK_BYTES / place->width;
    while (n > 0) {
        int64_t part = n < most ? n : most;
        int64_t got = wefti_tokens_bytes(place, place->offset + start * place->width,
                                         block, part * place->width) /
                      place->width;
        wefti_tokens_decode(block, place->width, got, ids);
        for (int64_t i = got; i < part; i++) ids[i] = WEFTI_LOST_TOKEN;
        start += part;
        ids += part;
        n -= part;
    }
}

void wefti_tokens_decode(const unsigned char *from, int width, int64_t n, int32_t *ids) {
    for (int64_t i = 0; i < n; i++)
        ids[i] = (int32_t)(width == 2 ? wefti_get_u16(from + 2 * i)
                                      : wefti_get_u32(from + 4 * i));
}

void wefti_tokens_encode(const int32_t *ids, int width, int64_t n, unsigned char *to) {
    for (int64_t i = 0; i < n; i++) {
        if (width == 2)
            wefti_put_u16(to + 2 * i, (uint32_t)ids[i]);
        else
            wefti_put_u32(to + 4 * i, (uint32_t)ids[i]);
    }
}
