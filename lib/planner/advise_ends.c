/* SPDX-License-Identifier: MIT */
/* What is plausible of each candidate: it is predicted at two ends of the facts.
 *
 *     low     the slowest wire with the fastest ranks: one node gains most, an exchange least
 *     high    the fastest wire with the slowest ranks
 *
 *     speed-up    [r_low / m, r_high m],  r = time of one node / time of the candidate at that end
 *     log^2 m     model^2 + learning^2    the errors that no fact explains
 *
 * Ends of the facts, relative to what was given. Nothing is faster than its label, so the
 * wire's are one-sided:
 *
 *     wire, typed     1/5 to 1      TCP, or not named: one stream or a few, another's traffic, a
 *                                   virtual machine's share. 1-bit Adam's paper measures 4.1 of
 *                                   40 Gbit/s and 9.4 of 10; cloud machines reach 0.3 to 1.
 *     wire, RDMA      1/1.5 to 1    published all-reduces reach 70 to 95 % of such labels
 *     wire, measured  1 +- 5 %, or the residual of the probe's fit; a stream: anchorwire.c
 *     floor           advise_floor.c; with steps on one node and on several, what lies between
 *                     "all of the excess is the wire's" and "it is a constant"
 *     hiding          ddp and the like, slow end, wires that carry at least half of what was
 *                     given: nothing of the exchange hides. Its kernels, its copies through
 *                     the host and the computing share one machine: of published pairs over
 *                     RDMA some hide all, some nothing. The fifth of a TCP label comes from
 *                     whole steps and has this in it, so that end is the slower of both
 *     ranks, typed    1 +- 30 %; data sheet: from the least to the most that is reported of it;
 *                     measured: as it is
 *
 * An answer is "yes" or "no" only if both ends agree. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "planner/advise.h"

static const double wire_spread = 0.05;
static const double typed_spread = 0.30, sheet_spread = 0.24;

/* Errors of the model. A closed form leaves out more than it counts twice, so a step is
 * rather longer. */
static const double watch = 0.02; /* of a step that somebody measured */
static const double model = 0.05, closed_slower = 0.15, closed_faster = 0.10;

/* What learns alike differs by what seeds do (advise_steps.c). */
static const double seeds = 0.05;

/* A wire of a shorter latency is RDMA: no kernel's TCP answers in less. */
static const double rdma_latency_s = 10e-6;

static bool is_measured(const wefti_adviser *a) {
    return a->options.wire == WEFT_KNOWN_MEASURED || a->cluster.wire.residual > 0;
}

/* The rate follows from measured steps, so it is no label, whatever the wire is named. */
static bool is_found(const wefti_adviser *a) {
    return a->advice && a->advice->inferred && a->advice->inferred->wire_Bps > 0;
}

bool wefti_advise_is_rdma(const wefti_adviser *a) {
    double latency_s = a->cluster.wire.latency_s;
    if (a->options.wire_low > 0) return a->options.wire_low >= 0.5;
    return a->cluster.sites <= 1 && latency_s > 0 && latency_s < rdma_latency_s;
}

static double wire_low(const wefti_adviser *a) {
    double spread = fmax(wire_spread, a->cluster.wire.residual);
    if (a->options.wire_low > 0 && !is_found(a)) return a->options.wire_low;
    if (is_measured(a)) return 1 / (1 + spread);
    if (a->options.wire == WEFT_KNOWN_SHEET) return 0.5;
    return wefti_advise_is_rdma(a) ? WEFT_RDMA_LOW : WEFT_TCP_LOW;
}

static double wire_high(const wefti_adviser *a) {
    if (a->options.wire_high > 0) return a->options.wire_high;
    if (is_measured(a)) return 1 + fmax(wire_spread, a->cluster.wire.residual);
    return a->options.wire == WEFT_KNOWN_SHEET ? 2 : 1;
}

