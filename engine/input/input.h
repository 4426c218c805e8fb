/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <weft/ctx.h>

/* The bytes of a file, a pipe or standard input ("-"), from the first to the last; what is
 * packed by gzip or zstd is unpacked on the way. */
typedef struct wefti_input wefti_input;

/* Opens it and looks at its beginning: folders and devices are refused, and so is what is
 * known not to be text (sniff.h), by name. `path` is borrowed until the close. */
weft_status wefti_input_open(weft_ctx *ctx, const char *path,
                             wefti_input **out) WEFT_CHECKED;

/* Before the first read: the first bytes, *n of them. Borrowed. */
const char *wefti_input_head(const wefti_input *input, int64_t *n);

/* The next bytes: [out] *n of them, 1..capacity; 0 only at the end. */
weft_status wefti_input_read(weft_ctx *ctx, wefti_input *input, char *out,
                             int64_t capacity, int64_t *n) WEFT_CHECKED;

/* All bytes of one. [out] *bytes owned by the caller (wefti_free), NULL on failure. */
weft_status wefti_input_read_all(weft_ctx *ctx, const char *path, char **bytes,
                                 int64_t *n) WEFT_CHECKED;

void wefti_input_close(weft_ctx *ctx, wefti_input *input); /* NULL is accepted */

/* A stretch of a file that is in memory; borrowed. */
typedef struct wefti_excerpt {
    const char *bytes;
    int64_t n;
} wefti_excerpt;

/* Cuts the next line off *rest, without its end, which may be CR LF; false at the end. */
static inline bool wefti_next_line(wefti_excerpt *rest, wefti_excerpt *line) {
    if (rest->n == 0) return false;
    const char *end = memchr(rest->bytes, '\n', (size_t)rest->n);
    line->bytes = rest->bytes;
    line->n = end ? end - rest->bytes : rest->n;
    int64_t used = end ? line->n + 1 : line->n;
    rest->bytes += used;
    rest->n -= used;
    if (line->n > 0 && line->bytes[line->n - 1] == '\r') line->n--;
    return true;
}
