/* SPDX-License-Identifier: MIT */
/* From one world to the next, between two steps:
 *
 *     old rank -> its arrays -> cards: who has parameters and state?
 *                            -> new job -> new rank <- arrays
 *                            -> who has none gets them: now (rank/handover.h), or in slices
 *                               while the others train (rank/learners.h)
 *
 * Mixers begin as in a run that is resumed at that step: what gossip sends ahead of a step and
 * outer exchanges that are in flight are sent again, among the ranks that are left. Copies of
 * partners' parameters (choco) are not kept, because the partners change: each pair begins again
 * from zero (mix/meetings.c). */
#include "loop/loop.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "rank/handover.h"

/* --- cards --- */

static wefti_fault *faults_of(const wefti_loop_cards *cards, void *card) {
    char *end = (char *)card + cards->n_bytes;
    return (wefti_fault *)(void *)end - WEFTI_FAULTY_MACHINES;
}

static void read_cards(weft_mesh *mesh, wefti_loop_cards *cards, int W) {
    for (int r = 0; r < W; r++) {
        char *card = (char *)cards->all + r * cards->n_bytes;
        int64_t has;
        memcpy(&has, card, sizeof has);
        cards->has[r] = has == 1;
        wefti_elastic_learn_faults(mesh, faults_of(cards, card));
    }
    while (cards->first < W && !cards->has[cards->first]) cards->first++;
}

/* Whether each shard of the model is on some rank that has state, in whichever copy. */
static bool have_all(const wefti_loop_cards *cards, int W) {
    int n = 0;
    for (int s = 0; s < cards->shards; s++) {
        bool one = false;
        for (int r = s; r < W; r += cards->shards) one = one || cards->has[r];
        n += one;
    }
    return n == cards->shards;
}

weft_status wefti_loop_show(weft_ctx *ctx, wefti_bootstrap *members,
                            wefti_loop_cards *cards) {
    int W = members->comm->size;
    cards->all = cards->has = NULL;
    cards->first = 0;
    WEFT_TRY(wefti_alloc_n(ctx, W, (size_t)cards->n_bytes, "what the ranks show",
                           &cards->all));
    WEFT_TRY(wefti_alloc_n(ctx, W, sizeof *cards->has, "ranks", &cards->has));
    weft_status status = wefti_comm_all_gather(members->comm, members->n_messages++,
                                               cards->own, cards->n_bytes, cards->all);
    cards->heard = status == WEFT_OK;
    if (!cards->heard)
        return wefti_elastic_interrupted(ctx, members->mesh, status) ? WEFT_OK : status;
    read_cards(members->mesh, cards, W);
    if (have_all(cards, W)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_PEER, "%s",
                         wefti_elastic_others_ended(members->mesh)
                             ? WEFTI_OTHERS_ENDED
                             : "all who had parameters and state are lost before they "
                               "could hand them over; resume from a checkpoint");
}

void wefti_loop_put_away(weft_ctx *ctx, wefti_loop_cards *cards) {
    wefti_free(ctx, cards->all);
    wefti_free(ctx, cards->has);
}

/* --- the new world --- */

weft_status wefti_loop_forgive(wefti_loop *l, weft_status status) {
    if (!wefti_elastic_interrupted(l->ctx, l->mesh, status)) return status;
    weft_ctx_clear(l->rank_ctx);
    l->whole = false;
    return WEFT_OK;
}

weft_status wefti_loop_look(wefti_loop *l, const char *folder) {
    if (!l->cards.heard) return WEFT_OK;
    return wefti_loop_forgive(l, wefti_bootstrap_look(l->ctx, l->members, folder, false));
}

/* Joins all ranks of the world, before there is a job. */
static weft_status join(wefti_loop *l) {
    wefti_world *world;
    const wefti_world_shape shape = {.replicas = l->world.size / l->cards.shards,
                                     .shards = l->cards.shards,
                                     .replicas_per_node = 1,
                                     .sites = 1};
    wefti_bootstrap_leave(l->ctx, l->members);
    WEFT_TRY(wefti_mesh_shape(l->ctx, l->mesh, &shape, &world));
    return wefti_bootstrap_join(l->ctx, l->mesh, l->members);
}

static weft_status meet(wefti_loop *l) {
    int64_t has = !*l->bare;
    WEFT_TRY(l->ops->say(l));
    memcpy(l->cards.own, &has, sizeof has);
    wefti_elastic_tell_faults(l->mesh, faults_of(&l->cards, l->cards.own));
    WEFT_TRY(join(l));
    WEFT_TRY(wefti_loop_show(l->ctx, l->members, &l->cards));
    l->whole = l->cards.heard;
    return l->whole ? l->ops->hear(l) : WEFT_OK;
}

static weft_status make_rank(wefti_loop *l) {
    const wefti_job *job;
    wefti_world *world;
    wefti_comms comms;
    WEFT_TRY(l->ops->make_job(l, &job));
    WEFT_TRY(wefti_rank_world(l->ctx, job, l->mesh, &world));
    WEFT_TRY(wefti_comms_join(l->rank_ctx, world, l->mesh->rank, &comms));
    WEFT_TRY(wefti_rank_create(l->rank_ctx, job, l->world.rank, &comms, l->rank));
    if (l->carried.n > 0) wefti_carried_swap(&l->carried, *l->rank);
    return WEFT_OK;
}

