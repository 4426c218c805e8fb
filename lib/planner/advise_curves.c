/* SPDX-License-Identifier: MIT */
/* The same candidates on slower and faster wires: speed-up over one node on a grid of
 * rates, and between two points of the grid, by bisection, where the order changes. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "planner/advise.h"

/* From 1 Mbit/s to 100 Gbit/s; more ranks take longer to predict. */
enum { MOST_PER_DECADE = 4, DECADES = 5, MAX_CURVES = 32 };
enum { MAX_COPIES = MAX_CURVES + 2 }; /* and one node, twice */
enum { MAX_RATES = MOST_PER_DECADE * DECADES + 1 };
static const double least_Bps = 125e3;

/* Between two points of the grid a rate is found by SECANTS secant steps, and a change of
 * the choice by HALVINGS bisections. */
enum { SECANTS = 2, HALVINGS = 4 };

/* A smaller difference counts as equally fast. */
static const double tie = 1.005;

typedef struct curves {
    wefti_adviser *a;
    int64_t of[MAX_CURVES + 1]; /* candidates: the best of each method, in their order */
    int64_t n;                  /* number of these; after them the alternative for one
                                   node, if any */
    int64_t n_copies;
    int n_rates;           /* of the grid */
    int first, last;       /* of these, those that are needed */
    int change[MAX_RATES]; /* points of the grid at which another choice begins */
    double one_s;          /* a step of one node alone */
    double step_s[MAX_CURVES][MAX_RATES];
    weft_candidate copies[MAX_COPIES]; /* one node first, for the choice */
    double now_s[MAX_COPIES];          /* their costs on the cluster's wire */
} curves;

static const weft_candidate *candidate(const curves *c, int64_t k) {
    return &c->a->advice->candidates[c->of[k]];
}

/* The candidate that represents a method: among those within 5 % of the method's fastest
 * the one with the fewest nodes, then the fewest bytes. */
static const double slower = 1.05;

static bool same_method(const weft_candidate *a, const weft_candidate *b) {
    return a->usable && a->nodes > 1 && strcmp(a->method, b->method) == 0 &&
           a->learning.measured == b->learning.measured &&
           wefti_advise_reaches(a) == wefti_advise_reaches(b);
}

static bool is_thriftier(const weft_candidate *a, const weft_candidate *b) {
    if (a->nodes != b->nodes) return a->nodes < b->nodes;
    return a->prediction.wire_bytes < b->prediction.wire_bytes;
}

static int64_t best_of_method(const weft_advice *advice, int64_t first) {
    const weft_candidate *all = advice->candidates;
    double limit_s = INFINITY;
    int64_t best = first;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = first; i < advice->n_candidates; i++) {
            const weft_candidate *c = &all[i];
            if (!same_method(c, &all[first])) continue;
            if (pass == 0 && slower * c->cost_s < limit_s)
                limit_s = slower * c->cost_s, best = i;
            if (pass == 1 && c->cost_s <= limit_s && is_thriftier(c, &all[best]))
                best = i;
        }
    return best;
}

/* Whether an earlier candidate is of the same method. */
static bool is_later(const weft_candidate *all, int64_t i) {
    for (int64_t k = 0; k < i; k++)
        if (same_method(&all[k], &all[i])) return true;
    return false;
}

/* The candidate of the same method that sends least, if that is less than half as much:
 * it is better on slower wires. -1: there is none. */
static int64_t thriftiest(const weft_advice *advice, int64_t best) {
    const weft_candidate *all = advice->candidates;
    int64_t found = -1;
    double bytes = all[best].prediction.wire_bytes / 2;
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        const weft_candidate *c = &all[i];
        if (!same_method(c, &all[best]) || c->prediction.wire_bytes >= bytes ||
            c->nodes < all[best].nodes)
            continue;
        found = i;
        bytes = c->prediction.wire_bytes;
    }
    return found;
}

static void mark(weft_advice *advice) {
    weft_candidate *all = advice->candidates;
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        if (!all[i].usable || all[i].nodes == 1 || is_later(all, i)) continue;
        int64_t best = best_of_method(advice, i), thrifty = thriftiest(advice, best);
        all[best].curve = 0;
        if (thrifty >= 0) all[thrifty].curve = 0;
    }
}

