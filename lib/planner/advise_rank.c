/* SPDX-License-Identifier: MIT */
/* The order of the candidates and the choice among them, by the time to a loss.
 *
 *     cost     time of a step x steps to a loss over those of one node (advise_steps.c)
 *     level    log(cost / the least)  <=  5 %, the error of the model
 *     choice   of those that are level: one that learns as one machine does, then the fewest
 *              nodes, then the least cost
 *
 * Where another fact gets better no candidate costs more, so the choice costs at most those 5 %
 * more. Errors of facts and of learning do not decide here: with them less would be promised as
 * soon as a better wire brings what is surer, and slower, within the error of what is faster.
 * They are in the ranges, by which what certainly pays comes first (advise_ends.c). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "planner/advise.h"

weft_status wefti_advise_add(wefti_adviser *a, const weft_candidate *c) {
    weft_advice *advice = a->advice;
    WEFT_TRY(wefti_reserve(a->ctx, &advice->candidates, &a->room, advice->n_candidates, 1,
                           sizeof *advice->candidates, "the advice"));
    advice->candidates[advice->n_candidates++] = *c;
    return WEFT_OK;
}

/* Checks whether the candidate fits into memory. */
static void judge_room(const wefti_adviser *a, weft_candidate *c) {
    char needs[32], has[32];
    c->usable = true;
    if (wefti_machines_have_room(a, c)) return;
    double room = wefti_machines_memory(a, c, (double)c->prediction.memory_bytes);
    c->usable = false;
    snprintf(c->problem, sizeof c->problem,
             "needs %s of memory per rank in %s, %s are there",
             wefti_format_bytes((double)c->prediction.memory_bytes, needs, sizeof needs),
             wefti_precision_name(a->options.precision),
             wefti_format_bytes(room, has, sizeof has));
}

void wefti_advise_judge(const wefti_adviser *a, weft_candidate *c) {
    judge_room(a, c);
    wefti_advise_steps(a, c);
    double steps = c->steps * a->advice->tokens /
                   (double)wefti_advise_tokens(a, c->nodes) /
                   wefti_advise_efficiency(a, c->nodes);
    c->efficiency = wefti_advise_efficiency(a, c->nodes);
    c->cost_s = wefti_advise_cost(a, c, c->prediction.mean_step_s);
    c->error = wefti_advise_error(a, c);
    c->goes_on = wefti_advise_goes_on(a, c);
    c->hours = steps * c->prediction.mean_step_s / 3600 *
               wefti_advise_failures(a, c, c->prediction.mean_step_s);
    c->gigabytes = steps * c->prediction.wire_bytes / 1e9;
    c->break_even_Bps = c->overtaken_Bps = NAN;
    c->curve = -1;
}

/* Costs that differ by less than 0.5 % share a place; among these fewer bytes come first. */
static double place_of(const weft_candidate *c) { return floor(log(c->cost_s) * 200); }

static bool is_known(const weft_candidate *c) {
    return c->learning.measured && wefti_advise_reaches(c);
}

static int by_cost(const void *left, const void *right) {
    const weft_candidate *a = left, *b = right;
    bool x = is_known(a), y = is_known(b);
    if (a->usable != b->usable) return a->usable ? -1 : 1;
    if (x != y) return x ? -1 : 1;
    if (place_of(a) != place_of(b)) return place_of(a) < place_of(b) ? -1 : 1;
    double out = a->prediction.wire_bytes - b->prediction.wire_bytes;
    if (out < 0 || out > 0) return out < 0 ? -1 : 1;
    return strcmp(a->settings, b->settings);
}

static bool can_be_chosen(const weft_candidate *c) { return c->usable && is_known(c); }

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

int64_t wefti_advise_choose(const weft_candidate *candidates, const double *cost_s,
                            int64_t n) {
    int64_t best = -1, least = wefti_advise_least(candidates, cost_s, n);
    for (int64_t i = 0; i < n; i++) {
        if (!can_be_chosen(&candidates[i])) continue;
        if (log(cost_s[i] / cost_s[least]) > WEFTI_NEARLY) continue;
        if (best < 0 ||
            is_better(&candidates[i], cost_s[i], &candidates[best], cost_s[best]))
            best = i;
    }
    return best;
}

double wefti_advise_limit(const weft_advice *advice) {
    double least_s = INFINITY;
    for (int64_t i = 0; i < advice->n_candidates; i++)
        if (can_be_chosen(&advice->candidates[i]))
            least_s = fmin(least_s, advice->candidates[i].cost_s);
    return least_s * exp(WEFTI_NEARLY);
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
