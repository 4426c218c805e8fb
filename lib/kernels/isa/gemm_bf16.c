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
 * Products in f32 take the same way without rounding where gemm.c asks for it.
 *
 * Factors in bfloat16 are widened before they are packed. With a bias, something to add, or C in
 * bfloat16, the sums of a patch lie on the stack until all terms are there. */
#include "kernels/isa/bf16.h"
#include "kernels/isa/blocks.h"
#include "kernels/isa/parts.h"
#include "kernels/isa/results.h"

static void multiply_rounded(const product *p, void *a, void *b) {
    multiply_f32(p, true, a, b);
}

static const coding as_f32 = {LINE_BYTES / 4, multiply_rounded};

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
static void multiply_blocks(const product *p) { multiply_coded(p, best_coding()); }

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
    if (p->half_c || p->bias || p->plus)
        multiply_patches(p, (patch){MIXED_ROWS, MIXED_COLUMNS}, multiply_mixed,
                         threads_for(p));
    else
        multiply_all(p, multiply_blocks);
}

void WEFT_ISA_NAME(wefti_multiply_strips)(const product *p) {
    multiply_all(p, multiply_unrounded);
}

GEMM(wefti_gemm_bf16, multiply(&p))

void WEFT_ISA_NAME(wefti_gemm_mixed_bf16)(const wefti_mixed *m) {
    product p = product_of(m);
    multiply(&p);
}

bool WEFT_ISA_NAME(wefti_multiplies_bf16)(void) { return best_coding() != &as_f32; }
