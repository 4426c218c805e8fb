/* SPDX-License-Identifier: MIT */
/* What all processes of a run must have in common, as text, for a process that joins:
 *
 *     a joiner that was rejected, or has to know -> asks the ranks it is connected to
 *     each member                                -> sends its own text; the first one counts
 *
 * Other joins cost nothing. What the process makes of the answer is decided in rank/alike.h
 * and train/decide.h. Every process here holds the key of the run, so the text is not secret
 * from it. */
#define _GNU_SOURCE
#include "mesh/elastic.h"

#include <string.h>

#include "base/memory.h"

weft_status wefti_elastic_keep_notice(weft_ctx *ctx, wefti_elastic *e) {
    const wefti_elastic_setup *setup = &e->setup;
    if (setup->notice_bytes == 0) return WEFT_OK;
    WEFT_TRY(wefti_alloc(ctx, (size_t)setup->notice_bytes, "membership", &e->notice));
    memcpy(e->notice, setup->notice, (size_t)setup->notice_bytes);
    e->setup.notice = NULL; /* the caller's */
    return WEFT_OK;
}

void wefti_elastic_ask_notice(weft_mesh *mesh) {
    const weft_transport_entry *entry = mesh->transport->entry;
    pthread_mutex_lock(&mesh->lock);
    mesh->notice.asks = true;
    for (int r = 0; r < mesh->places.n_slots; r++)
        if (r != mesh->rank && entry->names[mesh->places.peer_of[r]])
            wefti_elastic_submit(mesh, r, WEFTI_CHANNEL_NOTICE, 0, NULL, 0);
    pthread_mutex_unlock(&mesh->lock);
}

bool wefti_elastic_ask_why(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    if (!e->setup.joins || e->view.number > 0 || e->setup.notice_bytes == 0) return false;
    wefti_elastic_ask_notice(mesh);
    pthread_mutex_lock(&mesh->lock);
    e->fate.refused = true;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
    return true;
}

void wefti_elastic_take_notice(weft_mesh *mesh, const wefti_arrival *arrival) {
    WEFTI_ASSERT_PROGRESS(mesh);
    const wefti_elastic *e = mesh->elastic; /* NULL before the start */
    size_t n = (size_t)arrival->n_bytes;
    if (n == 0 && e && e->notice && e->view.number > 0)
        wefti_elastic_post(mesh, arrival->sender, WEFTI_CHANNEL_NOTICE, 0, e->notice,
                           e->setup.notice_bytes);
    if (n == 0 || n > WEFTI_NOTICE_MOST) return;
    pthread_mutex_lock(&mesh->lock);
    if (mesh->notice.asks && !mesh->notice.data &&
        wefti_alloc(mesh->ctx, n, "membership", &mesh->notice.data) == WEFT_OK) {
        memcpy(mesh->notice.data, arrival->data, n);
        mesh->notice.n_bytes = (int64_t)n;
        pthread_cond_broadcast(&mesh->changed);
    }
    pthread_mutex_unlock(&mesh->lock);
}
