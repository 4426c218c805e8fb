/* SPDX-License-Identifier: MIT */
/* Digests of what a rank sends (sent.h draws when they are made and reported). */
#include "comm/sent.h"

#include <stdatomic.h>

#include <xxhash.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/memory.h"

weft_status wefti_sent_init(weft_ctx *ctx, int64_t lag, int64_t first_step,
                            wefti_sent *sent) {
    sent->lag = lag;
    sent->slots = lag + 2; /* gossip may send for the next step */
    sent->first = first_step;
    atomic_init(&sent->reported, first_step);
    return wefti_alloc_n(ctx, sent->slots * WEFTI_SENT_ROUNDS, sizeof *sent->sums,
                         "digests of messages", &sent->sums);
}

void wefti_sent_fini(weft_ctx *ctx, wefti_sent *sent) { wefti_free(ctx, sent->sums); }

static _Atomic uint64_t *sums_of(wefti_sent *sent, int64_t step) {
    return sent->sums + step % sent->slots * WEFTI_SENT_ROUNDS;
}

void wefti_sent_count(wefti_sent *sent, int64_t step, int round, int64_t tag,
                      int receiver, const void *message, int64_t n_bytes) {
    uint64_t seed = (uint64_t)tag ^ ((uint64_t)(receiver + 1) << 52);
    if (step < sent->first) return; /* of an exchange that began before this world */
    WEFTI_ASSERT(step >= sent->reported && step < sent->reported + sent->slots);
    WEFTI_ASSERT(round >= 0 && round < WEFTI_SENT_ROUNDS);
    uint64_t digest = XXH3_64bits_withSeed(message, (size_t)n_bytes, seed);
    atomic_fetch_add_explicit(&sums_of(sent, step)[round], digest, memory_order_relaxed);
}

void wefti_sent_tell(wefti_sent *sent, int64_t step,
                     unsigned char out[WEFTI_SENT_BYTES]) {
    int64_t past = step - sent->lag;
    for (int k = 0; k < WEFTI_SENT_ROUNDS; k++) {
        bool known = past >= sent->reported;
        uint64_t sum = known ? atomic_exchange_explicit(&sums_of(sent, past)[k], 0,
                                                        memory_order_relaxed)
                             : 0;
        wefti_put_u64(out + 8 * k, sum);
    }
    if (past >= sent->reported) sent->reported = past + 1;
}
