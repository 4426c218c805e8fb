/* SPDX-License-Identifier: MIT */
/* Matrix products of numbers rounded to bfloat16 (8 bits of significand, to nearest even),
 * with sums in f32.
 *
 *     C[M,N] = alpha round(op(A))[M,K] round(op(B))[K,N] + beta C
 *
 * A block of B and a few rows of A are rounded while they are packed on the thread's stack; a
 * tile of C lives in registers for all terms of a block:
 *
 *     for terms by TERMS            sums of a number of C: always in this order, so that its
 *       for columns by COLUMNS      bits depend on K alone, never on the threads or on what
 *         for rows by ROWS          else the product holds
 *           pack A
 *           pack B, the first time
 *           all tiles
 *
 * So B, whose packing is the dearer one, is packed once, and stays in the second-level cache
 * while all rows of A pass it. B becomes strips of 16 columns (strips.h).
 *
 * Where the processor has AVX-512 BF16 numbers are kept as pairs of neighbouring terms, which
 * one instruction multiplies and adds to 16 sums; it takes denormal numbers for 0:
 *
 *     strip of B    strip[pair * 16 + column]   term 2 pair | term 2 pair + 1
 *     rows of A     row[pair]                   where A's rows are rows in memory: rounded only
 *                   strip[pair * 16 + row]      where they are columns
 *
 * Elsewhere strips hold the rounded numbers as f32: the same numbers, at f32's speed. */
#include "tensor/isa/parts.h"
#include "tensor/isa/product.h"
#include "tensor/isa/strips.h"

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

/* ROWS rows of p from row m on, or as many as there are. */
static product rows_of(const product *p, int64_t m) {
    return part_of(p, (span){m, least(m + ROWS, p->M)}, (span){0, p->N});
}

static vfloat round_bf16(vfloat x) {
    const vint bits = (vint)x, size = bits & 0x7fffffff;
    vint nearest = bits + 0x7fff + ((bits >> 16) & 1), nan = bits | 0x400000;
    vint is_nan = size > 0x7f800000;
    return (vfloat)(((nearest & ~is_nan) | (nan & is_nan)) & (int32_t)0xffff0000);
}

static void pack_as_f32(bool rows, const float *x, int64_t ld, int64_t lines,
                        int64_t terms, void *strips) {
    float *to = strips;
    pack_strips(rows, x, ld, lines, terms, to);
    int64_t n = (lines + LANES - 1) / LANES * LANES * terms;
    for (int64_t i = 0; i < n; i += LANES) store(to + i, round_bf16(load(to + i)));
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
            tile_store(t, p->M - m, p->N - n, p->beta, p->C + m * p->ldc + n, p->ldc);
        }
    }
}

static void multiply_as_f32(const product *p, void *a, void *b) {
    pack_as_f32(p->tb, p->B, p->ldb, p->N, p->K, b);
    for (int64_t m = 0; m < p->M; m += ROWS) {
        product rows = rows_of(p, m);
        pack_as_f32(!p->ta, rows.A, p->lda, rows.M, p->K, a);
        tiles_as_f32(&rows, a, b);
    }
}

static const coding as_f32 = {LINE_BYTES / 4, multiply_as_f32};

#if defined(__AVX512F__)
#include <immintrin.h>
#define NATIVE __attribute__((target("avx512bf16")))
#define NATIVE_INLINE NATIVE static inline __attribute__((always_inline))

/* The first n of 16 floats, the others 0. */
NATIVE_INLINE __m512 load_first(const float *x, int64_t n) {
    if (n >= LANES) return _mm512_loadu_ps(x);
    return _mm512_maskz_loadu_ps((__mmask16)(n <= 0 ? 0 : (1 << n) - 1), x);
}

/* A strip of lines that are rows, 16 pairs at a time, by transposing them. */
NATIVE static void pack_row_pairs(const float *x, int64_t ld, int64_t lines,
                                  int64_t terms, uint32_t *strip) {
    for (int64_t t = 0; t < terms; t += 2 * LANES, strip += LANES * LANES) {
        int64_t pairs = (terms - t + 1) / 2;
        vfloat rows[LANES];
        for (int i = 0; i < LANES; i++) {
            const float *at = x + i * ld + t;
            if (LANES + i < lines) { /* too far apart for the processor to foresee */
                __builtin_prefetch(at + LANES * ld);
                __builtin_prefetch(at + LANES * ld + LANES);
            }
            __m512 low = load_first(at, i < lines ? terms - t : 0);
            __m512 high = _mm512_setzero_ps();
            if (i < lines && terms - t > LANES)
                high = load_first(at + LANES, terms - t - LANES);
            __m512bh both = _mm512_cvtne2ps_pbh(high, low);
            memcpy(&rows[i], &both, sizeof rows[i]);
        }
        transpose(rows);
        for (int i = 0; i < LANES && i < pairs; i++)
            memcpy(strip + i * LANES, &rows[i], sizeof rows[i]);
    }
}

enum {
    AT_ONCE = 8
}; /* strips that are written side by side: one for each way of a cache */

/* 0 16 1 17 ...: two rows of 16 numbers beside each other become 16 pairs. */
NATIVE_INLINE __m512i pair_order(void) {
    const __m512i low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2,
                                         1, 0);
    return _mm512_or_si512(
        low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(16)), 16));
}

