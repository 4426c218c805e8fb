/* SPDX-License-Identifier: MIT */
/* Which process may join: a member's answer to a process that calls while the run trains
 * (joiner.h draws the protocol, serve_joiners.c sends the answers). This code runs on the
 * progress thread.
 *
 *     asks for any place     the first member gives the lowest free one, and no second one before
 *                            that process is a member or has gone: so all processes that join are
 *                            connected to each other, too
 *     asks for this place    every member accepts, if it sees the place as free; the first one, if
 *                            it has given none since: who took so long does not know who has come
 *
 * If several processes share a copy of the model (a unit: neighbouring places), a process
 * that joins waits for the others of its unit, and all of them become members at once. The
 * first one gets a place in an empty unit; the others, from the same host, get the
 * remaining places of this unit. Units of several hosts may wait at the same time, so an
 * incomplete unit does not delay others. Each caller must also be accepted by all waiting
 * processes, which are not members yet.
 *
 * A place is free when no process is connected there, the members have continued without
 * the former process, and all steps in which that process took part are finished
 * everywhere: until then its number refers to it. */
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"
#include "mesh/elastic.h"

/* How long a place is reserved for the process that it was offered to. */
static const double kept_s = 3;

/* Lock held. */
static bool is_free(const weft_mesh *mesh, int r) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    const wefti_peer *peer = &mesh->peers[r];
    bool settled = e->at[r].closed_s <= 0 ||
                   e->view.number == 0; /* a joiner inquires after nobody */
    bool silent = peer->lost && settled && !peer->quick.first && !peer->bulk.first &&
                  peer->n_flying == 0;
    bool over = e->at[r].cut_of < 0 || e->pieces.stable >= e->view.first_step - 1;
    return r != mesh->rank && silent && e->at[r].departed && !e->at[r].fresh && over;
}

/* Connected, not a member yet, and able to accept the processes that join next. */
static bool waits(const wefti_elastic *e, int r) {
    return e->at[r].fresh && e->at[r].spoke;
}

/* Lock held. Whether a process is about to join: it has been given a place, or is connected
 * but can not accept others yet; if a copy of the model is one process, until it is a
 * member. Or whether the connection to a member has ended: who joins now would not hear of
 * that member, which may live and remain. */
static bool is_busy(const weft_mesh *mesh, double now_s) {
    const wefti_elastic *e = mesh->elastic;
    for (int r = 0; r < e->size; r++) {
        if (r != mesh->rank && !e->at[r].departed && mesh->peers[r].lost) return true;
        bool kept = e->at[r].given_s > 0 && now_s - e->at[r].given_s < kept_s;
        if (waits(e, r) && e->setup.shards > 1) continue;
        if (e->at[r].fresh || (kept && e->at[r].departed)) return true;
    }
    return e->view.frozen;
}

/* Lock held. Whether the unit whose first place is r is empty and can be filled. */
static bool is_empty_unit(const weft_mesh *mesh, int r) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    int end = r + mesh->elastic->setup.shards;
    for (; r < end; r++)
        if (!is_free(mesh, r)) return false;
    return true;
}

/* Whether the caller runs on the machine of a process. */
static bool is_from(const weft_mesh *mesh, int rank, const weft_transport_found *found) {
    const weft_transport *t = mesh->transport;
    if (t->ops->machine)
        return t->ops->machine(t, mesh->places.peer_of[rank]) == found->machine;
    return strcmp(weft_mesh_host_of(mesh, rank), found->host) == 0;
}

/* Lock held. A free place in a unit of which a process of its host already waits, or -1; *later:
 * one waits for a place that is not free yet. */
static int find_beside(const weft_mesh *mesh, const weft_transport_found *found,
                       bool *later) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    int S = e->setup.shards;
    for (int w = 0; w < e->size; w++) {
        if (!waits(e, w) || !is_from(mesh, w, found)) continue;
        for (int r = w / S * S; r < (w / S + 1) * S; r++) {
            if (is_free(mesh, r)) return r;
            *later = *later || !e->at[r].fresh;
        }
    }
    return -1;
}

/* Lock held. The first free place that a caller from this host may have, or -1: in the unit
 * of a process that waits on its host, else in an empty unit. */
static int find_place(const weft_mesh *mesh, const weft_transport_found *found) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    bool later = false;
    int S = e->setup.shards, beside = find_beside(mesh, found, &later);
    for (int u = 0; u < e->size / S && beside < 0 && !later; u++)
        if (is_empty_unit(mesh, u * S)) beside = u * S;
    return beside;
}

/* Lock held. The member that gives places. */
static int giver(const weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    return e->view.n_order > 0 ? e->view.order[0] : mesh->rank;
}

