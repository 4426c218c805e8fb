/* SPDX-License-Identifier: MIT */
/* The front of every backend (comm->ops: local.c, remote.c), and the small collectives
 * built on its messages:
 *
 *     send      checked here: a peer of the group that is not this rank, no negative length
 *     barrier   an empty message to all, one from each
 *     gather    the same number of bytes from each, in rank order
 *     sum       doubles of each, added in rank order, so that all have the same bits
 *
 * A tag is step << 24 | bucket << 4 | stage. It is used once: the receiver of a message
 * gives it back (release), and the sender waits until all receivers have done so (await). */
#include "comm/comm.h"

#include <string.h>

#include "comm/posts.h"

enum { MAX_SUM = 16 };

bool wefti_comm_is_learner(const wefti_comm *comm, int rank, int64_t step) {
    return step < comm->learner_until && rank >= comm->size - comm->n_learners;
}

weft_status wefti_comm_send(wefti_comm *comm, int peer, int64_t tag, const void *data,
                            int64_t n_bytes) {
    if (peer < 0 || peer >= comm->size || peer == comm->rank || n_bytes < 0)
        return weft_ctx_fail(comm->ctx, WEFT_ERR_INTERNAL,
                             "rank %d of %d cannot send %lld bytes to rank %d",
                             comm->rank, comm->size, (long long)n_bytes, peer);
    if (wefti_comm_is_posted(tag))
        return wefti_posts_put(comm, tag, peer, (wefti_post){data, n_bytes});
    return comm->ops->send(comm, peer, tag, data, n_bytes);
}

/* Other tags are much smaller, and of either sign. */
static const int64_t POSTED = (int64_t)1 << 62;

bool wefti_comm_is_posted(int64_t tag) { return (tag < 0) != ((tag & POSTED) != 0); }

int64_t wefti_comm_posted(const wefti_comm *comm, int64_t tag) {
    return comm->poster ? tag ^ POSTED : tag;
}

weft_status wefti_comm_publish(wefti_comm *comm, int64_t tag) {
    if (!wefti_comm_is_posted(tag)) return WEFT_OK;
    return wefti_posts_publish(comm, tag, (wefti_post){NULL, -1});
}

weft_status wefti_comm_send_all(wefti_comm *comm, int64_t tag, const void *data,
                                int64_t n_bytes) {
    if (wefti_comm_is_posted(tag))
        return wefti_posts_publish(comm, tag, (wefti_post){data, n_bytes});
    for (int k = 1; k < comm->size; k++)
        WEFT_TRY(
            wefti_comm_send(comm, (comm->rank + k) % comm->size, tag, data, n_bytes));
    return WEFT_OK;
}

weft_status wefti_comm_reserve_allgather(wefti_comm *comm, int n_rounds, int n_bytes) {
    if (comm->ops->open_board) return comm->ops->open_board(comm, n_rounds, n_bytes);
    return wefti_comm_reserve(comm, n_rounds * (comm->size - 1));
}

weft_status wefti_comm_allgather_begin(wefti_comm *comm, int64_t tag, const void *data,
                                       int64_t n_bytes) {
    if (comm->ops->tell) return comm->ops->tell(comm, tag, data, n_bytes);
    return wefti_comm_send_all(comm, tag, data, n_bytes);
}

weft_status wefti_comm_allgather_end(wefti_comm *comm, int64_t tag,
                                     const wefti_allgather *gather) {
    if (comm->ops->hear) return comm->ops->hear(comm, tag, gather);
    for (int peer = 0; peer < comm->size; peer++) {
        wefti_received got = {.view = gather->mine};
        bool mine = peer == comm->rank;
        if (!mine)
            WEFT_TRY(wefti_comm_receive_piece(comm, peer, tag, gather->n_bytes,
                                              WEFTI_PIECE_SAME, &got));
        if (got.view) gather->take(gather->user, peer, got.view);
        if (got.view && !mine) wefti_comm_release(comm, peer, tag);
    }
    return WEFT_OK;
}

weft_status wefti_comm_receive(wefti_comm *comm, int peer, int64_t tag, int64_t n_bytes,
                               const void **view) {
    if (wefti_comm_is_posted(tag))
        return wefti_posts_receive(comm, tag, peer, n_bytes, view);
    return comm->ops->receive(comm, peer, tag, n_bytes, view);
}

weft_status wefti_comm_receive_by(wefti_comm *comm, int peer, int64_t tag,
                                  int64_t n_bytes, double deadline_s, const void **view) {
    return comm->ops->receive_by(comm, peer, tag, n_bytes, deadline_s, view);
}

void wefti_comm_release(wefti_comm *comm, int peer, int64_t tag) {
    if (wefti_comm_is_posted(tag))
        wefti_posts_release(comm, tag, peer);
    else
        comm->ops->release(comm, peer, tag);
}

weft_status wefti_comm_send_part(wefti_comm *comm, int peer, int64_t tag,
                                 const void *data, int64_t n_bytes) {
    if (!comm->ops->send_part) return wefti_comm_send(comm, peer, tag, data, n_bytes);
    return comm->ops->send_part(comm, peer, tag, data, n_bytes);
}

