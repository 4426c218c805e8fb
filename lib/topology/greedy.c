/* SPDX-License-Identifier: MIT */
/* Rounds of pairs, chosen by their gain.
 *
 * Row u of X has the share of every node's starting value in node u; X = I at first. If u
 * and v take their mean, the squared distance of all rows from their mean falls by |X_u -
 * X_v|^2 / 2. A round takes as long as its slowest link. So for each limit c_min 2^k on the
 * cost, a matching is built of the links within it, the largest gain first (then the
 * cheaper link, then the lower nodes), and the limit with the largest gain per second wins;
 * ties go to the lower limit. Nodes with cheap links between them mix until they agree so
 * well that an expensive link is worth its time. The search ends when 1 % of the squared
 * distance is left, or after 4 N rounds, but not before the used links connect all nodes.
 *
 * X is in fixed point and the gains are whole numbers, so that every machine computes the
 * same rounds, however its compiler treats floating point. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "topology/rounds.h"

enum { ONE = 1 << 24, MAX_LIMITS = 64 };

typedef struct edge {
    int u, v;
    double cost_s;
    uint64_t gain; /* |X_u - X_v|^2 in units of 2^-48 */
} edge;

typedef struct greedy {
    int N;
    int64_t n_edges;
    edge *edges;     /* [n_edges] owned */
    int32_t *x;      /* [N * N] owned, X in units of 2^-24 */
    int *now, *best; /* [N] owned, partners of a round */
    int *part; /* [N] owned; union-find of the parts that used links connect: a node of
                  the same part, or itself */
    int n_parts;
    double cheapest_s, dearest_s;
} greedy;

static void greedy_fini(weft_ctx *ctx, greedy *g) {
    WEFTI_FREE(ctx, g->edges, g->x, g->now, g->best, g->part);
}

/* ---- which nodes the links connect ---- */

static int part_of(const greedy *g, int node) {
    while (g->part[node] != node) node = g->part[node];
    return node;
}

static void join_parts(greedy *g, int u, int v) {
    int p = part_of(g, u), q = part_of(g, v);
    if (p == q) return;
    g->part[p < q ? q : p] = p < q ? p : q;
    g->n_parts--;
}

static void separate_all(greedy *g) {
    for (int node = 0; node < g->N; node++) g->part[node] = node;
    g->n_parts = g->N;
}

static weft_status check_connected(weft_ctx *ctx, greedy *g) {
    separate_all(g);
    for (int64_t e = 0; e < g->n_edges; e++) join_parts(g, g->edges[e].u, g->edges[e].v);
    for (int node = 1; node < g->N; node++)
        if (part_of(g, node) != 0)
            return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                                 "the links do not connect node %d with node 0, expected "
                                 "a way between all %d nodes",
                                 node, g->N);
    separate_all(g);
    return WEFT_OK;
}

/* ---- one round ---- */

static void find_gains(greedy *g) {
    for (int64_t e = 0; e < g->n_edges; e++) {
        const int32_t *x = g->x + (int64_t)g->edges[e].u * g->N;
        const int32_t *y = g->x + (int64_t)g->edges[e].v * g->N;
        uint64_t sum = 0;
        for (int j = 0; j < g->N; j++) {
            int64_t d = (int64_t)x[j] - y[j];
            sum += (uint64_t)(d * d);
        }
        g->edges[e].gain = sum;
    }
}

static bool is_better(const edge *a, const edge *b) {
    if (a->gain != b->gain) return a->gain > b->gain;
    if (a->cost_s != b->cost_s) return a->cost_s < b->cost_s;
    return a->u != b->u ? a->u < b->u : a->v < b->v;
}

static void swap_edges(edge *a, edge *b) {
    edge kept = *a;
    *a = *b;
    *b = kept;
}

/* Restores the heap below i. The heap sort has the worst edge on top, so the best one
 * ends up first. */
static void sift(edge *heap, int64_t n, int64_t i) {
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && is_better(&heap[child], &heap[child + 1])) child++;
        if (!is_better(&heap[i], &heap[child])) return;
        swap_edges(&heap[i], &heap[child]);
        i = child;
    }
}

static void sort_edges(greedy *g) {
    for (int64_t i = g->n_edges / 2 - 1; i >= 0; i--) sift(g->edges, g->n_edges, i);
    for (int64_t n = g->n_edges - 1; n > 0; n--) {
        swap_edges(&g->edges[0], &g->edges[n]);
        sift(g->edges, n, 0);
    }
}

