/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* The bytes of a file, a pipe or standard input ("-"), from the first to the last; what is
 * packed by gzip or zstd is unpacked on the way. */
typedef struct wefti_input wefti_input;

/* Opens it and looks at its beginning: folders and devices are refused, and so is what is
 * known not to be text (sniff.h), by name. `path` is borrowed until the close. */
weft_status wefti_input_open(weft_ctx *ctx, const char *path,
                             wefti_input **out) WEFT_CHECKED;

/* The next bytes: [out] *n of them, 1..capacity; 0 only at the end. */
weft_status wefti_input_read(weft_ctx *ctx, wefti_input *input, char *out,
                             int64_t capacity, int64_t *n) WEFT_CHECKED;

/* All bytes of one. [out] *bytes owned by the caller (wefti_free), NULL on failure. */
weft_status wefti_input_read_all(weft_ctx *ctx, const char *path, char **bytes,
                                 int64_t *n) WEFT_CHECKED;

void wefti_input_close(weft_ctx *ctx, wefti_input *input); /* NULL is accepted */
