/* SPDX-License-Identifier: MIT */
#pragma once

/* A product by blocks (gemm_bf16.c): how a part of C is computed, and which thread takes it. */

#include "kernels/isa/bf16.h"
#include "kernels/isa/product.h"
#include "kernels/isa/strips.h"

/* The block of B fills three quarters of a cache of 1 MB. */
enum { ROWS = 128, COLUMNS = 768, LINE_BYTES = 4 * 192 };

/* One way to pack and to multiply. */
typedef struct coding {
    int64_t terms; /* of a block; a line of one takes LINE_BYTES */
    /* p has at most COLUMNS columns and `terms` terms; room for ROWS lines of A, and for
     * COLUMNS of B. */
    void (*multiply)(const product *p, void *a, void *b);
} coding;

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* ROWS rows of p from row m on, or fewer at the end. */
static inline product rows_of(const product *p, int64_t m) {
    return part_of(p, (span){m, least(m + ROWS, p->M)}, (span){0, p->N});
}

static inline void pack_as_f32(bool rounds, bool rows, const float *x, int64_t ld,
                               int64_t lines, int64_t terms, void *strips) {
    float *to = strips;
    pack_strips(rows, x, ld, lines, terms, to);
    if (!rounds) return;
    int64_t n = (lines + LANES - 1) / LANES * LANES * terms;
    for (int64_t i = 0; i < n; i += LANES) store(to + i, round_bf16(load(to + i)));
}

/* The rows x columns numbers of a factor as f32, `*ld` apart: where they lie, or in room. */
static inline const float *widened(const void *x, bool half, int64_t *ld, span shape,
                                   float *room) {
    int64_t rows = shape.begin, columns = shape.end;
    if (!half) return x;
    for (int64_t r = 0; r < rows; r++) {
        const uint16_t *from = (const uint16_t *)x + r * *ld;
        float *to = room + r * columns;
        int64_t i = 0;
        for (; i + LANES <= columns; i += LANES) store(to + i, load_half(from + i));
        if (i < columns)
            store_part(to + i, load_half_part(from + i, columns - i), columns - i);
    }
    *ld = columns;
    return room;
}

/* The same of the left and the right factor. */
static inline const float *left_of(const product *p, int64_t *ld, float *room) {
    *ld = p->lda;
    return widened(p->A, p->half_a, ld, p->ta ? (span){p->K, p->M} : (span){p->M, p->K},
                   room);
}

static inline const float *right_of(const product *p, int64_t *ld, float *room) {
    *ld = p->ldb;
    return widened(p->B, p->half_b, ld, p->tb ? (span){p->N, p->K} : (span){p->K, p->N},
                   room);
}

static inline void tiles_as_f32(const product *p, const float *a, const float *b) {
    const float *row[TILE_ROWS];
    for (int64_t n = 0; n < p->N; n += TILE_COLUMNS) {
        const float *b1 = b + n * p->K, *b2 = n + LANES < p->N ? b1 + LANES * p->K : b1;
        for (int64_t m = 0; m < p->M; m += TILE_ROWS) {
            const float *strip = a + m / LANES * LANES * p->K + m % LANES;
            for (int i = 0; i < TILE_ROWS; i++) row[i] = strip + i;
            tile t = tile_multiply(tile_zero(), p->K, row, LANES, b1, b2);
            for (int i = 0; i < TILE_ROWS; i++) {
                t.v[i][0] *= p->alpha;
                t.v[i][1] *= p->alpha;
            }
            tile_store(t, p->M - m, p->N - n, p->beta, (float *)p->C + m * p->ldc + n,
                       p->ldc);
        }
    }
}

static inline void multiply_f32(const product *p, bool rounds, void *a, void *b) {
    float room[COLUMNS * LINE_BYTES / 4];
    int64_t ld;
    const float *right = right_of(p, &ld, room);
    pack_as_f32(rounds, p->tb, right, ld, p->N, p->K, b);
    for (int64_t m = 0; m < p->M; m += ROWS) {
        product rows = rows_of(p, m);
        const float *left = left_of(&rows, &ld, room);
        pack_as_f32(rounds, !p->ta, left, ld, rows.M, p->K, a);
        tiles_as_f32(&rows, a, b);
    }
}

/* C is f32, and there is no bias. */
static inline void multiply_coded(const product *whole, const coding *how) {
    _Alignas(64) char a[ROWS * LINE_BYTES], b[COLUMNS * LINE_BYTES];
    int64_t k = 0;
    do { /* once without terms too: C = beta C */
        product p = terms_of(whole, (span){k, least(k + how->terms, whole->K)});
        for (int64_t n = 0; n < p.N; n += COLUMNS) {
            span columns = {n, least(n + COLUMNS, p.N)};
            product block = part_of(&p, (span){0, p.M}, columns);
            how->multiply(&block, a, b);
        }
    } while ((k += how->terms) < whole->K);
}

/* The part of C that a thread takes at a time: rows and columns, multiples of 16. */
typedef struct patch {
    int64_t rows, columns;
} patch;

/* Cost in multiplications until all patches are done: those of a thread's share, packing
 * the rows and columns of each patch (PACKING multiplications per element), and a quarter
 * of a patch during which the others wait for the last thread. */
static inline double patches_cost(const product *p, patch size, int t) {
    enum { PACKING = 32 };
    double rows = (double)least(size.rows, p->M),
           columns = (double)least(size.columns, p->N);
    double one = rows * columns + PACKING * (rows + columns);
    double n = (double)(parts(p->M, size.rows) * parts(p->N, size.columns));
    return one * (n > t ? n : t) / t + one / 4;
}

static inline patch cheapest_patch(const product *p, int t) {
    patch best = {512, COLUMNS};
    for (int64_t rows = 128; rows <= 1024; rows *= 2)
        for (int64_t columns = COLUMNS / 4; columns <= COLUMNS; columns *= 2) {
            patch size = {rows, columns};
            if (patches_cost(p, size, t) < patches_cost(p, best, t)) best = size;
        }
    return best;
}

/* A thread that is free takes the next patch. So a thread that another program preempts
 * delays the others by one patch, not by its whole share. The bits do not depend on which
 * thread computes a patch. */
static inline void multiply_patches(const product *p, patch size,
                                    void (*multiply)(const product *), int t) {
    int64_t down = parts(p->M, size.rows), across = parts(p->N, size.columns);
    (void)t; /* without OpenMP */
#pragma omp parallel for num_threads(t) schedule(dynamic) if (t > 1)
    for (int64_t i = 0; i < down * across; i++) {
        int64_t m = i % down * size.rows, n = i / down * size.columns;
        product part = part_of(p, (span){m, least(m + size.rows, p->M)},
                               (span){n, least(n + size.columns, p->N)});
        multiply(&part);
    }
}

static inline void multiply_all(const product *p, void (*multiply)(const product *)) {
    int t = threads_for(p);
    if (t == 1)
        multiply(p);
    else
        multiply_patches(p, cheapest_patch(p, t), multiply, t);
}

static inline void blocks_unrounded(const product *p, void *a, void *b) {
    multiply_f32(p, false, a, b);
}

/* Factors and C are f32. */
static inline void multiply_unrounded(const product *p) {
    static const coding unrounded = {LINE_BYTES / 4, blocks_unrounded};
    multiply_coded(p, &unrounded);
}
