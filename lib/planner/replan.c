/* SPDX-License-Identifier: MIT */
/* The choice of method=auto, kept true:
 *
 *     a period's wait, beside the usual one -> drift (base/stats.h)
 *         -> which wire explains the step -> forms on that wire (replan_forms.c) -> wish
 *
 * A period is a step or, with outer steps, all from one to the next. Its wait is what its last
 * step took beyond the computing of the slowest rank and beyond the waits of the steps before,
 * which exchange nothing, spread over the period; and a twentieth of computing, below which
 * no difference counts. A plan is made when the usual wait is known: first, after a drift of it or
 * of computing, and in each world. A wait that is shorter than usual is believed sooner than a
 * longer one: bytes can not be faster than the wire. A process that takes over from a lost one has
 * not seen the steps before, in which the wire may have become another one: the first step tells
 * it. Steps that tell a wire of which nothing is known, or that has become another one, are fewer
 * where they wait long; before the first exchange of a run the plan is made on the rate at which
 * the parameters came to all. */
#include "planner/replan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/stats.h"
#include "cluster/facts.h"
#include "planner/advise.h"

/* Periods that say what is usual: of a step each; after a drift; of a run that began before
 * anything was measured, and looks again after CALM more; of outer steps; and bounds. */
enum {
    CALM = WEFTI_CALM,
    CALM_AGAIN = 8,
    CALM_FIRST = 4,
    CALM_OUTER = 3,
    CALM_FASTER = 1
};
enum { LIMIT_TEXT = 128 };
static const double bound = 6, bound_outer = 2;
static const double floor_share = 0.05;
static const double surely = 1.2; /* that one node is faster: the error of a step */
static const double least_share =
    0.01;                              /* of a first step, that others compute at least */
static const double fast_Bps = 1.25e9; /* where nothing was measured, and nothing waits */
/* Twice the error of a predicted step, which on the same wire is rare. bench/replan has the same
 * table from 0.2 to 5: a drift tells another wire before this does. */
static const double known_error = 0.4;
/* With a limit of what is sent, which changes all the time. */
static const double look_again_s = 600;

struct wefti_replan {
    weft_cluster *cluster; /* owned; NULL: nothing was measured, and no step was seen */
    double loss;
    double since_s; /* of steps, since the last plan with a limit of what is sent */
    bool busy;      /* the hours of that plan */
    bool exceeds;   /* what it took sends too much */
    int64_t step, steps_left; /* the last one that was seen; what is left behind it */
    bool late; /* many before it were not: cluster and wire are of another time */
    double fastest_Bps; /* of the wire as it was measured first; where any would do */
    const void *world;  /* of which `drift` is: another one begins anew */
    wefti_form form;    /* likewise */
    wefti_drift drift, pace; /* of a period's wait; of each step's computing */
    double took_s, computed_s,
        last_s; /* in this period so far, and the last wait of it */
    int64_t n;
    /* Of a step, in the periods that say what is usual. */
    double steps_s[CALM], computes_s[CALM], idles_s[CALM];
    bool drifted;
    double
        usual_s; /* computing of a step, when the cluster was fitted to it; 0: not yet */
    double bias[2];    /* as in wefti_situation; 0: not measured */
    bool trial;        /* the form was chosen in a first step on the wire alone, */
    wefti_form before; /* in place of this one */
    wefti_replan_wish wish;
};

weft_status wefti_replan_create(weft_ctx *ctx, weft_cluster *cluster, double loss,
                                wefti_replan **out) {
    weft_status status = wefti_alloc(ctx, sizeof **out, "the choice", out);
    if (status != WEFT_OK) {
        weft_cluster_destroy(ctx, cluster);
        return status;
    }
    (*out)->cluster = cluster;
    (*out)->fastest_Bps = fast_Bps;
    (*out)->loss = loss;
    if (!cluster) return WEFT_OK;
    cluster->n_pairs = 0; /* one rate for all: that of the slowest, which all wait for */
    cluster->wire.up_Bps = 0;
    (*out)->fastest_Bps = cluster->wire.bandwidth_Bps;
    return WEFT_OK;
}

void wefti_replan_destroy(weft_ctx *ctx, wefti_replan *r) {
    if (!r) return;
    weft_cluster_destroy(ctx, r->cluster);
    wefti_free(ctx, r);
}

/* ---- what is measured ---- */

static void begin_period(wefti_replan *r) {
    r->took_s = r->computed_s = r->last_s = 0;
    r->n = 0;
}

/* Of a run that began before anything was measured no plan was made yet. */
static bool is_first(const wefti_replan *r, const wefti_replan_step *s) {
    return !r->cluster && s->step <= CALM;
}

