/* SPDX-License-Identifier: MIT */
#pragma once

#include "kernels/isa.h"
#include "wire/section.h"

/* Where the values of a block are. */
typedef struct wefti_value_place {
    int64_t first, n; /* number of the first value in its section; number of values */
    int64_t at;       /* their first byte in the block; a scale is bytes 0 and 1 */
} wefti_value_place;

/* How the values of a block become bits. */
typedef struct wefti_value_ops {
    const char *name;
    int bits;    /* per value */
    bool scaled; /* the block begins with a scale */
    /* [in,out] values[n]: afterwards what decode will return. */
    void (*encode)(const wefti_value_place *place, const wefti_rounding *rounding,
                   float *values, unsigned char *block);
    /* Returns NULL, or what the block has that encode does not write. */
    const char *(*decode)(const wefti_value_place *place, const unsigned char *block,
                          float *values);
    /* The same bits for the first n_full blocks, full ones without indices. */
    void (*encode_blocks)(const wefti_blocks *blocks, int64_t n_full,
                          const wefti_rounding *rounding, unsigned char *out);
    const char *(*decode_blocks)(const wefti_blocks *blocks, int64_t n_full,
                                 const unsigned char *in);
} wefti_value_ops;

/* For this processor's instruction set; all give the same bits. */
const wefti_value_ops *wefti_value_ops_of(wefti_value_codec codec);

/* For an instruction set that need not be the best; NULL if the processor does not have
 * it. */
const wefti_value_ops *wefti_value_ops_for(wefti_isa isa, wefti_value_codec codec);
