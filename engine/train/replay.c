/* SPDX-License-Identifier: MIT */
/* A run with failures, replayed in one process: the ranks of each view are threads, and
 * everything that was decided by chance then is read from views.jsonl.
 *
 *     view 1           ranks 0 1 2     steps 1..30    messages that counted nowhere are received
 *       | ranks that stay keep arrays                 and dropped by the ranks that lacked them
 *     view 2           ranks 0 2       steps 31..     sum of checksums = that of the log
 *       | new ranks get their state as then (handover.h)
 *     ...              until the last step that the folder knows of
 *
 * A rank that was lost is played to the end of its view: what it would have sent after
 * its death is in the lists of messages that did not count. What it received in its last
 * steps is unknown; where two ranks were lost at once that can matter, and then a
 * checksum shows it.
 *
 * Compared are: the sum of the checksums before each view, the loss of each step, and all
 * numbers of the newest checkpoint. If a rank was lost right after the step of that
 * checkpoint, the ranks that are left write it again before their first step: then it
 * holds their numbers. */
#define _GNU_SOURCE
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <weft/report.h>
#include <weft/train.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/sized.h"
#include "comm/local.h"
#include "job/learning_rate.h"
#include "record/views.h"
#include "rank/learners.h"
#include "rank/handover.h"
#include "passes/passes.h"
#include "train/auditing.h"
#include "record/losses.h"
#include "train/prepare.h"
#include "rank/rank_threads.h"
#include "train/regroup.h"

/* A rank between two views. */
typedef struct actor {
    float *
        array[WEFTI_RANK_ARRAYS]; /* [n] parameters and all state; owned; n 0: none yet */
    wefti_array_role role[WEFTI_RANK_ARRAYS]; /* where the form may change */
    int n;
    bool bare;         /* a learner that had not received all of its state when its view
                          ended */
    uint64_t checksum; /* of the parameters */
} actor;

typedef struct replay {
    weft_ctx *ctx;
    wefti_prepared *p;
    const weft_train_hooks *hooks; /* or NULL */
    weft_replay_result *result;
    wefti_views views;
    wefti_audit audit; /* digests of messages, where the run recorded them */
    int64_t audited;   /* the only step that is asked for; 0: all */
    wefti_losses
        losses;   /* one that differs: the digests of its step say why, if any do */
    int64_t last; /* the last step, counted from 1 */
    double start_s;

    /* the view that is being played */
    const wefti_view_line *view;
    wefti_world *world;
    actor *actors; /* [view members] */
    int n_actors;
    bool *has;   /* [view members] which have state when the view begins */
    bool starts; /* the run was started, or resumed, with this view */
    bool loads;  /* resumed: the state comes from the checkpoint */
    int64_t end; /* the view's last step, counted from 1 */
    int64_t
        begins; /* an audit of one step: index of the view whose rest is played; or -1 */
    int64_t writer; /* index of the view that wrote the checkpoint before its first step;
                       -1: it was written at the end of one */
    bool wrote;     /* that view is the one being played */
} replay;

/* --- a rank's arrays --- */

static size_t array_bytes(const wefti_rank *r) {
    return (size_t)r->arrangement->n_elements * sizeof(float);
}

static void free_actor(weft_ctx *ctx, actor *a) {
    for (int i = 0; i < a->n; i++) wefti_free(ctx, a->array[i]);
    *a = (actor){0};
}

static weft_status keep(replay *p, wefti_rank *r) {
    actor *a = &p->actors[r->rank];
    float **arrays[WEFTI_RANK_ARRAYS];
    int n = wefti_rank_arrays(r, arrays);
    free_actor(p->ctx, a);
    for (int i = 0; i < n; i++) {
        WEFT_TRY(wefti_alloc_n(p->ctx, r->arrangement->n_elements, sizeof(float),
                               "parameters and state", &a->array[i]));
        a->n = i + 1;
        memcpy(a->array[i], *arrays[i], array_bytes(r));
    }
    if (p->view->form[0]) wefti_rank_roles(r, a->role);
    a->checksum = XXH3_64bits(r->params, array_bytes(r));
    a->bare = wefti_rank_is_learner(r);
    return WEFT_OK;
}