/* g->now <- a matching of the links within the limit; returns its gain per second. */
static double match(greedy *g, double limit_s) {
    uint64_t gain = 0;
    double slowest_s = 0;
    for (int node = 0; node < g->N; node++) g->now[node] = -1;
    for (int64_t i = 0; i < g->n_edges; i++) {
        const edge *e = &g->edges[i];
        if (e->gain == 0) break;
        if (e->cost_s > limit_s || g->now[e->u] >= 0 || g->now[e->v] >= 0) continue;
        g->now[e->u] = e->v;
        g->now[e->v] = e->u;
        gain += e->gain;
        slowest_s = fmax(slowest_s, e->cost_s);
    }
    return gain ? (double)gain / slowest_s : 0;
}

/* g->best <- the pairs of the next round; false if nothing is left to gain. */
static bool choose(greedy *g) {
    double limit_s = g->cheapest_s, best = 0;
    find_gains(g);
    sort_edges(g);
    for (int k = 0; k < MAX_LIMITS; k++, limit_s *= 2) {
        bool all = limit_s >= g->dearest_s || k == MAX_LIMITS - 1;
        double worth = match(g, all ? g->dearest_s : limit_s);
        if (worth > best) {
            memcpy(g->best, g->now, (size_t)g->N * sizeof(int));
            best = worth;
        }
        if (all) break;
    }
    return best > 0;
}

static void apply(greedy *g) {
    for (int u = 0; u < g->N; u++) {
        int v = g->best[u];
        if (v <= u) continue;
        int32_t *x = g->x + (int64_t)u * g->N, *y = g->x + (int64_t)v * g->N;
        for (int j = 0; j < g->N; j++) x[j] = y[j] = (x[j] + y[j]) / 2;
        join_parts(g, u, v);
    }
}

/* Squared distance of all rows from their mean, in units of 2^-48. */
static uint64_t distance(const greedy *g) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < (int64_t)g->N * g->N; i++) {
        int64_t d = g->x[i] - ONE / g->N;
        sum += (uint64_t)(d * d);
    }
    return sum;
}

/* ---- all rounds ---- */

static weft_status take_edges(weft_ctx *ctx, greedy *g, const double *cost_s) {
    int N = g->N;
    int64_t n = 0;
    WEFT_TRY(
        wefti_alloc_n(ctx, (int64_t)N * (N - 1) / 2, sizeof(edge), "links", &g->edges));
    g->cheapest_s = INFINITY;
    for (int u = 0; u < N; u++)
        for (int v = u + 1; v < N; v++) {
            double cost = fmax(cost_s[(int64_t)u * N + v],
                               1e-12); /* no link has cost 0 */
            if (isinf(cost)) continue;
            g->edges[n++] = (edge){u, v, cost, 0};
            g->cheapest_s = fmin(g->cheapest_s, cost);
            g->dearest_s = fmax(g->dearest_s, cost);
        }
    g->n_edges = n;
    return check_connected(ctx, g);
}

static weft_status greedy_init(weft_ctx *ctx, greedy *g, const double *cost_s) {
    int64_t N = g->N;
    WEFT_TRY(wefti_alloc_n(ctx, N * N, sizeof(int32_t), "mixing weights", &g->x));
    WEFT_TRY(wefti_alloc_n(ctx, N, sizeof(int), "pairs", &g->now));
    WEFT_TRY(wefti_alloc_n(ctx, N, sizeof(int), "pairs", &g->best));
    WEFT_TRY(wefti_alloc_n(ctx, N, sizeof(int), "parts", &g->part));
    for (int64_t u = 0; u < N; u++) g->x[u * N + u] = ONE;
    return take_edges(ctx, g, cost_s);
}

static weft_status build(weft_ctx *ctx, greedy *g, const double *cost_s,
                         wefti_rounds *out) {
    WEFT_TRY(greedy_init(ctx, g, cost_s));
    uint64_t enough = distance(g) / 100;
    while (g->n_parts > 1 || (distance(g) > enough && out->n < 4 * g->N)) {
        if (!choose(g)) break;
        apply(g);
        WEFT_TRY(wefti_rounds_add(ctx, cost_s, g->best, out));
    }
    return WEFT_OK;
}

weft_status wefti_greedy_rounds(weft_ctx *ctx, int N, const double *cost_s,
                                wefti_rounds *out) {
    greedy g = {.N = N};
    *out = (wefti_rounds){.N = N};
    weft_status status = build(ctx, &g, cost_s, out);
    greedy_fini(ctx, &g);
    if (status != WEFT_OK) wefti_rounds_fini(ctx, out);
    return status;
}