/* Lock held. Gives a place to a process that has none yet. */
static weft_transport_place_code give(weft_mesh *mesh, const weft_transport_found *found,
                                      int *rank) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    wefti_elastic *e = mesh->elastic;
    double now_s = wefti_now_s();
    *rank = giver(mesh);
    if (*rank != mesh->rank) return WEFT_PLACE_ELSEWHERE;
    if (is_busy(mesh, now_s)) return WEFT_PLACE_LATER;
    int place = find_place(mesh, found);
    bool empty = false; /* a place may become free */
    for (int r = 0; r < e->size; r++) empty = empty || waits(e, r) || mesh->peers[r].lost;
    if (place < 0) return empty ? WEFT_PLACE_LATER : WEFT_PLACE_FULL;
    e->at[place].given_s = now_s;
    e->given_to = found->incarnation;
    *rank = place;
    return WEFT_PLACE_WELCOME;
}

/* Whether a caller may be accepted here at all: by a member; or, if the caller already has
 * a place, also by a process that waits for the rest of its unit. */
static bool may_take(const weft_mesh *mesh, const weft_transport_found *found) {
    const wefti_elastic *e = mesh->elastic;
    if (found->place >= e->size || (found->place >= 0 && found->run != e->setup.run))
        return false;
    return e->view.number > 0 || (found->place >= 0 && e->setup.shards > 1);
}

/* Lock held. Another member has given the place of a former one away. The connection to a machine
 * without power on which nothing is sent any more does not end by itself. */
static void forget_former(weft_mesh *mesh, int rank) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    const weft_transport *t = mesh->transport;
    bool former = rank != mesh->rank && e->at[rank].departed && !e->at[rank].fresh;
    if (former && !mesh->peers[rank].lost && t->ops->hang_up)
        t->ops->hang_up(mesh->transport, mesh->places.peer_of[rank]);
}

/* Lock held. The answer to the caller; *rank: of the place in the answer. */
static weft_transport_place_code decide(weft_mesh *mesh,
                                        const weft_transport_found *found, int *rank) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    *rank = mesh->rank;
    if (mesh->elastic->end.over || mesh->end.said_bye) return WEFT_PLACE_OVER;
    if (wefti_elastic_shuns(mesh->elastic, found)) return WEFT_PLACE_SHUNNED;
    if (mesh->elastic->fate.is_out || !may_take(mesh, found)) return WEFT_PLACE_LATER;
    if (found->place < 0) return give(mesh, found, rank);
    *rank = mesh->places.rank_of[found->place];
    const wefti_elastic *e = mesh->elastic;
    bool gives = e->view.number > 0 && giver(mesh) == mesh->rank;
    if (gives && e->given_to != found->incarnation) return WEFT_PLACE_LATER;
    if (is_free(mesh, *rank)) return WEFT_PLACE_WELCOME;
    forget_former(mesh, *rank);
    return WEFT_PLACE_LATER;
}

/* Names of all connected processes, in the transport's order, but of those that the members
 * have continued without: they may end at any moment. */
static void list_names(const weft_mesh *mesh, uint64_t *names) {
    const wefti_elastic *e = mesh->elastic;
    for (int r = 0; r < e->size; r++) {
        bool gone = mesh->peers[r].lost || (e->at[r].departed && !e->at[r].fresh);
        bool there = r == mesh->rank || !gone;
        names[mesh->places.peer_of[r]] = there ? e->at[r].id.incarnation : 0;
    }
}

/* Forgets what was known about the former process at this place. */
static void begin_peer(weft_mesh *mesh, int rank) {
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
    peer->n_news = 0;
    peer->here = wefti_mesh_same_host(mesh, rank, mesh->rank);
    wefti_outbox_greet(mesh, rank);
}

/* Before training begins, and if a lost process ends the run, no process can join. */
static void send_away(weft_mesh *mesh, const weft_transport_found *found) {
    const weft_transport_place later = {.code = WEFT_PLACE_LATER};
    (void)mesh->transport->ops->give_place(mesh->transport, found->peer, &later);
}

void wefti_admission_answer(weft_mesh *mesh, const weft_transport_found *found) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_elastic *e = mesh->elastic;
    uint64_t *names;
    int rank;
    for (int i = 0; e && i < found->n_replaced; i++)
        wefti_elastic_hear_replaced(mesh, mesh->places.rank_of[found->replaced[i]]);
    if (!e ||
        wefti_alloc_n(mesh->ctx, e->size, sizeof *names, "names", &names) != WEFT_OK) {
        send_away(mesh, found);
        return;
    }
    pthread_mutex_lock(&mesh->lock);
    weft_transport_place place = {.code = decide(mesh, found, &rank),
                                  .run = e->setup.run,
                                  .group = e->setup.shards,
                                  .rank_of = mesh->places.rank_of,
                                  .names = names};
    pthread_mutex_unlock(&mesh->lock);
    list_names(mesh, names);
    place.place = mesh->places.peer_of[rank];
    bool connected = mesh->transport->ops->give_place(mesh->transport, found->peer,
                                                      &place);
    wefti_free(mesh->ctx, names);
    if (!connected) return;
    begin_peer(mesh, rank);
    wefti_elastic_greet(mesh, rank, found->incarnation);
}
