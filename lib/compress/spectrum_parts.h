/* SPDX-License-Identifier: MIT */
#pragma once

#include <stdbool.h>

#include "compress/spectrum.h"

/* What the implementations of spectrum.h share: one table of operations per instruction
 * set; spectrum.c chooses. */

/* Lines of scratch are padded to a multiple of the widest vector. */
enum { SPECTRUM_WIDE = 16 };

/* The memory of one thread. Area: ld * SPECTRUM_WIDE, in 2-D ld * ld, and one vector
 * more, so that neighbouring areas do not begin at the same offset in a page; E: elements
 * of a chunk. */
typedef struct spectrum_scratch {
    float *a, *b;    /* [area] chunks and their coefficients */
    float *temp;     /* [8, ld, SPECTRUM_WIDE] of a transform */
    float *sums;     /* [E, 2] all zero between calls */
    int32_t *index;  /* [area] */
    float *value;    /* [area] */
    uint32_t *keys;  /* [area] */
    uint64_t *words; /* [ld / 64 rounded up, SPECTRUM_WIDE] */
} spectrum_scratch;

struct wefti_spectrum {
    const struct wefti_spectrum_ops *ops;
    const wefti_kernels *kernels;
    int64_t c, ld; /* chunk length; padded */
    bool is_plain; /* no transform, no tables */
    bool is_fast;  /* c is a power of two: turns instead of products */
    float *basis;  /* [c, ld] the DCT as a matrix, or [c, c] (ops->is_dense) */
    /* [ld] cos and sin of turn i of the DCT-IV of n < c terms (isa/cosine.c) at n + 2i
     * and n + 2i + 1, cos(pi/4) at 0; and the same times sqrt(2/c) */
    float *turns, *turns_scaled;
    float *memory;             /* of all threads */
    spectrum_scratch *scratch; /* [threads] */
};

/* Chunks [first, first + n) of one cut, by one thread. */
typedef struct spectrum_run {
    const wefti_spectrum *spectrum;
    const spectrum_scratch *scratch;
    const wefti_chunks *s;
    int64_t first, n;
} spectrum_run;

/* Where a chunk lies in its tensor: the first `height` of its lines, each the first
 * `width` elements, line l at `at` + l * stride. */
typedef struct spectrum_window {
    int64_t at, stride, width, height;
} spectrum_window;

static inline spectrum_window spectrum_window_of(const wefti_chunks *s, int64_t chunk) {
    int64_t row = 0, col = chunk * s->c;
    if (s->lines > 1) {
        row = chunk / s->across * s->lines;
        col = chunk % s->across * s->c;
    }
    return (spectrum_window){
        .at = row * s->cols + col,
        .stride = s->cols,
        .width = s->cols - col < s->c ? s->cols - col : s->c,
        .height = s->rows - row < s->lines ? s->rows - row : s->lines,
    };
}

/* The coefficients of R ranks: indices[r][n * k] ascending inside a chunk, values[r]. */
typedef struct spectrum_lists {
    int R;
    const int32_t *const *indices;
    const float *const *values;
} spectrum_lists;

/* Where inverted chunks go: tensor <- tensor - alpha x, x, sign(x); or states and bits.
 */
typedef struct spectrum_sink {
    enum { SINK_SUBTRACT, SINK_VALUE, SINK_SIGN, SINK_BITS } kind;
    float alpha;
    float *tensor;
    unsigned char *states, *bits;
} spectrum_sink;

typedef struct wefti_spectrum_ops {
    void (*select)(const spectrum_run *run, const wefti_momentum *momentum,
                   const float *g, float *m, int32_t *indices, float *values);
    /* inverts the mean of the lists (one list: as it is) */
    void (*invert)(const spectrum_run *run, const spectrum_lists *lists,
                   const spectrum_sink *sink);
    void (*store_bits)(const wefti_chunks *s, int64_t first, int64_t n,
                       const unsigned char *states, const unsigned char *bits, float *d);
    bool is_dense; /* the matrix of the DCT has no padding */
} wefti_spectrum_ops;
