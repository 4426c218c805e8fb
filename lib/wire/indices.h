/* SPDX-License-Identifier: MIT */
#pragma once

#include "wire/bits.h"
#include "wire/section.h"

/* How the indices of chunks become bits. */
typedef struct wefti_index_ops {
    const char *name;
    /* Writes the indices of n chunks of the section: indices[n * k]. */
    void (*encode)(const wefti_section *s, int64_t n, const int32_t *indices,
                   wefti_bit_writer *out);
    /* Reads them back. Returns the first chunk that encode cannot have written, n if
     * there is none. */
    int64_t (*decode)(const wefti_section *s, int64_t n, wefti_bit_reader *in,
                      int32_t *indices);
} wefti_index_ops;

const wefti_index_ops *wefti_index_ops_of(wefti_index_codec codec);
