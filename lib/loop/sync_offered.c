/* SPDX-License-Identifier: MIT */
/* Room for the offers of a caller that compresses (sync_offer.c), and the check that a
 * tensor was offered. */
#include "base/memory.h"
#include "loop/sync.h"

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
    WEFT_TRY(
        wefti_alloc_n(s->ctx, s->n_tensors, sizeof *s->offers, "offers", &s->offers));
    s->rank->replicator->offers = s->offers;
    return WEFT_OK;
}

weft_status wefti_sync_check_offered(weft_sync *s, int i) {
    if (!s->offers || s->offers[i].values || !wefti_sync_piece(s, i)) return WEFT_OK;
    return weft_ctx_fail(
        s->ctx, WEFT_ERR_ARGUMENT,
        "tensor %d is ready, but was not offered: the program compresses", i);
}
