/* SPDX-License-Identifier: MIT */
/* Coefficients back to chunks: the mean of what the ranks sent, then the inverse DCT.
 *
 * Few coefficients are inverted one by one: each adds its row of the basis to the chunk.
 * Many coefficients are scattered into chunks side by side, which the fast inverse then
 * transforms back. In a chunk of c lines the coefficients of a line make that line, and
 * then the columns are inverted side by side; if there are many coefficients, the fast
 * inverse does both lines and columns. The way follows from the cut, k and R alone, and
 * the bits of a chunk from its own coefficients alone: all ranks get the same result,
 * however batches are cut. */
#include "compress/isa/steps.h"

/* The coefficients of one chunk. */
typedef struct kept {
    int64_t n;
    const int32_t *index;
    const float *value;
    uint32_t most; /* the bits of the largest magnitude */
} kept;

FLAT uint32_t larger_size(uint32_t most, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits &= INT32_MAX;
    return bits > most ? bits : most;
}

FLAT int state_of(uint32_t most) {
    const uint32_t infinite = 0x7f800000;
    if (most >= infinite) return WEFTI_SIGNS_NOT_FINITE;
    return most >= WEFTI_STILL_BITS ? WEFTI_SIGNS_BITS : WEFTI_SIGNS_ZERO;
}

/* For each coefficient the sum of its values in the lists, and the number of lists that
 * have it with a value other than 0: all zero between chunks. */
typedef float pair __attribute__((vector_size(8)));

static void add_lists(const spectrum_lists *lists, int64_t first, int64_t k, pair *sums) {
    for (int r = 0; r < lists->R; r++)
        for (int64_t j = first; j < first + k; j++)
            sums[lists->indices[r][j]] += (pair){lists->values[r][j],
                                                 lists->values[r][j] != 0};
}

/* 1/n for few senders: a division each would take longer than all the rest. */
FLAT float share_of(float senders) {
    static const float shares[] = {0,        1,        1.0f / 2, 1.0f / 3, 1.0f / 4,
                                   1.0f / 5, 1.0f / 6, 1.0f / 7, 1.0f / 8};
    return senders <= 8 ? shares[(int)senders] : 1 / senders;
}

/* The mean of chunk i over the lists that have the coefficient, in the order in which
 * coefficients first occur. There is no branch that depends on the data: a coefficient
 * that occurs again finds its sum already taken, and its place is overwritten. */
static kept mean_of(const spectrum_run *run, const spectrum_lists *lists, int64_t i) {
    int64_t k = run->s->k, first = i * k, n = 0;
    if (lists->R == 1) {
        kept q = {k, lists->indices[0] + first, lists->values[0] + first, 0};
        for (int64_t j = 0; j < k; j++) q.most = larger_size(q.most, q.value[j]);
        return q;
    }
    pair *sums = (pair *)(void *)run->scratch->sums;
    int32_t *index = run->scratch->index;
    float *value = run->scratch->value;
    uint32_t most = 0;
    add_lists(lists, first, k, sums);
    for (int r = 0; r < lists->R; r++) {
        for (int64_t j = first; j < first + k; j++) {
            int32_t f = lists->indices[r][j];
            pair sum = sums[f];
            index[n] = f;
            value[n] = sum[0] * share_of(sum[1]);
            most = larger_size(most, value[n]);
            n += sum[1] > 0;
            sums[f] = (pair){0, 0};
        }
    }
    return (kept){n, index, value, most};
}

/* How the line of a coefficient is found: for a power of two by a shift. */
typedef struct divisor {
    uint32_t c;
    int shift;
} divisor;

FLAT divisor divisor_of(const wefti_spectrum *p) {
    return (divisor){(uint32_t)p->c, p->is_fast ? __builtin_ctzll((uint64_t)p->c) : -1};
}

FLAT int64_t line_of(divisor d, int32_t index) {
    return d.shift >= 0 ? (uint32_t)index >> d.shift : (uint32_t)index / d.c;
}

/* x[c][ld], zero before: adds each coefficient's row of the basis to its line. */
FLAT void add_rows(const wefti_spectrum *p, int64_t ld, const kept *q, float *x) {
    const divisor by_c = divisor_of(p);
    for (int64_t j = 0; j < q->n; j++) {
        int64_t line = line_of(by_c, q->index[j]);
        const float *row = p->basis + (q->index[j] - line * p->c) * ld;
        float *to = x + line * ld;
        vfloat value = splat(q->value[j]);
        for (int64_t h = 0; h < ld; h += LANES)
            store(to + h, load(to + h) + load(row + h) * value);
    }
}

