/* SPDX-License-Identifier: MIT */
/* The way back of a process that lives, and that the others have gone on without.
 *
 *     stood still, or behind a cut link --> heard again: EVICTED     the others train; it is out
 *     too few others for elastic.pause  --> NO_QUORUM                they may train, or may not
 *
 * Its parameters and state are those of an earlier step, and its incarnation number is not accepted
 * again. So it joins as any other process: with a new incarnation, and with parameters and state
 * from the others. All that is kept of the old
 * mesh is where those listened whom it knew; any of them, or of their successors at the same
 * address, takes it in or says who does (latecomer.h).
 *
 * Who leads may find before it hears anything that another process has taken the run folder over:
 * it fails by itself, and goes back as well.
 *
 * Ranks that share a copy of the model are left behind together, but hear of it one after another:
 * the first to hear fails, and takes the others along before they have heard. They go back if the
 * one that failed was left behind. */
#include <stdio.h>
#include <string.h>

#include "comm/elastic.h"

/* Appends where a rank listens; false: it does not fit any more. */
static bool add_door(const weft_mesh *mesh, int rank, char *out, size_t size) {
    const weft_transport *t = mesh->transport;
    char door[128];
    size_t n = strlen(out);
    if (!t->ops->where || !t->ops->where(t, mesh->peer_of[rank], door, sizeof door))
        return true;
    if (n + strlen(door) + 2 > size) return false;
    snprintf(out + n, size - n, "%s%s", n ? "," : "", door);
    return true;
}

void wefti_elastic_note_way_back(weft_mesh *mesh, wefti_member_out out) {
    wefti_elastic *e = mesh->elastic;
    char text[WEFTI_WAY_BACK_BYTES] = "";
    int S = e->setup.shards;
    for (int r = 0; r < e->size; r++)
        if (r / S != mesh->rank / S && !add_door(mesh, r, text, sizeof text)) break;
    pthread_mutex_lock(&mesh->lock);
    bool lives = out == WEFTI_OUT_EVICTED || out == WEFTI_OUT_NO_QUORUM ||
                 (out == WEFTI_OUT_LEFT && e->replaced);
    if (lives)
        memcpy(e->way_back, text, sizeof text); /* that it has left since is no matter */
    e->is_out = true;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}
