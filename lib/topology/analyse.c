/* SPDX-License-Identifier: MIT */
/* Analyses a schedule by its matrices: P(t) = W(t-1) .. W(0) row by row, and the mean of
 * W(t) over the steps. Disagreement = |P - 1 1^T/n| / sqrt(n-1) (Frobenius), 1 at the
 * start. With push-sum weights row i of P is divided by its sum first. A schedule is
 * exact if the disagreement falls from above 1e-6 to 1e-12 in one step. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/sized.h"
#include "topology/topology.h"

enum { SAMPLE_STEPS = 512 };

/* Limits on the multiplications and steps of the search for 1e-6. */
static const double most_work = 3e8;
static const int64_t most_steps = 1000000;

typedef struct analyst {
    const weft_topology *t;
    weft_topology_analysis *out;
    int64_t n;
    weft_neighbours *near;                /* owned, as all below */
    double *product, *next, *mean, *work; /* [n n], work [2 n n] */
    double *columns;                      /* [n], sums of W(t) */
    double *sent, *received;              /* [nodes], bytes in a step */
    bool *missing;                        /* [nodes * nodes], pairs without a link */
    double multiplications, left;
} analyst;

static weft_status analyst_init(weft_ctx *ctx, analyst *a) {
    int64_t n = a->n, N = a->t->facts.nodes;
    WEFT_TRY(weft_neighbours_create(ctx, a->t, &a->near));
    WEFT_TRY(wefti_alloc_n(ctx, n * n, sizeof(double), "a matrix", &a->product));
    WEFT_TRY(wefti_alloc_n(ctx, n * n, sizeof(double), "a matrix", &a->next));
    WEFT_TRY(wefti_alloc_n(ctx, n * n, sizeof(double), "a matrix", &a->mean));
    WEFT_TRY(wefti_alloc_n(ctx, 2 * n * n, sizeof(double), "a matrix", &a->work));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(double), "sums of columns", &a->columns));
    WEFT_TRY(wefti_alloc_n(ctx, N, sizeof(double), "bytes of nodes", &a->sent));
    WEFT_TRY(wefti_alloc_n(ctx, N, sizeof(double), "bytes of nodes", &a->received));
    WEFT_TRY(wefti_alloc_n(ctx, N * N, sizeof(bool), "pairs of nodes", &a->missing));
    for (int64_t i = 0; i < n; i++) a->product[i * n + i] = 1;
    return WEFT_OK;
}

static void analyst_fini(weft_ctx *ctx, analyst *a) {
    weft_neighbours_destroy(ctx, a->near);
    WEFTI_FREE(ctx, a->product, a->next, a->mean, a->work, a->columns, a->sent,
               a->received, a->missing);
}

/* ---- matrices ---- */

/* The divisor of row i of the product: its push-sum weight, (P 1)_i. */
static double weight_of_row(const analyst *a, int64_t i) {
    double sum = 0;
    if (!a->t->facts.push_sum) return 1;
    for (int64_t j = 0; j < a->n; j++) sum += a->product[i * a->n + j];
    return sum;
}

static double disagreement(const analyst *a) {
    double sum = 0, mean = 1.0 / (double)a->n;
    if (a->n == 1) return 0;
    for (int64_t i = 0; i < a->n; i++) {
        double weight = weight_of_row(a, i);
        for (int64_t j = 0; j < a->n; j++) {
            double off = a->product[i * a->n + j] / weight - mean;
            sum += off * off;
        }
    }
    return sqrt(sum / (double)(a->n - 1));
}

/* Computes row i of the next product from the current neighbours. */
static void multiply_row(analyst *a, int64_t i) {
    int64_t n = a->n;
    double *row = a->next + i * n;
    memset(row, 0, (size_t)n * sizeof *row);
    for (int k = 0; k < a->near->n_sources; k++) {
        const double *source = a->product + a->near->sources[k] * n;
        double w = a->near->weights[k];
        for (int64_t j = 0; j < n; j++) row[j] += w * source[j];
    }
    a->multiplications += (double)a->near->n_sources * (double)n;
}

/* Completes the product of one more step; records when 1e-6 and the exact mean are reached. */
static void finish_product(analyst *a, int64_t step) {
    weft_topology_analysis *out = a->out;
    double *kept = a->product, before = a->left;
    a->product = a->next;
    a->next = kept;
    a->left = disagreement(a);
    if (out->exact_steps < 0 && before > 1e-6 && a->left <= 1e-12)
        out->exact_steps = step + 1;
    if (out->steps_1e6 < 0 && a->left <= 1e-6) out->steps_1e6 = step + 1;
}

