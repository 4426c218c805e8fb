/* SPDX-License-Identifier: MIT */
/* Matrix products of numbers rounded to bfloat16 (8 bits of significand, to nearest even),
 * with sums in f32.
 *
 *     C[M,N] = alpha round(op(A))[M,K] round(op(B))[K,N] + beta C + bias
 *
 * Several threads take patches of C; each takes the next patch when it is free.
 *
 * A block of B and a few rows of A are rounded while they are packed on the thread's stack; a
 * tile of C lives in registers for all terms of a block:
 *
 *     for terms by TERMS            each number of C is summed in this order, so its bits
 *       for columns by COLUMNS      depend only on K, never on the threads or on the rest
 *         for rows by ROWS          of the product
 *           pack A
 *           pack B, the first time
 *           all tiles
 *
 * So B, whose packing is more expensive, is packed once, and stays in the second-level cache
 * while all rows of A are multiplied with it. B becomes strips of 16 columns (strips.h).
 *
 * Where the processor has AVX-512 BF16 numbers are kept as pairs of neighbouring terms,
 * which one instruction multiplies and adds to 16 sums; it treats denormal numbers as 0:
 *
 *     strip of B    strip[pair * 16 + column]   term 2 pair | term 2 pair + 1
 *     rows of A     row[pair]                   where A's rows are rows in memory: rounded only
 *                   strip[pair * 16 + row]      where they are columns
 *
 * Elsewhere strips hold the rounded numbers as f32: the same numbers, at f32's speed.
 *
 * Factors in bfloat16 are widened before they are packed. With a bias, something to add, or C in
 * bfloat16, the sums of a patch lie on the stack until all terms are there. */
#include "kernels/isa/bf16.h"
#include "kernels/isa/parts.h"
#include "kernels/isa/product.h"
#include "kernels/isa/results.h"

/* The block of B fills three quarters of a cache of 1 MB. */
enum { ROWS = 128, COLUMNS = 768, LINE_BYTES = 4 * 192 };

/* One way to pack and to multiply. */
typedef struct coding {
    int64_t terms; /* of a block; a line of one takes LINE_BYTES */
    /* p has at most COLUMNS columns and `terms` terms; room for ROWS lines of A, and for
     * COLUMNS of B. */
    void (*multiply)(const product *p, void *a, void *b);
} coding;

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* ROWS rows of p from row m on, or fewer at the end. */
static product rows_of(const product *p, int64_t m) {
    return part_of(p, (span){m, least(m + ROWS, p->M)}, (span){0, p->N});
}

static void pack_as_f32(bool rows, const float *x, int64_t ld, int64_t lines,
                        int64_t terms, void *strips) {
    float *to = strips;
    pack_strips(rows, x, ld, lines, terms, to);
    int64_t n = (lines + LANES - 1) / LANES * LANES * terms;
    for (int64_t i = 0; i < n; i += LANES) store(to + i, round_bf16(load(to + i)));
}

