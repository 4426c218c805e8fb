/* SPDX-License-Identifier: MIT */
/* Selection: momentum, DCT, largest; and the table of this instruction set.
 *
 * Chunks of one line go LANES at a time, a chunk of c lines alone: its columns side by
 * side, then, turned round, its lines. */
#include "compress/isa/steps.h"

static void select_lines(const spectrum_run *run, const intake *in, int32_t *indices,
                         float *values) {
    const spectrum_scratch *scratch = run->scratch;
    for (int64_t i = 0; i < run->n; i += LANES) {
        int64_t count = run->n - i < LANES ? run->n - i : LANES, at = i * run->s->k;
        WEFT_ISA_NAME(wefti_lines_take)(run, in, run->first + i, count, scratch->a);
        WEFT_ISA_NAME(wefti_cosine_forward)(run->spectrum, scratch->a, LANES, scratch->b,
                                            LANES, scratch->temp,scratch->a,0);
        WEFT_ISA_NAME(wefti_lines_largest)(run, scratch->b, count, indices + at,
                                           values + at);
    }
}

/* The coefficients, turned round, of the block x[ld][ld], which is lost. Powers of two are
 * transformed in place, so that less memory is in use. */
#define ASKPER (SPECTRUM_BESIDE/2)
static const float *transform_block(const spectrum_run *run, float *x, int64_t next, int64_t row, const intake *in) {
    const wefti_spectrum *p = run->spectrum;
    const spectrum_scratch *scratch = run->scratch;
    int64_t ld = p->ld;
    spectrum_window w = next<run->s->n?spectrum_window_of(run->s,next):(spectrum_window){0}; const float*am=in->m+w.at+row*w.stride,*ag=in->g?in->g+w.at+row*w.stride:am;int64_t st=w.stride;
    float *columns = p->is_fast ? x : scratch->b, *a = scratch->a,
          *lines = p->is_fast ? a : scratch->b;
    for (int64_t h = 0; h < ld; h += LANES) {
        WEFT_ISA_NAME(wefti_cosine_forward)(p, x + h, ld, columns + h, ld, scratch->temp,am+h/LANES*(8/ASKPER)*w.stride,st);}
    WEFT_ISA_NAME(wefti_block_turn)(p, columns, a);
    for (int64_t f = 0; f < ld; f += LANES) {
        WEFT_ISA_NAME(wefti_cosine_forward)(p, a + f, ld, lines + f, ld, scratch->temp,ag+f/LANES*(8/ASKPER)*w.stride,st);}
    return lines;
}

static void select_blocks(const spectrum_run *run, const intake *in, int32_t *indices,
                          float *values) {
    const spectrum_scratch *scratch = run->scratch;
    int64_t ld = run->spectrum->ld, k = run->s->k, count;
    for (int64_t i = 0; i < run->n; i += count) {
        count = blocks_beside(run, i);
        WEFT_ISA_NAME(wefti_blocks_take)(run, in, run->first + i, count, scratch->blocks);
        for (int64_t b = 0; b < count; b++) {
            const float *x = transform_block(run, scratch->blocks + b * ld * ld,run->first+i+count,b*64/count,in);
            WEFT_ISA_NAME(wefti_block_largest)(run, x, indices + (i + b) * k,
                                               values + (i + b) * k);
        }
    }
}

static void select_run(const spectrum_run *run, const wefti_momentum *momentum,
                       const float *g, float *m, int32_t *indices, float *values) {
    intake in = {.g = g, .m = m};
    if (g) in.momentum = *momentum;
    if (run->s->lines > 1)
        select_blocks(run, &in, indices, values);
    else
        select_lines(run, &in, indices, values);
}

const wefti_spectrum_ops WEFT_ISA_NAME(wefti_spectrum_ops) = {
    .select = select_run,
    .invert = WEFT_ISA_NAME(wefti_spectrum_invert),
    .store_bits = WEFT_ISA_NAME(wefti_bits_store),
};