/* Picks the cheapest alternative on one node, which has no curve. */
static void pick_alone(curves *c) {
    const weft_advice *advice = c->a->advice;
    c->n_copies = 1 + c->n;
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        const weft_candidate *one = &advice->candidates[i];
        if (one->nodes > 1 || !one->usable || !one->learning.changes[0]) continue;
        c->of[c->n] = i;
        c->copies[c->n_copies++] = *one;
        return;
    }
}

/* Adds the cost of that alternative, which is the same on every wire. */
static void put_alone(const curves *c, double *cost_s) {
    if (c->n_copies > 1 + c->n) cost_s[1 + c->n] = c->copies[1 + c->n].cost_s;
}

/* Picks the best candidate of each method that needs a wire, in the order of the candidates. */
static void pick(curves *c) {
    weft_advice *advice = c->a->advice;
    weft_candidate *all = advice->candidates;
    c->copies[0] = all[advice->baseline];
    mark(advice);
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        if (all[i].curve < 0) continue;
        if (c->n == MAX_CURVES) {
            all[i].curve = -1;
            continue;
        }
        all[i].curve = c->n;
        c->copies[1 + c->n] = all[i];
        c->of[c->n++] = i;
    }
    pick_alone(c);
}

static weft_status step_at(weft_ctx *ctx, const curves *c, int64_t k, double rate_Bps,
                           double *step_s) {
    weft_prediction p = {.struct_size = sizeof p};
    WEFT_TRY(wefti_advise_predict(ctx, c->a, candidate(c, k), rate_Bps, &p));
    *step_s = wefti_advise_cost(c->a, candidate(c, k), p.mean_step_s);
    return WEFT_OK;
}

/* The same for a run that is prepared once for many rates: preparing takes as long as
 * playing a few steps, and longer for deep models or long rows. */
static weft_status step_of(weft_ctx *ctx, const curves *c, const wefti_advised_run *run,
                           double rate_Bps, double *step_s) {
    WEFT_TRY(wefti_advise_step(ctx, c->a, run, rate_Bps, 0, step_s));
    *step_s = wefti_advise_cost(c->a, run->candidate, *step_s);
    return WEFT_OK;
}

/* Task k: one curve. */
static weft_status trace(weft_ctx *ctx, void *user, int64_t k) {
    curves *c = user;
    weft_advice *advice = c->a->advice;
    wefti_advised_run run;
    WEFT_TRY(wefti_advise_prepare(ctx, c->a, candidate(c, k), &run));
    weft_status status = WEFT_OK;
    for (int i = c->first; i <= c->last && status == WEFT_OK; i++) {
        double *step_s = &c->step_s[k][i], now_s = c->now_s[1 + k];
        if (now_s > 0 && advice->bandwidths[i] == advice->wire.bandwidth_Bps)
            *step_s = now_s;
        else
            status = step_of(ctx, c, &run, advice->bandwidths[i], step_s);
        advice->speedups[k * c->n_rates + i] = c->one_s / *step_s;
    }
    wefti_advise_unprepare(ctx, &run);
    return status;
}

/* ---- where the order changes ---- */

/* The lead of curve k over curve `other`, or over one node (-1), in logarithms of time. */
static double lead_of(const curves *c, double mine_s, double other_s, int64_t other) {
    return log((other >= 0 ? other_s / tie : c->one_s) / mine_s);
}

static double lead_on_grid(const curves *c, int64_t k, int64_t other, int i) {
    return lead_of(c, c->step_s[k][i], other >= 0 ? c->step_s[other][i] : 0, other);
}

static weft_status lead_at(weft_ctx *ctx, const curves *c, int64_t k, int64_t other,
                           double rate_Bps, double *lead) {
    double mine_s = 0, other_s = 0;
    WEFT_TRY(step_at(ctx, c, k, rate_Bps, &mine_s));
    if (other >= 0) WEFT_TRY(step_at(ctx, c, other, rate_Bps, &other_s));
    *lead = lead_of(c, mine_s, other_s, other);
    return WEFT_OK;
}

static bool was_ahead(const curves *c, int64_t k, int64_t other, int i) {
    return lead_on_grid(c, k, other, i) > 0;
}

/* Refines a crossing between two neighbouring points of the grid: logarithms of time are
 * nearly linear in the logarithm of the rate. */