/* Adds row i of W(t) to the mean and the columns' sums; checks the row's sum. */
static void add_row(analyst *a, int64_t i) {
    double sum = 0;
    for (int k = 0; k < a->near->n_sources; k++) {
        sum += a->near->weights[k];
        a->columns[a->near->sources[k]] += a->near->weights[k];
        a->mean[i * a->n + a->near->sources[k]] += a->near->weights[k];
    }
    if (!a->t->facts.push_sum)
        a->out->stochastic_error = fmax(a->out->stochastic_error, fabs(sum - 1));
}

/* ---- bytes and links ---- */

/* Counts bytes of a group. Each of k members owns a k-th of the copy: the others send theirs to its
 * owner, and the mean goes back, so a member exchanges 2/k of a copy with each one elsewhere. */
static void count_group(analyst *a) {
    const weft_neighbours *g = a->near;
    int node = wefti_topology_node(a->t, g->sources[g->self]), elsewhere = 0;
    for (int i = 0; i < g->n_sources; i++)
        elsewhere += wefti_topology_node(a->t, g->sources[i]) != node;
    double copies = 2.0 * elsewhere / g->n_sources;
    a->sent[node] += copies * (double)a->t->copy_bytes;
    a->received[node] += copies * (double)a->t->copy_bytes;
}

static void count_copies(analyst *a, int64_t member) {
    int node = wefti_topology_node(a->t, (int)member);
    for (int k = 0; k < a->near->n_targets; k++) {
        int target = wefti_topology_node(a->t, a->near->targets[k]);
        if (target == node) continue;
        a->sent[node] += (double)a->t->copy_bytes;
        a->received[target] += (double)a->t->copy_bytes;
    }
}

/* Finds the slowest link to a source; records pairs of nodes for which no link is listed. */
static double slowest_link(analyst *a, int64_t member, double slowest_s) {
    int64_t N = a->t->facts.nodes, node = wefti_topology_node(a->t, (int)member);
    for (int k = 0; k < a->near->n_sources; k++) {
        int64_t source = wefti_topology_node(a->t, a->near->sources[k]);
        if (source == node) continue;
        double cost_s = a->t->cost_s[node * N + source];
        int64_t pair = node < source ? node * N + source : source * N + node;
        if (isinf(cost_s) && !a->missing[pair]) a->out->unlisted++;
        if (isinf(cost_s))
            a->missing[pair] = true;
        else
            slowest_s = fmax(slowest_s, cost_s);
    }
    return slowest_s;
}

static void add_traffic(analyst *a, double slowest_s) {
    weft_topology_analysis *out = a->out;
    int64_t N = a->t->facts.nodes;
    for (int64_t node = 0; node < N; node++) {
        out->out_max = fmax(out->out_max, a->sent[node]);
        out->in_max = fmax(out->in_max, a->received[node]);
        out->out_mean += a->sent[node] / (double)(N * out->steps);
        out->in_mean += a->received[node] / (double)(N * out->steps);
    }
    out->link_max_s = fmax(out->link_max_s, slowest_s);
    out->link_mean_s += slowest_s / (double)out->steps;
}

/* ---- the whole ---- */

static void look_at_step(analyst *a, int64_t step) {
    double slowest_s = 0;
    int64_t N = a->t->facts.nodes;
    memset(a->columns, 0, (size_t)a->n * sizeof(double));
    memset(a->sent, 0, (size_t)N * sizeof(double));
    memset(a->received, 0, (size_t)N * sizeof(double));
    for (int64_t i = 0; i < a->n; i++) {
        weft_topology_neighbours(a->t, i, step, a->near);
        multiply_row(a, i);
        add_row(a, i);
        if (a->near->group)
            count_group(a);
        else
            count_copies(a, i);
        if (a->t->cost_s) slowest_s = slowest_link(a, i, slowest_s);
    }
    for (int64_t j = 0; j < a->n; j++)
        a->out->stochastic_error = fmax(a->out->stochastic_error,
                                        fabs(a->columns[j] - 1));
    add_traffic(a, slowest_s);
    finish_product(a, step);
}

/* Continues until 1e-6 is reached, or extrapolates from the disagreement that is left
 * after one period. */
