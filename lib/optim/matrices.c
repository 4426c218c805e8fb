/* SPDX-License-Identifier: MIT */
/* See matrices.h. In a bucket the matrices are sorted by owner, so that the rows for one
 * owner are one contiguous range of u:
 *
 *     u        [owner 0's matrices: my rows][owner 1's: my rows]...    message to owner j: run j
 *     whole    my matrices, each with the rows of rank 0, 1, ...       turned here
 *     answer   [rank 0's rows of all my matrices][rank 1's]...         message to rank j: run j
 *
 * Owners are assigned in the order of the bucket: each matrix goes to the rank with the
 * least work so far. The number of rows of each rank that take part depends only on the
 * shapes, so every length is known in advance. */
#include "optim/matrices.h"

#include <string.h>

#include "base/memory.h"
#include "optim/orthogonal.h"

/* With more ranks than this the first ones own all matrices: a bucket has only few of them. */
enum { MOST_OWNERS = 64, GATHERED = 0, ANSWERED = 1 };

typedef struct entry {
    int owner;
    int64_t u_at, whole_at; /* offsets in floats; whole_at: among the owner's matrices */
} entry;

struct wefti_matrices {
    weft_ctx *ctx; /* borrowed, like the next four */
    const wefti_kernels *kernels;
    wefti_comm *comm;
    const wefti_matrix_list *buckets;
    int n_buckets;
    int S, s;
    entry *entries; /* [largest bucket] owned, like what follows */
    wefti_turned *turned;
    float *u, *whole, *answer, *scratch;
    double *sizes;
    int32_t *rows;
    int64_t answered_tag; /* tag of the answers that peers may still read; -1: none */
};

/* The largest needs of any bucket, in items. */
typedef struct needs {
    int64_t matrices, u, rows, sizes, whole, scratch;
} needs;

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t rows_of(const wefti_matrix_list *list, int i, int S, int s) {
    int64_t rows = list->matrices[i].rows;
    int64_t n = rows * (s + 1) / S - rows * s / S;
    return list->rules[i]->ops->matrix->count(&list->rules[i]->config, n);
}

/* Number of rows of the ranks [0, s) that take part. */
static int64_t rows_before(const wefti_matrix_list *list, int i, int S, int s) {
    int64_t n = 0;
    for (int r = 0; r < s; r++) n += rows_of(list, i, S, r);
    return n;
}

/* Chooses the owner of matrix i and adds the matrix's FLOP to the owner's load. */
static int deal_one(const wefti_matrix_list *list, int i, int S,
                    double load[MOST_OWNERS]) {
    const wefti_matrix *m = &list->matrices[i];
    int owner = 0;
    for (int r = 1; r < S && r < MOST_OWNERS; r++)
        if (load[r] < load[owner]) owner = r;
    load[owner] += m->parts *
                   wefti_orthogonal_flop(rows_before(list, i, S, S), m->cols / m->parts);
    return owner;
}

/* Assigns each matrix its owner and its place; [n] entries. */
static void deal(const wefti_matrix_list *list, int S, int s, entry *entries) {
    double load[MOST_OWNERS] = {0};
    int64_t at = 0;
    for (int i = 0; i < list->n; i++) entries[i].owner = deal_one(list, i, S, load);
    for (int owner = 0; owner < S; owner++) {
        int64_t whole_at = 0;
        for (int i = 0; i < list->n; i++) {
            if (entries[i].owner != owner) continue;
            entries[i].u_at = at;
            entries[i].whole_at = whole_at;
            at += rows_of(list, i, S, s) * list->matrices[i].cols;
            whole_at += rows_before(list, i, S, S) * list->matrices[i].cols;
        }
    }
}