/* Steps on several nodes have been explained; what else would explain them. */
static void anchored_ends(const weft_inference_of_facts *found, wefti_point out[2]) {
    if (found->fast_wire > 0) {
        out[0].wire = found->fast_wire, out[0].computing = found->fast_flops;
        out[1].wire = out[1].computing = 1;
    }
    if (found->constant_s <= 0 || found->all_constant <= 0) return;
    out[0].wire = found->all_wire;
    out[0].constant = found->all_constant > 1 ? 1e-9 : 1;
    out[1].wire = found->no_wire;
    out[1].constant = found->all_constant;
}

void wefti_advise_ends(const wefti_adviser *a, wefti_point out[2]) {
    const weft_advise_options *o = &a->options;
    bool units = a->cluster.n_units > 0 || a->cluster.n_steps > 0;
    double spread = units || o->computing == WEFT_KNOWN_MEASURED ? 0
                    : o->computing == WEFT_KNOWN_SHEET           ? sheet_spread
                                                                 : typed_spread;
    double low = o->computing_low > 0 ? o->computing_low : 1 / (1 + spread);
    double high = o->computing_high > 0 ? o->computing_high : 1 + spread;
    out[0] = (wefti_point){.wire = wire_low(a), .computing = high, .floor = 2};
    out[1] = (wefti_point){.wire = wire_high(a), .computing = low, .floor = 0.5};
    out[0].exposed = out[0].wire >= 0.5 && a->measured_nodes == 0;
    if (a->advice && a->advice->inferred) anchored_ends(a->advice->inferred, out);
}

/* ---- every candidate at both ends ---- */

typedef struct trial {
    wefti_adviser *a;
    wefti_point ends[2];
    double (*cost_s)[2]; /* [candidates] at both ends; NAN: not predicted */
    int64_t *todo;       /* [candidates] to be predicted next; the first n_todo */
    int64_t n_todo;
    bool *done; /* [candidates] is predicted, or about to be */
} trial;

static bool is_wanted(const wefti_adviser *a, const weft_candidate *c, int64_t i) {
    if (!wefti_advise_is_large(a)) return true;
    return c->nodes == 1 || c->curve >= 0 || i == a->advice->choice;
}

/* [out] where the slow end would be if the wire were RDMA. Whether that is another: no TCP is
 * surer than it. */
static bool is_never_surer(const wefti_adviser *a, const wefti_point *slow,
                           wefti_point *out) {
    *out = *slow;
    if (slow->exposed || a->measured_nodes > 0) return false;
    out->wire = WEFT_RDMA_LOW, out->exposed = true;
    return true;
}

/* Task k: a candidate at both ends. */
static weft_status predict_ends(weft_ctx *ctx, void *user, int64_t k) {
    trial *t = user;
    int64_t i = t->todo[k];
    const weft_candidate *c = &t->a->advice->candidates[i];
    double *cost_s = t->cost_s[i], step_s;
    weft_status status = WEFT_OK;
    wefti_adviser there = *t->a;
    wefti_advised_run run;
    cost_s[0] = cost_s[1] = NAN;
    if (!is_wanted(t->a, c, i)) return WEFT_OK;
    WEFT_TRY(wefti_advise_prepare(ctx, t->a, c, &run));
    for (int end = 0; end < 2 && status == WEFT_OK; end++) {
        there.at = t->ends[end];
        status = wefti_advise_step(ctx, &there, &run, 0, 0, &step_s);
        if (status == WEFT_OK) cost_s[end] = wefti_advise_cost(t->a, c, step_s);
    }
    if (status == WEFT_OK && c->framework[0] &&
        is_never_surer(t->a, &t->ends[0], &there.at)) {
        status = wefti_advise_step(ctx, &there, &run, 0, 0, &step_s);
        if (status == WEFT_OK)
            cost_s[0] = fmax(cost_s[0], wefti_advise_cost(t->a, c, step_s));
    }
    wefti_advise_unprepare(ctx, &run);
    return status;
}

/* ---- one candidate's range ---- */

