/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdint.h>

/* How a tensor block is cut into chunks. dims = 1: chunks of c along the flattened block;
 * dims = 2: blocks of c x c. A ragged end is padded with zeros. A chunk is `lines` lines
 * of c elements; only part of a line at the edge, or nothing, lies in the tensor. */
typedef struct wefti_chunks {
    int64_t c, lines, elements; /* of a chunk; elements = lines * c */
    int64_t k;                  /* coefficients kept per chunk */
    int64_t n;                  /* chunks */
    int64_t rows, cols;         /* of the tensor (1-D: 1 x its length) */
    int64_t across;             /* chunks side by side in a row of chunks */
} wefti_chunks;

/* A vector (cols == 1) is always cut in 1-D; if dims is 2 it keeps max(1, k/c) per chunk,
 * so that its rate is the matrix's. */
wefti_chunks wefti_chunks_make(int dims, int64_t c, int64_t k, int64_t rows,
                               int64_t cols);

/* Where line `line` of chunk `chunk` begins in the tensor; returns how many of its c
 * elements lie in the tensor, at least 0. */
int64_t wefti_chunks_line(const wefti_chunks *s, int64_t chunk, int64_t line,
                          int64_t *offset);

/* Chunks [first, first + n): tensor -> x[n, elements] with zero padding; tensor <- x. */
void wefti_chunks_load(const wefti_chunks *s, int64_t first, int64_t n,
                       const float *tensor, float *x);
void wefti_chunks_store(const wefti_chunks *s, int64_t first, int64_t n, const float *x,
                        float *tensor);

/* Bytes of one chunk's bits: its elements / 8, rounded up. */
int64_t wefti_chunks_bits_bytes(const wefti_chunks *s);
