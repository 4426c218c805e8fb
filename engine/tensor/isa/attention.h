/* SPDX-License-Identifier: MIT */
#pragma once

/* Shared by the implementations of attention (f32, rounded, bf16): a head of a sequence
 * as a value, the changes of scores by masks, windows, caps and biases, and the division
 * of heads among threads.
 *
 * A task of the forward pass is a head of a sequence. A task of the backward pass is a
 * key/value head: one thread sums its dk and dv over query heads in ascending and queries
 * in descending order. So results do not depend on which thread runs which task. */
#include "tensor/isa/parts.h"
#include "kernels/isa/strips.h"
#include "kernels/isa/team.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { PAIR = 2 * LANES }; /* queries at a time */

typedef struct attention_way attention_way;

/* One head of one sequence; row t of q at q + t * ld_q, and so on. */
typedef struct head head;
struct head {
    const attention_way *way;
    const wefti_attention_shape *s;
    const float *q, *k, *v, *o, *d_o, *lse;
    float *dq, *dk, *dv;
    int64_t ld_k;      /* between rows of k, and of v */
    int64_t n_keys;    /* keys that are present */
    const float *bias; /* [query - key]; NULL without one */
    float *dbias;      /* the same layout, of this task */
    const head *next;  /* whose memory may be asked for; NULL without one */
};

/* An implementation: how a thread works on a head. Every thread has its own scratch. */
struct attention_way {
    bool rounds;     /* factors of products are rounded to bf16 first */
    int64_t queries; /* that backward does at a time */
    /* Floats of scratch per thread, a multiple of 16. */
    int64_t (*room)(const wefti_attention_shape *s, bool rounds);
    void (*forward)(const head *h, float *scratch, float *o, float *lse);
    /* take_keys is called once for a key/value head, before backward for each block of its
     * queries, which begins at `first`; `fresh` is true for the first block that adds to dk and
     * dv. give_keys, which may be NULL, is called after them. */
    void (*take_keys)(const head *h, float *scratch);
    void (*backward)(const head *h, float *scratch, int64_t first, bool fresh);
    void (*give_keys)(const head *h, float *scratch);
};

static inline int64_t keys_of(const wefti_attention_shape *s, int64_t b) {
    return s->all && s->n_keys ? s->n_keys[b] : wefti_attention_rows(s);
}

/* The keys that the queries before `end` see. */
static inline int64_t seen_keys(const head *h, int64_t end) {
    return h->s->all ? h->n_keys : end;
}

/* Row h of a table of biases, as a pointer that is indexed by query - key; NULL without a
 * table. */
static inline const float *bias_row(const wefti_attention_shape *s, const float *table,
                                    int64_t h) {
    if (!table) return NULL;
    return table + h * wefti_attention_bias_row(s) + wefti_attention_rows(s) - 1;
}

/* Number i of an array of f32 or bfloat16. */
static inline const float *place(const wefti_attention_shape *s, const float *x,
                                 int64_t i) {
    return (const float *)(const void *)((const char *)x + i * (s->half ? 2 : 4));
}

static inline float *place_to(const wefti_attention_shape *s, float *x, int64_t i) {
    return (float *)(void *)((char *)x + i * (s->half ? 2 : 4));
}

/* A whole vector from number i on. */
static inline vfloat load_at(const wefti_attention_shape *s, const float *x, int64_t i) {
    const float *at = place(s, x, i);
    return s->half ? load_half((const uint16_t *)(const void *)at) : load(at);
}

static inline int64_t at_most(int64_t n, int64_t limit) { return n < limit ? n : limit; }

