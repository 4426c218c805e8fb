/* SPDX-License-Identifier: MIT */
/* What crosses the wire changes while a program's own loop goes on (job/form.h):
 *
 *     step t ends        first process: computing and wait -> planner/replan.h -> form
 *     status of t + 1    asks for it
 *     t + 2 opens        behind outer steps: the mean of the optimizer's states (setup.moments)
 *                        all: job and rank are made again around the same blocks
 *
 * Where waiting for the first steps would take too long, the status of the step that is computed
 * asks, by the time that sending the parameters took, and some of them from each node to the next.
 *
 * The mean lies beside the states, and is taken when the form has changed: if somebody is lost
 * meanwhile, a new world begins, and nothing has happened. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/sized.h"
#include "loop/sync.h"
#include "planner/advise.h"
#include "planner/replan.h"
#include "replicate/replicator.h"

/* FIRST_STEPS: later ones, of who is the first process then, tell the wire as it is then. */
enum { UNKNOWN_STEPS = 1000, ADAMS_STATES = 2, FIRST_STEPS = 4 };
/* What all send to measure their ways out: so many bytes, four times as many, and so on, until that
 * takes so long, and so many times as long as next to nothing does. */
enum { FIRST_BYTES = 1 << 16, MORE = 4 };
static const double enough_s = 0.25, enough_times = 10;

struct wefti_sync_replan {
    wefti_replan *plan;      /* owned; NULL: this process has not planned yet */
    bool off;                /* no plan can be made */
    weft_sync_limits limits; /* without texts */
    wefti_budget budget;
    weft_sync_tensor *tensors; /* [tensors] owned */
    weft_loop_facts loop;
    char text[500], shown[500]; /* what has changed, until the caller asks; what it got */
    double expected[WEFTI_REPLAN_EXPECTED]; /* of it */
    double alone; /* times as fast one node by itself is, as all heard last */
    bool warned;  /* of that */
    char why_alone[200];
    double way_Bps;    /* of the slowest node's way out, at the start; 0: not known */
    int64_t way_until; /* from this step on it is of another time */
};

/* Whether outer steps can be left. */
static bool can_meet(const weft_sync *s) { return !s->setup.outside || s->setup.moments; }

/* Why its form never changes; NULL: it may. */
static const char *why_fixed(const weft_sync *s, wefti_form *now) {
    if (s->job->S > 1) return "processes share copies of the model";
    if (s->setup.skips) return "steps may be skipped";
    if (s->setup.uneven) return "rows differ by process and step";
    const char *why = wefti_form_of(s->job->config, now);
    if (why || !now->outer) return why;
    if (s->job->mixer_config.held) return "the program keeps the mixer's states";
    return can_meet(s) ? NULL : "the states of the program's optimizer have no mean";
}

/* The same now. */
static const char *obstacle(const weft_sync *s, wefti_form *now) {
    return s->job->W < 2 ? "nothing crosses a wire" : why_fixed(s, now);
}

/* cluster_path NULL: the steps tell what was not measured. */
static weft_status make(weft_sync *s, const char *cluster_path) {
    wefti_sync_replan *p = s->replan;
    weft_cluster *cluster = NULL;
    WEFT_TRY(wefti_alloc_n(s->ctx, s->setup.n_tensors, sizeof *p->tensors, "tensors",
                           &p->tensors));
    for (int i = 0; i < s->setup.n_tensors; i++) {
        const wefti_param *from = &s->job->model->params[i];
        p->tensors[i] = (weft_sync_tensor){.struct_size = sizeof *p->tensors,
                                           .name = "tensor",
                                           .rows = from->rows,
                                           .cols = from->cols,
                                           .decays = from->decays};
    }
    p->loop = (weft_loop_facts){.struct_size = sizeof p->loop,
                                .tensors = p->tensors,
                                .n_tensors = s->setup.n_tensors};
    if (cluster_path) WEFT_TRY(weft_cluster_load(s->ctx, cluster_path, &cluster));
    return wefti_replan_create(s->ctx, cluster, p->limits.loss, &p->plan);
}

weft_status wefti_sync_may_change(weft_sync *s, const weft_sync_limits *limits,
                                  const wefti_busy *busy) {
    if (!s->replan)
        WEFT_TRY(wefti_alloc(s->ctx, sizeof *s->replan, "the choice", &s->replan));
    s->replan->limits = *limits;
    s->replan->limits.cluster_path = s->replan->limits.busy = NULL;
    s->replan->budget.busy = *busy;
    s->replan->budget.per_day = limits->bytes_per_day;
    return WEFT_OK;
}

