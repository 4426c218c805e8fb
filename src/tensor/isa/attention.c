/* SPDX-License-Identifier: MIT */
/* Causal attention without the T x T matrix (after Dao et al. 2022), PAIR = 2 LANES
 * queries against all their past keys at a time. Scores are kept transposed, as strips
 * [key][query lane]: the product of key strips and query strips leaves them so, the
 * softmax runs down the keys with a query per lane, and a strip is again a factor of the
 * next product.
 *   forward:  s = scale k q^T, p = exp(s - max), o = p^T v / sum, lse = max + log sum
 *   backward: p = exp(s - lse), dp = v do^T, ds = p (dp - do.o) scale,
 *             dq = ds^T k, dk += ds q, dv += p do
 * With a window the scores of keys that have passed are -infinity; with a cap scores are
 * cap tanh(score / cap), and ds gets the slope 1 - (score / cap)^2.
 * Where all keys are seen, and may be another sequence's, nothing is hidden and a pair of
 * strips meets all of them. A bias depends on query - key alone: the lanes of a key's row
 * are consecutive queries, so they find it side by side; its gradient is kept per task and
 * added up in the order of sequences.
 * A task of the forward is a head of a sequence; of the backward a key/value head, whose
 * dk and dv one thread sums over query heads in ascending and queries in descending
 * order: results do not depend on who takes which task. Scratch grows with T, not T^2. */
#include "tensor/isa/parts.h"
#include "tensor/isa/strips.h"
#include "tensor/isa/team.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { PAIR = 2 * LANES };

/* One head of one sequence; row t of q at q + t * ld_q, and so on. */
typedef struct head {
    const wefti_attention_shape *s;
    const float *q, *k, *v, *o, *d_o, *lse;
    float *dq, *dk, *dv;
    int64_t n_keys;    /* that are there */
    const float *bias; /* [query - key]; NULL without one */
    float *dbias;      /* likewise, of this task */
} head;

static int64_t keys_of(const wefti_attention_shape *s, int64_t b) {
    return s->all && s->n_keys ? s->n_keys[b] : wefti_attention_rows(s);
}

/* The keys that the queries before `end` see. */
static int64_t seen_keys(const head *h, int64_t end) {
    return h->s->all ? h->n_keys : end;
}

/* Row h of a table of biases, from which query - key counts; NULL without one. */
static const float *bias_row(const wefti_attention_shape *s, const float *table,
                             int64_t h) {
    if (!table) return NULL;
    return table + h * wefti_attention_bias_row(s) + wefti_attention_rows(s) - 1;
}

/* A thread's scratch: strips of the sequence, of a pair, and the scores of a pair. */
typedef struct strips {
    float *columns; /* of v forward, of k backward: lines are D, terms are keys */
    float *q_queries, *d_o_queries;
    float *q_columns, *d_o_columns;
    float *p, *ds; /* two strips, lines are queries, terms are keys */
    int64_t size;  /* of one strip of p or ds */
} strips;

static int64_t at_most(int64_t n, int64_t limit) { return n < limit ? n : limit; }

