/* SPDX-License-Identifier: MIT */
/* The order of the candidates and the choice among them, by the time to a loss.
 *
 *     cost     time of a step x steps to a loss over those of one node (advise_steps.c)
 *     level    log(cost / another's)  <=  how far the two may be apart (advise_error.c), or 5 %
 *     choice   of those that are level with all that cost less: one that learns as one machine
 *              does, then the fewest nodes, then the least cost
 *
 * So an uncertain difference justifies neither a method that learns differently nor
 * another machine. Results of methods on a small model are less certain for a large one,
 * so there a larger speed-up is required automatically. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/advise.h"

/* A difference that always counts as level. */
static const double nearly = 0.05;

/* Costs that differ by less than 0.5 % share a place; among these fewer bytes come first. */
static double place_of(const weft_candidate *c) { return floor(log(c->cost_s) * 200); }

static int by_cost(const void *left, const void *right) {
    const weft_candidate *a = left, *b = right;
    bool x = a->learning.measured, y = b->learning.measured;
    if (a->usable != b->usable) return a->usable ? -1 : 1;
    if (x != y) return x ? -1 : 1;
    if (place_of(a) != place_of(b)) return place_of(a) < place_of(b) ? -1 : 1;
    double out = a->prediction.wire_bytes - b->prediction.wire_bytes;
    if (out < 0 || out > 0) return out < 0 ? -1 : 1;
    return strcmp(a->settings, b->settings);
}

static bool can_be_chosen(const weft_candidate *c) {
    return c->usable && c->learning.measured && wefti_advise_reaches(c);
}

int64_t wefti_advise_least(const weft_candidate *candidates, const double *cost_s,
                           int64_t n) {
    int64_t least = -1;
    for (int64_t i = 0; i < n; i++)
        if (can_be_chosen(&candidates[i]) && (least < 0 || cost_s[i] < cost_s[least]))
            least = i;
    return least;
}

/* Whether x is the better choice of two candidates that are level. */
static bool is_better(const weft_candidate *x, double x_s, const weft_candidate *y,
                      double y_s) {
    bool mine = !x->learning.changes[0], other = !y->learning.changes[0];
    if (mine != other) return mine;
    if (x->nodes != y->nodes) return x->nodes < y->nodes;
    return x_s < y_s;
}

/* Whether no candidate certainly costs less than candidate i. */
static bool is_level(const wefti_adviser *a, const weft_candidate *candidates,
                     const double *cost_s, int64_t n, int64_t i) {
    for (int64_t k = 0; k < n; k++) {
        if (!can_be_chosen(&candidates[k]) || cost_s[k] >= cost_s[i]) continue;
        double far = wefti_advise_apart(a, &candidates[i], cost_s[i], &candidates[k],
                                        cost_s[k]);
        if (log(cost_s[i] / cost_s[k]) > fmax(nearly, far)) return false;
    }
    return can_be_chosen(&candidates[i]);
}

int64_t wefti_advise_choose(const wefti_adviser *a, const weft_candidate *candidates,
                            const double *cost_s, int64_t n) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; i++) {
        if (!is_level(a, candidates, cost_s, n, i)) continue;
        if (best < 0 ||
            is_better(&candidates[i], cost_s[i], &candidates[best], cost_s[best]))
            best = i;
    }
    return best;
}

static const char *why_not_one(const weft_advice *advice) {
    static const char one[] = "one node ";
    for (int64_t i = 0; i < advice->n_left_out; i++)
        if (strncmp(advice->left_out[i].what, one, sizeof one - 1) == 0)
            return advice->left_out[i].why;
    return "it was left out like the others";
}

weft_status wefti_advise_rank(wefti_adviser *a) {
    weft_advice *advice = a->advice;
    advice->baseline = advice->fastest = advice->full = advice->choice = -1;
    advice->rival = -1;
    if (advice->n_candidates > 0)
        qsort(advice->candidates, (size_t)advice->n_candidates,
              sizeof *advice->candidates, by_cost);
    for (int64_t i = advice->n_candidates - 1; i >= 0; i--) {
        const weft_candidate *c = &advice->candidates[i];
        bool same = !c->learning.changes[0];
        if (c->nodes == 1 && same) advice->baseline = i;
        if (c->usable && (advice->fastest < 0 ||
                          c->cost_s <= advice->candidates[advice->fastest].cost_s))
            advice->fastest = i;
        if (c->usable && c->nodes > 1 && same) advice->full = i;
    }
    if (advice->baseline < 0)
        return weft_ctx_fail(a->ctx, WEFT_ERR_CONFIG, "one node alone: %s",
                             why_not_one(advice));
    double one_s = advice->candidates[advice->baseline].cost_s;
    for (int64_t i = 0; i < advice->n_candidates; i++)
        advice->candidates[i].speedup = one_s / advice->candidates[i].cost_s;
    return WEFT_OK;
}
