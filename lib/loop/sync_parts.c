/* SPDX-License-Identifier: MIT */
/* The end of a step bucket by bucket. It does the same work as weft_sync_step and
 * weft_sync_agree, so all bits are the same; the caller only learns of a bucket earlier.
 *
 *     exchange thread   b0 begin .. end, apply | b1 ... | b2 ...
 *     caller            complete  wait_any: b0 -> copy b0 | wait_any: b1 -> copy b1 ... step
 *
 * Buckets are named in their order, even if a later one is done first: a mixer in front
 * of the caller's optimizer waits for its neighbours bucket by bucket, in one order
 * everywhere. */
#include <math.h>

#include "base/sized.h"
#include "comm/worker.h"
#include "loop/sync.h"

/* A wait of this length is as good as endless, and fits into a timespec. */
static const double longest_s = 1e6;

weft_status weft_sync_complete(weft_sync *s, double loss) {
    bool skipped;
    if (s->now.completed)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "weft_sync_complete for the second time in step %lld",
                             (long long)s->step + 1);
    WEFT_TRY(wefti_sync_told(s, wefti_sync_close(s, loss, &skipped)));
    s->now.completed = true;
    s->now.passed = skipped;
    return WEFT_OK;
}

bool wefti_sync_ended(const weft_sync *s, int i) {
    bool named = s->now.completed && s->rank->arrangement->bucket_of[i] < s->now.named;
    return s->now.agreed || named;
}

static weft_status check_wait(weft_sync *s, double timeout_s) {
    WEFT_TRY(wefti_process_check(s->ctx, s->process, "the model's exchange"));
    if (!s->now.completed)
        return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                             "weft_sync_wait_any without weft_sync_complete before it");
    if (timeout_s >= 0) return WEFT_OK;
    return weft_ctx_fail(s->ctx, WEFT_ERR_ARGUMENT,
                         "tensors are waited for %g s, expected 0 or more", timeout_s);
}

/* Units, which are tensors here, go into buckets from the last to the first. */
static void name_tensors(const weft_sync *s, int bucket, weft_sync_part *part) {
    const int *last_units = s->rank->arrangement->bucket_last_unit;
    part->first = last_units[bucket];
    part->n = (bucket > 0 ? last_units[bucket - 1] : s->setup.n_tensors) - part->first;
}

static weft_status wait_any(weft_sync *s, double timeout_s, weft_sync_part *part) {
    wefti_rank *r = s->rank;
    int b = s->now.named;
    bool there = false;
    *part = (weft_sync_part){.struct_size = sizeof(weft_sync_part), .first = 0};
    WEFT_TRY(check_wait(s, timeout_s));
    part->moves = s->setup.outside && !s->now.passed && wefti_sync_moves(s);
    part->all = s->now.passed || b == r->arrangement->n_buckets;
    if (part->all) return WEFT_OK;
    WEFT_TRY(wefti_worker_wait_for(r->exchange.worker, r->exchange.tickets[b],
                                   fmin(timeout_s, longest_s), &there,
                                   &r->now.tally.wait_s));
    if (!there) return WEFT_OK;
    if (s->setup.outside)
        WEFT_TRY(wefti_mixer_before(r->mixer, b, r->step,
                                    r->params + r->arrangement->bucket_offset[b]));
    name_tensors(s, b, part);
    s->now.named++;
    return WEFT_OK;
}

weft_status weft_sync_wait_any(weft_sync *s, double timeout_s, weft_sync_part *part) {
    weft_ctx *ctx = s->ctx;
    WEFTI_SIZED_OUT(ctx, weft_sync_part, part);
    return WEFTI_SIZED_GIVE(weft_sync_part, part,
                            wefti_sync_told(s, wait_any(s, timeout_s, part)));
}
