/* SPDX-License-Identifier: MIT */
/* Messages that did not count: each rank notes the messages that it did without because
 * their senders were lost. In a run with failures only this list is left to chance; with it
 * and the list of views a run can be replayed to the same bits (train/replay.c).
 *
 *     message for all, or for me        not here and with nobody   ->  noted by each receiver
 *     an owner's answer                 made again from parts      ->  of these parts, those
 *                                                                     that nobody has sent
 *
 * An answer that was begun under one view and discarded for the next one leaves no entries:
 * they become final only when the answer is put in place. */
#define _GNU_SOURCE
#include "mesh/elastic.h"

#include <stdio.h>
#include <string.h>

#include "base/lock.h"
#include "base/memory.h"

enum { BASE_CHANNELS = (1 << WEFTI_VIEW_SHIFT) - 1, STAGES = 15 };

static bool is_status(int base) { return base == WEFTI_GROUP_WORLD * 8; }

bool wefti_elastic_is_answer(int channel, int64_t tag) {
    return !is_status(channel & BASE_CHANNELS) && (tag & STAGES) % 2 == 1;
}

void wefti_elastic_miss(weft_mesh *mesh, const wefti_missed *missed) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    if (e->n_missed == e->max_missed) {
        int more = e->max_missed ? 2 * e->max_missed : 64;
        e->forgot_missed |= wefti_grow(mesh->ctx, &e->missed, e->max_missed, more,
                                       sizeof *e->missed,
                                       "messages that do not count") != WEFT_OK;
        if (e->forgot_missed) return;
        e->max_missed = more;
    }
    wefti_missed *last = &e->missed[e->n_missed++];
    *last = *missed;
    last->channel &= BASE_CHANNELS;
}

void wefti_elastic_settle(weft_mesh *mesh, const wefti_missed *answer, bool stands) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    int channel = answer->channel & BASE_CHANNELS, n = 0;
    for (int i = 0; i < e->n_missed; i++) {
        wefti_missed *m = &e->missed[i];
        bool about = !m->settled && m->tag == answer->tag && m->channel == channel &&
                     m->receiver == answer->receiver;
        if (about && !stands) continue;
        if (about) m->settled = 1;
        e->missed[n++] = *m;
    }
    e->n_missed = n;
}

weft_status wefti_elastic_missed(weft_ctx *ctx, weft_mesh *mesh, wefti_missed **out,
                                 int *n) {
    const wefti_elastic *e = mesh->elastic;
    pthread_mutex_lock(&mesh->lock);
    *n = e->n_missed;
    weft_status status = wefti_alloc_n(ctx, *n, sizeof **out,
                                       "messages that do not count", out);
    if (status == WEFT_OK && *n > 0) memcpy(*out, e->missed, (size_t)*n * sizeof **out);
    if (e->forgot_missed) *n = -1;
    pthread_mutex_unlock(&mesh->lock);
    return status;
}

void wefti_elastic_forget_missed(weft_mesh *mesh) {
    wefti_elastic *e = mesh->elastic;
    pthread_mutex_lock(&mesh->lock);
    e->n_missed = 0;
    e->forgot_missed = false;
    pthread_mutex_unlock(&mesh->lock);
}

void wefti_elastic_who(const weft_mesh *mesh, int rank, int *place, uint64_t *name) {
    const wefti_elastic *e = mesh->elastic;
    WEFTI_ASSERT(!e || (rank >= 0 && rank < e->n_ranks));
    *place = e ? e->ranks[rank] : rank;
    *name = e ? e->at[*place].was : 0;
}

void wefti_elastic_why(weft_mesh *mesh, int place, char *out, size_t size) {
    const wefti_elastic *e = mesh->elastic;
    pthread_mutex_lock(&mesh->lock);
    const char *said = e->at[place].reason;
    snprintf(out, size, "%s",
             said[0]              ? said
             : e->at[place].ended ? "its connection ended"
                                  : "it was not heard any more");
    pthread_mutex_unlock(&mesh->lock);
}
