/* SPDX-License-Identifier: MIT */
/* Causal attention without the T x T matrix (after Dao et al. 2022), PAIR = 2 LANES queries
 * against all their past keys at a time. Scores are kept transposed, as strips [key][query
 * lane]: the product of key strips and query strips produces this form, the softmax iterates
 * over the keys with one query per lane, and a strip can be a factor of the next product.
 *   forward:  s = scale k q^T, p = exp(s - max), o = p^T v / sum, lse = max + log sum
 *   backward: p = exp(s - lse), dp = v do^T, ds = p (dp - do.o) scale,
 *             dq = ds^T k, dk += ds q, dv += p do
 * With a window the scores of keys before it are -infinity; with a cap scores are cap
 * tanh(score / cap), and ds gets the slope 1 - (score / cap)^2. If queries see all keys,
 * which may belong to another sequence, nothing is masked and each pair of strips
 * processes all keys. A bias depends only on query - key. The lanes of a key's row are
 * consecutive queries, so their biases are adjacent in memory. The gradient of the bias
 * is kept per task and added up in the order of sequences. Scratch grows with T, not T^2.
 * With factors rounded to bf16 the work is the same, on rounded copies (attention_bf16.c
 * does it with instructions of the processor). */
#include "tensor/isa/attention.h"
#include "kernels/isa/bf16.h"

/* A thread's scratch: strips of the sequence, of a pair, and the scores of a pair. */
typedef struct strips {
    float *columns; /* of v in the forward pass, of k in the backward: lines are D, terms
                       are keys */
    float *q_queries, *d_o_queries;
    float *q_columns, *d_o_columns;
    float *p, *ds;          /* two strips, lines are queries, terms are keys */
    int64_t size;           /* of one strip of p or ds */
    float *k_rows, *v_rows; /* rounded copies, rows of D */
} strips;

/* Divides a thread's scratch; `n_floats` becomes the size that it needs. */
static strips divide_scratch(const wefti_attention_shape *s, bool rounds, float *scratch,
                             int64_t *n_floats) {
    int64_t Tk = wefti_attention_rows(s), D = whole_strips(s->D), at = 0;
    strips w = {.size = whole_strips(Tk) * LANES};
    w.columns = take(scratch, &at, Tk * D);
    w.q_queries = take(scratch, &at, PAIR * s->D);
    w.d_o_queries = take(scratch, &at, PAIR * s->D);
    w.q_columns = take(scratch, &at, PAIR * D);
    w.d_o_columns = take(scratch, &at, PAIR * D);
    w.p = take(scratch, &at, 2 * w.size);
    w.ds = take(scratch, &at, 2 * w.size);
    w.k_rows = take(scratch, &at, rounds ? whole_strips(Tk * s->D) : 0);
    w.v_rows = take(scratch, &at, rounds ? whole_strips(Tk * s->D) : 0);
    *n_floats = at;
    return w;
}

static int64_t room(const wefti_attention_shape *s, bool rounds) {
    int64_t n_floats;
    divide_scratch(s, rounds, NULL, &n_floats);
    return n_floats;
}

static strips strips_of(const head *h, float *scratch) {
    int64_t n_floats;
    return divide_scratch(h->s, h->way->rounds, scratch, &n_floats);
}

/* Rounds n floats, a multiple of LANES, to bf16. */
static void round_all(int64_t n, float *x) {
    for (int64_t i = 0; i < n; i += LANES) store(x + i, round_bf16(load(x + i)));
}

/* Packs strips, rounded if h->way rounds. */
static void pack(const head *h, bool rows, const float *x, int64_t ld, int64_t lines,
                 int64_t terms, float *to) {
    pack_strips(rows, x, ld, lines, terms, to);
    if (h->way->rounds) round_all(whole_strips(lines) * terms, to);
}

/* Copies the head's keys or values to contiguous rows, rounded; `rows` has room for a
 * whole vector after the end. */
static void copy_keys(const head *h, const float *x, float *rows) {
    int64_t D = h->s->D;
    for (int64_t key = 0; key < h->n_keys; key++)
        memcpy(rows + key * D, x + key * h->s->ld_kv, (size_t)D * sizeof *rows);
    round_all(h->n_keys * D, rows);
}

