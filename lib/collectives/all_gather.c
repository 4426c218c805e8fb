/* SPDX-License-Identifier: MIT */
/* Every rank's block to every rank:
 *
 *     rank r:   mine --> all others        all = | block 0 | block 1 | ... |
 *
 * Blocks are received in the order in which the other ranks begin to send: the next rank's
 * block first. */
#include <string.h>

#include "collectives/collectives.h"

static void take(const wefti_split *split, int rank, const float *block, float *all) {
    int64_t at = wefti_split_at(split, rank);
    if (split->take)
        split->take(split->self, rank, block, all);
    else if (all + at != block)
        memcpy(all + at, block, (size_t)split->floats(split->self, rank) * sizeof(float));
}

weft_status wefti_all_gather(wefti_comm *comm, int64_t tag, const wefti_split *split,
                             const float *mine, float *all) {
    int R = comm->size, me = comm->rank;
    int64_t size = (int64_t)sizeof(float);
    WEFT_TRY(wefti_comm_send_all(comm, tag, mine, split->floats(split->self, me) * size));
    take(split, me, mine, all);
    for (int k = 1; k < R; k++) {
        int peer = (me + k) % R;
        int64_t n_bytes = split->floats(split->self, peer) * size;
        const void *view;
        WEFT_TRY(wefti_comm_receive(comm, peer, tag, n_bytes, &view));
        take(split, peer, view, all);
        wefti_comm_release(comm, peer, tag);
    }
    return wefti_comm_await(comm, tag);
}
