/* SPDX-License-Identifier: MIT */
/* Attention whose products use numbers rounded to bf16, with the instructions of AVX-512
 * BF16. On processors without them attention.c does the same with the rounded numbers as
 * f32. The order of work is that of attention.c, PAIR queries against all their keys at a
 * time; so are masks and the gradient of a bias. Products multiply pairs (bf16.h):
 *
 *     scores, dp    rows of k, v: pairs of d           strips of queries: pairs of d
 *     o, dq         strips of p, ds: pairs of keys     strips of v, k: pairs of keys
 *     dv, dk        rows of p, ds: pairs of queries    strips of do, q: pairs of queries
 *
 * Sums, scores, exponentials and their sums are f32. p of the forward is exp(score - largest),
 * rounded before it is divided by its sum; do.o uses the numbers without rounding.
 *
 * attention_amx.c does the same by AMX. */
#include "tensor/isa/attention_bf16.h"

#if defined(__AVX512F__)

enum { ROWS = 8 }; /* of a tile, beside two strips: 16 sums */

/* A thread's scratch. KP = pairs of keys, DP = pairs of d. */
typedef struct pairs {
    int64_t row;                       /* pairs from one row of k, v to the next */
    int64_t n_key_pairs;               /* of all keys */
    int64_t size;                      /* floats of a strip of scores */
    uint32_t *k_rows, *v_rows;         /* [keys][row] */
    uint32_t *columns;                 /* of v in the forward pass, of k in the backward:
                                          [D / 16][KP][16] */
    uint32_t *q_strips, *d_o_strips;   /* [2][DP][16]: lines are queries */
    uint32_t *q_columns, *d_o_columns; /* [D / 16][pairs of queries][16] */
    uint32_t *by_keys;                 /* [2][KP][16] p forward, ds backward */
    uint32_t *p_rows, *ds_rows;        /* [keys][16 pairs of queries] */
    float *scores, *dp;                /* [2][keys][16 queries] */
} pairs;

static int64_t pairs_of(int64_t n) { return (n + 1) / 2; }

static uint32_t *take_pairs(float *scratch, int64_t *at, int64_t n) {
    return (uint32_t *)(void *)take(scratch, at, n);
}

/* Divides a thread's scratch; `n_floats` becomes the size that it needs. */
static pairs divide(const wefti_attention_shape *s, float *scratch, int64_t *n_floats) {
    int64_t keys = whole_strips(wefti_attention_rows(s)), D = whole_strips(s->D), at = 0;
    pairs w = {.row = whole_strips(pairs_of(s->D)), .n_key_pairs = keys / 2};
    w.size = keys * LANES;
    w.k_rows = take_pairs(scratch, &at, keys * w.row);
    w.v_rows = take_pairs(scratch, &at, keys * w.row);
    w.columns = take_pairs(scratch, &at, D * whole_strips(w.n_key_pairs));
    w.q_strips = take_pairs(scratch, &at, PAIR * pairs_of(s->D));
    w.d_o_strips = take_pairs(scratch, &at, PAIR * pairs_of(s->D));
    w.q_columns = take_pairs(scratch, &at, D * LANES);
    w.d_o_columns = take_pairs(scratch, &at, D * LANES);
    w.by_keys = take_pairs(scratch, &at, PAIR * w.n_key_pairs);
    w.p_rows = take_pairs(scratch, &at, keys * LANES);
    w.ds_rows = take_pairs(scratch, &at, keys * LANES);
    w.scores = take(scratch, &at, 2 * w.size);
    w.dp = take(scratch, &at, 2 * w.size);
    *n_floats = at;
    return w;
}

static int64_t room(const wefti_attention_shape *s, bool rounds) {
    (void)rounds; /* always */
    int64_t n_floats;
    divide(s, NULL, &n_floats);
    return n_floats;
}

static pairs pairs_in(const head *h, float *scratch) {
    int64_t n_floats;
    pairs w = divide(h->s, scratch, &n_floats);
    w.n_key_pairs = pairs_of(h->n_keys); /* keys that are present, without gaps */
    return w;
}

/* The left factor of a tile: pair t of row i at x[t * step + i * row]. */
typedef struct left {
    const uint32_t *x;
    int64_t step, row;
} left;

typedef struct sums {
    vfloat v[ROWS][2];
} sums;

/* The tile of ROWS rows and the strips b1, b2. */
NATIVE_INLINE sums tile_of(left a, int64_t n, const uint32_t *b1, const uint32_t *b2) {
    __m512 sum[ROWS][2];
    sums out;
    for (int i = 0; i < ROWS; i++) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    for (int64_t t = 0; t < n; t++) {
        __m512bh first, second, one;
        memcpy(&first, b1 + t * LANES, sizeof first);
        memcpy(&second, b2 + t * LANES, sizeof second);
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) {
            __m512i both = _mm512_set1_epi32((int)a.x[t * a.step + i * a.row]);
            memcpy(&one, &both, sizeof one);
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], one, first);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], one, second);
        }
    }
    memcpy(&out, sum, sizeof out);
    return out;
}

