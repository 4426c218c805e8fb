/* SPDX-License-Identifier: MIT */
#pragma once

#include "wire/binomials.h"

/* Sets of k of `elements` indices as numbers below the table's total, several joined. */

/* Writes the sets of n chunks: indices[n * k], ascending inside a chunk. */
void wefti_enumerative_encode(const wefti_binomials *t, int64_t n, const int32_t *indices,
                              wefti_bit_writer *out);

/* Reads them back; returns the first chunk whose number belongs to no set, n if there is
 * none. */
int64_t wefti_enumerative_decode(const wefti_binomials *t, int64_t n,
                                 wefti_bit_reader *in, int32_t *indices);

/* The same for tables of four. */
void wefti_four_encode(const wefti_binomials *t, int64_t n, const int32_t *indices,
                       wefti_bit_writer *out);
int64_t wefti_four_decode(const wefti_binomials *t, int64_t n, wefti_bit_reader *in,
                          int32_t *indices);

/* The numbers of wide tables, as bytes: the lowest is byte WEFTI_WIDE_PAD, and the bytes
 * before it and as many after the number are zero. set[picked]. */
enum {
    WEFTI_WIDE_PAD = 8,
    WEFTI_WIDE_BYTES = 8 * WEFTI_NUMBER_WORDS + 2 * WEFTI_WIDE_PAD,
    WEFTI_WIDE_LANES = 2
};
void wefti_wide_encode(const wefti_binomials *t, const int32_t *set,
                       unsigned char *number);
/* Decodes n numbers, 1 or WEFTI_WIDE_LANES: one computes while others wait for memory.
 * Returns the first one that belongs to no set, n if there is none. */
int wefti_wide_decode(const wefti_binomials *t, int n,
                      const unsigned char *const *numbers, int32_t *const *sets);
