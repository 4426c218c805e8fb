/* SPDX-License-Identifier: MIT */
/* From one world to the next, between two steps:
 *
 *     cards: who has parameters and state -> somebody has each part of the model, or all end */
#include "loop/loop.h"

#include <string.h>

#include "base/memory.h"

/* --- cards --- */

static void read_cards(weft_mesh *mesh, wefti_loop_cards *cards, int W) {
    const size_t faults_bytes = sizeof(wefti_fault) * WEFTI_FAULTY_MACHINES;
    wefti_fault faults[WEFTI_FAULTY_MACHINES];
    for (int r = 0; r < W; r++) {
        const char *card = (const char *)cards->all + r * cards->n_bytes;
        int64_t has;
        memcpy(&has, card, sizeof has);
        cards->has[r] = has == 1;
        memcpy(faults, card + (size_t)cards->n_bytes - faults_bytes, faults_bytes);
        wefti_elastic_learn_faults(mesh, faults);
    }
    while (cards->first < W && !cards->has[cards->first]) cards->first++;
}

/* Whether each shard of the model is on some rank that has state, in whichever copy. */
static bool have_all(const wefti_loop_cards *cards, int W) {
    int n = 0;
    for (int s = 0; s < cards->shards; s++) {
        bool one = false;
        for (int r = s; r < W; r += cards->shards) one = one || cards->has[r];
        n += one;
    }
    return n == cards->shards;
}

weft_status wefti_loop_show(weft_ctx *ctx, wefti_bootstrap *members,
                            wefti_loop_cards *cards) {
    int W = members->comm->size;
    cards->all = cards->has = NULL;
    cards->first = 0;
    WEFT_TRY(wefti_alloc_n(ctx, W, (size_t)cards->n_bytes, "what the ranks show",
                           &cards->all));
    WEFT_TRY(wefti_alloc_n(ctx, W, sizeof *cards->has, "ranks", &cards->has));
    weft_status status = wefti_comm_all_gather(members->comm, members->n_messages++,
                                               cards->own, cards->n_bytes, cards->all);
    cards->heard = status == WEFT_OK;
    if (!cards->heard)
        return wefti_elastic_interrupted(ctx, members->mesh) ? WEFT_OK : status;
    read_cards(members->mesh, cards, W);
    if (have_all(cards, W)) return WEFT_OK;
    return weft_ctx_fail(ctx, WEFT_ERR_PEER,
                         "all who had parameters and state are lost before they could "
                         "hand them over; resume from a checkpoint");
}

void wefti_loop_put_away(weft_ctx *ctx, wefti_loop_cards *cards) {
    wefti_free(ctx, cards->all);
    wefti_free(ctx, cards->has);
}
