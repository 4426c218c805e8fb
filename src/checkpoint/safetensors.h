/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_SAFETENSORS_H
#define WEFTI_SAFETENSORS_H

#include <weft/ctx.h>

/* The safetensors file format: u64 header length, JSON header, then the tensors' bytes in
 * header order without gaps. f32 only when written; sharded writers fill row blocks in place
 * (a row block of a row-major tensor is one byte range). */

typedef struct wefti_tensor_spec {
    const char *name; /* borrowed */
    int ndim;         /* 1 or 2 */
    int64_t rows, cols; /* cols = 1 when ndim == 1 */
} wefti_tensor_spec;

typedef struct wefti_safetensors wefti_safetensors;

/* Creates the file at its full size, header written, data zero. `metadata` is a list of
 * key, value, key, value, NULL (may be NULL). Refuses duplicate names. Uses fallocate so that
 * a full disk is found here. */
weft_status wefti_safetensors_create(weft_ctx *ctx, const char *path,
                                     const wefti_tensor_spec *specs, int n,
                                     const char *const *metadata,
                                     wefti_safetensors **out) WEFT_CHECKED;

/* Opens for reading (writable = false) or for filling row blocks of a file that another rank
 * created. The header is checked: length, JSON, dtypes, shapes, offsets contiguous and inside
 * the file, no duplicate names. */
weft_status wefti_safetensors_open(weft_ctx *ctx, const char *path, bool writable,
                                   wefti_safetensors **out) WEFT_CHECKED;

int wefti_safetensors_count(const wefti_safetensors *file);
const wefti_tensor_spec *wefti_safetensors_spec(const wefti_safetensors *file, int index);
int wefti_safetensors_find(const wefti_safetensors *file, const char *name); /* or -1 */
/* Value of a metadata key, or NULL. */
const char *wefti_safetensors_metadata(const wefti_safetensors *file, const char *key);

/* Rows [row_begin, row_begin + n_rows) of a tensor. Reading converts F16 and BF16 to f32. */
weft_status wefti_safetensors_write_rows(weft_ctx *ctx, wefti_safetensors *file, int index,
                                         int64_t row_begin, int64_t n_rows,
                                         const float *data) WEFT_CHECKED;
weft_status wefti_safetensors_read_rows(weft_ctx *ctx, const wefti_safetensors *file, int index,
                                        int64_t row_begin, int64_t n_rows,
                                        float *data) WEFT_CHECKED;

/* Syncs (if writable) and closes; the status says whether everything reached the disk. */
weft_status wefti_safetensors_close(weft_ctx *ctx, wefti_safetensors *file) WEFT_CHECKED;

#endif
