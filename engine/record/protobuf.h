/* SPDX-License-Identifier: MIT */
#pragma once

#include "base/buffer.h"

/* Writing of protobuf messages (https://protobuf.dev/programming-guides/encoding), as far as
 * event files need it: a message is its fields one after another, a field is a key and a value.
 * Failures are kept in the buffer's status. */

typedef enum wefti_wire_type {
    WEFTI_VARINT = 0,
    WEFTI_FIXED64 = 1,
    WEFTI_BYTES = 2,
    WEFTI_FIXED32 = 5
} wefti_wire_type;

/* A whole number of n_bytes bytes, the least significant one first. */
void wefti_put_little(weft_ctx *ctx, wefti_buffer *out, uint64_t value, int n_bytes);

/* field << 3 | type. */
void wefti_put_field(weft_ctx *ctx, wefti_buffer *out, int field, wefti_wire_type type);

/* Whole fields: text, bytes or an inner message; a double; a whole number. */
void wefti_put_bytes(weft_ctx *ctx, wefti_buffer *out, int field, const void *bytes,
                     int64_t n_bytes);
void wefti_put_string(weft_ctx *ctx, wefti_buffer *out, int field, const char *text);
void wefti_put_double(weft_ctx *ctx, wefti_buffer *out, int field, double value);
void wefti_put_int(weft_ctx *ctx, wefti_buffer *out, int field, uint64_t value);
