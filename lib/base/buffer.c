/* SPDX-License-Identifier: MIT */
/* Text that grows in memory, numbers with the fewest digits that read back to the same
 * value, JSON strings. The first failure is kept in the buffer, so that a caller can
 * write a whole page and check once. */
#include "base/buffer.h"
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

void wefti_buffer_fini(weft_ctx *ctx, wefti_buffer *buffer) {
    wefti_free(ctx, buffer->bytes);
    *buffer = (wefti_buffer){0};
}

void wefti_buffer_reserve(weft_ctx *ctx, wefti_buffer *buffer, int64_t n_bytes) {
    if (buffer->status != WEFT_OK) return;
    if (n_bytes < buffer->capacity - buffer->n)
        return; /* one byte is reserved for the NUL */
    int64_t more = buffer->capacity ? buffer->capacity : 256;
    while (more <= buffer->n + n_bytes) more *= 2;
    buffer->status = wefti_grow(ctx, &buffer->bytes, buffer->n, more, 1, "text");
    if (buffer->status == WEFT_OK) buffer->capacity = more;
}

void wefti_buffer_put(weft_ctx *ctx, wefti_buffer *buffer, const void *bytes,
                      int64_t n_bytes) {
    wefti_buffer_reserve(ctx, buffer, n_bytes);
    if (buffer->status != WEFT_OK) return;
    if (n_bytes) memcpy(buffer->bytes + buffer->n, bytes, (size_t)n_bytes);
    buffer->n += n_bytes;
    buffer->bytes[buffer->n] = '\0';
}

void wefti_buffer_text(weft_ctx *ctx, wefti_buffer *buffer, const char *text) {
    wefti_buffer_put(ctx, buffer, text, (int64_t)strlen(text));
}

void wefti_buffer_print(weft_ctx *ctx, wefti_buffer *buffer, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (n >= 0) wefti_buffer_reserve(ctx, buffer, n);
    if (n >= 0 && buffer->status == WEFT_OK) {
        vsnprintf(buffer->bytes + buffer->n, (size_t)n + 1, format, again);
        buffer->n += n;
    }
    va_end(again);
}

/* ---- numbers ---- */

/* Appends a number that printf wrote, with a point in place of the locale's decimal mark. */
static void put_number(weft_ctx *ctx, wefti_buffer *buffer, const char *text) {
    while (*text) {
        size_t plain = strspn(text, "+-0123456789e.");
        wefti_buffer_put(ctx, buffer, text, (int64_t)plain);
        text += plain;
        size_t other = strcspn(text, "+-0123456789e.");
        if (other) wefti_buffer_text(ctx, buffer, ".");
        text += other;
    }
}

void wefti_buffer_real(weft_ctx *ctx, wefti_buffer *buffer, double value) {
    char text[40];
    if (!isfinite(value)) {
        wefti_buffer_text(ctx, buffer, "null");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        wefti_with_point(text);
        if (wefti_strtod(text, NULL) == value) break;
    }
    put_number(ctx, buffer, text);
}

void wefti_buffer_short(weft_ctx *ctx, wefti_buffer *buffer, double value) {
    char text[40];
    bool whole = fabs(value) < 1e15 && value == rint(value);
    snprintf(text, sizeof text, "%.*g", whole ? 15 : 7, value);
    if (isfinite(value))
        put_number(ctx, buffer, text);
    else
        wefti_buffer_text(ctx, buffer, "null");
}

/* ---- escapes ---- */

/* Number of bytes of the UTF-8 character at `text`; 0 if they are not valid UTF-8. */
static int character_length(const unsigned char *text) {
    if (text[0] < 0x80) return 1;
    int n = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4) return 0;
    for (int i = 1; i < n; i++)
        if ((text[i] & 0xc0) != 0x80) return 0;
    if (n == 3 && text[0] == 0xe0 && text[1] < 0xa0) return 0; /* longer than needed */
    if (n == 3 && text[0] == 0xed && text[1] > 0x9f) return 0; /* half of a UTF-16 pair */
    if (n == 4 && text[0] == 0xf0 && text[1] < 0x90) return 0;
    if (n == 4 && text[0] == 0xf4 && text[1] > 0x8f) return 0; /* past U+10FFFF */
    return n;
}

static const char *json_escape(unsigned char c, char out[8]) {
    if (c >= 0x20 && c != '"' && c != '\\' && c != '<' && c != 0x7f) return NULL;
    if (c == '"' || c == '\\')
        snprintf(out, 8, "\\%c", c);
    else
        snprintf(out, 8, "\\u%04x", (unsigned)c);
    return out;
}

void wefti_buffer_json(weft_ctx *ctx, wefti_buffer *buffer, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    wefti_buffer_text(ctx, buffer, "\"");
    while (*at) {
        char room[8];
        int n = character_length(at);
        const char *other = n == 0 ? replacement : json_escape(*at, room);
        if (other)
            wefti_buffer_text(ctx, buffer, other);
        else
            wefti_buffer_put(ctx, buffer, at, n);
        at += n ? n : 1;
    }
    wefti_buffer_text(ctx, buffer, "\"");
}
