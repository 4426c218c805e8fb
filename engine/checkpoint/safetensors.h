/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* The safetensors file format: u64 header length, JSON header, then the tensors' bytes in
 * header order without gaps. Only f32 is written; sharded writers fill row blocks in
 * place (a row block of a row-major tensor is one byte range). docs/file-formats.md */

typedef struct wefti_tensor_spec {
    const char *name; /* borrowed */
    int ndim;         /* 1 to 4; in an opened file any number, see read_rows */
    int64_t rows;     /* first dimension; with three dimensions of which the first is 1,
                         the second */
    int64_t cols;     /* product of the others; 1 when ndim == 1 */
    int64_t dims[4];  /* given when ndim is 3 or 4 */
} wefti_tensor_spec;

typedef struct wefti_safetensors wefti_safetensors;

/* Creates the file at its full size, with its header and zeros as data; an older file of
 * that name is replaced. `metadata` is a list of key, value, key, value, NULL (may be
 * NULL). Refuses duplicate names. Reserves the disk space, so that a full disk is
 * detected here; in that case no file remains. Tensor i of the file is specs[i]. */
weft_status wefti_safetensors_create(weft_ctx *ctx, const char *path,
                                     const wefti_tensor_spec *specs, int n,
                                     const char *const *metadata,
                                     wefti_safetensors **out) WEFT_CHECKED;

/* Opens for reading (writable = false) or for filling row blocks of a file that another rank
 * created. The header is checked: length, JSON, dtypes, shapes, offsets contiguous and inside
 * the file, no duplicate names. The file may contain tensors with dtypes or dimensions that
 * weft does not support; reading one of them fails, with its name in the message. */
weft_status wefti_safetensors_open(weft_ctx *ctx, const char *path, bool writable,
                                   wefti_safetensors **out) WEFT_CHECKED;

int wefti_safetensors_count(const wefti_safetensors *file);
/* The index-th tensor in the order of the data; borrowed until close; NULL outside. */
const wefti_tensor_spec *wefti_safetensors_spec(const wefti_safetensors *file, int index);
int wefti_safetensors_find(const wefti_safetensors *file, const char *name); /* or -1 */

/* Rows [row_begin, row_begin + n_rows) of a tensor; data: [n_rows, cols]. Reading
 * converts F16 and BF16 to f32 and refuses other dtypes (I8..I64, U8..U64, F64, BOOL, F8)
 * and tensors that do not have 1 to 4 dimensions. Threads may read and write different
 * rows at once. */
weft_status wefti_safetensors_write_rows(weft_ctx *ctx, wefti_safetensors *file,
                                         int index, int64_t row_begin, int64_t n_rows,
                                         const float *data) WEFT_CHECKED;
weft_status wefti_safetensors_read_rows(weft_ctx *ctx, const wefti_safetensors *file,
                                        int index, int64_t row_begin, int64_t n_rows,
                                        float *data) WEFT_CHECKED;

/* Syncs (if writable) and closes; the status says whether everything reached the disk.
 * The object is freed in any case; NULL is accepted. */
weft_status wefti_safetensors_close(weft_ctx *ctx, wefti_safetensors *file) WEFT_CHECKED;
