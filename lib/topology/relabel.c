/* SPDX-License-Identifier: MIT */
/* Assigns nodes to places in the rounds of fold.c so that the sum over rounds of the slowest
 * link's cost is small and, among equal sums, the sum over all links. There are two initial
 * assignments: the nodes in their own order, and a chain in which each node is followed by
 * the node that is cheapest to reach from it. Each is improved by swapping two places as
 * long as that helps, for a limited number of trials. Ties go to the earlier assignment. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "topology/rounds.h"

/* Limit on the pairs that the trials of one initial assignment examine. */
enum { MOST_WORK = 40000000 };

/* Cost of a link that does not exist; finite, so that fewer such links still count as an
 * improvement.
 */
static const double missing_s = 1e18;

typedef struct relabelling {
    wefti_fold fold;
    const double *cost_s;
    wefti_fold_pair *places; /* [rounds * N] owned, pairs of places */
    int *node;               /* [N] owned, node of a place */
    int *best;               /* [N] owned */
    int64_t work;
} relabelling;

typedef struct price {
    double slowest_s, all_s;
} price;

/* Less by more than the rounding error that the order of additions causes. */
static bool is_less(double a, double b) { return a < b * (1 - 1e-9); }

static bool is_cheaper(price a, price b) {
    if (is_less(a.slowest_s, b.slowest_s)) return true;
    return !is_less(b.slowest_s, a.slowest_s) && is_less(a.all_s, b.all_s);
}

static price price_of(relabelling *r) {
    price sum = {0, 0};
    int N = r->fold.N;
    for (int round = 0; round < r->fold.rounds; round++) {
        double slowest_s = 0;
        for (int place = 0; place < N; place++) {
            int partner = r->places[(int64_t)round * N + place].partner;
            if (partner <= place) continue;
            double cost = r->cost_s[(int64_t)r->node[place] * N + r->node[partner]];
            if (isinf(cost)) cost = missing_s;
            slowest_s = fmax(slowest_s, cost);
            sum.all_s += cost;
        }
        sum.slowest_s += slowest_s;
    }
    r->work += (int64_t)N * r->fold.rounds;
    return sum;
}

static void swap_places(relabelling *r, int a, int b) {
    int kept = r->node[a];
    r->node[a] = r->node[b];
    r->node[b] = kept;
}

static price improve(relabelling *r) {
    price now = price_of(r);
    bool better = true;
    for (r->work = 0; better && r->work < MOST_WORK;) {
        better = false;
        for (int a = 0; a < r->fold.N; a++)
            for (int b = a + 1; b < r->fold.N && r->work < MOST_WORK; b++) {
                swap_places(r, a, b);
                price tried = price_of(r);
                if (is_cheaper(tried, now)) {
                    now = tried;
                    better = true;
                } else {
                    swap_places(r, a, b);
                }
            }
    }
    return now;
}

/* Fills place after place with the node that is cheapest to reach from the previous one. */
static void chain(relabelling *r) {
    int N = r->fold.N;
    for (int place = 0; place + 1 < N; place++) {
        const double *cost = r->cost_s + (int64_t)r->node[place] * N;
        int next = place + 1;
        for (int other = place + 2; other < N; other++)
            if (cost[r->node[other]] < cost[r->node[next]]) next = other;
        swap_places(r, place + 1, next);
    }
}

static void find(relabelling *r) {
    int N = r->fold.N;
    for (int place = 0; place < N; place++) r->node[place] = place;
    price own = improve(r);
    memcpy(r->best, r->node, (size_t)N * sizeof(int));
    for (int place = 0; place < N; place++) r->node[place] = place;
    chain(r);
    if (is_cheaper(improve(r), own)) memcpy(r->best, r->node, (size_t)N * sizeof(int));
    memcpy(r->node, r->best, (size_t)N * sizeof(int));
}

static weft_status relabelling_init(weft_ctx *ctx, relabelling *r) {
    int N = r->fold.N;
    WEFT_TRY(wefti_alloc_n(ctx, (int64_t)r->fold.rounds * N, sizeof(wefti_fold_pair),
                           "rounds", &r->places));
    WEFT_TRY(wefti_alloc_n(ctx, N, sizeof(int), "places", &r->node));
    WEFT_TRY(wefti_alloc_n(ctx, N, sizeof(int), "places", &r->best));
    for (int round = 0; round < r->fold.rounds; round++)
        for (int place = 0; place < N; place++)
            r->places[(int64_t)round * N + place] = wefti_fold_meet(&r->fold, place,
                                                                    round);
    return WEFT_OK;
}

/* Converts the pairs of places to pairs of nodes. */
static weft_status write_rounds(weft_ctx *ctx, relabelling *r, wefti_rounds *out) {
    int N = r->fold.N;
    WEFT_TRY(wefti_alloc_n(ctx, (int64_t)r->fold.rounds * N, sizeof(wefti_fold_pair),
                           "the schedule", &out->pairs));
    out->n = r->fold.rounds;
    for (int64_t i = 0; i < out->n * N; i++) {
        wefti_fold_pair met = r->places[i];
        if (met.partner >= 0) met.partner = r->node[met.partner];
        out->pairs[i / N * N + r->node[i % N]] = met;
    }
    out->seconds = price_of(r).slowest_s;
    if (out->seconds >= missing_s) out->seconds = INFINITY;
    return WEFT_OK;
}

weft_status wefti_relabelled_rounds(weft_ctx *ctx, int N, const double *cost_s,
                                    wefti_rounds *out) {
    relabelling r = {.fold = wefti_fold_make(N), .cost_s = cost_s};
    *out = (wefti_rounds){.N = N};
    weft_status status = relabelling_init(ctx, &r);
    if (status == WEFT_OK) {
        find(&r);
        status = write_rounds(ctx, &r, out);
    }
    WEFTI_FREE(ctx, r.places, r.node, r.best);
    return status;
}