static weft_status restore(const replay *p, wefti_rank *r) {
    actor *a = &p->actors[r->rank];
    float **arrays[WEFTI_RANK_ARRAYS];
    if (wefti_view_changes_form(p->view))
        return wefti_rank_adopt(r, a->role, a->array, a->n);
    int n = wefti_rank_arrays(r, arrays);
    if (n != a->n)
        return weft_ctx_fail(r->ctx, WEFT_ERR_INTERNAL, "a rank has %d arrays, had %d", n,
                             a->n);
    for (int i = 0; i < n; i++) memcpy(*arrays[i], a->array[i], array_bytes(r));
    return WEFT_OK;
}

static weft_status fill(const replay *p, wefti_rank *r) {
    const wefti_prepared *prepared = p->p;
    const char *init = prepared->job->config->model.init;
    if (p->loads)
        WEFT_TRY(
            wefti_state_check(r->ctx, r->job, &prepared->saved, prepared->saved_path));
    if (p->loads) return wefti_state_load(r, &prepared->saved, prepared->saved_path);
    if (p->actors[r->rank].n > 0) WEFT_TRY(restore(p, r));
    bool changes = wefti_view_changes_form(p->view) && p->view->shared;
    if ((p->starts || changes) && p->actors[r->rank].n > 0) return WEFT_OK;
    if (p->starts) {
        wefti_rank_init_params(r);
        return init[0] ? wefti_load_initial(r, init) : WEFT_OK;
    }
    const wefti_learners_plan plan = {p->view->learners, p->view->slices, p->view->from};
    if (plan.n > 0) {
        WEFT_TRY(wefti_learners_begin(r, &plan));
        wefti_mixer_meet_anew(r->mixer, r->job->from.step);
        return WEFT_OK;
    }
    if (!p->has[r->rank]) /* zeros, as then */
        memset(r->params, 0, (size_t)r->arrangement->n_elements * sizeof(float));
    WEFT_TRY(wefti_handover(r, p->has));
    wefti_mixer_meet_anew(r->mixer, r->job->from.step);
    return wefti_handover_compare(r, p->has);
}

/* --- steps --- */

static weft_status judge_losses(const replay *p, weft_ctx *ctx) {
    if (p->losses.wrong_step == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_NUMERIC, "%s", p->losses.wrong);
}

/* Compares what was sent in the step of which this one's status tells. A loss that differed
 * is an error only if no message says whose it is, to the end of the view. */
static weft_status compare_sent(replay *p, const wefti_rank *r, int64_t step) {
    int64_t past = step - r->job->lag.audit;
    bool asked = p->audited <= 0 || past <= p->audited;
    if (asked && p->audit.n > 0 && r->audit.digests && past > r->job->from.step)
        WEFT_TRY(wefti_audit_compare(&p->audit, r, past, p->view));
    bool open = p->audit.n > 0 && (step < p->end || p->audited > 0);
    return open ? WEFT_OK : judge_losses(p, r->ctx);
}

static weft_status tell(replay *p, wefti_rank *r, int64_t step,
                        const wefti_step_status *agreed) {
    const wefti_job *job = p->p->job;
    int64_t tokens = (wefti_rank_first_row(r, step + 1) - wefti_rank_first_row(r, step)) *
                     job->T;
    double loss = agreed->loss_sum / (agreed->rows * (double)job->T);
    double elapsed_s = wefti_now_s() - p->start_s, done = (double)(step + 1);
    weft_step_record record = {.step = step + 1,
                               .steps = p->last,
                               .loss = loss,
                               .lr = wefti_learning_rate(job->config, step),
                               .tokens = tokens,
                               .tokens_per_s = (double)tokens * done / elapsed_s,
                               .consensus_distance = NAN,
                               .hidden_share = 1,
                               .mean_of_all = -1,
                               .late = -1,
                               .elapsed_s = elapsed_s,
                               .left_s = elapsed_s / done * (double)(p->last - step - 1)};
    const wefti_played_step played = {step + 1, loss, agreed->counted / job->W};
    wefti_losses_played(&p->losses, r->rank, &played, p->end);
    if (r->rank != 0) return WEFT_OK;
    p->result->steps = step + 1;
    p->result->loss = loss;
    if (p->hooks && p->hooks->on_step) p->hooks->on_step(p->hooks->user, &record);
    return compare_sent(p, r, step + 1);
}

