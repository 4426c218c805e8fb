/* SPDX-License-Identifier: MIT */
/* The front of spectrum.h: tables, scratch, and which implementation runs.
 *
 *     isa/   once per instruction set: kernels->spectrum of the run's kernels
 *
 * For chunks of c elements in each of `dims` directions, all threads share the matrix of
 * the DCT, its rows ld apart, and, if c is a power of two, the turns of the fast
 * transform: cos and sin of pi (2 i + 1) / (4 n) at [n + 2 i], n = 2, 4, .. c / 2. */
#include "compress/spectrum_parts.h"

#include <math.h>
#include <string.h>

#include "base/memory.h"

/* Ahmed, Natarajan, Rao 1974. */
void wefti_dct_basis(int64_t c, float *basis) {
    const double pi = 3.14159265358979323846;
    for (int64_t f = 0; f < c; f++) {
        double s = sqrt((f ? 2.0 : 1.0) / (double)c);
        for (int64_t i = 0; i < c; i++)
            basis[f * c + i] =
                (float)(s * cos(pi * (double)((2 * i + 1) * f) / (double)(2 * c)));
    }
}

static int64_t padded(int64_t n) {
    return (n + SPECTRUM_WIDE - 1) / SPECTRUM_WIDE * SPECTRUM_WIDE;
}

/* The parts of a thread's memory, each a whole number of cache lines. */
typedef struct sizes {
    int64_t area, temp, sums, words, all; /* in floats */
} sizes;

static sizes sizes_of(int dims, int64_t c) {
    int64_t ld = padded(c), elements = dims == 2 ? c * c : c;
    sizes n = {.area = ld * (dims == 2 ? ld : SPECTRUM_WIDE) + SPECTRUM_WIDE,
               .temp = 8 * ld * SPECTRUM_WIDE,
               .sums = padded(2 * elements),
               .words = 2 * ((ld + 63) / 64) * SPECTRUM_WIDE};
    n.all = 5 * n.area + n.temp + n.sums + n.words;
    return n;
}

int64_t wefti_spectrum_cost(int dims, int64_t c, int threads) {
    int64_t ld = padded(c), all = sizes_of(dims, c).all;
    size_t n_bytes = wefti_alloc_cost(sizeof(wefti_spectrum));
    if (dims > 0) {
        n_bytes += wefti_alloc_cost((size_t)(c * ld) * sizeof(float));
        n_bytes += 2 * wefti_alloc_cost((size_t)ld * sizeof(float));
    }
    n_bytes += wefti_alloc_cost((size_t)(threads * all) * sizeof(float));
    n_bytes += wefti_alloc_cost((size_t)threads * sizeof(spectrum_scratch));
    return (int64_t)n_bytes;
}

static spectrum_scratch scratch_at(float *memory, const sizes *n) {
    spectrum_scratch scratch = {.a = memory, .b = memory + n->area};
    memory += 2 * n->area;
    scratch.temp = memory;
    memory += n->temp;
    scratch.sums = memory;
    memory += n->sums;
    scratch.value = memory;
    memory += n->area;
    scratch.index = (int32_t *)(void *)memory;
    memory += n->area;
    scratch.keys = (uint32_t *)(void *)memory;
    memory += n->area;
    scratch.words = (uint64_t *)(void *)memory;
    return scratch;
}

/* Moves the rows of a [c, c] matrix apart, to ld, with zeros between. */
static void spread_rows(int64_t c, int64_t ld, float *x) {
    for (int64_t row = c - 1; row >= 0; row--) {
        memmove(x + row * ld, x + row * c, (size_t)c * sizeof *x);
        memset(x + row * ld + c, 0, (size_t)(ld - c) * sizeof *x);
    }
}

static void fill_turns(int64_t c, double scale, float *turns) {
    const double pi = 3.14159265358979323846;
    turns[0] = (float)(scale * cos(pi / 4));
    for (int64_t n = 2; n < c; n *= 2) {
        for (int64_t i = 0; i < n / 2; i++) {
            double angle = pi * (double)(2 * i + 1) / (double)(4 * n);
            turns[n + 2 * i] = (float)(scale * cos(angle));
            turns[n + 2 * i + 1] = (float)(scale * sin(angle));
        }
    }
}

static weft_status make_tables(weft_ctx *ctx, wefti_spectrum *p) {
    WEFT_TRY(wefti_alloc_n(ctx, p->c * p->ld, sizeof(float), "the DCT", &p->basis));
    WEFT_TRY(wefti_alloc_n(ctx, p->ld, sizeof(float), "the DCT", &p->turns));
    WEFT_TRY(wefti_alloc_n(ctx, p->ld, sizeof(float), "the DCT", &p->turns_scaled));
    wefti_dct_basis(p->c, p->basis);
    if (!p->ops->is_dense) spread_rows(p->c, p->ld, p->basis);
    if (p->is_fast) fill_turns(p->c, 1, p->turns);
    if (p->is_fast) fill_turns(p->c, sqrt(2.0 / (double)p->c), p->turns_scaled);
    return WEFT_OK;
}