static void look_further(analyst *a) {
    weft_topology_analysis *out = a->out;
    int64_t step = out->steps;
    for (; out->steps_1e6 < 0 && a->multiplications < most_work && step < most_steps;
         step++) {
        for (int64_t i = 0; i < a->n; i++) {
            weft_topology_neighbours(a->t, i, step, a->near);
            multiply_row(a, i);
        }
        finish_product(a, step);
    }
    double share = 1 - out->gap_period;
    out->estimated = out->steps_1e6 < 0 && share > 0 && share < 1;
    if (out->estimated)
        out->steps_1e6 = (int64_t)ceil((double)out->steps * log(1e-6) / log(share));
}

static void analyse(analyst *a) {
    weft_topology_analysis *out = a->out;
    int64_t n = a->n, period = a->t->facts.period;
    *out = (weft_topology_analysis){.struct_size = sizeof(weft_topology_analysis),
                                    .steps = period ? period : SAMPLE_STEPS,
                                    .exact_steps = n == 1 ? 0 : -1,
                                    .steps_1e6 = n == 1 ? 0 : -1};
    a->left = 1;
    for (int64_t step = 0; step < out->steps; step++) look_at_step(a, step);
    out->left = a->left;
    for (int64_t i = 0; i < n * n; i++) a->mean[i] /= (double)out->steps;
    out->gap_mean = out->gap_period = (double)NAN;
    if (!a->t->facts.push_sum)
        out->gap_mean = 1 - wefti_second_singular_value(n, a->mean, a->work);
    if (!a->t->facts.push_sum && period > 0)
        out->gap_period = 1 - wefti_second_singular_value(n, a->product, a->work);
    if (!a->t->cost_s) out->link_max_s = out->link_mean_s = (double)NAN;
    look_further(a);
}

weft_status weft_topology_analyse(weft_ctx *ctx, const weft_topology *t,
                                  weft_topology_analysis *out) {
    WEFTI_SIZED_OUT(ctx, weft_topology_analysis, out);
    analyst a = {.t = t, .out = out, .n = t->facts.members};
    if (a.n > WEFT_TOPOLOGY_ANALYSED)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "found %lld members, expected at most %d to analyse",
                             (long long)a.n, WEFT_TOPOLOGY_ANALYSED);
    weft_status status = analyst_init(ctx, &a);
    if (status == WEFT_OK) analyse(&a);
    analyst_fini(ctx, &a);
    return WEFTI_SIZED_GIVE(weft_topology_analysis, out, status);
}

/* Largest eigenvalue of A = D^T D, D = M - 1 1^T / n, by repeated squaring: with
 * B_0 = A, f_k = |B_k| (Frobenius) and B_{k+1} = (B_k / f_k)^2,
 *     log lambda = sum_k log f_k / 2^k,
 * which is the power method with 2^k steps after k squarings. It needs no starting
 * vector, which might miss the eigenvector, and it works with equal eigenvalues. When f_k
 * no longer changes, the rest of the sum is a geometric series. */

enum { MAX_SQUARINGS = 44 };

/* C = A A for a symmetric A. */
static void square(int64_t n, const double *A, double *C) {
    for (int64_t i = 0; i < n * n; i++) C[i] = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            double a = A[i * n + k];
            for (int64_t j = 0; a != 0 && j < n; j++) C[i * n + j] += a * A[k * n + j];
        }
}

static double norm(int64_t n, const double *A) {
    double sum = 0;
    for (int64_t i = 0; i < n * n; i++) sum += A[i] * A[i];
    return sqrt(sum);
}

/* A = D^T D. */
static void normal_matrix(int64_t n, const double *M, double *A) {
    double mean = 1.0 / (double)n;
    for (int64_t i = 0; i < n * n; i++) A[i] = 0;
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = 0; i < n; i++) {
            double d = M[k * n + i] - mean;
            for (int64_t j = 0; j < n; j++) A[i * n + j] += d * (M[k * n + j] - mean);
        }
}

double wefti_second_singular_value(int64_t n, const double *M, double *work) {
    double *A = work, *C = work + n * n, log_lambda = 0, share = 1, f = 0;
    normal_matrix(n, M, A);
    for (int k = 0; k < MAX_SQUARINGS; k++, share /= 2) {
        double before = f;
        f = norm(n, A);
        if (f < 1e-26) return 0; /* only the rounding of an exact mean */
        log_lambda += share * log(f);
        if (k > 0 && fabs(f - before) < 1e-14) {
            log_lambda += share * log(f); /* f no longer changes: 1/2 + 1/4 + ... */
            break;
        }
        for (int64_t i = 0; i < n * n; i++) A[i] /= f;
        square(n, A, C);
        double *kept = A;
        A = C;
        C = kept;
    }
    return exp(log_lambda / 2);
}
