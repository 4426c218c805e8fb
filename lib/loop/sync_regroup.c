/* SPDX-License-Identifier: MIT */
/* A caller's loop that continues when processes are lost or join (weft_sync_setup.elastic): what is
 * special to it (loop.h), for a job of tensors alone, when the next step opens.
 *
 * Parameters and gradients stay where they are, because the caller has their addresses;
 * the gradients may already hold those of the next step. While a rank is rebuilt it uses
 * gradients of its own.
 *
 * A process that joins has created its tensors alone, in a world of one. In weft_sync_begin it
 * becomes a member, and all processes make the world of the first step that it takes part in:
 *
 *     joins:   create (alone) -> begin: member, of step F -> new world -> takes all -> step F
 *     others:  step F - 1 -> open(F): changed             -> new world -> give      -> step F
 *
 * Averages between steps are over all ranks, and nobody ends one before all have it. If membership
 * changes meanwhile, those that are left say whether they have it: if all do they keep it, as one
 * that is lost may have ended it; else all make it again in the new world. With shards a node is S
 * processes, which are lost, and join, together. */
#include <string.h>

#include "base/machine.h"
#include "base/memory.h"
#include "job/form.h"
#include "loop/sync.h"

/* --- whether, and the beginning --- */

bool wefti_sync_can_go_on(const weft_sync *s) {
    const wefti_job *job = s->job;
    if (!s->setup.elastic || !s->mesh || !s->mesh->transport->ops->inquire) return false;
    if (s->setup.skips || strcmp(job->config->mesh.on_loss, "go_on") != 0) return false;
    wefti_elastic_setup setup = wefti_loop_setup(job, s->joins, true);
    return !wefti_job_has_sites(job) && (job->S == 1 || job->copies == 1) &&
           wefti_elastic_fits(s->mesh, &setup);
}

/* Rank 0 draws the run's number now: two runs that meet must not take each other for the
 * same one. */
static weft_status share_run(weft_sync *s, uint64_t *run) {
    wefti_comm *all = s->rank->comms.control;
    uint64_t own = 0, *numbers;
    if (!wefti_machine_random(&own, sizeof own))
        return weft_ctx_fail(s->ctx, WEFT_ERR_INTERNAL,
                             "the system gives no random bytes");
    WEFT_TRY(wefti_alloc_n(s->ctx, all->size, sizeof own, "numbers of a run", &numbers));
    weft_status status = wefti_comm_all_gather(all, wefti_rank_control_tag(s->rank), &own,
                                               sizeof own, numbers);
    *run = numbers[0];
    wefti_free(s->ctx, numbers);
    return status;
}

weft_status wefti_sync_refuse_mesh(weft_sync *s) {
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_ARGUMENT,
        "the mesh has served an exchange that goes on when processes are "
        "lost; expected a mesh of its own for another one");
}

weft_status wefti_sync_start_membership(weft_sync *s) {
    if (!s->elastic || s->view.started) return WEFT_OK;
    if (s->mesh->elastic) return wefti_sync_refuse_mesh(s);
    wefti_elastic_setup setup = wefti_loop_setup(s->job, s->joins, true);
    setup.folder = s->text.folder;
    void *notice = NULL;
    if (s->joins)
        setup.run = s->mesh->transport->entry->run;
    else
        WEFT_TRY(share_run(s, &setup.run));
    if (!s->joins) WEFT_TRY(wefti_sync_compare_steps(s));
    weft_status status = wefti_sync_notice(s, &setup, &notice);
    if (status == WEFT_OK) status = wefti_elastic_start(s->ctx, s->mesh, &setup);
    wefti_free(s->ctx, notice);
    WEFT_TRY(status);
    s->view.started = true;
    if (s->joins) return WEFT_OK;
    return wefti_loop_gather(s->ctx, s->mesh, s->rank->comms.control,
                             wefti_rank_control_tag(s->rank));
}

/* --- from one world to the next --- */

/* Where the nodes of this world stood when the run began. */
static weft_status find_nodes(weft_sync *s, int n, int **nodes) {
    uint64_t name;
    int S = s->job->S;
    WEFT_TRY(wefti_alloc_n(s->ctx, n, sizeof **nodes, "nodes", nodes));
    for (int i = 0; i < n; i++) {
        wefti_elastic_who(s->mesh, i * S, &(*nodes)[i], &name);
        (*nodes)[i] /= S;
    }
    return WEFT_OK;
}

/* The same tensors, moved by the same rules, among the ranks that are present now. A process that
 * has no state takes the form of those who have; all others keep theirs. */
