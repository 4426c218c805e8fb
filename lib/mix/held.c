/* SPDX-License-Identifier: MIT */
/* For callers that keep parameters and the mixer's states where their tensors are, and code
 * there:
 *
 *     list -> the caller hands over -> prime, or after -> finish -> the caller takes
 *     (choco, order awc)  before -> the caller takes -> list -> ...
 *
 * A mixer takes what was handed over where it would have coded by itself, and delivers what it
 * would have changed parameters and states with. */
#include "mix/mixer.h"

void wefti_mixer_list_outgoing(wefti_mixer *m, int64_t step, bool prime) {
    m->n_outgoing = 0;
    for (int b = 0; b < m->n_buckets && m->outgoing; b++)
        m->ops->parcels(m, b, step, prime);
}

static void place_in(const wefti_mixer *m, const wefti_held_parcel *parcel,
                     wefti_held_parcel *at) {
    *at = *parcel;
    if (at->n == 0) at->n = m->buckets[at->bucket].n_elements;
    at->first += m->bucket_at[at->bucket];
}

void wefti_mixer_expect(wefti_mixer *m, const wefti_held_parcel *parcel) {
    place_in(m, parcel, &m->outgoing[m->n_outgoing++]);
}

void wefti_mixer_deliver(wefti_mixer *m, const wefti_held_parcel *parcel) {
    place_in(m, parcel, &m->incoming[m->n_incoming++]);
}

weft_status wefti_mixer_handed(const wefti_mixer *m, int bucket, int partner,
                               const wefti_held_parcel **parcel) {
    for (int k = 0; k < m->n_outgoing; k++) {
        *parcel = &m->outgoing[k];
        bool whole = (*parcel)->bytes || (*parcel)->n_bytes == 0;
        if ((*parcel)->bucket == bucket && (*parcel)->partner == partner && whole)
            return WEFT_OK;
    }
    return weft_ctx_fail(
        m->ctx, WEFT_ERR_ARGUMENT,
        "bucket %d is sent now, but the program has not handed its change over; expected "
        "weft_sync_supply for all that weft_sync_outgoing lists",
        bucket);
}
