/* SPDX-License-Identifier: MIT */
/* Which form of what crosses the wire is best for the rest of a run: one is taken if the rest is
 * faster by more than the change costs and the errors of the predicted step and of what it takes
 * from learning. */
#include "planner/replan.h"

#include <math.h>

#include <weft/plan.h>

#include "planner/advise.h"

enum { SEARCH = 24, OUTER_PERIOD = 50, STALL_STEPS = 2, SHORT_STEPS = 200 };
static const double step_error = 0.2;

/* Bytes of memory that a rank may take; 0: not known. */
static double room_of(const wefti_situation *s) {
    double room = s->cluster->memory_bytes, limit = (double)s->config->mesh.memory_limit;
    for (int64_t i = 0; i < s->cluster->n_machines; i++) {
        double own = s->cluster->machines[i].memory_bytes;
        if (own > 0 && (room <= 0 || own < room)) room = own;
    }
    return limit > 0 && (room <= 0 || limit < room) ? limit : room;
}

static weft_status play(weft_ctx *ctx, const wefti_situation *s, const wefti_form *form,
                        weft_prediction *found) {
    const weft_predict_options options = {.struct_size = sizeof options, .seed = 1};
    weft_config *config;
    WEFT_TRY(weft_config_copy(ctx, s->config, &config));
    weft_status status = wefti_form_set(ctx, config, form);
    if (status == WEFT_OK && s->loop)
        status = weft_predict_loop(ctx, config, s->cluster, s->loop, found);
    else if (status == WEFT_OK)
        status = weft_predict(ctx, config, s->cluster, &options, found);
    weft_config_destroy(ctx, config);
    return status;
}

weft_status wefti_computing_predict(weft_ctx *ctx, const wefti_situation *s,
                                    double *computing_s) {
    weft_prediction found = {.struct_size = sizeof found};
    WEFT_TRY(play(ctx, s, &s->now, &found));
    *computing_s = found.compute_s;
    weft_prediction_clear(ctx, &found);
    return WEFT_OK;
}

/* *Bps: what a node sends in a second. */
static weft_status predict(weft_ctx *ctx, const wefti_situation *s,
                           const wefti_form *form, double *step_s, double *Bps) {
    const weft_config *c = s->config;
    int64_t shards = c->mesh.shards > 0 ? c->mesh.shards : c->mesh.ranks_per_node;
    double kept = s->state_bytes + sizeof(float) * (double)s->parameters;
    double room = room_of(s) - kept / (double)shards;
    weft_prediction found = {.struct_size = sizeof found};
    WEFT_TRY(play(ctx, s, form, &found));
    bool measured = s->bias[form->outer] > 0; /* else as far off as what is measured */
    double bias = s->bias[measured ? form->outer : s->now.outer];
    *step_s = found.mean_step_s * (bias > 0 ? bias : 1) + s->idle_s;
    *Bps = found.wire_bytes / *step_s;
    if (!wefti_form_same(form, &s->now) && room_of(s) > 0 &&
        (double)found.memory_bytes > room)
        *step_s = INFINITY;
    weft_prediction_clear(ctx, &found);
    return WEFT_OK;
}

weft_status wefti_form_predict(weft_ctx *ctx, const wefti_situation *s,
                               const wefti_form *form, double *step_s) {
    double Bps;
    return predict(ctx, s, form, step_s, &Bps);
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

/* A form in which the run ends sooner may send what is left of its last day faster. */
static bool is_within(const wefti_situation *s, double step_s, double Bps) {
    double left_s = step_s * (double)s->steps_left, most = s->most_Bps;
    if (s->budget && most > 0) most = wefti_budget_Bps(s->budget, left_s, s->day_s);
    return most <= 0 || Bps <= most;
}

/* Compares with the best so far; a form that the loss forbids is none. `leaves`: the form that the
 * run has sends too much. */
static weft_status try_form(weft_ctx *ctx, const wefti_situation *s,
                            const wefti_form *form, bool leaves, wefti_outlook *best) {
    double error_now, error, step_s, Bps, left = (double)s->steps_left;
    double learned = learning_of(s, &s->now, &error_now),
           now = left * s->step_s * exp(learned);
    double learning = learning_of(s, form, &error);
    if (wefti_form_same(form, &s->now) || exp(learning) > 1 + s->loss) return WEFT_OK;
    WEFT_TRY(predict(ctx, s, form, &step_s, &Bps));
    double change_s = STALL_STEPS * (s->step_s + step_s);
    if (s->now.outer && !form->outer)
        change_s += 2 * s->state_bytes / s->cluster->wire.bandwidth_Bps;
    double gain = now / (left * step_s * exp(learning) + change_s);
    double range = exp(
        hypot(step_error, learning > learned ? hypot(error, error_now) : 0));
    bool within = is_within(s, step_s, Bps);
    bool better = within && gain > best->gain && (leaves || gain > range);
    if (best->exceeds) better = within || Bps < best->Bps;
    if (better && isfinite(step_s))
        *best = (wefti_outlook){*form,        step_s, gain,   gain / range,
                                gain * range, Bps,    !within};
    return WEFT_OK;
}

double wefti_form_steps(const wefti_situation *s, const wefti_form *form) {
    double error;
    return exp(learning_of(s, form, &error));
}

const wefti_form *wefti_forms(int *n) {
    static const wefti_form forms[] = {{false, WEFTI_VALUES_F32, 0, 0},
                                       {false, WEFTI_VALUES_INT8, 0, 0},
                                       {false, WEFTI_VALUES_INT4, 0, 0},
                                       {true, WEFTI_VALUES_F32, OUTER_PERIOD / 5, 0},
                                       {true, WEFTI_VALUES_F32, OUTER_PERIOD, 0}};
    *n = (int)(sizeof forms / sizeof forms[0]);
    return forms;
}

weft_status wefti_plan_forms(weft_ctx *ctx, const wefti_situation *s,
                             wefti_outlook *out) {
    int n;
    const wefti_form *forms = wefti_forms(&n);
    double step_s, Bps = 0; /* of the form that the run has */
    if (s->most_Bps > 0) WEFT_TRY(predict(ctx, s, &s->now, &step_s, &Bps));
    bool leaves = !is_within(s, s->step_s, Bps);
    *out = (wefti_outlook){s->now, s->step_s, 1, 1, 1, Bps, leaves};
    for (int i = 0; i < n; i++)
        if (forms[i].every * 4 <= s->steps_left && !(s->averages && forms[i].outer))
            WEFT_TRY(try_form(ctx, s, &forms[i], leaves, out));
    return WEFT_OK;
}

weft_status wefti_wire_of_step(weft_ctx *ctx, const wefti_situation *s, double *out) {
    double low = 1e4, high = 1e11, step_s;
    double was = s->cluster->wire.bandwidth_Bps;
    weft_status status = WEFT_OK;
    for (int i = 0; i < SEARCH && status == WEFT_OK; i++) {
        s->cluster->wire.bandwidth_Bps = *out = sqrt(low * high);
        status = wefti_form_predict(ctx, s, &s->now, &step_s);
        *(step_s > s->step_s ? &low : &high) = *out;
    }
    s->cluster->wire.bandwidth_Bps = was;
    if (*out > 0.9e11) *out = 0;
    return status;
}
