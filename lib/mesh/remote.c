/* SPDX-License-Identifier: MIT */
/* One rank per process: communicators over a mesh. Messages that have arrived stay in a
 * list until they are received; their release gives the memory back.
 *
 *     send       parcel -> outbox -> progress thread -> wire       `sent` until all has left
 *     arrival    wire -> progress thread -> posted -> taken -> spare
 *                                            |        `-- receive gives a view of it
 *                                            `-- matched by (channel, sender, tag), oldest first
 *
 * There is one lock for a mesh, held only for short times; every change wakes all waiting
 * threads, which then look again. A wait ends with the message, or because the world is
 * poisoned (a rank has failed), because the sender has left, or, between steps, because the
 * membership has changed.
 *
 * Pieces of steps: if members may be lost (elastic.h), a message may be requested from
 * another rank that has it, and parts of an answer may be collected in place of an owner
 * that is gone. The membership decides, alike on all ranks, which messages are lost. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"
#include "mesh/elastic.h"

typedef struct remote_comm {
    wefti_comm head;
    weft_mesh *mesh;
    wefti_world_shape shape;
    wefti_members members;
    int channel;
    int64_t view; /* the view of its world (elastic.h) */
} remote_comm;

static int world_rank_of(const remote_comm *comm, int rank) {
    return wefti_members_at(&comm->members, rank);
}

/* Whether members are sites, for each of which several ranks may speak (world.h). */
static bool is_between(const remote_comm *comm) { return comm->members.per_site > 0; }

static int mesh_rank_of(const remote_comm *comm, int rank) {
    const wefti_elastic *e = comm->mesh->elastic;
    int world_rank = world_rank_of(comm, rank);
    return e ? e->world.ranks[world_rank] : world_rank;
}

static wefti_link_class link_to(const remote_comm *comm, int rank) {
    return wefti_world_link(&comm->shape, world_rank_of(comm, comm->head.rank),
                            world_rank_of(comm, rank));
}

/* Lock held. Whether the others continue without this rank. */
static bool has_departed(const weft_mesh *mesh, int mesh_rank) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    const wefti_elastic *e = mesh->elastic;
    return e && e->at[mesh_rank].departed;
}

/* Lock held. Whether all ranks of a member are lost. */
static bool is_gone(const remote_comm *comm, int peer) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    const wefti_elastic *e = comm->mesh->elastic;
    if (!e || !is_between(comm))
        return has_departed(comm->mesh, mesh_rank_of(comm, peer));
    return wefti_elastic_lost_site(e, &comm->members, peer);
}

/* Number k of the ranks that may speak for a member, as a mesh rank; -1: there are no more. */
static int speaker_of(const remote_comm *comm, int peer, int k) {
    const wefti_elastic *e = comm->mesh->elastic;
    if (e && is_between(comm)) return wefti_elastic_speaker(e, &comm->members, peer, k);
    return k == 0 ? mesh_rank_of(comm, peer) : -1;
}

static bool speaks_for(const remote_comm *comm, int peer, int sender) {
    for (int k = 0, r; (r = speaker_of(comm, peer, k)) >= 0; k++)
        if (r == sender) return true;
    return false;
}

/* Lock held. Between steps: whether the others may have left for a new world. */
static bool is_interrupted(const remote_comm *comm) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    const wefti_elastic *e = comm->mesh->elastic;
    return e && e->view.number > comm->view && !e->own.in_step;
}

/* A caller that gets this error may free what it was sending. */
static weft_status poisoned_error(remote_comm *comm) {
    wefti_mesh_settle(comm->mesh);
    return wefti_world_poisoned_error(comm->head.ctx, &comm->mesh->world);
}

/* Hands a parcel to the outbox. Bytes are counted as sent here, as in the local backend.
 * Nothing is sent to a lost rank, and nothing waits for it. */
