/* SPDX-License-Identifier: MIT */
/* What is special to a caller's loop when a world begins (loop.h). The ranks tell each other how
 * many averages they have ended since the last step. A process that has no parameters and state
 * gets, from one process, also what the program keeps besides (setup.pack, setup.unpack). */
#include <string.h>

#include "base/memory.h"
#include "loop/sync.h"

enum { MOST_PACKED_BITS = 40 };

/* --- what the program keeps besides --- */

static weft_status give_pack(weft_sync *s, const bool *has, const int64_t tags[2]) {
    wefti_comm *control = s->rank->comms.control;
    size_t n_bytes = 0;
    const void *bytes = s->setup.pack ? s->setup.pack(s->setup.user, &n_bytes) : "";
    if (!bytes)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "the program could not pack its state for a process that "
                             "has come");
    int64_t n = (int64_t)n_bytes;
    for (int r = s->rank->local; r < control->size; r += s->job->S) {
        if (has[r]) continue;
        WEFT_TRY(wefti_comm_send(control, r, tags[0], &n, sizeof n));
        if (n > 0) WEFT_TRY(wefti_comm_send(control, r, tags[1], bytes, n));
    }
    WEFT_TRY(wefti_comm_await(control, tags[0]));
    return n > 0 ? wefti_comm_await(control, tags[1]) : WEFT_OK;
}

static weft_status take_pack(weft_sync *s, int giver, const int64_t tags[2]) {
    wefti_comm *control = s->rank->comms.control;
    const void *view;
    int64_t n;
    WEFT_TRY(wefti_comm_receive(control, giver, tags[0], sizeof n, &view));
    memcpy(&n, view, sizeof n);
    wefti_comm_release(control, giver, tags[0]);
    if (n < 0 || n >> MOST_PACKED_BITS || (n > 0 && !s->setup.unpack))
        return weft_ctx_fail(s->ctx, WEFT_ERR_WIRE,
                             "rank %d has %lld bytes of the program's own state for this "
                             "process, expected at most %lld",
                             giver, (long long)n,
                             s->setup.unpack ? 1LL << MOST_PACKED_BITS : 0LL);
    if (n == 0) return WEFT_OK;
    WEFT_TRY(wefti_comm_receive(control, giver, tags[1], n, &view));
    bool taken = s->setup.unpack(s->setup.user, view, (size_t)n);
    wefti_comm_release(control, giver, tags[1]);
    if (taken) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_FORMAT,
                         "the program could not take the %lld bytes of its state that "
                         "came from rank %d",
                         (long long)n, giver);
}

/* The giver is the first rank that holds the same rows and has state. All ranks use up
 * both tags. */
weft_status wefti_sync_pass(wefti_loop *l) {
    weft_sync *s = l->user;
    const bool *has = l->cards.has;
    int giver = s->rank->local;
    const int64_t tags[2] = {wefti_rank_control_tag(s->rank),
                             wefti_rank_control_tag(s->rank)};
    while (!has[giver]) giver += s->job->S;
    if (s->bare) return take_pack(s, giver, tags);
    return giver == s->rank->rank ? give_pack(s, has, tags) : WEFT_OK;
}

/* --- in a new world --- */

/* All have an average before anybody ends it. So it is made again if one has not got it; one that
 * is lost may have ended it otherwise. A newcomer takes part in those that are made again. */
static weft_status count_averages(weft_sync *s, const wefti_loop_cards *cards, int W) {
    const wefti_sync_card *all = cards->all, *first = &all[cards->first];
    int64_t least = first->n_averages, most = 0, mean = first->averaging;
    for (int r = 0; r < W; r++)
        if (cards->has[r] && all[r].n_averages < least)
            least = all[r].n_averages, mean = all[r].averaging;
    bool have = mean > WEFTI_SYNC_AVERAGES;
    for (int r = 0; r < W; r++)
        if (cards->has[r] && all[r].n_averages == least)
            have = have && all[r].averaging == mean;
    for (int r = 0; r < W; r++) {
        int64_t n = all[r].n_averages;
        if (!cards->has[r]) continue;
        if (least < 0 || n - least > have || all[r].averaging < 0)
            return weft_ctx_fail(s->ctx, WEFT_ERR_WIRE,
                                 "rank %d says that it has ended %lld averages since the "
                                 "last step, expected at most %lld, which all have",
                                 r, (long long)n, (long long)least + have);
        if (n + (all[r].averaging > 0) > most) most = n + (all[r].averaging > 0);
    }
    s->average.known = least + have;
    if (s->bare) s->average.n_ended = least + have;
    if (s->bare) s->average.owed = most - least - have;
    if (s->bare) s->average.missed = most > 0;
    return WEFT_OK;
}

weft_status wefti_sync_say(wefti_loop *l) {
    const weft_sync *s = l->user;
    double momentum;
    int64_t form = wefti_sync_form_code(s, &momentum);
    weft_sync_limits limits;
    wefti_busy busy;
    wefti_sync_tell_replan(s, &limits, &busy);
    *(wefti_sync_card *)l->cards.own = (wefti_sync_card){
        .n_averages = s->average.n_ended,
        .averaging = s->average.averaging,
        .was = s->view.was,
        .form = form,
        .momentum = momentum,
        .follows = s->job->run.follows,
        .loss = limits.loss,
        .steps = limits.steps,
        .bytes_per_day = limits.bytes_per_day,
        .busy = busy};
    return WEFT_OK;
}

/* Of a process that has come. */
static weft_status take_replan(weft_sync *s, const wefti_sync_card *first) {
    const weft_sync_limits limits = {.loss = first->loss,
                                     .steps = first->steps,
                                     .bytes_per_day = first->bytes_per_day};
    if (limits.loss >= 0 && limits.steps >= 0 && limits.bytes_per_day >= 0)
        return wefti_sync_may_change(s, &limits, &first->busy);
    return weft_ctx_fail(s->ctx, WEFT_ERR_WIRE,
                         "the first rank plans with a loss of %g, %lld steps and %g "
                         "bytes in a day, expected "
                         "numbers from 0",
                         limits.loss, (long long)limits.steps, limits.bytes_per_day);
}

weft_status wefti_sync_hear(wefti_loop *l) {
    weft_sync *s = l->user;
    WEFT_TRY(count_averages(s, &l->cards, l->world.size));
    const wefti_sync_card *all = l->cards.all, *first = &all[l->cards.first];
    if (s->bare) s->job->run.follows = first->follows != 0;
    if (s->bare && first->follows) WEFT_TRY(take_replan(s, first));
    int S = l->cards.shards, copies = l->world.size / S;
    int64_t *was;
    WEFT_TRY(wefti_alloc_n(s->ctx, copies, sizeof *was, "copies", &was));
    for (int i = 0; i < copies; i++) was[i] = l->cards.has[i * S] ? all[i * S].was : -1;
    weft_status status = wefti_sync_unsay(s, copies, was);
    wefti_free(s->ctx, was);
    return status;
}