weft_status weft_sync_replan(weft_sync *s, const weft_sync_limits *limits,
                             const char **why) {
    wefti_form now;
    wefti_busy busy;
    *why = NULL;
    WEFTI_SIZED_IN(s->ctx, weft_sync_limits, limits);
    bool fine = limits->loss >= 0 && limits->steps >= 0 && limits->bytes_per_day >= 0 &&
                limits->measure_s >= 0;
    if (!wefti_busy_parse(limits->busy ? limits->busy : "", &busy))
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "weft_sync_replan with busy hours '%.60s'; expected such as "
                             "18:00-23:30,2Mbit",
                             limits->busy);
    if (s->begun || s->joins || s->replan || !fine)
        return weft_ctx_fail(
            s->ctx, WEFT_ERR_ARGUMENT,
            "weft_sync_replan with a loss of %g, %lld steps, %g bytes in a day and %g s "
            "of measuring%s; expected numbers from 0, once, before weft_sync_begin",
            limits->loss, (long long)limits->steps, limits->bytes_per_day,
            limits->measure_s,
            s->begun    ? " after weft_sync_begin"
            : s->joins  ? " in a process that joins"
            : s->replan ? " for the second time"
                        : "");
    *why = obstacle(s, &now);
    if (*why) return WEFT_OK;
    WEFT_TRY(wefti_sync_may_change(s, limits, &busy));
    s->job->run.follows = true;
    return limits->cluster_path ? make(s, limits->cluster_path) : WEFT_OK;
}

void wefti_sync_end_replan(weft_sync *s) {
    if (!s->replan) return;
    wefti_replan_destroy(s->ctx, s->replan->plan);
    WEFTI_FREE(s->ctx, s->replan->tensors, s->replan);
    s->replan = NULL;
}

void wefti_sync_tell_replan(const weft_sync *s, weft_sync_limits *out, wefti_busy *busy) {
    *out = s->replan ? s->replan->limits : (weft_sync_limits){0};
    *busy = s->replan ? s->replan->budget.busy : (wefti_busy){0};
}

bool weft_sync_follows(const weft_sync *s) { return s->job->run.follows; }

/* --- what is measured --- */

static wefti_replan_step step_of(const weft_sync *s, const wefti_form *now,
                                 double computing_s, double wait_s) {
    wefti_sync_replan *p = s->replan;
    int64_t n = s->job->model->n_elements;
    int states = s->setup.outside ? ADAMS_STATES
                                  : s->job->optimizer.most_states->n_states;
    int64_t left = p->limits.steps           ? p->limits.steps - s->step
                   : s->step > UNKNOWN_STEPS ? s->step
                                             : UNKNOWN_STEPS;
    return (wefti_replan_step){.config = s->job->config,
                               .world = s->job,
                               .loop = &p->loop,
                               .averages = !can_meet(s),
                               .now = *now,
                               .step = s->step,
                               .steps_left = left > 0 ? left : 0,
                               .parameters = n,
                               .state_bytes = (double)states * sizeof(float) * (double)n,
                               .computing_s = computing_s,
                               .wait_s = wait_s,
                               .measure_s = p->limits.measure_s,
                               .budget = &p->budget,
                               .day_s = wefti_day_now_s()};
}

/* `ended`: it is; else it is computed, and its exchange under way. */
static void look(weft_sync *s, const wefti_form *now, const wefti_replan_step *step,
                 bool ended) {
    wefti_sync_replan *p = s->replan;
    weft_ctx *ctx = s->ctx;
    weft_status status = p->plan ? WEFT_OK : make(s, NULL);
    s->rank->says.form = 0;
    if (status == WEFT_OK)
        status = ended ? wefti_replan_add(ctx, p->plan, step)
                       : wefti_replan_foresee(ctx, p->plan, step, p->way_Bps);
    if (status == WEFT_OK) {
        double alone = wefti_replan_wish_of(p->plan)->alone;
        s->rank->says.form = wefti_replan_asks(p->plan, now, s->step + 1);
        if (!(alone > 0)) p->alone = 0;
        if (alone > 0 && !(p->alone > 0)) s->rank->says.form += wefti_alone_code(alone);
        return;
    }
    weft_ctx_log(ctx, WEFT_LOG_WARN, "method=auto goes on as it is: %s",
                 weft_ctx_message(ctx));
    weft_ctx_clear(ctx);
    p->off = true;
}