/* Reads the status of the steps up to `step`; *counted: the first step that is not read
 * yet. */
static weft_status read_status(replay *p, wefti_rank *r, int64_t step, int64_t *counted) {
    for (; *counted <= step; ++*counted) {
        wefti_step_status agreed;
        WEFT_TRY(wefti_rank_read_status(r, *counted, &agreed));
        WEFT_TRY(tell(p, r, *counted, &agreed));
        if (*counted > r->job->from.step) wefti_rank_control(r, *counted, &agreed);
    }
    return WEFT_OK;
}

static uint64_t hash_all(wefti_rank *r) {
    float **arrays[WEFTI_RANK_ARRAYS];
    uint64_t sum = 0;
    int n = wefti_rank_arrays(r, arrays);
    for (int i = 0; i < n; i++)
        sum = XXH3_64bits_withSeed(*arrays[i], array_bytes(r), sum);
    bool partners = r->mixer->ops->keeps_partners; /* not among the arrays */
    for (int i = 0; i < r->mixer->n_states && partners; i++)
        sum = XXH3_64bits_withSeed(r->mixer->state[i], array_bytes(r), sum);
    return sum;
}

/* Reads the checkpoint over the values that were played: that must change nothing. */
static weft_status compare_checkpoint(replay *p, wefti_rank *r) {
    const wefti_saved_layout *saved = &p->p->saved;
    if (saved->replicas != wefti_rank_replicas(r))
        return weft_ctx_fail(r->ctx, WEFT_ERR_CONFIG,
                             "%s has %lld replicas, views.jsonl says that %d took part",
                             p->p->saved_path, (long long)saved->replicas,
                             wefti_rank_replicas(r));
    uint64_t played = hash_all(r);
    WEFT_TRY(wefti_state_check(r->ctx, r->job, saved, p->p->saved_path));
    WEFT_TRY(wefti_state_load(r, saved, p->p->saved_path));
    uint64_t then = hash_all(r);
    if (r->rank == 0) p->result->checkpoint = saved->step;
    if (played == then) return WEFT_OK;
    return weft_ctx_fail(r->ctx, WEFT_ERR_NUMERIC,
                         "after step %lld rank %d has parameters and state of checksum "
                         "%016llx, %s has %016llx",
                         (long long)saved->step, r->rank, (unsigned long long)played,
                         p->p->saved_path, (unsigned long long)then);
}

/* Done by the ranks that take part. */
static weft_status look_back(replay *p, wefti_rank *r, int64_t done) {
    WEFT_TRY(wefti_rank_control_early(r, done));
    if (done != p->p->saved.step || p->writer >= 0) return WEFT_OK;
    return compare_checkpoint(p, r);
}

/* Compares the checkpoint that was written again when the view had begun. */
static weft_status look_first(replay *p, wefti_rank *r) {
    if (!p->wrote) return WEFT_OK;
    wefti_learners_set_aside(r, p->p->saved.step, true);
    weft_status status = wefti_rank_is_learner(r) ? WEFT_OK : compare_checkpoint(p, r);
    wefti_learners_set_aside(r, p->p->saved.step, false);
    return status;
}