/* The candidate on one node with the optimizer of candidate c. */
static int64_t peer_of(const wefti_adviser *a, const weft_candidate *c) {
    const weft_advice *advice = a->advice;
    bool muon = wefti_advise_has_muon(a, c), own = a->own && a->own->muon;
    for (int64_t i = 0; i < advice->n_candidates && muon && !own; i++) {
        const weft_candidate *one = &advice->candidates[i];
        if (one->nodes == 1 && !one->framework[0] && wefti_advise_has_muon(a, one))
            return i;
    }
    return advice->baseline;
}

/* Error of the steps of c relative to those of its peer. */
static double learning_error(const weft_candidate *c, const weft_candidate *peer) {
    bool averaged = c->learning.measured && c->learning.per_doubling_error <= 0;
    if (!c->learning.changes[0]) return 0;
    if (averaged && peer->learning.changes[0]) return seeds;
    return c->steps_error;
}

typedef struct margins {
    double slower, faster; /* of the ratio of two times, as logarithms */
} margins;

/* Adds to `out` what the facts leave of each measured step of candidate c's method: where several
 * steps contradict each other, no facts explain all. With `nodes`, only those on as many nodes.
 * Whether there is one. */
static bool is_anchored(const wefti_adviser *a, const weft_candidate *c, bool nodes,
                        margins *out) {
    bool any = false;
    for (int i = 0; i < a->options.n_measured; i++) {
        const weft_measurement *m = &a->options.measured[i];
        const char *name = c->framework[0] ? c->framework : c->name;
        bool same = strcmp(m->method[0] ? m->method : "full sync", name) == 0;
        if (!same || m->nodes < 2 || (nodes && m->nodes != c->nodes)) continue;
        double more = m->predicted_s > 0 ? log(m->seconds / m->predicted_s) : 0;
        out->slower = fmax(out->slower, more);
        out->faster = fmax(out->faster, -more);
        any = true;
    }
    return any;
}

static margins margins_of(const wefti_adviser *a, const weft_candidate *c,
                          double learning) {
    margins here = {watch, watch}, all = {model, model};
    if (c->nodes == 1) return (margins){learning, learning};
    if (is_anchored(a, c, true, &here))
        return (margins){fmax(learning, here.slower), fmax(learning, here.faster)};
    if (!is_anchored(a, c, false, &all) && c->framework[0])
        all = (margins){closed_slower, closed_faster};
    return (margins){hypot(learning, all.slower), hypot(learning, all.faster)};
}

/* What n nodes gain at most, if they compute as one does: the model's error makes nothing faster.
 * Less of other work, such as computing activations twice, is in the prediction itself; a step that
 * was measured may show more. */
static double linear(const trial *t, const weft_candidate *of, const weft_candidate *c,
                     double learning) {
    margins any = {0, 0};
    if (c->nodes == 1 || is_anchored(t->a, c, false, &any)) return INFINITY;
    return (double)c->nodes * of->steps / c->steps * exp(learning);
}

/* The range of the ratio of two candidates' costs: `of` over `c`. */
static void range_of(const trial *t, int64_t of, int64_t c, double learning,
                     double out[3]) {
    const weft_candidate *all = t->a->advice->candidates;
    margins m = margins_of(t->a, &all[c], learning);
    double now = all[of].cost_s / all[c].cost_s;
    double low = t->cost_s[of][0] / t->cost_s[c][0];
    double high = t->cost_s[of][1] / t->cost_s[c][1], most = fmax(fmax(low, high), now);
    out[0] = now;
    out[1] = of == c || isnan(low) ? low : fmin(fmin(low, high), now) * exp(-m.slower);
    out[2] = of == c || isnan(low)
                 ? high
                 : fmax(most, fmin(most * exp(m.faster),
                                   linear(t, &all[of], &all[c], learning)));
}

