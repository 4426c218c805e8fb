/* SPDX-License-Identifier: MIT */
#pragma once

/* Numbers rounded to bfloat16 (8 bits of significand, to nearest even), as factors of products.
 *
 * Where the processor has AVX-512 BF16 they are kept as pairs of neighbouring terms,
 * which one instruction multiplies and adds to 16 sums; it treats denormal numbers as 0:
 *
 *     strip of lines    strip[pair * 16 + line]   term 2 pair | term 2 pair + 1
 *     rows              row[pair]                 where rows are rows in memory: rounded only
 *
 * Elsewhere they are kept as f32: the same numbers, at f32's speed. */
#include "kernels/isa/strips.h"

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
NATIVE static inline void pack_row_pairs(const float *x, int64_t ld, int64_t lines,
                                         int64_t terms, uint32_t *strip) {
    for (int64_t t = 0; t < terms; t += 2 * LANES, strip += LANES * LANES) {
        int64_t pairs = (terms - t + 1) / 2;
        vfloat rows[LANES];
        for (int i = 0; i < LANES; i++) {
            const float *at = x + i * ld + t;
            if (LANES + i < lines) { /* too far apart for the hardware prefetcher */
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
}; /* strips that are written at the same time: one for each way of a cache */

/* 0 16 1 17 ...: the order in which two rows of 16 numbers become 16 pairs. */
NATIVE_INLINE __m512i pair_order(void) {
    const __m512i low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2,
                                         1, 0);
    return _mm512_or_si512(
        low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(16)), 16));
}

/* The strips of at most AT_ONCE * 16 columns. */
NATIVE static inline void pack_few_columns(const float *x, int64_t ld, int64_t lines,
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
NATIVE static inline void pack_column_pairs(const float *x, int64_t ld, int64_t lines,
                                            int64_t terms, uint32_t *strips) {
    const int64_t pairs = (terms + 1) / 2, most = AT_ONCE * LANES;
    for (int64_t l = 0; l < lines; l += most)
        pack_few_columns(x + l, ld, lines - l < most ? lines - l : most, terms,
                         strips + l * pairs);
}

/* All strips of `lines` lines, which are rows or columns in memory. */
NATIVE static inline void pack_pairs(bool rows, const float *x, int64_t ld, int64_t lines,
                                     int64_t terms, void *strips) {
    if (!rows) {
        pack_column_pairs(x, ld, lines, terms, strips);
        return;
    }
    int64_t pairs = (terms + 1) / 2;
    for (int64_t l = 0; l < lines; l += LANES)
        pack_row_pairs(x + l * ld, ld, lines - l, terms, (uint32_t *)strips + l * pairs);
}

/* Packs rows, each rounded separately, `step` pairs from one to the next; the rows from
 * `lines` to `whole` are 0. */
NATIVE static inline void pack_pair_rows(const float *x, int64_t ld, int64_t lines,
                                         int64_t terms, int64_t whole, int64_t step,
                                         uint32_t *packed) {
    for (int64_t l = 0; l < whole; l++, packed += step) {
        const float *row = x + l * ld;
        int64_t n = l < lines ? terms : 0;
        for (int64_t t = 0; t < terms; t += 2 * LANES) {
            __m512bh both = _mm512_cvtne2ps_pbh(
                load_first(row + t + LANES, n - t - LANES), load_first(row + t, n - t));
            memcpy(packed + t / 2, &both, sizeof both);
        }
    }
}
#endif
