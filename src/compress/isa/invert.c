/* SPDX-License-Identifier: MIT */
/* Coefficients back to chunks: the mean of what the ranks sent, then the inverse DCT.
 *
 * Few coefficients: each adds its row of the basis. Many, in chunks side by side: the fast
 * inverse. A chunk of c lines: each line's coefficients add their rows, then the columns
 * are inverted side by side. Which way is taken follows from the cut, k and R alone, and
 * every chunk's bits from its own coefficients, so all ranks find the same. */
#include "compress/isa/steps.h"

/* The coefficients of one chunk, ascending. */
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
    return most > 0 ? WEFTI_SIGNS_BITS : WEFTI_SIGNS_ZERO;
}

/* The sum of a coefficient's values and how many they are. */
typedef float pair __attribute__((vector_size(8)));

/* Chunk i's lists into sums; a bit per coefficient that has one, until then its sum is
 * nothing. The zero taken instead lies behind the sums: no branch depends on the data. */
static void add_lists(const spectrum_run *run, const spectrum_lists *lists, int64_t i,
                      pair *sums, uint64_t *seen) {
    int64_t k = run->s->k;
    const int64_t none = run->s->elements;
    sums[none] = (pair){0, 0};
    for (int r = 0; r < lists->R; r++) {
        const int32_t *from = lists->indices[r] + i * k;
        const float *values = lists->values[r] + i * k;
        for (int64_t j = 0; j < k; j++) {
            int64_t f = from[j];
            uint64_t *word = &seen[f / 64];
            int64_t known = -(int64_t)(*word >> f % 64 & 1);
            sums[f] = sums[none ^ (known & (f ^ none))] + (pair){values[j], 1};
            *word |= (uint64_t)1 << f % 64;
        }
    }
}

/* The mean of chunk i over the lists that have the coefficient. */
static kept mean_of_lists(const spectrum_run *run, const spectrum_lists *lists,
                          int64_t i) {
    pair *sums = (pair *)(void *)run->scratch->sums;
    uint64_t *seen = run->scratch->seen;
    int32_t *index = run->scratch->index;
    float *value = run->scratch->value;
    int64_t n = 0;
    uint32_t most = 0;
    add_lists(run, lists, i, sums, seen);
    for (int64_t w = 0; w * 64 < run->s->elements; w++) {
        for (uint64_t word = seen[w]; word > 0; word &= word - 1) {
            int64_t f = w * 64 + __builtin_ctzll(word);
            index[n] = (int32_t)f;
            value[n] = sums[f][0] / sums[f][1];
            most = larger_size(most, value[n++]);
        }
        seen[w] = 0;
    }
    return (kept){n, index, value, most};
}

/* One list as it is. */
static kept kept_of(const spectrum_run *run, const spectrum_lists *lists, int64_t i) {
    int64_t k = run->s->k;
    kept q = {k, lists->indices[0] + i * k, lists->values[0] + i * k, 0};
    for (int64_t j = 0; j < k; j++) q.most = larger_size(q.most, q.value[j]);
    return q;
}

static kept mean_of(const spectrum_run *run, const spectrum_lists *lists, int64_t i) {
    return lists->R == 1 ? kept_of(run, lists, i) : mean_of_lists(run, lists, i);
}

/* out[ld] = sum of value_j times row index_j - base of the basis. */
static void add_rows(const wefti_spectrum *p, const kept *q, int32_t base, float *out) {
    enum { ACROSS = LANES == 4 ? 8 : 64 / LANES };
    int64_t at = 0;
    for (; at + ACROSS * LANES <= p->ld; at += ACROSS * LANES) {
        vfloat acc[ACROSS];
        for (int a = 0; a < ACROSS; a++) acc[a] = splat(0);
        for (int64_t j = 0; j < q->n; j++) {
            const float *row = p->basis + (q->index[j] - base) * p->ld + at;
            for (int a = 0; a < ACROSS; a++)
                acc[a] += load(row + a * LANES) * q->value[j];
        }
        for (int a = 0; a < ACROSS; a++) store(out + at + a * LANES, acc[a]);
    }
    for (; at < p->ld; at += LANES) {
        vfloat acc = splat(0);
        for (int64_t j = 0; j < q->n; j++)
            acc += load(p->basis + (q->index[j] - base) * p->ld + at) * q->value[j];
        store(out + at, acc);
    }
}

