/* SPDX-License-Identifier: MIT */
/* Where inverted chunks go: they are subtracted from the momentum, or put into the
 * direction, or their signs into bits; and the direction from bits. Lines are padded to
 * SPECTRUM_WIDE in scratch. What is only written goes past the caches, in whole cache
 * lines. */
#include "compress/isa/steps.h"

#include <math.h>

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Puts n <= LANES elements. */
FLAT void put_part(int kind, float alpha, const float *x, int64_t n, float *to) {
    store_part(to, sunk(kind, alpha, load_part(to, n), load_part(x, n)), n);
}

/* Puts n elements of a line. */
FLAT void put_line(int kind, float alpha, const float *x, int64_t n, float *to) {
    int64_t j = 0;
    if (kind != SINK_SUBTRACT) {
        int64_t head = least(floats_to_past(to), n);
        for (; j < head; j += least(head - j, LANES))
            put_part(kind, alpha, x + j, least(head - j, LANES), to + j);
        for (; j + SPECTRUM_WIDE <= n; j += SPECTRUM_WIDE)
            for (int v = 0; v < SPECTRUM_WIDE; v += LANES)
                store_past(to + j + v, sunk(kind, alpha, splat(0), load(x + j + v)));
    }
    for (; j + LANES <= n; j += LANES)
        store(to + j, sunk(kind, alpha, load(to + j), load(x + j)));
    if (j < n) put_part(kind, alpha, x + j, n - j, to + j);
}

/* Puts chunks that lie beside each other, line by line. */
FLAT void put_lines(int kind, const spectrum_sink *sink, const put_chunk *chunks,
                    int count, int64_t ld) {
    const float alpha = sink->alpha;
    for (int64_t l = 0; l < chunks[0].window.height; l++) {
        for (int b = 0; b < count; b++) {
            const spectrum_window *w = &chunks[b].window;
            put_line(kind, alpha, chunks[b].x + l * ld, w->width,
                     sink->tensor + w->at + l * w->stride);
        }
    }
}

static void fill(spectrum_window w, float value, float *tensor) {
    for (int64_t l = 0; l < w.height; l++)
        for (int64_t j = 0; j < w.width; j++) tensor[w.at + l * w.stride + j] = value;
}

static float value_of(int state) { return state == WEFTI_SIGNS_ZERO ? 0.0f : NAN; }

static void put_signs(const spectrum_sink *sink, const put_chunk *chunks, int count,
                      int64_t ld) {
    put_lines(SINK_SIGN, sink, chunks, count, ld);
    for (int b = 0; b < count; b++)
        if (chunks[b].state != WEFTI_SIGNS_BITS)
            fill(chunks[b].window, value_of(chunks[b].state), sink->tensor);
}

/* The sign bits of one chunk; a line of them begins on a byte if c is a multiple of 8. */
static void put_bits(const wefti_chunks *s, const float *x, int64_t ld,
                     unsigned char *bits) {
    memset(bits, 0, (size_t)wefti_chunks_bits_bytes(s));
    for (int64_t line = 0; line < s->lines; line++) {
        for (int64_t j = 0; j < s->c; j += SPECTRUM_WIDE) {
            int64_t at = line * s->c + j, n = least(s->c - j, SPECTRUM_WIDE);
            unsigned word = below_zero(x + line * ld + j) & ((1u << n) - 1);
            word <<= at % 8;
            for (int64_t b = at / 8; word > 0; b++, word >>= 8)
                bits[b] |= (unsigned char)word;
        }
    }
}

static void put_bits_of(const spectrum_run *run, const spectrum_sink *sink, int64_t i,
                        const put_chunk *chunk, int64_t ld) {
    int64_t n_bytes = wefti_chunks_bits_bytes(run->s);
    sink->states[i] = (unsigned char)chunk->state;
    if (chunk->state == WEFTI_SIGNS_BITS)
        put_bits(run->s, chunk->x, ld, sink->bits + i * n_bytes);
    else
        memset(sink->bits + i * n_bytes, 0, (size_t)n_bytes);
}

void WEFT_ISA_NAME(wefti_sink_put)(const spectrum_run *run, const spectrum_sink *sink,
                                   int64_t i, const put_chunk *chunks, int count,
                                   int64_t ld) {
    if (sink->kind == SINK_SUBTRACT)
        put_lines(SINK_SUBTRACT, sink, chunks, count, ld);
    else if (sink->kind == SINK_VALUE)
        put_lines(SINK_VALUE, sink, chunks, count, ld);
    else if (sink->kind == SINK_SIGN)
        put_signs(sink, chunks, count, ld);
    else
        for (int b = 0; b < count; b++) put_bits_of(run, sink, i + b, &chunks[b], ld);
}

/* n <= SPECTRUM_WIDE bits from bit `at` on; the higher bits are whatever follows them. */
static unsigned get_bits(const unsigned char *from, int64_t at, int64_t n) {
    unsigned bits = 0;
    for (int64_t b = at / 8, shift = 0; shift < at % 8 + n; b++, shift += 8)
        bits |= (unsigned)from[b] << shift;
    return bits >> at % 8;
}

static void store_signs(unsigned bits, int64_t n, float *d) {
    for (int64_t j = 0; j < n; j++) d[j] = bits >> j & 1 ? -1.0f : 1.0f;
}

/* For lines that begin on a byte, and d that begins on a cache line. */
FLAT void store_whole_line(const unsigned char *bits, int64_t n, float *d) {
    const vfloat one = splat(1), minus = splat(-1);
    for (int64_t j = 0; j < n; j += SPECTRUM_WIDE) {
        unsigned word = (unsigned)bits[j / 8] | (unsigned)bits[j / 8 + 1] << 8;
        for (int v = 0; v < SPECTRUM_WIDE; v += LANES)
            store_past(d + j + v, pick_bits(word >> v, minus, one));
    }
}

static void store_line(const unsigned char *bits, int64_t at, int64_t n, float *d) {
    int64_t j = least(floats_to_past(d), n), whole = (n - j) / SPECTRUM_WIDE;
    store_signs(get_bits(bits, at, j), j, d);
    if ((at + j) % 8 == 0) {
        store_whole_line(bits + (at + j) / 8, whole * SPECTRUM_WIDE, d + j);
        j += whole * SPECTRUM_WIDE;
    }
    for (; j < n; j += SPECTRUM_WIDE) {
        int64_t part = least(n - j, SPECTRUM_WIDE);
        store_signs(get_bits(bits, at + j, part), part, d + j);
    }
}

void WEFT_ISA_NAME(wefti_bits_store)(const wefti_chunks *s, int64_t first, int64_t n,
                                     const unsigned char *states,
                                     const unsigned char *bits, float *d) {
    for (int64_t i = 0; i < n; i++, bits += wefti_chunks_bits_bytes(s)) {
        spectrum_window w = spectrum_window_of(s, first + i);
        if (states[i] != WEFTI_SIGNS_BITS) fill(w, value_of(states[i]), d);
        for (int64_t l = 0; l < w.height && states[i] == WEFTI_SIGNS_BITS; l++)
            store_line(bits, l * s->c, w.width, d + w.at + l * w.stride);
    }
    settle_past();
}