/* The largest of what widens a range: facts of computing, of the wire, learning, model. */
static weft_doubt doubt_of(const trial *t, const weft_candidate *c, double learning,
                           double low, double high) {
    double facts = log(high / low) - margins_of(t->a, c, learning).slower -
                   margins_of(t->a, c, learning).faster;
    double computing = log(t->ends[0].computing / t->ends[1].computing);
    double wire = log(t->ends[1].wire / t->ends[0].wire);
    if (2 * learning >= facts && learning >= model) return WEFT_DOUBT_LEARNING;
    if (facts <= 2 * model) return WEFT_DOUBT_MODEL;
    return wire >= computing ? WEFT_DOUBT_WIRE : WEFT_DOUBT_COMPUTING;
}

/* A gain that no second machine is worth. */
static const double nothing = 1.02;

static weft_worth worth_of(const weft_candidate *c, double low, double high) {
    if (c->nodes == 1 || high <= nothing) return WEFT_WORTH_NO;
    return low > 1 ? WEFT_WORTH_YES : WEFT_WORTH_MEASURE;
}

static void look(const trial *t, int64_t i) {
    weft_advice *advice = t->a->advice;
    weft_candidate *c = &advice->candidates[i];
    weft_outlook *out = &advice->outlooks[i];
    double r[3];
    out->peer = peer_of(t->a, c);
    const weft_candidate *peer = &advice->candidates[out->peer];
    double learning = learning_error(c, peer);
    range_of(t, advice->baseline, i, c->steps_error, r);
    out->low = r[1], out->high = r[2];
    range_of(t, out->peer, i, learning, r);
    out->alone = r[0], out->alone_low = r[1], out->alone_high = r[2];
    range_of(t, advice->baseline, out->peer, peer->steps_error, r);
    out->optimizer = r[0], out->optimizer_low = r[1], out->optimizer_high = r[2];
    if (isnan(out->low)) { /* predicted at no end: the error of the shares */
        out->low = c->speedup / (1 + c->error), out->high = c->speedup * (1 + c->error);
        out->alone_low = out->alone / (1 + c->error);
        out->alone_high = out->alone * (1 + c->error);
    }
    c->error = c->nodes > 1 && out->high > out->low ? log(out->high / out->low) / 2
                                                    : c->error;
    out->worth = worth_of(c, out->alone_low, out->alone_high);
    out->doubt = doubt_of(t, c, learning, out->alone_low, out->alone_high);
}

/* ---- the answer ---- */

static bool is_known(const weft_candidate *c) {
    return c->usable && c->nodes > 1 && c->learning.measured && wefti_advise_reaches(c);
}

/* Whether candidate i is rather what the answer is about: "no" is an answer only if it is that of
 * all methods, "measure first" only if none certainly pays. */
static bool is_rather(const weft_advice *advice, int64_t i, int64_t best) {
    if (best < 0) return true;
    const weft_outlook *mine = &advice->outlooks[i], *other = &advice->outlooks[best];
    static const int order[] = {
        [WEFT_WORTH_NO] = 0, [WEFT_WORTH_MEASURE] = 1, [WEFT_WORTH_YES] = 2};
    int more = order[mine->worth] - order[other->worth];
    return more != 0 ? more > 0 : mine->alone > other->alone;
}

/* What the answer is about: the choice, or the best on several nodes. */
static int64_t headline_of(const weft_advice *advice) {
    int64_t best = -1;
    if (advice->choice >= 0 && advice->candidates[advice->choice].nodes > 1)
        return advice->choice;
    for (int64_t i = 0; i < advice->n_candidates; i++)
        if (is_known(&advice->candidates[i]) && is_rather(advice, i, best)) best = i;
    return best;
}

/* What one node can not do at all is worth a second one. */
static weft_worth answer_of(const weft_advice *advice) {
    if (advice->headline < 0) return WEFT_WORTH_NO;
    const weft_outlook *out = &advice->outlooks[advice->headline];
    return advice->candidates[out->peer].usable ? out->worth : WEFT_WORTH_YES;
}