static weft_status send_to(remote_comm *comm, int to, wefti_link_class link, int64_t tag,
                           const void *data, int64_t n_bytes) {
    weft_mesh *mesh = comm->mesh;
    bool is_long = n_bytes > WEFTI_SHORT_BYTES;
    wefti_envelope envelope = {is_long ? WEFTI_ENVELOPE_LONG : WEFTI_ENVELOPE_SHORT,
                               comm->channel, tag, n_bytes};
    wefti_parcel *parcel = wefti_outbox_parcel(mesh, to, &envelope, data);
    if (!parcel)
        return weft_ctx_fail(comm->head.ctx, WEFT_ERR_MEMORY, "no memory to send");
    pthread_mutex_lock(&mesh->lock);
    if (has_departed(mesh, to)) {
        parcel->next = mesh->outgoing.spare;
        mesh->outgoing.spare = parcel;
        pthread_mutex_unlock(&mesh->lock);
        return WEFT_OK;
    }
    parcel->next_sent = mesh->outgoing.sent;
    mesh->outgoing.sent = parcel;
    mesh->traffic.bytes_out[link] += n_bytes;
    wefti_elastic_note_sent(mesh, comm->channel, tag);
    pthread_mutex_unlock(&mesh->lock);
    wefti_outbox_submit(mesh, parcel);
    return WEFT_OK;
}

/* Lock held. Number k of a member's ranks that receive from this one. */
static int hearer_of(const remote_comm *comm, int peer, int k) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    const wefti_elastic *e = comm->mesh->elastic;
    if (e && is_between(comm)) return wefti_elastic_hearer(e, &comm->members, peer, k);
    return k == 0 ? mesh_rank_of(comm, peer) : -1;
}

static bool keeps_sent(const remote_comm *comm, int64_t tag) {
    const wefti_elastic *e = comm->mesh->elastic;
    return e && tag >= 0 && wefti_elastic_has_mates(e, comm->channel);
}

/* A site's message is kept first: if a receiving rank is lost in the meantime, the rank
 * that replaces it gets the message from the progress thread. */
static weft_status remote_send(wefti_comm *head, int peer, int64_t tag, const void *data,
                               int64_t n_bytes) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    wefti_link_class link = link_to(comm, peer);
    weft_status status = WEFT_OK;
    const wefti_site_message what = {
        .channel = comm->channel, .peer = peer, .tag = tag, .n_bytes = n_bytes};
    for (int k = 0, to = 0; status == WEFT_OK; k++) {
        pthread_mutex_lock(&mesh->lock);
        if (k == 0 && keeps_sent(comm, tag))
            status = wefti_elastic_keep_sent(mesh, &comm->members, &what, data);
        to = hearer_of(comm, peer, k);
        pthread_mutex_unlock(&mesh->lock);
        if (to < 0 || status != WEFT_OK) break;
        status = send_to(comm, to, link, tag, data, n_bytes);
    }
    return status;
}

/* The oldest one, as in the local backend: the list is newest first. */
static wefti_arrival *find(const remote_comm *comm, int peer, int64_t tag, bool taken) {
    wefti_arrival *oldest = NULL;
    for (wefti_arrival *a = comm->mesh->incoming.posted; a; a = a->next)
        if (a->tag == tag && a->channel == comm->channel && a->taken == taken &&
            speaks_for(comm, peer, a->sender))
            oldest = a;
    return oldest;
}

static weft_status interrupted_error(remote_comm *comm, int sender) {
    weft_mesh *mesh = comm->mesh; /* of a broken copy why it ends follows */
    wefti_mesh_settle(mesh);
    pthread_mutex_lock(&mesh->lock);
    double until_s = wefti_now_s() + 10;
    while (!wefti_elastic_is_whole(mesh->elastic, mesh->rank) && !mesh->world.poisoned &&
           wefti_now_s() < until_s)
        wefti_mesh_wait(mesh, until_s);
    pthread_mutex_unlock(&mesh->lock);
    if (mesh->world.poisoned) return poisoned_error(comm);
    return weft_ctx_fail(comm->head.ctx, WEFT_ERR_PEER,
                         "the membership has changed while rank %d waited for rank %d",
                         mesh->rank, sender);
}

/* Lock held. */
static bool has_gone(const remote_comm *comm, int sender, double *until_s) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    const weft_mesh *mesh = comm->mesh;
    return wefti_farewell_ends_wait(mesh->peers[sender].gone, mesh->elastic,
                                    wefti_now_s(), until_s);
}

/* The sender has sent its farewell, but this rank waits for a message from it. */
static weft_status gone_error(remote_comm *comm, int sender) {
    return weft_ctx_fail(comm->head.ctx, WEFT_ERR_PEER,
                         "rank %d (host %s) has left, but rank %d still waits for a "
                         "message from it",
                         sender, weft_mesh_host_of(comm->mesh, sender), comm->mesh->rank);
}

