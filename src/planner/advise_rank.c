/* SPDX-License-Identifier: MIT */
/* The order of the candidates and the choice among them.
 *
 *     order    by the time of a step, to half a per cent; then by the learning; then bytes
 *     choice   what learns as one machine does, or what learns otherwise if that is so
 *              much faster that more steps may be needed:
 *
 *                  t(same) / t(other)  >=  1.25 + 0.1 max(0, log10(P / P0) - 1)
 *
 * P: the run's parameters. P0: those of the model whose learning was measured. A difference
 * that was seen on a small model says less about a larger one, so it counts in coarser
 * classes there, and more speed is asked for. What was ahead of one machine counts as level
 * with it: a lead of a few hundred steps is not promised. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "planner/advise.h"

/* A choice may be so much slower than the fastest, if it learns better. */
static const double nearly = 1.05;

/* What learns otherwise has to be so much faster: flexdemo needed about a quarter more
 * steps than hsdp to the same loss (docs/results.md, Time on a slow wire). */
static const double worth = 1.25, worth_per_decade = 0.1;

/* Nats per token within which two distances are the same: seeds differ by about that. */
static const double class_width = 0.02;

double wefti_learning_decades(int64_t parameters) {
    double decades = log10((double)parameters / WEFTI_LEARNING_PARAMETERS);
    return decades > 1 ? decades - 1 : 0;
}

double wefti_learning_worth(int64_t parameters) {
    return worth + worth_per_decade * wefti_learning_decades(parameters);
}

int wefti_learning_class(const weft_learning *learning, int64_t parameters) {
    double width = class_width * (1 + wefti_learning_decades(parameters));
    if (!learning->measured) return 1000;
    return (int)fmax(0, ceil(learning->high / width - 1e-9));
}

/* Steps that differ by less than half a per cent share a place: then what learns better
 * comes first, and what sends less. */
static double place_of(const weft_candidate *c) { return floor(log(c->cost_s) * 200); }

static int by_time(const void *left, const void *right) {
    const weft_candidate *a = left, *b = right;
    if (a->usable != b->usable) return a->usable ? -1 : 1;
    if (place_of(a) != place_of(b)) return place_of(a) < place_of(b) ? -1 : 1;
    const weft_learning *x = &a->learning, *y = &b->learning;
    if (x->measured != y->measured) return x->measured ? -1 : 1;
    if (x->high != y->high) return x->high < y->high ? -1 : 1;
    double out = a->prediction.wire_bytes - b->prediction.wire_bytes;
    if (out < 0 || out > 0) return out < 0 ? -1 : 1;
    return strcmp(a->settings, b->settings);
}

/* Whether a is the better choice of two that are nearly as fast. */
static bool is_better(const weft_candidate *a, double a_s, const weft_candidate *b,
                      double b_s) {
    int64_t n = a->prediction.parameters;
    int mine = wefti_learning_class(&a->learning, n),
        other = wefti_learning_class(&b->learning, n);
    if (mine != other) return mine < other;
    if (a->nodes != b->nodes) return a->nodes < b->nodes;
    return a_s < b_s;
}

int64_t wefti_advise_best(const weft_candidate *candidates, const double *step_s,
                          int64_t n, bool same) {
    double best_s = INFINITY;
    int64_t best = -1;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < n; i++) {
            const weft_candidate *c = &candidates[i];
            bool fits = c->usable && c->learning.measured &&
                        same == !c->learning.changes[0];
            if (!fits) continue;
            if (pass == 0) best_s = fmin(best_s, step_s[i]);
            if (pass == 0 || step_s[i] > nearly * best_s) continue;
            if (best < 0 || is_better(c, step_s[i], &candidates[best], step_s[best]))
                best = i;
        }
    return best;
}

int64_t wefti_advise_choose(const weft_candidate *candidates, const double *step_s,
                            int64_t n) {
    int64_t same = wefti_advise_best(candidates, step_s, n, true);
    int64_t other = wefti_advise_best(candidates, step_s, n, false);
    if (same < 0 || other < 0) return same < 0 ? other : same;
    double enough = wefti_learning_worth(candidates[other].prediction.parameters);
    return step_s[other] * enough <= step_s[same] ? other : same;
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
              sizeof *advice->candidates, by_time);
    for (int64_t i = advice->n_candidates - 1; i >= 0; i--) {
        const weft_candidate *c = &advice->candidates[i];
        if (c->nodes == 1) advice->baseline = i;
        if (c->usable) advice->fastest = i;
        if (c->usable && c->nodes > 1 && !c->learning.changes[0]) advice->full = i;
    }
    if (advice->baseline < 0)
        return weft_ctx_fail(a->ctx, WEFT_ERR_CONFIG, "one node alone: %s",
                             why_not_one(advice));
    double one_s = advice->candidates[advice->baseline].cost_s;
    for (int64_t i = 0; i < advice->n_candidates; i++)
        advice->candidates[i].speedup = one_s / advice->candidates[i].cost_s;
    return WEFT_OK;
}
