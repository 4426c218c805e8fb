/* SPDX-License-Identifier: MIT */
/* Who may take part from now on: a member's answer to a process that calls while the run trains
 * (latecomer.h draws what is said, seats.c says it). The progress thread is here.
 *
 *     asks for any place     the first member gives the lowest that is free, and no second one
 *                            before that process is a member or has gone: so all who come are
 *                            connected to each other, too
 *     asks for this place    every member takes it, if the place is free with it
 *
 * Where several processes share a copy of the model (a unit: places that are neighbours), whoever
 * comes waits for the others of its unit, and all of them become members at once. The first gets
 * a place in a unit that is empty throughout, the others come from the same host and get the rest
 * of it. Units of several hosts may wait at a time, so one that stays incomplete holds up nobody
 * else. Each caller must be taken by all who wait, too, who are not members yet.
 *
 * A place is free when nobody is connected there, the members have gone on without who was, and
 * all steps in which that one took part are finished everywhere: until then its number means it. */
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/elastic.h"

/* So long a place is kept for who was told of it. */
static const double kept_s = 3;

/* Lock held. */
static bool is_free(const weft_mesh *mesh, int r) {
    const wefti_elastic *e = mesh->elastic;
    const wefti_peer *peer = &mesh->peers[r];
    bool silent = peer->lost && e->closed_s[r] <= 0 && !peer->quick.first &&
                  !peer->bulk.first && peer->n_flying == 0;
    bool over = e->cut_of[r] < 0 || e->stable >= e->first_step - 1;
    return r != mesh->rank && silent && e->departed[r] && !e->fresh[r] && over;
}

/* Connected, not a member yet, and can be called by those who come next. */
static bool waits(const wefti_elastic *e, int r) { return e->fresh[r] && e->spoke[r]; }

/* Lock held. Whether somebody is on the way in: has been given a place, or is connected, but can
 * not be called by another yet; where a copy of the model is one process, until it is a member. */
static bool is_busy(const wefti_elastic *e, double now_s) {
    for (int r = 0; r < e->size; r++) {
        bool kept = e->given_s[r] > 0 && now_s - e->given_s[r] < kept_s;
        if (waits(e, r) && e->setup.shards > 1) continue;
        if (e->fresh[r] || (kept && e->departed[r])) return true;
    }
    return e->frozen;
}

/* Lock held. The unit whose first place is r is empty, and can be filled. */
static bool is_empty_unit(const weft_mesh *mesh, int r) {
    int end = r + mesh->elastic->setup.shards;
    for (; r < end; r++)
        if (!is_free(mesh, r)) return false;
    return true;
}

/* Lock held. A free place in a unit of which somebody of this host waits, or -1. */
static int find_beside(const weft_mesh *mesh, const char *host) {
    const wefti_elastic *e = mesh->elastic;
    int S = e->setup.shards;
    for (int w = 0; w < e->size; w++) {
        if (!waits(e, w) || strcmp(weft_mesh_host_of(mesh, w), host) != 0) continue;
        for (int r = w / S * S; r < (w / S + 1) * S; r++)
            if (is_free(mesh, r)) return r;
    }
    return -1;
}

/* Lock held. The first free place of those that a caller from this host may have, or -1: beside
 * who waits on its host, else in a unit that is empty. */
static int find_place(const weft_mesh *mesh, const char *host) {
    const wefti_elastic *e = mesh->elastic;
    int S = e->setup.shards, beside = find_beside(mesh, host);
    for (int u = 0; u < e->size / S && beside < 0; u++)
        if (is_empty_unit(mesh, u * S)) beside = u * S;
    return beside;
}

