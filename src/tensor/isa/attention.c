/* SPDX-License-Identifier: MIT */
/* Causal attention in blocks (Dao et al. 2022): QUERY_ROWS queries against KEY_ROWS keys at a
 * time, so that a thread holds one or two blocks of scores and never a T x T matrix.
 *   forward: running maximum and sum per row; a new maximum rescales what was summed before
 *   backward: p = exp(s - lse) again, dp = do v^T, ds = p (dp - do.o) scale,
 *             dq = ds k, dk += ds^T q, dv += p^T do
 * The forward's tasks are (sequence, head, query block); the backward's are (sequence,
 * key/value head), whose dk and dv one thread sums over query heads in ascending and query
 * blocks in descending order: results do not depend on who takes which task. */
#include "tensor/isa/lanes.h"
#include "tensor/isa/parts.h"
#include "tensor/isa/team.h"

#include <math.h>

enum {
    QUERY_ROWS = 64,
    KEY_ROWS = 512,          /* a multiple of QUERY_ROWS: no block of keys is all in the future */
    BLOCK = QUERY_ROWS * KEY_ROWS,
    STRIP = 64               /* of a block per product: CBLAS is fastest on small ones */
};

/* One head of one sequence, and the block of queries that is worked on. */
typedef struct head {
    const wefti_attention_shape *s;
    const float *q, *k, *v, *o, *d_o;
    float *out, *dq, *dk, *dv;
    int64_t first; /* query of the block */
    int64_t rows;
} head;

static int64_t at_most(int64_t n, int64_t limit) {
    return n < limit ? n : limit;
}

int64_t WEFT_ISA_NAME(wefti_attention_scratch)(const wefti_attention_shape *s, int threads) {
    (void)s;
    return (int64_t)threads * 2 * BLOCK;
}

/* score[rows, keys] = alpha a[rows, D] b[keys, D]^T, as far as the past reaches */
static void row_products(const head *h, const float *a, int64_t ld_a, const float *b,
                         float alpha, int64_t keys, float *score) {
    for (int64_t j = 0; j < keys; j += STRIP)
        WEFT_ISA_NAME(wefti_gemm_serial)(false, true, h->rows, at_most(keys - j, STRIP), h->s->D,
                                         alpha, a, ld_a, b + j * h->s->ld_kv, h->s->ld_kv, 0,
                                         score + j, KEY_ROWS);
}

/* out[rows, D] = beta out + p[rows, keys] b[keys, D] */
static void weighted_sum(const head *h, const float *p, const float *b, int64_t keys, float beta,
                         float *out, int64_t ld_out) {
    for (int64_t j = 0; j < keys; j += STRIP)
        WEFT_ISA_NAME(wefti_gemm_serial)(false, false, h->rows, h->s->D, at_most(keys - j, STRIP),
                                         1, p + j, KEY_ROWS, b + j * h->s->ld_kv, h->s->ld_kv,
                                         j > 0 ? 1 : beta, out, ld_out);
}

/* out[keys, D] = beta out + p[rows, keys]^T a[rows, D] */
static void scatter_sum(const head *h, const float *p, const float *a, int64_t ld_a,
                        int64_t keys, float beta, float *out) {
    for (int64_t j = 0; j < keys; j += STRIP)
        WEFT_ISA_NAME(wefti_gemm_serial)(true, false, at_most(keys - j, STRIP), h->s->D, h->rows,
                                         1, p + j, KEY_ROWS, a, ld_a, beta,
                                         out + j * h->s->ld_kv, h->s->ld_kv);
}

static float row_max(int64_t n, const float *x) {
    float top = x[0];
    int64_t i = 0;
    if (n >= LANES) {
        vfloat m = load(x);
        for (i = LANES; i + LANES <= n; i += LANES) m = larger(load(x + i), m);
        top = lane_max(m);
    }
    for (; i < n; i++) top = x[i] > top ? x[i] : top;
    return top;
}

