/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Numbers in 2 bits each: four bins of width 1.5 standard deviations around the mean, and
 * a table of what each bin stands for, the mean of the numbers in it (SparseLoCo, arXiv
 * 2508.15706). Runs of WEFTI_BINS_RUN numbers, the last one shorter:
 *
 *     offset  bytes
 *          0      8  what bins 0 to 3 stand for, bf16 each; 0 for an empty one
 *          8   n/4, rounded up: number i has bits 2 (i mod 4) and the next of byte i / 4
 *
 * Bits after the last number are zero. A run with a number that is not finite has four
 * NaN (0x7fc0) and zeros: all of it is NaN for the receiver. */
enum { WEFTI_BINS_RUN = 512 };

int64_t wefti_bins_bytes(int64_t n);

/* [in,out] x[n]: afterwards what decode gives. out [wefti_bins_bytes(n)] */
void wefti_bins_encode(int64_t n, float *x, unsigned char *out);

/* Bytes that encode cannot have written are WEFT_ERR_WIRE. */
weft_status wefti_bins_decode(weft_ctx *ctx, int64_t n, const unsigned char *in,
                              float *x) WEFT_CHECKED;