static weft_status refine(weft_ctx *ctx, const curves *c, int64_t k, int64_t other, int i,
                          double *rate_Bps) {
    const double *rates = c->a->advice->bandwidths;
    double low = log(rates[i]), high = log(rates[i + 1]), lead = 0, middle = low;
    double at_low = lead_on_grid(c, k, other, i);
    double at_high = lead_on_grid(c, k, other, i + 1);
    for (int n = 0; n <= SECANTS; n++) {
        middle = low + (high - low) * at_low / (at_low - at_high);
        if (n == SECANTS) break;
        WEFT_TRY(lead_at(ctx, c, k, other, exp(middle), &lead));
        bool below = (lead > 0) == (at_low > 0);
        *(below ? &low : &high) = middle;
        *(below ? &at_low : &at_high) = lead;
        if (at_low == at_high) break;
    }
    *rate_Bps = exp(middle);
    return WEFT_OK;
}

static weft_status find_break_even(weft_ctx *ctx, const curves *c, int64_t k) {
    weft_candidate *one = &c->a->advice->candidates[c->of[k]];
    int i = c->n_rates - 1;
    while (i >= 0 && was_ahead(c, k, -1, i)) i--;
    one->break_even_Bps = i < 0 ? 0 : INFINITY;
    if (i < 0 || i == c->n_rates - 1) return WEFT_OK;
    return refine(ctx, c, k, -1, i, &one->break_even_Bps);
}

static weft_status find_overtaken(weft_ctx *ctx, const curves *c, int64_t k) {
    const weft_advice *advice = c->a->advice;
    double now = advice->wire.bandwidth_Bps, nearest = INFINITY;
    int at = -1;
    if (k + 1 >= c->n) return WEFT_OK;
    for (int i = 0; i + 1 < c->n_rates; i++) {
        double far = fabs(
            log(sqrt(advice->bandwidths[i] * advice->bandwidths[i + 1]) / now));
        bool changes = was_ahead(c, k, k + 1, i) != was_ahead(c, k, k + 1, i + 1);
        if (changes && far < nearest) at = i, nearest = far;
    }
    if (at < 0) return WEFT_OK;
    return refine(ctx, c, k, k + 1, at,
                  &c->a->advice->candidates[c->of[k]].overtaken_Bps);
}

/* Task k: both rates of curve k. */
static weft_status find_rates(weft_ctx *ctx, void *user, int64_t k) {
    WEFT_TRY(find_break_even(ctx, user, k));
    return find_overtaken(ctx, user, k);
}

/* ---- the choice at each rate ---- */

/* The candidate that a copy is of. */
static int64_t candidate_of(const curves *c, int64_t copy) {
    return copy < 1 ? copy < 0 ? -1 : c->a->advice->baseline : c->of[copy - 1];
}

/* Costs at a point of the grid. */
static void costs_on_grid(const curves *c, int i, double cost_s[MAX_COPIES]) {
    cost_s[0] = c->one_s;
    for (int64_t k = 0; k < c->n; k++) cost_s[1 + k] = c->step_s[k][i];
    put_alone(c, cost_s);
}

static int64_t choice_on_grid(const curves *c, int i) {
    double cost_s[MAX_COPIES];
    costs_on_grid(c, i, cost_s);
    return wefti_advise_choose(c->copies, cost_s, c->n_copies);
}

/* Prepares the runs that matter between two points of the grid: the choice and the
 * cheapest candidate at each of the two. */
static weft_status prepare_few(weft_ctx *ctx, const curves *c, int i,
                               wefti_advised_run *runs) {
    double cost_s[MAX_COPIES];
    int64_t wanted[4];
    for (int end = 0; end < 2; end++) {
        costs_on_grid(c, i - end, cost_s);
        wanted[2 * end] = choice_on_grid(c, i - end);
        wanted[2 * end + 1] = wefti_advise_least(c->copies, cost_s, c->n_copies);
    }
    for (int w = 0; w < 4; w++) {
        int64_t k = wanted[w] - 1;
        if (k < 0 || k >= c->n || runs[k].candidate) continue;
        WEFT_TRY(wefti_advise_prepare(ctx, c->a, candidate(c, k), &runs[k]));
    }
    return WEFT_OK;
}

/* The choice at a given share of the distance between two points of the grid. For candidates
 * that are not prepared the logarithm of time is interpolated linearly over that of the rate. */
