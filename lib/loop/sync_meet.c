/* SPDX-License-Identifier: MIT */
/* What the ranks of a caller's loop do first in each new world, whichever ranks left or
 * joined. They tell each other who has parameters and state, and how many averages they
 * have ended since the last step (charters). Then
 *
 *     a rank that has none gets parameters and every array of state (handover.h),
 *     and from one process what the program keeps besides (setup.pack, setup.unpack);
 *     averages that other ranks have not ended are made again, last of all, because some of the
 *     others make theirs when they are back in weft_sync_average.
 *
 * A rank that is interrupted by the next change does all of it again, unless another one has
 * begun the step: then it does the step of this world, and what its mixer sends before is sent
 * when the step opens. A process has state only when the last byte of it is in place; without,
 * it does no step. */
#include <string.h>

#include "base/memory.h"
#include "mesh/elastic.h"
#include "rank/handover.h"
#include "rank/luggage.h"
#include "loop/sync.h"

/* What a rank says when a world begins; all ranks are of one byte order (transport.h). */
typedef struct charter {
    int64_t has;        /* parameters and state */
    int64_t n_averages; /* ended since the last step */
    int64_t averaging;  /* it is in one now, and repeats it when the new world has
                           begun */
    wefti_fault faults[WEFTI_FAULTY_MACHINES];
} charter;

enum { MOST_PACKED_BITS = 40 };

/* --- what the program keeps besides --- */

static weft_status give_pack(weft_sync *s, const charter *all, const int64_t tags[2]) {
    wefti_comm *control = s->rank->comms.control;
    size_t n_bytes = 0;
    const void *bytes = s->setup.pack ? s->setup.pack(s->setup.user, &n_bytes) : "";
    if (!bytes)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "the program could not pack its state for a process that "
                             "has come");
    int64_t n = (int64_t)n_bytes;
    for (int r = s->rank->local; r < control->size; r += s->job->S) {
        if (all[r].has) continue;
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
static weft_status pass_pack(weft_sync *s, const charter *all) {
    int giver = s->rank->local;
    const int64_t tags[2] = {wefti_rank_control_tag(s->rank),
                             wefti_rank_control_tag(s->rank)};
    while (!all[giver].has) giver += s->job->S;
    if (s->bare) return take_pack(s, giver, tags);
    return giver == s->rank->rank ? give_pack(s, all, tags) : WEFT_OK;
}

/* --- in a new world --- */

/* Whether each shard of the model is on some rank that has state. */
static bool have_all(const charter *all, int W, int S) {
    int n = 0;
    for (int shard = 0; shard < S; shard++) {
        bool one = false;
        for (int r = shard; r < W; r += S) one = one || all[r].has;
        n += one;
    }
    return n == S;
}

/* The number of averages that a rank says it has ended may differ from the first rank's
 * by 2 at most, because some ranks end an interrupted average and others do not; a number
 * from the network must not make this rank repeat them without end. */
static weft_status check_charters(weft_sync *s, const charter *all, int W) {
    int64_t first = -1;
    for (int r = 0; r < W; r++) {
        int64_t n = all[r].n_averages;
        if (!all[r].has) continue;
        if (first < 0) first = n;
        if (n >= 0 && n - first <= 2 && first - n <= 2 && all[r].averaging >> 1 == 0)
            continue;
        return weft_ctx_fail(
            s->ctx, WEFT_ERR_WIRE,
            "rank %d says that it has ended %lld averages since the last "
            "step, expected %lld as the first rank, or up to two more or less",
            r, (long long)n, (long long)first);
    }
    return WEFT_OK;
}

static weft_status gather_charters(weft_sync *s, charter *all) {
    wefti_comm *control = s->rank->comms.control;
    charter own = {
        .has = !s->bare, .n_averages = s->n_averages, .averaging = s->averaging};
    wefti_elastic_tell_faults(s->mesh, own.faults);
    WEFT_TRY(wefti_comm_all_gather(control, wefti_rank_control_tag(s->rank), &own,
                                   sizeof own, all));
    for (int r = 0; r < control->size; r++) {
        all[r].has = all[r].has == 1;
        wefti_elastic_learn_faults(s->mesh, all[r].faults);
    }
    WEFT_TRY(check_charters(s, all, control->size));
    if (have_all(all, control->size, s->job->S)) return WEFT_OK;
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_PEER,
        "all who had parameters and state are lost before they could hand "
        "them over; begin again from a checkpoint");
}

static weft_status hand_over(weft_sync *s, const charter *all) {
    int W = s->rank->comms.control->size, n_have = 0;
    bool *has;
    WEFT_TRY(wefti_alloc_n(s->ctx, W, sizeof *has, "ranks", &has));
    for (int r = 0; r < W; r++) n_have += has[r] = all[r].has;
    if (s->bare) /* zeros, to which a mean of the others is added */
        memset(s->rank->params, 0,
               (size_t)s->rank->arrangement->n_elements * sizeof(float));
    weft_status status = wefti_handover(s->rank, has);
    if (status == WEFT_OK) status = wefti_handover_compare(s->rank, has);
    if (status == WEFT_OK && n_have < W) status = pass_pack(s, all);
    wefti_free(s->ctx, has);
    return status;
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
static int64_t averages_to_repeat(const weft_sync *s, const charter *all) {
    int64_t least = INT64_MAX, most = 0;
    for (int r = 0; r < s->rank->comms.control->size; r++) {
        if (!all[r].has) continue;
        int64_t ended = all[r].n_averages;
        if (ended < least) least = ended;
        if (ended + all[r].averaging > most) most = ended + all[r].averaging;
    }
    return s->bare ? most - least : s->n_averages - least;
}

static weft_status repeat_averages(weft_sync *s, int64_t n) {
    weft_status status = WEFT_OK;
    for (int64_t i = 0; i < n && status == WEFT_OK; i++) {
        bool have;
        status = wefti_sync_average_once(s, &have);
        wefti_rank_restore(s->rank);
    }
    return status;
}

static weft_status meet(weft_sync *s, const charter *all) {
    int64_t n = averages_to_repeat(s, all);
    WEFT_TRY(hand_over(s, all));
    s->bare = false; /* whatever interrupts the rest */
    wefti_mixer_meet_anew(s->rank->mixer, s->step);
    WEFT_TRY(wefti_rank_prime(s->rank));
    s->primed = true;
    return repeat_averages(s, n);
}

weft_status wefti_sync_meet(weft_sync *s) {
    charter *all;
    WEFT_TRY(wefti_alloc_n(s->ctx, s->rank->comms.control->size, sizeof *all,
                           "the ranks' charters", &all));
    weft_status status = gather_charters(s, all);
    if (status == WEFT_OK) status = meet(s, all);
    wefti_free(s->ctx, all);
    if (status == WEFT_OK || !wefti_elastic_interrupted(s->ctx, s->mesh)) return status;
    if (!s->primed)
        wefti_mixer_meet_anew(s->rank->mixer, s->step); /* as the others did */
    return WEFT_OK;
}