/* Sends some of the parameters to the next node, as all do. [out] *slowest_s: until all have them.
 */
static weft_status pass(wefti_rank *r, int64_t n_bytes, double *slowest_s) {
    wefti_comm *all = r->comms.control;
    int64_t tag = wefti_rank_control_tag(r);
    int here = (int)r->job->config->mesh.ranks_per_node, W = all->size;
    int from = (r->rank + W - here) % W;
    double since_s = wefti_now_s(), *took_s;
    const void *view;
    WEFT_TRY(wefti_comm_send(all, (r->rank + here) % W, tag, r->params, n_bytes));
    WEFT_TRY(wefti_comm_receive(all, from, tag, n_bytes, &view));
    double own_s = wefti_now_s() - since_s;
    wefti_comm_release(all, from, tag);
    WEFT_TRY(wefti_comm_await(all, tag));
    WEFT_TRY(wefti_alloc_n(r->ctx, W, sizeof *took_s, "times of all ways out", &took_s));
    weft_status status = wefti_comm_all_gather(all, wefti_rank_control_tag(r), &own_s,
                                               sizeof own_s, took_s);
    *slowest_s = 0;
    for (int i = 0; i < W; i++) *slowest_s = fmax(*slowest_s, took_s[i]);
    wefti_free(r->ctx, took_s);
    return status;
}

/* Of the slowest node's way out while all send, by the least that tells it. */
static weft_status measure_ways(wefti_rank *r, double *Bps) {
    double nothing_s, took_s = 0;
    int64_t most = (int64_t)sizeof(float) * r->arrangement->n_elements;
    int64_t n_bytes = most < FIRST_BYTES ? most : FIRST_BYTES;
    WEFT_TRY(pass(r, sizeof(float), &nothing_s));
    WEFT_TRY(pass(r, n_bytes, &took_s));
    while (n_bytes < most && took_s < fmax(enough_s, enough_times * nothing_s)) {
        n_bytes = most / MORE < n_bytes ? most : MORE * n_bytes;
        WEFT_TRY(pass(r, n_bytes, &took_s));
    }
    *Bps = (double)r->job->config->mesh.ranks_per_node * (double)n_bytes / took_s;
    return WEFT_OK;
}

weft_status wefti_sync_note_spread(weft_sync *s, double since_s) {
    wefti_rank *r = s->rank;
    wefti_sync_replan *p = s->replan;
    if (!p) return WEFT_OK;
    double slowest_Bps, asks = r->rank == 0 && !p->plan && p->limits.measure_s > 0;
    WEFT_TRY(wefti_comm_sum(r->comms.control, wefti_rank_control_tag(r), 1, &asks));
    int64_t others = s->job->W - s->job->config->mesh.ranks_per_node; /* on other nodes */
    double n_bytes = sizeof(float) * (double)r->arrangement->n_elements * (double)others;
    if (!(asks > 0 && n_bytes > 0)) return WEFT_OK;
    p->way_until = s->step + FIRST_STEPS;
    p->way_Bps = fmax(0, n_bytes / (wefti_now_s() - since_s));
    WEFT_TRY(measure_ways(r, &slowest_Bps));
    p->way_Bps = fmin(p->way_Bps, slowest_Bps);
    return WEFT_OK;
}

void wefti_sync_foresee(weft_sync *s) {
    wefti_sync_replan *p = s->replan;
    wefti_rank *r = s->rank;
    wefti_form now;
    if (!p || p->off || !(p->limits.measure_s > 0)) return;
    bool known = p->way_Bps > 0 && s->step < p->way_until;
    if (!known || r->rank != 0 || r->says.form > 0 || obstacle(s, &now)) return;
    double planned_s = wefti_now_s();
    wefti_replan_step step = step_of(s, &now, wefti_rank_computed_s(r), 0);
    step.first = s->step == p->way_until - FIRST_STEPS;
    look(s, &now, &step, false);
    r->now.begun_s += wefti_now_s() - planned_s; /* this is no computing */
}

