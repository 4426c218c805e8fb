/* SPDX-License-Identifier: MIT */
#pragma once

#include <jansson.h>

#include "checkpoint/safetensors.h"

enum {
    WEFTI_SAFETENSORS_PREFIX = 8,           /* bytes of the header's length */
    WEFTI_SAFETENSORS_MAX_HEADER = 16 << 20 /* longest header accepted or written */
};

typedef enum wefti_safetensors_dtype {
    WEFTI_DTYPE_F32,
    WEFTI_DTYPE_F16,
    WEFTI_DTYPE_BF16,
    WEFTI_DTYPE_OTHER /* of known size, but not readable as f32 */
} wefti_safetensors_dtype;

typedef struct wefti_safetensors_tensor {
    wefti_tensor_spec spec; /* spec.name is borrowed from `name` */
    char *name;             /* owned */
    const char *dtype_name; /* static */
    wefti_safetensors_dtype dtype;
    int order;              /* position in the header's text */
    int64_t begin, n_bytes; /* bytes, counted from the first byte of the data */
} wefti_safetensors_tensor;

/* The table that a header describes, in the order of the data. */
typedef struct wefti_safetensors_header {
    int n;
    wefti_safetensors_tensor *tensors;        /* owned */
    const wefti_safetensors_tensor **by_name; /* owned; sorted by name */
    int64_t data_bytes;
} wefti_safetensors_header;

/* Builds the JSON text for f32 tensors laid out one after the other, padded with spaces
 * so that the data begins at a multiple of 8 bytes. [out] *text owned by the caller
 * (wefti_free), *data_bytes = sum of the tensors' bytes. `where` is named in errors. */
weft_status wefti_safetensors_header_encode(weft_ctx *ctx, const char *where,
                                            const wefti_tensor_spec *specs, int n,
                                            const char *const *metadata, char **text,
                                            int64_t *n_text,
                                            int64_t *data_bytes) WEFT_CHECKED;

/* Checks and reads a header's JSON text; the tensors must fill data_bytes without gaps or
 * overlaps. On failure *out is empty. */
weft_status wefti_safetensors_header_decode(weft_ctx *ctx, const char *where,
                                            const char *text, int64_t n_text,
                                            int64_t data_bytes,
                                            wefti_safetensors_header *out) WEFT_CHECKED;

void wefti_safetensors_header_fini(weft_ctx *ctx, wefti_safetensors_header *header);