weft_status wefti_comm_receive_piece(wefti_comm *comm, int peer, int64_t tag,
                                     int64_t n_bytes, wefti_piece_kind kind,
                                     wefti_received *out) {
    *out = (wefti_received){NULL, 0};
    if (!comm->ops->receive_piece || wefti_comm_is_posted(tag))
        return wefti_comm_receive(comm, peer, tag, n_bytes, &out->view);
    return comm->ops->receive_piece(comm, peer, tag, n_bytes, kind, out);
}

weft_status wefti_comm_receive_part(wefti_comm *comm, const wefti_lost *lost, int peer,
                                    int64_t n_bytes, const void **view) {
    return comm->ops->receive_part(comm, lost, peer, n_bytes, view);
}

void wefti_comm_release_part(wefti_comm *comm, const wefti_lost *lost, int peer) {
    comm->ops->release_part(comm, lost, peer);
}

weft_status wefti_comm_replace(wefti_comm *comm, const wefti_lost *lost, const void *data,
                               int64_t n_bytes) {
    return comm->ops->replace(comm, lost, data, n_bytes);
}

weft_status wefti_comm_agree(wefti_comm *comm, int64_t tag) {
    return comm->ops->agree ? comm->ops->agree(comm, tag) : WEFT_OK;
}

weft_status wefti_comm_await(wefti_comm *comm, int64_t tag) {
    if (wefti_comm_is_posted(tag)) tag ^= POSTED;
    if (comm->poster) WEFT_TRY(wefti_posts_await(comm, tag ^ POSTED));
    return comm->ops->await(comm, tag);
}

bool wefti_comm_holds(wefti_comm *comm, const void *data) {
    return comm->ops->holds(comm, data);
}

void wefti_comm_settle(wefti_comm *comm) {
    if (comm->ops->settle) comm->ops->settle(comm);
}

weft_status wefti_comm_reserve(wefti_comm *comm, int n_messages) {
    return comm->ops->reserve(comm, n_messages);
}

void wefti_comm_traffic(const wefti_comm *comm, wefti_traffic *out) {
    comm->ops->traffic(comm, out);
}

void wefti_comm_note(wefti_comm *comm, int64_t step, const char *at) {
    if (comm->ops->note) comm->ops->note(comm, step, at);
}

weft_status wefti_comm_barrier(wefti_comm *comm, int64_t tag) {
    tag = wefti_comm_posted(comm, tag);
    WEFT_TRY(wefti_comm_send_all(comm, tag, NULL, 0));
    for (int r = 0; r < comm->size; r++) {
        const void *view;
        if (r == comm->rank) continue;
        WEFT_TRY(wefti_comm_receive(comm, r, tag, 0, &view));
        wefti_comm_release(comm, r, tag);
    }
    return wefti_comm_await(comm, tag);
}

static weft_status all_gather(wefti_comm *comm, int64_t tag, const void *mine,
                              int64_t n_bytes, void *out) {
    char *slots = out;
    tag = wefti_comm_posted(comm, tag);
    WEFT_TRY(wefti_comm_send_all(comm, tag, mine, n_bytes));
    for (int r = 0; r < comm->size; r++) {
        const void *view = mine;
        if (r != comm->rank) WEFT_TRY(wefti_comm_receive(comm, r, tag, n_bytes, &view));
        memcpy(slots + (int64_t)r * n_bytes, view, (size_t)n_bytes);
        if (r != comm->rank) wefti_comm_release(comm, r, tag);
    }
    return wefti_comm_await(comm, tag);
}

weft_status wefti_comm_all_gather(wefti_comm *comm, int64_t tag, const void *mine,
                                  int64_t n_bytes, void *out) {
    weft_status status = all_gather(comm, tag, mine, n_bytes, out);
    if (status != WEFT_OK) wefti_comm_settle(comm);
    return status;
}

weft_status wefti_comm_sum(wefti_comm *comm, int64_t tag, int n, double *values) {
    double mine[MAX_SUM], theirs[MAX_SUM], sum[MAX_SUM] = {0};
    if (n > MAX_SUM)
        return weft_ctx_fail(comm->ctx, WEFT_ERR_INTERNAL,
                             "a sum of %d values, at most %d", n, (int)MAX_SUM);
    size_t n_bytes = (size_t)n * sizeof *values;
    tag = wefti_comm_posted(comm, tag);
    memcpy(mine, values, n_bytes);
    WEFT_TRY(wefti_comm_send_all(comm, tag, mine, (int64_t)n_bytes));
    for (int r = 0; r < comm->size; r++) {
        const void *view = mine;
        if (r != comm->rank)
            WEFT_TRY(wefti_comm_receive(comm, r, tag, (int64_t)n_bytes, &view));
        memcpy(theirs, view, n_bytes);
        for (int i = 0; i < n; i++) sum[i] += theirs[i];
        if (r != comm->rank) wefti_comm_release(comm, r, tag);
    }
    memcpy(values, sum, n_bytes);
    return wefti_comm_await(comm, tag);
}

int64_t wefti_comm_tag(int64_t step, int bucket, int stage) {
    return (step << 24) | ((int64_t)bucket << 4) | stage;
}

void wefti_comm_destroy(wefti_comm *comm) {
    if (comm) comm->ops->destroy(comm);
}
