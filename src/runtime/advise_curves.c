/* SPDX-License-Identifier: MIT */
/* The same candidates on slower and faster wires: speed-up over one node on a grid of
 * rates, and between two points of the grid, by bisection, where the order changes. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "runtime/advise.h"

/* From 1 Mbit/s to 100 Gbit/s. */
enum { PER_DECADE = 4, DECADES = 5, N_RATES = PER_DECADE * DECADES + 1, MAX_CURVES = 32 };
static const double least_Bps = 125e3;

/* Halvings of a quarter of a decade: to 0.5 %. */
enum { HALVINGS = 7 };

/* Slower by less counts as just as fast. */
static const double tie = 1.005;

typedef struct curves {
    wefti_adviser *a;
    int64_t of[MAX_CURVES]; /* candidates: the best of each method, in their order */
    int64_t n;
    double one_s; /* a step of one node alone */
    double step_s[MAX_CURVES][N_RATES];
    weft_candidate copies[MAX_CURVES + 1]; /* one node first, for the choice */
} curves;

static const weft_candidate *candidate(const curves *c, int64_t k) {
    return &c->a->advice->candidates[c->of[k]];
}

/* The best of each method that needs a wire. */
static void pick(curves *c) {
    const weft_advice *advice = c->a->advice;
    c->copies[0] = advice->candidates[advice->baseline];
    c->one_s = c->copies[0].prediction.mean_step_s;
    for (int64_t i = 0; i < advice->n_candidates && c->n < MAX_CURVES; i++) {
        const weft_candidate *one = &advice->candidates[i];
        bool is_new = one->usable && one->nodes > 1;
        for (int64_t k = 0; k < c->n; k++)
            is_new = is_new && strcmp(candidate(c, k)->method, one->method) != 0;
        if (!is_new) continue;
        advice->candidates[i].curve = c->n;
        c->copies[1 + c->n] = *one;
        c->of[c->n++] = i;
    }
}

static weft_status step_at(curves *c, int64_t k, double rate_Bps, double *step_s) {
    weft_prediction p;
    weft_status status = wefti_advise_predict(c->a, candidate(c, k), rate_Bps, &p);
    if (status != WEFT_OK) return wefti_advise_fail(c->a, status);
    *step_s = p.mean_step_s;
    return WEFT_OK;
}

static weft_status trace(curves *c) {
    weft_advice *advice = c->a->advice;
    for (int64_t k = 0; k < c->n; k++)
        for (int i = 0; i < N_RATES; i++) {
            WEFT_TRY(step_at(c, k, advice->bandwidths[i], &c->step_s[k][i]));
            advice->speedups[k * N_RATES + i] = c->one_s / c->step_s[k][i];
        }
    return WEFT_OK;
}

/* ---- where the order changes ---- */

/* Whether curve k is ahead of curve `other`, or of one node (-1), at a rate. */
static weft_status is_ahead(curves *c, int64_t k, int64_t other, double rate_Bps,
                            bool *ahead) {
    double mine_s = 0, other_s = c->one_s;
    WEFT_TRY(step_at(c, k, rate_Bps, &mine_s));
    if (other >= 0) WEFT_TRY(step_at(c, other, rate_Bps, &other_s));
    *ahead = other >= 0 ? mine_s * tie < other_s : mine_s < other_s;
    return WEFT_OK;
}

static bool was_ahead(const curves *c, int64_t k, int64_t other, int i) {
    double mine_s = c->step_s[k][i];
    return other >= 0 ? mine_s * tie < c->step_s[other][i] : mine_s < c->one_s;
}

/* Between two neighbours of the grid, of which one is ahead. */
static weft_status refine(curves *c, int64_t k, int64_t other, int i, double *rate_Bps) {
    const double *rates = c->a->advice->bandwidths;
    double low = rates[i], high = rates[i + 1];
    bool below = was_ahead(c, k, other, i), ahead = false;
    for (int h = 0; h < HALVINGS; h++) {
        double middle = sqrt(low * high);
        WEFT_TRY(is_ahead(c, k, other, middle, &ahead));
        *(ahead == below ? &low : &high) = middle;
    }
    *rate_Bps = sqrt(low * high);
    return WEFT_OK;
}

