/* SPDX-License-Identifier: MIT */
/* From one world to the next: what the configuration says about membership, and the arrays
 * that a rank keeps, whoever runs the loop. */
#include "rank/luggage.h"

#include <string.h>

#include "base/memory.h"

wefti_elastic_policy wefti_regroup_policy(const weft_config *config, bool own_loop) {
    double patience_s = config->elastic.patience;
    return (wefti_elastic_policy){
        .silence_s = config->elastic.silence,
        .patience_s = own_loop && patience_s == 0 ? -1 : patience_s,
        .pause_s = config->elastic.pause,
        .faults = config->elastic.faults,
        .witness = config->elastic.witness,
        .split = strcmp(config->elastic.partition, "split") == 0,
        .own_loop = own_loop};
}

static void swap(float **a, float **b) {
    float *c = *a;
    *a = *b;
    *b = c;
}

void wefti_luggage_exchange(wefti_luggage *l, wefti_rank *r) {
    int n = 0;
    swap(&l->params, &r->params);
    for (int i = 0; i < r->job->most_states->n_states; i++)
        swap(&l->state[n++], &r->state[i]);
    for (int i = 0; i < r->replicator->n_states; i++)
        swap(&l->state[n++], &r->replicator->state[i]);
    for (int i = 0; r->site_replicator && i < r->site_replicator->n_states; i++)
        swap(&l->state[n++], &r->site_replicator->state[i]);
    bool keeps = r->mixer->ops->keeps_partners; /* their number has changed */
    for (int i = 0; i < r->mixer->n_states && !keeps; i++)
        swap(&l->state[n++], &r->mixer->state[i]);
    if (n > l->n) l->n = n;
}

void wefti_luggage_leave(weft_ctx *ctx, wefti_luggage *l) {
    wefti_free(ctx, l->params);
    for (int i = 0; i < l->n; i++) wefti_free(ctx, l->state[i]);
}