/* The strips of at most AT_ONCE * 16 columns. */
NATIVE static void pack_few_columns(const float *x, int64_t ld, int64_t lines,
                                    int64_t terms, uint32_t *strips) {
    const __m512i order = pair_order();
    int64_t pairs = (terms + 1) / 2;
    for (int64_t pair = 0; pair < pairs; pair++) {
        const float *first = x + 2 * pair * ld;
        bool whole = 2 * pair + 1 < terms;
        for (int64_t l = 0; l < lines; l += LANES) {
            __m512 high = whole ? load_first(first + ld + l, lines - l)
                                : _mm512_setzero_ps();
            __m512bh both = _mm512_cvtne2ps_pbh(high, load_first(first + l, lines - l));
            __m512i bits;
            memcpy(&bits, &both, sizeof bits);
            _mm512_storeu_si512(strips + l * pairs + pair * LANES,
                                _mm512_permutexvar_epi16(order, bits));
        }
    }
}

/* The strips of `lines` columns. */
NATIVE static void pack_column_pairs(const float *x, int64_t ld, int64_t lines,
                                     int64_t terms, uint32_t *strips) {
    const int64_t pairs = (terms + 1) / 2, most = AT_ONCE * LANES;
    for (int64_t l = 0; l < lines; l += most)
        pack_few_columns(x + l, ld, lines - l < most ? lines - l : most, terms,
                         strips + l * pairs);
}

NATIVE static void pack_pairs(bool rows, const float *x, int64_t ld, int64_t lines,
                              int64_t terms, void *strips) {
    if (!rows) {
        pack_column_pairs(x, ld, lines, terms, strips);
        return;
    }
    int64_t pairs = (terms + 1) / 2;
    for (int64_t l = 0; l < lines; l += LANES)
        pack_row_pairs(x + l * ld, ld, lines - l, terms, (uint32_t *)strips + l * pairs);
}

enum { PAIR_ROWS = 8, PAIR_STRIPS = 3 }; /* of a tile: 24 registers */
enum { ROW_PAIRS = LINE_BYTES / 4 };     /* from one packed row to the next */

/* Rows of the left factor that are rows in memory: each rounded, at its own place; rows that
 * the last tile lacks are 0. */
NATIVE static void pack_left_rows(const float *x, int64_t ld, int64_t lines,
                                  int64_t terms, uint32_t *packed) {
    int64_t whole = (lines + PAIR_ROWS - 1) / PAIR_ROWS * PAIR_ROWS;
    for (int64_t l = 0; l < whole; l++, packed += ROW_PAIRS) {
        const float *row = x + l * ld;
        int64_t n = l < lines ? terms : 0;
        for (int64_t t = 0; t < terms; t += 2 * LANES) {
            __m512bh both = _mm512_cvtne2ps_pbh(
                load_first(row + t + LANES, n - t - LANES), load_first(row + t, n - t));
            memcpy(packed + t / 2, &both, sizeof both);
        }
    }
}

NATIVE static void pack_left_pairs(bool rows, const float *x, int64_t ld, int64_t lines,
                                   int64_t terms, void *packed) {
    if (rows)
        pack_left_rows(x, ld, lines, terms, packed);
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

/* Memory that will be packed next: rows of `width` floats, asked for a few at a time while
 * tiles are multiplied, because the processor does not foresee where a row begins. */
typedef struct ahead {
    const float *x;
    int64_t ld, width, rows, at_once; /* rows that are left; rows at a time */
} ahead;

/* What a factor's lines x terms are in memory, all of it within `times` calls of ask. */
static ahead ahead_of(bool rows, const float *x, int64_t ld, span lines, int64_t terms,
                      int64_t times) {
    int64_t n = lines.end - lines.begin;
    if (n <= 0) return (ahead){0};
    ahead next = {x + (rows ? lines.begin * ld : lines.begin), ld, rows ? terms : n,
                  rows ? n : terms, 0};
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
    float *c = p->C;
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

/* The panel's number of strips as a constant. */
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

/* The first rows of A meet each panel of B just after it was packed, and meanwhile the next
 * panel is asked for; in all panels the next rows of A are. */
static void multiply_pairs(const product *p, void *a, void *b) {
    enum { PANEL = PAIR_STRIPS * LANES };
    int64_t pairs = (p->K + 1) / 2, panels = (p->N + PANEL - 1) / PANEL;
    for (int64_t m = 0; m < p->M; m += ROWS) {
        product rows = rows_of(p, m);
        int64_t tiles = (rows.M + PAIR_ROWS - 1) / PAIR_ROWS;
        span after = {m + ROWS, least(m + 2 * ROWS, p->M)};
        ahead next[2] = {ahead_of(!p->ta, p->A, p->lda, after, p->K, tiles * panels)};
        pack_left_pairs(!p->ta, rows.A, p->lda, rows.M, p->K, a);
        for (int64_t n = 0; n < p->N; n += PANEL) {
            span columns = {n, least(n + PANEL, p->N)};
            product part = part_of(&rows, (span){0, rows.M}, columns);
            uint32_t *strips = (uint32_t *)b + n * pairs;
            if (m == 0) {
                span later = {columns.end, least(columns.end + PANEL, p->N)};
                pack_pairs(p->tb, part.B, p->ldb, part.N, p->K, strips);
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

void WEFT_ISA_NAME(wefti_gemm_bf16)(bool ta, bool tb, int64_t M, int64_t N, int64_t K,
                                    float alpha, const float *A, int64_t lda,
                                    const float *B, int64_t ldb, float beta, float *C,
                                    int64_t ldc) {
    product p = {ta, tb, M, N, K, alpha, beta, A, B, C, lda, ldb, ldc};
    multiply_divided(&p, multiply_blocks);
}

bool WEFT_ISA_NAME(wefti_multiplies_bf16)(void) { return best_coding() != &as_f32; }