/* out[c][ld] from the coefficients of a chunk of c lines. */
#define ASKPER (SPECTRUM_BESIDE/2)
static void invert_block(const spectrum_run *run, const kept *q, float *out, int64_t next, int64_t row, const float *tensor) {
    const wefti_spectrum *p = run->spectrum;
    float *a = p->is_fast ? out : run->scratch->a;
spectrum_window w = next<run->s->n&&tensor?spectrum_window_of(run->s,next):(spectrum_window){0}; const float*at=tensor?tensor+w.at+row*w.stride:a;
    memset(a, 0, (size_t)(p->c * p->ld) * sizeof *a);
    for (int64_t j = 0; j < q->n;) {
        int64_t line = q->index[j] / p->c, n = 1;
        while (j + n < q->n && q->index[j + n] < (line + 1) * p->c) n++;
        kept of_line = {n, q->index + j, q->value + j, 0};
        add_rows(p, &of_line, (int32_t)(line * p->c), a + line * p->ld);
        j += n;
    }
    for (int64_t h = 0; h < p->ld; h += LANES)
        {WEFT_ISA_NAME(wefti_cosine_inverse)(p, a + h, p->ld, out + h, p->ld,
                                            run->scratch->temp,at+h/LANES*(8/ASKPER)*w.stride,w.stride);}
}

static void invert_blocks(const spectrum_run *run, const spectrum_lists *lists,
                          const spectrum_sink *sink) {
    float *blocks = run->scratch->blocks;
    int64_t ld = run->spectrum->ld, count;
    for (int64_t i = 0; i < run->n; i += count) {
        int states[SPECTRUM_BESIDE];
        count = blocks_beside(run, i);
        for (int64_t b = 0; b < count; b++) {
            kept q = mean_of(run, lists, i + b);
            states[b] = state_of(q.most);
            invert_block(run, &q, blocks + b * ld * ld,run->first+i+count,b*64/count,sink->kind==SINK_SUBTRACT?NULL:sink->tensor);
        }
        WEFT_ISA_NAME(wefti_sink_put_blocks)(run, sink, i, count, states, blocks);
    }
}

static void invert_few(const spectrum_run *run, const spectrum_lists *lists,
                       const spectrum_sink *sink) {
    for (int64_t i = 0; i < run->n; i++) {
        kept q = mean_of(run, lists, i);
        add_rows(run->spectrum, &q, 0, run->scratch->b);
        WEFT_ISA_NAME(wefti_sink_put)(run, sink, i, state_of(q.most), run->scratch->b,
                                      run->spectrum->ld);
    }
}

/* LANES chunks of 64 with at most FEW entries of all lists together. */
enum { FEW = 24, ACROSS_64 = 64 / LANES };
typedef struct entries {
    int64_t n; /* lists * k */
    int32_t index[FEW][LANES];
    float value[FEW][LANES];
    int32_t most[LANES]; /* the bits of the largest magnitude */
} entries;

static void gather_entries(const spectrum_run *run, const spectrum_lists *lists,
                           int64_t i, int64_t count, entries *e) {
    int64_t k = run->s->k;
    e->n = lists->R * k;
    for (int r = 0; r < lists->R; r++) {
        const int32_t *index = lists->indices[r] + i * k;
        const float *value = lists->values[r] + i * k;
        for (int64_t j = 0; j < k; j++) {
            for (int64_t l = 0; l < LANES; l++) {
                e->index[r * k + j][l] = l < count ? index[l * k + j] : 0;
                e->value[r * k + j][l] = l < count ? value[l * k + j] : 0;
            }
        }
    }
}

/* The first entry of a coefficient takes the mean, the others 0. Entries of one list
 * differ; k is their number. */
static void merge_entries(int64_t k, entries *e) {
    vint follows[FEW], most = splat_int(0);
    for (int64_t a = 0; a < e->n; a++) follows[a] = splat_int(0);
    for (int64_t a = 0; a < e->n; a++) {
        vint index = (vint)load((const float *)e->index[a]);
        vfloat total = load(e->value[a]), senders = splat(1);
        for (int64_t b = (a / k + 1) * k; b < e->n; b++) {
            vint same = index == (vint)load((const float *)e->index[b]);
            total += (vfloat)(same & (vint)load(e->value[b]));
            senders += (vfloat)(same & (vint)splat(1));
            follows[b] |= same;
        }
        vint mean = (vint)(total / senders) & ~follows[a];
        store(e->value[a], (vfloat)mean);
        most = larger_int(most, mean & INT32_MAX);
    }
    memcpy(e->most, &most, sizeof most);
}