/* Lock held. Gives a place to who has asked for any. */
static weft_transport_seat_code give(weft_mesh *mesh, const char *host, int *rank) {
    wefti_elastic *e = mesh->elastic;
    double now_s = wefti_now_s();
    *rank = e->n_order > 0 ? e->order[0] : mesh->rank;
    if (*rank != mesh->rank) return WEFT_SEAT_ELSEWHERE;
    if (is_busy(e, now_s)) return WEFT_SEAT_LATER;
    int place = find_place(mesh, host);
    bool empty = false; /* a place may become free */
    for (int r = 0; r < e->size; r++) empty = empty || waits(e, r) || mesh->peers[r].lost;
    if (place < 0) return empty ? WEFT_SEAT_LATER : WEFT_SEAT_FULL;
    e->given_s[place] = now_s;
    *rank = place;
    return WEFT_SEAT_WELCOME;
}

/* Whether a caller may be taken here at all: by a member; or by who waits for its own unit, if it
 * has been given a place, too. */
static bool may_take(const weft_mesh *mesh, const weft_transport_found *found) {
    const wefti_elastic *e = mesh->elastic;
    if (found->place >= e->size || (found->place >= 0 && found->run != e->setup.run))
        return false;
    return e->view > 0 || (found->place >= 0 && e->setup.shards > 1);
}

/* Lock held. What the caller is told; *rank: of the place that is meant. */
static weft_transport_seat_code decide(weft_mesh *mesh, const weft_transport_found *found,
                                       int *rank) {
    *rank = mesh->rank;
    if (mesh->elastic->over || mesh->said_bye) return WEFT_SEAT_OVER;
    if (!may_take(mesh, found)) return WEFT_SEAT_LATER;
    if (found->place < 0) return give(mesh, found->host, rank);
    *rank = mesh->rank_of[found->place];
    return is_free(mesh, *rank) ? WEFT_SEAT_WELCOME : WEFT_SEAT_LATER;
}

/* Names of all who are connected, in the transport's order. */
static void list_names(const weft_mesh *mesh, uint64_t *names) {
    const wefti_elastic *e = mesh->elastic;
    for (int r = 0; r < e->size; r++) {
        bool there = r == mesh->rank || !mesh->peers[r].lost;
        names[mesh->peer_of[r]] = there ? e->id[r].incarnation : 0;
    }
}

/* What was known of who had the place before is forgotten. */
static void begin_peer(weft_mesh *mesh, int rank) {
    const weft_transport *t = mesh->transport;
    wefti_peer *peer = &mesh->peers[rank];
    wefti_outbox_forget(mesh, rank);
    pthread_mutex_lock(&mesh->lock);
    peer->gone = false;
    pthread_mutex_unlock(&mesh->lock);
    peer->lost = peer->left = false;
    peer->heard_s = wefti_now_s();
    peer->gap_s = 0;
    peer->process = 0;
    peer->step = -1;
    peer->here = strcmp(t->host[mesh->peer_of[rank]], t->host[t->rank]) == 0;
    wefti_outbox_greet(mesh, rank);
}

/* Before anybody trains, and where a lost process ends the run, nobody can come in. */
static void send_away(weft_mesh *mesh, const weft_transport_found *found) {
    const weft_transport_seat later = {.code = WEFT_SEAT_LATER};
    (void)mesh->transport->ops->seat(mesh->transport, found->peer, &later);
}

void wefti_reception_answer(weft_mesh *mesh, const weft_transport_found *found) {
    wefti_elastic *e = mesh->elastic;
    uint64_t *names;
    int rank;
    if (!e ||
        wefti_alloc_n(mesh->ctx, e->size, sizeof *names, "names", &names) != WEFT_OK) {
        send_away(mesh, found);
        return;
    }
    pthread_mutex_lock(&mesh->lock);
    weft_transport_seat seat = {.code = decide(mesh, found, &rank),
                                .run = e->setup.run,
                                .group = e->setup.shards,
                                .rank_of = mesh->rank_of,
                                .names = names};
    pthread_mutex_unlock(&mesh->lock);
    list_names(mesh, names);
    seat.place = mesh->peer_of[rank];
    bool connected = mesh->transport->ops->seat(mesh->transport, found->peer, &seat);
    wefti_free(mesh->ctx, names);
    if (!connected) return;
    begin_peer(mesh, rank);
    wefti_elastic_greet(mesh, rank, found->incarnation);
}