static void need(needs *n, const wefti_matrix_list *list, int S, int s) {
    int64_t u = 0, rows = 0, whole = 0;
    for (int i = 0; i < list->n; i++) {
        const wefti_matrix *m = &list->matrices[i];
        int64_t all = rows_before(list, i, S, S), part = m->cols / m->parts;
        u += rows_of(list, i, S, s) * m->cols;
        rows += m->n_rows;
        whole += all * m->cols; /* as if this rank owned all matrices: an upper bound for
                                   any assignment */
        n->sizes = most(n->sizes, m->n_rows);
        n->scratch = most(n->scratch, wefti_orthogonal_scratch(all, part) +
                                          (m->parts > 1 ? all * part : 0));
    }
    n->matrices = most(n->matrices, list->n);
    n->u = most(n->u, u);
    n->rows = most(n->rows, rows);
    if (S > 1) n->whole = most(n->whole, whole);
}

static needs needs_of(const wefti_matrix_list *buckets, int n_buckets, int S, int s) {
    needs n = {0};
    for (int b = 0; b < n_buckets; b++) need(&n, &buckets[b], S, s);
    return n;
}

static int64_t cost(int64_t n, size_t item) {
    return n > 0 ? (int64_t)wefti_alloc_cost((size_t)n * item) : 0;
}

int64_t wefti_matrices_bytes(const wefti_matrix_list *buckets, int n_buckets, int S,
                             int s) {
    needs n = needs_of(buckets, n_buckets, S, s);
    return cost(1, sizeof(wefti_matrices)) + cost(n.matrices, sizeof(entry)) +
           cost(n.matrices, sizeof(wefti_turned)) + cost(n.u, sizeof(float)) +
           2 * cost(n.whole, sizeof(float)) + cost(n.scratch, sizeof(float)) +
           cost(n.sizes, sizeof(double)) + cost(n.rows, sizeof(int32_t));
}

double wefti_matrices_flop(const wefti_matrix_list *list, int S, int s) {
    double load[MOST_OWNERS] = {0};
    for (int i = 0; i < list->n; i++) deal_one(list, i, S, load);
    return s < MOST_OWNERS ? load[s] : 0;
}

static weft_status allocate(wefti_matrices *w) {
    needs n = needs_of(w->buckets, w->n_buckets, w->S, w->s);
    weft_ctx *ctx = w->ctx;
    WEFT_TRY(wefti_alloc_n(ctx, n.matrices, sizeof(entry), "matrices", &w->entries));
    WEFT_TRY(
        wefti_alloc_n(ctx, n.matrices, sizeof(wefti_turned), "matrices", &w->turned));
    WEFT_TRY(wefti_alloc_n(ctx, n.u, sizeof(float), "matrices", &w->u));
    WEFT_TRY(wefti_alloc_n(ctx, n.whole, sizeof(float), "whole matrices", &w->whole));
    WEFT_TRY(wefti_alloc_n(ctx, n.whole, sizeof(float), "whole matrices", &w->answer));
    WEFT_TRY(wefti_alloc_n(ctx, n.scratch, sizeof(float), "matrices", &w->scratch));
    WEFT_TRY(wefti_alloc_n(ctx, n.sizes, sizeof(double), "matrices", &w->sizes));
    return wefti_alloc_n(ctx, n.rows, sizeof(int32_t), "matrices", &w->rows);
}

weft_status wefti_matrices_create(weft_ctx *ctx, const wefti_kernels *kernels,
                                  wefti_comm *comm, const wefti_matrix_list *buckets,
                                  int n_buckets, wefti_matrices **out) {
    *out = NULL;
    wefti_matrices *w;
    WEFT_TRY(wefti_alloc(ctx, sizeof *w, "matrices", &w));
    *w = (wefti_matrices){.ctx = ctx,
                          .kernels = kernels,
                          .comm = comm,
                          .buckets = buckets,
                          .n_buckets = n_buckets,
                          .S = comm ? comm->size : 1,
                          .s = comm ? comm->rank : 0,
                          .answered_tag = -1};
    WEFTI_TRY_OR(allocate(w), wefti_matrices_destroy(w));
    *out = w;
    return WEFT_OK;
}

