/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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