/* Repeats what a checkpoint did to the run, and compares what it holds. */
static weft_status after_step(replay *p, wefti_rank *r, int64_t done, int64_t *counted) {
    const weft_config *c = p->p->job->config;
    bool compares = done == p->p->saved.step;
    bool saves = c->run.save_every > 0 && done % c->run.save_every == 0;
    if (!saves && !compares && done != c->run.steps) return WEFT_OK;
    WEFT_TRY(read_status(p, r, done - 1, counted));
    /* The run took in the messages in flight (replicator.delay) before it wrote down its
     * state. */
    WEFT_TRY(wefti_replicator_settle(r->replicator));
    wefti_learners_set_aside(r, done, true);
    weft_status status = wefti_rank_is_learner(r) ? WEFT_OK : look_back(p, r, done);
    wefti_learners_set_aside(r, done, false);
    return status;
}

static weft_status play_steps(replay *p, wefti_rank *r) {
    int64_t counted = r->job->from.step;
    for (int64_t step = r->job->from.step; step < p->end; step++) {
        wefti_tally tally;
        bool ends;
        WEFT_TRY(wefti_learners_step(r, NULL, step));
        WEFT_TRY(wefti_rank_step(r, step));
        WEFT_TRY(wefti_rank_settle(r, &tally));
        WEFT_TRY(read_status(p, r, step - r->job->lag.status, &counted));
        wefti_rank_end(r, 0);
        WEFT_TRY(wefti_learners_end(r, step + 1, &ends)); /* as in run.c */
        WEFT_TRY(after_step(p, r, step + 1, &counted));
    }
    /* Messages in flight belong to the view in which they were sent
     * (replicator.delay). */
    WEFT_TRY(wefti_replicator_settle(r->replicator));
    return read_status(p, r, p->end - 1, &counted);
}

static weft_status play_rank(wefti_slot *slot) {
    replay *p = slot->user;
    wefti_comms comms;
    WEFT_TRY(wefti_comms_join(slot->ctx, p->world, slot->rank, &comms));
    WEFT_TRY(wefti_rank_create(slot->ctx, p->p->job, slot->rank, &comms, &slot->state));
    slot->state->replays = true;
    WEFT_TRY(fill(p, slot->state));
    WEFT_TRY(wefti_rank_prime(slot->state));
    WEFT_TRY(look_first(p, slot->state));
    WEFT_TRY(play_steps(p, slot->state));
    return keep(p, slot->state);
}

/* --- a view --- */

static int rank_at(const wefti_view_line *view, int place) {
    for (int r = 0; r < view->n_members; r++)
        if (view->members[r].place == place) return r;
    return -1;
}

/* Appends the messages of a line; places become ranks of the view. */
static weft_status add_skips(weft_ctx *ctx, const wefti_view_line *view,
                             const wefti_skip_line *line, wefti_missed **list, int *n) {
    if (!line->complete)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "views.jsonl does not say all that did not count in step "
                             "%lld, so the run can not be played again",
                             (long long)line->step);
    WEFT_TRY(wefti_grow(ctx, list, *n, *n + line->n, sizeof **list, "skipped messages"));
    for (int i = 0; i < line->n; i++) {
        const wefti_view_skip *s = &line->list[i];
        int64_t step = line->step - 1;
        int64_t tag = s->channel == WEFTI_GROUP_WORLD * 8
                          ? step
                          : wefti_comm_tag(step, s->bucket, s->stage);
        int receiver = rank_at(view, s->receiver), sender = rank_at(view, s->sender);
        if (receiver < 0 || sender < 0)
            return weft_ctx_fail(
                ctx, WEFT_ERR_FORMAT,
                "views.jsonl: a message of step %lld was skipped between "
                "places %d and %d, which are not both members then",
                (long long)line->step, s->sender, s->receiver);
        (*list)[(*n)++] = (wefti_missed){tag, s->channel, receiver, sender, 1};
    }
    return WEFT_OK;
}

static weft_status collect_skips(replay *p, wefti_missed **list, int *n) {
    *list = NULL;
    *n = 0;
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < p->views.n_skips && status == WEFT_OK; i++) {
        const wefti_skip_line *line = &p->views.skips[i];
        if (line->run == p->view->run && line->view == p->view->view)
            status = add_skips(p->ctx, p->view, line, list, n);
    }
    return status;
}

