/* SPDX-License-Identifier: MIT */
/* Keys and values of protobuf fields. A varint of 64 bits takes at most ten bytes. */
#include "record/protobuf.h"

#include <string.h>

void wefti_put_little(weft_ctx *ctx, wefti_buffer *out, uint64_t value, int n_bytes) {
    unsigned char bytes[8];
    for (int i = 0; i < n_bytes; i++) bytes[i] = (unsigned char)(value >> (8 * i));
    wefti_buffer_put(ctx, out, bytes, n_bytes);
}

static void put_varint(weft_ctx *ctx, wefti_buffer *out, uint64_t value) {
    unsigned char bytes[10];
    int n = 0;
    for (; value >= 128; value >>= 7) bytes[n++] = (unsigned char)(value | 128);
    bytes[n++] = (unsigned char)value;
    wefti_buffer_put(ctx, out, bytes, n);
}

void wefti_put_field(weft_ctx *ctx, wefti_buffer *out, int field, wefti_wire_type type) {
    put_varint(ctx, out, (uint64_t)field << 3 | (uint64_t)type);
}

void wefti_put_bytes(weft_ctx *ctx, wefti_buffer *out, int field, const void *bytes,
                     int64_t n_bytes) {
    wefti_put_field(ctx, out, field, WEFTI_BYTES);
    put_varint(ctx, out, (uint64_t)n_bytes);
    if (n_bytes > 0) wefti_buffer_put(ctx, out, bytes, n_bytes);
}

void wefti_put_string(weft_ctx *ctx, wefti_buffer *out, int field, const char *text) {
    wefti_put_bytes(ctx, out, field, text, (int64_t)strlen(text));
}

void wefti_put_double(weft_ctx *ctx, wefti_buffer *out, int field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    wefti_put_field(ctx, out, field, WEFTI_FIXED64);
    wefti_put_little(ctx, out, bits, 8);
}

void wefti_put_int(weft_ctx *ctx, wefti_buffer *out, int field, uint64_t value) {
    wefti_put_field(ctx, out, field, WEFTI_VARINT);
    put_varint(ctx, out, value);
}
