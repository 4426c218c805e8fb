/* SPDX-License-Identifier: MIT */
/* Block r of every rank's x goes to rank r, which adds the blocks in rank order:
 *
 *     rank i:   x = | block 0 | block 1 | ... |     block r --> rank r
 *     rank r:   mine += block r of rank 0, then of rank 1, ...
 *
 * Each element is added by one rank in one order, so the sum has the same bits wherever it
 * is sent. */
#include "collectives/collectives.h"

int64_t wefti_split_at(const wefti_split *split, int rank) {
    int64_t at = 0;
    for (int r = 0; r < rank; r++) at += split->floats(split->self, r);
    return at;
}

weft_status wefti_reduce_scatter(wefti_comm *comm, int64_t tag,
                                 const wefti_kernels *kernels, const wefti_split *split,
                                 const float *x, float *mine) {
    int R = comm->size, me = comm->rank;
    int64_t n = split->floats(split->self, me), size = (int64_t)sizeof(float);
    for (int k = 1; k < R; k++) { /* not all ranks send to the same one first */
        int peer = (me + k) % R;
        WEFT_TRY(wefti_comm_send(comm, peer, tag, x + wefti_split_at(split, peer),
                                 split->floats(split->self, peer) * size));
    }
    for (int peer = 0; peer < R; peer++) {
        const void *view = x + wefti_split_at(split, me);
        if (peer != me) WEFT_TRY(wefti_comm_receive(comm, peer, tag, n * size, &view));
        kernels->accumulate(n, view, mine);
        if (peer != me) wefti_comm_release(comm, peer, tag);
    }
    return wefti_comm_await(comm, tag);
}
