/* SPDX-License-Identifier: MIT */
/* Exchanges that follow each other on one mesh, outside of membership. An exchange may end while
 * messages for its next step are on their way (a mixer's delay), and the next exchange begins with
 * the same steps. So each has channels of its own: a round, counted alike on all ranks, because all
 * make their exchanges in the same order.
 *
 *     channel = world << WEFTI_VIEW_SHIFT | group and use
 *     world     0 ... WEFTI_MAX_VIEWS - 1    views of membership; 0 also runs without it
 *               then WEFTI_ROUNDS more       exchanges, in turns
 *
 * When a round begins, what is left of the former half of all rounds is dropped; nobody can have
 * sent anything of the other half yet but for rounds to come. */
#include "mesh/elastic.h"
#include "base/lock.h"

static int world_of(int round) { return WEFTI_MAX_VIEWS + round % WEFTI_ROUNDS; }

/* Lock held. Whether a message is of a round that has ended, given the one that begins. */
static bool is_old(const weft_mesh *mesh, const wefti_arrival *arrival, int round) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    int of = (arrival->channel >> WEFTI_VIEW_SHIFT) - WEFTI_MAX_VIEWS;
    if (of < 0 || of >= WEFTI_ROUNDS || mesh->rounds.open[of]) return false;
    int ago = (round % WEFTI_ROUNDS - of + WEFTI_ROUNDS) % WEFTI_ROUNDS;
    return ago > 0 && ago <= WEFTI_ROUNDS / 2;
}

weft_status wefti_mesh_begin_round(weft_ctx *ctx, weft_mesh *mesh, int *round) {
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&mesh->lock);
    int n = mesh->rounds.n;
    bool *open = &mesh->rounds.open[n % WEFTI_ROUNDS];
    for (wefti_arrival **link = &mesh->incoming.posted; *link;) {
        wefti_arrival *arrival = *link;
        if (!is_old(mesh, arrival, n)) {
            link = &arrival->next;
            continue;
        }
        *link = arrival->next;
        wefti_incoming_recycle(mesh, arrival);
    }
    if (*open) status = WEFT_ERR_ARGUMENT;
    *round = *open ? -1 : n;
    *open = true;
    mesh->rounds.world = status == WEFT_OK ? world_of(n) : 0;
    pthread_mutex_unlock(&mesh->lock);
    if (status == WEFT_OK) return WEFT_OK;
    return weft_ctx_fail(
        ctx, status,
        "%d exchanges have been made on this mesh since one that is still "
        "open; destroy that one first",
        (int)WEFTI_ROUNDS);
}

void wefti_mesh_end_joins(weft_mesh *mesh) { mesh->rounds.world = 0; }

void wefti_mesh_count_round(weft_mesh *mesh, int round) {
    if (round >= 0) mesh->rounds.n++;
}

void wefti_mesh_end_round(weft_mesh *mesh, int round) {
    if (round < 0) return;
    pthread_mutex_lock(&mesh->lock);
    mesh->rounds.open[round % WEFTI_ROUNDS] = false;
    pthread_mutex_unlock(&mesh->lock);
}