static weft_status make_job(weft_sync *s, const wefti_loop *l) {
    const wefti_elastic_world *world = &l->world;
    bool heard = s->bare && l->cards.heard; /* who has a state keeps its form */
    const wefti_sync_card *all = l->cards.all;
    const wefti_sync_card *first = heard ? &all[l->cards.first] : NULL;
    weft_config *config;
    wefti_form form;
    int *nodes = NULL;
    WEFT_TRY(weft_config_copy(s->ctx, s->job->config, &config));
    bool has_form = first && first->form > 0 && wefti_form_decode(first->form, &form);
    if (has_form)
        form.momentum = first->momentum >= 0 && first->momentum < 1 ? first->momentum : 0;
    if (has_form)
        WEFTI_TRY_OR(wefti_form_set(s->ctx, config, &form),
                     weft_config_destroy(s->ctx, config));
    config->mesh.nodes = world->size / s->job->S;
    config->mesh.ranks_per_node = s->job->S;
    WEFTI_TRY_OR(find_nodes(s, world->size / s->job->S, &nodes),
                 weft_config_destroy(s->ctx, config));
    return wefti_sync_renew_job(s, config, nodes, world->first_step);
}

static weft_status make_job_of(wefti_loop *l, const wefti_job **job) {
    static const char *const words[] = {"process goes", "processes go"};
    weft_sync *s = l->user;
    if (!s->bare) /* for itself nothing has changed */
        wefti_loop_tell(&l->world, l->world.size, words, s->text.change);
    WEFT_TRY(make_job(s, l));
    *job = s->job;
    return WEFT_OK;
}

static wefti_loop loop_of(weft_sync *s, wefti_bootstrap *members, wefti_sync_card *card) {
    static const wefti_loop_ops ops = {.say = wefti_sync_say,
                                       .hear = wefti_sync_hear,
                                       .make_job = make_job_of,
                                       .pass = wefti_sync_pass,
                                       .explain = wefti_sync_explain};
    return (wefti_loop){
        .ops = &ops,
        .user = s,
        .ctx = s->ctx,
        .rank_ctx = s->ctx,
        .mesh = s->mesh,
        .members = members,
        .rank = &s->rank,
        .bare = &s->bare,
        .cards = {.own = card, .n_bytes = sizeof *card, .shards = s->job->S}};
}

/* Of a rank without state only the block of parameters is kept, because its address must
 * not change. */
static void pack_block(weft_sync *s, wefti_loop *l) {
    if (!s->bare) return;
    l->carried.array[l->carried.n++] = s->rank->params;
    s->rank->params = NULL;
    wefti_rank_destroy(s->rank);
    s->rank = NULL;
}

/* Enters the next world, which has begun. Keeps the blocks whose addresses the caller has.
 * After a failure they belong to the rank again or, if there is no rank, are freed. */
static weft_status regroup(weft_sync *s) {
    weft_sync_report unused = {.struct_size = sizeof unused};
    wefti_bootstrap members = {0};
    wefti_sync_card card;
    wefti_loop l = loop_of(s, &members, &card);
    s->average.known = -1;
    if (s->begun) WEFT_TRY(wefti_sync_settle(s));
    WEFT_TRY(wefti_sync_read_status(s, s->step - 1, &unused));
    wefti_elastic_finish(s->mesh, s->step - 1, s->step - 1);
    float *grads = s->rank->grads;
    s->rank->grads = NULL;
    pack_block(s, &l);
    weft_status status = wefti_loop_enter(&l, s->step);
    s->view.number = l.world.number;
    wefti_bootstrap_leave(s->ctx, &members);
    if (s->rank) {
        wefti_free(s->ctx, s->rank->grads);
        s->rank->grads = grads;
    } else {
        wefti_sync_free_block(s, &grads);
        wefti_sync_free_block(s, &l.carried.array[0]);
        s->borrowed = false;
    }
    wefti_loop_leave(&l);
    if (s->world != &s->mesh->world) /* this process was alone */
        wefti_world_destroy(s->ctx, s->world);
    s->world = &s->mesh->world;
    s->primed = s->view.anew = !s->bare; /* a new mixer, in a new world */
    return status == WEFT_OK ? wefti_sync_count_anew(s) : status;
}

weft_status wefti_sync_follow(weft_sync *s) {
    weft_status status = WEFT_OK;
    bool changed = true;
    if (!s->elastic) return WEFT_OK;
    wefti_elastic_gather(s->mesh, true);
    while (changed && status == WEFT_OK) {
        status = wefti_elastic_begin(s->ctx, s->mesh, s->step, &changed);
        if (changed && status == WEFT_OK) status = regroup(s);
    }
    wefti_elastic_gather(s->mesh, false);
    return status;
}

/* Makes the average, and waits until all ranks have it. */
static weft_status average_once(weft_sync *s) {
    wefti_rank *r = s->rank;
    s->average.averaging = WEFTI_SYNC_AVERAGES;
    WEFT_TRY(wefti_rank_average(r));
    if (!s->elastic) return WEFT_OK;
    s->average.averaging += 1 + s->view.number;
    return wefti_comm_barrier(r->comms.control, wefti_rank_control_tag(r));
}

static size_t bytes_of(const weft_sync *s) {
    return (size_t)s->rank->arrangement->n_elements * sizeof(float);
}

/* Before a world begins: the parameters are again those before the average. */
static weft_status set_aside(weft_sync *s, bool has_mean) {
    if (has_mean && !s->average.aside) {
        WEFT_TRY(wefti_alloc(s->ctx, bytes_of(s), "a mean", &s->average.aside));
        memcpy(s->average.aside, s->rank->params, bytes_of(s));
    }
    wefti_rank_restore(s->rank);
    return WEFT_OK;
}

