/* SPDX-License-Identifier: MIT */
/* The momentum takes in the gradient, m <- decay m + gain g, and its chunks are copied
 * side by side into scratch: each element of g and m is read once, and m is written
 * once. */
#include "compress/isa/steps.h"

FLAT vfloat moved(const wefti_momentum *momentum, vfloat g, vfloat m) {
    return multiply_add(g, splat(momentum->gain), m * momentum->decay);
}

/* Takes g into n elements of m from `at` on. */
static void accumulate(const intake *in, int64_t at, int64_t n) {
    const wefti_momentum momentum = in->momentum;
    const float *g = in->g + at;
    float *m = in->m + at;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        store(m + j, moved(&momentum, load(g + j), load(m + j)));
    if (j < n)
        store_part(m + j,
                   moved(&momentum, load_part(g + j, n - j), load_part(m + j, n - j)),
                   n - j);
}

/* Copies n elements to x[ld], zeros after them; ld is a multiple of LANES. */
static void load_line(const float *m, int64_t n, int64_t ld, float *x) {
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) store(x + j, load(m + j));
    if (j < n) {
        store(x + j, load_part(m + j, n - j));
        j += LANES;
    }
    for (; j < ld; j += LANES) store(x + j, splat(0));
}

/* LANES whole chunks of a multiple of LANES elements. The momentum of the next chunks is
 * prefetched here, in the order of memory; their gradient is prefetched while these
 * chunks are transformed (spectral.c). A core has only some twenty lines in flight at a
 * time, and waits if it asks for more. */
FLAT void take_whole(bool has_g, int64_t c, const intake *in, int64_t at, float *x) {
    const wefti_momentum momentum = in->momentum;
    for (int64_t t = 0; t < c; t += LANES) {
        const float *g = has_g ? in->g + at + t : NULL;
        float *m = in->m + at + t;
        vfloat rows[LANES];
        const float *next = in->m + at + (c + t) * LANES;
        UNROLL
        for (int i = 0; i < LANES * LANES; i += LINE) __builtin_prefetch(next + i, 0, 3);
        UNROLL
        for (int i = 0; i < LANES; i++) {
            rows[i] = load(m + i * c);
            if (has_g) rows[i] = moved(&momentum, load(g + i * c), rows[i]);
            if (has_g) store(m + i * c, rows[i]);
        }
        transpose_square(rows);
        UNROLL
        for (int i = 0; i < LANES; i++) store(x + (t + i) * LANES, rows[i]);
    }
}

void WEFT_ISA_NAME(wefti_lines_take)(const spectrum_run *run, const intake *in,
                                     int64_t chunk, int64_t count, float *x) {
    const wefti_chunks *s = run->s;
    int64_t c = s->c, ld = run->spectrum->ld, end = (chunk + count) * c;
    if (count == LANES && c % LANES == 0 && end <= s->cols) {
        if (in->g)
            take_whole(true, c, in, chunk * c, x);
        else
            take_whole(false, c, in, chunk * c, x);
        return;
    }
    if (in->g) accumulate(in, chunk * c, (end < s->cols ? end : s->cols) - chunk * c);
    float *lines = run->scratch->value; /* [LANES, ld] */
    for (int64_t i = 0; i < count; i++) {
        spectrum_window w = spectrum_window_of(s, chunk + i);
        load_line(in->m + w.at, w.width, ld, lines + i * ld);
    }
    pack_rows(lines, ld, count, c, x);
}

void WEFT_ISA_NAME(wefti_blocks_take)(const spectrum_run *run, const intake *in,
                                      int64_t chunk, int64_t count) {
    spectrum_window w = spectrum_window_of(run->s, chunk),
                    last = spectrum_window_of(run->s, chunk + count - 1);
    int64_t width = last.at + last.width - w.at;
    if (width == w.stride) { /* whole rows of the tensor */
        accumulate(in, w.at, w.height * width);
        return;
    }
    for (int64_t l = 0; l < w.height; l++) accumulate(in, w.at + l * w.stride, width);
}

void WEFT_ISA_NAME(wefti_block_load)(const spectrum_run *run, const float *m,
                                     int64_t chunk, float *x) {
    int64_t ld = run->spectrum->ld;
    spectrum_window w = spectrum_window_of(run->s, chunk);
    for (int64_t l = 0; l < w.height; l++)
        load_line(m + w.at + l * w.stride, w.width, ld, x + l * ld);
    memset(x + w.height * ld, 0, (size_t)((run->s->lines - w.height) * ld) * sizeof *x);
}

void WEFT_ISA_NAME(wefti_block_transpose)(const wefti_spectrum *p, const float *x,
                                          float *out) {
    int64_t c = p->c, ld = p->ld;
    for (int64_t r = 0; r < ld; r += LANES) {
        for (int64_t h = 0; h < ld; h += LANES) {
            vfloat rows[LANES];
            for (int i = 0; i < LANES; i++)
                rows[i] = r + i < c ? load(x + (r + i) * ld + h) : splat(0);
            transpose_square(rows);
            UNROLL
            for (int i = 0; i < LANES; i++) store(out + (h + i) * ld + r, rows[i]);
        }
    }
}
