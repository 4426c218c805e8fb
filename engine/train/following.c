/* SPDX-License-Identifier: MIT */
/* The choice of method=auto, kept true:
 *
 *     first rank   a period's wait, beside the usual one -> drift (base/stats.h)
 *                  -> which wire explains the step -> forms on that wire -> form, in its status
 *     all          the status of step t asks for it -> before t + 1: job, rank, views.jsonl
 *
 * A period is a step or, with outer steps, all from one to the next. Its wait is what its last
 * step took beyond the computing of the slowest rank and beyond the waits of the steps before,
 * which exchange nothing, spread over the period; and a twentieth of computing, below which
 * nothing is told apart. A plan is asked for when the usual wait is known: first, after a drift,
 * and in each world. A wait that is shorter than usual is believed sooner than a longer one: bytes
 * can not be faster than the wire. A form is taken if the rest of the run is faster by more than
 * the change costs and the errors of the predicted step and of what it takes from learning. */
#define _GNU_SOURCE
#include "train/following.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/plan.h>
#include <weft/predict.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/stats.h"
#include "base/text.h"
#include "planner/advise.h"
#include "rank/carried.h"
#include "train/regroup.h"
#include "wire/values.h"

enum { SEARCH = 24, OUTER_PERIOD = 50, STALL_STEPS = 2, SHORT_STEPS = 200 };
/* Periods that say what is usual: of a step each, after a drift, of outer steps; and bounds. */
enum { CALM = WEFTI_CALM, CALM_AGAIN = 8, CALM_OUTER = 3, CALM_FASTER = 1 };
static const double bound = 6, bound_outer = 2;
static const double floor_share = 0.05, step_error = 0.2, known_error = 0.4;

struct wefti_following {
    weft_cluster *cluster; /* owned; NULL: not read yet */
    double loss;
    double fastest_Bps;   /* of the wire as it was measured first; where any would do */
    const wefti_job *job; /* of which `drift` is: another one begins anew */
    wefti_drift drift;
    double took_s, computed_s,
        last_s; /* in this period so far, and the last wait of it */
    int64_t n;
    /* Of a step, in the periods that say what is usual. */
    double steps_s[CALM], computes_s[CALM], idles_s[CALM];
    bool drifted;
    double
        usual_s; /* computing of a step, when the cluster was fitted to it; 0: not yet */
    double bias[2];    /* as in wefti_situation; 0: not measured */
    wefti_form wanted; /* on the way to it */
    bool wants;
    char why[400];
    double expected[WEFTI_VIEWS_EXPECTED];    /* of what is wanted */
    char form[WEFTI_FORM_TEXT], changed[400]; /* what the run has, and why */
    double gain;
};

/* ---- which form is best ---- */

/* Bytes of memory that a rank may take; 0: not known. */
static double room_of(const wefti_situation *s) {
    double room = s->cluster->memory_bytes, limit = (double)s->config->mesh.memory_limit;
    for (int64_t i = 0; i < s->cluster->n_machines; i++) {
        double own = s->cluster->machines[i].memory_bytes;
        if (own > 0 && (room <= 0 || own < room)) room = own;
    }
    return limit > 0 && (room <= 0 || limit < room) ? limit : room;
}

/* *step_s INFINITY: it does not fit into memory, beside what is kept while it changes. */
static weft_status predict(weft_ctx *ctx, const wefti_situation *s,
                           const wefti_form *form, double *step_s) {
    const weft_config *c = s->config;
    int64_t shards = c->mesh.shards > 0 ? c->mesh.shards : c->mesh.ranks_per_node;
    double kept = s->state_bytes + sizeof(float) * (double)s->parameters;
    double room = room_of(s) - kept / (double)shards;
    const weft_predict_options options = {.struct_size = sizeof options, .seed = 1};
    weft_prediction found = {.struct_size = sizeof found};
    weft_config *config;
    WEFT_TRY(weft_config_copy(ctx, s->config, &config));
    weft_status status = wefti_form_set(ctx, config, form);
    if (status == WEFT_OK)
        status = weft_predict(ctx, config, s->cluster, &options, &found);
    bool measured = s->bias[form->outer] > 0; /* else as far off as what is measured */
    double bias = s->bias[measured ? form->outer : s->now.outer];
    *step_s = found.mean_step_s * (bias > 0 ? bias : 1) + s->idle_s;
    if (!wefti_form_same(form, &s->now) && room_of(s) > 0 &&
        (double)found.memory_bytes > room)
        *step_s = INFINITY;
    weft_prediction_clear(ctx, &found);
    weft_config_destroy(ctx, config);
    return status;
}