void wefti_matrices_destroy(wefti_matrices *w) {
    if (!w) return;
    WEFTI_FREE(w->ctx, w->entries, w->turned, w->u, w->whole, w->answer, w->scratch,
               w->sizes, w->rows, w);
}

/* Orthogonalizes `parts` matrices that are adjacent in [rows, cols]. */
static void turn(const wefti_matrices *w, const wefti_optimizer_rule *rule, int parts,
                 int64_t rows, int64_t cols, float *u) {
    const wefti_matrix_ops *ops = rule->ops->matrix;
    if (parts == 1) {
        ops->turn(&rule->config, w->kernels, rows, cols, u, w->scratch);
        return;
    }
    int64_t part = cols / parts;
    float *alone = w->scratch, *rest = alone + rows * part;
    size_t n_bytes = (size_t)part * sizeof *u;
    for (int p = 0; p < parts; p++) {
        for (int64_t r = 0; r < rows; r++)
            memcpy(alone + r * part, u + r * cols + p * part, n_bytes);
        ops->turn(&rule->config, w->kernels, rows, part, alone, rest);
        for (int64_t r = 0; r < rows; r++)
            memcpy(u + r * cols + p * part, alone + r * part, n_bytes);
    }
}

static bool is_whole(const wefti_matrices *w, const wefti_optimizer_rule *rule,
                     int64_t count) {
    return w->S > 1 && rule->ops->matrix->is_whole(&rule->config, count);
}

/* Adds the directions to the momenta. Where each rank orthogonalizes only its own rows in
 * this step, that is done here. */
static void take(wefti_matrices *w, const wefti_matrix_list *list,
                 const wefti_matrices_step *step) {
    int32_t *rows = w->rows;
    deal(list, w->S, w->s, w->entries);
    for (int i = 0; i < list->n; i++) {
        const wefti_matrix *m = &list->matrices[i];
        const wefti_optimizer_rule *rule = list->rules[i];
        wefti_turned *t = &w->turned[i];
        *t = (wefti_turned){.matrix = m,
                            .n = rows_of(list, i, w->S, w->s),
                            .rows = rows,
                            .u = w->u + w->entries[i].u_at};
        rows += m->n_rows;
        rule->ops->matrix->take(&rule->config, step->step.grad_scale, step->d,
                                step->state, w->sizes, t);
        bool whole = is_whole(w, rule, step->step.count);
        t->n_all = whole ? rows_before(list, i, w->S, w->S) : t->n;
        if (!whole) turn(w, rule, m->parts, t->n, m->cols, t->u);
    }
}

/* Floats of rank s in the matrices of an owner that are gathered whole in this step. */
static int64_t floats_of(const wefti_matrices *w, const wefti_matrix_list *list,
                         int64_t count, int owner, int s) {
    int64_t n = 0;
    for (int i = 0; i < list->n; i++)
        if (w->entries[i].owner == owner && is_whole(w, list->rules[i], count))
            n += rows_of(list, i, w->S, s) * list->matrices[i].cols;
    return n;
}

/* Copies rank s's rows of this rank's matrices between the whole matrices and a
 * contiguous range. */
static void move_rows(const wefti_matrices *w, const wefti_matrix_list *list,
                      int64_t count, int s, const float *from, float *to) {
    for (int i = 0; i < list->n; i++) {
        if (w->entries[i].owner != w->s || !is_whole(w, list->rules[i], count)) continue;
        int64_t cols = list->matrices[i].cols, n = rows_of(list, i, w->S, s) * cols;
        float *whole = w->whole + w->entries[i].whole_at +
                       rows_before(list, i, w->S, s) * cols;
        if (from) {
            memcpy(whole, from, (size_t)n * sizeof *whole);
            from += n;
        } else {
            memcpy(to, whole, (size_t)n * sizeof *whole);
            to += n;
        }
    }
}

/* Start of an owner's range in u, or of its answer. Either all matrices of an owner are
 * gathered whole in a step or none: one configuration key decides. */
