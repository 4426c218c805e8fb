/* SPDX-License-Identifier: MIT */
/* A slice is the same range of every array:
 *
 *     message from one giver   | params [m] | state 0 [m] | ... | hash of all before |
 *     slice j of s             parts [from + (all - from) j / s, from + (all - from) (j + 1) / s)
 *
 * The giver copies the slice, because the following step changes the arrays, and sends
 * the copy while it computes. Before the next slice it waits until the copy has left. The
 * learner waits for its slice before it takes in the step's messages. */
#include "rank/learners.h"

#include <math.h>
#include <string.h>

#include <xxhash.h>

#include "base/memory.h"
#include "mesh/elastic.h"
#include "rank/carried.h"
#include "rank/handover.h"

enum { MAX_SLICES = 4096 };

static const double at_once_s = 0.1, share_of_step = 0.25;

int64_t wefti_learners_bytes(wefti_rank *r) {
    float **arrays[WEFTI_RANK_ARRAYS];
    return wefti_rank_arrays(r, arrays) * r->arrangement->n_elements *
           (int64_t)sizeof(float);
}

/* Messages that are in flight over several steps (a delay) need no place in the arrays: a
 * learner receives them like all other ranks. */
bool wefti_learners_can(const wefti_job *job) {
    return !wefti_job_has_sites(job) && job->copies == 1;
}

int64_t wefti_learners_slices(int64_t n_bytes, double rate_Bps, double step_s) {
    double all_s = rate_Bps > 0 ? (double)n_bytes / rate_Bps : 0;
    if (!(all_s > at_once_s) || !(step_s > 0)) return 0;
    double slices = ceil(all_s / (share_of_step * step_s));
    if (slices < 2) return 0;
    return slices < MAX_SLICES ? (int64_t)slices : MAX_SLICES;
}

/* --- who gives what --- */

static int n_givers(const wefti_rank *r) { return r->job->R - r->learners.n; }

static int rank_of(const wefti_rank *r, int replica) {
    return replica * r->job->S + r->local;
}

/* Whether a giver has anything for a learner. */
static bool serves(const wefti_rank *r, int giver, int learner) {
    return r->job->replicas_equal || (learner - n_givers(r)) % n_givers(r) == giver;
}

typedef struct slice {
    int64_t begin, n; /* elements of each array */
} slice;

/* The slice of the parts [a, b) that giver k sends. */
static slice slice_of(const wefti_rank *r, int64_t a, int64_t b, int k) {
    int64_t n = r->arrangement->n_elements;
    int64_t begin = n / WEFTI_LEARNERS_ALL * a +
                    n % WEFTI_LEARNERS_ALL * a / WEFTI_LEARNERS_ALL;
    int64_t end = n / WEFTI_LEARNERS_ALL * b +
                  n % WEFTI_LEARNERS_ALL * b / WEFTI_LEARNERS_ALL;
    int64_t d = n_givers(r), count = end - begin;
    if (!r->job->replicas_equal) return (slice){begin, count};
    return (slice){begin + count * k / d, count * (k + 1) / d - count * k / d};
}

static int64_t message_bytes(int n_arrays, slice s) {
    return s.n * n_arrays * (int64_t)sizeof(float) + (int64_t)sizeof(uint64_t);
}

/* The part with which slice j begins. */
static int64_t part_at(const wefti_learners *g, int64_t j) {
    int64_t left = WEFTI_LEARNERS_ALL - g->from;
    return g->from + left / g->slices * j + left % g->slices * j / g->slices;
}

/* --- one slice --- */

/* Waits until the copy that was sent last has left. */
static weft_status take_back(wefti_rank *r) {
    if (!r->learners.sent) return WEFT_OK;
    WEFT_TRY(wefti_comm_await(r->comms.control, r->learners.tag));
    r->learners.sent = false;
    return WEFT_OK;
}

static weft_status give(wefti_rank *r, int64_t a, int64_t b, int64_t tag) {
    float **arrays[WEFTI_RANK_ARRAYS], *to = (float *)(void *)r->learners.gift;
    int n = wefti_rank_arrays(r, arrays);
    slice s = slice_of(r, a, b, r->replica);
    if (s.n == 0) return WEFT_OK;
    for (int i = 0; i < n; i++, to += s.n)
        memcpy(to, *arrays[i] + s.begin, (size_t)s.n * sizeof *to);
    int64_t n_bytes = message_bytes(n, s);
    size_t at = (size_t)n_bytes - sizeof(uint64_t);
    uint64_t hash = XXH3_64bits(r->learners.gift, at);
    memcpy(r->learners.gift + at, &hash, sizeof hash);
    r->learners.tag = tag;
    r->learners.sent = true;
    for (int to_whom = n_givers(r); to_whom < r->job->R; to_whom++)
        if (serves(r, r->replica, to_whom))
            WEFT_TRY(wefti_comm_send(r->comms.control, rank_of(r, to_whom), tag,
                                     r->learners.gift, n_bytes));
    return WEFT_OK;
}

static weft_status unpack(wefti_rank *r, const unsigned char *in, slice s, int giver) {
    float **arrays[WEFTI_RANK_ARRAYS];
    int n = wefti_rank_arrays(r, arrays);
    size_t size = (size_t)s.n * sizeof(float);
    uint64_t hash = XXH3_64bits(in, size * (size_t)n), theirs;
    memcpy(&theirs, in + size * (size_t)n, sizeof theirs);
    if (hash != theirs)
        return weft_ctx_fail(r->ctx, WEFT_ERR_WIRE,
                             "the state that came from rank %d has checksum %016llx, "
                             "expected %016llx, which it was sent with",
                             rank_of(r, giver), (unsigned long long)hash,
                             (unsigned long long)theirs);
    for (int i = 0; i < n; i++, in += size) memcpy(*arrays[i] + s.begin, in, size);
    return WEFT_OK;
}

