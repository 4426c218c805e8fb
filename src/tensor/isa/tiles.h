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
#include "tensor/isa.h"
#include "tensor/isa/bf16.h"

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

/* 32 terms of 16 lines that are rows in memory, as pairs: words[line][pair]. */
TILED_INLINE void read_rows(const float *x, int64_t ld, int64_t lines, int64_t terms,
                            vfloat words[TILE_LINES]) {
    for (int i = 0; i < TILE_LINES; i++) {
        int64_t n = i < lines ? terms : 0;
        const float *at = x + (i < lines ? i : 0) * ld;
        __m512bh both = _mm512_cvtne2ps_pbh(load_first(at + LANES, n - LANES),
                                            load_first(at, n));
        memcpy(&words[i], &both, sizeof words[i]);
    }
}

/* The same of lines that are columns: words[pair][line]. */
TILED_INLINE void read_columns(const float *x, int64_t ld, int64_t lines, int64_t terms,
                               vfloat words[TILE_LINES]) {
    const __m512i order = pair_order();
    for (int i = 0; i < TILE_LINES; i++) {
        const float *at = x + 2 * i * ld;
        __m512 low = load_first(2 * i < terms ? at : x, 2 * i < terms ? lines : 0);
        __m512 high = load_first(2 * i + 1 < terms ? at + ld : x,
                                 2 * i + 1 < terms ? lines : 0);
        __m512bh both = _mm512_cvtne2ps_pbh(high, low);
        __m512i bits;
        memcpy(&bits, &both, sizeof bits);
        bits = _mm512_permutexvar_epi16(order, bits);
        memcpy(&words[i], &bits, sizeof words[i]);
    }
}

/* Packs lines x terms as left or right tiles. */
TILED_INLINE void pack_tiles(bool rows, bool left, const float *x, int64_t ld,
                             int64_t lines, int64_t terms, uint32_t *tiles) {
    for (int64_t l = 0; l < lines; l += TILE_LINES)
        for (int64_t t = 0; t < terms; t += TILE_TERMS, tiles += TILE_WORDS) {
            vfloat words[TILE_LINES];
            if (rows)
                read_rows(x + l * ld + t, ld, lines - l, terms - t, words);
            else
                read_columns(x + t * ld + l, ld, lines - l, terms - t, words);
            if (rows != left) transpose(words);
            for (int i = 0; i < TILE_LINES; i++)
                memcpy(tiles + i * LANES, &words[i], sizeof words[i]);
        }
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
