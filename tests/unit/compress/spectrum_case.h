/* SPDX-License-Identifier: MIT */
/* One tensor cut into chunks, a spectrum for it, and a second opinion in double. */
#pragma once

#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "compress/spectrum.h"
#include "reference/reference.h"

/* The relative error of one rounding. */
static const double unit = 0x1p-24;

typedef struct shape {
    int dims;
    int64_t c, k, rows, cols;
} shape;

typedef struct kase {
    weft_ctx *ctx;
    wefti_chunks s;
    wefti_spectrum *spectrum;
    int64_t n; /* elements of the tensor */
    float *m;  /* [n], of exactly this size, so that a step outside is seen */
    int32_t *indices;
    float *values; /* [chunks, k] */
    double *basis; /* [c, c] */
} kase;

static inline void *room(int64_t n, size_t item) {
    void *p = calloc((size_t)(n > 0 ? n : 1), item);
    assert_non_null(p);
    return p;
}

static inline void *copy_of(const void *from, int64_t n, size_t item) {
    void *p = room(n, item);
    memcpy(p, from, (size_t)n * item);
    return p;
}

static inline double *cosine_basis(int64_t c) {
    double *basis = room(c * c, sizeof *basis), pi = acos(-1.0);
    for (int64_t f = 0; f < c; f++)
        for (int64_t i = 0; i < c; i++)
            basis[f * c + i] = sqrt((f ? 2.0 : 1.0) / (double)c) *
                               cos(pi * (double)((2 * i + 1) * f) / (double)(2 * c));
    return basis;
}

static inline kase kase_open(const char *kernels, shape h, uint64_t seed) {
    kase k = {.n = h.rows * h.cols};
    assert_int_equal(weft_ctx_create(&k.ctx), WEFT_OK);
    k.s = wefti_chunks_make(h.dims, h.c, h.k, h.rows, h.cols);
    assert_ok(k.ctx, wefti_spectrum_create(k.ctx, test_kernels_find(kernels), h.dims, h.c,
                                           2, &k.spectrum));
    k.m = room(k.n, sizeof *k.m);
    fill_normal(seed, k.n, k.m);
    k.indices = room(k.s.n * k.s.k, sizeof *k.indices);
    k.values = room(k.s.n * k.s.k, sizeof *k.values);
    k.basis = cosine_basis(h.c);
    return k;
}

static inline void kase_close(kase *k) {
    wefti_spectrum_destroy(k->ctx, k->spectrum);
    assert_int_equal(weft_ctx_bytes_held(k->ctx), 0);
    weft_ctx_destroy(k->ctx);
    free(k->m), free(k->indices), free(k->values), free(k->basis);
}

/* Selects from the whole momentum, `step` chunks at a time. */
static inline void kase_select(kase *k, int64_t step, const wefti_momentum *momentum,
                               const float *g) {
    for (int64_t i = 0; i < k->s.n; i += step)
        wefti_spectrum_select(k->spectrum, (int)(i & 1), &k->s, i,
                              step < k->s.n - i ? step : k->s.n - i, momentum, g, k->m,
                              k->indices + i * k->s.k, k->values + i * k->s.k);
}

static inline void kase_subtract(kase *k, int64_t step, float alpha) {
    for (int64_t i = 0; i < k->s.n; i += step)
        wefti_spectrum_subtract(k->spectrum, (int)(i & 1), &k->s, i,
                                step < k->s.n - i ? step : k->s.n - i, alpha,
                                k->indices + i * k->s.k, k->values + i * k->s.k, k->m);
}

/* Element j of a chunk in the tensor, or -1. */
static inline int64_t place_of(const wefti_chunks *s, int64_t chunk, int64_t j) {
    int64_t at, n = wefti_chunks_line(s, chunk, j / s->c, &at);
    return j % s->c < n ? at + j % s->c : -1;
}

/* out = a transform of x[lines, c], along both axes if there are several lines. */
static inline void transform_double(const kase *k, bool inverse, const double *x,
                                    double *out) {
    int64_t c = k->s.c, lines = k->s.lines, sf = inverse ? 1 : c, si = inverse ? c : 1;
    double *half = room(lines * c, sizeof *half);
    for (int64_t l = 0; l < lines; l++)
        for (int64_t f = 0; f < c; f++)
            for (int64_t i = 0; i < c; i++)
                half[l * c + f] += k->basis[f * sf + i * si] * x[l * c + i];
    memcpy(out, half, (size_t)(lines * c) * sizeof *out);
    if (lines > 1) {
        memset(out, 0, (size_t)(lines * c) * sizeof *out);
        for (int64_t f = 0; f < c; f++)
            for (int64_t l = 0; l < c; l++)
                for (int64_t i = 0; i < c; i++)
                    out[f * c + i] += k->basis[f * sf + l * si] * half[l * c + i];
    }
    free(half);
}

static inline void chunk_double(const kase *k, int64_t chunk, const float *tensor,
                                double *x) {
    for (int64_t j = 0; j < k->s.elements; j++) {
        int64_t at = place_of(&k->s, chunk, j);
        x[j] = at < 0 ? 0 : (double)tensor[at];
    }
}

static inline double norm_of(int64_t n, const double *x) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sqrt(sum);
}

/* Error of one coefficient over the norm of its chunk. A product with the matrix rounds
 * each of c terms and partial sums and the matrix, all bounded by the norm. A turn or a
 * butterfly errs by at most 3 roundings of what it turns; there are 2 log2 c stages. */
static inline double transform_error(const kase *k) {
    return (double)(k->s.lines > 1 ? 2 : 1) * ((double)k->s.c + 4) * unit;
}

static inline double fast_transform_error(const kase *k) {
    return (double)(k->s.lines > 1 ? 2 : 1) * 6 * (log2((double)k->s.c) + 1) * unit;
}

/* Calls check(name) for each kernel set that runs here. */
static inline void each_set(void (*check)(const char *kernels)) {
    for (const char *const *name = test_kernels_names(); *name; name++) check(*name);
}