/* `drifted`: the sign of the drift; 0 in another world. */
static void begin_anew(wefti_replan *r, const wefti_replan_step *s, int drifted) {
    int calm = drifted ? CALM_AGAIN : is_first(r, s) ? CALM_FIRST : CALM;
    if (s->now.outer) calm = drifted < 0 ? CALM_FASTER : CALM_OUTER;
    wefti_drift_begin(&r->drift, calm, s->now.outer ? bound_outer : bound);
    wefti_drift_begin(&r->pace, CALM, bound);
    r->world = s->world;
    r->form = s->now;
    r->drifted = drifted != 0;
    begin_period(r);
}

/* What a step waits in the period that has ended where nothing is exchanged. */
static double idle_of(const wefti_replan *r) {
    double before_s = r->took_s - r->computed_s - r->last_s;
    return r->n > 1 ? fmax(0, before_s / (double)(r->n - 1)) : 0;
}

static double middle(const double *values, int n) {
    double sorted[CALM];
    memcpy(sorted, values, (size_t)n * sizeof *values);
    return wefti_median(sorted, n);
}

/* Whether periods of this length that are to tell the wire, two of them or more, have waited long
 * enough for that, the last one with them; each counts as the shortest, so that no stall is the
 * wire. */
static bool suffice(const wefti_replan *r, double measure_s, int64_t period) {
    double least_s = INFINITY;
    int n = r->drift.n + 1;
    for (int i = 0; i < n; i++)
        least_s = fmin(least_s, r->steps_s[i] - r->computes_s[i] - r->idles_s[i]);
    return (r->late || r->drifted) && measure_s > 0 && n > 1 &&
           n * least_s * (double)period > measure_s;
}

/* Adds a step. Whether what is usual is known with it. */
static bool note(wefti_replan *r, const wefti_replan_step *s) {
    int64_t period = s->now.outer ? s->now.every : 1;
    r->took_s += s->computing_s + s->wait_s;
    r->computed_s += s->computing_s;
    r->last_s = s->wait_s;
    r->n++;
    if (wefti_drift_add(&r->pace, s->computing_s)) {
        begin_anew(r, s, 0);
        return false;
    }
    if (s->step % period != 0) return false;
    bool whole = r->n == period, knew = r->drift.usual > 0;
    double step_s = r->took_s / (double)r->n, computing_s = r->computed_s / (double)r->n;
    double idle_s = idle_of(r), last_s = fmax(0, r->last_s - idle_s) / (double)r->n;
    begin_period(r);
    if (!whole) return false; /* the first one began in its middle */
    if (r->drift.n < r->drift.calm) {
        r->steps_s[r->drift.n] = step_s;
        r->computes_s[r->drift.n] = computing_s;
        r->idles_s[r->drift.n] = idle_s;
        if (suffice(r, s->measure_s, period)) r->drift.calm = r->drift.n + 1;
    }
    int drift = wefti_drift_add(&r->drift, last_s + floor_share * computing_s);
    if (drift) begin_anew(r, s, drift);
    return !knew && r->drift.usual > 0;
}

/* ---- the plan is made ---- */

/* Machines and a wire of which nothing is known: the steps tell both. */
static weft_status guess(weft_ctx *ctx, const weft_config *config, weft_cluster **out) {
    WEFT_TRY(weft_cluster_create(ctx, out));
    (*out)->nodes = config->mesh.nodes;
    (*out)->ranks_per_node = config->mesh.ranks_per_node;
    (*out)->rank_flops = 1e9; /* so little that nothing else shows beside it */
    (*out)->wire = (weft_link_facts){.bandwidth_Bps = fast_Bps, .latency_s = 1e-3};
    return WEFT_OK;
}

/* The cluster computes as was measured last. */
static weft_status fit_computing(weft_ctx *ctx, wefti_replan *r,
                                 const wefti_situation *s) {
    if (r->late && !s->loop) WEFT_TRY(wefti_computing_predict(ctx, s, &r->usual_s));
    double now_s = middle(r->computes_s, r->drift.n), ratio = now_s / r->usual_s;
    bool fits = r->usual_s > 0 && ratio < 1.2 && ratio > 1 / 1.2;
    if (!(now_s > 0)) return WEFT_OK;
    if (r->usual_s > 0 && !fits) wefti_cluster_slow(r->cluster, ratio);
    if (!fits) r->usual_s = now_s;
    return WEFT_OK;
}