/* What the status has beside a form. */
static void hear_alone(wefti_sync_replan *p, wefti_rank *r) {
    double alone = wefti_alone_decode(r->last.form, &r->last.form);
    if (!(alone > 0)) return;
    p->alone = alone;
    p->warned = false;
}

void wefti_sync_note_step(weft_sync *s, double computing_s, double wait_s, double sent) {
    wefti_sync_replan *p = s->replan;
    wefti_rank *r = s->rank;
    wefti_form now;
    if (p) wefti_budget_add(&p->budget, computing_s + wait_s, sent);
    if (p) hear_alone(p, r);
    if (!p || p->off || r->rank != 0 || obstacle(s, &now)) return;
    if (r->last.form > 0) return; /* it changes before the next step */
    const wefti_replan_step step = step_of(s, &now, computing_s, wait_s);
    look(s, &now, &step, true);
}

weft_status weft_sync_ask_form(weft_sync *s, const char *form) {
    wefti_form now, next;
    WEFT_TRY(wefti_sync_check_whole(s));
    bool rests = s->begun && !s->now.opened && !s->now.agreed;
    const char *why = rests ? obstacle(s, &now) : "it is possible between two steps only";
    if (!why && !wefti_form_read(form, &next))
        why = "it is none of full f32, full bf16, full int8, full int4, outer f32 50 0.4";
    if (!why && next.outer && !can_meet(s))
        why = "the states of the program's optimizer have no mean, to leave it by";
    if (!why && s->rank->rank != 0) why = "the first process asks, for all";
    if (!why) why = wefti_form_refusal(&now, &next, s->step + 1);
    wefti_form sent;
    if (!why && (!wefti_form_decode(wefti_form_code(&next), &sent) ||
                 sent.momentum != next.momentum))
        why = "its momentum has more than two decimals";
    if (why)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "the form '%.40s' is asked for, but %s", form, why);
    s->rank->says.form = wefti_form_code(&next);
    return WEFT_OK;
}

/* --- the change --- */

/* What is asked for; false: nothing, or no form. */
static bool is_asked(const weft_sync *s, wefti_form *next) {
    return s->rank->last.form > 0 && s->job->W > 1 &&
           wefti_form_decode(s->rank->last.form, next);
}

/* Those of the program's optimizer; where they are not as many everywhere nobody changes. */
static weft_status meet_outside(weft_sync *s) {
    wefti_rank *r = s->rank;
    int64_t n, *all;
    float *x = s->setup.moments(s->setup.user, &n);
    if (!x)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "the program could not give the states of its optimizer");
    WEFT_TRY(wefti_alloc_n(s->ctx, s->job->W, sizeof *all, "numbers of states", &all));
    weft_status status = wefti_comm_all_gather(
        r->comms.control, wefti_rank_control_tag(r), &n, sizeof n, all);
    bool alike = true;
    for (int i = 0; i < s->job->W; i++) alike = alike && all[i] == n;
    wefti_free(s->ctx, all);
    WEFT_TRY(status);
    if (alike) return wefti_rank_meet_outside(r, s->step, x, n);
    if (s->replan) s->replan->off = true;
    r->last.form = r->says.form = 0;
    weft_ctx_log(
        s->ctx, WEFT_LOG_WARN,
        "method=auto goes on as it is: the optimizer has other states here than in "
        "another process");
    return WEFT_OK;
}

weft_status wefti_sync_meet(weft_sync *s) {
    wefti_form now, next;
    if (!is_asked(s, &next) || obstacle(s, &now) || !now.outer || next.outer)
        return WEFT_OK;
    if (s->elastic) wefti_elastic_gather(s->mesh, true);
    weft_status status = s->setup.outside ? meet_outside(s)
                                          : wefti_rank_meet(s->rank, s->step);
    if (s->elastic) wefti_elastic_gather(s->mesh, false);
    return wefti_elastic_interrupted(s->ctx, s->mesh, status) ? WEFT_OK : status;
}

/* Of one process alone, too: who comes in exchanges with it in that form. */
int64_t wefti_sync_form_code(const weft_sync *s, double *momentum) {
    wefti_form now;
    const char *why = why_fixed(s, &now);
    *momentum = why ? 0 : now.momentum;
    return why ? 0 : wefti_form_code(&now);
}

/* The rank around the same blocks, whose addresses the caller has. Gradients of the step to come
 * may be there already. */
