/* SPDX-License-Identifier: MIT */
/* One model out of several replicas, between steps, when the exchange thread rests:
 *
 *     average   an all-reduce of the parameters, each range summed in rank order by the
 *               rank that owns it, so that all ranks get the same bits
 *     compare   a checksum of each unit's shard, sent to the group's first rank
 */
#include <string.h>

#include <xxhash.h>

#include "train/rank.h"

/* Tags of the exchange groups that no replicator and no mixer makes: they are negative.
 */
static int64_t own_tag(wefti_rank *r) { return -1 - r->n_replica_messages++; }

static int64_t range_begin(int64_t n, int R, int i) { return n * i / R; }

static int64_t range_bytes(int64_t n, int R, int i) {
    return (range_begin(n, R, i + 1) - range_begin(n, R, i)) * (int64_t)sizeof(float);
}

/* grads, which hold a copy of the parameters, are what is sent. */
static weft_status sum_range(wefti_rank *r, wefti_comm *comm, int64_t tag) {
    int R = comm->size, me = comm->rank;
    int64_t n = r->arrangement->n_elements, first = range_begin(n, R, me);
    int64_t n_bytes = range_bytes(n, R, me), count = n_bytes / (int64_t)sizeof(float);
    float *sum = r->params + first;
    for (int k = 1; k < R; k++) { /* not all to the same one first */
        int peer = (me + k) % R;
        WEFT_TRY(wefti_comm_send(comm, peer, tag, r->grads + range_begin(n, R, peer),
                                 range_bytes(n, R, peer)));
    }
    memset(sum, 0, (size_t)n_bytes);
    for (int peer = 0; peer < R; peer++) {
        const void *view = r->grads + first;
        if (peer != me) WEFT_TRY(wefti_comm_receive(comm, peer, tag, n_bytes, &view));
        r->job->kernels->accumulate(count, view, sum);
        if (peer != me) wefti_comm_release(comm, peer, tag);
    }
    r->job->kernels->scale(count, 1.0f / (float)R, sum);
    return wefti_comm_await(comm, tag);
}

static weft_status collect_ranges(wefti_rank *r, wefti_comm *comm, int64_t tag) {
    int R = comm->size, me = comm->rank;
    int64_t n = r->arrangement->n_elements;
    WEFT_TRY(wefti_comm_send_all(comm, tag, r->params + range_begin(n, R, me),
                                 range_bytes(n, R, me)));
    for (int peer = 0; peer < R; peer++) {
        const void *view;
        if (peer == me) continue;
        WEFT_TRY(wefti_comm_receive(comm, peer, tag, range_bytes(n, R, peer), &view));
        memcpy(r->params + range_begin(n, R, peer), view,
               (size_t)range_bytes(n, R, peer));
        wefti_comm_release(comm, peer, tag);
    }
    return wefti_comm_await(comm, tag);
}

weft_status wefti_rank_average(wefti_rank *r) {
    wefti_comm *comm = r->comms.sites;
    memcpy(r->grads, r->params, (size_t)r->arrangement->n_elements * sizeof(float));
    wefti_rank_forget_gathered(r);
    if (comm->size == 1) return WEFT_OK;
    WEFT_TRY(sum_range(r, comm, own_tag(r)));
    return collect_ranges(r, comm, own_tag(r));
}

void wefti_rank_restore(wefti_rank *r) {
    memcpy(r->params, r->grads, (size_t)r->arrangement->n_elements * sizeof(float));
    wefti_rank_forget_gathered(r);
}

double wefti_rank_distance_squares(const wefti_rank *r) {
    double sum = 0;
    for (int64_t i = 0; i < r->arrangement->n_elements; i++) {
        double off = (double)r->grads[i] - (double)r->params[i];
        sum += off * off;
    }
    return sum;
}

/* Compares this rank's sums with those of the group's first rank. */
static weft_status compare_group(wefti_rank *r, wefti_comm *comm, int64_t step) {
    int64_t n_bytes = r->arrangement->n_units * (int64_t)sizeof *r->sums,
            tag = own_tag(r);
    weft_status status = WEFT_OK;
    if (comm->rank == 0) {
        WEFT_TRY(wefti_comm_send_all(comm, tag, r->sums, n_bytes));
        return wefti_comm_await(comm, tag);
    }
    const void *view;
    WEFT_TRY(wefti_comm_receive(comm, 0, tag, n_bytes, &view));
    for (int u = 0; u < r->arrangement->n_units && status == WEFT_OK; u++) {
        uint64_t theirs;
        memcpy(&theirs, (const char *)view + u * (int64_t)sizeof theirs, sizeof theirs);
        if (theirs != r->sums[u])
            status = weft_ctx_fail(
                r->ctx, WEFT_ERR_NUMERIC,
                "after step %lld the parameters of unit %s differ between replica %d and "
                "the first of its group (checksums %016llx and %016llx): they ought to "
                "be "
                "equal bit for bit; do all nodes run the same binary with the same "
                "mesh.kernels?",
                (long long)step + 1, r->job->model->units[u].name, r->replica,
                (unsigned long long)r->sums[u], (unsigned long long)theirs);
    }
    wefti_comm_release(comm, 0, tag);
    return status;
}

weft_status wefti_rank_compare(wefti_rank *r, int64_t step) {
    const wefti_arrangement *a = r->arrangement;
    for (int u = 0; u < a->n_units; u++)
        r->sums[u] = XXH3_64bits(r->params + a->unit_offset[u],
                                 (size_t)a->layouts[u].n_shard * sizeof(float));
    bool mixed_equal = r->mixer->ops->agrees(&r->job->mixer_config, step);
    if (r->job->sites > 1) WEFT_TRY(compare_group(r, r->comms.replica, step));
    if (!mixed_equal) return WEFT_OK;
    return compare_group(r, r->comms.sites, step);
}