/* Steps to a loss of a recipe, relative to another; as logarithm. */
static double steps_of(const wefti_situation *s, const char *name, const char *beside,
                       double *error) {
    double steps = beside ? SHORT_STEPS : (double)s->steps_left, other;
    int64_t nodes = s->config->mesh.nodes;
    double l = log(
        weft_recipe_steps(wefti_recipe_find(name), s->parameters, nodes, steps, error));
    if (!beside) return l;
    l -= log(weft_recipe_steps(wefti_recipe_find(beside), s->parameters, nodes, steps,
                               &other));
    *error = fabs(l) / 2;
    return l;
}

/* The same of a form. Coded gradients as with Muon, where they were measured; outer steps in
 * proportion to what lies between two of them. */
static double learning_of(const wefti_situation *s, const wefti_form *form,
                          double *error) {
    const char *coded = form->values == WEFTI_VALUES_INT4 ? "muon int4" : "muon int8";
    double l = 0;
    *error = 0;
    if (form->outer) {
        double share = fmin(1, (double)form->every / OUTER_PERIOD);
        l = share * steps_of(s, "diloco H=50", NULL, error);
        *error *= share;
    } else if (form->values == WEFTI_VALUES_INT8 || form->values == WEFTI_VALUES_INT4) {
        l = steps_of(s, coded, "full sync, muon", error);
    }
    return fmax(l, 0);
}

/* Compares with the best so far; a form that the loss forbids is none. */
static weft_status try_form(weft_ctx *ctx, const wefti_situation *s,
                            const wefti_form *form, wefti_outlook *best) {
    double error_now, error, step_s, left = (double)s->steps_left;
    double learned = learning_of(s, &s->now, &error_now),
           now = left * s->step_s * exp(learned);
    double learning = learning_of(s, form, &error);
    if (wefti_form_same(form, &s->now) || exp(learning) > 1 + s->loss) return WEFT_OK;
    WEFT_TRY(predict(ctx, s, form, &step_s));
    double change_s = STALL_STEPS * (s->step_s + step_s);
    if (s->now.outer && !form->outer)
        change_s += 2 * s->state_bytes / s->cluster->wire.bandwidth_Bps;
    double gain = now / (left * step_s * exp(learning) + change_s);
    double range = exp(
        hypot(step_error, learning > learned ? hypot(error, error_now) : 0));
    if (gain > best->gain && gain > range)
        *best = (wefti_outlook){*form, step_s, gain, gain / range, gain * range};
    return WEFT_OK;
}

weft_status wefti_plan_forms(weft_ctx *ctx, const wefti_situation *s,
                             wefti_outlook *out) {
    static const wefti_form forms[] = {{false, WEFTI_VALUES_F32, 0, 0},
                                       {false, WEFTI_VALUES_INT8, 0, 0},
                                       {false, WEFTI_VALUES_INT4, 0, 0},
                                       {true, WEFTI_VALUES_F32, OUTER_PERIOD / 5, 0},
                                       {true, WEFTI_VALUES_F32, OUTER_PERIOD, 0}};
    *out = (wefti_outlook){s->now, s->step_s, 1, 1, 1};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].every * 4 <= s->steps_left)
            WEFT_TRY(try_form(ctx, s, &forms[i], out));
    return WEFT_OK;
}

weft_status wefti_wire_of_step(weft_ctx *ctx, const wefti_situation *s, double *out) {
    double low = 1e4, high = 1e11, step_s;
    double was = s->cluster->wire.bandwidth_Bps;
    weft_status status = WEFT_OK;
    for (int i = 0; i < SEARCH && status == WEFT_OK; i++) {
        s->cluster->wire.bandwidth_Bps = *out = sqrt(low * high);
        status = predict(ctx, s, &s->now, &step_s);
        *(step_s > s->step_s ? &low : &high) = *out;
    }
    s->cluster->wire.bandwidth_Bps = was;
    if (*out > 0.9e11) *out = 0;
    return status;
}

/* ---- what is measured ---- */

static void begin_period(wefti_following *f) {
    f->took_s = f->computed_s = f->last_s = 0;
    f->n = 0;
}

