/* SPDX-License-Identifier: MIT */
/* Matrix products of numbers rounded to bfloat16 by AMX (tiles.h).
 *
 *     C[M,N] = alpha round(op(A))[M,K] round(op(B))[K,N] + beta C
 *
 *     for terms by equal blocks of at most TERMS    each number of C is summed in this
 *       for the smaller factor by KEPT lines        order, so its bits depend only on K
 *         pack these lines, each thread some        shared by all threads
 *         for the other factor by PANEL lines       by the thread that is free
 *           pack these lines                        on its stack
 *           all tiles of 32 x 32
 *
 * So each factor is packed once where the smaller one has at most KEPT lines. */
#include "tensor/isa/parts.h"
#include "tensor/isa/product.h"
#include "tensor/isa/tiles.h"

#ifdef WEFT_TILES

enum { TERMS = 512, KEPT = 1024, PANEL = 64, SIDE = 2 * TILE_LINES };
enum { LINE_WORDS = TERMS / 2 };

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* c[rows,columns] = alpha sums[32][32] + beta c */
TILED_INLINE void store_sums(const float *sums, float alpha, int64_t rows,
                             int64_t columns, float beta, float *c, int64_t ldc) {
    for (int64_t i = 0; i < SIDE && i < rows; i++, c += ldc, sums += SIDE) {
        store_sum(load(sums) * alpha, columns, beta, c);
        store_sum(load(sums + LANES) * alpha, columns - LANES, beta, c + LANES);
    }
}

TILED_INLINE void ask_for(const float *c, int64_t rows, int64_t columns, int64_t ldc) {
    for (int64_t i = 0; i < SIDE && i < rows; i++, c += ldc) {
        __builtin_prefetch(c, 1);
        if (columns > LANES) __builtin_prefetch(c + LANES, 1);
    }
}

/* All tiles of p, whose factors are packed. */
TILED static void multiply_packed(const product *p, const uint32_t *a,
                                  const uint32_t *b) {
    int64_t n_tiles = whole_tiles(p->K, TILE_TERMS), line = n_tiles * TILE_WORDS;
    tiles_begin();
    for (int64_t n = 0; n < p->N; n += SIDE, b += 2 * line) {
        const uint32_t *b2 = n + TILE_LINES < p->N ? b + line : b, *left = a;
        for (int64_t m = 0; m < p->M; m += SIDE, left += 2 * line) {
            _Alignas(64) float sums[SIDE * SIDE];
            const uint32_t *left2 = m + TILE_LINES < p->M ? left + line : left;
            float *c = p->C + m * p->ldc + n;
            ask_for(c, p->M - m, p->N - n, p->ldc);
            multiply_tiles(left, left2, b, b2, n_tiles, sums);
            store_sums(sums, p->alpha, p->M - m, p->N - n, p->beta, c, p->ldc);
        }
    }
    tiles_end();
}

/* Packs `lines` of the left or the right factor. */
TILED static void pack_factor(const product *p, bool left, span lines, uint32_t *tiles) {
    bool rows = left ? !p->ta : p->tb;
    int64_t ld = left ? p->lda : p->ldb, n = lines.end - lines.begin;
    const float *x = (left ? p->A : p->B) + lines.begin * (rows ? ld : 1);
    if (left && rows)
        pack_tiles(true, true, x, ld, n, p->K, tiles);
    else if (left)
        pack_tiles(false, true, x, ld, n, p->K, tiles);
    else if (rows)
        pack_tiles(true, false, x, ld, n, p->K, tiles);
    else
        pack_tiles(false, false, x, ld, n, p->K, tiles);
}

/* One panel of the factor that is not kept. */
TILED static void multiply_panel(const product *p, bool keeps_left, span lines,
                                 const uint32_t *kept) {
    _Alignas(64) uint32_t panel[PANEL * LINE_WORDS];
    span all = {0, keeps_left ? p->M : p->N};
    product part = keeps_left ? part_of(p, all, lines) : part_of(p, lines, all);
    pack_factor(p, !keeps_left, lines, panel);
    if (keeps_left)
        multiply_packed(&part, kept, panel);
    else
        multiply_packed(&part, panel, kept);
}

/* A product of at most TERMS terms, one of whose factors has at most KEPT lines. */
static void multiply_kept(const product *p, bool keeps_left, int t) {
    _Alignas(64) uint32_t kept[KEPT * LINE_WORDS];
    int64_t n_kept = keeps_left ? p->M : p->N, n = keeps_left ? p->N : p->M;
    int64_t line = whole_tiles(p->K, TILE_TERMS) * TILE_WORDS;
    (void)t; /* where there is no OpenMP */
#pragma omp parallel num_threads(t) if (t > 1)
    {
#pragma omp for schedule(static)
        for (int64_t l = 0; l < n_kept; l += TILE_LINES)
            pack_factor(p, keeps_left, (span){l, least(l + TILE_LINES, n_kept)},
                        kept + l / TILE_LINES * line);
#pragma omp for schedule(dynamic)
        for (int64_t l = 0; l < n; l += PANEL)
            multiply_panel(p, keeps_left, (span){l, least(l + PANEL, n)}, kept);
    }
}

static void multiply_terms(const product *p, int t) {
    bool keeps_left = p->M <= p->N;
    int64_t n = keeps_left ? p->M : p->N;
    for (int64_t l = 0; l < n; l += KEPT) {
        span lines = {l, least(l + KEPT, n)}, all = {0, keeps_left ? p->N : p->M};
        product part = keeps_left ? part_of(p, lines, all) : part_of(p, all, lines);
        multiply_kept(&part, keeps_left, t);
    }
}

void WEFT_ISA_NAME(wefti_gemm_amx)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                                   float alpha, const float *A, int64_t lda,
                                   const float *B, int64_t ldb, float beta, float *C,
                                   int64_t ldc) {
    product whole = {ta, tb, M, N, K, alpha, beta, A, B, C, lda, ldb, ldc};
    int t = (double)M * (double)N * (double)K < 1e6 ? 1 : team_max();
    int64_t blocks = whole_tiles(K, TERMS), k = 0;
    int64_t size = blocks > 1
                       ? whole_tiles(whole_tiles(K, blocks), TILE_TERMS) * TILE_TERMS
                       : TERMS;
    do { /* once without terms too: C = beta C */
        product p = terms_of(&whole, (span){k, least(k + size, K)});
        multiply_terms(&p, t);
    } while ((k += size) < K);
}
#endif
