/* SPDX-License-Identifier: MIT */
/* Multiply-adds in registers only: SUMS independent sums, more than the latency of an
 * addition times the additions that start per cycle.
 *
 *     f32     sum += a * b, LANES numbers at a time     2 LANES FLOP
 *     bf16    sum += a0 b0 + a1 b1 (vdpbf16ps)           4 LANES FLOP
 *     amx     four sums of tiles (tiles.h)               16384 FLOP each
 *
 * The sums are named variables: some compilers would keep an array in memory, and the loop
 * would measure that. They start with different values: of equal sums the compiler would
 * compute only one, and the loop would measure its latency. An empty assembler instruction
 * hides the factors from the compiler, which would otherwise compute a round only once. */
#include "kernels/isa/peaks.h"

#include "kernels/isa.h"
#include "kernels/isa/lanes.h"
#include "kernels/isa/parts.h"
#include "kernels/isa/tiles.h"

#define EACH(do_)                                                                        \
    do_(0) do_(1) do_(2) do_(3) do_(4) do_(5) do_(6) do_(7) do_(8) do_(9) do_(10) do_(11)
enum { SUMS = 12 };

#define DECLARE_SUM(i) vfloat sum##i = splat((float)i);
#define ADD_PRODUCT(i) sum##i += a * b;
#define TOTAL(i) total += sum##i;

static double multiply_adds(int64_t rounds) {
    vfloat a = splat(0.999f), b = splat(0.5f), total = splat(0);
    EACH(DECLARE_SUM)
    for (int64_t r = 0; r < rounds; r++) {
        __asm__ volatile("" : : : "memory"); /* keeps the compiler from merging rounds */
        EACH(ADD_PRODUCT)
        b = -b; /* so that the sums stay small and successive rounds differ */
    }
    EACH(TOTAL)
    volatile float kept = lane_sum(total);
    (void)kept;
    return 2.0 * SUMS * LANES * (double)rounds;
}

#if defined(__AVX512F__)
#include <immintrin.h>

#define DECLARE_PAIRS(i) __m512 sum##i = _mm512_set1_ps((float)i);
#define ADD_PAIRS(i) sum##i = _mm512_dpbf16_ps(sum##i, a, b);
#define TOTAL_PAIRS(i) total = _mm512_add_ps(total, sum##i);

__attribute__((target("avx512bf16"))) static double multiply_add_pairs(int64_t rounds) {
    __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f)), b = a;
    __m512 total = _mm512_setzero_ps();
    EACH(DECLARE_PAIRS)
    for (int64_t r = 0; r < rounds; r++) {
        __asm__ volatile("" : : : "memory");
        EACH(ADD_PAIRS)
    }
    EACH(TOTAL_PAIRS)
    volatile float kept = _mm512_reduce_add_ps(total);
    (void)kept;
    return 4.0 * SUMS * LANES * (double)rounds;
}

#define PAIRS_ARE_THERE WEFT_ISA_NAME(wefti_multiplies_bf16)()
#else
static double multiply_add_pairs(int64_t rounds) { return multiply_adds(rounds); }
#define PAIRS_ARE_THERE false
#endif

double WEFT_ISA_NAME(wefti_peak)(int64_t rounds, bool bf16) {
    return bf16 && PAIRS_ARE_THERE ? multiply_add_pairs(rounds) : multiply_adds(rounds);
}

#ifdef WEFT_TILES
TILED double wefti_peak_amx(int64_t rounds, bool bf16) {
    enum { TILES = 4, FLOP = 2 * TILE_LINES * TILE_LINES * TILE_TERMS };
    _Alignas(64) const uint32_t zeros[TILE_WORDS] = {0};
    if (!bf16) return multiply_adds(rounds);
    tiles_begin();
    tiles_see_memory();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, zeros, TILE_STRIDE);
    _tile_loadd(5, zeros, TILE_STRIDE);
    for (int64_t r = 0; r < rounds; r++) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    tiles_end();
    return (double)TILES * FLOP * (double)rounds;
}
#endif