static weft_status make_rank(weft_sync *s, const wefti_form *form) {
    weft_config *config;
    wefti_passage departed;
    wefti_rank *old = s->rank;
    float *grads = old->grads, *params;
    WEFT_TRY(wefti_sync_settle(s));
    WEFT_TRY(wefti_replicator_settle(old->replicator));
    WEFT_TRY(weft_config_copy(s->ctx, s->job->config, &config));
    WEFTI_TRY_OR(wefti_form_set(s->ctx, config, form),
                 weft_config_destroy(s->ctx, config));
    old->grads = NULL;
    wefti_rank_depart(&s->rank, &departed);
    weft_status made = wefti_sync_renew_job(s, config, NULL, s->step);
    weft_status arrived = wefti_rank_arrive(&departed, made == WEFT_OK ? s->job : NULL,
                                            &s->rank, &params);
    if (s->rank) {
        wefti_free(s->ctx, s->rank->grads);
        s->rank->grads = grads;
    } else {
        wefti_sync_free_block(s, &grads);
        wefti_sync_free_block(s, &params);
        s->borrowed = false;
    }
    WEFT_TRY(made);
    return arrived;
}

weft_status wefti_sync_change_form(weft_sync *s) {
    char name[WEFTI_FORM_TEXT];
    wefti_form now, next;
    int64_t asked = s->rank->last.form;
    if (asked == 0) return WEFT_OK;
    if (s->job->W < 2) {
        s->rank->last.form = 0;
        return WEFT_OK;
    }
    const char *why = obstacle(s, &now);
    bool known = is_asked(s, &next);
    if (!why) why = known ? wefti_form_refusal(&now, &next, s->step) : "it is no form";
    if (!why && now.outer && !next.outer && !s->rank->carried.has_mean)
        why = "the optimizer's states have no mean";
    if (why)
        return weft_ctx_fail(s->ctx, WEFT_ERR_WIRE,
                             "rank 0 asks for form %lld before step %lld: %s",
                             (long long)asked, (long long)s->step + 1, why);
    wefti_form_keep(&now, &next);
    WEFT_TRY(make_rank(s, &next));
    WEFT_TRY(wefti_sync_count_anew(s));
    s->primed = true;
    if (!s->replan) return WEFT_OK;
    wefti_sync_replan *p = s->replan;
    const wefti_replan_wish *w = p->plan && s->rank->rank == 0
                                     ? wefti_replan_wish_of(p->plan)
                                     : NULL;
    bool own = w && w->wants && wefti_form_same(&w->form, &next);
    snprintf(p->text, sizeof p->text, "from step %lld on %s", (long long)s->step + 1,
             own ? w->why : wefti_form_name(&next, name));
    wefti_replan_expected(own ? w : NULL, p->expected);
    if (p->plan) wefti_replan_changed(p->plan, &next);
    return WEFT_OK;
}

const char *weft_sync_form(const weft_sync *s, char *out, size_t out_size) {
    wefti_form now;
    char name[WEFTI_FORM_TEXT];
    const char *why = s->rank ? wefti_form_of(s->job->config, &now) : "";
    snprintf(out, out_size, "%s", why ? "" : wefti_form_name(&now, name));
    return out;
}

const char *weft_sync_form_change(weft_sync *s, double *expected) {
    wefti_sync_replan *p = s->replan;
    if (!p || !p->text[0]) return NULL;
    memcpy(p->shown, p->text, sizeof p->shown);
    if (expected) memcpy(expected, p->expected, sizeof p->expected);
    p->text[0] = '\0';
    return p->shown;
}

const char *weft_sync_alone(weft_sync *s) {
    wefti_sync_replan *p = s->replan;
    const weft_config *c = s->job->config;
    char form[WEFTI_FORM_TEXT], rows[24];
    wefti_form now;
    if (!p || !s->rank || !(p->alone > 0) || p->warned) return NULL;
    p->warned = true;
    if (!is_asked(s, &now) && obstacle(s, &now)) return NULL;
    snprintf(p->why_alone, sizeof p->why_alone,
             "one %s alone is expected to be %.2g times as fast as all %lld with %s: it "
             "computes the rows of a step in about %s",
             c->mesh.ranks_per_node == 1 ? "process" : "node", p->alone,
             (long long)c->mesh.nodes, wefti_form_name(&now, form),
             wefti_seconds_text((double)c->mesh.nodes * s->rank->last.computed_s, rows,
                                sizeof rows));
    return p->why_alone;
}
