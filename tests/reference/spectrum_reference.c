/* SPDX-License-Identifier: MIT */
/* The plain definition of spectrum.h, a chunk at a time: products with the matrix of the
 * DCT, selection over the whole chunk. The fast implementations are tested against it. */
#include "compress/spectrum_parts.h"

#include <math.h>
#include <string.h>

#include "compress/spectrum.h"
#include "compress/selection.h"
#include "reference/reference.h"

extern const wefti_spectrum_ops wefti_spectrum_ops_reference;

void wefti_dct_vectors(const wefti_kernels *kernels, int64_t c, const float *basis,
                       int64_t n, bool inverse, const float *x, float *out) {
    kernels->gemm(false, !inverse, n, c, c, 1, x, c, basis, c, 0, out, c);
}

void wefti_dct_blocks(const wefti_kernels *kernels, int64_t c, const float *basis,
                      int64_t n, bool inverse, const float *x, float *out,
                      float *scratch) {
    kernels->gemm(false, !inverse, n * c, c, c, 1, x, c, basis, c, 0, scratch, c);
    for (int64_t b = 0; b < n; b++) {
        const float *rows = scratch + b * c * c;
        kernels->gemm(inverse, false, c, c, c, 1, basis, c, rows, c, 0, out + b * c * c,
                      c);
    }
}

static void transform(const spectrum_run *run, bool inverse, const float *x, float *out) {
    const wefti_spectrum *p = run->spectrum;
    if (run->s->lines > 1)
        wefti_dct_blocks(p->kernels, p->c, p->basis, 1, inverse, x, out,
                         run->scratch->value);
    else
        wefti_dct_vectors(p->kernels, p->c, p->basis, 1, inverse, x, out);
}

static void accumulate(const spectrum_run *run, int64_t chunk,
                       const wefti_momentum *momentum, const float *g, float *m) {
    for (int64_t line = 0; line < run->s->lines; line++) {
        int64_t at, n = wefti_chunks_line(run->s, chunk, line, &at);
        for (int64_t j = at; j < at + n; j++)
            m[j] = momentum->decay * m[j] + momentum->gain * g[j];
    }
}

static void select_run(const spectrum_run *run, const wefti_momentum *momentum,
                       const float *g, float *m, int32_t *indices, float *values) {
    const wefti_chunks *s = run->s;
    float *x = run->scratch->a, *spectrum = run->scratch->b;
    for (int64_t i = 0; i < run->n; i++, indices += s->k, values += s->k) {
        if (g) accumulate(run, run->first + i, momentum, g, m);
        wefti_chunks_load(s, run->first + i, 1, m, x);
        if (run->spectrum->is_plain)
            spectrum = x;
        else
            transform(run, false, x, spectrum);
        wefti_topk(s->elements, spectrum, s->k, indices, values, run->scratch->keys);
    }
}

/* q[elements] <- the mean over the lists that have the coefficient with a value other
 * than 0. */
static void mean_of(const spectrum_run *run, const spectrum_lists *lists, int64_t i,
                    float *q) {
    const wefti_chunks *s = run->s;
    int32_t *senders = run->scratch->index;
    memset(q, 0, (size_t)s->elements * sizeof *q);
    memset(senders, 0, (size_t)s->elements * sizeof *senders);
    for (int r = 0; r < lists->R; r++) {
        for (int64_t j = i * s->k; j < (i + 1) * s->k; j++) {
            q[lists->indices[r][j]] += lists->values[r][j];
            senders[lists->indices[r][j]] += lists->values[r][j] != 0;
        }
    }
    for (int64_t f = 0; f < s->elements; f++)
        if (senders[f] > 1) q[f] /= (float)senders[f];
}

static int state_of(int64_t n, const float *q) {
    int state = WEFTI_SIGNS_ZERO;
    for (int64_t f = 0; f < n; f++) {
        if (!isfinite(q[f])) return WEFTI_SIGNS_NOT_FINITE;
        if (fabsf(q[f]) >= WEFTI_STILL) state = WEFTI_SIGNS_BITS;
    }
    return state;
}

static float sign_of(int state, float x) {
    if (state != WEFTI_SIGNS_BITS) return state == WEFTI_SIGNS_ZERO ? 0.0f : NAN;
    return x >= 0 ? 1.0f : -1.0f;
}

static void put_bits(const spectrum_run *run, const spectrum_sink *sink, int64_t i,
                     int state, const float *x) {
    int64_t n_bytes = wefti_chunks_bits_bytes(run->s);
    unsigned char *bits = sink->bits + i * n_bytes;
    memset(bits, 0, (size_t)n_bytes);
    sink->states[i] = (unsigned char)state;
    for (int64_t j = 0; j < run->s->elements; j++)
        if (sign_of(state, x[j]) < 0) bits[j / 8] |= (unsigned char)(1 << j % 8);
}

/* tensor -= x, of one chunk. */
static void subtract(const wefti_chunks *s, int64_t chunk, const float *x,
                     float *tensor) {
    for (int64_t line = 0; line < s->lines; line++, x += s->c) {
        int64_t offset, len = wefti_chunks_line(s, chunk, line, &offset);
        for (int64_t j = 0; j < len; j++) tensor[offset + j] -= x[j];
    }
}

static void put_chunk(const spectrum_run *run, const spectrum_sink *sink, int64_t i,
                      int state, float *x) {
    const wefti_chunks *s = run->s;
    if (sink->kind == SINK_BITS) {
        put_bits(run, sink, i, state, x);
        return;
    }
    for (int64_t j = 0; j < s->elements; j++) {
        if (sink->kind == SINK_SUBTRACT) x[j] *= sink->alpha;
        if (sink->kind == SINK_SIGN) x[j] = sign_of(state, x[j]);
    }
    if (sink->kind == SINK_SUBTRACT)
        subtract(s, run->first + i, x, sink->tensor);
    else
        wefti_chunks_store(s, run->first + i, 1, x, sink->tensor);
}

static void invert(const spectrum_run *run, const spectrum_lists *lists,
                   const spectrum_sink *sink) {
    float *q = run->scratch->a, *x = run->scratch->b;
    for (int64_t i = 0; i < run->n; i++) {
        mean_of(run, lists, i, q);
        transform(run, true, q, x);
        put_chunk(run, sink, i, state_of(run->s->elements, q), x);
    }
}

static void store_bits(const wefti_chunks *s, int64_t first, int64_t n,
                       const unsigned char *states, const unsigned char *bits, float *d) {
    for (int64_t i = 0; i < n; i++, bits += wefti_chunks_bits_bytes(s)) {
        for (int64_t line = 0; line < s->lines; line++) {
            int64_t at, len = wefti_chunks_line(s, first + i, line, &at);
            for (int64_t j = 0; j < len; j++) {
                int64_t e = line * s->c + j;
                d[at + j] = sign_of(states[i], bits[e / 8] >> e % 8 & 1 ? -1.0f : 1.0f);
            }
        }
    }
}

const wefti_spectrum_ops wefti_spectrum_ops_reference = {
    .select = select_run, .invert = invert, .store_bits = store_bits, .is_dense = true};
