/* SPDX-License-Identifier: MIT */
/* Matrix products of numbers rounded to bfloat16 by AMX (tiles.h).
 *
 *     C[M,N] = alpha round(op(A))[M,K] round(op(B))[K,N] + beta C
 *
 *     for terms by equal blocks of at most TERMS    each number of C is summed in this
 *       for columns by as many as fit               order, so its bits depend only on K
 *         pack B, each thread a part                shared by all threads
 *         for rows by PANEL                         by the thread that is free
 *           pack A on its stack
 *           for 32 rows: all tiles of 32 x 32
 *
 * So B is packed once, lies in the second-level cache of each core and passes 32 rows of A in
 * the first-level cache; C and A are read and written along their rows. */
#include "tensor/isa/parts.h"
#include "tensor/isa/product.h"
#include "tensor/isa/tiles.h"

#ifdef WEFT_TILES

/* 32 rows of TERMS numbers are 32 KB; KEPT numbers of B fill half of a cache of 2 MB. */
enum { TERMS = 512, KEPT = 512 * 1024, PANEL = 128, SIDE = 2 * TILE_LINES };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* c[rows,columns] = alpha sums[32][32] + beta c */
TILED_INLINE void store_sums(const float *sums, float alpha, int64_t rows,
                             int64_t columns, float beta, float *c, int64_t ldc) {
    for (int64_t i = 0; i < SIDE && i < rows; i++, c += ldc, sums += SIDE) {
        store_sum(load(sums) * alpha, columns, beta, c);
        store_sum(load(sums + LANES) * alpha, columns - LANES, beta, c + LANES);
    }
}

/* All tiles of p, whose factors are packed. */
TILED static void multiply_packed(const product *p, const uint32_t *a,
                                  const uint32_t *b) {
    int64_t n_tiles = whole_tiles(p->K, TILE_TERMS), line = n_tiles * TILE_WORDS;
    tiles_begin();
    for (int64_t m = 0; m < p->M; m += SIDE, a += 2 * line) {
        const uint32_t *a2 = m + TILE_LINES < p->M ? a + line : a, *right = b;
        for (int64_t n = 0; n < p->N; n += SIDE, right += 2 * line) {
            _Alignas(64) float sums[SIDE * SIDE];
            const uint32_t *right2 = n + TILE_LINES < p->N ? right + line : right;
            multiply_tiles(a, a2, right, right2, n_tiles, sums);
            store_sums(sums, p->alpha, p->M - m, p->N - n, p->beta, p->C + m * p->ldc + n,
                       p->ldc);
        }
    }
    tiles_end();
}

/* Packs A. */
TILED static void pack_left(const product *p, uint32_t *tiles) {
    span terms = {0, p->K};
    if (p->ta)
        pack_tiles(false, true, p->A, p->lda, p->M, terms, p->K, tiles);
    else
        pack_tiles(true, true, p->A, p->lda, p->M, terms, p->K, tiles);
}

/* Packs B, each thread some of its rows in memory. */
TILED static void pack_rows_of_right(const product *p, int64_t row, uint32_t *tiles) {
    if (p->tb) {
        int64_t line = whole_tiles(p->K, TILE_TERMS) * TILE_WORDS;
        pack_tiles(true, false, p->B + row * p->ldb, p->ldb,
                   least(TILE_LINES, p->N - row), (span){0, p->K}, p->K,
                   tiles + row / TILE_LINES * line);
    } else {
        span terms = {row, least(row + TILE_TERMS, p->K)};
        pack_tiles(false, false, p->B, p->ldb, p->N, terms, p->K, tiles);
    }
}

/* C[PANEL or fewer rows, N]; B is packed. */
static void multiply_panel(const product *p, int64_t row, const uint32_t *b) {
    _Alignas(64) uint32_t a[PANEL * TERMS / 2];
    product panel = part_of(p, (span){row, least(row + PANEL, p->M)}, (span){0, p->N});
    pack_left(&panel, a);
    multiply_packed(&panel, a, b);
}

/* A product of as many terms and columns as fit. */
static void multiply_block(const product *p, int t) {
    _Alignas(64) uint32_t b[KEPT / 2];
    (void)t; /* without OpenMP */
    int64_t rows = p->tb ? p->N : p->K, step = p->tb ? TILE_LINES : TILE_TERMS;
#pragma omp parallel num_threads(t) if (t > 1)
    {
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row += step) pack_rows_of_right(p, row, b);
#pragma omp for schedule(dynamic)
        for (int64_t m = 0; m < p->M; m += PANEL) multiply_panel(p, m, b);
    }
}

/* n in equal parts of at most `most`, all but the last a multiple of `unit`. */
static int64_t equal_parts(int64_t n, int64_t most, int64_t unit) {
    int64_t blocks = whole_tiles(n, most);
    return blocks > 1 ? whole_tiles(whole_tiles(n, unit), blocks) * unit : most;
}

void WEFT_ISA_NAME(wefti_gemm_amx)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                                   float alpha, const float *A, int64_t lda,
                                   const float *B, int64_t ldb, float beta, float *C,
                                   int64_t ldc) {
    product whole = {ta, tb, M, N, K, alpha, beta, A, B, C, lda, ldb, ldc};
    int t = threads_for(&whole);
    int64_t terms = equal_parts(K, TERMS, TILE_TERMS), k = 0;
    int64_t columns = equal_parts(N, KEPT / terms / TILE_LINES * TILE_LINES, TILE_LINES);
    do { /* once without terms too: C = beta C */
        product p = terms_of(&whole, (span){k, least(k + terms, K)});
        for (int64_t n = 0; n < N; n += columns) {
            product block = part_of(&p, (span){0, M}, (span){n, least(n + columns, N)});
            multiply_block(&block, t);
        }
    } while ((k += terms) < K);
}
#endif