static weft_status run_ranks(replay *p) {
    wefti_world_shape shape = wefti_job_shape(p->p->job);
    wefti_missed *skipped;
    int n;
    WEFT_TRY(wefti_losses_begin(p->ctx, &p->losses, p->p->job->W));
    weft_status status = collect_skips(p, &skipped, &n);
    if (status == WEFT_OK) status = wefti_local_create(p->ctx, &shape, &p->world);
    if (status == WEFT_OK) {
        wefti_local_skip(p->world, skipped, n);
        status = wefti_rank_threads_run(p->ctx, p->world, p->p->job->run.threads,
                                        play_rank, p);
        wefti_world_destroy(p->ctx, p->world);
    }
    wefti_free(p->ctx, skipped);
    WEFT_TRY(status);
    wefti_losses_end(p->ctx, &p->losses);
    return p->audit.n > 0 && p->audited > 0 ? WEFT_OK : judge_losses(p, p->ctx);
}

/* Makes the actors of the next view: a rank that stays moves to its new place. In a
 * resumed run ranks keep their numbers, whatever the processes are called now. */
static weft_status cast(replay *p, const wefti_view_line *before) {
    actor *next;
    const wefti_view_line *view = p->view;
    WEFT_TRY(wefti_alloc_n(p->ctx, view->n_members, sizeof *next, "ranks", &next));
    for (int r = 0; r < p->n_actors; r++) {
        int to = p->starts ? r : rank_at(view, before->members[r].place);
        bool same = to >= 0 && to < view->n_members && !p->loads &&
                    (p->starts || view->members[to].name == before->members[r].name);
        if (same)
            next[to] = p->actors[r];
        else
            free_actor(p->ctx, &p->actors[r]);
    }
    wefti_free(p->ctx, p->actors);
    p->actors = next;
    p->n_actors = view->n_members;
    wefti_free(p->ctx, p->has);
    p->has = NULL;
    WEFT_TRY(wefti_alloc_n(p->ctx, view->n_members, sizeof *p->has, "ranks", &p->has));
    for (int r = 0; r < view->n_members; r++) {
        bool learner = r >= view->n_members - view->learners * view->shards;
        bool without = view->members[r].without;
        p->has[r] = next[r].n > 0 && !next[r].bare && !learner && !without;
    }
    return WEFT_OK;
}

static weft_status compare_checksums(replay *p) {
    uint64_t sum = 0;
    int n = 0;
    for (int r = 0; r < p->n_actors; r++) {
        if (p->has[r]) sum += p->actors[r].checksum;
        n += p->has[r];
    }
    if (!p->starts && n == 0)
        return weft_ctx_fail(
            p->ctx, WEFT_ERR_FORMAT,
            "views.jsonl: nobody of the view of step %lld took part before",
            (long long)p->view->step);
    if (p->starts || !p->view->has_checksum) return WEFT_OK;
    p->result->compared++;
    if (sum == p->view->checksum) return WEFT_OK;
    return weft_ctx_fail(p->ctx, WEFT_ERR_NUMERIC,
                         "before step %lld the parameters of all ranks have checksum "
                         "%016llx, views.jsonl has %016llx",
                         (long long)p->view->step, (unsigned long long)sum,
                         (unsigned long long)p->view->checksum);
}

static weft_status read_form(weft_ctx *ctx, const wefti_view_line *v, wefti_form *out) {
    if (wefti_form_read(v->form, out)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_FORMAT,
                         "views.jsonl: the view of step %lld has the form '%s', expected "
                         "such as 'full f32' or 'outer f32 50 0.4'",
                         (long long)v->step, v->form);
}

