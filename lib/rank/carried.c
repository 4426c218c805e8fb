/* SPDX-License-Identifier: MIT */
/* From one world to the next: the arrays that a rank keeps. */
#include "rank/carried.h"

#include "base/assert.h"
#include "base/memory.h"

int wefti_rank_arrays(wefti_rank *r, float **out[WEFTI_RANK_ARRAYS]) {
    wefti_replicator *replicators[] = {r->replicator, r->site_replicator};
    int n = 0, n_mixer = r->mixer->ops->keeps_partners ? 0 : r->mixer->n_states;
    out[n++] = &r->params;
    for (int i = 0; i < r->job->most_states->n_states; i++) out[n++] = &r->state[i];
    for (int k = 0; k < 2 && replicators[k]; k++)
        for (int i = 0; i < replicators[k]->n_states; i++)
            out[n++] = &replicators[k]->state[i];
    for (int i = 0; i < n_mixer; i++) out[n++] = &r->mixer->state[i];
    WEFTI_ASSERT(n <= WEFTI_RANK_ARRAYS);
    return n;
}

void wefti_carried_swap(wefti_carried *l, wefti_rank *r) {
    float **arrays[WEFTI_RANK_ARRAYS];
    int n = wefti_rank_arrays(r, arrays);
    for (int i = 0; i < (l->n == 1 ? 1 : n); i++) {
        float *kept = l->array[i];
        l->array[i] = *arrays[i];
        *arrays[i] = kept;
    }
    if (n > l->n) l->n = n;
}

void wefti_carried_fini(weft_ctx *ctx, wefti_carried *l) {
    for (int i = 0; i < l->n; i++) wefti_free(ctx, l->array[i]);
}