/* "20 MB may be sent in a day from now on"; "": all. */
static const char *limit_text(const wefti_replan *r, const wefti_situation *s,
                              char out[LIMIT_TEXT]) {
    char most[32], rate[32];
    double left_s = fmin(s->step_s * (double)s->steps_left, 86400);
    const char *when = left_s < 86400 ? "until the run ends" : "in a day from now on";
    const char *text = wefti_format_bytes(s->most_Bps * left_s, most, sizeof most);
    if (r->busy) {
        when = "in these busy hours";
        text = wefti_rate_text(s->most_Bps, most, sizeof most);
    }
    out[0] = '\0';
    if (!(s->most_Bps > 0)) return out;
    int n = snprintf(out, LIMIT_TEXT, "%s may be sent %s", text, when);
    if (r->wish.outlook.exceeds)
        snprintf(out + n, LIMIT_TEXT - (size_t)n, ", and this form sends least, %s",
                 wefti_rate_text(r->wish.outlook.Bps, rate, sizeof rate));
    return out;
}

/* A form that sends least needs no change, and is told of once. */
static void tell_excess(weft_ctx *ctx, wefti_replan *r, const wefti_situation *s) {
    char name[WEFTI_FORM_TEXT], limit[LIMIT_TEXT];
    bool exceeds = r->wish.outlook.exceeds;
    if (exceeds && !r->exceeds && !r->wish.wants)
        weft_ctx_log(ctx, WEFT_LOG_WARN, "method=auto stays with %s: %s",
                     wefti_form_name(&s->now, name), limit_text(r, s, limit));
    r->exceeds = exceeds;
}

/* usual_s: of a step, as it was expected; 0: it was not. `foreseen`: the step is predicted. */
static void put_why(wefti_replan *r, const wefti_situation *s, double usual_s,
                    bool foreseen) {
    char a[WEFTI_FORM_TEXT], b[WEFTI_FORM_TEXT], now[24], then[24], usual[24], rate[32];
    char expected[64] = "", limit[LIMIT_TEXT];
    const wefti_outlook *o = &r->wish.outlook;
    if (usual_s > 0)
        snprintf(expected, sizeof expected, ", %s were expected",
                 wefti_seconds_text(usual_s, usual, sizeof usual));
    snprintf(
        r->wish.why, sizeof r->wish.why,
        "%s instead of %s: a step %s %s%s, %s a wire of %s%s%s; "
        "now %s a step are expected, and the rest of the run %.2g times as fast (%.2g to "
        "%.2g)",
        wefti_form_name(&o->form, a), wefti_form_name(&s->now, b),
        foreseen ? "would take" : "takes", wefti_seconds_text(s->step_s, now, sizeof now),
        expected, foreseen ? "on" : "as on",
        wefti_rate_text(s->cluster->wire.bandwidth_Bps, rate, sizeof rate),
        s->most_Bps > 0 ? "; " : "", limit_text(r, s, limit),
        wefti_seconds_text(o->step_s, then, sizeof then), o->gain, o->low, o->high);
}

/* Whether a form that was just begun waits less than half as long as on the wire by which it was
 * chosen: that wire is no more, for bytes can not be faster than it. */
static bool is_faster(const wefti_replan *r, const wefti_situation *s,
                      double expected_s) {
    double least_s = floor_share * r->usual_s;
    double wait_s = fmax(0, s->step_s - s->idle_s - r->usual_s) + least_s;
    double other_s = fmax(0, expected_s - s->idle_s - r->usual_s) + least_s;
    bool begun = !(r->bias[s->now.outer] > 0) && r->bias[!s->now.outer] > 0;
    return begun && 2 * wait_s < other_s;
}

/* What a step of this form costs where the wire is known tells how far predictions are off; where
 * it has drifted, or a form that was measured before is far from that, the step tells the wire. */
static weft_status find_wire(weft_ctx *ctx, wefti_replan *r, wefti_situation *s,
                             double *expected_s) {
    double Bps = 0, *bias = &r->bias[s->now.outer];
    WEFT_TRY(wefti_form_predict(ctx, s, &s->now, expected_s));
    double off = fmax(s->step_s - s->idle_s, 1e-3 * s->step_s) /
                 (*expected_s - s->idle_s);
    bool other = r->drifted || r->late || (*bias > 0 && fabs(log(off)) > known_error) ||
                 is_faster(r, s, *expected_s);
    if (!other) *bias = s->bias[s->now.outer] = (*bias > 0 ? *bias : 1) * off;
    wefti_situation least = *s; /* a smaller difference does not count */
    least.step_s -= floor_share * r->usual_s;
    if (other) WEFT_TRY(wefti_wire_of_step(ctx, &least, &Bps));
    if (other) r->cluster->wire.bandwidth_Bps = Bps > 0 ? Bps : r->fastest_Bps;
    r->late = false;
    return WEFT_OK;
}