FLAT void sum_rows_64(const float *basis, const entries *e, int64_t l, vfloat *acc) {
    UNROLL
    for (int a = 0; a < ACROSS_64; a++) acc[a] = splat(0);
    for (int64_t j = 0; j < e->n; j++) {
        const float *row = basis + (int64_t)e->index[j][l] * 64;
        vfloat value = splat(e->value[j][l]);
        UNROLL
        for (int a = 0; a < ACROSS_64; a++) acc[a] += load(row + a * LANES) * value;
    }
}

FLAT void invert_64(int kind, const spectrum_run *run, const spectrum_lists *lists,
                    const spectrum_sink *sink) {
    const float *basis = run->spectrum->basis;
    const float alpha = sink->alpha;
    int64_t whole = run->s->cols / 64 - run->first;
    entries e;
    for (int64_t i = 0; i < run->n; i++) {
        if (i % LANES == 0) {
            gather_entries(run, lists, i, run->n - i, &e);
            merge_entries(run->s->k, &e);
        }
        int64_t l = i % LANES;
        int state = state_of((uint32_t)e.most[l]);
        vfloat acc[ACROSS_64];
        sum_rows_64(basis, &e, l, acc);
        bool is_plain = kind == SINK_SUBTRACT || kind == SINK_VALUE ||
                        (kind == SINK_SIGN && state == WEFTI_SIGNS_BITS);
        if (is_plain && i < whole) {
            float *to = sink->tensor + (run->first + i) * 64;
            UNROLL
            for (int a = 0; a < ACROSS_64; a++)
                store(to + a * LANES, sunk(kind, alpha, load(to + a * LANES), acc[a]));
            continue;
        }
        UNROLL
        for (int a = 0; a < ACROSS_64; a++)
            store(run->scratch->b + a * LANES, acc[a]);
        WEFT_ISA_NAME(wefti_sink_put)(run, sink, i, state, run->scratch->b, 64);
    }
}

static void invert_few_64(const spectrum_run *run, const spectrum_lists *lists,
                          const spectrum_sink *sink) {
    if (sink->kind == SINK_SUBTRACT)
        invert_64(SINK_SUBTRACT, run, lists, sink);
    else if (sink->kind == SINK_VALUE)
        invert_64(SINK_VALUE, run, lists, sink);
    else if (sink->kind == SINK_SIGN)
        invert_64(SINK_SIGN, run, lists, sink);
    else
        invert_64(SINK_BITS, run, lists, sink);
}

/* x[c][LANES] to out[LANES][c]; c is a multiple of LANES. */
static void unpack_rows(int64_t c, const float *x, float *out) {
    for (int64_t t = 0; t < c; t += LANES) {
        vfloat rows[LANES];
        UNROLL
        for (int i = 0; i < LANES; i++) rows[i] = load(x + (t + i) * LANES);
        turn(rows);
        UNROLL
        for (int i = 0; i < LANES; i++) store(out + i * c + t, rows[i]);
    }
}

static void invert_many(const spectrum_run *run, const spectrum_lists *lists,
                        const spectrum_sink *sink) {
    const spectrum_scratch *scratch = run->scratch;
    int64_t c = run->s->c;
    for (int64_t i = 0; i < run->n; i += LANES) {
        int64_t count = run->n - i < LANES ? run->n - i : LANES;
        int states[LANES];
        memset(scratch->a, 0, (size_t)(c * LANES) * sizeof(float));
        for (int64_t l = 0; l < count; l++) {
            kept q = mean_of(run, lists, i + l);
            states[l] = state_of(q.most);
            for (int64_t j = 0; j < q.n; j++)
                scratch->a[q.index[j] * LANES + l] = q.value[j];
        }
        WEFT_ISA_NAME(wefti_cosine_inverse)(run->spectrum, scratch->a, LANES, scratch->b,
                                            LANES, scratch->temp,scratch->a,0);
        unpack_rows(c, scratch->b, scratch->a);
        for (int64_t l = 0; l < count; l++)
            WEFT_ISA_NAME(wefti_sink_put)(run, sink, i + l, states[l],
                                          scratch->a + l * c, c);
    }
}

void WEFT_ISA_NAME(wefti_spectrum_invert)(const spectrum_run *run,
                                          const spectrum_lists *lists,
                                          const spectrum_sink *sink) {
    const wefti_chunks *s = run->s;
    if (s->lines > 1)
        invert_blocks(run, lists, sink);
    else if (run->spectrum->is_fast && s->c >= SPECTRUM_WIDE &&
             8 * lists->R * s->k > 3 * s->c)
        invert_many(run, lists, sink);
    else if (s->c == 64)
        invert_few_64(run, lists, sink);
    else
        invert_few(run, lists, sink);
}