static int64_t whole_strips(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* Takes n floats, rounded up to 64 bytes, of what *at counts; NULL when only counting. */
static float *take(float *scratch, int64_t *at, int64_t n) {
    float *here = scratch == NULL ? NULL : scratch + *at;
    *at += (n + 15) / 16 * 16;
    return here;
}

/* Divides the scratch of thread `rank`; `n_floats` is what one thread needs. */
static strips divide_scratch(const wefti_attention_shape *s, int rank, float *scratch,
                             int64_t *n_floats) {
    int64_t Tk = wefti_attention_rows(s), D = whole_strips(s->D), at = 0;
    strips w = {.size = whole_strips(Tk) * LANES};
    if (scratch != NULL) {
        int64_t each;
        divide_scratch(s, 0, NULL, &each);
        scratch += rank * each;
    }
    w.columns = take(scratch, &at, Tk * D);
    w.q_queries = take(scratch, &at, PAIR * s->D);
    w.d_o_queries = take(scratch, &at, PAIR * s->D);
    w.q_columns = take(scratch, &at, PAIR * D);
    w.d_o_columns = take(scratch, &at, PAIR * D);
    w.p = take(scratch, &at, 2 * w.size);
    w.ds = take(scratch, &at, 2 * w.size);
    *n_floats = at;
    return w;
}

int64_t WEFT_ISA_NAME(wefti_attention_scratch)(const wefti_attention_shape *s,
                                               int threads) {
    int64_t each;
    divide_scratch(s, 0, NULL, &each);
    return threads * each + (s->biased ? s->B * s->H * wefti_attention_bias_row(s) : 0);
}

/* Asks for the rows that the next tile reads: too far apart to be foreseen. */
static inline void prefetch_rows(const float *x, int64_t ld, int64_t D) {
    for (int i = 0; i < TILE_ROWS; i++)
        for (int64_t d = 0; d < D; d += 16) __builtin_prefetch(x + i * ld + d);
}

/* out strips = alpha * x[keys, D] times queries (one or two strips) */
static void score_products(const head *h, const strips *w, const float *x, int64_t keys,
                           const float *queries, int n_strips, float alpha, float *out) {
    int64_t D = h->s->D, ld = h->s->ld_kv;
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

/* Scores of one key, -infinity where the lane's query, first + lane, comes before it. */
static inline vfloat causal(vfloat score, int64_t key, int64_t first) {
    const vint lane = {LANES_COUNT};
    return pick(lane < (int32_t)(key - first), splat(-INFINITY), score);
}

/* Caps scores of the queries first + lane, adds their biases, and hides the keys that
 * their windows have passed. */
static void narrow_strip(const head *h, int64_t first, int64_t keys, float *strip) {
    const wefti_attention_shape *s = h->s;
    const vint lane = {LANES_COUNT};
    for (int64_t key = 0; key < keys; key++) {
        vfloat score = load(strip + key * LANES);
        if (s->cap > 0) score = tanh_lanes(score / s->cap) * s->cap;
        if (h->bias) score += load(h->bias + first - key);
        int64_t last = key + s->window - 1 - first; /* the lane that sees it last */
        if (s->window > 0 && last < LANES - 1)
            score = pick(lane > (int32_t)(last < -1 ? -1 : last), splat(-INFINITY),
                         score);
        store(strip + key * LANES, score);
    }
}

static inline bool is_narrow(const wefti_attention_shape *s) {
    return s->window > 0 || s->cap > 0 || s->bias;
}

/* Scores of the queries first + lane become exp(score - maximum); the sum of each. */
static vfloat softmax_strip(const head *h, int64_t first, int64_t keys, float *strip,
                            vfloat *maximum) {
    vfloat top = load(strip), sum = {0};
    int64_t past = seen_keys(h, at_most(first + 1, keys)); /* keys that all lanes see */
    for (int64_t key = 1; key < past; key++) top = larger(load(strip + key * LANES), top);
    for (int64_t key = past; key < keys; key++) {
        vfloat score = causal(load(strip + key * LANES), key, first);
        store(strip + key * LANES, score);
        top = larger(score, top);
    }
    for (int64_t key = 0; key < keys; key++) {
        vfloat e = exp_falling(load(strip + key * LANES) - top);
        store(strip + key * LANES, e);
        sum += e;
    }
    *maximum = top;
    return sum;
}

static void forward_head(const head *h, const strips *w, float *o, float *lse) {
    const wefti_attention_shape *s = h->s;
    pack_strips(false, h->v, s->ld_kv, s->D, h->n_keys, w->columns);
    for (int64_t pair = 0; pair < s->T; pair += PAIR) {
        int64_t queries = at_most(s->T - pair, PAIR);
        pack_strips(true, h->q + pair * s->ld_q, s->ld_q, queries, s->D, w->q_queries);
        score_products(h, w, h->k, seen_keys(h, pair + queries), w->q_queries,
                       queries > LANES ? 2 : 1, s->scale, w->p);
        for (int64_t first = pair; first < pair + queries; first += LANES) {
            float *strip = first == pair ? w->p : w->p + w->size, inverse[LANES];
            int64_t rows = at_most(s->T - first, LANES);
            int64_t keys = seen_keys(h, first + rows);
            if (is_narrow(s)) narrow_strip(h, first, keys, strip);
            vfloat top, sum = softmax_strip(h, first, keys, strip, &top);
            store(inverse, 1.0f / sum);
            weighted_sums(strip, keys, w->columns, h->n_keys, s->D, inverse, rows,
                          o + first * s->ld_o, s->ld_o);
            store_part(lse + first, top + log_lanes(sum), rows);
        }
    }
}

void WEFT_ISA_NAME(wefti_attention_forward)(const wefti_attention_shape *s,
                                            const float *q, const float *k,
                                            const float *v, float *o, float *lse,
                                            float *scratch) {
    int64_t Tk = wefti_attention_rows(s);
#pragma omp parallel for num_threads(team_size(s->B * s->H * s->T * Tk))                 \
    schedule(dynamic)
    for (int64_t task = 0; task < s->B * s->H; task++) {
        int64_t b = task / s->H, n = task % s->H, n_floats;
        int64_t at_kv = b * Tk * s->ld_kv + n / (s->H / s->K) * s->D;
        head h = {.s = s, .q = q + b * s->T * s->ld_q + n * s->D};
        h.n_keys = keys_of(s, b);
        h.bias = bias_row(s, s->bias, n);
        h.k = k + at_kv;
        h.v = v + at_kv;
        strips w = divide_scratch(s, team_rank(), scratch, &n_floats);
        forward_head(&h, &w, o + b * s->T * s->ld_o + n * s->D, lse + task * s->T);
    }
}

/* do.o of the queries first + lane. */
static vfloat query_deltas(const head *h, int64_t first, int64_t rows) {
    float delta[LANES] = {0};
    for (int64_t i = 0; i < rows; i++) {
        const float *o = h->o + (first + i) * h->s->ld_o;
        const float *d_o = h->d_o + (first + i) * h->s->ld_o;
        vfloat sum = {0};
        int64_t d = 0, left;
        for (; d + LANES <= h->s->D; d += LANES) sum += load(o + d) * load(d_o + d);
        if ((left = h->s->D - d) > 0)
            sum += load_part(o + d, left) * load_part(d_o + d, left);
        delta[i] = lane_sum(sum);
    }
    return load(delta);
}

/* The slope of a capped score; 0 where it is hidden. */
static inline vfloat cap_slope(vfloat score, float cap) {
    vfloat share = larger(score, splat(-cap)) / cap;
    return 1.0f - share * share;
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

/* A pair of strips of queries; `fresh` if it is the first to reach dk and dv. */
static void backward_pair(const head *h, const strips *w, int64_t pair, bool fresh) {
    const wefti_attention_shape *s = h->s;
    int64_t queries = at_most(s->T - pair, PAIR), keys = seen_keys(h, pair + queries);
    const float *q = h->q + pair * s->ld_q, *d_o = h->d_o + pair * s->ld_o;
    int n_strips = queries > LANES ? 2 : 1;
    pack_strips(true, q, s->ld_q, queries, s->D, w->q_queries);
    pack_strips(true, d_o, s->ld_o, queries, s->D, w->d_o_queries);
    pack_strips(false, q, s->ld_q, s->D, queries, w->q_columns);
    pack_strips(false, d_o, s->ld_o, s->D, queries, w->d_o_columns);
    score_products(h, w, h->k, keys, w->q_queries, n_strips, s->scale, w->p);
    score_products(h, w, h->v, keys, w->d_o_queries, n_strips, 1, w->ds);
    for (int i = 0; i < n_strips; i++) {
        int64_t first = pair + i * LANES, rows = at_most(s->T - first, LANES);
        backward_strip(h, first, keys, w->p + i * w->size, w->ds + i * w->size);
        weighted_sums(w->ds + i * w->size, seen_keys(h, first + rows), w->columns,
                      h->n_keys, s->D, NULL, rows, h->dq + first * s->ld_q, s->ld_q);
    }
    float beta = fresh ? 0 : 1;
    scattered_sums(h, w, w->ds, keys, w->q_columns, queries, beta, h->dk);
    scattered_sums(h, w, w->p, keys, w->d_o_columns, queries, beta, h->dv);
}

/* Gradients of keys that are not there. */
static void clear_keys(const head *h) {
    size_t n_bytes = (size_t)h->s->D * sizeof(float);
    for (int64_t key = h->n_keys; key < wefti_attention_rows(h->s); key++) {
        memset(h->dk + key * h->s->ld_kv, 0, n_bytes);
        memset(h->dv + key * h->s->ld_kv, 0, n_bytes);
    }
}

/* dbias += the tasks' own, in the order of the sequences. */
static void add_biases(const wefti_attention_shape *s, const float *own) {
    int64_t n = s->H * wefti_attention_bias_row(s);
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t i = 0; i < n; i++) s->dbias[i] += own[b * n + i];
}

void WEFT_ISA_NAME(wefti_attention_backward)(const wefti_attention_shape *s,
                                             const float *q, const float *k,
                                             const float *v, const float *o,
                                             const float *lse, const float *d_o,
                                             float *dq, float *dk, float *dv,
                                             float *scratch) {
    int64_t group = s->H / s->K, Tk = wefti_attention_rows(s);
    int64_t row = wefti_attention_bias_row(s), n_own = s->dbias ? s->B * s->H * row : 0;
    float *own = scratch;
    if (n_own > 0) memset(own, 0, (size_t)n_own * sizeof *own);
#pragma omp parallel for num_threads(team_size(s->B * s->H * s->T * Tk))                 \
    schedule(dynamic)
    for (int64_t task = 0; task < s->B * s->K; task++) {
        int64_t b = task / s->K, kv = task % s->K, n_floats;
        int64_t at_kv = b * Tk * s->ld_kv + kv * s->D;
        head h = {
            .s = s, .k = k + at_kv, .v = v + at_kv, .dk = dk + at_kv, .dv = dv + at_kv};
        strips w = divide_scratch(s, team_rank(), scratch + n_own, &n_floats);
        h.n_keys = keys_of(s, b);
        pack_strips(false, h.k, s->ld_kv, s->D, h.n_keys, w.columns);
        clear_keys(&h);
        for (int64_t n = kv * group; n < (kv + 1) * group; n++) {
            int64_t at_q = b * s->T * s->ld_q + n * s->D,
                    at_o = b * s->T * s->ld_o + n * s->D;
            h.q = q + at_q;
            h.dq = dq + at_q;
            h.o = o + at_o;
            h.d_o = d_o + at_o;
            h.lse = lse + (b * s->H + n) * s->T;
            h.bias = bias_row(s, s->bias, n);
            if (n_own > 0) h.dbias = own + (b * s->H + n) * row + Tk - 1;
            int64_t last = (s->T - 1) / PAIR * PAIR;
            for (int64_t pair = last; pair >= 0; pair -= PAIR)
                backward_pair(&h, &w, pair, n == kv * group && pair == last);
        }
    }
    if (n_own > 0) add_biases(s, own);
}