/* Where the answer would be "measure first": the fastest one that pays at its slow end and is
 * faster than all on one node, if there is one. What a better fact makes of it is no doubt. */
static void settle(weft_advice *advice) {
    if (advice->worth != WEFT_WORTH_MEASURE) return;
    double alone_s = INFINITY;
    int64_t best = -1;
    for (int64_t i = 0; i < advice->n_candidates; i++)
        if (advice->candidates[i].nodes == 1 && advice->candidates[i].usable)
            alone_s = fmin(alone_s, advice->candidates[i].cost_s);
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        const weft_candidate *c = &advice->candidates[i];
        const weft_outlook *out = &advice->outlooks[i];
        if (!is_known(c) || out->worth != WEFT_WORTH_YES) continue;
        if (c->cost_s >= alone_s) continue;
        if (best < 0 || c->cost_s < advice->candidates[best].cost_s) best = i;
    }
    if (best < 0) return;
    advice->choice = advice->headline = best;
    advice->worth = WEFT_WORTH_YES;
}

/* Whether candidate i may take the choice's place: it costs at most 5 % more than the fastest and
 * is at least 5 % faster at its slow end, learns no less like one machine and needs no more
 * nodes. */
static bool is_surer(const weft_advice *advice, int64_t i) {
    const weft_candidate *c = &advice->candidates[i],
                         *now = &advice->candidates[advice->choice];
    const weft_outlook *out = &advice->outlooks[i];
    if (!is_known(c) || out->worth != WEFT_WORTH_YES || c->nodes > now->nodes)
        return false;
    if (c->learning.changes[0] && !now->learning.changes[0]) return false;
    return c->cost_s <= fmax(now->cost_s, wefti_advise_limit(advice)) &&
           log(out->low / advice->outlooks[advice->choice].low) >= model;
}

/* Of these, the fastest in the middle between its prediction and its slow end. */
static void prefer_sure(weft_advice *advice) {
    int64_t best = -1;
    double most = 0;
    if (advice->worth != WEFT_WORTH_YES || advice->choice != advice->headline) return;
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        double middle = sqrt(advice->candidates[i].speedup * advice->outlooks[i].low);
        if (is_surer(advice, i) && middle > most) best = i, most = middle;
    }
    if (best >= 0) advice->choice = advice->headline = best;
}

void wefti_advise_decide(weft_advice *advice) {
    advice->headline = headline_of(advice);
    advice->worth = answer_of(advice);
    settle(advice);
    if (advice->headline >= 0) prefer_sure(advice);
}

/* ---- which of them ---- */

static void want(trial *t, int64_t i) {
    if (i >= 0 && !t->done[i]) t->todo[t->n_todo++] = i, t->done[i] = true;
}

/* Predicts what is wanted. */
static weft_status play(trial *t) {
    int64_t n = t->n_todo;
    if (n == 0) return WEFT_OK;
    t->n_todo = 0;
    WEFT_TRY(wefti_advise_each(t->a, n, predict_ends, t));
    for (int64_t k = 0; k < n; k++) look(t, t->todo[k]);
    return WEFT_OK;
}

static weft_status play_all(trial *t) {
    for (int64_t i = 0; i < t->a->advice->n_candidates; i++) want(t, i);
    return play(t);
}

/* What the answer tells of in any case, and what takes no play. */
static weft_status play_told(trial *t) {
    const weft_advice *advice = t->a->advice;
    want(t, advice->choice);
    want(t, advice->rival);
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        const weft_candidate *c = &advice->candidates[i];
        if (c->nodes == 1 || c->own || c->framework[0] || !is_wanted(t->a, c, i))
            want(t, i);
    }
    return play(t);
}

/* The least costly candidate that is not predicted yet and may be chosen; -1: none. */
static int64_t next_of(const trial *t) {
    const weft_advice *advice = t->a->advice;
    int64_t best = -1;
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        const weft_candidate *c = &advice->candidates[i];
        if (!t->done[i] && is_known(c) &&
            (best < 0 || c->cost_s < advice->candidates[best].cost_s))
            best = i;
    }
    return best;
}