/* `drifted`: the sign of the drift; 0 in another world. */
static void begin_anew(wefti_following *f, const wefti_job *job, int drifted) {
    bool outer = !job->replicas_equal;
    int calm = drifted ? CALM_AGAIN : CALM;
    if (outer) calm = drifted < 0 ? CALM_FASTER : CALM_OUTER;
    wefti_drift_begin(&f->drift, calm, outer ? bound_outer : bound);
    f->job = job;
    f->drifted = drifted != 0;
    begin_period(f);
}

/* What a step waits in the period that has ended where nothing is exchanged. */
static double idle_of(const wefti_following *f) {
    double before_s = f->took_s - f->computed_s - f->last_s;
    return f->n > 1 ? fmax(0, before_s / (double)(f->n - 1)) : 0;
}

static double middle(const double *values, int n) {
    double sorted[CALM];
    memcpy(sorted, values, (size_t)n * sizeof *values);
    return wefti_median(sorted, n);
}

/* Adds the step before `step`. Whether what is usual is known with it. */
static bool note(wefti_following *f, const wefti_job *job, const wefti_form *now,
                 int64_t step) {
    int64_t period = now->outer ? now->every : 1;
    if (step % period != 0) return false;
    bool whole = f->n == period, knew = f->drift.usual > 0;
    double step_s = f->took_s / (double)f->n, computing_s = f->computed_s / (double)f->n;
    double idle_s = idle_of(f), last_s = fmax(0, f->last_s - idle_s) / (double)f->n;
    begin_period(f);
    if (!whole) return false; /* the first one began in its middle */
    if (!knew) {
        f->steps_s[f->drift.n] = step_s;
        f->computes_s[f->drift.n] = computing_s;
        f->idles_s[f->drift.n] = idle_s;
    }
    int drift = wefti_drift_add(&f->drift, last_s + floor_share * computing_s);
    if (drift) begin_anew(f, job, drift);
    return !knew && f->drift.usual > 0;
}

/* ---- the plan is asked ---- */

static weft_status read_cluster(weft_ctx *ctx, const wefti_prepared *p,
                                wefti_following *f) {
    char path[PATH_MAX];
    if (f->cluster) return WEFT_OK;
    WEFT_TRY(wefti_file_path(ctx, p->config->run.folder, "cluster.yaml", path));
    WEFT_TRY(weft_cluster_load(ctx, path, &f->cluster));
    f->cluster->n_pairs =
        0; /* one rate for all: that of the slowest, which all wait for */
    f->cluster->wire.up_Bps = 0;
    f->fastest_Bps = f->cluster->wire.bandwidth_Bps;
    return WEFT_OK;
}

/* The cluster computes as was measured last. */
static void fit_computing(wefti_following *f) {
    double now_s = middle(f->computes_s, f->drift.n), ratio = now_s / f->usual_s;
    if (f->usual_s > 0 && (ratio > 1.2 || ratio < 1 / 1.2)) {
        weft_cluster *c = f->cluster;
        c->rank_flops /= ratio;
        for (int64_t i = 0; i < c->n_machines; i++) c->machines[i].rank_flops /= ratio;
        for (int64_t i = 0; i < c->n_units; i++) {
            c->units[i].forward_s *= ratio;
            c->units[i].backward_s *= ratio;
        }
    }
    if (f->usual_s == 0 || ratio > 1.2 || ratio < 1 / 1.2) f->usual_s = now_s;
}

static const char *form_text(const wefti_form *f, char out[48]) {
    const char *values = wefti_value_ops_of(f->values)->name;
    const char *coded = f->values == WEFTI_VALUES_F32 ? "" : values;
    if (f->outer)
        snprintf(out, 48, "diloco H=%lld%s%s", (long long)f->every, coded[0] ? " " : "",
                 coded);
    else
        snprintf(out, 48, "full sync%s%s", coded[0] ? " " : "", coded);
    return out;
}

static void put_why(wefti_following *f, const wefti_situation *s, const wefti_outlook *o,
                    double usual_s) {
    char a[48], b[48], now[24], then[24], usual[24], rate[32];
    snprintf(
        f->why, sizeof f->why,
        "%s instead of %s: a step takes %s, %s were expected, as on a wire of %s; "
        "now %s a step are, and the rest of the run %.2g times as fast (%.2g to %.2g)",
        form_text(&o->form, a), form_text(&s->now, b),
        wefti_seconds_text(s->step_s, now, sizeof now),
        wefti_seconds_text(usual_s, usual, sizeof usual),
        wefti_rate_text(s->cluster->wire.bandwidth_Bps, rate, sizeof rate),
        wefti_seconds_text(o->step_s, then, sizeof then), o->gain, o->low, o->high);
}