/* The head with the data that its products use: rounded copies if h->way rounds. */
static head seen(const head *h, const strips *w) {
    head other = *h;
    if (!h->way->rounds) return other;
    other.k = w->k_rows;
    other.v = w->v_rows;
    other.ld_k = h->s->D;
    return other;
}

/* Prefetches the rows that the next tile reads: they are too far apart for the hardware
 * prefetcher. */
static inline void prefetch_rows(const float *x, int64_t ld, int64_t D) {
    for (int i = 0; i < TILE_ROWS; i++)
        for (int64_t d = 0; d < D; d += 16) __builtin_prefetch(x + i * ld + d);
}

/* out strips = alpha * x[keys, D] times queries (one or two strips) */
static void score_products(const head *h, const strips *w, const float *x, int64_t keys,
                           const float *queries, int n_strips, float alpha, float *out) {
    int64_t D = h->s->D, ld = h->ld_k;
    const float *second = n_strips == 2 ? queries + D * LANES : queries, *a[TILE_ROWS];
    for (int64_t key = 0; key < keys; key += TILE_ROWS) {
        int64_t next = key + TILE_ROWS;
        if (next + TILE_ROWS <= h->n_keys) prefetch_rows(x + next * ld, ld, D);
        for (int i = 0; i < TILE_ROWS; i++) a[i] = x + at_most(key + i, keys - 1) * ld;
        tile t = tile_multiply(tile_zero(), D, a, 1, queries, second);
        for (int i = 0; i < TILE_ROWS; i++) {
            store(out + (key + i) * LANES, t.v[i][0] * alpha);
            store(out + w->size + (key + i) * LANES, t.v[i][1] * alpha);
        }
    }
}

/* out[rows, D] = sum over keys of strip[key][row] columns[key][D], times scale[row]
 * unless scale is NULL */
static void weighted_sums(const float *strip, int64_t keys, const float *columns,
                          int64_t T, int64_t D, const float *scale, int64_t rows,
                          float *out, int64_t ld) {
    const float *a[TILE_ROWS];
    for (int64_t r = 0; r < rows; r += TILE_ROWS) {
        for (int i = 0; i < TILE_ROWS; i++) a[i] = strip + r + i;
        for (int64_t d = 0; d < D; d += TILE_COLUMNS) {
            const float *b = columns + d * T, *b2 = d + LANES < D ? b + T * LANES : b;
            tile t = tile_multiply(tile_zero(), keys, a, LANES, b, b2);
            if (scale != NULL) t = tile_scale_rows(t, scale + r);
            tile_store(t, rows - r, D - d, 0, out + r * ld + d, ld);
        }
    }
}

/* out[keys, D] = beta out + sum over queries of pair[key][query] columns[query][D] */
static void scattered_sums(const head *h, const strips *w, const float *pair,
                           int64_t keys, const float *columns, int64_t queries,
                           float beta, float *out) {
    int64_t D = h->s->D, ld = h->s->ld_kv, first = at_most(queries, LANES);
    const float *a[TILE_ROWS], *a2[TILE_ROWS];
    for (int64_t key = 0; key < keys; key += TILE_ROWS) {
        for (int i = 0; i < TILE_ROWS; i++) {
            a[i] = pair + (key + i) * LANES;
            a2[i] = a[i] + w->size;
        }
        for (int64_t d = 0; d < D; d += TILE_COLUMNS) {
            const float *b = columns + d * queries;
            const float *b2 = d + LANES < D ? b + queries * LANES : b;
            tile t = tile_multiply(tile_zero(), first, a, 1, b, b2);
            t = tile_multiply(t, queries - first, a2, 1, b + LANES * LANES,
                              b2 + LANES * LANES);
            tile_store(t, keys - key, D - d, beta, out + key * ld + d, ld);
        }
    }
}

/* Replaces the scores of the queries first + lane by exp(score - maximum); returns the
 * sum of each. */