static weft_status wrong_length(remote_comm *comm, int sender, int64_t got,
                                int64_t n_bytes) {
    return weft_ctx_fail(comm->head.ctx, WEFT_ERR_WIRE,
                         "a message of %lld bytes from rank %d, expected %lld",
                         (long long)got, sender, (long long)n_bytes);
}

/* Lock held. */
static void take(remote_comm *comm, int peer, wefti_arrival *arrival) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    arrival->taken = true;
    comm->head.arrival_s = arrival->arrival_s;
    comm->mesh->traffic.bytes_in[link_to(comm, peer)] += arrival->n_bytes;
}

/* Waits for the message, up to a deadline. After each wait the list is searched again
 * before the reasons to give up are checked, so that a message that came last is not
 * missed. */
static weft_status remote_receive_by(wefti_comm *head, int peer, int64_t tag,
                                     int64_t n_bytes, double deadline_s,
                                     const void **view) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    int sender = mesh_rank_of(comm, peer);
    *view = NULL;
    pthread_mutex_lock(&mesh->lock);
    wefti_arrival *arrival = find(comm, peer, tag, false);
    bool left = false;
    double until_s = 0;
    wefti_wait wait = {0};
    while (!arrival && !(left = has_gone(comm, sender, &until_s)) &&
           !atomic_load(&mesh->world.poisoned) && wefti_now_s() < deadline_s &&
           !has_departed(mesh, sender) && !is_interrupted(comm)) {
        double end_s = until_s > 0 ? fmin(until_s, deadline_s) : deadline_s;
        wefti_mesh_await(head->ctx, mesh, &wait, sender, end_s);
        arrival = find(comm, peer, tag, false);
    }
    wefti_mesh_awaited(mesh, &wait);
    int64_t got = arrival ? arrival->n_bytes : n_bytes;
    if (arrival) {
        take(comm, peer, arrival);
        *view = arrival->data;
    }
    bool patient = isinf(deadline_s); /* else a lost rank is just late */
    bool lost = !arrival &&
                ((patient && has_departed(mesh, sender)) || is_interrupted(comm));
    pthread_mutex_unlock(&mesh->lock);
    if (!arrival && atomic_load(&mesh->world.poisoned)) return poisoned_error(comm);
    if (lost) return interrupted_error(comm, sender);
    if (!arrival && left && patient) return gone_error(comm, sender);
    if (got == n_bytes) return WEFT_OK;
    wefti_comm_release(head, peer, tag);
    *view = NULL;
    return wrong_length(comm, sender, got, n_bytes);
}

static weft_status remote_receive(wefti_comm *head, int peer, int64_t tag,
                                  int64_t n_bytes, const void **view) {
    return remote_receive_by(head, peer, tag, n_bytes, (double)INFINITY, view);
}

/* The receiver is done: the memory becomes spare, unless another rank may still ask for it. */
static void remote_release(wefti_comm *head, int peer, int64_t tag) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    pthread_mutex_lock(&mesh->lock);
    wefti_arrival *arrival = find(comm, peer, tag, true);
    if (arrival) {
        wefti_arrival **link = &mesh->incoming.posted;
        while (*link != arrival) link = &(*link)->next;
        *link = arrival->next;
        if (!wefti_elastic_keep(mesh, arrival)) wefti_incoming_recycle(mesh, arrival);
    }
    pthread_mutex_unlock(&mesh->lock);
}

/* --- pieces of steps --- */

static weft_status remote_send_part(wefti_comm *head, int peer, int64_t tag,
                                    const void *data, int64_t n_bytes) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    wefti_elastic *e = mesh->elastic;
    if (!e) return remote_send(head, peer, tag, data, n_bytes);
    wefti_sent_part *part = NULL;
    pthread_mutex_lock(&mesh->lock);
    part = e->pieces.spare_parts;
    if (part) e->pieces.spare_parts = part->next;
    pthread_mutex_unlock(&mesh->lock);
    if (!part) WEFT_TRY(wefti_alloc(mesh->ctx, sizeof *part, "a message", &part));
    *part = (wefti_sent_part){.peer = mesh_rank_of(comm, peer),
                              .channel = comm->channel,
                              .tag = tag,
                              .n_bytes = n_bytes,
                              .data = data};
    pthread_mutex_lock(&mesh->lock);
    part->next = e->pieces.parts;
    e->pieces.parts = part;
    bool lost = is_gone(comm, peer);
    if (lost && !wefti_elastic_has_mates(e, comm->channel))
        wefti_elastic_pass_on(mesh, part);
    pthread_mutex_unlock(&mesh->lock);
    return lost ? WEFT_OK : remote_send(head, peer, tag, data, n_bytes);
}