/* What a step of this form costs where the wire is known tells how far predictions are off; where
 * it has drifted, or a form that was measured before is far from that, the step tells the wire. */
static weft_status ask(weft_ctx *ctx, wefti_prepared *p, wefti_following *f,
                       wefti_situation *s) {
    double expected_s, Bps = 0;
    wefti_outlook best;
    WEFT_TRY(read_cluster(ctx, p, f));
    fit_computing(f);
    s->cluster = f->cluster;
    s->loss = f->loss;
    s->step_s = middle(f->steps_s, f->drift.n);
    s->idle_s = middle(f->idles_s, f->drift.n);
    memcpy(s->bias, f->bias, sizeof s->bias);
    WEFT_TRY(predict(ctx, s, &s->now, &expected_s));
    double *bias = &f->bias[s->now.outer];
    double off = (s->step_s - s->idle_s) / (expected_s - s->idle_s);
    bool other = f->drifted || (*bias > 0 && fabs(log(off)) > known_error);
    if (!other) *bias = s->bias[s->now.outer] = (*bias > 0 ? *bias : 1) * off;
    wefti_situation told = *s; /* less than that is not told apart */
    told.step_s -= floor_share * f->usual_s;
    if (other) WEFT_TRY(wefti_wire_of_step(ctx, &told, &Bps));
    if (other) f->cluster->wire.bandwidth_Bps = Bps > 0 ? Bps : f->fastest_Bps;
    WEFT_TRY(wefti_plan_forms(ctx, s, &best));
    f->wants = !wefti_form_same(&best.form, &s->now);
    f->wanted = best.form;
    if (f->wants) put_why(f, s, &best, expected_s);
    const double expected[] = {s->step_s, best.step_s, best.gain,
                               best.low,  best.high,   f->cluster->wire.bandwidth_Bps};
    if (f->wants) memcpy(f->expected, expected, sizeof expected);
    return WEFT_OK;
}

/* A plan that can not be made is no reason to end. */
static void ask_or_say(wefti_prepared *p, wefti_rank *r, int64_t step,
                       const wefti_form *now) {
    wefti_following *f = p->following;
    const weft_config *c = p->job->config;
    wefti_situation s = {.config = c,
                         .now = *now,
                         .steps_left = c->run.steps - step,
                         .parameters = p->job->model->n_elements,
                         .state_bytes = (double)p->job->most_states->n_states *
                                        sizeof(float) *
                                        (double)p->job->model->n_elements};
    if (ask(r->ctx, p, f, &s) == WEFT_OK) return;
    weft_ctx_log(r->ctx, WEFT_LOG_WARN, "method=auto goes on as it is: %s",
                 weft_ctx_message(r->ctx));
    weft_ctx_clear(r->ctx);
    f->loss = -1;
}

/* The first rank: the step before `step` has ended, and its status asks for the form that is
 * taken behind it. */
static void look(wefti_prepared *p, wefti_rank *r, int64_t step, const wefti_form *now) {
    wefti_following *f = p->following;
    r->asks_form = 0;
    if (f->job != p->job) begin_anew(f, p->job, 0);
    if (f->loss < 0 || r->learners.open || p->took_s <= 0) return;
    f->took_s += p->took_s;
    f->computed_s += r->computed_s;
    f->last_s = p->took_s - r->computed_s;
    f->n++;
    if (note(f, p->job, now, step)) ask_or_say(p, r, step, now);
    if (!f->wants) return;
    wefti_form next = wefti_form_next(now, &f->wanted);
    if (!wefti_form_refusal(now, &next, step + 1)) r->asks_form = wefti_form_code(&next);
}

/* ---- the change ---- */

