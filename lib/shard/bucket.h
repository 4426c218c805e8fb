/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* What travels in one message: pieces, the row blocks of tensors that a rank holds, one
 * after another in a flat buffer. */

typedef struct wefti_piece {
    int64_t rows, cols; /* a matrix block; cols = 1: a vector */
    int64_t offset;     /* of its first element in the bucket */
    bool decays;        /* weight decay applies; used by optimizers */
    int tensor;         /* its number in the model: random draws differ by tensor */
} wefti_piece;

typedef struct wefti_bucket {
    int n_pieces;
    const wefti_piece *pieces; /* borrowed */
    int64_t n_elements;
} wefti_bucket;

/* Whether messages about two buckets have the same lengths. Layers are alike, and so are their
 * buckets: with many owners asking again for each takes as long as playing. */
static inline bool wefti_bucket_is_like(const wefti_bucket *a, const wefti_bucket *b) {
    bool same = a->n_elements == b->n_elements && a->n_pieces == b->n_pieces;
    for (int i = 0; same && i < a->n_pieces; i++)
        same = a->pieces[i].rows == b->pieces[i].rows &&
               a->pieces[i].cols == b->pieces[i].cols &&
               a->pieces[i].offset == b->pieces[i].offset;
    return same;
}