static weft_status make_job(replay *p) {
    const wefti_view_line *v = p->view;
    wefti_job *job = p->p->job;
    wefti_regroup_batch batch = {.ranks = v->n_members,
                                 .rows_per_rank = v->rows_per_rank,
                                 .micro = v->micro,
                                 .first_step = v->step - 1,
                                 .first_row = v->first_row};
    if (v->shards != job->S || strcmp(v->kernels, job->pass_kernels->name) != 0)
        return weft_ctx_fail(
            p->ctx, WEFT_ERR_CONFIG,
            "the view of step %lld has %d ranks per copy of the model and "
            "kernels %s, this replay %d and %s",
            (long long)v->step, v->shards, v->kernels, job->S, job->pass_kernels->name);
    if (v->learners * v->shards >= v->n_members)
        return weft_ctx_fail(
            p->ctx, WEFT_ERR_FORMAT,
            "views.jsonl: the view of step %lld has %d copies without state "
            "among %d ranks, expected fewer",
            (long long)v->step, v->learners, v->n_members);
    if (v->rows_per_rank > INT64_MAX / 4 / job->T / v->n_members)
        return weft_ctx_fail(p->ctx, WEFT_ERR_FORMAT,
                             "views.jsonl: %lld sequences per rank are too many",
                             (long long)v->rows_per_rank);
    job->run.threads = v->threads;
    int *places;
    WEFT_TRY(wefti_alloc_n(p->ctx, v->n_members, sizeof *places, "places", &places));
    int64_t *rows = NULL, *micros;
    weft_status status = wefti_alloc_n(p->ctx, v->n_members, sizeof *micros, "passes",
                                       &micros);
    if (job->run.measures && v->members[0].rows > 0 && status == WEFT_OK)
        status = wefti_alloc_n(p->ctx, 2 * (int64_t)v->n_members, sizeof *rows, "shares",
                               &rows);
    bool goes_on = !p->starts && v->shared &&
                   !wefti_view_changes_form(v); /* with other rows */
    for (int r = 0; r < v->n_members; r++) {
        places[r] = v->members[r].place;
        if (micros) micros[r / v->shards] = v->members[r].micro;
        if (rows) rows[r] = v->members[r].rows;
        if (rows) rows[v->n_members + r] = v[goes_on ? -1 : 0].members[r].rows;
    }
    batch.places = places;
    batch.micros = micros;
    batch.rows = rows;
    batch.before = rows ? rows + v->n_members : NULL;
    wefti_form form;
    if (v->form[0] && status == WEFT_OK) status = read_form(p->ctx, v, &form);
    if (v->form[0]) batch.form = &form;
    if (status == WEFT_OK) status = wefti_regroup_job(p->ctx, p->p, &batch);
    WEFTI_FREE(p->ctx, places, rows, micros);
    return status;
}

/* A resumed run begins from what was played, or from its checkpoint if the number of
 * ranks differs or a method keeps something that is not handed on here. */
static weft_status resume(replay *p) {
    const wefti_job *job = p->p->job;
    bool first = p->view->step == 1;
    bool carries = job->replicas_equal && p->n_actors == p->view->n_members;
    p->loads = p->starts && !first && !carries;
    if (p->starts && first && p->n_actors > 0)
        return weft_ctx_fail(p->ctx, WEFT_ERR_FORMAT,
                             "views.jsonl: the run begins anew in its middle");
    if (!p->loads || p->p->saved.step == p->view->step - 1) return WEFT_OK;
    return weft_ctx_fail(
        p->ctx, WEFT_ERR_CONFIG,
        "the run was resumed after step %lld from a checkpoint that is not "
        "the newest one any more; expected a run that was never resumed, or "
        "with as many ranks and equal replicas",
        (long long)p->view->step - 1);
}

static void announce(const replay *p) {
    char text[256];
    const wefti_view_line *v = p->view;
    if (!p->hooks || !p->hooks->on_change) return;
    snprintf(text, sizeof text, "steps %lld to %lld: %d rank%s%s, %d lost, %d came",
             (long long)v->step, (long long)p->end, v->n_members,
             v->n_members > 1 ? "s" : "", p->starts ? " begin" : "", v->n_lost,
             v->n_joined);
    p->hooks->on_change(p->hooks->user, text);
}