static weft_status change(wefti_prepared *p, wefti_rank **r, int64_t step,
                          const wefti_form *form, const weft_train_hooks *hooks) {
    wefti_following *f = p->following;
    weft_mesh *mesh = p->bootstrap.mesh;
    char text[500], name[48];
    bool leads = (*r)->rank == 0;
    wefti_passage departed;
    const wefti_regroup_batch batch = {.ranks = p->job->W,
                                       .rows_per_rank = p->job->rows_per_rank,
                                       .micro = p->job->B,
                                       .first_step = step,
                                       .first_row = wefti_rank_first_row(*r, step),
                                       .form = form};
    WEFT_TRY(wefti_replicator_settle((*r)->replicator));
    wefti_rank_depart(r, &departed);
    weft_status made = wefti_regroup_job(p->ctx, p, &batch);
    weft_status arrived = wefti_rank_arrive(&departed, made == WEFT_OK ? p->job : NULL,
                                            r);
    WEFT_TRY(made);
    WEFT_TRY(arrived);
    if (f->wants && wefti_form_same(&f->wanted, form)) f->wants = false;
    snprintf(text, sizeof text, "from step %lld on %s", (long long)step + 1,
             f->why[0] && leads ? f->why : form_text(form, name));
    if (leads && hooks && hooks->on_change) hooks->on_change(hooks->user, text);
    const wefti_viewlog_entry line = {.mesh = mesh,
                                      .job = p->job,
                                      .shared = true,
                                      .why = text,
                                      .expected = leads ? f->expected : NULL,
                                      .done = p->job->config->run.steps};
    for (int i = 0; i < WEFTI_RECENT; i++) /* of the form before, whose text this was */
        p->recent[i].form = p->recent[i].why = NULL;
    snprintf(f->changed, sizeof f->changed, "%.*s", (int)sizeof f->changed - 1, text);
    wefti_form_write(form, f->form);
    f->gain = leads ? f->expected[WEFTI_EXPECT_GAIN] : 0;
    WEFT_TRY(wefti_viewlog_plan((*r)->ctx, p->views, &line));
    return wefti_viewlog_write((*r)->ctx, p->views);
}

static weft_status make_following(wefti_prepared *p) {
    WEFT_TRY(wefti_alloc(p->ctx, sizeof *p->following, "the choice", &p->following));
    p->following->loss = p->most_loss;
    return WEFT_OK;
}

weft_status wefti_follow_meet(wefti_prepared *p, wefti_rank *r, int64_t step) {
    wefti_form now, next;
    int64_t left = p->job->config->run.steps - step;
    if (!p->job->run.follows || !r || r->form == 0 || r->learners.open ||
        wefti_form_of(p->job->config, &now) || !wefti_form_decode(r->form, left, &next) ||
        !now.outer || next.outer)
        return WEFT_OK;
    weft_status status = wefti_rank_meet(r, step);
    if (!wefti_elastic_interrupted(r->ctx, p->bootstrap.mesh, status)) return status;
    return WEFT_OK;
}

/* Where no other world has begun some rank has passed the barrier of the meeting, so all have
 * the mean. */
static const char *why_not(const wefti_rank *r, const wefti_form *now,
                           const wefti_form *next, int64_t step) {
    const char *why = wefti_form_refusal(now, next, step);
    if (!why && now->outer && !next->outer && !r->has_mean)
        return "its states have no mean";
    return why;
}

weft_status wefti_follow(wefti_prepared *p, wefti_rank **r, int64_t step,
                         const weft_train_hooks *hooks) {
    wefti_form now, next;
    if (!p->job->run.follows) return WEFT_OK;
    if (!p->following) WEFT_TRY(make_following(p));
    const char *obstacle = wefti_form_of(p->job->config, &now);
    int64_t asked = (*r)->form, left = p->job->config->run.steps - step;
    if (obstacle || left < 1) return WEFT_OK;
    if (!p->following->form[0]) wefti_form_write(&now, p->following->form);
    if (asked > 0 && !(*r)->learners.open) {
        bool known = wefti_form_decode(asked, left, &next);
        const char *why = known ? why_not(*r, &now, &next, step) : "it is no form";
        if (why)
            return weft_ctx_fail((*r)->ctx, WEFT_ERR_WIRE,
                                 "rank 0 asks for form %lld before step %lld: %s",
                                 (long long)asked, (long long)step + 1, why);
        WEFT_TRY(change(p, r, step, &next, hooks));
        now = next;
    } else if ((*r)->rank == 0) {
        look(p, *r, step, &now);
    }
    p->took_s = 0;
    return WEFT_OK;
}

void wefti_following_tell(const wefti_prepared *p, weft_step_record *record) {
    const wefti_following *f = p->following;
    if (!f || !f->form[0]) return;
    record->form = f->form;
    record->why = f->changed[0] ? f->changed : NULL;
    record->gain = f->gain;
}

void wefti_following_end(wefti_prepared *p) {
    if (!p->following) return;
    weft_cluster_destroy(p->ctx, p->following->cluster);
    wefti_free(p->ctx, p->following);
    p->following = NULL;
}
