/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_STEPS_H
#define WEFTI_STEPS_H

/* The steps of the hot loop, one instruction set's. LANES chunks or lines of a chunk lie
 * side by side: term t of all of them at x + t * ld. */

#include "compress/isa/more.h"
#include "compress/spectrum_parts.h"
#include "tensor/isa.h"

/* DCT-II and its inverse of LANES vectors of length c. `out` may be x if c is a power of
 * two. */
void WEFT_ISA_NAME(wefti_cosine_forward)(const wefti_spectrum *p, const float *x,
                                         int64_t ldx, float *out, int64_t ldo,
                                         float *temp, const float *ask, int64_t stride);
void WEFT_ISA_NAME(wefti_cosine_inverse)(const wefti_spectrum *p, const float *x,
                                         int64_t ldx, float *out, int64_t ldo,
                                         float *temp, const float *ask, int64_t stride);

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
/* The same for `count` chunks of c lines beside each other: x[count][ld][ld]. */
void WEFT_ISA_NAME(wefti_blocks_take)(const spectrum_run *run, const intake *in,
                                      int64_t chunk, int64_t count, float *x);
/* out[ld][ld] = the transposed of x[c][ld]; the lines that x lacks are 0. */
void WEFT_ISA_NAME(wefti_block_turn)(const wefti_spectrum *p, const float *x, float *out);

/* Asks for part `part` of `parts` of a chunk of the tensor. */
FLAT void ask_for(const wefti_chunks *s, int64_t chunk, int64_t part, int64_t parts,
                       const float *tensor) {
    if (chunk >= s->n || tensor == NULL) return;
    spectrum_window w = spectrum_window_of(s, chunk);
    for (int64_t l = w.height * part / parts; l < w.height * (part + 1) / parts; l++)
        for (int64_t j = 0; j < w.width; j += 16)
            __builtin_prefetch(tensor + w.at + l * w.stride + j, 0,2);
}

/* What a sink of this kind makes of x where `before` stood. */
FLAT vfloat sunk(int kind, float alpha, vfloat before, vfloat x) {
    if (kind == SINK_SUBTRACT) return before - x * alpha;
    return kind == SINK_SIGN ? pick(x >= 0.0f, splat(1), splat(-1)) : x;
}

/* Chunk i of the run, its lines at x, x + ld, ..., goes where the sink says; `state`: of
 * its signs. x may be read up to a multiple of SPECTRUM_WIDE in each line. */
void WEFT_ISA_NAME(wefti_sink_put)(const spectrum_run *run, const spectrum_sink *sink,
                                   int64_t i, int state, const float *x, int64_t ld);
/* `count` chunks of c lines beside each other, x[count][ld][ld], from chunk i of the run
 * on. */
void WEFT_ISA_NAME(wefti_sink_put_blocks)(const spectrum_run *run,
                                          const spectrum_sink *sink, int64_t i,
                                          int64_t count, const int *states,
                                          const float *x);
/* Chunks from chunk i of the run on that lie beside each other and are worked on together.
 */
static inline int64_t blocks_beside(const spectrum_run *run, int64_t i) {
    int64_t across = run->s->across, left = across - (run->first + i) % across;
    if (left > run->n - i) left = run->n - i;
    return left < SPECTRUM_BESIDE ? left : SPECTRUM_BESIDE;
}
void WEFT_ISA_NAME(wefti_bits_store)(const wefti_chunks *s, int64_t first, int64_t n,
                                     const unsigned char *states,
                                     const unsigned char *bits, float *d);

/* The k largest of each of the first `count` of x[c][LANES]. */
void WEFT_ISA_NAME(wefti_lines_largest)(const spectrum_run *run, const float *x,
                                        int64_t count, int32_t *indices, float *values);
/* The k largest of a chunk whose coefficient (line f, column h) lies at x[h * ld + f]. */
void WEFT_ISA_NAME(wefti_block_largest)(const spectrum_run *run, const float *x,
                                        int32_t *indices, float *values);

void WEFT_ISA_NAME(wefti_spectrum_invert)(const spectrum_run *run,
                                          const spectrum_lists *lists,
                                          const spectrum_sink *sink);

#endif
