/* SPDX-License-Identifier: MIT */
#pragma once

/* The steps of the hot loop, for one instruction set. LANES chunks or lines of a chunk
 * lie side by side: term t of all of them at x + t * ld. */

#include "compress/isa/more.h"
#include "compress/spectrum_parts.h"
#include "kernels/isa.h"

enum { LINE = 64 / sizeof(float) }; /* floats that come in from memory at once */

/* DCT-II and its inverse of LANES vectors of length c. `out` may be x if c is a power of
 * two. */
void WEFT_ISA_NAME(wefti_cosine_forward)(const wefti_spectrum *p, const float *x,
                                         int64_t ldx, float *out, int64_t ldo,
                                         float *temp);
void WEFT_ISA_NAME(wefti_cosine_inverse)(const wefti_spectrum *p, const float *x,
                                         int64_t ldx, float *out, int64_t ldo,
                                         float *temp);

/* The momentum of a run: g is the tensor's gradient or NULL. */
typedef struct intake {
    wefti_momentum momentum;
    const float *g;
    float *m;
} intake;

/* Takes g into m for `count` <= LANES chunks of one line each, from chunk `chunk` on, and
 * copies them side by side, zero-padded: x[c][LANES]. */
void WEFT_ISA_NAME(wefti_lines_take)(const spectrum_run *run, const intake *in,
                                     int64_t chunk, int64_t count, float *x);
/* Takes g into m for `count` chunks of c lines that lie beside each other. */
void WEFT_ISA_NAME(wefti_blocks_take)(const spectrum_run *run, const intake *in,
                                      int64_t chunk, int64_t count);
/* Copies a chunk of c lines, zero-padded: x[c][ld]. */
void WEFT_ISA_NAME(wefti_block_load)(const spectrum_run *run, const float *m,
                                     int64_t chunk, float *x);
/* out[ld][ld] = the transposed of x[c][ld]; the lines that x lacks are 0. */
void WEFT_ISA_NAME(wefti_block_transpose)(const wefti_spectrum *p, const float *x,
                                          float *out);

/* What a sink of this kind stores for x in place of `before`. */
FLAT vfloat sunk(int kind, float alpha, vfloat before, vfloat x) {
    if (kind == SINK_SUBTRACT) return before - x * alpha;
    return kind == SINK_SIGN ? pick(x >= 0.0f, splat(1), splat(-1)) : x;
}

/* Bit j: x_j is below 0, or a NaN; for SPECTRUM_WIDE elements. */
FLAT unsigned below_zero(const float *x) {
    unsigned bits = 0;
    for (int v = 0; v < SPECTRUM_WIDE; v += LANES)
        bits |= lane_bits(~(load(x + v) >= 0.0f)) << v;
    return bits;
}

/* An inverted chunk: its lines at x, x + ld, ..., readable up to a multiple of
 * SPECTRUM_WIDE, and the state of its signs. */
typedef struct put_chunk {
    spectrum_window window;
    const float *x;
    int state;
} put_chunk;

/* Puts chunks i, i + 1, ... of the run, which lie beside each other, where the sink
 * says. */
void WEFT_ISA_NAME(wefti_sink_put)(const spectrum_run *run, const spectrum_sink *sink,
                                   int64_t i, const put_chunk *chunks, int count,
                                   int64_t ld);
void WEFT_ISA_NAME(wefti_bits_store)(const wefti_chunks *s, int64_t first, int64_t n,
                                     const unsigned char *states,
                                     const unsigned char *bits, float *d);

/* The k largest of each of the first `count` lanes of x[c][LANES]. */
void WEFT_ISA_NAME(wefti_lines_largest)(const spectrum_run *run, const float *x,
                                        int64_t count, int32_t *indices, float *values);
/* The k largest of a chunk whose coefficient (line f, column h) lies at x[h * ld + f]. */
void WEFT_ISA_NAME(wefti_block_largest)(const spectrum_run *run, const float *x,
                                        int32_t *indices, float *values);

/* Puts the mean of the lists, inverted, where the sink says: invert_few for chunks of 64
 * of which the lists have at most INVERT_FEW entries together, spectrum_invert for
 * all. */
enum { INVERT_FEW = 24 };
void WEFT_ISA_NAME(wefti_invert_few)(const spectrum_run *run, const spectrum_lists *lists,
                                     const spectrum_sink *sink);
void WEFT_ISA_NAME(wefti_spectrum_invert)(const spectrum_run *run,
                                          const spectrum_lists *lists,
                                          const spectrum_sink *sink);
