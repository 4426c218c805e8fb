/* SPDX-License-Identifier: MIT */
/* The choice of method=auto, kept true:
 *
 *     first rank   each step -> planner/replan.h -> form, in its status
 *     all          the status of step t asks for it -> before t + 1: job, rank, views.jsonl */
#define _GNU_SOURCE
#include "train/following.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "planner/replan.h"
#include "rank/carried.h"
#include "train/regroup.h"

struct wefti_following {
    wefti_replan *replan; /* owned; NULL: not made yet, or not the first rank */
    wefti_budget budget;  /* in each process, for whoever is the first */
    bool off;             /* no plan can be made */
    char form[WEFTI_FORM_TEXT], changed[400]; /* what the run has, and why */
    double expected[WEFTI_REPLAN_EXPECTED];   /* of that */
};

/* ---- the plan ---- */

static weft_status make_replan(weft_ctx *ctx, const wefti_prepared *p,
                               wefti_following *f) {
    char path[PATH_MAX];
    weft_cluster *cluster = NULL; /* of a process with a folder of its own */
    if (f->replan) return WEFT_OK;
    WEFT_TRY(wefti_file_path(ctx, p->config->run.folder, "cluster.yaml", path));
    if (access(path, F_OK) == 0) WEFT_TRY(weft_cluster_load(ctx, path, &cluster));
    return wefti_replan_create(ctx, cluster, p->choice.loss, &f->replan);
}

static weft_status add(wefti_prepared *p, wefti_rank *r, int64_t step,
                       const wefti_form *now) {
    wefti_following *f = p->choice.following;
    const wefti_job *job = p->job;
    int64_t n = job->model->n_elements;
    int states = job->optimizer.most_states->n_states;
    WEFT_TRY(make_replan(r->ctx, p, f));
    const wefti_replan_step ended = {.config = job->config,
                                     .world = job,
                                     .now = *now,
                                     .step = step,
                                     .steps_left = job->config->run.steps - step,
                                     .parameters = n,
                                     .state_bytes = (double)states * sizeof(float) *
                                                    (double)n,
                                     .computing_s = r->last.computed_s,
                                     .wait_s = p->step.took_s - r->last.computed_s,
                                     .measure_s = job->config->decide.time,
                                     .budget = &f->budget,
                                     .day_s = wefti_day_now_s()};
    return wefti_replan_add(r->ctx, f->replan, &ended);
}

/* The first rank: the step before `step` has ended, and its status asks for the form that is
 * taken behind it. A plan that can not be made is no reason to end. */
static void look(wefti_prepared *p, wefti_rank *r, int64_t step, const wefti_form *now) {
    wefti_following *f = p->choice.following;
    r->says.form = 0;
    if (f->off || r->learners.open || p->step.took_s <= 0) return;
    if (add(p, r, step, now) == WEFT_OK) {
        r->says.form = wefti_replan_asks(f->replan, now, step + 1);
        return;
    }
    weft_ctx_log(r->ctx, WEFT_LOG_WARN, "method=auto goes on as it is: %s",
                 weft_ctx_message(r->ctx));
    weft_ctx_clear(r->ctx);
    f->off = true;
}

/* ---- the change ---- */