static weft_status choice_between(weft_ctx *ctx, const curves *c, int i,
                                  const wefti_advised_run *runs, double share,
                                  int64_t *choice) {
    const double *rates = c->a->advice->bandwidths;
    double cost_s[MAX_COPIES], high_s[MAX_COPIES];
    double rate_Bps = rates[i - 1] * pow(rates[i] / rates[i - 1], share);
    costs_on_grid(c, i - 1, cost_s);
    costs_on_grid(c, i, high_s);
    for (int64_t k = 0; k < c->n; k++) {
        cost_s[1 + k] *= pow(high_s[1 + k] / cost_s[1 + k], share);
        if (runs[k].candidate)
            WEFT_TRY(step_of(ctx, c, &runs[k], rate_Bps, &cost_s[1 + k]));
    }
    *choice = wefti_advise_choose(c->copies, cost_s, c->n_copies);
    return WEFT_OK;
}

/* Task r: where range r begins, between two points of the grid. */
static weft_status find_change(weft_ctx *ctx, void *user, int64_t r) {
    const curves *c = user;
    const double *rates = c->a->advice->bandwidths;
    wefti_advised_run runs[MAX_CURVES] = {{.candidate = NULL}};
    int i = c->change[r];
    if (i == c->first) return WEFT_OK;
    double low = 0, high = 1;
    int64_t before = choice_on_grid(c, i - 1), now = before;
    weft_status status = prepare_few(ctx, c, i, runs);
    for (int h = 0; h < HALVINGS && status == WEFT_OK; h++) {
        double middle = (low + high) / 2;
        status = choice_between(ctx, c, i, runs, middle, &now);
        *(now == before ? &low : &high) = middle;
    }
    for (int64_t k = 0; k < c->n; k++) wefti_advise_unprepare(ctx, &runs[k]);
    c->a->advice->ranges[r].from_Bps = rates[i - 1] *
                                       pow(rates[i] / rates[i - 1], (low + high) / 2);
    return status;
}

static weft_status find_ranges(curves *c) {
    weft_advice *advice = c->a->advice;
    for (int i = c->first; i <= c->last; i++) {
        int64_t now = choice_on_grid(c, i);
        if (i > c->first && now == choice_on_grid(c, i - 1)) continue;
        c->change[advice->n_ranges] = i;
        advice->ranges[advice->n_ranges++] = (weft_range){0, INFINITY,
                                                          candidate_of(c, now)};
    }
    WEFT_TRY(wefti_advise_each(c->a, advice->n_ranges, find_change, c));
    for (int64_t r = 0; r + 1 < advice->n_ranges; r++)
        advice->ranges[r].to_Bps = advice->ranges[r + 1].from_Bps;
    return WEFT_OK;
}

/* ---- the whole ---- */

static int per_decade(const curves *c) {
    int64_t ranks = c->a->cluster.nodes * c->a->cluster.ranks_per_node;
    return ranks <= 16 ? MOST_PER_DECADE : ranks <= 64 ? 2 : 1;
}

static weft_status make_tables(curves *c) {
    weft_advice *advice = c->a->advice;
    weft_ctx *ctx = c->a->ctx;
    int n = c->n_rates = DECADES * per_decade(c) + 1;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(double), "rates", &advice->bandwidths));
    WEFT_TRY(wefti_alloc_n(ctx, c->n * n, sizeof(double), "curves", &advice->speedups));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(weft_range), "ranges", &advice->ranges));
    for (int i = 0; i < n; i++)
        advice->bandwidths[i] = least_Bps * pow(10, DECADES * (double)i / (n - 1));
    advice->n_bandwidths = n;
    advice->n_curves = c->a->options.rows > 0 ? 0 : c->n;
    return WEFT_OK;
}

/* The rates around those of which the answer tells: from the slow end of the wire on, to the wire
 * or, where more of it might change the answer, to the fastest. */
static void find_needed(curves *c) {
    const weft_advice *advice = c->a->advice;
    const double *rates = advice->bandwidths, now = advice->wire.bandwidth_Bps;
    bool alone = advice->choice < 0 || advice->candidates[advice->choice].nodes == 1;
    wefti_point ends[2];
    c->first = 0, c->last = c->n_rates - 1;
    if (c->a->options.rows <= 0) return;
    wefti_advise_ends(c->a, ends);
    double low = fmin(1, ends[0].wire) * now;
    while (c->first < c->last && rates[c->first + 1] <= low) c->first++;
    while (!alone && c->last > c->first && rates[c->last - 1] >= now) c->last--;
}

