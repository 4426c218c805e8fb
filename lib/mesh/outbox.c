/* SPDX-License-Identifier: MIT */
/* What waits to be sent, and what is under way: parcels that the ranks' threads submit,
 * requests that the progress thread tests, and the error messages when a rank or the
 * transport fails. Nothing here moves bytes; progress.c does. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

#include "base/lock.h"
#include "mesh/elastic.h"

void wefti_parcels_push(wefti_parcels *queue, wefti_parcel *parcel) {
    parcel->next = NULL;
    WEFTI_ASSERT(!queue->first == !queue->last && queue->last != parcel);
    if (queue->last)
        queue->last->next = parcel;
    else
        queue->first = parcel;
    queue->last = parcel;
}

wefti_parcel *wefti_parcels_pop(wefti_parcels *queue) {
    wefti_parcel *parcel = queue->first;
    WEFTI_ASSERT(parcel && queue->last);
    queue->first = parcel->next;
    if (!queue->first) queue->last = NULL;
    return parcel;
}

void wefti_mesh_blame(weft_mesh *mesh, int rank, const char *format, ...) {
    char text[900];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    wefti_world_poison(&mesh->world, rank, WEFT_ERR_PEER, text);
}

void wefti_mesh_break(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    char text[512];
    mesh->transport->ops->say(mesh->transport, text, sizeof text);
    mesh->wire.broken = true;
    wefti_mesh_blame(mesh, mesh->rank, "%s on host %s: %s", mesh->transport->version,
                     weft_mesh_host_of(mesh, mesh->rank), text);
}

weft_status wefti_outbox_reserve(weft_mesh *mesh) {
    wefti_parcel *parcel;
    WEFT_TRY(wefti_alloc(mesh->ctx, sizeof *parcel, "a message", &parcel));
    pthread_mutex_lock(&mesh->lock);
    parcel->next_all = mesh->outgoing.all;
    mesh->outgoing.all = parcel;
    parcel->next = mesh->outgoing.spare;
    mesh->outgoing.spare = parcel;
    pthread_mutex_unlock(&mesh->lock);
    return WEFT_OK;
}

static wefti_parcel *take_parcel(weft_mesh *mesh) {
    pthread_mutex_lock(&mesh->lock);
    wefti_parcel *parcel = mesh->outgoing.spare;
    if (parcel) mesh->outgoing.spare = parcel->next;
    pthread_mutex_unlock(&mesh->lock);
    return parcel;
}

wefti_parcel *wefti_outbox_parcel(weft_mesh *mesh, int peer,
                                  const wefti_envelope *envelope, const void *data) {
    wefti_parcel *parcel = take_parcel(mesh);
    while (!parcel) {
        if (wefti_outbox_reserve(mesh) != WEFT_OK) return NULL;
        parcel = take_parcel(mesh);
    }
    wefti_outbox_fill(parcel, peer, envelope, data);
    return parcel;
}

void wefti_outbox_fill(wefti_parcel *parcel, int peer, const wefti_envelope *envelope,
                       const void *data) {
    parcel->own = NULL;
    parcel->next = parcel->next_sent = NULL;
    parcel->peer = peer;
    parcel->envelope = *envelope;
    parcel->data = data;
    parcel->n_started = parcel->n_news = 0;
    parcel->n_flying = 0;
    parcel->opened = false;
    wefti_envelope_encode(envelope, parcel->bytes);
    bool whole = envelope->kind != WEFTI_ENVELOPE_LONG && envelope->n_bytes > 0;
    WEFTI_ASSERT(peer >= 0 && envelope->n_bytes >= 0);
    WEFTI_ASSERT(!whole || envelope->n_bytes <= WEFTI_SHORT_BYTES);
    if (whole)
        memcpy(parcel->bytes + WEFTI_ENVELOPE_BYTES, data, (size_t)envelope->n_bytes);
}

void wefti_outbox_wake(weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    if (!mesh->thread.resting) return;
    mesh->thread.resting = false;
    if (mesh->transport->ops->wait)
        mesh->transport->ops->wake(mesh->transport);
    else
        pthread_cond_signal(&mesh->thread.wake);
}

void wefti_outbox_push(weft_mesh *mesh, wefti_parcel *parcel) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    parcel->n_news = wefti_elastic_news(mesh->elastic, parcel->envelope.channel);
    wefti_parcels_push(&mesh->outgoing.submitted, parcel);
    wefti_outbox_wake(mesh);
}

void wefti_outbox_submit(weft_mesh *mesh, wefti_parcel *parcel) {
    pthread_mutex_lock(&mesh->lock);
    wefti_outbox_push(mesh, parcel);
    pthread_mutex_unlock(&mesh->lock);
}

void wefti_outbox_post(weft_mesh *mesh, int peer, const wefti_envelope *envelope,
                       const char *text) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_envelope whole = *envelope;
    whole.n_bytes = (int64_t)strlen(text);
    wefti_parcel *parcel = wefti_outbox_parcel(mesh, peer, &whole, text);
    if (parcel) wefti_parcels_push(&mesh->peers[peer].quick, parcel);
}

bool wefti_outbox_add(weft_mesh *mesh, const wefti_request *flight) {
    WEFTI_ASSERT_PROGRESS(mesh);
    if (mesh->wire.n_flights == mesh->wire.max_flights) {
        int more = 2 * mesh->wire.max_flights + 64;
        if (wefti_grow(mesh->ctx, &mesh->wire.flights, mesh->wire.max_flights, more,
                       sizeof *flight, "messages under way") != WEFT_OK) {
            mesh->wire.broken = true; /* a request that is never tested: nothing can
                                    continue */
            wefti_mesh_blame(mesh, mesh->rank, "no memory for messages under way");
            return false;
        }
        mesh->wire.max_flights = more;
    }
    mesh->wire.flights[mesh->wire.n_flights++] = *flight;
    return true;
}