static wefti_situation situation_of(const wefti_replan *r,
                                    const wefti_replan_step *step) {
    return (wefti_situation){.config = step->config,
                             .cluster = r->cluster,
                             .loop = step->loop,
                             .averages = step->averages,
                             .now = step->now,
                             .steps_left = step->steps_left,
                             .parameters = step->parameters,
                             .loss = r->loss,
                             .state_bytes = step->state_bytes,
                             .bias = {r->bias[0], r->bias[1]}};
}

/* How many times as fast as the best form one node by itself is, which computes the rows of all;
 * 0: not surely. */
static double alone_of(const wefti_situation *s, const wefti_outlook *best) {
    if (!s->loop || !(s->loop->step_s > 0)) return 0;
    double alone_s = (double)s->config->mesh.nodes * s->loop->step_s;
    double times = best->step_s * wefti_form_steps(s, &best->form) / alone_s;
    return times > surely ? times : 0;
}

/* What is best now that the wire is known, for steps as long as s->step_s. */
static weft_status choose(weft_ctx *ctx, wefti_replan *r, const wefti_situation *s) {
    wefti_replan_wish *wish = &r->wish;
    WEFT_TRY(wefti_plan_forms(ctx, s, &wish->outlook));
    wish->form = wish->outlook.form;
    wish->wants = !wefti_form_same(&wish->form, &s->now);
    wish->was_s = s->step_s;
    wish->Bps = r->cluster->wire.bandwidth_Bps;
    wish->alone = alone_of(s, &wish->outlook);
    return WEFT_OK;
}

static void limit(wefti_replan *r, wefti_situation *s, const wefti_replan_step *step) {
    const wefti_budget *b = step->budget;
    double left_s = s->step_s * (double)s->steps_left;
    s->most_Bps = b ? wefti_budget_Bps(b, left_s, step->day_s) : 0;
    s->budget = b;
    s->day_s = step->day_s;
    r->busy = b && wefti_budget_is_busy(b, step->day_s);
}

static weft_status plan(weft_ctx *ctx, wefti_replan *r, const wefti_replan_step *step) {
    double expected_s;
    bool knew = r->cluster && !r->late;
    if (!r->cluster) WEFT_TRY(guess(ctx, step->config, &r->cluster));
    wefti_situation s = situation_of(r, step);
    s.step_s = middle(r->steps_s, r->drift.n);
    s.idle_s = middle(r->idles_s, r->drift.n);
    WEFT_TRY(fit_computing(ctx, r, &s));
    if (s.loop) s.loop->step_s = r->usual_s;
    r->wish.wants = false;
    limit(r, &s, step);
    WEFT_TRY(find_wire(ctx, r, &s, &expected_s));
    WEFT_TRY(choose(ctx, r, &s));
    if (r->wish.wants) put_why(r, &s, knew ? expected_s : 0, false);
    tell_excess(ctx, r, &s);
    return WEFT_OK;
}

weft_status wefti_replan_add(weft_ctx *ctx, wefti_replan *r, const wefti_replan_step *s) {
    if (!r->cluster || s->step > r->step + CALM) r->late = true;
    r->step = s->step;
    r->steps_left = s->steps_left;
    if (r->world != s->world || !wefti_form_same(&r->form, &s->now)) begin_anew(r, s, 0);
    r->since_s += s->computing_s + s->wait_s;
    bool limited = s->budget && s->budget->per_day > 0 && r->since_s >= look_again_s;
    bool turned = s->budget && wefti_budget_is_busy(s->budget, s->day_s) != r->busy;
    if (!note(r, s) && !((limited || turned) && r->drift.usual > 0)) return WEFT_OK;
    bool first = is_first(r, s); /* the plan makes a cluster */
    r->since_s = 0;
    WEFT_TRY(plan(ctx, r, s));
    if (!first) return WEFT_OK;
    begin_anew(r, s, 0);
    r->late = true; /* and the wire again */
    return WEFT_OK;
}

/* Whether the four steps that would measure the wire wait longer than may be waited, if they
 * compute so long. Predicts such a step. */
static weft_status takes_too_long(weft_ctx *ctx, const wefti_replan_step *step,
                                  double computing_s, wefti_situation *s,
                                  bool *too_long) {
    s->loop->step_s = computing_s;
    WEFT_TRY(wefti_form_predict(ctx, s, &s->now, &s->step_s));
    double wait_s = CALM_FIRST * (s->step_s - computing_s);
    *too_long = step->measure_s > 0 && wait_s > step->measure_s;
    return WEFT_OK;
}