/* Asks the rank that has a lost rank's message. */
static void ask(remote_comm *comm, int holder, int sender, int64_t tag) {
    uint32_t about[2] = {(uint32_t)sender, (uint32_t)comm->channel};
    wefti_elastic_post(comm->mesh, holder, WEFTI_CHANNEL_ASK, tag, about, sizeof about);
}

/* Lock held. Notes that a message of a lost rank does not count. */
static void note_missed(remote_comm *comm, int sender, int64_t tag,
                        wefti_piece_kind kind) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    bool again = kind == WEFTI_PIECE_SAME && wefti_elastic_is_answer(comm->channel, tag);
    const wefti_missed missed = {.tag = tag,
                                 .channel = comm->channel,
                                 .receiver = comm->mesh->rank,
                                 .sender = sender,
                                 .settled = 1};
    if (!again) wefti_elastic_miss(comm->mesh, &missed);
}

/* Lock held. The same for the ranks that were to speak for a member before `heard` did: in
 * a replay (local.c) this rank receives from the one after them. -1: none spoke. */
static void note_silent(remote_comm *comm, int peer, int heard, int64_t tag,
                        wefti_piece_kind kind) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    for (int k = 0, r; (r = speaker_of(comm, peer, k)) >= 0 && r != heard; k++)
        note_missed(comm, r, tag, heard < 0 ? kind : WEFTI_PIECE_OWN);
}

/* Lock held. The same for a part of an answer, for the range of a lost owner. */
static wefti_missed missed_part(const remote_comm *comm, const wefti_lost *lost,
                                int sender) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    return (wefti_missed){.tag = lost->part_tag,
                          .channel = comm->channel,
                          .receiver = mesh_rank_of(comm, lost->peer),
                          .sender = sender};
}

/* Lock held. A lost member's message: returns the rank that has it, or -1; *sender: whose
 * message it is. */
static int find_holder(const remote_comm *comm, int peer, int64_t tag, int *sender) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    int holder = -1;
    for (int k = 0, r; holder < 0 && (r = speaker_of(comm, peer, k)) >= 0; k++) {
        holder = wefti_elastic_holder(comm->mesh->elastic, r, comm->channel, tag);
        *sender = r;
    }
    return holder;
}

/* Lock held. Waits for a member's message. NULL: it is lost and no rank has it, or the
 * world is poisoned. */
static wefti_arrival *await_piece(remote_comm *comm, int peer, int64_t tag,
                                  wefti_piece_kind kind) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    weft_mesh *mesh = comm->mesh;
    const wefti_elastic *e = mesh->elastic;
    int64_t asked = 0; /* the view in which it was requested */
    wefti_wait wait = {0};
    wefti_arrival *arrival = find(comm, peer, tag, false);
    while (!arrival && !atomic_load(&mesh->world.poisoned)) {
        int holder = -1, sender = -1;
        bool gone = is_gone(comm, peer);
        if (gone && kind != WEFTI_PIECE_OWN)
            holder = find_holder(comm, peer, tag, &sender);
        if (gone && (holder < 0 || holder == mesh->rank)) break;
        if (holder >= 0 && asked != e->view.number) {
            asked = e->view.number;
            pthread_mutex_unlock(&mesh->lock);
            ask(comm, holder, sender, tag);
            pthread_mutex_lock(&mesh->lock);
        } else {
            int whom = holder >= 0 ? holder : mesh_rank_of(comm, peer);
            wefti_mesh_await(comm->head.ctx, mesh, &wait, whom, (double)INFINITY);
        }
        arrival = find(comm, peer, tag, false);
    }
    wefti_mesh_awaited(mesh, &wait);
    return arrival;
}