/* Drops a receive whose rest never comes. */
static void drop_receive(weft_mesh *mesh, int i) {
    wefti_arrival *arrival = mesh->wire.flights[i].arrival;
    mesh->wire.flights[i] = mesh->wire.flights[--mesh->wire.n_flights];
    if (!arrival || arrival->n_bytes < 0) return;
    for (int k = 0; k < mesh->wire.n_flights;
         k++) /* recycled with the last of its pieces */
        if (mesh->wire.flights[k].arrival == arrival) return;
    pthread_mutex_lock(&mesh->lock);
    wefti_incoming_recycle(mesh, arrival);
    pthread_mutex_unlock(&mesh->lock);
}

void wefti_outbox_unhold(weft_mesh *mesh, int rank) {
    WEFTI_ASSERT_PROGRESS(mesh);
    mesh->wire.n_held -= mesh->peers[rank].held.what.any;
    mesh->peers[rank].held.what.any = false;
}

void wefti_outbox_forget(weft_mesh *mesh, int rank) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_peer *peer = &mesh->peers[rank];
    for (int i = mesh->wire.n_flights - 1; i >= 0; i--)
        if (mesh->wire.flights[i].peer == rank && !mesh->wire.flights[i].parcel)
            drop_receive(mesh, i);
    if (mesh->wire.held.what.any &&
        mesh->places.rank_of[mesh->wire.held.what.peer] == rank)
        mesh->wire.held.what.any = false;
    peer->open = NULL;
    peer->half = false;
    peer->n_coming = 0;
    wefti_outbox_unhold(mesh, rank);
}

/* --- what was sent, and what need not be sent any more --- */

/* Lock held. */
static void unlink_sent(weft_mesh *mesh, const wefti_parcel *parcel) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    for (wefti_parcel **link = &mesh->outgoing.sent; *link; link = &(*link)->next_sent) {
        if (*link != parcel) continue;
        *link = parcel->next_sent;
        return;
    }
}

void wefti_outbox_finish(weft_mesh *mesh, wefti_parcel *parcel) {
    WEFTI_ASSERT_PROGRESS(mesh);
    WEFTI_ASSERT(parcel->n_flying == 0);
    wefti_free(mesh->ctx, parcel->own);
    parcel->own = NULL;
    pthread_mutex_lock(&mesh->lock);
    unlink_sent(mesh, parcel);
    parcel->next = mesh->outgoing.spare;
    mesh->outgoing.spare = parcel;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

void wefti_outbox_drop(weft_mesh *mesh, wefti_parcel *parcel) {
    WEFTI_ASSERT_PROGRESS(mesh);
    parcel->opened = true;
    parcel->n_started = parcel->envelope.n_bytes;
    if (parcel->n_flying == 0) wefti_outbox_finish(mesh, parcel);
}

/* The ranks may free what they were sending to rank r. Messages that were not begun are
 * dropped; of the others no more pieces are begun, and the transport releases the data of
 * pieces under way. A long message that ends early is the last one to that rank. Short
 * messages are still sent, from the parcels themselves. */
void wefti_outbox_let_go(weft_mesh *mesh, int r) {
    WEFTI_ASSERT_PROGRESS(mesh);
    const weft_transport_ops *ops = mesh->transport->ops;
    wefti_peer *peer = &mesh->peers[r];
    for (int i = 0; i < mesh->wire.n_flights; i++) {
        const wefti_request *flight = &mesh->wire.flights[i];
        bool sends = flight->parcel && flight->peer == r &&
                     flight->parcel->envelope.kind == WEFTI_ENVELOPE_LONG;
        if (sends && ops->withdraw) ops->withdraw(mesh->transport, flight->request);
    }
    while (peer->bulk.first) wefti_outbox_drop(mesh, wefti_parcels_pop(&peer->bulk));
    pthread_mutex_lock(&mesh->lock);
    for (wefti_parcel **link = &mesh->outgoing.sent; *link;) {
        if ((*link)->peer == r)
            *link = (*link)->next_sent;
        else
            link = &(*link)->next_sent;
    }
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

void wefti_outbox_greet(weft_mesh *mesh, int rank) {
    const wefti_envelope hello = {WEFTI_ENVELOPE_HELLO, 0, (int64_t)getpid(), 0};
    wefti_outbox_post(mesh, rank, &hello, wefti_mesh_greeting());
}
