/* SPDX-License-Identifier: MIT */
/* The momentum takes the gradient in, m <- decay m + gain g, and its chunks go side by
 * side into scratch: each element of g and m is read once, m written once. */
#include "compress/isa/steps.h"

/* LANES elements of m after g. */
FLAT vfloat taken(const intake *in, int64_t at) {
    vfloat v = load(in->m + at);
    if (in->g == NULL) return v;
    v = load(in->g + at) * in->momentum.gain + v * in->momentum.decay;
    store(in->m + at, v);
    return v;
}

static vfloat taken_part(const intake *in, int64_t at, int64_t n) {
    vfloat v = load_part(in->m + at, n);
    if (in->g == NULL) return v;
    v = load_part(in->g + at, n) * in->momentum.gain + v * in->momentum.decay;
    store_part(in->m + at, v, n);
    return v;
}

/* n elements from `at` to x[ld], zeros behind them; ld is a multiple of LANES. */
static void take_line(const intake *in, int64_t at, int64_t n, int64_t ld, float *x) {
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES) store(x + j, taken(in, at + j));
    if (j < n) {
        store(x + j, taken_part(in, at + j, n - j));
        j += LANES;
    }
    for (; j < ld; j += LANES) store(x + j, splat(0));
}

/* LANES whole chunks of a multiple of LANES elements. */
FLAT void take_whole(int64_t c, const intake *in, int64_t at, float *x) {
    for (int64_t t = 0; t < c; t += LANES) {
        vfloat rows[LANES];
        UNROLL
        for (int i = 0; i < LANES; i++) {
            __builtin_prefetch(in->m + at + (LANES + i) * c + t, 1, 2);
            if (in->g) __builtin_prefetch(in->g + at + (LANES + i) * c + t, 0, 2);
        }
        UNROLL
        for (int i = 0; i < LANES; i++) rows[i] = taken(in, at + i * c + t);
        turn(rows);
        UNROLL
        for (int i = 0; i < LANES; i++) store(x + (t + i) * LANES, rows[i]);
    }
}

/* The compiler sees once and for all whether there is a gradient. */
static void take_all(int64_t c, const intake *in, int64_t at, float *x) {
    const intake here = *in;
    if (here.g)
        take_whole(c, &here, at, x);
    else
        take_whole(c, &(const intake){.m = here.m}, at, x);
}

void WEFT_ISA_NAME(wefti_lines_take)(const spectrum_run *run, const intake *in,
                                     int64_t chunk, int64_t count, float *x) {
    const wefti_chunks *s = run->s;
    int64_t c = s->c, ld = run->spectrum->ld;
    if (count == LANES && c % LANES == 0 && (chunk + LANES) * c <= s->cols) {
        take_all(c, in, chunk * c, x);
        return;
    }
    float *lines = run->scratch->value; /* [LANES, ld] */
    for (int64_t i = 0; i < count; i++) {
        spectrum_window w = spectrum_window_of(s, chunk + i);
        take_line(in, w.at, w.width, ld, lines + i * ld);
    }
    pack_rows(lines, ld, count, c, x);
}

void WEFT_ISA_NAME(wefti_blocks_take)(const spectrum_run *run, const intake *in,
                                      int64_t chunk, int64_t count, float *x) {
    int64_t ld = run->spectrum->ld;
    spectrum_window w[SPECTRUM_BESIDE];
    for (int64_t b = 0; b < count; b++) w[b] = spectrum_window_of(run->s, chunk + b);
    for (int64_t l = 0; l < w[0].height; l++)
        for (int64_t b = 0; b < count; b++)
            take_line(in, w[b].at + l * w[b].stride, w[b].width, ld,
                      x + (b * ld + l) * ld);
    for (int64_t b = 0; b < count; b++)
        memset(x + (b * ld + w[b].height) * ld, 0,
               (size_t)((run->s->lines - w[b].height) * ld) * sizeof *x);
}

void WEFT_ISA_NAME(wefti_block_turn)(const wefti_spectrum *p, const float *x,
                                     float *out) {
    int64_t c = p->c, ld = p->ld;
    for (int64_t r = 0; r < ld; r += LANES) {
        for (int64_t h = 0; h < ld; h += LANES) {
            vfloat rows[LANES];
            for (int i = 0; i < LANES; i++)
                rows[i] = r + i < c ? load(x + (r + i) * ld + h) : splat(0);
            turn(rows);
            UNROLL
            for (int i = 0; i < LANES; i++) store(out + (h + i) * ld + r, rows[i]);
        }
    }
}