/* A member's message of a step; if its sender is lost, it comes from a rank that has it. If
 * no rank has it, the message does not count anywhere, and out->view stays NULL. */
static weft_status remote_receive_piece(wefti_comm *head, int peer, int64_t tag,
                                        int64_t n_bytes, wefti_piece_kind kind,
                                        wefti_received *out) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    wefti_elastic *e = mesh->elastic;
    if (!e) return remote_receive(head, peer, tag, n_bytes, &out->view);
    int sender = mesh_rank_of(comm, peer);
    if (kind == WEFTI_PIECE_OWN && wefti_elastic_is_alike(e, comm->channel, tag))
        kind = WEFTI_PIECE_SAME;
    pthread_mutex_lock(&mesh->lock);
    wefti_arrival *arrival = await_piece(comm, peer, tag, kind);
    out->membership = e->view.number;
    if (arrival) {
        take(comm, peer, arrival);
        arrival->mine = kind == WEFTI_PIECE_OWN;
        wefti_piece_place place;
        if (arrival->mine && wefti_piece_of(e, comm->channel, tag, &place))
            e->at[arrival->sender].taken = place.step;
        out->view = arrival->data;
        note_silent(comm, peer, arrival->sender, tag, kind);
    } else if (!atomic_load(&mesh->world.poisoned)) {
        note_silent(comm, peer, -1, tag, kind);
    }
    int64_t got = arrival ? arrival->n_bytes : n_bytes;
    pthread_mutex_unlock(&mesh->lock);
    if (!arrival && atomic_load(&mesh->world.poisoned)) return poisoned_error(comm);
    if (got == n_bytes) return WEFT_OK;
    remote_release(head, peer, tag);
    out->view = NULL;
    return wrong_length(comm, sender, got, n_bytes);
}

/* --- the agreement of a site --- */

/* This is not the channel of pieces, so the membership machine does not count these
 * messages. */
static int agreement_channel(const remote_comm *comm) { return comm->channel + 1; }

/* Lock held. Takes a member's message of agreement out of the list, if it is there. */
static bool take_word(remote_comm *comm, int sender, int64_t tag) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    weft_mesh *mesh = comm->mesh;
    for (wefti_arrival **link = &mesh->incoming.posted; *link; link = &(*link)->next) {
        wefti_arrival *a = *link;
        if (a->tag != tag || a->sender != sender || a->channel != agreement_channel(comm))
            continue;
        *link = a->next;
        wefti_incoming_recycle(mesh, a);
        return true;
    }
    return false;
}

static weft_status remote_agree(wefti_comm *head, int64_t tag) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    const char word = 0;
    if (!mesh->elastic) return WEFT_OK;
    for (int k = 1; k < head->size; k++)
        wefti_elastic_post(mesh, mesh_rank_of(comm, (head->rank + k) % head->size),
                           agreement_channel(comm), tag, &word, sizeof word);
    pthread_mutex_lock(&mesh->lock);
    for (int k = 1; k < head->size; k++) {
        int sender = mesh_rank_of(comm, (head->rank + k) % head->size);
        wefti_wait wait = {0};
        while (!take_word(comm, sender, tag) && !has_departed(mesh, sender) &&
               !atomic_load(&mesh->world.poisoned))
            wefti_mesh_await(head->ctx, mesh, &wait, sender, (double)INFINITY);
        wefti_mesh_awaited(mesh, &wait);
    }
    pthread_mutex_unlock(&mesh->lock);
    return atomic_load(&mesh->world.poisoned) ? poisoned_error(comm) : WEFT_OK;
}

/* --- parts --- */

static wefti_arrival *find_part(const remote_comm *comm, const wefti_lost *lost, int peer,
                                bool taken) {
    int channel = WEFTI_CHANNEL_PART + mesh_rank_of(comm, lost->peer);
    int sender = mesh_rank_of(comm, peer);
    for (wefti_arrival *a = comm->mesh->incoming.posted; a; a = a->next)
        if (a->tag == lost->part_tag && a->sender == sender && a->channel == channel &&
            a->taken == taken)
            return a;
    return NULL;
}

static void remote_release_part(wefti_comm *head, const wefti_lost *lost, int peer) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    pthread_mutex_lock(&mesh->lock);
    wefti_arrival *arrival = find_part(comm, lost, peer, true);
    if (arrival)
        arrival->taken = false; /* the membership may change, and the part be needed
                                   again */
    pthread_mutex_unlock(&mesh->lock);
}