static vfloat softmax_strip(const head *h, int64_t first, int64_t keys, float *strip,
                            vfloat *maximum) {
    vfloat top = largest(h, first, keys, strip), sum = {0};
    for (int64_t key = 0; key < keys; key++) {
        vfloat e = exp_falling(load(strip + key * LANES) - top);
        store(strip + key * LANES, e);
        sum += e;
    }
    *maximum = top;
    return sum;
}

/* The score of one query and one key, which is the same for all keys but for q.k. */
static float score_of_key(const head *h, int64_t key) {
    const wefti_attention_shape *s = h->s;
    const float *k = h->k + key * s->ld_kv;
    vfloat sum = {0};
    int64_t d = 0;
    for (; d + LANES <= s->D; d += LANES) sum += load(h->q + d) * load(k + d);
    if (d < s->D) sum += load_part(h->q + d, s->D - d) * load_part(k + d, s->D - d);
    float score = lane_sum(sum) * s->scale;
    if (s->cap > 0) score = tanhf(score / s->cap) * s->cap;
    return h->bias ? score + h->bias[-key] : score;
}

/* A single query, as each token of a sample has: a pass over its keys, one over its values,
 * without strips. A window never excludes what the query 0 sees. */
static void forward_one(const head *h, float *p, float *o, float *lse) {
    const wefti_attention_shape *s = h->s;
    int64_t keys = seen_keys(h, 1);
    vfloat sum = {0};
    float top = -INFINITY;
    for (int64_t key = 0; key < keys; key++) {
        p[key] = score_of_key(h, key);
        top = p[key] > top ? p[key] : top;
    }
    for (int64_t key = 0; key < keys; key += LANES) {
        int64_t n = at_most(keys - key, LANES);
        vfloat e = exp_falling(load_part(p + key, n) - top);
        store_part(p + key, e, n);
        sum += load_part(p + key, n);
    }
    float total = lane_sum(sum);
    for (int64_t d = 0; d < s->D; d += LANES) {
        int64_t n = at_most(s->D - d, LANES);
        vfloat out = {0};
        const float *v = h->v + d;
        for (int64_t key = 0; key < keys; key++, v += s->ld_kv)
            out += (n == LANES ? load(v) : load_part(v, n)) * p[key];
        store_part(o + d, out / total, n);
    }
    *lse = top + logf(total);
}

static void forward_head(const head *given, float *scratch, float *o, float *lse) {
    const wefti_attention_shape *s = given->s;
    if (s->T == 1 && !given->way->rounds) {
        forward_one(given, scratch, o, lse);
        return;
    }
    strips w = strips_of(given, scratch);
    head h = seen(given, &w);
    if (h.way->rounds) copy_keys(given, given->k, w.k_rows);
    pack(&h, false, given->v, s->ld_kv, s->D, h.n_keys, w.columns);
    for (int64_t pair = 0; pair < s->T; pair += PAIR) {
        int64_t queries = at_most(s->T - pair, PAIR);
        pack(&h, true, h.q + pair * s->ld_q, s->ld_q, queries, s->D, w.q_queries);
        score_products(&h, &w, h.k, seen_keys(&h, pair + queries), w.q_queries,
                       queries > LANES ? 2 : 1, s->scale, w.p);
        for (int64_t first = pair; first < pair + queries; first += LANES) {
            float *strip = first == pair ? w.p : w.p + w.size, inverse[LANES];
            int64_t rows = at_most(s->T - first, LANES);
            int64_t keys = seen_keys(&h, first + rows);
            if (is_narrow(s)) narrow_strip(&h, first, keys, strip);
            vfloat top, sum = softmax_strip(&h, first, keys, strip, &top);
            if (h.way->rounds) round_all(keys * LANES, strip);
            store(inverse, 1.0f / sum);
            weighted_sums(strip, keys, w.columns, h.n_keys, s->D, inverse, rows,
                          o + first * s->ld_o, s->ld_o);
            store_part(lse + first, top + log_lanes(sum), rows);
        }
    }
}