/* Whether one that costs less certainly pays. */
static bool any_pays(const trial *t, double cost_s) {
    const weft_advice *advice = t->a->advice;
    for (int64_t i = 0; i < advice->n_candidates; i++)
        if (t->done[i] && is_known(&advice->candidates[i]) &&
            advice->outlooks[i].worth == WEFT_WORTH_YES &&
            advice->candidates[i].cost_s < cost_s)
            return true;
    return false;
}

/* All that costs no more than the fastest one that certainly pays, and all that is level with the
 * fastest: who is chosen is among these (settle, prefer_sure), if there is such a one. */
static weft_status play_cheapest(trial *t) {
    enum { TOGETHER = 8 };
    const weft_candidate *all = t->a->advice->candidates;
    double limit_s = fmax(wefti_advise_limit(t->a->advice),
                          all[t->a->advice->choice].cost_s);
    for (int64_t next; (next = next_of(t)) >= 0;) {
        double from_s = all[next].cost_s;
        if (from_s > limit_s && any_pays(t, from_s)) return WEFT_OK;
        for (int n = 0; n < TOGETHER && (next = next_of(t)) >= 0; n++) want(t, next);
        WEFT_TRY(play(t));
    }
    return WEFT_OK;
}

/* The first rows beside those that are shown anyway. */
static weft_status play_rows(trial *t) {
    const weft_advice *advice = t->a->advice;
    int64_t rows = t->a->options.rows;
    for (int64_t i = 0; i < advice->n_candidates && rows > 0; i++) {
        const weft_candidate *c = &advice->candidates[i];
        bool shown = i == advice->choice || i == advice->rival || i == advice->headline;
        if (c->curve < 0 || shown || c->own || c->framework[0]) continue;
        want(t, i);
        rows--;
    }
    return play(t);
}

/* Only what the answer needs. "No" and "measure first" are answers of all candidates. */
static weft_status play_few(trial *t) {
    weft_advice *advice = t->a->advice;
    bool alone = advice->choice < 0 || advice->candidates[advice->choice].nodes == 1;
    WEFT_TRY(play_told(t));
    if (!alone) WEFT_TRY(play_cheapest(t));
    if (!alone) wefti_advise_decide(advice);
    if (alone || advice->worth != WEFT_WORTH_YES) return play_all(t);
    WEFT_TRY(play_rows(t));
    for (int64_t i = 0; i < advice->n_candidates; i++) {
        if (t->done[i]) continue;
        t->cost_s[i][0] = t->cost_s[i][1] = NAN;
        look(t, i);
    }
    return WEFT_OK;
}

static weft_status find_outlooks(trial *t) {
    weft_advice *advice = t->a->advice;
    int64_t choice = advice->choice;
    WEFT_TRY(t->a->options.rows > 0 ? play_few(t) : play_all(t));
    advice->choice = choice;
    wefti_advise_decide(advice);
    return WEFT_OK;
}

weft_status wefti_advise_outlook(wefti_adviser *a) {
    weft_advice *advice = a->advice;
    int64_t n = advice->n_candidates;
    trial t = {.a = a};
    wefti_advise_ends(a, t.ends);
    WEFT_TRY(wefti_alloc_n(a->ctx, n, sizeof *advice->outlooks, "outlooks",
                           &advice->outlooks));
    weft_status status = wefti_alloc_n(a->ctx, n, sizeof *t.cost_s, "ends", &t.cost_s);
    if (status == WEFT_OK)
        status = wefti_alloc_n(a->ctx, n, sizeof *t.todo, "ends", &t.todo);
    if (status == WEFT_OK)
        status = wefti_alloc_n(a->ctx, n, sizeof *t.done, "ends", &t.done);
    if (status == WEFT_OK) status = find_outlooks(&t);
    WEFTI_FREE(a->ctx, t.cost_s, t.todo, t.done);
    return status;
}
