/* SPDX-License-Identifier: MIT */
/* The thread that moves messages between processes. MPI makes no progress by itself, so a
 * thread has to poll: often while something moves, and at longer and longer intervals while
 * nothing does, so that computing keeps the cores. Long messages are sent in pieces. Pieces
 * between machines are below the size from which MPI libraries first ask the receiver,
 * because that answer waits behind bulk data when both sides send at once. Messages to
 * other machines are sent round by round, those of one round to all receivers concurrently:
 * messages of two rounds that shared the wire would all arrive as late as the later round,
 * and a receiver of the first round would wait twice as long (docs/architecture.md). */
#define _GNU_SOURCE
#include <math.h>

#include "base/clock.h"
#include "base/lock.h"
#include "mesh/elastic.h"

enum {
    LANE_ENVELOPES = 0,
    LANE_PIECES = 1,
    PIECE_HERE = 256 * 1024, /* bytes, inside a machine */
    PIECE_AWAY = 60 * 1024,  /* between machines */
    PIECE_SLOW = 24 * 1024,  /* the same, if a piece takes long */
    WINDOW = 8,              /* pieces under way to a rank, or to other machines */
    WINDOW_SLOW = 2,         /* to other machines, if a piece takes long */
    PATH_WINDOW = 2,         /* more for each path beside the first */
    LOOK_EVERY = 16          /* busy passes; then the transport polls its sockets */
};

/* A piece that needs slow_s to be sent takes long. The wire does not wait for a rank that
 * has received nothing for patience_s plus the time of some pieces. */
static const double slow_s = 1e-3, stream_piece_s = 0.5e-3, rest_s = 0.05,
                    patience_s = 0.25, patience_pieces = 4;

static bool is_long(const wefti_parcel *parcel) {
    return parcel->envelope.kind == WEFTI_ENVELOPE_LONG;
}

static bool is_done(const wefti_parcel *parcel) {
    bool started = parcel->opened &&
                   (!is_long(parcel) || parcel->n_started == parcel->envelope.n_bytes);
    return started && parcel->n_flying == 0;
}

/* --- operations of the transport --- */

static bool start_piece(weft_mesh *mesh, wefti_parcel *parcel, int lane, const void *data,
                        int n_bytes) {
    WEFTI_ASSERT_PROGRESS(mesh);
    wefti_request flight = {.parcel = parcel, .peer = parcel->peer, .n_bytes = n_bytes};
    weft_transport *t = mesh->transport;
    wefti_peer *peer = &mesh->peers[parcel->peer];
    if (!t->ops->send(t, mesh->places.peer_of[parcel->peer], lane, data, n_bytes,
                      &flight.request)) {
        wefti_mesh_break(mesh);
        return false;
    }
    parcel->n_flying++;
    if (peer->n_flying++ == 0) peer->moved_s = wefti_now_s();
    return wefti_outbox_add(mesh, &flight);
}

static bool start_envelope(weft_mesh *mesh, wefti_parcel *parcel);

/* Before a message: what this rank has done without by then, if that is news to the receiver. */
static bool send_news(weft_mesh *mesh, const wefti_parcel *first) {
    unsigned char entries[WEFTI_SHORT_BYTES];
    int64_t n_bytes, *sent = &mesh->peers[first->peer].n_news;
    while (*sent < first->n_news) {
        *sent = wefti_elastic_copy_news(mesh, *sent, first->n_news, entries, &n_bytes);
        if (n_bytes == 0) break;
        wefti_envelope envelope = {WEFTI_ENVELOPE_SHORT, WEFTI_CHANNEL_MISSED, 0,
                                   n_bytes};
        wefti_parcel *parcel = wefti_outbox_parcel(mesh, first->peer, &envelope, entries);
        if (!parcel) {
            wefti_mesh_blame(mesh, mesh->rank, "no memory to send");
            return false;
        }
        if (!start_envelope(mesh, parcel)) return false;
    }
    return true;
}