static weft_status remote_receive_part(wefti_comm *head, const wefti_lost *lost, int peer,
                                       int64_t n_bytes, const void **view) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    const wefti_elastic *e = mesh->elastic;
    int sender = mesh_rank_of(comm, peer);
    *view = NULL;
    pthread_mutex_lock(&mesh->lock);
    wefti_arrival *arrival = NULL;
    wefti_wait wait = {0};
    while (!has_departed(mesh, sender) && e->view.number == lost->view &&
           !atomic_load(&mesh->world.poisoned)) {
        arrival = find_part(comm, lost, peer, false);
        if (arrival) break;
        wefti_mesh_await(head->ctx, mesh, &wait, sender, (double)INFINITY);
    }
    wefti_mesh_awaited(mesh, &wait);
    int64_t got = arrival ? arrival->n_bytes : n_bytes;
    if (arrival) arrival->taken = true;
    if (arrival && got == n_bytes) *view = arrival->data;
    if (!arrival) {
        wefti_missed missed = missed_part(comm, lost, sender);
        wefti_elastic_miss(mesh, &missed);
    }
    pthread_mutex_unlock(&mesh->lock);
    if (!arrival && atomic_load(&mesh->world.poisoned)) return poisoned_error(comm);
    if (got == n_bytes) return WEFT_OK;
    remote_release_part(head, lost, peer);
    return wrong_length(comm, sender, got, n_bytes);
}

static weft_status remote_replace(wefti_comm *head, const wefti_lost *lost,
                                  const void *data, int64_t n_bytes) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    const wefti_elastic *e = mesh->elastic;
    wefti_arrival *arrival = wefti_incoming_room(mesh, n_bytes);
    if (arrival && arrival->capacity < n_bytes) {
        if (wefti_grow(mesh->ctx, &arrival->data, 0, n_bytes, 1, "a message") == WEFT_OK)
            arrival->capacity = n_bytes;
    }
    if (!arrival || arrival->capacity < n_bytes)
        return weft_ctx_fail(head->ctx, WEFT_ERR_MEMORY, "no memory for an answer");
    memcpy(arrival->data, data, (size_t)n_bytes);
    arrival->sender = mesh_rank_of(comm, lost->peer);
    arrival->channel = comm->channel;
    arrival->tag = lost->tag;
    arrival->n_bytes = n_bytes;
    arrival->taken = arrival->mine = false;
    arrival->arrival_s = wefti_now_s();
    pthread_mutex_lock(&mesh->lock);
    wefti_wait wait = {0};
    while (e->view.frozen && !atomic_load(&mesh->world.poisoned))
        wefti_mesh_await(head->ctx, mesh, &wait, -1, (double)INFINITY);
    wefti_mesh_awaited(mesh, &wait);
    wefti_missed answer = missed_part(comm, lost, 0);
    wefti_elastic_settle(mesh, &answer, e->view.number == lost->view);
    if (e->view.number != lost->view) {
        wefti_incoming_recycle(mesh, arrival);
    } else {
        arrival->next = mesh->incoming.posted;
        mesh->incoming.posted = arrival;
    }
    pthread_mutex_unlock(&mesh->lock);
    return WEFT_OK;
}

/* Lock held. To whom a message with this tag has not been sent completely; -1: to nobody. */
static int goes_to(const remote_comm *comm, int64_t tag) {
    WEFTI_ASSERT_HELD(&comm->mesh->lock);
    for (const wefti_parcel *p = comm->mesh->outgoing.sent; p; p = p->next_sent)
        if (p->envelope.tag == tag && p->envelope.channel == comm->channel)
            return p->peer;
    return -1;
}

static weft_status remote_await(wefti_comm *head, int64_t tag) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    wefti_wait wait = {0};
    int to;
    pthread_mutex_lock(&mesh->lock);
    while ((to = goes_to(comm, tag)) >= 0 && !atomic_load(&mesh->world.poisoned))
        wefti_mesh_await(head->ctx, mesh, &wait, to, (double)INFINITY);
    wefti_mesh_awaited(mesh, &wait);
    pthread_mutex_unlock(&mesh->lock);
    bool done = to < 0;
    return done ? WEFT_OK : poisoned_error(comm);
}