static weft_status take(wefti_rank *r, int64_t a, int64_t b, int64_t tag) {
    wefti_comm *all = r->comms.control;
    float **arrays[WEFTI_RANK_ARRAYS];
    int n = wefti_rank_arrays(r, arrays);
    for (int k = 0; k < n_givers(r); k++) {
        const void *view;
        slice s = slice_of(r, a, b, k);
        if (s.n == 0 || !serves(r, k, r->replica)) continue;
        WEFT_TRY(wefti_comm_receive(all, rank_of(r, k), tag, message_bytes(n, s), &view));
        weft_status status = unpack(r, view, s, k);
        wefti_comm_release(all, rank_of(r, k), tag);
        WEFT_TRY(status);
    }
    r->learners.given = b;
    return WEFT_OK;
}

/* Gives or takes slice j, before the step that it belongs to. */
static weft_status pass(wefti_rank *r, int64_t j) {
    wefti_learners *g = &r->learners;
    int64_t a = part_at(g, j), b = part_at(g, j + 1), tag = wefti_rank_control_tag(r);
    if (wefti_rank_is_learner(r)) return take(r, a, b, tag);
    WEFT_TRY(take_back(r));
    return give(r, a, b, tag);
}

/* --- the world's steps --- */

static void set_until(wefti_rank *r, int64_t until) {
    wefti_comm *groups[] = {r->comms.replica, r->comms.sites};
    r->learners.until = until;
    for (int i = 0; i < 2; i++) {
        groups[i]->n_learners = r->learners.n;
        groups[i]->learner_until = until;
    }
}

weft_status wefti_learners_begin(wefti_rank *r, const wefti_learners_plan *plan) {
    float **arrays[WEFTI_RANK_ARRAYS];
    wefti_learners *g = &r->learners;
    if (plan->n == 0 || plan->slices == 0) return WEFT_OK;
    *g = (wefti_learners){.n = plan->n,
                          .first = r->job->from.step,
                          .slices = plan->slices,
                          .from = plan->from,
                          .given = plan->from,
                          .open = true};
    int taking = (r->job->R - plan->n) * r->job->S;
    g->rows = r->job->batch.per_step - wefti_job_rows_before(r->job, taking);
    set_until(r, g->first + g->slices);
    if (wefti_rank_is_learner(r)) return WEFT_OK;
    slice longest = {0, r->arrangement->n_elements / g->slices + 2};
    return wefti_alloc_n(r->ctx, message_bytes(wefti_rank_arrays(r, arrays), longest), 1,
                         "state for who has come", &g->gift);
}

/* Whether a wait in a step has ended because the sender is lost. */
static bool is_lost(wefti_rank *r, weft_mesh *mesh, weft_status status) {
    bool lost = status == WEFT_ERR_PEER && mesh && mesh->elastic &&
                !atomic_load(&mesh->world.poisoned);
    if (lost) weft_ctx_clear(r->ctx);
    return lost;
}

/* Fails: from now on the other ranks rely on this rank, and its state is not complete. */
static weft_status cut_off(wefti_rank *r, weft_mesh *mesh) {
    wefti_elastic_note(mesh, WEFTI_FACT_REPLACED); /* it joins again */
    return weft_ctx_fail(r->ctx, WEFT_ERR_PEER,
                         "rank %d has lost who gave it parameters and state", r->rank);
}

weft_status wefti_learners_step(wefti_rank *r, weft_mesh *mesh, int64_t step) {
    wefti_learners *g = &r->learners;
    bool learner = wefti_rank_is_learner(r);
    if (learner) /* a learner adds nothing to any momentum */
        memset(r->grads, 0, (size_t)r->arrangement->n_elements * sizeof *r->grads);
    if (!g->open || g->broken)
        return g->open && step >= g->until ? cut_off(r, mesh) : WEFT_OK;
    weft_status status = pass(r, step - g->first);
    if (status == WEFT_OK || !learner || !is_lost(r, mesh, status)) return status;
    g->broken = true;
    return WEFT_OK;
}

/* Each rank numbers its messages between steps. Learners were left out and have counted
 * fewer, so the numbers are set from the step. */
static int64_t tags_from(int64_t done, bool aside) {
    enum { TAGS = 1 << 16 };
    return (2 * (done + 1) + !aside) * TAGS;
}

void wefti_learners_set_aside(wefti_rank *r, int64_t done, bool aside) {
    int n = aside ? -r->learners.n : r->learners.n;
    if (!r->learners.open) return;
    r->comms.control->size += n * r->job->S;
    r->comms.replica->size += n;
    r->comms.sites->size += n;
    r->onward.n_control_messages = r->onward.n_replica_messages = tags_from(done, aside);
}

weft_status wefti_learners_end(wefti_rank *r, int64_t done, bool *ends) {
    wefti_learners *g = &r->learners;
    *ends = g->open && done >= g->until && !g->broken;
    if (!*ends) return WEFT_OK;
    g->open = false;
    wefti_rank_forget_gathered(r);
    /* A process that is lost in the step counts its own messages in a replay; the next view's line
     * is compared. */
    return r->job->replicas_equal ? wefti_handover_match(r, NULL, !r->replays) : WEFT_OK;
}