/* Task k: curve k on the cluster's own wire; the last one: one node alone. */
static weft_status find_now(weft_ctx *ctx, void *user, int64_t k) {
    curves *c = user;
    weft_prediction p = {.struct_size = sizeof p};
    if (k < c->n) return step_at(ctx, c, k, 0, &c->now_s[1 + k]);
    WEFT_TRY(wefti_advise_predict(ctx, c->a, &c->copies[0], 0, &p));
    c->now_s[0] = c->one_s = wefti_advise_cost(c->a, &c->copies[0], p.mean_step_s);
    put_alone(c, c->now_s);
    return WEFT_OK;
}

/* The choice among those on several nodes that cost less than every one on one node. */
static int64_t choose_together(const curves *c) {
    double cost_s[MAX_COPIES], alone_s = INFINITY;
    bool any = false;
    for (int64_t k = 0; k < c->n_copies; k++)
        if (c->copies[k].nodes == 1) alone_s = fmin(alone_s, c->now_s[k]);
    for (int64_t k = 0; k < c->n_copies; k++) {
        bool less = c->copies[k].nodes > 1 && c->now_s[k] < alone_s;
        cost_s[k] = less ? c->now_s[k] : INFINITY;
        any |= less;
    }
    int64_t k = any ? wefti_advise_choose(c->copies, cost_s, c->n_copies) : -1;
    return k >= 0 && cost_s[k] < INFINITY ? candidate_of(c, k) : -1;
}

/* The choice is made among one node and the best of each method. */
static weft_status choose(curves *c) {
    double cost_s[MAX_COPIES], limit_s = wefti_advise_limit(c->a->advice);
    WEFT_TRY(wefti_advise_each(c->a, c->n + 1, find_now, c));
    for (int64_t k = 0; k < c->n_copies; k++) /* those of a method are level, too */
        cost_s[k] = c->copies[k].cost_s > limit_s ? INFINITY : c->now_s[k];
    c->a->advice->choice = candidate_of(
        c, wefti_advise_choose(c->copies, cost_s, c->n_copies));
    c->a->advice->rival = candidate_of(
        c, wefti_advise_least(c->copies, c->now_s, c->n_copies));
    c->a->advice->together = choose_together(c);
    return WEFT_OK;
}

static weft_status fill(curves *c) {
    pick(c);
    WEFT_TRY(choose(c));
    if (c->n == 0) return WEFT_OK;
    WEFT_TRY(make_tables(c));
    find_needed(c);
    WEFT_TRY(wefti_advise_each(c->a, c->n, trace, c));
    if (c->a->options.rows <= 0) WEFT_TRY(wefti_advise_each(c->a, c->n, find_rates, c));
    return find_ranges(c);
}

weft_status wefti_advise_curves(wefti_adviser *a) {
    curves *c;
    WEFT_TRY(wefti_alloc(a->ctx, sizeof *c, "curves", &c));
    c->a = a;
    weft_status status = fill(c);
    wefti_free(a->ctx, c);
    return status;
}

/* The only curve of `user`, and where it crosses that of one node. */
static weft_status find_one(weft_ctx *ctx, void *user, int64_t i) {
    curves *c = user;
    (void)i;
    WEFT_TRY(find_now(ctx, c, c->n));
    WEFT_TRY(trace(ctx, c, 0));
    return find_break_even(ctx, c, 0);
}

weft_status wefti_advise_break_even(wefti_adviser *a) {
    const weft_advice *advice = a->advice;
    int64_t about = advice->headline;
    curves *c;
    if (a->options.rows <= 0 || advice->worth != WEFT_WORTH_MEASURE) return WEFT_OK;
    if (advice->candidates[about].curve < 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc(a->ctx, sizeof *c, "a curve", &c));
    c->a = a, c->of[0] = about, c->n = 1, c->n_copies = 2;
    c->copies[0] = advice->candidates[advice->baseline];
    c->n_rates = (int)advice->n_bandwidths, c->last = c->n_rates - 1;
    weft_status status = wefti_advise_each(a, 1, find_one, c);
    wefti_free(a->ctx, c);
    return status;
}