static bool remote_holds(wefti_comm *head, const void *data) {
    weft_mesh *mesh = ((remote_comm *)head)->mesh;
    bool holds = false;
    pthread_mutex_lock(&mesh->lock);
    for (const wefti_parcel *p = mesh->outgoing.sent; p && !holds; p = p->next_sent)
        holds = p->data == data;
    pthread_mutex_unlock(&mesh->lock);
    return holds;
}

static void remote_settle(wefti_comm *head) {
    wefti_mesh_settle(((remote_comm *)head)->mesh);
}

static weft_status remote_reserve(wefti_comm *head, int n_messages) {
    weft_mesh *mesh = ((remote_comm *)head)->mesh;
    for (int i = 0; i < n_messages; i++) WEFT_TRY(wefti_outbox_reserve(mesh));
    return WEFT_OK;
}

static void remote_traffic(const wefti_comm *head, wefti_traffic *out) {
    weft_mesh *mesh = ((const remote_comm *)head)->mesh;
    pthread_mutex_lock(&mesh->lock);
    *out = mesh->traffic;
    pthread_mutex_unlock(&mesh->lock);
    if (mesh->ops.relayed) out->relayed = mesh->ops.relayed(mesh->transport);
}

static void remote_note(wefti_comm *head, int64_t step, const char *at) {
    weft_mesh *mesh = ((remote_comm *)head)->mesh;
    atomic_store(&mesh->step, step);
    atomic_store(&mesh->at, at);
}

static void remote_destroy(wefti_comm *head) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    atomic_store(&mesh->at, "");
    wefti_free(head->ctx, head);
}

static const wefti_comm_ops comm_ops = {
    .name = "remote",
    .send = remote_send,
    .receive = remote_receive,
    .receive_by = remote_receive_by,
    .release = remote_release,
    .await = remote_await,
    .holds = remote_holds,
    .settle = remote_settle,
    .reserve = remote_reserve,
    .traffic = remote_traffic,
    .note = remote_note,
    .send_part = remote_send_part,
    .receive_piece = remote_receive_piece,
    .receive_part = remote_receive_part,
    .release_part = remote_release_part,
    .replace = remote_replace,
    .agree = remote_agree,
    .destroy = remote_destroy,
};

/* The channel number contains the group and the view of the membership, or the number of the
 * exchange (successors.c), so that messages of an earlier world are never confused with those of
 * the next. */
static weft_status remote_join(weft_ctx *ctx, wefti_world *world, int rank,
                               wefti_group group, int channel, wefti_comm **out) {
    *out = NULL;
    remote_comm *comm;
    if (rank != world->first_here)
        return weft_ctx_fail(ctx, WEFT_ERR_INTERNAL, "rank %d is not of this process",
                             rank);
    WEFT_TRY(wefti_alloc(ctx, sizeof *comm, "a communicator", &comm));
    comm->mesh = (weft_mesh *)world;
    const wefti_elastic *e = comm->mesh->elastic;
    comm->shape = world->shape;
    comm->members = wefti_world_members(&world->shape, e ? e->world.me : rank, group);
    comm->view = e ? e->world.entered : 1;
    int world_number = e ? (int)comm->view - 1 : comm->mesh->rounds.world;
    comm->channel = world_number << WEFTI_VIEW_SHIFT | ((int)group * 8 + channel);
    comm->head = (wefti_comm){.ops = &comm_ops,
                              .ctx = ctx,
                              .rank = comm->members.rank,
                              .size = comm->members.size};
    *out = &comm->head;
    return WEFT_OK;
}

static void remote_wake(wefti_world *world) {
    weft_mesh *mesh = (weft_mesh *)world;
    pthread_mutex_lock(&mesh->lock);
    pthread_cond_broadcast(&mesh->changed);
    wefti_outbox_wake(mesh);
    pthread_mutex_unlock(&mesh->lock);
}

/* The mesh outlives its worlds. */
static void remote_world_destroy(weft_ctx *ctx, wefti_world *world) {
    (void)ctx, (void)world;
}

const wefti_world_ops wefti_remote_ops = {
    .name = "remote",
    .join = remote_join,
    .wake = remote_wake,
    .destroy = remote_world_destroy,
};
