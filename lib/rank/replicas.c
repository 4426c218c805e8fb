/* SPDX-License-Identifier: MIT */
/* One model out of several replicas, between steps, while the exchange thread is idle:
 *
 *     average   an all-reduce of the parameters, each range summed in rank order by the
 *               rank that owns it, so that all ranks get the same bits
 *     compare   a checksum of each unit's shard, compared with that of most of the group */
#include <string.h>

#include <xxhash.h>

#include "base/memory.h"
#include "collectives/collectives.h"
#include "mix/mixer.h"
#include "rank/rank.h"

/* Tags of the exchange groups that no replicator and no mixer uses: they are negative. */
static int64_t own_tag(wefti_rank *r) { return -1 - r->onward.n_replica_messages++; }

/* The parameters in ranges, one for each rank of the group. */
static int64_t range_floats(const void *rank, int i) {
    const wefti_rank *r = rank;
    int64_t n = r->arrangement->n_elements, R = r->comms.sites->size;
    return n * (i + 1) / R - n * i / R;
}

/* The gradients, which hold a copy of the parameters, are what is sent. */
weft_status wefti_rank_average(wefti_rank *r) {
    wefti_comm *comm = r->comms.sites;
    wefti_split split = {range_floats, r, NULL};
    float *sum = r->params + wefti_split_at(&split, comm->rank);
    int64_t n = range_floats(r, comm->rank);
    memcpy(r->grads, r->params, (size_t)r->arrangement->n_elements * sizeof(float));
    wefti_rank_forget_gathered(r);
    if (comm->size == 1) return WEFT_OK;
    memset(sum, 0, (size_t)n * sizeof(float));
    WEFT_TRY(
        wefti_reduce_scatter(comm, own_tag(r), r->job->kernels, &split, r->grads, sum));
    r->job->kernels->scale(n, 1.0f / (float)comm->size, sum);
    return wefti_all_gather(comm, own_tag(r), &split, sum, r->params);
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

int wefti_rank_find_most(const uint64_t *all, int R, size_t n_bytes) {
    int best = 0, most = 0;
    for (int i = 0; i < R; i++) {
        int alike = 0;
        for (int j = 0; j < R; j++)
            alike += memcmp((const char *)all + (size_t)i * n_bytes,
                            (const char *)all + (size_t)j * n_bytes, n_bytes) == 0;
        if (alike > most) best = i;
        if (alike > most) most = alike;
    }
    return best;
}

/* Compares this rank's sums with those that most of the group have; of as many that of the
 * lowest rank. So one rank that differs fails alone. */
static weft_status compare_group(wefti_rank *r, wefti_comm *comm, int64_t step) {
    int n = r->arrangement->n_units;
    uint64_t *all;
    WEFT_TRY(
        wefti_alloc_n(r->ctx, (int64_t)n * comm->size, sizeof *all, "checksums", &all));
    weft_status status = wefti_comm_all_gather(comm, own_tag(r), r->audit.sums,
                                               n * (int64_t)sizeof *all, all);
    int most = 0;
    if (status == WEFT_OK)
        most = wefti_rank_find_most(all, comm->size, (size_t)n * sizeof *all);
    for (int u = 0; u < n && status == WEFT_OK; u++) {
        if (all[most * n + u] == r->audit.sums[u]) continue;
        status = weft_ctx_fail(
            r->ctx, WEFT_ERR_NUMERIC,
            "after step %lld unit %s of replica %d is not bit for bit "
            "that of most replicas (of two: of the lower): are binary and "
            "mesh.kernels the same?",
            (long long)step + 1, r->job->model->units[u].name, r->replica);
    }
    wefti_free(r->ctx, all);
    return status;
}

weft_status wefti_rank_compare(wefti_rank *r, int64_t step) {
    const wefti_arrangement *a = r->arrangement;
    for (int u = 0; u < a->n_units; u++)
        r->audit.sums[u] = XXH3_64bits(r->params + a->unit_offset[u],
                                       (size_t)a->layouts[u].n_shard * sizeof(float));
    bool mixed_equal = r->mixer->ops->agrees(&r->job->mixer_config, step);
    if (wefti_job_has_sites(r->job)) WEFT_TRY(compare_group(r, r->comms.replica, step));
    if (!mixed_equal) return WEFT_OK;
    return compare_group(r, r->comms.sites, step);
}

/* Each shard is compared with that of the first replica. All ranks see all sums, so all
 * fail alike. */
weft_status wefti_rank_compare_initial(wefti_rank *r) {
    wefti_comm *all = r->comms.control;
    int64_t n = r->arrangement->n_elements, tag = wefti_rank_control_tag(r);
    uint64_t own = XXH3_64bits(r->params, (size_t)n * sizeof *r->params), *sums;
    WEFT_TRY(wefti_alloc_n(r->ctx, all->size, sizeof own, "checksums", &sums));
    weft_status status = wefti_comm_all_gather(all, tag, &own, sizeof own, sums);
    for (int i = r->job->S; status == WEFT_OK && i < all->size; i++)
        if (sums[i] != sums[i % r->job->S])
            status = weft_ctx_fail(
                r->ctx, WEFT_ERR_CONFIG,
                "the parameters that rank %d begins with are not those "
                "of rank %d; expected the same model on all machines "
                "(model.init, adapter.init)",
                i, i % r->job->S);
    wefti_free(r->ctx, sums);
    return status;
}