static weft_status find_break_even(curves *c, int64_t k) {
    weft_candidate *one = &c->a->advice->candidates[c->of[k]];
    int i = N_RATES - 1;
    while (i >= 0 && was_ahead(c, k, -1, i)) i--;
    one->break_even_Bps = i < 0 ? 0 : INFINITY;
    if (i < 0 || i == N_RATES - 1) return WEFT_OK;
    return refine(c, k, -1, i, &one->break_even_Bps);
}

static weft_status find_overtaken(curves *c, int64_t k) {
    const weft_advice *advice = c->a->advice;
    double now = advice->wire.bandwidth_Bps, nearest = INFINITY;
    int at = -1;
    if (k + 1 >= c->n) return WEFT_OK;
    for (int i = 0; i + 1 < N_RATES; i++) {
        double far = fabs(
            log(sqrt(advice->bandwidths[i] * advice->bandwidths[i + 1]) / now));
        bool changes = was_ahead(c, k, k + 1, i) != was_ahead(c, k, k + 1, i + 1);
        if (changes && far < nearest) at = i, nearest = far;
    }
    if (at < 0) return WEFT_OK;
    return refine(c, k, k + 1, at, &c->a->advice->candidates[c->of[k]].overtaken_Bps);
}

/* ---- which one would be chosen ---- */

static weft_status choice_at(curves *c, double rate_Bps, int64_t *choice) {
    double step_s[MAX_CURVES + 1] = {c->one_s};
    for (int64_t k = 0; k < c->n; k++) WEFT_TRY(step_at(c, k, rate_Bps, &step_s[1 + k]));
    *choice = wefti_advise_choose(c->copies, step_s, 1 + c->n);
    return WEFT_OK;
}

static int64_t choice_on_grid(const curves *c, int i) {
    double step_s[MAX_CURVES + 1] = {c->one_s};
    for (int64_t k = 0; k < c->n; k++) step_s[1 + k] = c->step_s[k][i];
    return wefti_advise_choose(c->copies, step_s, 1 + c->n);
}

/* From the choice at grid point i to another at i + 1. */
static weft_status find_change(curves *c, int i, double *rate_Bps) {
    const double *rates = c->a->advice->bandwidths;
    double low = rates[i], high = rates[i + 1];
    int64_t before = choice_on_grid(c, i), now = before;
    for (int h = 0; h < HALVINGS; h++) {
        double middle = sqrt(low * high);
        WEFT_TRY(choice_at(c, middle, &now));
        *(now == before ? &low : &high) = middle;
    }
    *rate_Bps = sqrt(low * high);
    return WEFT_OK;
}

static weft_status find_ranges(curves *c) {
    weft_advice *advice = c->a->advice;
    for (int i = 0; i < N_RATES; i++) {
        int64_t now = choice_on_grid(c, i);
        if (i > 0 && now == choice_on_grid(c, i - 1)) continue;
        weft_range *range = &advice->ranges[advice->n_ranges];
        int64_t index = now > 0 ? c->of[now - 1] : now == 0 ? advice->baseline : -1;
        *range = (weft_range){0, INFINITY, index};
        if (i > 0) WEFT_TRY(find_change(c, i - 1, &range->from_Bps));
        if (i > 0) range[-1].to_Bps = range->from_Bps;
        advice->n_ranges++;
    }
    return WEFT_OK;
}

/* ---- the whole ---- */

static weft_status make_tables(curves *c) {
    weft_advice *advice = c->a->advice;
    weft_ctx *ctx = c->a->ctx;
    WEFT_TRY(wefti_alloc_n(ctx, N_RATES, sizeof(double), "rates", &advice->bandwidths));
    WEFT_TRY(
        wefti_alloc_n(ctx, c->n * N_RATES, sizeof(double), "curves", &advice->speedups));
    WEFT_TRY(wefti_alloc_n(ctx, N_RATES, sizeof(weft_range), "ranges", &advice->ranges));
    for (int i = 0; i < N_RATES; i++)
        advice->bandwidths[i] = least_Bps * pow(10, (double)i / PER_DECADE);
    advice->n_bandwidths = N_RATES;
    advice->n_curves = c->n;
    return WEFT_OK;
}

static weft_status fill(curves *c) {
    pick(c);
    if (c->n == 0) return WEFT_OK;
    WEFT_TRY(make_tables(c));
    WEFT_TRY(trace(c));
    for (int64_t k = 0; k < c->n; k++) {
        WEFT_TRY(find_break_even(c, k));
        WEFT_TRY(find_overtaken(c, k));
    }
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