static weft_status play_view(replay *p, int64_t i, const wefti_view_line *before) {
    const wefti_view_line *views = p->views.views;
    p->view = &views[i];
    p->starts = (views[i].view == 1 && !views[i].shared) || i == p->begins;
    p->end = i + 1 < p->views.n_views ? views[i + 1].step - 1 : p->last;
    if (p->end > p->last) p->end = p->last;
    p->wrote = i == p->writer;
    bool apart = i > p->begins && views[i].apart;
    if (apart || (i == 0 && !p->starts))
        return weft_ctx_fail(p->ctx, WEFT_ERR_CONFIG,
                             "views.jsonl %s with view %lld, expected %s; "
                             "where members see different folders, it is in another one",
                             apart ? "goes on" : "begins", (long long)views[i].view,
                             apart ? "those between it and the one before"
                                   : "the run's first");
    WEFT_TRY(resume(p));
    WEFT_TRY(cast(p, before));
    WEFT_TRY(compare_checksums(p));
    if (p->starts || p->view->has_checksum) p->audit.known = p->view->step - 1;
    WEFT_TRY(make_job(p));
    announce(p);
    p->result->views++;
    return run_ranks(p);
}

/* --- all of it --- */

/* Finds the last step of which the folder says anything. */
static void find_end(replay *p) {
    const wefti_view_line *views = p->views.views;
    p->last = views[p->views.n_views - 1].step - 1;
    if (p->p->saved.step > p->last) p->last = p->p->saved.step;
    p->last = wefti_losses_newest(&p->losses, p->last, p->p->job->config->run.steps);
}

/* Finds the last view that begins right after the checkpoint and has as many copies of
 * the model. */
static void find_writer(replay *p) {
    const wefti_saved_layout *saved = &p->p->saved;
    p->writer = -1;
    for (int64_t i = 0; i < p->views.n_views; i++) {
        const wefti_view_line *v = &p->views.views[i];
        bool next = v->view != 1 && !v->shared && v->step - 1 == saved->step;
        if (next && v->n_members / v->shards - v->learners == saved->replicas)
            p->writer = i;
    }
}

static weft_status play(replay *p) {
    const wefti_view_line *before = NULL;
    weft_status status = wefti_views_check(p->ctx, &p->views);
    find_end(p);
    int64_t covered = p->audited +
                      p->p->job->lag.audit; /* of one step: in this step's status */
    if (p->audited > 0 && p->last > covered) p->last = covered;
    if (p->audited > 0)
        p->begins = wefti_audit_begin(&p->views, &p->p->saved, p->audited);
    find_writer(p);
    p->start_s = wefti_now_s();
    for (int64_t i = p->begins > 0 ? p->begins : 0;
         i < p->views.n_views && status == WEFT_OK; i++) {
        if (p->audited > 0 && p->views.views[i].step > p->last) break;
        const wefti_view_line *next = i + 1 < p->views.n_views ? &p->views.views[i + 1]
                                                               : NULL;
        if (next && next->step == p->views.views[i].step && next->view == 1 &&
            !next->shared)
            continue; /* it took no step that counts */
        status = play_view(p, i, before);
        before = p->view;
    }
    p->result->elapsed_s = wefti_now_s() - p->start_s;
    return status;
}

/* The configuration of the run, without what only slows it down. */
static weft_status open_config(weft_ctx *ctx, const char *folder, const char *kernels,
                               weft_config **out) {
    static const char *const off[] = {
        "mesh.link=none", "mesh.site_link=none", "mesh.compute_time=0",
        "mesh.straggler_time=0",
        "run.audit=true"}; /* a resumed run may have dropped it */
    char path[PATH_MAX], text[PATH_MAX + 32];
    weft_config *config;
    snprintf(path, sizeof path, "%.4000s/config.yaml", folder);
    WEFT_TRY(weft_config_create(ctx, out));
    config = *out;
    WEFT_TRY(weft_config_load(ctx, config, path));
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        WEFT_TRY(weft_config_set(ctx, config, off[i]));
    snprintf(text, sizeof text, "mesh.kernels=%s", kernels);
    WEFT_TRY(weft_config_set(ctx, config, text));
    snprintf(text, sizeof text, "run.folder=%.4000s", folder);
    WEFT_TRY(weft_config_set(ctx, config, text));
    WEFT_TRY(weft_config_finish(ctx, config));
    if (config->mixer.deadline == 0) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%s ran with mixer.deadline, under which chance decides which "
                         "messages count, and nobody writes that down",
                         folder);
}