static bool start_envelope(weft_mesh *mesh, wefti_parcel *parcel) {
    if (!send_news(mesh, parcel)) return false;
    int64_t n_bytes = WEFTI_ENVELOPE_BYTES +
                      (is_long(parcel) ? 0 : parcel->envelope.n_bytes);
    parcel->opened = true;
    return start_piece(mesh, parcel, LANE_ENVELOPES, parcel->bytes, (int)n_bytes);
}

/* Seconds that a piece to another machine needs. */
static double piece_s(const weft_mesh *mesh) { return PIECE_AWAY * mesh->wire.byte_s; }

/* Sockets and the like that carry pieces to this rank side by side. */
static int paths_to(const weft_mesh *mesh, int rank) {
    const weft_transport *t = mesh->transport;
    return t->ops->paths ? t->ops->paths(t, mesh->places.peer_of[rank]) : 0;
}

static bool is_slow(const weft_mesh *mesh) { return piece_s(mesh) > slow_s; }

static void time_piece(weft_mesh *mesh, int n_bytes, double took_s) {
    if (n_bytes < PIECE_SLOW) return;
    mesh->wire.byte_s += (took_s / n_bytes - mesh->wire.byte_s) / 8;
}

/* Bytes of a piece to this rank. If shorter pieces gain nothing, a piece to another machine
 * is as large as fits into half a millisecond, the time in which nothing can overtake it. */
static int64_t piece_to(const weft_mesh *mesh, int rank) {
    const wefti_peer *peer = &mesh->peers[rank];
    bool streams = mesh->transport->streams;
    if (peer->here) return streams ? WEFT_TRANSPORT_BYTES : PIECE_HERE;
    if (is_slow(mesh) && paths_to(mesh, rank) == 0) return PIECE_SLOW;
    if (!streams || mesh->wire.byte_s <= 0) return PIECE_AWAY;
    double n_bytes = stream_piece_s / mesh->wire.byte_s;
    return n_bytes < PIECE_AWAY             ? PIECE_AWAY
           : n_bytes > WEFT_TRANSPORT_BYTES ? WEFT_TRANSPORT_BYTES
                                            : (int64_t)n_bytes;
}

/* Continues with a rank's first long message. */
static void start_next_piece(weft_mesh *mesh, wefti_peer *peer) {
    int64_t piece = piece_to(mesh, (int)(peer - mesh->peers));
    wefti_parcel *parcel = peer->bulk.first;
    if (!parcel->opened && !start_envelope(mesh, parcel)) return;
    int64_t left = parcel->envelope.n_bytes - parcel->n_started;
    int64_t n_bytes = left < piece ? left : piece;
    const char *data = (const char *)parcel->data + parcel->n_started;
    parcel->n_started += n_bytes;
    if (n_bytes == left) peer->last_long = wefti_parcels_pop(&peer->bulk)->envelope;
    start_piece(mesh, parcel, LANE_PIECES, data, (int)n_bytes);
}

static bool stands_still(const weft_mesh *mesh, const wefti_peer *peer, double now_s) {
    double limit_s = patience_s + patience_pieces * piece_s(mesh);
    return peer->n_flying > 0 && now_s - peer->moved_s > limit_s;
}

static bool is_older(const wefti_parcel *a, const wefti_parcel *b) {
    return !b || a->number < b->number;
}

/* The oldest long message to another machine whose rank still receives; NULL: there is
 * none. */
static const wefti_parcel *oldest_away(const weft_mesh *mesh, double now_s) {
    const wefti_parcel *oldest = NULL;
    for (int r = 0; r < mesh->places.n_slots; r++) {
        const wefti_peer *peer = &mesh->peers[r];
        if (peer->here || !peer->bulk.first || stands_still(mesh, peer, now_s)) continue;
        if (is_older(peer->bulk.first, oldest)) oldest = peer->bulk.first;
    }
    return oldest;
}

/* Whether both belong to one round of one exchange: a receiver of one waits for all of
 * them. */
static bool is_alike(const wefti_envelope *a, const wefti_envelope *b) {
    return a->kind == b->kind && a->tag == b->tag && a->channel == b->channel;
}

