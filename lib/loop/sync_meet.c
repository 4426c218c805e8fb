/* SPDX-License-Identifier: MIT */
/* What is special to a caller's loop when a world begins (loop.h). The ranks tell each other how
 * many averages they have ended since the last step. A process that has no parameters and state
 * gets, from one process, also what the program keeps besides (setup.pack, setup.unpack). Averages
 * that others have not ended are made again, last of all, because some of the others make theirs
 * when they are back in weft_sync_average. */
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

/* The number of averages that a rank says it has ended may differ from the first rank's
 * by 2 at most, because some ranks end an interrupted average and others do not; a number
 * from the network must not make this rank repeat them without end. */
static weft_status check_terms(weft_sync *s, const wefti_loop_cards *cards, int W) {
    const wefti_sync_card *all = cards->all;
    int64_t first = all[cards->first].n_averages;
    for (int r = 0; r < W; r++) {
        int64_t n = all[r].n_averages;
        if (!cards->has[r] ||
            (n >= 0 && n - first <= 2 && first - n <= 2 && all[r].averaging >> 1 == 0))
            continue;
        return weft_ctx_fail(
            s->ctx, WEFT_ERR_WIRE,
            "rank %d says that it has ended %lld averages since the last "
            "step, expected %lld as the first rank, or up to two more or less",
            r, (long long)n, (long long)first);
    }
    return WEFT_OK;
}

/* Makes the average, and waits until all ranks have it: so no rank has begun the next
 * step while a rank that was interrupted has to repeat the average. *have: this process
 * has it. */
weft_status wefti_sync_average_once(weft_sync *s, bool *have) {
    wefti_rank *r = s->rank;
    weft_status status = wefti_rank_average(r);
    *have = status == WEFT_OK;
    if (!*have || !s->elastic) return status;
    return wefti_comm_barrier(r->comms.control, wefti_rank_control_tag(r));
}

/* How many averages this rank has to repeat with ranks that have not ended theirs. */
static int64_t averages_to_repeat(const weft_sync *s, const wefti_loop *l) {
    const wefti_sync_card *all = l->cards.all;
    int64_t least = INT64_MAX, most = 0;
    for (int r = 0; r < l->world.size; r++) {
        if (!l->cards.has[r]) continue;
        int64_t ended = all[r].n_averages;
        if (ended < least) least = ended;
        if (ended + all[r].averaging > most) most = ended + all[r].averaging;
    }
    bool came = !l->cards.has[l->world.rank];
    return came ? most - least : s->average.n_ended - least;
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
        .averaging = s->average.under_way,
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
    WEFT_TRY(check_terms(s, &l->cards, l->world.size));
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

weft_status wefti_sync_repeat(wefti_loop *l) {
    weft_sync *s = l->user;
    weft_status status = WEFT_OK;
    int64_t n = l->whole ? averages_to_repeat(s, l) : 0;
    for (int64_t i = 0; i < n && status == WEFT_OK; i++) {
        bool have;
        status = wefti_sync_average_once(s, &have);
        wefti_rank_restore(s->rank);
    }
    return wefti_loop_forgive(l, status);
}
