/* SPDX-License-Identifier: MIT */
#pragma once

/* Products by AMX: registers of 16 rows x 64 bytes, and an instruction that multiplies two of
 * them (Intel's Software Developer's Manual, "TDPBF16PS").
 *
 *     c[16][16] += a[16][32] b[32][16]    a, b bf16, c f32
 *
 *     left tile     tile[line][pair]      16 lines x 16 pairs of neighbouring terms: 1 KB
 *     right tile    tile[pair][line]
 *
 * A packed factor is its tiles, for each 16 lines all terms by TILE_TERMS; lines and terms
 * beyond the end are 0. The instruction adds the terms of even and odd places separately,
 * then both sums to c; denormal numbers are 0. So the bits of a sum depend on its terms and
 * their places alone. */
#include "kernels/isa.h"
#include "kernels/isa/bf16.h"
#include "kernels/isa/team.h"

#if defined(__AVX512F__) && defined(WEFT_AMX)
#define WEFT_TILES 1
#define TILED __attribute__((target("avx512bf16,amx-tile,amx-bf16")))
#define TILED_INLINE TILED static inline __attribute__((always_inline))

enum {
    TILE_LINES = 16,
    TILE_TERMS = 32,
    TILE_WORDS = 256, /* uint32_t, of a tile in memory */
    TILE_STRIDE = 64
};

static inline int64_t whole_tiles(int64_t n, int64_t size) {
    return (n + size - 1) / size;
}

/* The words of a packed factor. */
static inline int64_t packed_words(int64_t lines, int64_t terms) {
    return whole_tiles(lines, TILE_LINES) * whole_tiles(terms, TILE_TERMS) * TILE_WORDS;
}

/* Gives this thread's registers the shape of whole tiles, and takes it back. */
TILED_INLINE void tiles_begin(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shape.row_bytes[i] = TILE_STRIDE;
        shape.rows[i] = TILE_LINES;
    }
    _tile_loadconfig(&shape);
}

TILED_INLINE void tiles_end(void) { _tile_release(); }

/* The compiler does not know that loads of tiles read memory. */
TILED_INLINE void tiles_see_memory(void) { __asm__ volatile("" : : : "memory"); }

/* 32 numbers as 16 pairs; those beyond the end are 0. */
TILED_INLINE __m512i round_pairs(__m512 low, __m512 high) {
    __m512bh both = _mm512_cvtne2ps_pbh(high, low);
    __m512i bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}

/* The first n of 32 numbers of bfloat16, the others 0. */
TILED_INLINE __m512i load_halves(const void *x, int64_t n) {
    if (n >= 2 * LANES) return _mm512_loadu_si512(x);
    return _mm512_maskz_loadu_epi16(n <= 0 ? 0 : (__mmask32)((1u << n) - 1), x);
}

/* A factor in memory: f32, or bfloat16 if `half`. */
typedef struct factor {
    const void *x;
    int64_t ld;
    bool half;
} factor;

/* The factor from its line l and term t on; its lines are rows or columns. */
static inline factor from(factor f, bool rows, int64_t l, int64_t t) {
    int64_t at = rows ? l * f.ld + t : t * f.ld + l;
    f.x = (const char *)f.x + at * (f.half ? 2 : 4);
    return f;
}

/* 32 terms of 16 lines of bfloat16 that are rows in memory, as pairs: words[line][pair]. */
TILED_INLINE void read_half_rows(const uint16_t *x, int64_t ld, int64_t lines,
                                 int64_t terms, vfloat words[TILE_LINES]) {
    bool whole = lines >= TILE_LINES && terms >= TILE_TERMS;
#pragma GCC unroll 16
    for (int i = 0; i < TILE_LINES; i++) {
        const uint16_t *at = x + (whole || i < lines ? i : 0) * ld;
        words[i] = (vfloat)(whole ? _mm512_loadu_si512(at)
                                  : load_halves(at, i < lines ? terms : 0));
    }
}

/* The same of lines that are columns: words[pair][line]. */
TILED_INLINE void read_half_columns(const uint16_t *x, int64_t ld, int64_t lines,
                                    int64_t terms, vfloat words[TILE_LINES]) {
    const __m512i order = pair_order();
    const __mmask32 here = lines >= TILE_LINES ? 0xffff : (__mmask32)((1u << lines) - 1);
#pragma GCC unroll 16
    for (int i = 0; i < TILE_LINES; i++) {
        const uint16_t *at = x + 2 * i * ld;
        bool first = 2 * i < terms, second = 2 * i + 1 < terms;
        __m256i low = _mm256_maskz_loadu_epi16((__mmask16)(first ? here : 0),
                                               first ? at : x);
        __m256i high = _mm256_maskz_loadu_epi16((__mmask16)(second ? here : 0),
                                                second ? at + ld : x);
        __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
        words[i] = (vfloat)_mm512_permutexvar_epi16(order, both);
    }
}

