/* SPDX-License-Identifier: MIT */
/* What all processes of a run must have in common, as text, for a process that is rejected
 * because it differs:
 *
 *     a rejected joiner's machine -> asks the ranks it is connected to -> one sends its own text
 *
 * Only a rejected process asks, so a successful join costs nothing. What the process makes
 * of the answer is decided in train/alike.h. Every process here holds the key of the run,
 * so the text is not secret from it. */
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

bool wefti_elastic_ask_why(weft_mesh *mesh) {
    wefti_elastic *e = mesh->elastic;
    if (!e->setup.joins || e->view > 0 || e->setup.notice_bytes == 0) return false;
    pthread_mutex_lock(&mesh->lock);
    e->refused = true;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
    for (int r = 0; r < e->size; r++)
        if (e->at[r].fresh) wefti_elastic_post(mesh, r, WEFTI_CHANNEL_NOTICE, 0, NULL, 0);
    return true;
}

void wefti_elastic_take_notice(weft_mesh *mesh, const wefti_arrival *arrival) {
    wefti_elastic *e = mesh->elastic;
    size_t n = (size_t)arrival->n_bytes;
    if (n == 0 && e->notice && !e->setup.joins)
        wefti_elastic_post(mesh, arrival->sender, WEFTI_CHANNEL_NOTICE, 0, e->notice,
                           e->setup.notice_bytes);
    if (n == 0 || n > WEFTI_NOTICE_MOST) return;
    pthread_mutex_lock(&mesh->lock);
    if (e->refused && !e->heard_notice &&
        wefti_alloc(mesh->ctx, n, "membership", &e->heard_notice) == WEFT_OK) {
        memcpy(e->heard_notice, arrival->data, n);
        e->n_heard = (int64_t)n;
        pthread_cond_broadcast(&mesh->changed);
    }
    pthread_mutex_unlock(&mesh->lock);
}