/* Whether a rank's message belongs to the oldest round, or is the first one to this rank
 * after its part of that round: this receiver has its part, and the wire would be idle
 * while other receivers are slower. */
static bool has_turn(const wefti_peer *peer, const wefti_parcel *oldest) {
    return is_alike(&peer->bulk.first->envelope, &oldest->envelope) ||
           is_alike(&peer->last_long, &oldest->envelope);
}

/* Of the ranks whose turn it is, the one with the fewest pieces under way, if it may have
 * more; among equals the one whose message is older. */
static wefti_peer *next_away(const weft_mesh *mesh, int window, double now_s) {
    const wefti_parcel *oldest = oldest_away(mesh, now_s);
    wefti_peer *next = NULL;
    for (int r = 0; r < mesh->places.n_slots && oldest; r++) {
        wefti_peer *peer = &mesh->peers[r];
        const wefti_parcel *first = peer->bulk.first;
        if (peer->here || !first || !has_turn(peer, oldest) ||
            peer->n_flying >= window + PATH_WINDOW * paths_to(mesh, r) ||
            stands_still(mesh, peer, now_s))
            continue;
        bool fewer = !next || peer->n_flying < next->n_flying;
        bool older = next && peer->n_flying == next->n_flying &&
                     is_older(first, next->bulk.first);
        if (fewer || older) next = peer;
    }
    return next;
}

/* Sends to other machines: the messages of the oldest round, to all their receivers
 * concurrently, as far as the window of each allows. */
static bool start_away(weft_mesh *mesh, double now_s) {
    int window = is_slow(mesh) ? WINDOW_SLOW : WINDOW;
    bool moved = false;
    while (!mesh->wire.broken) {
        wefti_peer *peer = next_away(mesh, window, now_s);
        if (!peer) return moved;
        start_next_piece(mesh, peer);
        moved = true;
    }
    return moved;
}

static bool depart(weft_mesh *mesh) {
    bool moved = false;
    for (int r = 0; r < mesh->places.n_slots && !mesh->wire.broken; r++) {
        wefti_peer *peer = &mesh->peers[r];
        while (peer->quick.first && !mesh->wire.broken) {
            start_envelope(mesh, wefti_parcels_pop(&peer->quick));
            moved = true;
        }
        while (peer->here && peer->bulk.first && peer->n_flying < WINDOW &&
               !mesh->wire.broken) {
            start_next_piece(mesh, peer);
            moved = true;
        }
    }
    return start_away(mesh, wefti_now_s()) || moved;
}

static void finish_flight(weft_mesh *mesh, const wefti_request *flight) {
    double now_s = wefti_now_s();
    if (flight->arrival || (flight->parcel && is_long(flight->parcel)))
        atomic_store(&mesh->carried_s, now_s);
    if (flight->parcel) {
        wefti_peer *peer = &mesh->peers[flight->peer];
        if (!peer->here) time_piece(mesh, flight->n_bytes, now_s - peer->moved_s);
        peer->moved_s = now_s;
        peer->n_flying--;
        flight->parcel->n_flying--;
        if (is_done(flight->parcel)) wefti_outbox_finish(mesh, flight->parcel);
        return;
    }
    wefti_incoming_finish(mesh, flight);
}

static bool land(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    bool moved = false;
    for (int i = 0; i < mesh->wire.n_flights && !mesh->wire.broken;) {
        wefti_request flight = mesh->wire.flights[i];
        bool done;
        if (!mesh->transport->ops->test(mesh->transport, flight.request, &done)) {
            wefti_mesh_break(mesh);
            return true;
        }
        if (!done) {
            i++;
            continue;
        }
        mesh->wire.flights[i] = mesh->wire.flights[--mesh->wire.n_flights];
        finish_flight(mesh, &flight);
        moved = true;
    }
    return moved;
}

static void take_all_back(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    mesh->end.took_back = true;
    for (int r = 0; r < mesh->places.n_slots; r++) wefti_outbox_let_go(mesh, r);
}

