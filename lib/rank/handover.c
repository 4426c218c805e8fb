/* SPDX-License-Identifier: MIT */
/* Shares: of d ranks that have state, number k gives elements [n k / d, n (k + 1) / d) of
 * each array to every rank that has none. Only ranks that hold the same rows of the model
 * (one shard) exchange anything here, so this file identifies a rank by its replica.
 * After its last array a giver sends a hash of everything that it has sent to that rank.
 * Where replicas are equal, all ranks compare a hash of the parameters at the end: a rank
 * that has joined with anything else must not take a step.
 *
 * With several sites a rank that joins gets everything from the ranks of its own site,
 * because all ranks of a site have the same state (mesh/elastic_sites.c); if no rank of
 * its site has state, it gets everything from all the others. */
#include "rank/handover.h"

#include <string.h>

#include <xxhash.h>

#include "base/assert.h"
#include "base/memory.h"
#include "rank/carried.h"

typedef struct handover {
    wefti_rank *rank;
    wefti_world_shape shape;
    bool *has;      /* [n] */
    int n;          /* replicas */
    uint64_t *sums; /* [n] hashes of what was sent to, or came from, each of them */
} handover;

static int rank_of(const handover *h, int replica) {
    return replica * h->rank->job->S + h->rank->local;
}

static bool share_site(const handover *h, int a, int b) {
    return wefti_world_site_of(&h->shape, rank_of(h, a)) ==
           wefti_world_site_of(&h->shape, rank_of(h, b));
}

/* Whether some replica in the same site has state. */
static bool has_mates(const handover *h, int to) {
    for (int r = 0; r < h->n; r++)
        if (h->has[r] && share_site(h, r, to)) return true;
    return false;
}

static bool gives(const handover *h, int from, int to) {
    return h->has[from] && !h->has[to] && (share_site(h, from, to) || !has_mates(h, to));
}

/* Where the share that `from` gives to `to` begins; for from = h->n: the end of the
 * array. */
static int64_t share_at(const handover *h, int from, int to) {
    int k = 0, n_givers = 0;
    for (int r = 0; r < h->n; r++) {
        k += r < from && gives(h, r, to);
        n_givers += gives(h, r, to);
    }
    return h->rank->arrangement->n_elements * k / n_givers;
}

/* A share ends where the next one begins. */
static int64_t share_bytes(const handover *h, int from, int to) {
    return (share_at(h, from + 1, to) - share_at(h, from, to)) * (int64_t)sizeof(float);
}

static weft_status give_shares(handover *h, int64_t tag, const float *array) {
    wefti_comm *all = h->rank->comms.control;
    int me = h->rank->replica;
    for (int r = 0; r < h->n; r++) {
        if (!gives(h, me, r)) continue;
        const float *share = array + share_at(h, me, r);
        int64_t n_bytes = share_bytes(h, me, r);
        if (n_bytes == 0) continue;
        h->sums[r] = XXH3_64bits_withSeed(share, (size_t)n_bytes, h->sums[r]);
        WEFT_TRY(wefti_comm_send(all, rank_of(h, r), tag, share, n_bytes));
    }
    return wefti_comm_await(all, tag);
}

static weft_status take_shares(handover *h, int64_t tag, float *array) {
    wefti_comm *all = h->rank->comms.control;
    int me = h->rank->replica;
    for (int r = 0; r < h->n; r++) {
        const void *view;
        if (!gives(h, r, me)) continue;
        int64_t at = share_at(h, r, me), n_bytes = share_bytes(h, r, me);
        if (n_bytes == 0) continue;
        WEFT_TRY(wefti_comm_receive(all, rank_of(h, r), tag, n_bytes, &view));
        memcpy(array + at, view, (size_t)n_bytes);
        wefti_comm_release(all, rank_of(h, r), tag);
        h->sums[r] = XXH3_64bits_withSeed(array + at, (size_t)n_bytes, h->sums[r]);
    }
    return WEFT_OK;
}

/* Sends one array from the ranks that have it to those that do not. */
static weft_status pass(handover *h, float *array) {
    int64_t tag = wefti_rank_control_tag(h->rank);
    return h->has[h->rank->replica] ? give_shares(h, tag, array)
                                    : take_shares(h, tag, array);
}

/* Checks that what was received is what was sent. */
static weft_status compare_sums(handover *h) {
    wefti_comm *all = h->rank->comms.control;
    int64_t tag = wefti_rank_control_tag(h->rank);
    int me = h->rank->replica;
    for (int r = 0; r < h->n; r++)
        if (gives(h, me, r))
            WEFT_TRY(
                wefti_comm_send(all, rank_of(h, r), tag, &h->sums[r], sizeof h->sums[r]));
    if (h->has[me]) return wefti_comm_await(all, tag);
    for (int r = 0; r < h->n; r++) {
        const void *view;
        uint64_t theirs;
        if (!gives(h, r, me)) continue;
        WEFT_TRY(wefti_comm_receive(all, rank_of(h, r), tag, sizeof theirs, &view));
        memcpy(&theirs, view, sizeof theirs);
        wefti_comm_release(all, rank_of(h, r), tag);
        if (theirs != h->sums[r])
            return weft_ctx_fail(h->rank->ctx, WEFT_ERR_WIRE,
                                 "the state that came from rank %d has checksum %016llx, "
                                 "expected %016llx, which it was sent with",
                                 rank_of(h, r), (unsigned long long)h->sums[r],
                                 (unsigned long long)theirs);
    }
    return WEFT_OK;
}

