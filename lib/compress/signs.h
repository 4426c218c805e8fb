/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* Signs of three values on the wire, 2 bits each: element i has bits 2 (i mod 4) and the
 * next of byte i / 4.
 *
 *     0: 0     1: 1     2: -1     3: not finite, decoded to NaN
 *
 * A value below WEFTI_STILL (compress/spectrum.h) counts as 0, because what is left of a
 * momentum that decays has a sign for ever. Unused bits are zero. */

int64_t wefti_signs_bytes(int64_t n);

/* out [wefti_signs_bytes(n)] */
void wefti_signs_encode(int64_t n, const float *x, unsigned char *out);

/* Unused bits that are not zero are WEFT_ERR_WIRE. */
weft_status wefti_signs_decode(weft_ctx *ctx, int64_t n, const unsigned char *in,
                               float *x) WEFT_CHECKED;

/* The signs that decoding the encoded x would give. */
void wefti_signs_of(int64_t n, const float *x, float *signs);