static float *run_of(const wefti_matrices *w, const wefti_matrix_list *list, int owner) {
    for (int i = 0; i < list->n; i++)
        if (w->entries[i].owner == owner) return w->u + w->entries[i].u_at;
    return w->u;
}

static weft_status gather(wefti_matrices *w, const wefti_matrix_list *list, int64_t count,
                          int64_t tag) {
    int me = w->s;
    for (int k = 1; k < w->S; k++) {
        int to = (me + k) % w->S;
        int64_t n = floats_of(w, list, count, to, me);
        if (n > 0)
            WEFT_TRY(wefti_comm_send(w->comm, to, tag, run_of(w, list, to),
                                     n * (int64_t)sizeof(float)));
    }
    move_rows(w, list, count, me, run_of(w, list, me), NULL);
    for (int k = 1; k < w->S; k++) {
        int from = (me + w->S - k) % w->S;
        int64_t n = floats_of(w, list, count, me, from);
        const void *view;
        if (n == 0) continue;
        WEFT_TRY(
            wefti_comm_receive(w->comm, from, tag, n * (int64_t)sizeof(float), &view));
        move_rows(w, list, count, from, view, NULL);
        wefti_comm_release(w->comm, from, tag);
    }
    return wefti_comm_await(w->comm, tag);
}

static weft_status give_back(wefti_matrices *w, const wefti_matrix_list *list,
                             int64_t count, int64_t tag) {
    int me = w->s;
    float *answer = w->answer;
    for (int k = 1; k < w->S; k++) {
        int to = (me + k) % w->S;
        int64_t n = floats_of(w, list, count, me, to);
        if (n == 0) continue;
        move_rows(w, list, count, to, NULL, answer);
        WEFT_TRY(wefti_comm_send(w->comm, to, tag, answer, n * (int64_t)sizeof(float)));
        answer += n;
    }
    w->answered_tag = tag;
    move_rows(w, list, count, me, NULL, run_of(w, list, me));
    for (int k = 1; k < w->S; k++) {
        int from = (me + w->S - k) % w->S;
        int64_t n = floats_of(w, list, count, from, me);
        const void *view;
        if (n == 0) continue;
        WEFT_TRY(
            wefti_comm_receive(w->comm, from, tag, n * (int64_t)sizeof(float), &view));
        memcpy(run_of(w, list, from), view, (size_t)n * sizeof(float));
        wefti_comm_release(w->comm, from, tag);
    }
    return WEFT_OK;
}

static weft_status meet(wefti_matrices *w, int bucket, const wefti_matrices_step *step) {
    const wefti_matrix_list *list = &w->buckets[bucket];
    int64_t count = step->step.count;
    if (w->answered_tag >= 0) WEFT_TRY(wefti_comm_await(w->comm, w->answered_tag));
    w->answered_tag = -1;
    WEFT_TRY(gather(w, list, count, wefti_comm_tag(step->number, bucket, GATHERED)));
    for (int i = 0; i < list->n; i++) {
        const wefti_matrix *m = &list->matrices[i];
        if (w->entries[i].owner != w->s || !is_whole(w, list->rules[i], count)) continue;
        turn(w, list->rules[i], m->parts, rows_before(list, i, w->S, w->S), m->cols,
             w->whole + w->entries[i].whole_at);
    }
    return give_back(w, list, count, wefti_comm_tag(step->number, bucket, ANSWERED));
}

weft_status wefti_matrices_apply(wefti_matrices *w, int bucket,
                                 const wefti_matrices_step *step, double *moved) {
    const wefti_matrix_list *list = &w->buckets[bucket];
    if (list->n == 0) return WEFT_OK;
    take(w, list, step);
    if (is_whole(w, list->rules[0], step->step.count)) WEFT_TRY(meet(w, bucket, step));
    for (int i = 0; i < list->n; i++) {
        const wefti_optimizer_rule *rule = list->rules[i];
        rule->ops->matrix->apply(&rule->config, (float)(rule->lr * (double)step->step.lr),
                                 &w->turned[i], step->p, moved);
    }
    return WEFT_OK;
}
