/* SPDX-License-Identifier: MIT */
/* Selection: momentum, DCT, largest; and the table of this instruction set.
 *
 * Chunks of one line are processed LANES at a time. With chunks of c lines, a row of
 * chunks takes in the gradient in the order of memory; then each chunk is transformed
 * alone: its columns side by side, then, transposed, its lines. */
#include "compress/isa/steps.h"

/* Prefetches floats [from, to): they arrive while others are transformed. */
static void ask_for(const float *x, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i += LINE) __builtin_prefetch(x + i, 0, 3);
}

static void select_lines(const spectrum_run *run, const intake *in, int32_t *indices,
                         float *values) {
    const spectrum_scratch *scratch = run->scratch;
    for (int64_t i = 0; i < run->n; i += LANES) {
        int64_t count = run->n - i < LANES ? run->n - i : LANES, at = i * run->s->k;
        int64_t n = in->g && i + LANES < run->n ? LANES * run->s->c : 0;
        const float *next = in->g ? in->g + (run->first + i + LANES) * run->s->c : NULL;
        WEFT_ISA_NAME(wefti_lines_take)(run, in, run->first + i, count, scratch->a);
        ask_for(next, 0, n / 2);
        const float *x = run->spectrum->is_plain ? scratch->a : scratch->b;
        if (x == scratch->b) WEFT_ISA_NAME(wefti_cosine_forward)
        (run->spectrum, scratch->a, LANES, scratch->b, LANES, scratch->temp);
        ask_for(next, n / 2, n);
        WEFT_ISA_NAME(wefti_lines_largest)
        (run, x, count, indices + at, values + at);
    }
}

/* Prefetches LANES lines of a window. */
static void ask_for_lines(const float *m, spectrum_window w, int64_t line) {
    for (int64_t l = line; l < line + LANES && l < w.height; l++)
        ask_for(m + w.at + l * w.stride, 0, w.width);
}

/* Where the columns of a chunk are read: in the tensor if the chunk is whole, otherwise
 * in its copy in `room`. */
static const float *columns_of(const spectrum_run *run, const float *m, int64_t chunk,
                               float *room, int64_t *ldx) {
    int64_t ld = run->spectrum->ld;
    spectrum_window w = spectrum_window_of(run->s, chunk);
    bool is_whole = w.width == ld && w.height == ld;
    *ldx = is_whole ? w.stride : ld;
    if (is_whole) return m + w.at;
    WEFT_ISA_NAME(wefti_block_load)(run, m, chunk, room);
    return room;
}

/* Coefficient (line f, column h) of a chunk of c lines, at [h * ld + f]. Powers of two
 * are transformed in place, so that less memory is in use. `next`: the chunk after it,
 * which is prefetched. */
static const float *transform_block(const spectrum_run *run, const float *m,
                                    int64_t chunk, spectrum_window next) {
    const wefti_spectrum *p = run->spectrum;
    float *a = run->scratch->a, *b = run->scratch->b, *temp = run->scratch->temp;
    int64_t ld = p->ld, ldx;
    const float *x = columns_of(run, m, chunk, p->is_fast ? b : a, &ldx);
    for (int64_t h = 0; h < ld; h += LANES) {
        WEFT_ISA_NAME(wefti_cosine_forward)(p, x + h, ldx, b + h, ld, temp);
        ask_for_lines(m, next, h);
    }
    WEFT_ISA_NAME(wefti_block_transpose)(p, b, a);
    float *out = p->is_fast ? a : b;
    for (int64_t f = 0; f < ld; f += LANES)
        WEFT_ISA_NAME(wefti_cosine_forward)(p, a + f, ld, out + f, ld, temp);
    return out;
}

/* Number of chunks that lie beside each other, from chunk i of the run on. */
static int64_t count_beside(const spectrum_run *run, int64_t i) {
    int64_t across = run->s->across, count = across - (run->first + i) % across;
    return count < run->n - i ? count : run->n - i;
}

static void select_blocks(const spectrum_run *run, const intake *in, int32_t *indices,
                          float *values) {
    int64_t k = run->s->k, count;
    for (int64_t i = 0; i < run->n; i += count) {
        count = count_beside(run, i);
        if (in->g) WEFT_ISA_NAME(wefti_blocks_take)(run, in, run->first + i, count);
        for (int64_t j = i; j < i + count; j++) {
            spectrum_window next = {0};
            if (j + 1 < i + count) next = spectrum_window_of(run->s, run->first + j + 1);
            const float *x = transform_block(run, in->m, run->first + j, next);
            WEFT_ISA_NAME(wefti_block_largest)(run, x, indices + j * k, values + j * k);
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