/* A rank that gets its state between two steps has it when the last byte is in place,
 * whatever interrupts the comparison of all ranks after that: the others may have ended that
 * comparison, and begun the step. */
static weft_status hand_over(wefti_loop *l) {
    wefti_rank *r = *l->rank;
    const bool *has = l->cards.has;
    bool needed = false;
    for (int i = 0; i < l->world.size; i++) needed = needed || !has[i];
    if (*l->bare) /* zeros, to which a mean of the others is added */
        memset(r->params, 0, (size_t)r->arrangement->n_elements * sizeof(float));
    WEFT_TRY(wefti_handover(r, has));
    if (needed && l->ops->pass) WEFT_TRY(l->ops->pass(l));
    *l->bare = false;
    return wefti_handover_compare(r, has);
}

static weft_status fill_rank(wefti_loop *l) {
    bool in_slices = l->plan.n > 0 && l->plan.slices > 0;
    wefti_rank *r = *l->rank;
    weft_status status = WEFT_OK;
    if (l->cards.heard)
        status = in_slices ? wefti_learners_begin(r, &l->plan) : hand_over(l);
    wefti_mixer_meet_anew(r->mixer, r->job->from.step);
    return wefti_loop_forgive(l, status);
}

static weft_status enter(wefti_loop *l, int64_t step) {
    wefti_elastic_enter(l->mesh, &l->world);
    if (l->world.first_step != step)
        return weft_ctx_fail(l->ctx, WEFT_ERR_INTERNAL,
                             "the new world begins with step %lld, but this rank is at "
                             "step %lld",
                             (long long)l->world.first_step, (long long)step);
    WEFT_TRY(meet(l));
    WEFT_TRY(make_rank(l));
    WEFT_TRY(fill_rank(l));
    if (*l->bare && !wefti_rank_is_learner(*l->rank))
        return WEFT_OK; /* it sends nothing */
    WEFT_TRY(wefti_rank_prime(*l->rank));
    return *l->bare || !l->ops->met ? WEFT_OK : l->ops->met(l);
}

weft_status wefti_loop_enter(wefti_loop *l, int64_t step) {
    if (*l->rank) wefti_carried_swap(&l->carried, *l->rank);
    if (*l->rank) wefti_elastic_drop_ahead(l->mesh, step);
    wefti_rank_destroy(*l->rank);
    *l->rank = NULL;
    return enter(l, step);
}

void wefti_loop_leave(wefti_loop *l) {
    wefti_carried_fini(l->rank_ctx, &l->carried);
    wefti_loop_put_away(l->ctx, &l->cards);
}

/* --- the beginning, and what is printed --- */

/* own_loop: the loop over the steps is the caller's. */
static wefti_elastic_policy policy_of(const weft_config *config, bool own_loop) {
    double patience_s = config->elastic.patience;
    return (wefti_elastic_policy){
        .silence_s = config->elastic.silence,
        .patience_s = own_loop && patience_s == 0 ? -1 : patience_s,
        .pause_s = config->elastic.pause,
        .faults = config->elastic.faults,
        .witness = config->elastic.witness,
        .split = strcmp(config->elastic.partition, "split") == 0,
        .own_loop = own_loop};
}

wefti_elastic_setup wefti_loop_setup(const wefti_job *job, bool joins, bool own_loop) {
    int64_t delay =
        job->replicator_config.delay; /* a step ends when its messages are in */
    return (wefti_elastic_setup){
        .shards = job->S,
        .sites = 1,
        .per_site = job->W,
        .joins = joins,
        .units = job->gossip.topology ? 0 : job->model->n_units,
        .first_step = job->from.step,
        .lag = (int)(delay > job->lag.status ? delay : job->lag.status),
        .delay = job->mixer_config.delay,
        .meets = job->gossip.topology != NULL,
        .policy = policy_of(job->config, own_loop)};
}

weft_status wefti_loop_gather(weft_ctx *ctx, weft_mesh *mesh, wefti_comm *all,
                              int64_t tag) {
    weft_status status = wefti_comm_barrier(all, tag);
    return wefti_elastic_interrupted(ctx, mesh, status) ? WEFT_OK : status;
}

weft_status wefti_loop_await_entry(wefti_loop *l, int64_t *step) {
    char sentence[1200];
    int64_t n;
    weft_ctx *ctx = l->rank_ctx;
    weft_status status = wefti_elastic_await_entry(ctx, l->mesh, step);
    if (status == WEFT_OK) return WEFT_OK;
    const void *notice = wefti_elastic_await_notice(l->mesh, &n);
    snprintf(sentence, sizeof sentence, "%s", weft_ctx_message(ctx));
    weft_ctx_clear(ctx);
    WEFT_TRY(l->ops->explain(l, notice, n));
    return weft_ctx_fail(ctx, status, "%s", sentence);
}

void wefti_loop_tell(const wefti_elastic_world *w, int n, const char *const words[2],
                     char out[1200]) {
    bool both = w->n_lost > 0 && w->n_joined > 0;
    snprintf(out, 1200, "%s%s%s%s%s; %d %s on with step %lld",
             w->n_lost > 0 ? "lost " : "", w->text, both ? "; " : "",
             w->n_joined > 0 ? "joined by " : "", w->joined, n, words[n > 1],
             (long long)w->first_step + 1);
}
