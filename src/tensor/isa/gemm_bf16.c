/* SPDX-License-Identifier: MIT */
/* Matrix products of numbers rounded to bfloat16 (8 bits of significand, to nearest even),
 * with sums in f32.
 *
 *     C[M,N] = alpha round(op(A))[M,K] round(op(B))[K,N] + beta C
 *
 * A block of B and a block of A are rounded while they are packed into strips (strips.h) on
 * the thread's stack; a tile of C lives in registers for all terms of a block:
 *
 *     for terms by TERMS            sums of a number of C: always in this order, so that its
 *       for rows by ROWS            bits depend on K alone, never on the threads or on what
 *         pack A                    else the product holds
 *         for columns by COLUMNS
 *           pack B, then all tiles
 *
 * Where the processor has AVX-512 BF16 a strip holds pairs of terms,
 * strip[pair * 16 + line] = term 2 pair | term 2 pair + 1, which one instruction multiplies
 * and adds to 16 sums; it takes denormal numbers for 0. Elsewhere a strip holds the rounded
 * numbers as f32: the same numbers, at f32's speed. */
#include "tensor/isa/parts.h"
#include "tensor/isa/product.h"
#include "tensor/isa/strips.h"

/* Both blocks together fill three quarters of a cache of 1 MB. */
enum { ROWS = 512, COLUMNS = 480, BLOCK_BYTES = 4 * 192 };

/* One way to pack and to multiply. */
typedef struct coding {
    int64_t terms; /* of a block; a line of one takes BLOCK_BYTES */
    /* lines x terms to strips; the lines are rows of x[lines, terms] or columns of x[terms,
     * lines] */
    void (*pack)(bool rows, const float *x, int64_t ld, int64_t lines, int64_t terms,
                 void *strips);
    /* The tiles of a block of p, packed to a and b. */
    void (*multiply)(const product *p, const void *a, const void *b);
} coding;

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

static void multiply_as_f32(const product *p, const void *a_, const void *b_) {
    const float *a = a_, *b = b_, *row[TILE_ROWS];
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

static const coding as_f32 = {BLOCK_BYTES / 4, pack_as_f32, multiply_as_f32};

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

/* One tile of 8 rows and `strips` strips of columns, at most rows x columns of it stored. */
NATIVE_INLINE void pair_tile(int64_t pairs, const uint32_t *a, const uint32_t *b,
                             int strips, int64_t rows, int64_t columns, const product *p,
                             float *c) {
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
            __m512i one = _mm512_set1_epi32((int)a[pair * LANES + i]);
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

NATIVE static void multiply_pairs(const product *p, const void *a_, const void *b_) {
    const uint32_t *a = a_, *b = b_;
    int64_t pairs = (p->K + 1) / 2;
    for (int64_t n = 0; n < p->N; n += PAIR_STRIPS * LANES) {
        const uint32_t *bn = b + n * pairs;
        int64_t columns = p->N - n;
        for (int64_t m = 0; m < p->M; m += PAIR_ROWS) {
            const uint32_t *am = a + m / LANES * LANES * pairs + m % LANES;
            float *c = p->C + m * p->ldc + n;
            if (columns > 2 * LANES)
                pair_tile(pairs, am, bn, 3, p->M - m, columns, p, c);
            else if (columns > LANES)
                pair_tile(pairs, am, bn, 2, p->M - m, columns, p, c);
            else
                pair_tile(pairs, am, bn, 1, p->M - m, columns, p, c);
        }
    }
}

static const coding as_pairs = {BLOCK_BYTES / 2, pack_pairs, multiply_pairs};

static const coding *best_coding(void) {
    return __builtin_cpu_supports("avx512bf16") ? &as_pairs : &as_f32;
}

#else
static const coding *best_coding(void) { return &as_f32; }
#endif

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void multiply_blocks(const product *whole) {
    _Alignas(64) char a[ROWS * BLOCK_BYTES], b[COLUMNS * BLOCK_BYTES];
    const coding *how = best_coding();
    int64_t k = 0;
    do { /* once without terms too: C = beta C */
        product p = terms_of(whole, (span){k, least(k + how->terms, whole->K)});
        for (int64_t m = 0; m < p.M; m += ROWS) {
            span rows = {m, least(m + ROWS, p.M)};
            product block = part_of(&p, rows, (span){0, p.N});
            how->pack(!p.ta, block.A, p.lda, block.M, p.K, a);
            for (int64_t n = 0; n < p.N; n += COLUMNS) {
                span columns = {n, least(n + COLUMNS, p.N)};
                product part = part_of(&block, (span){0, block.M}, columns);
                how->pack(p.tb, part.B, p.ldb, part.N, p.K, b);
                how->multiply(&part, a, b);
            }
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