/* x = exp(x - top) for n elements, 0 for the others up to `end`; the sum of the n. */
static float exponentials(int64_t n, int64_t end, float top, float *x) {
    vfloat sum = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vfloat e = exp_lanes(load(x + i) - top);
        store(x + i, e);
        sum += e;
    }
    float total = lane_sum(sum);
    if (i < n) {
        float tail[LANES];
        store(tail, exp_lanes(load_part(x + i, n - i) - top));
        for (int64_t lane = 0; i < n; i++, lane++) {
            x[i] = tail[lane];
            total += tail[lane];
        }
    }
    for (; i < end; i++) x[i] = 0;
    return total;
}

static void scale_row(int64_t n, float s, float *x) {
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) store(x + i, load(x + i) * s);
    for (; i < n; i++) x[i] *= s;
}

/* The rows' running maximum and sum of exponentials. */
typedef struct running {
    float top[QUERY_ROWS], sum[QUERY_ROWS];
} running;

/* Scores of keys from `key` on become unnormalized probabilities. */
static void softmax_block(const head *h, int64_t key, int64_t keys, float *score, running *r) {
    for (int64_t i = 0; i < h->rows; i++) {
        float *row = score + i * KEY_ROWS;
        int64_t past = at_most(h->first + i + 1 - key, keys);
        float top = row_max(past, row);
        if (key > 0 && top < r->top[i]) top = r->top[i];
        float sum = exponentials(past, keys, top, row);
        if (key > 0) {
            float shrink = expf(r->top[i] - top);
            sum += r->sum[i] * shrink;
            scale_row(h->s->D, shrink, h->out + i * h->s->ld_o);
        }
        r->top[i] = top;
        r->sum[i] = sum;
    }
}

static void forward_block(const head *h, float *lse, float *score) {
    running r;
    int64_t end = h->first + h->rows;
    for (int64_t key = 0; key < end; key += KEY_ROWS) {
        int64_t keys = at_most(end - key, KEY_ROWS);
        row_products(h, h->q, h->s->ld_q, h->k + key * h->s->ld_kv, h->s->scale, keys, score);
        softmax_block(h, key, keys, score, &r);
        weighted_sum(h, score, h->v + key * h->s->ld_kv, keys, key > 0 ? 1 : 0, h->out,
                     h->s->ld_o);
    }
    for (int64_t i = 0; i < h->rows; i++) {
        scale_row(h->s->D, 1.0f / r.sum[i], h->out + i * h->s->ld_o);
        lse[h->first + i] = r.top[i] + logf(r.sum[i]);
    }
}

void WEFT_ISA_NAME(wefti_attention_forward)(const wefti_attention_shape *s, const float *q,
                                            const float *k, const float *v, float *o,
                                            float *lse, float *scratch) {
    int64_t blocks = (s->T + QUERY_ROWS - 1) / QUERY_ROWS, tasks = s->B * s->H * blocks;
#pragma omp parallel for num_threads(team_size(tasks * QUERY_ROWS * s->T)) schedule(dynamic)
    for (int64_t task = 0; task < tasks; task++) {
        int64_t b = task / blocks / s->H, n = task / blocks % s->H;
        head h = {.s = s, .first = task % blocks * QUERY_ROWS};
        h.rows = at_most(s->T - h.first, QUERY_ROWS);
        h.q = q + (b * s->T + h.first) * s->ld_q + n * s->D;
        h.k = k + b * s->T * s->ld_kv + n / (s->H / s->K) * s->D;
        h.v = v + (h.k - k);
        h.out = o + (b * s->T + h.first) * s->ld_o + n * s->D;
        forward_block(&h, lse + (b * s->H + n) * s->T, scratch + team_rank() * 2 * BLOCK);
    }
}