/* p: scores -> probabilities, ds: dp -> ds, of the queries first + lane. */
static void backward_strip(const head *h, int64_t first, int64_t keys, float *p,
                           float *ds) {
    const vint lane = {LANES_COUNT};
    int64_t rows = at_most(h->s->T - first, LANES);
    int64_t past = seen_keys(h, at_most(first + 1, keys));
    int64_t seen = seen_keys(h, at_most(first + LANES, keys));
    if (is_narrow(h->s)) narrow_strip(h, first, seen, p);
    vfloat lse = load_part(h->lse + first, rows), delta = query_deltas(h, first, rows);
    for (int64_t key = 0; key < seen; key++) {
        vfloat score = load(p + key * LANES);
        if (key >= past) score = causal(score, key, first);
        vfloat e = exp_falling(score - lse);
        store(p + key * LANES, e);
        vfloat change = load(ds + key * LANES) - delta;
        if (h->dbias) {
            float *at = h->dbias + first - key;
            store(at, load(at) + pick(lane < (int32_t)rows, e * change, splat(0)));
        }
        vfloat slope = e * (change * h->s->scale);
        if (h->s->cap > 0) slope *= cap_slope(score, h->s->cap);
        store(ds + key * LANES, slope);
    }
    for (int64_t i = seen * LANES; i < keys * LANES; i++) p[i] = ds[i] = 0;
}

static void take_keys(const head *h, float *scratch) {
    strips w = strips_of(h, scratch);
    pack(h, false, h->k, h->s->ld_kv, h->s->D, h->n_keys, w.columns);
    if (!h->way->rounds) return;
    copy_keys(h, h->k, w.k_rows);
    copy_keys(h, h->v, w.v_rows);
}

static void pack_queries(const head *h, const strips *w, int64_t pair, int64_t queries) {
    const wefti_attention_shape *s = h->s;
    const float *q = h->q + pair * s->ld_q, *d_o = h->d_o + pair * s->ld_o;
    pack(h, true, q, s->ld_q, queries, s->D, w->q_queries);
    pack(h, true, d_o, s->ld_o, queries, s->D, w->d_o_queries);
    pack(h, false, q, s->ld_q, s->D, queries, w->q_columns);
    pack(h, false, d_o, s->ld_o, s->D, queries, w->d_o_columns);
}

static void backward_pair(const head *given, float *scratch, int64_t pair, bool fresh) {
    const wefti_attention_shape *s = given->s;
    strips w = strips_of(given, scratch);
    head h = seen(given, &w);
    int64_t queries = at_most(s->T - pair, PAIR), keys = seen_keys(&h, pair + queries);
    int n_strips = queries > LANES ? 2 : 1;
    pack_queries(&h, &w, pair, queries);
    score_products(&h, &w, h.k, keys, w.q_queries, n_strips, s->scale, w.p);
    score_products(&h, &w, h.v, keys, w.d_o_queries, n_strips, 1, w.ds);
    for (int i = 0; i < n_strips; i++) {
        int64_t first = pair + i * LANES, rows = at_most(s->T - first, LANES);
        float *p = w.p + i * w.size, *ds = w.ds + i * w.size;
        backward_strip(&h, first, keys, p, ds);
        if (h.way->rounds) round_all(keys * LANES, p);
        if (h.way->rounds) round_all(keys * LANES, ds);
        weighted_sums(ds, seen_keys(&h, first + rows), w.columns, h.n_keys, s->D, NULL,
                      rows, h.dq + first * s->ld_q, s->ld_q);
    }
    float beta = fresh ? 0 : 1;
    scattered_sums(&h, &w, w.ds, keys, w.q_columns, queries, beta, h.dk);
    scattered_sums(&h, &w, w.p, keys, w.d_o_columns, queries, beta, h.dv);
}

static const attention_way exact = {.queries = PAIR,
                                    .room = room,
                                    .forward = forward_head,
                                    .take_keys = take_keys,
                                    .backward = backward_pair};
const attention_way WEFT_ISA_NAME(wefti_attention_rounded) = {.rounds = true,
                                                              .queries = PAIR,
                                                              .room = room,
                                                              .forward = forward_head,
                                                              .take_keys = take_keys,
                                                              .backward = backward_pair};

ATTENTION_KERNELS(, &exact)
