/* SPDX-License-Identifier: MIT */
/* Where inverted chunks go: off the momentum, into the direction, or its signs into bits;
 * and the direction from bits. Lines are padded to SPECTRUM_WIDE in scratch. */
#include "compress/isa/steps.h"

#include <math.h>

/* n elements of a line. */
FLAT void put_line(int kind, const spectrum_sink *sink, const float *x, int64_t n,
                   float *to) {
    float alpha = sink->alpha;
    int64_t j = 0;
    for (; j + LANES <= n; j += LANES)
        store(to + j, sunk(kind, alpha, load(to + j), load(x + j)));
    if (j < n)
        store_part(to + j, sunk(kind, alpha, load_part(to + j, n - j), load(x + j)),
                   n - j);
}

/* Windows beside each other, line by line. */
FLAT void put_lines(int kind, const spectrum_sink *sink, int64_t count,
                    const spectrum_window *w, const float *x, int64_t ld) {
    for (int64_t l = 0; l < w[0].height; l++)
        for (int64_t b = 0; b < count; b++)
            put_line(kind, sink, x + (b * ld + l) * ld, w[b].width,
                     sink->tensor + w[b].at + l * w[b].stride);
}

static void put_windows(const spectrum_sink *sink, int64_t count,
                        const spectrum_window *w, const float *x, int64_t ld) {
    if (sink->kind == SINK_SUBTRACT)
        put_lines(SINK_SUBTRACT, sink, count, w, x, ld);
    else if (sink->kind == SINK_VALUE)
        put_lines(SINK_VALUE, sink, count, w, x, ld);
    else
        put_lines(SINK_SIGN, sink, count, w, x, ld);
}

static void fill(spectrum_window w, float value, float *tensor) {
    for (int64_t l = 0; l < w.height; l++)
        for (int64_t j = 0; j < w.width; j++) tensor[w.at + l * w.stride + j] = value;
}

static float value_of(int state) { return state == WEFTI_SIGNS_ZERO ? 0.0f : NAN; }

/* Bit j: x_j is below 0; of SPECTRUM_WIDE elements. */
static unsigned below_zero(const float *x) {
    unsigned bits = 0;
    for (int v = 0; v < SPECTRUM_WIDE; v += LANES)
        bits |= lane_bits(~(load(x + v) >= 0.0f)) << v;
    return bits;
}

/* `width` <= SPECTRUM_WIDE bits from bit `at` on. */
static void put_bits(unsigned bits, int64_t at, int64_t width, unsigned char *to) {
    bits &= (1u << width) - 1;
    bits <<= at % 8;
    for (int64_t b = at / 8; bits > 0; b++, bits >>= 8) to[b] |= (unsigned char)bits;
}

static unsigned get_bits(const unsigned char *from, int64_t at, int64_t width) {
    unsigned bits = 0;
    for (int64_t b = at / 8, shift = 0; shift < at % 8 + width; b++, shift += 8)
        bits |= (unsigned)from[b] << shift;
    return bits >> at % 8;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void put_signs(const wefti_chunks *s, const float *x, int64_t ld,
                      unsigned char *bits) {
    for (int64_t line = 0; line < s->lines; line++)
        for (int64_t j = 0; j < s->c; j += SPECTRUM_WIDE)
            put_bits(below_zero(x + line * ld + j), line * s->c + j,
                     least(s->c - j, SPECTRUM_WIDE), bits);
}

static void put_chunk_bits(const spectrum_run *run, const spectrum_sink *sink, int64_t i,
                           int state, const float *x, int64_t ld) {
    unsigned char *bits = sink->bits + i * wefti_chunks_bits_bytes(run->s);
    memset(bits, 0, (size_t)wefti_chunks_bits_bytes(run->s));
    sink->states[i] = (unsigned char)state;
    if (state == WEFTI_SIGNS_BITS) put_signs(run->s, x, ld, bits);
}

void WEFT_ISA_NAME(wefti_sink_put)(const spectrum_run *run, const spectrum_sink *sink,
                                   int64_t i, int state, const float *x, int64_t ld) {
    if (sink->kind == SINK_BITS) {
        put_chunk_bits(run, sink, i, state, x, ld);
        return;
    }
    spectrum_window w = spectrum_window_of(run->s, run->first + i);
    put_windows(sink, 1, &w, x, ld);
    if (sink->kind == SINK_SIGN && state != WEFTI_SIGNS_BITS)
        fill(w, value_of(state), sink->tensor);
}

void WEFT_ISA_NAME(wefti_sink_put_blocks)(const spectrum_run *run,
                                          const spectrum_sink *sink, int64_t i,
                                          int64_t count, const int *states,
                                          const float *x) {
    int64_t ld = run->spectrum->ld;
    spectrum_window w[SPECTRUM_BESIDE];
    for (int64_t b = 0; b < count; b++) {
        w[b] = spectrum_window_of(run->s, run->first + i + b);
        if (sink->kind == SINK_BITS)
            put_chunk_bits(run, sink, i + b, states[b], x + b * ld * ld, ld);
    }
    if (sink->kind == SINK_BITS) return;
    put_windows(sink, count, w, x, ld);
    for (int64_t b = 0; b < count; b++)
        if (sink->kind == SINK_SIGN && states[b] != WEFTI_SIGNS_BITS)
            fill(w[b], value_of(states[b]), sink->tensor);
}

/* 1 and -1 for n elements from bit `at` on. */
static void store_signs(const unsigned char *bits, int64_t at, int64_t n, float *d) {
    const vint one = (vint)splat(1), minus = splat_int(INT32_MIN);
    for (int64_t j = 0; j < n; j += SPECTRUM_WIDE) {
        unsigned word = get_bits(bits, at + j, least(n - j, SPECTRUM_WIDE));
        for (int v = 0; v < SPECTRUM_WIDE && j + v < n; v += LANES) {
            vfloat value = (vfloat)(one | (lane_mask(word >> v) & minus));
            if (n - j - v >= LANES)
                store(d + j + v, value);
            else
                store_part(d + j + v, value, n - j - v);
        }
    }
}

void WEFT_ISA_NAME(wefti_bits_store)(const wefti_chunks *s, int64_t first, int64_t n,
                                     const unsigned char *states,
                                     const unsigned char *bits, float *d) {
    for (int64_t i = 0; i < n; i++, bits += wefti_chunks_bits_bytes(s)) {
        spectrum_window w = spectrum_window_of(s, first + i);
        if (states[i] != WEFTI_SIGNS_BITS) fill(w, value_of(states[i]), d);
        for (int64_t l = 0; l < w.height && states[i] == WEFTI_SIGNS_BITS; l++)
            store_signs(bits, l * s->c, w.width, d + w.at + l * w.stride);
    }
}
