/* SPDX-License-Identifier: MIT */
/* What arrives from other processes, on the progress thread. A message with an envelope is
 * small and is received whole before it is read; a long message comes in pieces. Memory is
 * allocated for what has arrived, never for what a peer announces. Messages of one rank are
 * received in order: if the next one can not begin before an earlier one is complete, it is
 * held back, and all later ones with it.
 *
 *     probe -> held? -> envelope -> landing -> short: posted   long: open -> pieces */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/text.h"
#include "mesh/elastic.h"

enum {
    LANE_PIECES = 1,
    MAX_FOUND = 64,      /* messages received before sending continues */
    FIRST_ROOM = 1 << 20 /* bytes for a long message before any has arrived */
};

static void fail_bytes(weft_mesh *mesh, int rank) {
    wefti_mesh_blame(mesh, rank,
                     "rank %d (host %s) sent bytes that are no message of weft", rank,
                     weft_mesh_host_of(mesh, rank));
}

/* --- memory --- */

/* The smallest spare arrival with room for n bytes, or a new one. NULL: no memory. */
wefti_arrival *wefti_incoming_room(weft_mesh *mesh, int64_t n_bytes) {
    pthread_mutex_lock(&mesh->lock);
    wefti_arrival **best = NULL;
    for (wefti_arrival **link = &mesh->incoming.spare; *link; link = &(*link)->next)
        if ((*link)->capacity >= n_bytes &&
            (!best || (*link)->capacity < (*best)->capacity))
            best = link;
    wefti_arrival *arrival = best ? *best : NULL;
    if (best) *best = arrival->next;
    pthread_mutex_unlock(&mesh->lock);
    if (arrival) return arrival;
    int64_t capacity = n_bytes < FIRST_ROOM ? n_bytes : FIRST_ROOM;
    if (capacity < WEFTI_SHORT_BYTES) capacity = WEFTI_SHORT_BYTES;
    if (wefti_alloc(mesh->ctx, sizeof *arrival, "a message", &arrival) != WEFT_OK)
        return NULL;
    if (wefti_alloc_n(mesh->ctx, capacity, 1, "a message", &arrival->data) != WEFT_OK) {
        wefti_free(mesh->ctx, arrival);
        return NULL;
    }
    arrival->capacity = capacity;
    pthread_mutex_lock(&mesh->lock);
    arrival->next_all = mesh->incoming.all;
    mesh->incoming.all = arrival;
    pthread_mutex_unlock(&mesh->lock);
    return arrival;
}

static void fail_memory(weft_mesh *mesh, int sender, int64_t n_bytes) {
    wefti_mesh_blame(mesh, mesh->rank,
                     "no memory for a message of %lld bytes from rank %d",
                     (long long)n_bytes, sender);
}

static wefti_arrival *open_arrival(weft_mesh *mesh, int sender,
                                   const wefti_envelope *envelope) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_arrival *arrival = wefti_incoming_room(mesh, envelope->n_bytes);
    if (!arrival) {
        fail_memory(mesh, sender, envelope->n_bytes);
        return NULL;
    }
    arrival->sender = sender;
    arrival->channel = envelope->channel;
    arrival->tag = envelope->tag;
    arrival->n_bytes = envelope->n_bytes;
    arrival->n_announced = arrival->n_landed = 0;
    arrival->taken = arrival->mine = false;
    return arrival;
}

/* Grows the buffer to n bytes; it is at least doubled, so that copying stays cheap. No
 * receive may be writing to it. */
static bool grow(weft_mesh *mesh, wefti_arrival *arrival, int64_t n) {
    int64_t more = 2 * arrival->capacity;
    if (more < n) more = n;
    if (more > arrival->n_bytes) more = arrival->n_bytes;
    if (wefti_grow(mesh->ctx, &arrival->data, arrival->n_landed, more, 1, "a message") !=
        WEFT_OK)
        return false;
    arrival->capacity = more;
    return true;
}

/* --- messages --- */