/* The rows x columns numbers of a factor as f32, `*ld` apart: where they lie, or in room. */
static const float *widened(const void *x, bool half, int64_t *ld, span shape,
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
static const float *left_of(const product *p, int64_t *ld, float *room) {
    *ld = p->lda;
    return widened(p->A, p->half_a, ld, p->ta ? (span){p->K, p->M} : (span){p->M, p->K},
                   room);
}

static const float *right_of(const product *p, int64_t *ld, float *room) {
    *ld = p->ldb;
    return widened(p->B, p->half_b, ld, p->tb ? (span){p->N, p->K} : (span){p->K, p->N},
                   room);
}

static void tiles_as_f32(const product *p, const float *a, const float *b) {
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

static void multiply_as_f32(const product *p, void *a, void *b) {
    float room[COLUMNS * LINE_BYTES / 4];
    int64_t ld;
    const float *right = right_of(p, &ld, room);
    pack_as_f32(p->tb, right, ld, p->N, p->K, b);
    for (int64_t m = 0; m < p->M; m += ROWS) {
        product rows = rows_of(p, m);
        const float *left = left_of(&rows, &ld, room);
        pack_as_f32(!p->ta, left, ld, rows.M, p->K, a);
        tiles_as_f32(&rows, a, b);
    }
}

static const coding as_f32 = {LINE_BYTES / 4, multiply_as_f32};

#if defined(__AVX512F__)
enum { PAIR_ROWS = 8, PAIR_STRIPS = 3 }; /* of a tile: 24 registers */
enum { ROW_PAIRS = LINE_BYTES / 4 };     /* from one packed row to the next */

NATIVE static void pack_left_pairs(bool rows, const float *x, int64_t ld, int64_t lines,
                                   int64_t terms, void *packed) {
    if (rows)
        pack_pair_rows(x, ld, lines, terms,
                       (lines + PAIR_ROWS - 1) / PAIR_ROWS * PAIR_ROWS, ROW_PAIRS,
                       packed);
    else
        pack_column_pairs(x, ld, lines, terms, packed);
}

/* One tile of 8 rows and `strips` strips of columns, at most rows x columns of it stored.
 * The pairs of a row lie `step` apart, the rows `row`. */
NATIVE_INLINE void pair_tile(int64_t pairs, const uint32_t *a, int64_t step, int64_t row,
                             const uint32_t *b, int strips, int64_t rows, int64_t columns,
                             const product *p, float *c) {
    __m512 sum[PAIR_ROWS][PAIR_STRIPS];
    for (int i = 0; i < PAIR_ROWS; i++)
        for (int s = 0; s < strips; s++) {
            sum[i][s] = _mm512_setzero_ps();
            if (i < rows && s * LANES < columns)
                __builtin_prefetch(c + i * p->ldc + s * LANES, 1);
        }
    for (int64_t pair = 0; pair < pairs; pair++) {
        __m512bh right[PAIR_STRIPS], left;
        for (int s = 0; s < strips; s++)
            memcpy(&right[s], b + (s * pairs + pair) * LANES, sizeof right[s]);
#pragma GCC unroll 8
        for (int i = 0; i < PAIR_ROWS; i++) {
            __m512i one = _mm512_set1_epi32((int)a[pair * step + i * row]);
            memcpy(&left, &one, sizeof left);
#pragma GCC unroll 3
            for (int s = 0; s < strips; s++)
                sum[i][s] = _mm512_dpbf16_ps(sum[i][s], left, right[s]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < PAIR_ROWS; i++) {
        if (i >= rows) break;
#pragma GCC unroll 3
        for (int s = 0; s < strips; s++) {
            vfloat v;
            memcpy(&v, &sum[i][s], sizeof v);
            store_sum(v * p->alpha, columns - s * LANES, p->beta,
                      c + i * p->ldc + s * LANES);
        }
    }
}

/* Memory that will be packed next: rows of `width` floats, prefetched a few at a time while
 * tiles are multiplied, because the hardware prefetcher cannot predict where a row begins. */
typedef struct ahead {
    const float *x;
    int64_t ld, width, rows, at_once; /* rows that are left; rows at a time */
} ahead;

/* The memory of a factor's lines x terms, to be prefetched completely within `times`
 * calls of ask. */
static ahead ahead_of(bool rows, const void *x, int64_t ld, span lines, int64_t terms,
                      int64_t times) {
    int64_t n = lines.end - lines.begin;
    if (n <= 0) return (ahead){0};
    ahead next = {(const float *)x + (rows ? lines.begin * ld : lines.begin), ld,
                  rows ? terms : n, rows ? n : terms, 0};
    next.at_once = (next.rows + times - 1) / times;
    return next;
}

static inline void ask(ahead *next) {
    int64_t n = least(next->at_once, next->rows);
    next->rows -= n;
    for (; n > 0; n--, next->x += next->ld)
        for (int64_t i = 0; i < next->width; i += LANES)
            __builtin_prefetch(next->x + i, 0, 2);
}

/* Up to PAIR_STRIPS strips of columns beside a few rows of the left factor. */
NATIVE_INLINE void multiply_panel(const product *p, bool by_rows, const uint32_t *a,
                                  const uint32_t *b, int strips, ahead next[2]) {
    int64_t pairs = (p->K + 1) / 2;
    float *c = p->C; /* see multiply_blocks */
    for (int64_t m = 0; m < p->M; m += PAIR_ROWS, c += PAIR_ROWS * p->ldc) {
        ask(&next[0]);
        ask(&next[1]);
        if (by_rows)
            pair_tile(pairs, a + m * ROW_PAIRS, 1, ROW_PAIRS, b, strips, p->M - m, p->N,
                      p, c);
        else
            pair_tile(pairs, a + m / LANES * LANES * pairs + m % LANES, LANES, 1, b,
                      strips, p->M - m, p->N, p, c);
    }
}

/* Calls multiply_panel with the number of strips as a constant. */
NATIVE_INLINE void multiply_strips(const product *p, bool by_rows, const uint32_t *a,
                                   const uint32_t *b, ahead next[2]) {
    if (p->N > 2 * LANES)
        multiply_panel(p, by_rows, a, b, 3, next);
    else if (p->N > LANES)
        multiply_panel(p, by_rows, a, b, 2, next);
    else
        multiply_panel(p, by_rows, a, b, 1, next);
}

NATIVE static void multiply_rows_panel(const product *p, const uint32_t *a,
                                       const uint32_t *b, ahead next[2]) {
    multiply_strips(p, true, a, b, next);
}

NATIVE static void multiply_columns_panel(const product *p, const uint32_t *a,
                                          const uint32_t *b, ahead next[2]) {
    multiply_strips(p, false, a, b, next);
}

/* The first rows of A are multiplied with each panel of B just after it was packed, while
 * the next panel is prefetched. In all panels the next rows of A are prefetched too. */
static void multiply_pairs(const product *p, void *a, void *b) {
    enum { PANEL = PAIR_STRIPS * LANES };
    float room[ROWS * LINE_BYTES / 2];
    int64_t pairs = (p->K + 1) / 2, panels = (p->N + PANEL - 1) / PANEL, ld;
    for (int64_t m = 0; m < p->M; m += ROWS) {
        product rows = rows_of(p, m);
        int64_t tiles = (rows.M + PAIR_ROWS - 1) / PAIR_ROWS;
        span after = {m + ROWS, least(m + 2 * ROWS, p->M)};
        ahead next[2] = {{0}};
        const float *left = left_of(&rows, &ld, room);
        if (!p->half_a)
            next[0] = ahead_of(!p->ta, p->A, p->lda, after, p->K, tiles * panels);
        pack_left_pairs(!p->ta, left, ld, rows.M, p->K, a);
        for (int64_t n = 0; n < p->N; n += PANEL) {
            span columns = {n, least(n + PANEL, p->N)};
            product part = part_of(&rows, (span){0, rows.M}, columns);
            uint32_t *strips = (uint32_t *)b + n * pairs;
            if (m == 0) {
                span later = {columns.end, least(columns.end + PANEL, p->N)};
                const float *right = right_of(&part, &ld, room);
                pack_pairs(p->tb, right, ld, part.N, p->K, strips);
                if (!p->half_b)
                    next[1] = ahead_of(p->tb, p->B, p->ldb, later, p->K, tiles);
            }
            (p->ta ? multiply_columns_panel : multiply_rows_panel)(&part, a, strips,
                                                                   next);
        }
    }
}

static const coding as_pairs = {LINE_BYTES / 2, multiply_pairs};

static const coding *best_coding(void) {
    return __builtin_cpu_supports("avx512bf16") ? &as_pairs : &as_f32;
}

#else
static const coding *best_coding(void) { return &as_f32; }
#endif

/* C is f32, and there is no bias. */
static void multiply_blocks(const product *whole) {
    _Alignas(64) char a[ROWS * LINE_BYTES], b[COLUMNS * LINE_BYTES];
    const coding *how = best_coding();
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
static double patches_cost(const product *p, patch size, int t) {
    enum { PACKING = 32 };
    double rows = (double)least(size.rows, p->M),
           columns = (double)least(size.columns, p->N);
    double one = rows * columns + PACKING * (rows + columns);
    double n = (double)(parts(p->M, size.rows) * parts(p->N, size.columns));
    return one * (n > t ? n : t) / t + one / 4;
}

static patch cheapest_patch(const product *p, int t) {
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
static void multiply_patches(const product *p, patch size,
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

/* Sums on the stack, then C. */
enum { MIXED_ROWS = 256, MIXED_COLUMNS = 384 };

static void multiply_mixed(const product *p) {
    _Alignas(64) float sums[MIXED_ROWS * MIXED_COLUMNS];
    product inner = *p;
    inner.C = sums, inner.ldc = MIXED_COLUMNS, inner.half_c = false;
    inner.beta = 0, inner.bias = inner.plus = NULL, inner.times = inner.slopes = NULL;
    multiply_blocks(&inner);
    for (int64_t m = 0; m < p->M; m++) store_results(p, m, sums + m * MIXED_COLUMNS);
}

static void multiply(const product *p) {
    int t = threads_for(p);
    if (p->half_c || p->bias || p->plus)
        multiply_patches(p, (patch){MIXED_ROWS, MIXED_COLUMNS}, multiply_mixed, t);
    else if (t == 1)
        multiply_blocks(p);
    else
        multiply_patches(p, cheapest_patch(p, t), multiply_blocks, t);
}

GEMM(wefti_gemm_bf16, multiply(&p))

void WEFT_ISA_NAME(wefti_gemm_mixed_bf16)(const wefti_mixed *m) {
    product p = product_of(m);
    multiply(&p);
}

bool WEFT_ISA_NAME(wefti_multiplies_bf16)(void) { return best_coding() != &as_f32; }