/* Reports the first failure to all ranks. */
static void report_failure(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    char text[1024];
    weft_status status;
    if (mesh->end.reported || !mesh->world.poisoned) return;
    mesh->end.reported = true;
    int rank = wefti_world_failure(&mesh->world, &status, text);
    int returns = wefti_elastic_returns(mesh) ? WEFTI_RETURNS : 0;
    wefti_envelope failure = {WEFTI_ENVELOPE_FAILED, (int)status, rank | returns, 0};
    for (int r = 0; r < mesh->places.n_slots; r++)
        if (r != mesh->rank && !mesh->end.said_bye)
            wefti_outbox_post(mesh, r, &failure, text);
    if (mesh->elastic) wefti_elastic_leave(mesh);
    if (mesh->end.said_bye)
        atomic_store(&mesh->close_by_s, wefti_now_s() + WEFTI_FAREWELL_S);
}

/* --- the thread --- */

/* A rank that the others continue without, and that may still be connected: nobody waits
 * for it. */
static bool has_departed(const weft_mesh *mesh, int r) {
    return mesh->elastic && mesh->elastic->at[r].departed;
}

/* Moves submitted parcels into the ranks' queues. */
static bool collect(weft_mesh *mesh) {
    WEFTI_ASSERT_PROGRESS(mesh);
    const wefti_envelope bye = {.kind = WEFTI_ENVELOPE_BYE};
    pthread_mutex_lock(&mesh->lock);
    wefti_parcels new = mesh->outgoing.submitted;
    mesh->outgoing.submitted = (wefti_parcels){NULL, NULL};
    bool closing = mesh->orders.closing, taking_back = mesh->orders.taking_back;
    int64_t moot_from = mesh->orders.moot_from;
    mesh->orders.moot_from = -1;
    if (moot_from >= 0) pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
    bool moved = new.first != NULL;
    while (new.first) {
        wefti_parcel *parcel = wefti_parcels_pop(&new);
        wefti_peer *peer = &mesh->peers[parcel->peer];
        parcel->number = mesh->wire.n_collected++;
        if (is_long(parcel) && !parcel->own && has_departed(mesh, parcel->peer))
            wefti_outbox_drop(mesh, parcel);
        else
            wefti_parcels_push(is_long(parcel) ? &peer->bulk : &peer->quick, parcel);
    }
    if (moot_from >= 0) wefti_elastic_drop_moot(mesh, moot_from);
    if (taking_back && (moved || !mesh->end.took_back)) take_all_back(mesh);
    if (!closing || mesh->end.said_bye) return moved;
    if (wefti_elastic_stays(mesh)) mesh->end.reported = false;
    report_failure(mesh); /* before the farewell: later messages are not read */
    for (int r = 0; r < mesh->places.n_slots; r++)
        if (r != mesh->rank) wefti_outbox_post(mesh, r, &bye, "");
    mesh->end.said_bye = true;
    mesh->end.said_bye_s = wefti_now_s();
    return true;
}

/* How many ranks have not left, not counting rank `except`. */
static int remaining(const weft_mesh *mesh, int except) {
    int n = 0;
    for (int r = 0; r < mesh->places.n_slots; r++)
        n += r != mesh->rank && r != except && !mesh->peers[r].left &&
             !mesh->peers[r].lost && !has_departed(mesh, r);
    return n;
}

static bool is_sending(const weft_mesh *mesh) {
    for (int i = 0; i < mesh->wire.n_flights; i++)
        if (mesh->wire.flights[i].parcel &&
            !has_departed(mesh, mesh->wire.flights[i].peer))
            return true;
    for (int r = 0; r < mesh->places.n_slots; r++)
        if (mesh->peers[r].quick.first && !has_departed(mesh, r)) return true;
    return false;
}