/* Whether all ranks that have parameters have the same ones after the last step. */
static bool agrees(const wefti_rank *r) {
    return r->mixer->ops->agrees(&r->job->mixer_config, r->job->from.step - 1);
}

/* Members of the mixer's group that have no parameters: replicas, or sites. */
static int count_without(const handover *h) {
    int n = 0;
    bool sites = wefti_job_has_sites(h->rank->job);
    for (int r = 0; r < h->n; r++) {
        bool first = !sites || r == 0 || !share_site(h, r - 1, r);
        n += first && !h->has[r] && !(sites && has_mates(h, r));
    }
    return n;
}

/* Where replicas differ: a rank without parameters gets the mean of those that have them.
 * Within a site replicas do not differ, and a rank that has joined a site has its
 * parameters already. */
static weft_status mean_of_others(handover *h) {
    wefti_rank *r = h->rank;
    bool sites = wefti_job_has_sites(r->job);
    int n = r->comms.sites->size, n_without = count_without(h);
    if (n_without == 0) return WEFT_OK;
    weft_status status = wefti_rank_average(r); /* a rank without parameters adds zeros */
    if (status != WEFT_OK || h->has[r->replica] || (sites && has_mates(h, r->replica)))
        wefti_rank_restore(r);
    else
        r->job->kernels->scale(r->arrangement->n_elements,
                               (float)n / (float)(n - n_without), r->params);
    return status;
}

static weft_status pass_params(handover *h) {
    wefti_rank *r = h->rank;
    if (agrees(r)) return pass(h, r->params);
    if (wefti_job_has_sites(r->job)) WEFT_TRY(pass(h, r->params));
    return mean_of_others(h);
}

static weft_status pass_all(handover *h) {
    float **arrays[WEFTI_RANK_ARRAYS];
    int n = wefti_rank_arrays(h->rank, arrays);
    WEFT_TRY(pass_params(h));
    for (int i = 1; i < n; i++) WEFT_TRY(pass(h, *arrays[i]));
    return compare_sums(h);
}

weft_status wefti_handover_match(wefti_rank *r, const bool *has, bool checks) {
    uint64_t *all, own = XXH3_64bits(r->params, (size_t)r->arrangement->n_elements *
                                                    sizeof *r->params);
    wefti_comm *comm = r->comms.control;
    WEFT_TRY(wefti_alloc_n(r->ctx, comm->size, sizeof own, "checksums", &all));
    weft_status status = wefti_comm_all_gather(comm, wefti_rank_control_tag(r), &own,
                                               sizeof own, all);
    uint64_t theirs = own;
    int n = 0;
    for (int i = 0; i < comm->size / r->job->S; i++)
        if (has ? has[i] : i < r->job->R - r->learners.n)
            all[n++] = all[i * r->job->S + r->local];
    if (status == WEFT_OK) theirs = all[wefti_rank_find_most(all, n, sizeof own)];
    wefti_free(r->ctx, all);
    if (status != WEFT_OK || own == theirs || !checks) return status;
    return weft_ctx_fail(
        r->ctx, WEFT_ERR_NUMERIC,
        "the parameters that came have checksum %016llx, those of most ranks "
        "have %016llx; expected the same",
        (unsigned long long)own, (unsigned long long)theirs);
}

/* Checks that all ranks hold the same parameters, where they should. */
static weft_status compare_models(handover *h) {
    wefti_rank *r = h->rank;
    if (!r->job->replicas_equal)
        return wefti_comm_barrier(r->comms.control, wefti_rank_control_tag(r));
    return wefti_handover_match(r, h->has, !h->has[r->replica]);
}

static void fini(handover *h) {
    wefti_free(h->rank->ctx, h->has);
    wefti_free(h->rank->ctx, h->sums);
}

/* *needed: some rank has no state. */
static weft_status init(handover *h, wefti_rank *r, const bool *has, bool *needed) {
    int W = r->comms.control->size, n_have = 0, n_givers = 0;
    *h = (handover){.rank = r, .shape = wefti_job_shape(r->job), .n = W / r->job->S};
    for (int i = 0; i < W; i++) n_have += has[i];
    for (int i = r->local; i < W; i += r->job->S) n_givers += has[i];
    *needed = n_have < W;
    if (!*needed) return WEFT_OK;
    WEFTI_ASSERT(n_givers > 0); /* what nobody gives would count as given */
    WEFT_TRY(wefti_alloc_n(r->ctx, h->n, sizeof *h->has, "ranks", &h->has));
    for (int i = 0; i < h->n; i++) h->has[i] = has[rank_of(h, i)];
    return wefti_alloc_n(r->ctx, h->n, sizeof *h->sums, "checksums", &h->sums);
}

static weft_status run(wefti_rank *r, const bool *has, weft_status (*what)(handover *)) {
    handover h;
    bool needed;
    weft_status status = init(&h, r, has, &needed);
    if (status == WEFT_OK && needed) status = what(&h);
    fini(&h);
    return status;
}

weft_status wefti_handover(wefti_rank *r, const bool *has) {
    return run(r, has, pass_all);
}

weft_status wefti_handover_compare(wefti_rank *r, const bool *has) {
    return run(r, has, compare_models);
}