static weft_status change(wefti_prepared *p, wefti_rank **r, int64_t step,
                          const wefti_form *form, const weft_train_hooks *hooks) {
    wefti_following *f = p->choice.following;
    weft_mesh *mesh = p->bootstrap.mesh;
    char text[500], name[WEFTI_FORM_TEXT];
    bool leads = (*r)->rank == 0 && f->replan;
    const wefti_replan_wish *w = leads ? wefti_replan_wish_of(f->replan) : NULL;
    wefti_replan_expected(w, f->expected);
    wefti_passage departed;
    const wefti_regroup_batch batch = {.ranks = p->job->W,
                                       .rows_per_rank = p->job->batch.per_rank,
                                       .micro = p->job->B,
                                       .micros = p->job->batch.micros,
                                       .first_step = step,
                                       .first_row = wefti_rank_first_row(*r, step),
                                       .form = form};
    WEFT_TRY(wefti_replicator_settle((*r)->replicator));
    wefti_rank_depart(r, &departed);
    weft_status made = wefti_regroup_job(p->ctx, p, &batch);
    weft_status arrived = wefti_rank_arrive(&departed, made == WEFT_OK ? p->job : NULL, r,
                                            NULL);
    WEFT_TRY(made);
    WEFT_TRY(arrived);
    if (leads) wefti_replan_changed(f->replan, form);
    snprintf(text, sizeof text, "from step %lld on %s", (long long)step + 1,
             leads && w->why[0] ? w->why : wefti_form_name(form, name));
    if (leads && hooks && hooks->on_change) hooks->on_change(hooks->user, text);
    const wefti_viewlog_entry line = {.mesh = mesh,
                                      .job = p->job,
                                      .shared = true,
                                      .why = text,
                                      .expected = leads ? f->expected : NULL,
                                      .done = p->job->config->run.steps};
    for (int i = 0; i < WEFTI_RECENT; i++) /* of the form before, whose text this was */
        p->files.recent[i].form = p->files.recent[i].why = NULL;
    snprintf(f->changed, sizeof f->changed, "%.*s", (int)sizeof f->changed - 1, text);
    wefti_form_write(form, f->form);
    WEFT_TRY(wefti_viewlog_plan((*r)->ctx, p->views, &line));
    return wefti_viewlog_write((*r)->ctx, p->views);
}

weft_status wefti_follow_meet(wefti_prepared *p, wefti_rank *r, int64_t step) {
    wefti_form now, next;
    if (!p->job->run.follows || !r || r->last.form == 0 || r->learners.open ||
        wefti_form_of(p->job->config, &now) || !wefti_form_decode(r->last.form, &next) ||
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
    if (!why && now->outer && !next->outer && !r->carried.has_mean)
        return "its states have no mean";
    return why;
}

weft_status wefti_follow(wefti_prepared *p, wefti_rank **r, int64_t step,
                         const weft_train_hooks *hooks) {
    wefti_form now, next;
    if (!p->job->run.follows) return WEFT_OK;
    if (!p->choice.following)
        WEFT_TRY(wefti_alloc(p->ctx, sizeof *p->choice.following, "the choice",
                             &p->choice.following));
    const char *obstacle = wefti_form_of(p->job->config, &now);
    int64_t asked = (*r)->last.form, left = p->job->config->run.steps - step;
    wefti_budget *budget = &p->choice.following->budget;
    budget->per_day = p->choice.bytes_per_day;
    budget->busy = p->choice.busy;
    if (p->step.took_s > 0)
        wefti_budget_add(budget, p->step.took_s, (*r)->now.tally.wire_out);
    if (obstacle || left < 1) return WEFT_OK;
    if (!p->choice.following->form[0]) wefti_form_write(&now, p->choice.following->form);
    if (asked > 0 && !(*r)->learners.open) {
        bool known = wefti_form_decode(asked, &next);
        const char *why = known ? why_not(*r, &now, &next, step) : "it is no form";
        if (why)
            return weft_ctx_fail((*r)->ctx, WEFT_ERR_WIRE,
                                 "rank 0 asks for form %lld before step %lld: %s",
                                 (long long)asked, (long long)step + 1, why);
        wefti_form_keep(&now, &next);
        WEFT_TRY(change(p, r, step, &next, hooks));
        now = next;
    } else if ((*r)->rank == 0) {
        look(p, *r, step, &now);
    }
    p->step.took_s = 0;
    return WEFT_OK;
}

void wefti_following_tell(const wefti_prepared *p, weft_step_record *record) {
    const wefti_following *f = p->choice.following;
    if (!f || !f->form[0]) return;
    record->form = f->form;
    record->why = f->changed[0] ? f->changed : NULL;
    record->gain = f->expected[WEFTI_EXPECT_GAIN];
    record->planned_s = f->expected[WEFTI_EXPECT_STEP];
}

void wefti_following_end(wefti_prepared *p) {
    if (!p->choice.following) return;
    wefti_replan_destroy(p->ctx, p->choice.following->replan);
    wefti_free(p->ctx, p->choice.following);
    p->choice.following = NULL;
}
