/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Bytes or text that grow at the end. The first failure is kept in `status`, and all later
 * calls do nothing, so that a page can be written without a check per line. Initialize
 * with {0}. After the first call that appends, the bytes are always followed by a NUL. */
typedef struct wefti_buffer {
    char *bytes; /* owned */
    int64_t n, capacity;
    weft_status status;
} wefti_buffer;

void wefti_buffer_fini(weft_ctx *ctx, wefti_buffer *buffer);

/* Makes room for n_bytes more, so that appending them allocates nothing. */
void wefti_buffer_reserve(weft_ctx *ctx, wefti_buffer *buffer, int64_t n_bytes);

void wefti_buffer_put(weft_ctx *ctx, wefti_buffer *buffer, const void *bytes,
                      int64_t n_bytes);
void wefti_buffer_text(weft_ctx *ctx, wefti_buffer *buffer, const char *text);

/* As printf; only for text and whole numbers (the format of real numbers would depend on
 * the locale of the process). */
void wefti_buffer_print(weft_ctx *ctx, wefti_buffer *buffer, const char *format, ...)
    WEFT_PRINTF(3, 4);

/* The shortest decimal that reads back as the same double; null if it is not finite. */
void wefti_buffer_real(weft_ctx *ctx, wefti_buffer *buffer, double value);

/* The same with seven digits; whole numbers are exact. */
void wefti_buffer_short(weft_ctx *ctx, wefti_buffer *buffer, double value);

/* Appends "text" with JSON's escapes; bytes that are not UTF-8 become U+FFFD. '<' is escaped
 * too, so that no text can open or end the <script> element that contains the JSON. */
void wefti_buffer_json(weft_ctx *ctx, wefti_buffer *buffer, const char *text);