static void land_arrival(weft_mesh *mesh, wefti_arrival *arrival) {
    if (wefti_elastic_takes(mesh, arrival)) return;
    pthread_mutex_lock(&mesh->lock);
    arrival->arrival_s = wefti_now_s();
    arrival->next = mesh->incoming.posted;
    mesh->incoming.posted = arrival;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

static void hear_failure(weft_mesh *mesh, int sender, const wefti_envelope *envelope,
                         const char *text) {
    bool known = envelope->channel > WEFT_OK && envelope->channel <= WEFT_ERR_INTERNAL;
    weft_status status = known ? (weft_status)envelope->channel : WEFT_ERR_PEER;
    if (mesh->elastic) {
        wefti_elastic_hear_failure(mesh, sender, envelope, text);
        return;
    }
    if (mesh->transport->entry) return; /* the run goes on without that one */
    bool fits = envelope->tag >= 0 && envelope->tag < mesh->world.size;
    wefti_world_poison(&mesh->world, fits ? (int)envelope->tag : 0, status, text);
}

/* Handles a message of the progress thread's own kinds; `text` ends with a zero. */
static void hear(weft_mesh *mesh, int sender, const wefti_envelope *envelope,
                 char *text) {
    wefti_peer *peer = &mesh->peers[sender];
    wefti_text_plain(text);
    if (envelope->kind == WEFTI_ENVELOPE_ALIVE) {
        peer->step = envelope->tag;
        snprintf(peer->at, sizeof peer->at, "%s", text);
    } else if (envelope->kind == WEFTI_ENVELOPE_FAILED) {
        hear_failure(mesh, sender, envelope, text);
    } else if (envelope->kind == WEFTI_ENVELOPE_BYE) {
        peer->left = true;
    } else if (strcmp(text, wefti_mesh_greeting()) != 0) {
        wefti_mesh_blame(mesh, sender, "rank %d (host %s) runs \"%.60s\", this is \"%s\"",
                         sender, weft_mesh_host_of(mesh, sender), text,
                         wefti_mesh_greeting());
    } else {
        bool there = peer->here && envelope->tag > 1 &&
                     kill((pid_t)envelope->tag, 0) == 0;
        peer->process = there ? envelope->tag : 0;
        pthread_mutex_lock(&mesh->lock);
        peer->greeted = true;
        pthread_cond_broadcast(&mesh->changed);
        pthread_mutex_unlock(&mesh->lock);
    }
}

/* A rank that has sent its farewell is gone once none of its messages is still arriving. */
static void note_gone(weft_mesh *mesh, int sender) {
    wefti_peer *peer = &mesh->peers[sender];
    if (!peer->left || peer->gone || peer->n_coming > 0) return;
    pthread_mutex_lock(&mesh->lock);
    peer->gone = true;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

/* After its farewell a process still sends signs of life, until all others have sent
 * theirs, and forwards messages of lost ranks to those that ask. */
static bool is_of_membership(const weft_mesh *mesh, const wefti_envelope *envelope) {
    bool message = envelope->kind == WEFTI_ENVELOPE_SHORT ||
                   envelope->kind == WEFTI_ENVELOPE_LONG;
    return mesh->elastic && message && envelope->channel >= WEFTI_CHANNEL_MISSED;
}

/* Reads the envelope in the peer's landing buffer. */
static void open_envelope(weft_mesh *mesh, int sender, int n_bytes) {
    wefti_envelope envelope;
    wefti_peer *peer = &mesh->peers[sender];
    unsigned char *body = peer->landing + WEFTI_ENVELOPE_BYTES;
    bool fine = wefti_envelope_decode(peer->landing, n_bytes, &envelope) &&
                (!peer->left || is_of_membership(mesh, &envelope));
    bool is_long = fine && envelope.kind == WEFTI_ENVELOPE_LONG;
    if (!fine || (is_long && (peer->open || envelope.n_bytes == 0))) {
        fail_bytes(mesh, sender);
        return;
    }
    if (!is_long && envelope.kind != WEFTI_ENVELOPE_SHORT) {
        body[envelope.n_bytes] = 0;
        hear(mesh, sender, &envelope, (char *)body);
        return;
    }
    wefti_arrival *arrival = open_arrival(mesh, sender, &envelope);
    if (is_long) peer->open = arrival;
    if (is_long || !arrival) return;
    memcpy(arrival->data, body, (size_t)envelope.n_bytes);
    land_arrival(mesh, arrival);
}

void wefti_incoming_finish(weft_mesh *mesh, const wefti_request *flight) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_peer *peer = &mesh->peers[flight->peer];
    wefti_arrival *arrival = flight->arrival;
    peer->n_coming--;
    wefti_liveness_heard(peer);
    if (!arrival) {
        peer->half = false;
        open_envelope(mesh, flight->peer, flight->n_bytes);
    } else {
        arrival->n_landed += flight->n_bytes;
        if (arrival->n_landed == arrival->n_bytes) land_arrival(mesh, arrival);
    }
    note_gone(mesh, flight->peer);
}

static bool receive(weft_mesh *mesh, wefti_request *flight, void *message, void *data) {
    WEFTI_ASSERT_PROGRESS(mesh);
    weft_transport *t = mesh->transport;
    if (!t->ops->receive(t, message, data, flight->n_bytes, &flight->request)) {
        wefti_mesh_break(mesh);
        return false;
    }
    mesh->peers[flight->peer].n_coming++;
    return wefti_outbox_add(mesh, flight);
}

/* Receives a message that is not read by any thread. */
static void discard(weft_mesh *mesh, int sender, int n_bytes, void *message) {
    wefti_request flight = {.peer = sender, .n_bytes = n_bytes};
    flight.arrival = wefti_incoming_room(mesh, n_bytes);
    if (!flight.arrival) {
        mesh->wire.broken = true;
        return;
    }
    flight.arrival->n_bytes = -1; /* never whole */
    receive(mesh, &flight, message, flight.arrival->data);
}

static void receive_envelope(weft_mesh *mesh, int sender, int n_bytes, void *message) {
    wefti_peer *peer = &mesh->peers[sender];
    wefti_request flight = {.peer = sender, .n_bytes = n_bytes};
    if (n_bytes > WEFTI_ENVELOPE_BYTES + WEFTI_SHORT_BYTES) {
        fail_bytes(mesh, sender);
        discard(mesh, sender, n_bytes, message);
        return;
    }
    peer->half = true;
    peer->half_s = wefti_now_s();
    receive(mesh, &flight, message, peer->landing);
}

static void receive_piece(weft_mesh *mesh, int sender, int n_bytes, void *message) {
    wefti_peer *peer = &mesh->peers[sender];
    wefti_arrival *arrival = peer->open;
    if (!arrival || n_bytes == 0 || n_bytes > arrival->n_bytes - arrival->n_announced) {
        fail_bytes(mesh, sender);
        discard(mesh, sender, n_bytes, message);
        return;
    }
    int64_t end = arrival->n_announced + n_bytes;
    if (end > arrival->capacity && !grow(mesh, arrival, end)) {
        fail_memory(mesh, sender, arrival->n_bytes);
        discard(mesh, sender, n_bytes, message);
        return;
    }
    wefti_request flight = {.arrival = arrival, .peer = sender, .n_bytes = n_bytes};
    char *data = (char *)arrival->data + arrival->n_announced;
    arrival->n_announced = end;
    if (end == arrival->n_bytes) peer->open = NULL;
    receive(mesh, &flight, message, data);
}

/* Whether a message must wait for an earlier one: an envelope says what the next message
 * is, and a buffer into which a receive writes must not move. */
static bool must_wait(const weft_mesh *mesh, const weft_transport_found *found) {
    const wefti_peer *peer = &mesh->peers[mesh->places.rank_of[found->peer]];
    const wefti_arrival *open = peer->open;
    bool grows = found->lane == LANE_PIECES && open &&
                 open->n_announced + found->n_bytes > open->capacity;
    return peer->half || (grows && open->n_landed < open->n_announced);
}

/* The message that was held back, or else the next one found. */
static bool next_found(weft_mesh *mesh, wefti_found *out) {
    *out = mesh->wire.held;
    if (mesh->wire.held.what.any) return true;
    if (mesh->transport->ops->probe(mesh->transport, &out->what, &out->message))
        return true;
    wefti_mesh_break(mesh);
    return false;
}

static void take_in(weft_mesh *mesh, const wefti_found *found) {
    int sender = mesh->places.rank_of[found->what.peer];
    if (found->what.lane == LANE_PIECES)
        receive_piece(mesh, sender, found->what.n_bytes, found->message);
    else
        receive_envelope(mesh, sender, found->what.n_bytes, found->message);
}

/* A transport with several paths to a peer announces nothing more of this one before the
 * message is received, and the others go on; any other keeps an order over all of them. */
static bool hold(weft_mesh *mesh, const wefti_found *found) {
    if (!must_wait(mesh, &found->what)) return false;
    bool alone = mesh->transport->ops->paths != NULL;
    if (alone)
        mesh->peers[mesh->places.rank_of[found->what.peer]].held = *found;
    else
        mesh->wire.held = *found;
    mesh->wire.n_held += alone;
    return true;
}

static bool take_in_held(weft_mesh *mesh) {
    bool moved = false;
    for (int r = 0; r < mesh->places.n_slots && mesh->wire.n_held > 0; r++) {
        wefti_found found = mesh->peers[r].held;
        if (!found.what.any || must_wait(mesh, &found.what)) continue;
        wefti_outbox_unhold(mesh, r);
        take_in(mesh, &found);
        moved = true;
    }
    return moved;
}

bool wefti_incoming_pick_up(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    bool moved = take_in_held(mesh);
    for (int i = 0; i < MAX_FOUND && !mesh->wire.broken; i++) {
        wefti_found found;
        if (!next_found(mesh, &found)) return true;
        if (found.what.asks) {
            wefti_admission_answer(mesh, &found.what);
            moved = true;
            continue;
        }
        if (!found.what.any && !found.what.closed) return moved;
        if (found.what.closed) {
            wefti_outbox_unhold(mesh, mesh->places.rank_of[found.what.peer]);
            wefti_liveness_lose(mesh, mesh->places.rank_of[found.what.peer]);
            moved = true;
            continue;
        }
        mesh->wire.held.what.any = false;
        if (hold(mesh, &found)) {
            if (mesh->wire.held.what.any) return moved;
            continue;
        }
        moved = true;
        take_in(mesh, &found);
    }
    return moved;
}