/* Whether the wire alone tells what the first step's computing does not. */
static weft_status choose_codes(weft_ctx *ctx, wefti_replan *r,
                                const wefti_replan_step *step, wefti_situation *s) {
    bool too_long;
    s->averages = true;
    WEFT_TRY(takes_too_long(ctx, step, least_share * step->computing_s, s, &too_long));
    if (!step->first || !too_long || s->step_s > step->computing_s) return WEFT_OK;
    limit(r, s, step);
    WEFT_TRY(choose(ctx, r, s));
    r->trial = r->wish.wants;
    r->wish.alone = 0; /* by nobody's computing */
    r->before = step->now;
    return WEFT_OK;
}

/* r->cluster is a guess; what r was stays, but for what a plan that wants something has found. */
static weft_status foresee(weft_ctx *ctx, wefti_replan *r,
                           const wefti_replan_step *step) {
    bool too_long, tried = r->trial;
    wefti_situation s = situation_of(r, step);
    if (tried) s.now = r->before;
    r->trial = r->wish.wants = false;
    WEFT_TRY(takes_too_long(ctx, step, step->computing_s, &s, &too_long));
    bool compiles = step->first && s.step_s < 2 * step->computing_s; /* perhaps */
    if (too_long && !compiles) limit(r, &s, step);
    if (too_long && !compiles) WEFT_TRY(choose(ctx, r, &s));
    if (!r->wish.wants && !tried) WEFT_TRY(choose_codes(ctx, r, step, &s));
    if (!r->wish.wants) return WEFT_OK;
    put_why(r, &s, 0, true);
    r->usual_s = step->computing_s;
    r->step = step->step;
    r->steps_left = step->steps_left;
    r->late = true; /* steps of the next form tell the wire again */
    return WEFT_OK;
}

/* A step in codes that were tried has shown what a step computes. */
static void leave_trial(wefti_replan *r, const wefti_replan_step *step) {
    char a[WEFTI_FORM_TEXT], b[WEFTI_FORM_TEXT];
    if (!r->wish.wants) r->wish.form = r->before;
    r->wish.wants = !wefti_form_same(&r->wish.form, &step->now);
    if (!wefti_form_same(&r->wish.form, &r->before)) return;
    r->wish.outlook = (wefti_outlook){.form = r->before};
    r->wish.was_s = r->wish.Bps = 0;
    snprintf(r->wish.why, sizeof r->wish.why,
             "%s instead of %s: steps compute long enough to hide the wire",
             wefti_form_name(&r->before, a), wefti_form_name(&step->now, b));
}

weft_status wefti_replan_foresee(weft_ctx *ctx, wefti_replan *r,
                                 const wefti_replan_step *step, double Bps) {
    bool tried = r->trial;
    if (!tried && (r->cluster || !(Bps >= 1 && step->computing_s > 0))) return WEFT_OK;
    if (!r->cluster) {
        WEFT_TRY(guess(ctx, step->config, &r->cluster));
        r->cluster->wire.bandwidth_Bps = Bps;
    }
    weft_status status = foresee(ctx, r, step);
    bool stays = status == WEFT_OK && r->wish.wants;
    if (status == WEFT_OK && tried) leave_trial(r, step);
    if (stays) return WEFT_OK;
    r->wish.alone = 0;
    weft_cluster_destroy(ctx, r->cluster);
    r->cluster = NULL;
    return status;
}

void wefti_replan_expected(const wefti_replan_wish *w,
                           double out[WEFTI_REPLAN_EXPECTED]) {
    const wefti_replan_wish none = {0};
    const wefti_outlook *o = &(w ? w : &none)->outlook;
    const double all[] = {w ? w->was_s : 0, o->step_s, o->gain,
                          o->low,           o->high,   w ? w->Bps : 0};
    memcpy(out, all, sizeof all);
}

const wefti_replan_wish *wefti_replan_wish_of(const wefti_replan *r) { return &r->wish; }

int64_t wefti_replan_asks(const wefti_replan *r, const wefti_form *now, int64_t step) {
    if (!r->wish.wants) return 0;
    wefti_form next = wefti_form_next(now, &r->wish.form);
    if (next.outer && !(now->outer && next.every == now->every)) /* its momentum stays */
        wefti_form_fit(&next, r->steps_left);
    return wefti_form_refusal(now, &next, step) ? 0 : wefti_form_code(&next);
}

void wefti_replan_changed(wefti_replan *r, const wefti_form *now) {
    if (wefti_form_same(&r->wish.form, now)) r->wish.wants = false;
}
