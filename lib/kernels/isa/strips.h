/* SPDX-License-Identifier: MIT */
#pragma once

/* Matrix products from strips. A strip holds LANES lines of a matrix, interleaved term by
 * term: strip[term * LANES + line]. The lines are rows of the left factor or columns of
 * the right one, the terms are the index of the sum. A tile is TILE_ROWS rows of the left
 * factor times two strips of the right one, and is kept in registers. */

#include "kernels/isa/lanes.h"

#include <stdbool.h>

enum { TILE_ROWS = LANES == 16 ? 8 : 4, TILE_COLUMNS = 2 * LANES };

#define STRIPS_INLINE static inline __attribute__((always_inline))

/* rows[i] becomes column i. Interleaving row i with row i + LANES/2 rotates the bits of
 * (row, column) by one; log2(LANES) times exchange them. */
STRIPS_INLINE void transpose(vfloat rows[LANES]) {
    for (int width = 1; width < LANES; width *= 2) {
        vfloat next[LANES];
        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = interleave_low(rows[i], rows[i + LANES / 2]);
            next[2 * i + 1] = interleave_high(rows[i], rows[i + LANES / 2]);
        }
        for (int i = 0; i < LANES; i++) rows[i] = next[i];
    }
}

/* Packs one strip of lines that are rows: line l at x + l * ld. Meanwhile the rows of the
 * next strip are prefetched: they are too far apart for the hardware prefetcher. */
static inline void pack_rows(const float *x, int64_t ld, int64_t lines, int64_t terms,
                             float *strip) {
    int64_t t = 0;
    for (; t + LANES <= terms; t += LANES) {
        vfloat rows[LANES];
        if (lines >= LANES)
            for (int i = 0; i < LANES; i++) rows[i] = load(x + i * ld + t);
        if (lines >= 2 * LANES)
            for (int i = 0; i < LANES; i++) __builtin_prefetch(x + (LANES + i) * ld + t);
        if (lines < LANES)
            for (int i = 0; i < LANES; i++)
                rows[i] = i < lines ? load(x + i * ld + t) : (vfloat){0};
        transpose(rows);
        for (int i = 0; i < LANES; i++) store(strip + (t + i) * LANES, rows[i]);
    }
    for (; t < terms; t++)
        for (int i = 0; i < LANES; i++)
            strip[t * LANES + i] = i < lines ? x[i * ld + t] : 0.0f;
}

/* The strips of `lines` columns: term t at x + t * ld. */
static inline void pack_columns(const float *x, int64_t ld, int64_t lines, int64_t terms,
                                float *strips) {
    for (int64_t t = 0; t < terms; t++) {
        float *to = strips + t * LANES;
        int64_t l = 0;
        for (; l + LANES <= lines; l += LANES, to += terms * LANES)
            store(to, load(x + t * ld + l));
        if (l < lines) store(to, load_part(x + t * ld + l, lines - l));
    }
}

/* Packs all strips of lines x terms; lines beyond the end of the last strip are 0. The
 * lines are rows of x[lines, terms], or columns of x[terms, lines]. */
static inline void pack_strips(bool rows, const float *x, int64_t ld, int64_t lines,
                               int64_t terms, float *strips) {
    if (!rows) {
        pack_columns(x, ld, lines, terms, strips);
        return;
    }
    for (int64_t l = 0; l < lines; l += LANES)
        pack_rows(x + l * ld, ld, lines - l, terms, strips + l * terms);
}

typedef struct tile {
    vfloat v[TILE_ROWS][2];
} tile;

STRIPS_INLINE tile tile_zero(void) {
    tile t;
    for (int i = 0; i < TILE_ROWS; i++) t.v[i][0] = t.v[i][1] = (vfloat){0};
    return t;
}

/* tile += sum over terms of a[row][term] (b1 | b2)[term]; term t of row i of the left
 * factor is a[i][t * step]. */
STRIPS_INLINE tile tile_multiply(tile acc, int64_t terms, const float *const a[TILE_ROWS],
                                 int64_t step, const float *b1, const float *b2) {
    for (int64_t t = 0; t < terms; t++) {
        vfloat left = load(b1 + t * LANES), right = load(b2 + t * LANES);
        for (int i = 0; i < TILE_ROWS; i++) {
            vfloat x = splat(a[i][t * step]);
            acc.v[i][0] += x * left;
            acc.v[i][1] += x * right;
        }
    }
    return acc;
}

/* c = v + beta c for the first n of LANES floats; none if n <= 0. */
STRIPS_INLINE void store_sum(vfloat v, int64_t n, float beta, float *c) {
    if (n >= LANES)
        store(c, beta == 0 ? v : v + load(c) * beta);
    else if (n > 0)
        store_part(c, beta == 0 ? v : v + load_part(c, n) * beta, n);
}

STRIPS_INLINE void tile_store_part(tile acc, int64_t rows, int64_t columns, float beta,
                                   float *c, int64_t ldc) {
    for (int i = 0; i < TILE_ROWS; i++) {
        if (i >= rows) break;
        store_sum(acc.v[i][0], columns, beta, c + i * ldc);
        store_sum(acc.v[i][1], columns - LANES, beta, c + i * ldc + LANES);
    }
}

/* c[rows, columns] = tile + beta c, limited to the size of c. */
STRIPS_INLINE void tile_store(tile acc, int64_t rows, int64_t columns, float beta,
                              float *c, int64_t ldc) {
    if (rows >= TILE_ROWS && columns >= TILE_COLUMNS)
        tile_store_part(acc, TILE_ROWS, TILE_COLUMNS, beta, c, ldc);
    else
        tile_store_part(acc, rows, columns, beta, c, ldc);
}

STRIPS_INLINE tile tile_scale_rows(tile acc, const float *scale) {
    for (int i = 0; i < TILE_ROWS; i++) {
        acc.v[i][0] *= scale[i];
        acc.v[i][1] *= scale[i];
    }
    return acc;
}