static void inverse(const wefti_spectrum *p, const float *x, float *out, float *temp) {
    for (int64_t h = 0; h < p->ld; h += LANES)
        WEFT_ISA_NAME(wefti_cosine_inverse)(p, x + h, p->ld, out + h, p->ld, temp);
}

/* out[c][ld] from many coefficients, for a power of two: lines side by side, then
 * columns. `x`: scratch for a second chunk. */
static void invert_dense(const spectrum_run *run, const kept *q, float *x, float *out) {
    const wefti_spectrum *p = run->spectrum;
    const divisor by_c = divisor_of(p);
    memset(x, 0, (size_t)(p->ld * p->ld) * sizeof *x);
    for (int64_t j = 0; j < q->n; j++) {
        int64_t line = line_of(by_c, q->index[j]);
        x[(q->index[j] - line * p->c) * p->ld + line] = q->value[j];
    }
    inverse(p, x, x, run->scratch->temp);
    WEFT_ISA_NAME(wefti_block_transpose)(p, x, out);
    inverse(p, out, out, run->scratch->temp);
}

static void invert_sparse(const spectrum_run *run, const kept *q, float *x, float *out) {
    const wefti_spectrum *p = run->spectrum;
    memset(x, 0, (size_t)(p->c * p->ld) * sizeof *x);
    if (p->ld == 64)
        add_rows(p, 64, q, x);
    else
        add_rows(p, p->ld, q, x);
    inverse(p, x, out, run->scratch->temp);
}

/* Inverts chunk i of c lines into out. x: scratch for a second chunk; it may be out if c
 * is a power of two and the coefficients are few. */
static put_chunk invert_block(const spectrum_run *run, const spectrum_lists *lists,
                              int64_t i, bool is_dense, float *x, float *out) {
    kept q = mean_of(run, lists, i);
    if (is_dense)
        invert_dense(run, &q, x, out);
    else
        invert_sparse(run, &q, x, out);
    return (put_chunk){spectrum_window_of(run->s, run->first + i), out, state_of(q.most)};
}

/* Chunks of c lines. If there is room for two, two chunks that lie beside each other are
 * stored together: lines of a tensor that lie a multiple of 4 KiB apart share a few
 * places of the first-level cache, and with longer pieces fewer of them are in progress
 * at once. */
static void invert_blocks(const spectrum_run *run, const spectrum_lists *lists,
                          const spectrum_sink *sink) {
    const wefti_spectrum *p = run->spectrum;
    const wefti_chunks *s = run->s;
    float *a = run->scratch->a, *b = run->scratch->b;
    bool is_dense = p->is_fast && 16 * lists->R * s->k > s->elements,
         by_two = p->is_fast && !is_dense;
    for (int64_t i = 0; i < run->n;) {
        put_chunk chunks[2];
        int count = 1;
        bool is_last = i + 1 == run->n || (run->first + i + 1) % s->across == 0;
        chunks[0] = invert_block(run, lists, i, is_dense, a, by_two ? a : b);
        if (by_two && !is_last)
            chunks[count++] = invert_block(run, lists, i + 1, false, b, b);
        WEFT_ISA_NAME(wefti_sink_put)(run, sink, i, chunks, count, p->ld);
        i += count;
    }
}

static void put_one(const spectrum_run *run, const spectrum_sink *sink, int64_t i,
                    int state, const float *x, int64_t ld) {
    put_chunk chunk = {spectrum_window_of(run->s, run->first + i), x, state};
    WEFT_ISA_NAME(wefti_sink_put)(run, sink, i, &chunk, 1, ld);
}

/* out[ld] = sum of value_j times row index_j of the basis. */
static void sum_rows(const wefti_spectrum *p, const kept *q, float *out) {
    enum { ACROSS = 4 };
    for (int64_t at = 0; at < p->ld; at += ACROSS * LANES) {
        int64_t left = (p->ld - at) / LANES, across = left < ACROSS ? left : ACROSS;
        vfloat acc[ACROSS];
        for (int a = 0; a < ACROSS; a++) acc[a] = splat(0);
        for (int64_t j = 0; j < q->n; j++) {
            const float *row = p->basis + q->index[j] * p->ld + at;
            for (int a = 0; a < ACROSS; a++)
                if (a < across) acc[a] += load(row + a * LANES) * q->value[j];
        }
        for (int a = 0; a < across; a++) store(out + at + a * LANES, acc[a]);
    }
}