static inline int64_t whole_strips(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

/* Takes n floats, rounded up to 64 bytes, of the scratch at *at, and advances *at.
 * Without scratch it only counts and returns NULL. */
static inline float *take(float *scratch, int64_t *at, int64_t n) {
    float *here = scratch == NULL ? NULL : scratch + *at;
    *at += (n + 15) / 16 * 16;
    return here;
}

/* The scores of one key, -infinity in lanes whose query, first + lane, is before the key. */
static inline vfloat causal(vfloat score, int64_t key, int64_t first) {
    const vint lane = {LANES_COUNT};
    return pick(lane < (int32_t)(key - first), splat(-INFINITY), score);
}

/* The largest score of each of the queries first + lane; masks the keys after them. */
static inline vfloat largest(const head *h, int64_t first, int64_t keys, float *strip) {
    vfloat top = load(strip);
    int64_t past = seen_keys(h, at_most(first + 1, keys)); /* keys that all lanes see */
    for (int64_t key = 1; key < past; key++) top = larger(load(strip + key * LANES), top);
    for (int64_t key = past; key < keys; key++) {
        vfloat score = causal(load(strip + key * LANES), key, first);
        store(strip + key * LANES, score);
        top = larger(score, top);
    }
    return top;
}

/* Caps the scores of a key, adds its biases, and masks it where it is before the window. */
static inline vfloat narrow(const head *h, int64_t first, int64_t key, vfloat score) {
    const wefti_attention_shape *s = h->s;
    const vint lane = {LANES_COUNT};
    if (s->cap > 0) score = tanh_lanes(score / s->cap) * s->cap;
    if (h->bias) score += load(h->bias + first - key);
    int64_t last = key + s->window - 1 - first; /* the lane that sees it last */
    if (s->window > 0 && last < LANES - 1)
        score = pick(lane > (int32_t)(last < -1 ? -1 : last), splat(-INFINITY), score);
    return score;
}

/* The same of the queries first + lane and all `keys`. */
static inline void narrow_strip(const head *h, int64_t first, int64_t keys,
                                float *strip) {
    for (int64_t key = 0; key < keys; key++)
        store(strip + key * LANES, narrow(h, first, key, load(strip + key * LANES)));
}

static inline bool is_narrow(const wefti_attention_shape *s) {
    return s->window > 0 || s->cap > 0 || s->bias;
}

/* do.o of the queries first + lane. */
static inline vfloat query_deltas(const head *h, int64_t first, int64_t rows) {
    vfloat of_row[LANES] = {{0}};
    for (int64_t i = 0; i < rows; i++) {
        const float *o = place(h->s, h->o, (first + i) * h->s->ld_o);
        const float *d_o = place(h->s, h->d_o, (first + i) * h->s->ld_o);
        int64_t d = 0, left;
        for (; d + LANES <= h->s->D; d += LANES)
            of_row[i] += load_at(h->s, o, d) * load_at(h->s, d_o, d);
        if ((left = h->s->D - d) > 0)
            of_row[i] += load_part(o + d, left) * load_part(d_o + d, left);
    }
    transpose(of_row);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) of_row[i] += of_row[i + width];
    return of_row[0];
}

/* The slope of a capped score; 0 where it is masked. */
static inline vfloat cap_slope(vfloat score, float cap) {
    vfloat share = larger(score, splat(-cap)) / cap;
    return 1.0f - share * share;
}

/* Sets the gradients of keys that are not present to 0. */
static inline void clear_keys(const head *h) {
    size_t n_bytes = (size_t)h->s->D * sizeof(float);
    for (int64_t key = h->n_keys; key < wefti_attention_rows(h->s); key++) {
        memset(h->dk + key * h->s->ld_kv, 0, n_bytes);
        memset(h->dv + key * h->s->ld_kv, 0, n_bytes);
    }
}

/* dbias += the gradients of the tasks, in the order of the sequences. */
static inline void add_biases(const wefti_attention_shape *s, const float *own) {
    int64_t n = s->H * wefti_attention_bias_row(s);
    for (int64_t b = 0; b < s->B; b++)
        for (int64_t i = 0; i < n; i++) s->dbias[i] += own[b * n + i];
}

static inline int64_t attention_floats(const attention_way *way,
                                       const wefti_attention_shape *s, int threads) {
    return threads * way->room(s, way->rounds) +
           (s->biased ? s->B * s->H * wefti_attention_bias_row(s) : 0);
}

static inline int attention_team(const wefti_attention_shape *s) {
    return team_size(s->B * s->H * s->T * wefti_attention_rows(s));
}

/* The arguments of a kernel; those from d_o on are of the backward pass. */
typedef struct attention_work {
    const attention_way *way;
    const wefti_attention_shape *s;
    const float *q, *k, *v, *o, *lse, *d_o;
    float *dq, *dk, *dv, *own; /* own: the tasks' gradients of the bias, or NULL */
} attention_work;

/* Query head n of sequence b. */
static inline head head_of(const attention_work *w, int64_t b, int64_t n) {
    const wefti_attention_shape *s = w->s;
    int64_t rows = wefti_attention_rows(s), at_q = b * s->T * s->ld_q + n * s->D;
    int64_t at_kv = b * rows * s->ld_kv + n / (s->H / s->K) * s->D;
    int64_t at_o = b * s->T * s->ld_o + n * s->D;
    head h = {
        .way = w->way, .s = s, .q = place(s, w->q, at_q), .o = place(s, w->o, at_o)};
    h.lse = w->lse + (b * s->H + n) * s->T;
    h.k = place(s, w->k, at_kv);
    h.v = place(s, w->v, at_kv);
    h.ld_k = s->ld_kv;
    h.n_keys = keys_of(s, b);
    h.bias = bias_row(s, s->bias, n);
    if (!w->d_o) return h;
    h.d_o = place(s, w->d_o, at_o);
    h.dq = place_to(s, w->dq, at_q);
    h.dk = place_to(s, w->dk, at_kv);
    h.dv = place_to(s, w->dv, at_kv);
    if (w->own)
        h.dbias = w->own + (b * s->H + n) * wefti_attention_bias_row(s) + rows - 1;
    return h;
}

