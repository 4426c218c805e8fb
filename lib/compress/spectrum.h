/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "compress/chunks.h"
#include "kernels/kernels.h"

/* The hot loop of decoupled momentum: momentum -> chunks -> DCT -> k largest, and back.
 * Works on a batch of neighbouring chunks that stays in cache, one batch per thread; a
 * tensor is a loop over batches, in ascending order per thread. Lengths that are powers
 * of two go through a factored transform, 64 (and 64 x 64) through the fastest paths,
 * every other one through products with the DCT's matrix.
 *
 * The result does not depend on how batches are cut or on which thread does which batch.
 * In its last bits it does depend on the instruction set. */

typedef struct wefti_spectrum wefti_spectrum;

/* Orthonormal DCT-II of length c as a matrix: X = basis x, x = basis^T X, with
 * basis[f][i] = s(f) cos(pi (2 i + 1) f / (2 c)), s(0) = sqrt(1/c), else sqrt(2/c). */
void wefti_dct_basis(int64_t c, float *basis);

/* Makes what batches of one cut need: tables, and scratch for `threads` threads; 2 <= c
 * <= 1024. It serves every tensor that is cut with (dims, c), including vectors under
 * dims = 2. dims = 0: chunks of 1-D without a transform, only for select, whose coefficients
 * are the momentum's elements. The instruction set is that of `kernels`: "reference" runs the plain
 * definition. */
weft_status wefti_spectrum_create(weft_ctx *ctx, const wefti_kernels *kernels, int dims,
                                  int64_t c, int threads,
                                  wefti_spectrum **out) WEFT_CHECKED;
void wefti_spectrum_destroy(weft_ctx *ctx, wefti_spectrum *spectrum);
/* Bytes that create takes, rounding of the allocator included. */
int64_t wefti_spectrum_cost(int dims, int64_t c, int threads);

/* The fastest number of chunks per batch: in 1-D a multiple of 16, in 2-D whole rows of
 * chunks, or an even part of a very long row. This is only advice: the calls below take
 * any n and keep nothing between them. Batches that begin elsewhere than at multiples of
 * it take more time but give the same result. */
int64_t wefti_spectrum_batch(const wefti_chunks *s);

/* How the momentum takes the gradient in: m <- decay m + gain g. */
typedef struct wefti_momentum {
    float decay, gain;
} wefti_momentum;

/* Chunks [first, first + n) of the cut s: takes g into m, transforms, and returns the
 * s->k largest coefficients of each chunk: indices[n * k] ascending inside a chunk,
 * values[n * k]. Largest by magnitude, ties to the lower index, a NaN before everything.
 * g and m are the whole tensor's. No other thread may touch the part of m that belongs to
 * these chunks. g NULL: m is used as it is. */
void wefti_spectrum_select(wefti_spectrum *spectrum, int thread, const wefti_chunks *s,
                           int64_t first, int64_t n, const wefti_momentum *momentum,
                           const float *g, float *m, int32_t *indices, float *values);

/* m <- m - alpha IDCT(q) for the coefficients q of chunks [first, first + n). */
void wefti_spectrum_subtract(wefti_spectrum *spectrum, int thread, const wefti_chunks *s,
                             int64_t first, int64_t n, float alpha,
                             const int32_t *indices, const float *values, float *m);

/* Smaller values move nothing where signs are taken. A momentum without gradient never
 * becomes 0: what was sent is taken out of it except for rounding, down to the smallest
 * denormal. The inverse of a few of those is mostly exact zeros, and the sign of 0 would
 * push all of them the same way in every step. 2^-63 is far below every momentum that
 * means anything and far above the denormals. */
#define WEFTI_STILL 0x1p-63f
#define WEFTI_STILL_BITS 0x20000000 /* as an integer: magnitudes compare alike */

/* What becomes of the inverted chunk. */
typedef enum wefti_direction {
    WEFTI_DIRECTION_VALUE, /* d <- IDCT(Q) */
    WEFTI_DIRECTION_SIGN   /* d <- its sign: 1 where >= 0, else -1; a chunk all of whose
                              coefficients are below WEFTI_STILL (or has none) is 0; one
                              with a coefficient that is not finite is NaN */
} wefti_direction;

/* Q <- per coefficient the mean over those of the R lists that have it with a value other
 * than 0, added in the order of the lists; d[chunks first..first+n) <- IDCT(Q).
 * indices[r], values[r]: [n * k] each. The bits do not depend on how n and first are
 * cut. */
void wefti_spectrum_combine(wefti_spectrum *spectrum, int thread, const wefti_chunks *s,
                            int64_t first, int64_t n, int R,
                            const int32_t *const *indices, const float *const *values,
                            wefti_direction direction, float *d);

/* The state of a chunk's signs, in one byte. */
enum {
    WEFTI_SIGNS_ZERO,      /* every coefficient is below WEFTI_STILL: the signs are 0 */
    WEFTI_SIGNS_BITS,      /* the signs are in the chunk's bits */
    WEFTI_SIGNS_NOT_FINITE /* some coefficient is not finite: the signs are NaN */
};

/* As combine with WEFTI_DIRECTION_SIGN, but into states[n] and bits[n][bits_bytes]: bit
 * i % 8 of byte i / 8 is 1 where element i of the chunk is below 0. Elements outside the
 * tensor have bits too; the bits of a chunk without signs, and those that fill the last
 * byte, are 0. */
void wefti_spectrum_combine_signs(wefti_spectrum *spectrum, int thread,
                                  const wefti_chunks *s, int64_t first, int64_t n, int R,
                                  const int32_t *const *indices,
                                  const float *const *values, unsigned char *states,
                                  unsigned char *bits);

/* d[chunks first..first+n) <- 1, -1, 0 or NaN, from the states and bits of those chunks:
 * the same d as combine's. A state that is none of the above counts as NOT_FINITE. */
void wefti_chunks_store_bits(const wefti_spectrum *spectrum, const wefti_chunks *s,
                             int64_t first, int64_t n, const unsigned char *states,
                             const unsigned char *bits, float *d);