/* Chunks of one line, one at a time. */
static void invert_alone(const spectrum_run *run, const spectrum_lists *lists,
                         const spectrum_sink *sink) {
    for (int64_t i = 0; i < run->n; i++) {
        kept q = mean_of(run, lists, i);
        sum_rows(run->spectrum, &q, run->scratch->b);
        put_one(run, sink, i, state_of(q.most), run->scratch->b, run->spectrum->ld);
    }
}

/* What the lists have for LANES chunks, side by side: sums[c][LANES],
 * counts[c][LANES]. */
static void scatter_lists(const spectrum_run *run, const spectrum_lists *lists, int64_t i,
                          float *sums, float *counts) {
    int64_t k = run->s->k, count = run->n - i < LANES ? run->n - i : LANES;
    for (int r = 0; r < lists->R; r++) {
        for (int64_t l = 0; l < count; l++) {
            const int32_t *index = lists->indices[r] + (i + l) * k;
            const float *value = lists->values[r] + (i + l) * k;
            for (int64_t j = 0; j < k; j++) {
                sums[index[j] * LANES + l] += value[j];
                counts[index[j] * LANES + l] += value[j] != 0;
            }
        }
    }
}

/* sums[c][LANES] / counts where a count is above 1; returns the bits of the largest
 * magnitude in each lane. */
static vint divide(int64_t c, bool is_one, float *sums, const float *counts) {
    vint most = splat_int(0);
    for (int64_t t = 0; t < c; t++) {
        vfloat sum = load(sums + t * LANES), count = load(counts + t * LANES);
        if (!is_one) store(sums + t * LANES, sum = pick(count > 1, sum / count, sum));
        most = larger_int(most, (vint)sum & INT32_MAX);
    }
    return most;
}

/* x[c][LANES] to out[LANES][c]; c is a multiple of LANES. */
static void unpack_rows(int64_t c, const float *x, float *out) {
    for (int64_t t = 0; t < c; t += LANES) {
        vfloat rows[LANES];
        UNROLL
        for (int i = 0; i < LANES; i++) rows[i] = load(x + (t + i) * LANES);
        transpose_square(rows);
        UNROLL
        for (int i = 0; i < LANES; i++) store(out + i * c + t, rows[i]);
    }
}

/* Chunks of one line of a power of two, LANES at a time. */
static void invert_beside(const spectrum_run *run, const spectrum_lists *lists,
                          const spectrum_sink *sink) {
    const spectrum_scratch *scratch = run->scratch;
    float *a = scratch->a, *b = scratch->b;
    int64_t c = run->s->c;
    for (int64_t i = 0; i < run->n; i += LANES) {
        int32_t most[LANES];
        memset(a, 0, (size_t)(c * LANES) * sizeof *a);
        memset(b, 0, (size_t)(c * LANES) * sizeof *b);
        scatter_lists(run, lists, i, a, b);
        vint all = divide(c, lists->R == 1, a, b);
        memcpy(most, &all, sizeof most);
        WEFT_ISA_NAME(wefti_cosine_inverse)
        (run->spectrum, a, LANES, b, LANES, scratch->temp);
        unpack_rows(c, b, a);
        for (int64_t l = 0; l < LANES && i + l < run->n; l++)
            put_one(run, sink, i + l, state_of((uint32_t)most[l]), a + l * c, c);
    }
}

void WEFT_ISA_NAME(wefti_spectrum_invert)(const spectrum_run *run,
                                          const spectrum_lists *lists,
                                          const spectrum_sink *sink) {
    const wefti_chunks *s = run->s;
    int64_t entries = lists->R * s->k;
    if (s->lines > 1)
        invert_blocks(run, lists, sink);
    else if (s->c == 64 && entries <= INVERT_FEW)
        WEFT_ISA_NAME(wefti_invert_few)(run, lists, sink);
    else if (run->spectrum->is_fast && s->c >= SPECTRUM_WIDE && 8 * entries > 3 * s->c)
        invert_beside(run, lists, sink);
    else
        invert_alone(run, lists, sink);
    settle_past();
}
