/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Bytes or text that grow at the end. The first failure is kept in `status`, and what
 * comes after it does nothing, so that a page can be written without a check per line.
 * Start with {0}. There is always a NUL after the bytes once something was put. */
typedef struct wefti_buffer {
    char *bytes; /* owned */
    int64_t n, capacity;
    weft_status status;
} wefti_buffer;

void wefti_buffer_fini(weft_ctx *ctx, wefti_buffer *buffer);

/* Makes room for n_bytes more, so that putting them allocates nothing. */
void wefti_buffer_reserve(weft_ctx *ctx, wefti_buffer *buffer, int64_t n_bytes);

void wefti_buffer_put(weft_ctx *ctx, wefti_buffer *buffer, const void *bytes,
                      int64_t n_bytes);
void wefti_buffer_text(weft_ctx *ctx, wefti_buffer *buffer, const char *text);

/* As printf; for text and whole numbers (real ones would follow the process's locale). */
void wefti_buffer_print(weft_ctx *ctx, wefti_buffer *buffer, const char *format, ...)
    WEFT_PRINTF(3, 4);

/* The shortest decimal that reads back as the same double; null if it is not finite. */
void wefti_buffer_real(weft_ctx *ctx, wefti_buffer *buffer, double value);

/* The same with seven digits, whole numbers exactly. */
void wefti_buffer_short(weft_ctx *ctx, wefti_buffer *buffer, double value);

/* "text" with JSON's escapes; bytes that are not UTF-8 become U+FFFD. '<' is escaped too:
 * no text can end or open a <script> that the JSON stands in. */
void wefti_buffer_json(weft_ctx *ctx, wefti_buffer *buffer, const char *text);