/* Of an audit of one step: the checkpoint from which it begins. */
static weft_status open_audit(replay *p, const char *folder, const char *path) {
    WEFT_TRY(wefti_audit_read(p->ctx, path, &p->audit));
    if (p->audited < 0) return WEFT_OK;
    WEFT_TRY(wefti_audit_check(p->ctx, &p->audit, path, p->audited));
    if (p->audited == 0) return WEFT_OK;
    return wefti_state_find(p->ctx, folder, false, p->audited, &p->p->saved,
                            p->p->saved_path);
}

static weft_status open_files(replay *p, const char *folder, weft_config **config) {
    char path[PATH_MAX];
    WEFT_TRY(weft_run_look(p->ctx, folder));
    snprintf(path, sizeof path, "%.4000s/views.jsonl", folder);
    WEFT_TRY(wefti_views_read(p->ctx, path, &p->views));
    if (p->views.n_views == 0)
        return weft_ctx_fail(p->ctx, WEFT_ERR_FILE,
                             "%s says nothing of who took part in the run", path);
    WEFT_TRY(open_config(p->ctx, folder, p->views.views[0].kernels, config));
    WEFT_TRY(wefti_prepare(p->ctx, NULL, *config, WEFTI_PREPARE_REPLAY, &p->p));
    snprintf(path, sizeof path, "%.4000s/metrics.jsonl", folder);
    WEFT_TRY(wefti_losses_read(p->ctx, path, &p->losses));
    return open_audit(p, folder, path);
}

/* audited: a step, 0: all, -1: all, and digests need not be there. */
static weft_status play_run(weft_ctx *ctx, const char *run_folder, int64_t audited,
                            const weft_train_hooks *hooks, weft_replay_result *result) {
    weft_config *config = NULL;
    WEFTI_SIZED_IN(ctx, weft_train_hooks, hooks);
    WEFTI_SIZED_OUT(ctx, weft_replay_result, result);
    *result = (weft_replay_result){
        .struct_size = sizeof(weft_replay_result), .checkpoint = -1, .loss = NAN};
    replay p = {.ctx = ctx, .hooks = hooks, .result = result, .audited = audited};
    p.begins = p.audit.node = -1;
    weft_status status = open_files(&p, run_folder, &config);
    if (status == WEFT_OK) status = play(&p);
    if (status == WEFT_OK && audited >= 0 && p.audit.compared == 0)
        status = weft_ctx_fail(ctx, WEFT_ERR_CONFIG, "%s: no digest could be compared",
                               run_folder);
    wefti_audit_end(ctx, &p.audit, result);
    for (int r = 0; r < p.n_actors; r++) free_actor(ctx, &p.actors[r]);
    wefti_free(ctx, p.actors);
    wefti_free(ctx, p.has);
    result->losses = p.losses.n_equal;
    wefti_losses_fini(ctx, &p.losses);
    wefti_views_fini(ctx, &p.views);
    weft_status closed = wefti_prepared_destroy(ctx, p.p);
    weft_config_destroy(ctx, config);
    return WEFTI_SIZED_GIVE(weft_replay_result, result,
                            status == WEFT_OK ? closed : status);
}

weft_status weft_replay(weft_ctx *ctx, const char *run_folder,
                        const weft_train_hooks *hooks, weft_replay_result *result) {
    return play_run(ctx, run_folder, -1, hooks, result);
}

weft_status weft_audit(weft_ctx *ctx, const char *run_folder, int64_t step,
                       const weft_train_hooks *hooks, weft_replay_result *result) {
    return play_run(ctx, run_folder, step, hooks, result);
}