static weft_status allocate(weft_ctx *ctx, wefti_spectrum *p, int dims, int threads) {
    sizes n = sizes_of(dims, p->c);
    if (dims > 0) WEFT_TRY(make_tables(ctx, p));
    WEFT_TRY(wefti_alloc_n(ctx, threads * n.all, sizeof(float), "chunks", &p->memory));
    WEFT_TRY(wefti_alloc_n(ctx, threads, sizeof *p->scratch, "chunks", &p->scratch));
    for (int t = 0; t < threads; t++)
        p->scratch[t] = scratch_at(p->memory + t * n.all, &n);
    return WEFT_OK;
}

weft_status wefti_spectrum_create(weft_ctx *ctx, const wefti_kernels *kernels, int dims,
                                  int64_t c, int threads, wefti_spectrum **out) {
    wefti_spectrum *p;
    *out = NULL;
    WEFT_TRY(wefti_alloc(ctx, sizeof *p, "the spectrum", &p));
    *p = (wefti_spectrum){.ops = kernels->spectrum,
                          .kernels = kernels,
                          .c = c,
                          .ld = padded(c),
                          .is_plain = dims == 0,
                          .is_fast = (c & (c - 1)) == 0};
    WEFTI_TRY_OR(allocate(ctx, p, dims, threads), wefti_spectrum_destroy(ctx, p));
    *out = p;
    return WEFT_OK;
}

void wefti_spectrum_destroy(weft_ctx *ctx, wefti_spectrum *p) {
    if (!p) return;
    WEFTI_FREE(ctx, p->basis, p->turns, p->turns_scaled, p->memory, p->scratch, p);
}

/* In 1-D 64 KiB of the momentum, and of its gradient. In 2-D the chunks of a few rows of
 * chunks, or an even part of a very long row: whole rows of a tensor are read in one
 * stream, which memory delivers faster than pieces, even if the second-level cache is too
 * small for them. */
int64_t wefti_spectrum_batch(const wefti_chunks *s) {
    enum { FEW = 16, MANY = 192 };
    int64_t across = s->across, scale = 4096 / s->elements > 1 ? 4096 / s->elements : 1;
    if (s->lines == 1) return padded(16384 / s->c);
    if (across <= FEW * scale) return FEW * scale / across * across;
    int64_t pieces = (across + MANY * scale - 1) / (MANY * scale);
    return (across + pieces - 1) / pieces;
}

static spectrum_run run_of(const wefti_spectrum *p, int thread, const wefti_chunks *s,
                           int64_t first, int64_t n) {
    return (spectrum_run){
        .spectrum = p, .scratch = &p->scratch[thread], .s = s, .first = first, .n = n};
}

void wefti_spectrum_select(wefti_spectrum *p, int thread, const wefti_chunks *s,
                           int64_t first, int64_t n, const wefti_momentum *momentum,
                           const float *g, float *m, int32_t *indices, float *values) {
    spectrum_run run = run_of(p, thread, s, first, n);
    p->ops->select(&run, momentum, g, m, indices, values);
}

void wefti_spectrum_subtract(wefti_spectrum *p, int thread, const wefti_chunks *s,
                             int64_t first, int64_t n, float alpha,
                             const int32_t *indices, const float *values, float *m) {
    spectrum_run run = run_of(p, thread, s, first, n);
    spectrum_lists lists = {.R = 1, .indices = &indices, .values = &values};
    spectrum_sink sink = {.kind = SINK_SUBTRACT, .alpha = alpha, .tensor = m};
    p->ops->invert(&run, &lists, &sink);
}

void wefti_spectrum_combine(wefti_spectrum *p, int thread, const wefti_chunks *s,
                            int64_t first, int64_t n, int R,
                            const int32_t *const *indices, const float *const *values,
                            wefti_direction direction, float *d) {
    spectrum_run run = run_of(p, thread, s, first, n);
    spectrum_lists lists = {.R = R, .indices = indices, .values = values};
    spectrum_sink sink = {
        .kind = direction == WEFTI_DIRECTION_SIGN ? SINK_SIGN : SINK_VALUE, .tensor = d};
    p->ops->invert(&run, &lists, &sink);
}

void wefti_spectrum_combine_signs(wefti_spectrum *p, int thread, const wefti_chunks *s,
                                  int64_t first, int64_t n, int R,
                                  const int32_t *const *indices,
                                  const float *const *values, unsigned char *states,
                                  unsigned char *bits) {
    spectrum_run run = run_of(p, thread, s, first, n);
    spectrum_lists lists = {.R = R, .indices = indices, .values = values};
    spectrum_sink sink = {.kind = SINK_BITS, .states = states, .bits = bits};
    p->ops->invert(&run, &lists, &sink);
}

void wefti_chunks_store_bits(const wefti_spectrum *p, const wefti_chunks *s,
                             int64_t first, int64_t n, const unsigned char *states,
                             const unsigned char *bits, float *d) {
    p->ops->store_bits(s, first, n, states, bits, d);
}
