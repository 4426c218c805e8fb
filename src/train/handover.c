/* SPDX-License-Identifier: MIT */
/* Shares: of d ranks that have state, number k gives elements [n k / d, n (k + 1) / d) of each
 * array to every rank that has none. Only ranks that hold the same rows of the model (one shard)
 * have to do with each other here; so below a rank is counted by its replica. After its last array
 * a giver sends a hash of all that it has sent to one rank, and where replicas are equal a hash of
 * the parameters is compared by all in the end: a rank that has come in with anything else must
 * not take a step. */
#include "train/handover.h"

#include <string.h>

#include <xxhash.h>

#include "base/memory.h"

typedef struct handover {
    wefti_rank *rank;
    bool *has; /* [n] */
    int n, n_givers,
        giver;      /* replicas; those that have state; this one's number among them */
    uint64_t *sums; /* [n] of what was sent to, or came from, each of them */
    uint64_t *all;  /* [world ranks] of the parameters */
} handover;

static int rank_of(const handover *h, int replica) {
    return replica * h->rank->job->S + h->rank->local;
}

static int64_t share_at(const handover *h, int k) {
    return h->rank->arrangement->n_elements * k / h->n_givers;
}

static int64_t share_bytes(const handover *h, int k) {
    return (share_at(h, k + 1) - share_at(h, k)) * (int64_t)sizeof(float);
}

static weft_status give_share(handover *h, int64_t tag, const float *array) {
    wefti_comm *all = h->rank->comms.control;
    const float *share = array + share_at(h, h->giver);
    int64_t n_bytes = share_bytes(h, h->giver);
    if (n_bytes == 0) return WEFT_OK;
    for (int r = 0; r < h->n; r++) {
        if (h->has[r]) continue;
        h->sums[r] = XXH3_64bits_withSeed(share, (size_t)n_bytes, h->sums[r]);
        WEFT_TRY(wefti_comm_send(all, rank_of(h, r), tag, share, n_bytes));
    }
    return wefti_comm_await(all, tag);
}

static weft_status take_shares(handover *h, int64_t tag, float *array) {
    wefti_comm *all = h->rank->comms.control;
    for (int r = 0, k = 0; r < h->n; r++) {
        const void *view;
        if (!h->has[r]) continue;
        int64_t at = share_at(h, k), n_bytes = share_bytes(h, k++);
        if (n_bytes == 0) continue;
        WEFT_TRY(wefti_comm_receive(all, rank_of(h, r), tag, n_bytes, &view));
        memcpy(array + at, view, (size_t)n_bytes);
        wefti_comm_release(all, rank_of(h, r), tag);
        h->sums[r] = XXH3_64bits_withSeed(array + at, (size_t)n_bytes, h->sums[r]);
    }
    return WEFT_OK;
}

/* One array, from those who have it to those who have not. */
static weft_status pass(handover *h, float *array) {
    int64_t tag = wefti_rank_control_tag(h->rank);
    return h->has[h->rank->replica] ? give_share(h, tag, array)
                                    : take_shares(h, tag, array);
}

/* What has come is what was sent. */
static weft_status compare_sums(handover *h) {
    wefti_comm *all = h->rank->comms.control;
    int64_t tag = wefti_rank_control_tag(h->rank);
    bool gives = h->has[h->rank->replica];
    for (int r = 0; r < h->n && gives; r++)
        if (!h->has[r])
            WEFT_TRY(
                wefti_comm_send(all, rank_of(h, r), tag, &h->sums[r], sizeof h->sums[r]));
    if (gives) return wefti_comm_await(all, tag);
    for (int r = 0; r < h->n; r++) {
        const void *view;
        uint64_t theirs;
        if (!h->has[r]) continue;
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

/* Whether all who have parameters have the same, after the last step. */
static bool agrees(const wefti_rank *r) {
    return r->mixer->ops->agrees(&r->job->mixer_config, r->job->first_step - 1);
}

/* Where replicas differ: the mean of those that have parameters. */
static weft_status mean_of_others(handover *h) {
    wefti_rank *r = h->rank;
    weft_status status = wefti_rank_average(r); /* who has none adds zeros */
    if (status != WEFT_OK || h->has[r->replica])
        wefti_rank_restore(r);
    else
        r->job->kernels->scale(r->arrangement->n_elements,
                               (float)h->n / (float)h->n_givers, r->params);
    return status;
}

static weft_status pass_all(handover *h) {
    wefti_rank *r = h->rank;
    WEFT_TRY(agrees(r) ? pass(h, r->params) : mean_of_others(h));
    for (int i = 0; i < r->job->most_states->n_states; i++)
        WEFT_TRY(pass(h, r->state[i]));
    for (int i = 0; i < r->replicator->n_states; i++)
        WEFT_TRY(pass(h, r->replicator->state[i]));
    bool own = r->mixer->ops->keeps_partners; /* those begin anew */
    for (int i = 0; i < r->mixer->n_states && !own; i++)
        WEFT_TRY(pass(h, r->mixer->state[i]));
    return compare_sums(h);
}

/* All hold the same parameters. */
static weft_status compare_models(handover *h) {
    wefti_rank *r = h->rank;
    if (!r->job->replicas_equal) return WEFT_OK;
    int first = 0;
    size_t n_bytes = (size_t)r->arrangement->n_elements * sizeof(float);
    uint64_t own = XXH3_64bits(r->params, n_bytes);
    WEFT_TRY(wefti_comm_all_gather(r->comms.control, wefti_rank_control_tag(r), &own,
                                   sizeof own, h->all));
    while (!h->has[first]) first++;
    uint64_t theirs = h->all[rank_of(h, first)];
    if (own == theirs || h->has[r->replica]) return WEFT_OK;
    return weft_ctx_fail(
        r->ctx, WEFT_ERR_NUMERIC,
        "the parameters that came have checksum %016llx, those of rank %d "
        "have %016llx; expected the same",
        (unsigned long long)own, rank_of(h, first), (unsigned long long)theirs);
}

weft_status wefti_handover(wefti_rank *r, const bool *has) {
    int W = r->comms.control->size, n_have = 0;
    handover h = {.rank = r, .n = W / r->job->S};
    for (int i = 0; i < W; i++) n_have += has[i];
    if (n_have == W) return WEFT_OK;
    weft_status status = wefti_alloc_n(r->ctx, h.n, sizeof *h.has, "ranks", &h.has);
    for (int i = 0; i < h.n && status == WEFT_OK; i++) {
        h.has[i] = has[rank_of(&h, i)];
        if (i == r->replica) h.giver = h.n_givers;
        h.n_givers += h.has[i];
    }
    if (status == WEFT_OK)
        status = wefti_alloc_n(r->ctx, h.n, sizeof *h.sums, "checksums", &h.sums);
    if (status == WEFT_OK)
        status = wefti_alloc_n(r->ctx, W, sizeof *h.all, "checksums", &h.all);
    if (status == WEFT_OK) status = pass_all(&h);
    if (status == WEFT_OK) status = compare_models(&h);
    wefti_free(r->ctx, h.has);
    wefti_free(r->ctx, h.sums);
    wefti_free(r->ctx, h.all);
    return status;
}
