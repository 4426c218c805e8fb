/* SPDX-License-Identifier: MIT */
/* The inverse of chunks of 64 of which few coefficients were sent, from the lists to the
 * tensor without a branch that depends on the data. For LANES chunks side by side, each
 * entry of the lists is compared with those of later lists; then each chunk is computed
 * in registers as a sum of a few rows of the basis. */
#include "compress/isa/steps.h"

/* Entry e of chunk l of LANES. */
enum { ACROSS = 64 / LANES };
typedef struct entries {
    int64_t n;
    int32_t index[INVERT_FEW][LANES];
    float value[INVERT_FEW][LANES];
    int32_t most[LANES]; /* the bits of the largest magnitude */
} entries;

FLAT void gather_list(int64_t k, int64_t count, const int32_t *index, const float *value,
                      int32_t (*to_index)[LANES], float (*to_value)[LANES]) {
    for (int64_t j = 0; j < k; j++) {
        for (int64_t l = 0; l < LANES; l++) {
            to_index[j][l] = l < count ? index[l * k + j] : 0;
            to_value[j][l] = l < count ? value[l * k + j] : 0;
        }
    }
}

static void gather(const spectrum_run *run, const spectrum_lists *lists, int64_t i,
                   entries *e) {
    int64_t k = run->s->k, count = run->n - i;
    e->n = lists->R * k;
    for (int r = 0; r < lists->R; r++) {
        const int32_t *index = lists->indices[r] + i * k;
        const float *value = lists->values[r] + i * k;
        if (k == 4 && count >= LANES) /* known to the compiler */
            gather_list(4, LANES, index, value, e->index + r * k, e->value + r * k);
        else if (k == 8 && count >= LANES)
            gather_list(8, LANES, index, value, e->index + r * k, e->value + r * k);
        else
            gather_list(k, count, index, value, e->index + r * k, e->value + r * k);
    }
}

/* 1 for each sender, 0 where its value is 0. */
FLAT vfloat counted(vfloat value) { return pick(value == 0.0f, splat(0), splat(1)); }

/* The first entry of a coefficient becomes the mean over its entries that are not 0, its
 * later entries become 0. Entries of one list differ. */
static void merge(int64_t k, entries *e) {
    vint follows[INVERT_FEW], most = splat_int(0);
    for (int64_t a = 0; a < e->n; a++) follows[a] = splat_int(0);
    for (int64_t a = 0; a < e->n; a++) {
        vint index, other;
        memcpy(&index, e->index[a], sizeof index);
        vfloat total = load(e->value[a]), senders = counted(total);
        for (int64_t b = (a / k + 1) * k; b < e->n; b++) {
            memcpy(&other, e->index[b], sizeof other);
            vint same = index == other;
            total += (vfloat)(same & (vint)load(e->value[b]));
            senders += (vfloat)(same & (vint)counted(load(e->value[b])));
            follows[b] |= same;
        }
        senders = pick(senders > 1, senders, splat(1));
        vint mean = (vint)(total / senders) & ~follows[a];
        store(e->value[a], (vfloat)mean);
        most = larger_int(most, mean & INT32_MAX);
    }
    memcpy(e->most, &most, sizeof most);
}

FLAT void sum_rows(const float *basis, const entries *e, int64_t l, vfloat *acc) {
    UNROLL
    for (int a = 0; a < ACROSS; a++) acc[a] = splat(0);
    for (int64_t j = 0; j < e->n; j++) {
        const float *row = basis + (int64_t)e->index[j][l] * 64;
        vfloat value = splat(e->value[j][l]);
        UNROLL
        for (int a = 0; a < ACROSS; a++) acc[a] += load(row + a * LANES) * value;
    }
}

static int state_of(int32_t most) {
    const int32_t infinite = 0x7f800000;
    if (most >= infinite) return WEFTI_SIGNS_NOT_FINITE;
    return most >= WEFTI_STILL_BITS ? WEFTI_SIGNS_BITS : WEFTI_SIGNS_ZERO;
}

/* Puts a whole chunk into the tensor. */
FLAT void put_whole(int kind, float alpha, const vfloat *acc, float *to) {
    bool is_past = kind != SINK_SUBTRACT && floats_to_past(to) == 0;
    UNROLL
    for (int a = 0; a < ACROSS; a++) {
        if (is_past)
            store_past(to + a * LANES, sunk(kind, alpha, splat(0), acc[a]));
        else
            store(to + a * LANES, sunk(kind, alpha, load(to + a * LANES), acc[a]));
    }
}

FLAT void put_whole_bits(const vfloat *acc, unsigned char *to) {
    uint64_t bits = 0;
    UNROLL
    for (int a = 0; a < ACROSS; a++)
        bits |= (uint64_t)lane_bits(~(acc[a] >= 0.0f)) << (a * LANES);
    for (int b = 0; b < 8; b++) to[b] = (unsigned char)(bits >> 8 * b);
}

FLAT void invert(int kind, const spectrum_run *run, const spectrum_lists *lists,
                 const spectrum_sink *sink) {
    int64_t whole = run->s->cols / 64 - run->first;
    entries e;
    for (int64_t i = 0; i < run->n; i++) {
        int64_t l = i % LANES;
        if (l == 0) gather(run, lists, i, &e);
        if (l == 0) merge(run->s->k, &e);
        int state = state_of(e.most[l]);
        bool has_signs = state == WEFTI_SIGNS_BITS;
        vfloat acc[ACROSS];
        sum_rows(run->spectrum->basis, &e, l, acc);
        if (kind == SINK_BITS && has_signs) {
            sink->states[i] = WEFTI_SIGNS_BITS;
            put_whole_bits(acc, sink->bits + i * 8);
        } else if (kind != SINK_BITS && i < whole && (kind != SINK_SIGN || has_signs)) {
            put_whole(kind, sink->alpha, acc, sink->tensor + (run->first + i) * 64);
        } else {
            float *x = run->scratch->b;
            for (int a = 0; a < ACROSS; a++) store(x + a * LANES, acc[a]);
            put_chunk chunk = {spectrum_window_of(run->s, run->first + i), x, state};
            WEFT_ISA_NAME(wefti_sink_put)(run, sink, i, &chunk, 1, 64);
        }
    }
}

void WEFT_ISA_NAME(wefti_invert_few)(const spectrum_run *run, const spectrum_lists *lists,
                                     const spectrum_sink *sink) {
    if (sink->kind == SINK_SUBTRACT)
        invert(SINK_SUBTRACT, run, lists, sink);
    else if (sink->kind == SINK_VALUE)
        invert(SINK_VALUE, run, lists, sink);
    else if (sink->kind == SINK_SIGN)
        invert(SINK_SIGN, run, lists, sink);
    else
        invert(SINK_BITS, run, lists, sink);
}