/* p: scores -> probabilities; ds: dp -> ds; 0 in the future. */
static void backward_row(int64_t past, int64_t keys, float lse, float delta, float scale,
                         float *p, float *ds) {
    int64_t j = 0;
    for (; j + LANES <= past; j += LANES) {
        vfloat e = exp_lanes(load(p + j) - lse);
        store(p + j, e);
        store(ds + j, e * ((load(ds + j) - delta) * scale));
    }
    if (j < past) {
        int64_t left = past - j;
        vfloat e = exp_lanes(load_part(p + j, left) - lse);
        vfloat d = e * ((load_part(ds + j, left) - delta) * scale);
        store_part(p + j, e, left);
        store_part(ds + j, d, left);
    }
    for (j = past; j < keys; j++) p[j] = ds[j] = 0;
}

/* do.o of each row */
static void row_deltas(const head *h, float *delta) {
    for (int64_t i = 0; i < h->rows; i++) {
        const float *a = h->o + i * h->s->ld_o, *b = h->d_o + i * h->s->ld_o;
        vfloat sum = {0};
        float rest = 0;
        int64_t d = 0;
        for (; d + LANES <= h->s->D; d += LANES) sum += load(a + d) * load(b + d);
        for (; d < h->s->D; d++) rest += a[d] * b[d];
        delta[i] = lane_sum(sum) + rest;
    }
}

/* One block of queries; `fresh` if it is the first to reach dk and dv. */
static void backward_block(const head *h, const float *lse, bool fresh, float *p, float *ds) {
    float delta[QUERY_ROWS];
    const wefti_attention_shape *s = h->s;
    int64_t end = h->first + h->rows;
    row_deltas(h, delta);
    for (int64_t key = 0; key < end; key += KEY_ROWS) {
        int64_t keys = at_most(end - key, KEY_ROWS), at = key * s->ld_kv;
        row_products(h, h->q, s->ld_q, h->k + at, s->scale, keys, p);
        row_products(h, h->d_o, s->ld_o, h->v + at, 1, keys, ds);
        for (int64_t i = 0; i < h->rows; i++)
            backward_row(at_most(h->first + i + 1 - key, keys), keys, lse[h->first + i],
                         delta[i], s->scale, p + i * KEY_ROWS, ds + i * KEY_ROWS);
        weighted_sum(h, ds, h->k + at, keys, key > 0 ? 1 : 0, h->dq, s->ld_q);
        scatter_sum(h, ds, h->q, s->ld_q, keys, fresh ? 0 : 1, h->dk + at);
        scatter_sum(h, p, h->d_o, s->ld_o, keys, fresh ? 0 : 1, h->dv + at);
    }
}

void WEFT_ISA_NAME(wefti_attention_backward)(const wefti_attention_shape *s, const float *q,
                                             const float *k, const float *v, const float *o,
                                             const float *lse, const float *d_o, float *dq,
                                             float *dk, float *dv, float *scratch) {
    int64_t group = s->H / s->K, blocks = (s->T + QUERY_ROWS - 1) / QUERY_ROWS;
#pragma omp parallel for num_threads(team_size(s->B * s->H * s->T * s->T)) schedule(dynamic)
    for (int64_t task = 0; task < s->B * s->K; task++) {
        float *p = scratch + team_rank() * 2 * BLOCK;
        int64_t b = task / s->K, at_kv = b * s->T * s->ld_kv + task % s->K * s->D;
        for (int64_t turn = 0; turn < group * blocks; turn++) {
            int64_t n = task % s->K * group + turn / blocks;
            head h = {.s = s, .k = k + at_kv, .v = v + at_kv, .dk = dk + at_kv, .dv = dv + at_kv};
            h.first = (blocks - 1 - turn % blocks) * QUERY_ROWS;
            h.rows = at_most(s->T - h.first, QUERY_ROWS);
            int64_t at_q = (b * s->T + h.first) * s->ld_q + n * s->D;
            int64_t at_o = (b * s->T + h.first) * s->ld_o + n * s->D;
            h.q = q + at_q, h.dq = dq + at_q;
            h.o = o + at_o, h.d_o = d_o + at_o;
            backward_block(&h, lse + (b * s->H + n) * s->T, turn == 0, p, p + BLOCK);
        }
    }
}