/* A thread gets task after task, so the one that it gets next is likely `team_count` later. */
static inline void attend_forward(const attention_work *w, float *o, float *lse,
                                  float *scratch) {
    const wefti_attention_shape *s = w->s;
    int64_t each = w->way->room(s, w->way->rounds), n = s->B * s->H;
#pragma omp parallel for num_threads(attention_team(s)) schedule(dynamic)
    for (int64_t task = 0; task < n; task++) {
        int64_t after = at_most(task + team_count(), n - 1);
        head h = head_of(w, task / s->H, task % s->H);
        head next = head_of(w, after / s->H, after % s->H);
        h.next = &next;
        int64_t at_o = task / s->H * s->T * s->ld_o + task % s->H * s->D;
        w->way->forward(&h, scratch + team_rank() * each, place_to(s, o, at_o),
                        lse + task * s->T);
    }
}

static inline void backward_task(const attention_work *w, int64_t task, float *scratch) {
    const wefti_attention_shape *s = w->s;
    const attention_way *way = w->way;
    int64_t b = task / s->K, group = s->H / s->K, n = task % s->K * group,
            end = n + group;
    int64_t step = way->queries, last = (s->T - 1) / step * step;
    int64_t after = at_most(task + team_count(), s->B * s->K - 1);
    head h = head_of(w, b, n);
    way->take_keys(&h, scratch);
    clear_keys(&h);
    for (int64_t i = n; i < end; i++) {
        head next = i + 1 < end ? head_of(w, b, i + 1)
                                : head_of(w, after / s->K, after % s->K * group);
        h = head_of(w, b, i);
        h.next = &next;
        for (int64_t first = last; first >= 0; first -= step)
            way->backward(&h, scratch, first, i == n && first == last);
        h.next = NULL;
    }
    if (way->give_keys) way->give_keys(&h, scratch);
}

/* Runs the backward pass. The tasks' gradients of the bias are at the beginning of the
 * scratch. */
static inline void attend_backward(attention_work *w, float *scratch) {
    const wefti_attention_shape *s = w->s;
    int64_t n_own = s->dbias ? s->B * s->H * wefti_attention_bias_row(s) : 0;
    int64_t each = w->way->room(s, w->way->rounds);
    w->own = n_own > 0 ? scratch : NULL;
    if (n_own > 0) memset(scratch, 0, (size_t)n_own * sizeof *scratch);
#pragma omp parallel for num_threads(attention_team(s)) schedule(dynamic)
    for (int64_t task = 0; task < s->B * s->K; task++)
        backward_task(w, task, scratch + n_own + team_rank() * each);
    if (n_own > 0) add_biases(s, scratch);
}

/* attention.c: products of numbers rounded to bf16 and kept as f32 */
extern const attention_way WEFT_ISA_NAME(wefti_attention_rounded);

/* The three kernels of an implementation. */
#define ATTENTION_KERNELS(suffix, chosen)                                                \
    int64_t WEFT_ISA_NAME(wefti_attention_scratch##suffix)(                              \
        const wefti_attention_shape *s, int threads) {                                   \
        return attention_floats(chosen, s, threads);                                     \
    }                                                                                    \
    void WEFT_ISA_NAME(wefti_attention_forward##suffix)(                                 \
        const wefti_attention_shape *s, const float *q, const float *k, const float *v,  \
        float *o, float *lse, float *scratch) {                                          \
        attention_work w = {                                                             \
            .way = chosen, .s = s, .q = q, .k = k, .v = v, .o = o, .lse = lse};          \
        attend_forward(&w, o, lse, scratch);                                             \
    }                                                                                    \
    void WEFT_ISA_NAME(wefti_attention_backward##suffix)(                                \
        const wefti_attention_shape *s, const float *q, const float *k, const float *v,  \
        const float *o, const float *lse, const float *d_o, float *dq, float *dk,        \
        float *dv, float *scratch) {                                                     \
        attention_work w = {chosen, s, q, k, v, o, lse, d_o, dq, dk, dv, NULL};          \
        attend_backward(&w, scratch);                                                    \
    }
