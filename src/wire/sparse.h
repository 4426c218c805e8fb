/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_SPARSE_H
#define WEFTI_SPARSE_H

#include <weft/ctx.h>

/* The sparse section of a message (docs/wire-format.md): for n_chunks chunks of which k
 * of `elements` coefficients were kept,
 *
 *     indices   n_chunks * k numbers of ceil(log2 elements) bits, lowest bit first,
 *               ascending inside a chunk; the last byte is filled with zeros
 *     values    n_chunks * k f32, little endian
 */
typedef struct wefti_sparse {
    int64_t n_chunks, k, elements;
} wefti_sparse;

int64_t wefti_sparse_bytes(const wefti_sparse *s);

/* Chunks [first, first + n) of the section, written or read in any order. `first` must be
 * a multiple of 8, so that their indices begin on a byte. */
void wefti_sparse_encode(const wefti_sparse *s, int64_t first, int64_t n,
                         const int32_t *indices, const float *values,
                         unsigned char *section);

/* Refuses (WEFT_ERR_WIRE) indices that are not ascending or not below `elements`. */
weft_status wefti_sparse_decode(weft_ctx *ctx, const wefti_sparse *s, int64_t first,
                                int64_t n, const unsigned char *section, int32_t *indices,
                                float *values) WEFT_CHECKED;

#endif