/* 32 terms of 16 lines that are rows in memory, as pairs: words[line][pair]. */
TILED_INLINE void read_rows(const float *x, int64_t ld, int64_t lines, int64_t terms,
                            vfloat words[TILE_LINES]) {
    bool whole = lines >= TILE_LINES && terms >= TILE_TERMS;
#pragma GCC unroll 16
    for (int i = 0; i < TILE_LINES; i++) {
        const float *at = x + (whole || i < lines ? i : 0) * ld;
        int64_t n = i < lines ? terms : 0;
        __m512i pairs =
            whole ? round_pairs(_mm512_loadu_ps(at), _mm512_loadu_ps(at + LANES))
                  : round_pairs(load_first(at, n), load_first(at + LANES, n - LANES));
        words[i] = (vfloat)pairs;
    }
}

/* The same of lines that are columns: words[pair][line]. */
TILED_INLINE void read_columns(const float *x, int64_t ld, int64_t lines, int64_t terms,
                               vfloat words[TILE_LINES]) {
    const __m512i order = pair_order();
    bool whole = lines >= TILE_LINES && terms >= TILE_TERMS;
#pragma GCC unroll 16
    for (int i = 0; i < TILE_LINES; i++) {
        const float *at = x + 2 * i * ld;
        int64_t n = 2 * i < terms ? lines : 0, n2 = 2 * i + 1 < terms ? lines : 0;
        __m512i pairs = whole ? round_pairs(_mm512_loadu_ps(at), _mm512_loadu_ps(at + ld))
                              : round_pairs(load_first(n > 0 ? at : x, n),
                                            load_first(n2 > 0 ? at + ld : x, n2));
        words[i] = (vfloat)_mm512_permutexvar_epi16(order, pairs);
    }
}

/* Packs the first tile of lines x terms as a left or a right one. */
TILED_INLINE void pack_tile(bool rows, bool left, factor f, int64_t lines, int64_t terms,
                            uint32_t *to) {
    vfloat words[TILE_LINES];
    if (rows && f.half)
        read_half_rows(f.x, f.ld, lines, terms, words);
    else if (rows)
        read_rows(f.x, f.ld, lines, terms, words);
    else if (f.half)
        read_half_columns(f.x, f.ld, lines, terms, words);
    else
        read_columns(f.x, f.ld, lines, terms, words);
    if (rows != left) transpose(words);
#pragma GCC unroll 16
    for (int i = 0; i < TILE_LINES; i++)
        _mm512_storeu_si512(to + i * LANES, (__m512i)words[i]);
}

/* Packs the terms from `first` to `end` of some lines with n_terms terms as left or right
 * tiles, in the order in which they lie in memory. */
TILED_INLINE void pack_tiles(bool rows, bool left, factor f, int64_t lines, span terms,
                             int64_t n_terms, uint32_t *tiles) {
    int64_t line = whole_tiles(n_terms, TILE_TERMS) * TILE_WORDS;
    tiles += terms.begin / TILE_TERMS * TILE_WORDS;
    if (rows) {
        for (int64_t l = 0; l < lines; l += TILE_LINES, tiles += line)
            for (int64_t t = terms.begin; t < terms.end; t += TILE_TERMS)
                pack_tile(true, left, from(f, true, l, t), lines - l, n_terms - t,
                          tiles + (t - terms.begin) / TILE_TERMS * TILE_WORDS);
        return;
    }
    for (int64_t t = terms.begin; t < terms.end; t += TILE_TERMS, tiles += TILE_WORDS)
        for (int64_t l = 0; l < lines; l += TILE_LINES)
            pack_tile(false, left, from(f, false, l, t), lines - l, n_terms - t,
                      tiles + l / TILE_LINES * line);
}

/* Asks for the tile behind t: each right tile comes from the second-level cache. */
TILED_INLINE void ask_for_next(const uint32_t *t) {
#pragma GCC unroll 16
    for (int i = 0; i < TILE_LINES; i++) __builtin_prefetch(t + TILE_WORDS + i * LANES);
}

/* sums[32][32] = two left lines of tiles times two right ones, of n tiles each */
TILED_INLINE void multiply_tiles(const uint32_t *a, const uint32_t *a2, const uint32_t *b,
                                 const uint32_t *b2, int64_t n, float *sums) {
    enum { ROW = 2 * TILE_STRIDE, HALF = 2 * LANES * TILE_LINES };
    tiles_see_memory();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t t = 0; t < n * TILE_WORDS; t += TILE_WORDS) {
        ask_for_next(b + t);
        ask_for_next(b2 + t);
        _tile_loadd(4, a + t, TILE_STRIDE);
        _tile_loadd(6, b + t, TILE_STRIDE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, b2 + t, TILE_STRIDE);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a2 + t, TILE_STRIDE);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, ROW);
    _tile_stored(1, sums + LANES, ROW);
    _tile_stored(2, sums + HALF, ROW);
    _tile_stored(3, sums + HALF + LANES, ROW);
    tiles_see_memory();
}
#endif