static bool is_over(weft_mesh *mesh) {
    char text[1024];
    weft_status status;
    if (!mesh->end.said_bye) return false;
    if (mesh->wire.broken) return true;
    if (is_sending(mesh) && wefti_now_s() < atomic_load(&mesh->close_by_s)) return false;
    if (mesh->elastic && mesh->world.poisoned) return true; /* the others continue */
    mesh->end.all_left = remaining(mesh, -1) == 0;
    if (mesh->end.all_left || !mesh->world.poisoned) return mesh->end.all_left;
    int failed = wefti_world_failure(&mesh->world, &status, text);
    return remaining(mesh, failed) == 0 || wefti_now_s() > atomic_load(&mesh->close_by_s);
}

/* How long to sleep when nothing has moved for quiet_s. */
static double nap_s(double quiet_s) {
    if (quiet_s < 0.0005) return 20e-6;
    if (quiet_s < 0.02) return 100e-6;
    return quiet_s < 1 ? 200e-6 : 1e-3;
}

/* Lock held. Sleeps a little, or until something is submitted. */
static void nap(weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    double now_s = wefti_now_s();
    double until_s = now_s +
                     (mesh->wire.broken ? 1e-2 : nap_s(now_s - mesh->clock.moved_s));
    wefti_cond_wait(&mesh->thread.wake, &mesh->lock, until_s);
}

/* Lock held. Whether something was requested since the last collect. */
static bool is_asked(const weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    return mesh->outgoing.submitted.first ||
           mesh->orders.taking_back != mesh->end.took_back ||
           mesh->orders.moot_from >= 0 || (mesh->orders.closing && !mesh->end.said_bye);
}

/* Sleeps until there is something to do, or a rank has to be checked. */
static void rest(weft_mesh *mesh, double at_most_s) {
    WEFTI_ASSERT_PROGRESS(mesh);
    const weft_transport_ops *ops = mesh->transport->ops;
    pthread_mutex_lock(&mesh->lock);
    mesh->thread.resting = !is_asked(mesh);
    if (mesh->thread.resting && !ops->wait) nap(mesh);
    bool sleeps = mesh->thread.resting && ops->wait;
    pthread_mutex_unlock(&mesh->lock);
    if (sleeps) ops->wait(mesh->transport, fmin(rest_s, at_most_s));
    pthread_mutex_lock(&mesh->lock);
    mesh->thread.resting = false;
    pthread_mutex_unlock(&mesh->lock);
    mesh->wire.n_busy = 0;
}

static bool pass(weft_mesh *mesh) {
    const weft_transport_ops *ops = mesh->transport->ops;
    bool moved = depart(mesh);
    if (ops->flush) ops->flush(mesh->transport);
    moved |= land(mesh);
    moved |= wefti_incoming_pick_up(mesh);
    if (moved) mesh->clock.moved_s = wefti_now_s();
    if (moved && ops->wait && ++mesh->wire.n_busy % LOOK_EVERY == 0)
        ops->wait(mesh->transport, 0);
    return moved;
}

static void *progress_main(void *argument) {
    weft_mesh *mesh = argument;
    mesh->thread.self = pthread_self();
    atomic_store(&mesh->thread.works, true);
    wefti_sleep_finely(); /* naps are short */
    while (!is_over(mesh)) {
        bool moved = collect(mesh);
        report_failure(mesh);
        if (!mesh->wire.broken) moved |= pass(mesh);
        wefti_waits_watch(mesh, wefti_now_s());
        double due_s = wefti_liveness_watch(mesh);
        if (!moved || mesh->wire.broken) rest(mesh, due_s);
    }
    return NULL;
}

weft_status wefti_progress_start(weft_mesh *mesh) {
    double now_s = wefti_now_s();
    mesh->clock.moved_s = mesh->clock.watched_s = mesh->clock.beat_s = now_s;
    for (int r = 0; r < mesh->places.n_slots; r++) mesh->peers[r].heard_s = now_s;
    if (pthread_create(&mesh->thread.id, NULL, progress_main, mesh) != 0)
        return weft_ctx_fail(mesh->ctx, WEFT_ERR_MEMORY,
                             "could not start the thread that moves messages");
    mesh->thread.runs = true;
    return WEFT_OK;
}