/* scores = alpha * rows of keys times strips of queries, of which there are one or two */
NATIVE static void score_products(const head *h, const pairs *w, const uint32_t *rows,
                                  int64_t keys, const uint32_t *queries, int n_strips,
                                  float alpha, float *scores) {
    int64_t n = pairs_of(h->s->D);
    const uint32_t *second = n_strips == 2 ? queries + n * LANES : queries;
    for (int64_t key = 0; key < keys; key += ROWS) {
        sums t = tile_of((left){rows + key * w->row, 1, w->row}, n, queries, second);
        for (int i = 0; i < ROWS; i++) {
            store(scores + (key + i) * LANES, t.v[i][0] * alpha);
            store(scores + w->size + (key + i) * LANES, t.v[i][1] * alpha);
        }
    }
}

/* out[rows, D] = sum over keys of strip[key][row] columns[key][D], times scale[row] */
NATIVE static void weighted_sums(const head *h, const pairs *w, uint32_t *strip,
                                 int64_t keys, const float *scale, int64_t rows,
                                 float *out, int64_t ld) {
    int64_t D = h->s->D;
    for (int64_t r = 0; r < rows; r += ROWS) {
        for (int64_t d = 0; d < D; d += 2 * LANES) {
            const uint32_t *b = w->columns + d * w->n_key_pairs;
            const uint32_t *b2 = d + LANES < D ? b + w->n_key_pairs * LANES : b;
            sums t = tile_of((left){strip + r, LANES, 1}, pairs_of(keys), b, b2);
            for (int i = 0; i < ROWS && r + i < rows; i++)
                for (int j = 0; j < 2; j++)
                    store_sum(t.v[i][j] * scale[r + i], D - d - j * LANES, 0,
                              out + (r + i) * ld + d + j * LANES);
        }
    }
}

/* out[keys, D] = beta out + sum over queries of rows[key][query] columns[query][D] */
NATIVE static void scattered_sums(const head *h, const pairs *w, const uint32_t *rows,
                                  int64_t keys, const uint32_t *columns, int64_t queries,
                                  float beta, float *out) {
    (void)w;
    int64_t D = h->s->D, ld = h->s->ld_kv, n = pairs_of(queries);
    for (int64_t key = 0; key < keys; key += ROWS) {
        for (int64_t d = 0; d < D; d += 2 * LANES) {
            const uint32_t *b = columns + d * n;
            const uint32_t *b2 = d + LANES < D ? b + n * LANES : b;
            sums t = tile_of((left){rows + key * LANES, 1, LANES}, n, b, b2);
            for (int i = 0; i < ROWS && key + i < keys; i++)
                for (int j = 0; j < 2; j++)
                    store_sum(t.v[i][j], D - d - j * LANES, beta,
                              out + (key + i) * ld + d + j * LANES);
        }
    }
}

/* to = exp(score - top) in pairs of keys; their sums. */
NATIVE static vfloat exponentials(const float *strip, int64_t keys, vfloat top,
                                  uint32_t *to) {
    vfloat sum = {0}, next = {0};
    for (int64_t key = 0; key < keys; key += 2, to += LANES) {
        vfloat low = exp_of(load(strip + key * LANES) - top);
        vfloat high = {0};
        if (key + 1 < keys) high = exp_of(load(strip + (key + 1) * LANES) - top);
        sum += low;
        next += high;
        store_pairs(to, low, high);
    }
    return sum + next;
}

NATIVE static void forward_head(const head *h, float *scratch, float *o, float *lse) {
    const wefti_attention_shape *s = h->s;
    pairs w = pairs_in(h, scratch);
    pack_pair_rows(h->k, s->ld_kv, h->n_keys, s->D, whole_strips(h->n_keys), w.row,
                   w.k_rows);
    pack_column_pairs(h->v, s->ld_kv, s->D, h->n_keys, w.columns);
    for (int64_t pair = 0; pair < s->T; pair += PAIR) {
        int64_t queries = at_most(s->T - pair, PAIR);
        pack_pairs(true, h->q + pair * s->ld_q, s->ld_q, queries, s->D, w.q_strips);
        score_products(h, &w, w.k_rows, seen_keys(h, pair + queries), w.q_strips,
                       queries > LANES ? 2 : 1, s->scale, w.scores);
        for (int64_t first = pair; first < pair + queries; first += LANES) {
            float *strip = first == pair ? w.scores : w.scores + w.size, inverse[LANES];
            int64_t rows = at_most(s->T - first, LANES);
            int64_t keys = seen_keys(h, first + rows);
            if (is_narrow(s)) narrow_strip(h, first, keys, strip);
            vfloat top = largest(h, first, keys, strip);
            vfloat sum = exponentials(strip, keys, top, w.by_keys);
            store(inverse, 1.0f / sum);
            weighted_sums(h, &w, w.by_keys, keys, inverse, rows, o + first * s->ld_o,
                          s->ld_o);
            store_part(lse + first, top + log_lanes(sum), rows);
        }
    }
}

