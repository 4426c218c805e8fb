/* SPDX-License-Identifier: MIT */
/* Which parts of a method a caller may compute, room for what it offers (sync_submit.c), and the
 * check that a tensor was offered. */
#include "base/memory.h"
#include "base/text.h"
#include "loop/sync.h"

int weft_sync_traits(const weft_config *config) {
    const wefti_replicator_ops *r = wefti_replicator_find(config->replicator.kind);
    const wefti_mixer_ops *m = wefti_mixer_find(config->mixer.kind);
    bool offers = r->offers && config->replicator.every == 1 && config->mesh.sites <= 1;
    bool signs = r->votes;
    for (const char *const *key = r->keys; *key; key++)
        signs |= wefti_is(*key, "sign") && config->replicator.sign;
    return (signs ? WEFT_SYNC_SIGNS : 0) | (offers ? WEFT_SYNC_SUBMITS : 0) |
           (r->transforms ? WEFT_SYNC_TRANSFORMS : 0) |
           (m->parcels ? WEFT_SYNC_HOLDS : 0) | (m->meets ? WEFT_SYNC_MEETS : 0) |
           (m->direct ? WEFT_SYNC_DIRECTS : 0);
}

const wefti_piece *wefti_sync_piece(const weft_sync *s, int i) {
    const wefti_bucket *bucket =
        &s->rank->arrangement->buckets[s->rank->arrangement->bucket_of[i]];
    for (int k = 0; k < bucket->n_pieces; k++)
        if (bucket->pieces[k].tensor == i) return &bucket->pieces[k];
    return NULL; /* a shard without rows */
}

weft_status wefti_sync_prepare_offers(weft_sync *s) {
    const wefti_replicator *r = s->rank->replicator;
    if (!s->setup.outside || s->rank->site_replicator || r->config.every != 1 ||
        !r->ops->offers)
        return weft_ctx_fail(
            s->ctx, WEFT_ERR_CONFIG,
            "the program compresses, with an optimizer %s, replicator '%s'%s, every %lld "
            "steps; expected the program's optimizer, demo or topk, no sites, and 1",
            s->setup.outside ? "of the program's" : "of weft's", r->config.kind,
            s->rank->site_replicator ? " between sites, too" : "",
            (long long)r->config.every);
    WEFT_TRY(wefti_alloc_n(s->ctx, s->setup.n_tensors, sizeof *s->now.offers, "offers",
                           &s->now.offers));
    s->rank->replicator->offers = s->now.offers;
    return WEFT_OK;
}

weft_status wefti_sync_check_offered(weft_sync *s, int i) {
    if (!s->now.offers || s->now.offers[i].values || !wefti_sync_piece(s, i))
        return WEFT_OK;
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_ARGUMENT,
        "tensor %d is ready, but was not offered: the program compresses", i);
}