static void drop_mean(weft_sync *s) {
    wefti_free(s->ctx, s->average.aside);
    s->average.aside = NULL;
}

static void take_back(weft_sync *s) {
    if (s->average.aside) memcpy(s->rank->params, s->average.aside, bytes_of(s));
    drop_mean(s);
}

/* An average was interrupted. *made: all who are left have it. If no new world begins here, some
 * rank is in the next step already, and it has heard from every rank that all have the average. */
static weft_status go_on_averaging(weft_sync *s, bool *made) {
    bool changed, has_mean = s->average.averaging > WEFTI_SYNC_AVERAGES;
    WEFT_TRY(set_aside(s, has_mean));
    WEFT_TRY(wefti_elastic_begin(s->ctx, s->mesh, s->step, &changed));
    if (!changed && !has_mean)
        return weft_ctx_fail(s->ctx, WEFT_ERR_INTERNAL,
                             "an average of all ended early, and the world has not "
                             "changed before step %lld",
                             (long long)s->step + 1);
    if (changed) WEFT_TRY(regroup(s));
    *made = !changed || s->average.known > s->average.n_ended;
    if (*made) take_back(s);
    return WEFT_OK;
}

static weft_status average_anyhow(weft_sync *s) {
    bool made;
    weft_status status = average_once(s);
    while (s->elastic && wefti_elastic_interrupted(s->ctx, s->mesh, status)) {
        WEFT_TRY(go_on_averaging(s, &made));
        if (made) return WEFT_OK;
        if (s->average.known < 0) continue; /* interrupted: the next world begins */
        drop_mean(s);
        status = average_once(s);
    }
    return status;
}

weft_status wefti_sync_average_all(weft_sync *s) {
    if (s->begun && s->average.missed)
        return weft_ctx_fail(s->ctx, WEFT_ERR_PEER,
                             "the run has ended without it, or goes on: before step %lld "
                             "the others made their average as this process came",
                             (long long)s->step + 1);
    wefti_elastic_gather(s->mesh, true);
    weft_status status = average_anyhow(s);
    s->average.averaging = 0;
    wefti_elastic_gather(s->mesh, false);
    if (status == WEFT_OK) s->average.n_ended++;
    return status;
}

/* Other processes may not know yet that all have the last average. They hear that this one has
 * begun the next step or, if a new world begins here, that it has ended the average. */
void wefti_sync_part(weft_sync *s) {
    bool changed;
    if (!s->elastic || !s->view.started || !s->rank || s->average.n_ended == 0) return;
    if (wefti_elastic_begin(s->ctx, s->mesh, s->step, &changed) != WEFT_OK || !changed)
        return;
    if (s->average.held && set_aside(s, true) != WEFT_OK) return;
    if (wefti_sync_follow(s) == WEFT_OK) take_back(s);
}

/* --- a process that joins --- */

static weft_status refuse_entry(weft_sync *s) {
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_CONFIG,
        "this exchange can not come into a run that trains: expected setup.elastic, "
        "mesh.on_loss=go_on, one copy of the model per node, no skips and no "
        "mixer.deadline");
}

weft_status wefti_sync_join(weft_sync *s) {
    bool changed = true;
    wefti_loop l = loop_of(s, NULL, NULL);
    if (!s->elastic) return refuse_entry(s);
    WEFT_TRY(wefti_sync_start_membership(s));
    WEFT_TRY(wefti_loop_await_entry(&l, &s->step));
    s->counted = s->step;
    wefti_elastic_gather(s->mesh, true);
    weft_status status = regroup(s);
    while (s->bare && changed && status == WEFT_OK) {
        status = wefti_elastic_begin(s->ctx, s->mesh, s->step, &changed);
        if (changed && status == WEFT_OK) status = regroup(s);
    }
    wefti_elastic_gather(s->mesh, false);
    for (; !s->bare && s->average.owed > 0 && status == WEFT_OK; s->average.owed--) {
        status = wefti_sync_average_all(s);
        if (status == WEFT_OK) wefti_rank_restore(s->rank);
    }
    if (status != WEFT_OK || !s->bare) return status;
    wefti_elastic_note(s->mesh, WEFTI_FACT_REPLACED); /* the others go on without it */
    return weft_ctx_fail(s->ctx, WEFT_ERR_PEER,
                         "step %lld begins, and this process has lost a process that was "
                         "giving it parameters and state; it may join again",
                         (long long)s->step + 1);
}

/* --- what the caller asks --- */

bool weft_sync_goes_on(const weft_sync *s) { return s->elastic; }

int weft_sync_rank(const weft_sync *s, int *size) {
    *size = s->rank ? s->job->W : 0;
    return s->rank ? s->rank->rank : -1;
}

const char *weft_sync_change(weft_sync *s) {
    if (!s->text.change[0]) return NULL;
    memcpy(s->text.shown, s->text.change, sizeof s->text.shown);
    s->text.change[0] = '\0';
    return s->text.shown;
}