NATIVE static void take_keys(const head *h, float *scratch) {
    const wefti_attention_shape *s = h->s;
    pairs w = pairs_in(h, scratch);
    int64_t whole = whole_strips(h->n_keys);
    pack_pair_rows(h->k, s->ld_kv, h->n_keys, s->D, whole, w.row, w.k_rows);
    pack_pair_rows(h->v, s->ld_kv, h->n_keys, s->D, whole, w.row, w.v_rows);
    pack_column_pairs(h->k, s->ld_kv, s->D, h->n_keys, w.columns);
}

/* p and ds of strip `half` of a pair, as rows of all `keys` and as pairs of those seen. */
NATIVE static void backward_strip(const head *h, const pairs *w, int64_t pair, int half,
                                  int64_t keys) {
    float *score = w->scores + half * w->size, *dp = w->dp + half * w->size;
    uint32_t *p_rows = w->p_rows + half * LANES / 2;
    uint32_t *ds_rows = w->ds_rows + half * LANES / 2;
    slopes at = {.first = pair + half * LANES};
    at.rows = at_most(h->s->T - at.first, LANES);
    at.past = seen_keys(h, at_most(at.first + 1, keys));
    int64_t seen = seen_keys(h, at_most(at.first + LANES, keys));
    if (is_narrow(h->s)) narrow_strip(h, at.first, seen, score);
    at.lse = load_part(h->lse + at.first, at.rows);
    at.delta = query_deltas(h, at.first, at.rows);
    for (int64_t key = 0; key < seen; key += 2) {
        vfloat p[2] = {{0}}, ds[2] = {{0}};
        for (int64_t i = 0; i < 2 && key + i < seen; i++) {
            int64_t row = (key + i) * LANES;
            ds[i] = slope_of(h, &at, key + i, load(score + row), load(dp + row), &p[i]);
            store_row(p_rows + row, p[i]);
            store_row(ds_rows + row, ds[i]);
        }
        store_pairs(w->by_keys + key / 2 * LANES, ds[0], ds[1]);
    }
    for (int64_t key = seen; key < keys; key++) {
        store_row(p_rows + key * LANES, splat(0));
        store_row(ds_rows + key * LANES, splat(0));
    }
}

/* Queries behind the first 16 of a pair have no p and ds. */
static void clear_second_half(const pairs *w, int64_t keys) {
    for (int64_t key = 0; key < keys; key++) {
        memset(w->p_rows + key * LANES + LANES / 2, 0, LANES / 2 * sizeof *w->p_rows);
        memset(w->ds_rows + key * LANES + LANES / 2, 0, LANES / 2 * sizeof *w->ds_rows);
    }
}

NATIVE static void backward_pair(const head *h, float *scratch, int64_t pair,
                                 bool fresh) {
    const wefti_attention_shape *s = h->s;
    pairs w = pairs_in(h, scratch);
    int64_t queries = at_most(s->T - pair, PAIR), keys = seen_keys(h, pair + queries);
    const float *q = h->q + pair * s->ld_q, *d_o = h->d_o + pair * s->ld_o;
    const vfloat whole = splat(1);
    float one[LANES];
    int n_strips = queries > LANES ? 2 : 1;
    store(one, whole);
    pack_pairs(true, q, s->ld_q, queries, s->D, w.q_strips);
    pack_pairs(true, d_o, s->ld_o, queries, s->D, w.d_o_strips);
    pack_column_pairs(q, s->ld_q, s->D, queries, w.q_columns);
    pack_column_pairs(d_o, s->ld_o, s->D, queries, w.d_o_columns);
    score_products(h, &w, w.k_rows, keys, w.q_strips, n_strips, s->scale, w.scores);
    score_products(h, &w, w.v_rows, keys, w.d_o_strips, n_strips, 1, w.dp);
    for (int i = 0; i < n_strips; i++) {
        int64_t first = pair + i * LANES, rows = at_most(s->T - first, LANES);
        backward_strip(h, &w, pair, i, keys);
        weighted_sums(h, &w, w.by_keys, seen_keys(h, first + rows), one, rows,
                      h->dq + first * s->ld_q, s->ld_q);
    }
    float beta = fresh ? 0 : 1;
    if (n_strips == 1) clear_second_half(&w, keys);
    scattered_sums(h, &w, w.ds_rows, keys, w.q_columns, queries, beta, h->dk);
    scattered_sums(h, &w, w.p_rows, keys, w.d_o_columns, queries, beta, h->dv);
}

const attention_way WEFT_ISA_NAME(wefti_attention_pairs) = {.rounds = true,
                                                            .queries = PAIR,
                                                            .room = room,
                                                            .forward = forward_head,
                                                            .take_keys = take_keys,
                                                            .backward = backward_pair};

static const attention_way *best_way(void) {
    if (__builtin_cpu_supports("avx512bf16"))
        return &WEFT_ISA_NAME(wefti_attention_pairs);
    return &WEFT_ISA_NAME(wefti_attention_rounded);
}

#else
static const attention_way *best_way(void) {
    return &WEFT_ISA_NAME(wefti_attention_rounded);
}
#endif

ATTENTION_KERNELS(_bf16, best_way())
