/* SPDX-License-Identifier: MIT */
/* The thread that moves messages between processes. MPI makes no progress by itself, so
 * somebody has to look; it looks often while something moves and sleeps longer and longer
 * while nothing does, so that computing keeps the cores. Long messages go in pieces:
 * those between machines are below the size from which MPI libraries ask the receiver
 * first, an answer that waits behind bulk data when both sides send at once. To other
 * machines they leave in the order in which they were sent: two that share the wire both
 * come as late as the later one would alone, and whoever waits for the first waits twice
 * as long (docs/architecture.md). */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/memory.h"
#include "comm/mesh.h"

enum {
    LANE_ENVELOPES = 0,
    LANE_PIECES = 1,
    PIECE_HERE = 256 * 1024, /* bytes, inside a machine */
    PIECE_AWAY = 60 * 1024,  /* between machines */
    PIECE_SLOW = 24 * 1024,  /* the same where one takes long */
    WINDOW = 8,              /* pieces under way to a rank, or to other machines */
    WINDOW_SLOW = 2,         /* to other machines where a piece takes long */
    MAX_FOUND = 64           /* messages taken in before sending goes on */
};

static const double watch_every_s = 0.05, beat_every_s = 0.2, asked_silence_s = 0.8,
                    last_words_s = 0.5;
/* A piece that takes slow_s to leave takes long; the wire does not wait for a rank that
 * has taken in nothing for patience_s and the time of some pieces. */
static const double slow_s = 1e-3, patience_s = 0.25, patience_pieces = 4;

static void push(wefti_parcels *queue, wefti_parcel *parcel) {
    parcel->next = NULL;
    if (queue->last)
        queue->last->next = parcel;
    else
        queue->first = parcel;
    queue->last = parcel;
}

static wefti_parcel *pop(wefti_parcels *queue) {
    wefti_parcel *parcel = queue->first;
    queue->first = parcel->next;
    if (!queue->first) queue->last = NULL;
    return parcel;
}

/* --- failures --- */

static void fail(weft_mesh *mesh, int rank, const char *format, ...) {
    char text[900];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    wefti_world_poison(&mesh->world, rank, WEFT_ERR_PEER, text);
}

static void fail_transport(weft_mesh *mesh) {
    char text[512];
    mesh->transport->ops->say(mesh->transport, text, sizeof text);
    mesh->broken = true;
    fail(mesh, mesh->rank, "%s on host %s: %s", mesh->transport->version,
         weft_mesh_host_of(mesh, mesh->rank), text);
}

static void fail_bytes(weft_mesh *mesh, int rank) {
    fail(mesh, rank, "rank %d (host %s) sent bytes that are no message of weft", rank,
         weft_mesh_host_of(mesh, rank));
}

/* --- parcels --- */

weft_status wefti_progress_reserve(weft_mesh *mesh) {
    wefti_parcel *parcel;
    WEFT_TRY(wefti_alloc(mesh->ctx, sizeof *parcel, "a message", &parcel));
    pthread_mutex_lock(&mesh->lock);
    parcel->next_all = mesh->all_parcels;
    mesh->all_parcels = parcel;
    parcel->next = mesh->spare_parcels;
    mesh->spare_parcels = parcel;
    pthread_mutex_unlock(&mesh->lock);
    return WEFT_OK;
}

static wefti_parcel *take_parcel(weft_mesh *mesh) {
    pthread_mutex_lock(&mesh->lock);
    wefti_parcel *parcel = mesh->spare_parcels;
    if (parcel) mesh->spare_parcels = parcel->next;
    pthread_mutex_unlock(&mesh->lock);
    return parcel;
}

wefti_parcel *wefti_progress_parcel(weft_mesh *mesh, int peer,
                                    const wefti_envelope *envelope, const void *data) {
    wefti_parcel *parcel = take_parcel(mesh);
    while (!parcel) {
        if (wefti_progress_reserve(mesh) != WEFT_OK) return NULL;
        parcel = take_parcel(mesh);
    }
    parcel->next = parcel->next_sent = NULL;
    parcel->peer = peer;
    parcel->envelope = *envelope;
    parcel->data = data;
    parcel->n_started = 0;
    parcel->n_flying = 0;
    parcel->opened = false;
    wefti_envelope_encode(envelope, parcel->bytes);
    bool whole = envelope->kind != WEFTI_ENVELOPE_LONG && envelope->n_bytes > 0;
    if (whole)
        memcpy(parcel->bytes + WEFTI_ENVELOPE_BYTES, data, (size_t)envelope->n_bytes);
    return parcel;
}

void wefti_progress_submit(weft_mesh *mesh, wefti_parcel *parcel) {
    pthread_mutex_lock(&mesh->lock);
    push(&mesh->submitted, parcel);
    pthread_cond_signal(&mesh->wake);
    pthread_mutex_unlock(&mesh->lock);
}

/* A message of the progress thread's own. */
static void post(weft_mesh *mesh, int peer, wefti_envelope_kind kind, int channel,
                 int64_t tag, const char *text) {
    wefti_envelope envelope = {kind, channel, tag, (int64_t)strlen(text)};
    wefti_parcel *parcel = wefti_progress_parcel(mesh, peer, &envelope, text);
    if (parcel) push(&mesh->peers[peer].quick, parcel);
}

static void finish_parcel(weft_mesh *mesh, wefti_parcel *parcel) {
    pthread_mutex_lock(&mesh->lock);
    for (wefti_parcel **link = &mesh->sent; *link; link = &(*link)->next_sent) {
        if (*link != parcel) continue;
        *link = parcel->next_sent;
        break;
    }
    parcel->next = mesh->spare_parcels;
    mesh->spare_parcels = parcel;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

static bool is_done(const wefti_parcel *parcel) {
    bool is_long = parcel->envelope.kind == WEFTI_ENVELOPE_LONG;
    bool started = parcel->opened &&
                   (!is_long || parcel->n_started == parcel->envelope.n_bytes);
    return started && parcel->n_flying == 0;
}

/* --- what the transport is at --- */

static bool add_flight(weft_mesh *mesh, const wefti_request *flight) {
    if (mesh->n_flights == mesh->max_flights) {
        int more = 2 * mesh->max_flights + 64;
        if (wefti_grow(mesh->ctx, &mesh->flights, mesh->max_flights, more, sizeof *flight,
                       "messages under way") != WEFT_OK) {
            mesh->broken = true; /* a request that nobody waits for: nothing goes on */
            fail(mesh, mesh->rank, "no memory for messages under way");
            return false;
        }
        mesh->max_flights = more;
    }
    mesh->flights[mesh->n_flights++] = *flight;
    return true;
}

static bool start_piece(weft_mesh *mesh, wefti_parcel *parcel, int lane, const void *data,
                        int n_bytes) {
    wefti_request flight = {.parcel = parcel, .peer = parcel->peer, .n_bytes = n_bytes};
    weft_transport *t = mesh->transport;
    wefti_peer *peer = &mesh->peers[parcel->peer];
    if (!t->ops->send(t, mesh->peer_of[parcel->peer], lane, data, n_bytes,
                      &flight.request)) {
        fail_transport(mesh);
        return false;
    }
    parcel->n_flying++;
    if (peer->n_flying++ == 0) peer->moved_s = wefti_now_s();
    return add_flight(mesh, &flight);
}

static bool start_envelope(weft_mesh *mesh, wefti_parcel *parcel) {
    bool is_long = parcel->envelope.kind == WEFTI_ENVELOPE_LONG;
    int64_t n_bytes = WEFTI_ENVELOPE_BYTES + (is_long ? 0 : parcel->envelope.n_bytes);
    parcel->opened = true;
    return start_piece(mesh, parcel, LANE_ENVELOPES, parcel->bytes, (int)n_bytes);
}

/* Seconds that a piece to another machine takes. */
static double piece_s(const weft_mesh *mesh) { return PIECE_AWAY * mesh->byte_s; }

static bool is_slow(const weft_mesh *mesh) { return piece_s(mesh) > slow_s; }

static void time_piece(weft_mesh *mesh, int n_bytes, double took_s) {
    if (n_bytes < PIECE_SLOW) return;
    mesh->byte_s += (took_s / n_bytes - mesh->byte_s) / 8;
}

/* Goes on with a rank's first long message. */
static void start_next_piece(weft_mesh *mesh, wefti_peer *peer) {
    int64_t away = is_slow(mesh) ? PIECE_SLOW : PIECE_AWAY;
    int64_t piece = peer->here ? PIECE_HERE : away;
    wefti_parcel *parcel = peer->bulk.first;
    if (!parcel->opened && !start_envelope(mesh, parcel)) return;
    int64_t left = parcel->envelope.n_bytes - parcel->n_started;
    int64_t n_bytes = left < piece ? left : piece;
    const char *data = (const char *)parcel->data + parcel->n_started;
    parcel->n_started += n_bytes;
    if (n_bytes == left) pop(&peer->bulk);
    start_piece(mesh, parcel, LANE_PIECES, data, (int)n_bytes);
}

static bool stands_still(const weft_mesh *mesh, const wefti_peer *peer, double now_s) {
    double limit_s = patience_s + patience_pieces * piece_s(mesh);
    return peer->n_flying > 0 && now_s - peer->moved_s > limit_s;
}

/* To other machines: the oldest message to one that takes something in, as far as the
 * window allows. */
static bool start_away(weft_mesh *mesh, double now_s) {
    int window = is_slow(mesh) ? WINDOW_SLOW : WINDOW;
    bool moved = false;
    while (!mesh->broken) {
        wefti_peer *oldest = NULL;
        int n = 0;
        for (int r = 0; r < mesh->world.size; r++) {
            wefti_peer *peer = &mesh->peers[r];
            if (peer->here || stands_still(mesh, peer, now_s)) continue;
            n += peer->n_flying;
            if (peer->bulk.first &&
                (!oldest || peer->bulk.first->number < oldest->bulk.first->number))
                oldest = peer;
        }
        if (!oldest || n >= window) return moved;
        start_next_piece(mesh, oldest);
        moved = true;
    }
    return moved;
}

static bool depart(weft_mesh *mesh) {
    bool moved = false;
    for (int r = 0; r < mesh->world.size && !mesh->broken; r++) {
        wefti_peer *peer = &mesh->peers[r];
        while (peer->quick.first && !mesh->broken) {
            start_envelope(mesh, pop(&peer->quick));
            moved = true;
        }
        while (peer->here && peer->bulk.first && peer->n_flying < WINDOW &&
               !mesh->broken) {
            start_next_piece(mesh, peer);
            moved = true;
        }
    }
    return start_away(mesh, wefti_now_s()) || moved;
}

static void land_arrival(weft_mesh *mesh, wefti_arrival *arrival) {
    pthread_mutex_lock(&mesh->lock);
    arrival->arrival_s = wefti_now_s();
    arrival->next = mesh->posted;
    mesh->posted = arrival;
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
}

static void finish_flight(weft_mesh *mesh, const wefti_request *flight) {
    if (flight->parcel) {
        wefti_peer *peer = &mesh->peers[flight->peer];
        double now_s = wefti_now_s();
        if (!peer->here) time_piece(mesh, flight->n_bytes, now_s - peer->moved_s);
        peer->moved_s = now_s;
        peer->n_flying--;
        flight->parcel->n_flying--;
        if (is_done(flight->parcel)) finish_parcel(mesh, flight->parcel);
        return;
    }
    wefti_arrival *arrival = flight->arrival;
    arrival->n_landed += flight->n_bytes;
    mesh->peers[flight->peer].heard_s = wefti_now_s();
    if (arrival->n_landed == arrival->n_bytes) land_arrival(mesh, arrival);
}

static bool land(weft_mesh *mesh) {
    bool moved = false;
    for (int i = 0; i < mesh->n_flights && !mesh->broken;) {
        wefti_request flight = mesh->flights[i];
        bool done;
        if (!mesh->transport->ops->test(mesh->transport, flight.request, &done)) {
            fail_transport(mesh);
            return true;
        }
        if (!done) {
            i++;
            continue;
        }
        mesh->flights[i] = mesh->flights[--mesh->n_flights];
        finish_flight(mesh, &flight);
        moved = true;
    }
    return moved;
}

/* --- what comes in --- */

/* A spare one with room for n bytes, the tightest; or a fresh one. NULL: no memory. */
static wefti_arrival *take_arrival(weft_mesh *mesh, int64_t n_bytes) {
    pthread_mutex_lock(&mesh->lock);
    wefti_arrival **best = NULL;
    for (wefti_arrival **link = &mesh->spare_arrivals; *link; link = &(*link)->next)
        if ((*link)->capacity >= n_bytes &&
            (!best || (*link)->capacity < (*best)->capacity))
            best = link;
    wefti_arrival *arrival = best ? *best : NULL;
    if (best) *best = arrival->next;
    pthread_mutex_unlock(&mesh->lock);
    if (arrival) return arrival;
    int64_t capacity = n_bytes < WEFTI_SHORT_BYTES ? WEFTI_SHORT_BYTES : n_bytes;
    if (wefti_alloc(mesh->ctx, sizeof *arrival, "a message", &arrival) != WEFT_OK)
        return NULL;
    if (wefti_alloc_n(mesh->ctx, capacity, 1, "a message", &arrival->data) != WEFT_OK) {
        wefti_free(mesh->ctx, arrival);
        return NULL;
    }
    arrival->capacity = capacity;
    pthread_mutex_lock(&mesh->lock);
    arrival->next_all = mesh->all_arrivals;
    mesh->all_arrivals = arrival;
    pthread_mutex_unlock(&mesh->lock);
    return arrival;
}

static wefti_arrival *open_arrival(weft_mesh *mesh, int sender,
                                   const wefti_envelope *envelope) {
    wefti_arrival *arrival = take_arrival(mesh, envelope->n_bytes);
    if (!arrival) {
        fail(mesh, mesh->rank, "no memory for a message of %lld bytes from rank %d",
             (long long)envelope->n_bytes, sender);
        return NULL;
    }
    arrival->sender = sender;
    arrival->channel = envelope->channel;
    arrival->tag = envelope->tag;
    arrival->n_bytes = envelope->n_bytes;
    arrival->n_announced = arrival->n_landed = 0;
    arrival->taken = false;
    return arrival;
}

static void hear_failure(weft_mesh *mesh, const wefti_envelope *envelope,
                         const char *text) {
    bool fits = envelope->tag >= 0 && envelope->tag < mesh->world.size;
    bool known = envelope->channel > WEFT_OK && envelope->channel <= WEFT_ERR_INTERNAL;
    wefti_world_poison(&mesh->world, fits ? (int)envelope->tag : 0,
                       known ? (weft_status)envelope->channel : WEFT_ERR_PEER, text);
}

/* A message of the progress thread's own kinds; `text` has a zero at its end. */
static void hear(weft_mesh *mesh, int sender, const wefti_envelope *envelope,
                 const char *text) {
    wefti_peer *peer = &mesh->peers[sender];
    if (envelope->kind == WEFTI_ENVELOPE_ALIVE) {
        peer->step = envelope->tag;
        snprintf(peer->at, sizeof peer->at, "%s", text);
    } else if (envelope->kind == WEFTI_ENVELOPE_FAILED) {
        hear_failure(mesh, envelope, text);
    } else if (envelope->kind == WEFTI_ENVELOPE_BYE) {
        peer->left = true;
    } else if (strcmp(text, wefti_mesh_greeting()) != 0) {
        fail(mesh, sender, "rank %d (host %s) runs \"%.60s\", this is \"%s\"", sender,
             weft_mesh_host_of(mesh, sender), text, wefti_mesh_greeting());
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

/* What lies in mesh->landing. */
static void open_envelope(weft_mesh *mesh, int sender, int n_bytes) {
    wefti_envelope envelope;
    unsigned char *body = mesh->landing + WEFTI_ENVELOPE_BYTES;
    wefti_peer *peer = &mesh->peers[sender];
    bool fine = wefti_envelope_decode(mesh->landing, n_bytes, &envelope) && !peer->left;
    bool is_long = fine && envelope.kind == WEFTI_ENVELOPE_LONG;
    if (!fine || (is_long && (peer->open || envelope.n_bytes == 0))) {
        fail_bytes(mesh, sender);
        return;
    }
    if (!is_long && envelope.kind != WEFTI_ENVELOPE_SHORT) {
        body[envelope.n_bytes] = 0;
        hear(mesh, sender, &envelope, (const char *)body);
        return;
    }
    wefti_arrival *arrival = open_arrival(mesh, sender, &envelope);
    if (is_long) peer->open = arrival;
    if (is_long || !arrival) return;
    memcpy(arrival->data, body, (size_t)envelope.n_bytes);
    land_arrival(mesh, arrival);
}

/* Takes in what nobody will read. */
static void discard(weft_mesh *mesh, int sender, int n_bytes, void *message) {
    wefti_request flight = {.peer = sender};
    weft_transport *t = mesh->transport;
    flight.arrival = take_arrival(mesh, n_bytes);
    bool fine = flight.arrival && t->ops->receive(t, message, flight.arrival->data,
                                                  n_bytes, &flight.request);
    if (fine) flight.arrival->n_bytes = -1; /* never whole */
    if (!fine || !add_flight(mesh, &flight)) mesh->broken = true;
}

/* Short messages are there at once: waited for. */
static bool receive_envelope(weft_mesh *mesh, int sender, int n_bytes, void *message) {
    weft_transport *t = mesh->transport;
    void *request;
    bool done = false;
    if (n_bytes > WEFTI_ENVELOPE_BYTES + WEFTI_SHORT_BYTES) {
        fail_bytes(mesh, sender);
        discard(mesh, sender, n_bytes, message);
        return false;
    }
    bool fine = t->ops->receive(t, message, mesh->landing, n_bytes, &request);
    while (fine && !done) fine = t->ops->test(t, request, &done);
    if (!fine) {
        fail_transport(mesh);
        return false;
    }
    open_envelope(mesh, sender, n_bytes);
    return true;
}

static bool receive_piece(weft_mesh *mesh, int sender, int n_bytes, void *message) {
    wefti_peer *peer = &mesh->peers[sender];
    wefti_arrival *arrival = peer->open;
    if (!arrival || n_bytes == 0 || n_bytes > arrival->n_bytes - arrival->n_announced) {
        fail_bytes(mesh, sender);
        discard(mesh, sender, n_bytes, message);
        return false;
    }
    wefti_request flight = {.arrival = arrival, .peer = sender, .n_bytes = n_bytes};
    char *data = (char *)arrival->data + arrival->n_announced;
    weft_transport *t = mesh->transport;
    if (!t->ops->receive(t, message, data, n_bytes, &flight.request)) {
        fail_transport(mesh);
        return false;
    }
    arrival->n_announced += n_bytes;
    if (arrival->n_announced == arrival->n_bytes) peer->open = NULL;
    return add_flight(mesh, &flight);
}

/* "block 3 of step 17" */
static const char *whereabouts(const wefti_peer *peer, char *out, size_t size) {
    if (peer->step < 0)
        snprintf(out, size, "getting ready");
    else
        snprintf(out, size, "at %s of step %lld",
                 peer->at[0] ? peer->at : "the beginning", (long long)peer->step + 1);
    return out;
}

/* Its connection ended; after a farewell that is as it should be. */
static void lose(weft_mesh *mesh, int r) {
    char where[128];
    wefti_peer *peer = &mesh->peers[r];
    if (peer->left) return;
    fail(mesh, r,
         "rank %d (host %s) has closed its connection: it has died or was ended; "
         "it was last %s",
         r, weft_mesh_host_of(mesh, r), whereabouts(peer, where, sizeof where));
}

static bool pick_up(weft_mesh *mesh) {
    bool moved = false;
    for (int i = 0; i < MAX_FOUND && !mesh->broken; i++) {
        weft_transport_found found = {0};
        void *message;
        if (!mesh->transport->ops->probe(mesh->transport, &found, &message)) {
            fail_transport(mesh);
            return true;
        }
        if (!found.any && !found.closed) return moved;
        moved = true;
        int sender = mesh->rank_of[found.peer];
        if (found.closed) {
            lose(mesh, sender);
            continue;
        }
        mesh->peers[sender].heard_s = wefti_now_s();
        if (found.lane == LANE_PIECES)
            receive_piece(mesh, sender, found.n_bytes, message);
        else
            receive_envelope(mesh, sender, found.n_bytes, message);
    }
    return moved;
}

/* --- who is still there --- */

static void say_alive(weft_mesh *mesh) {
    const char *at = atomic_load(&mesh->at);
    int64_t step = atomic_load(&mesh->step);
    for (int k = 1; k <= 2 && k < mesh->world.size; k++)
        post(mesh, (mesh->rank + k) % mesh->world.size, WEFTI_ENVELOPE_ALIVE, 0, step,
             at ? at : "");
}

/* Ended, even if its parent has not taken notice. */
static bool has_ended(int64_t process) {
    char path[64], line[512];
    if (kill((pid_t)process, 0) != 0) return errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)process);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const char *name_end = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    return name_end && name_end[1] == ' ' && (name_end[2] == 'Z' || name_end[2] == 'X');
}

static void check_process(weft_mesh *mesh, int r) {
    char where[128];
    wefti_peer *peer = &mesh->peers[r];
    /* Its last words may still be on their way. */
    bool quiet = wefti_now_s() - peer->heard_s > last_words_s;
    if (peer->left || peer->process == 0 || !quiet || !has_ended(peer->process)) return;
    fail(mesh, r, "rank %d (host %s, process %lld) has died; it was last %s", r,
         weft_mesh_host_of(mesh, r), (long long)peer->process,
         whereabouts(peer, where, sizeof where));
}

static void check_silence(weft_mesh *mesh, int r, double now_s, double limit_s) {
    char where[128];
    wefti_peer *peer = &mesh->peers[r];
    double silence_s = now_s - peer->heard_s;
    if (peer->left || !peer->greeted || silence_s <= limit_s) return;
    fail(mesh, r,
         "rank %d (host %s) has given no sign of life for %.1f s: it has died, stands "
         "still, or the network is cut; it was last %s",
         r, weft_mesh_host_of(mesh, r), silence_s,
         whereabouts(peer, where, sizeof where));
}

static void watch(weft_mesh *mesh) {
    double now_s = wefti_now_s();
    int size = mesh->world.size;
    if (now_s - mesh->watched_s < watch_every_s) return;
    mesh->watched_s = now_s;
    if (now_s - mesh->beat_s > beat_every_s && !mesh->said_bye) {
        mesh->beat_s = now_s;
        say_alive(mesh);
    }
    bool (*asked)(void *) = atomic_load(&mesh->asked);
    double limit_s = atomic_load(&mesh->silence_s);
    if (limit_s <= 0) limit_s = (double)INFINITY;
    if (asked && asked(mesh->asked_user)) limit_s = asked_silence_s;
    if (mesh->world.poisoned) return;
    for (int r = 0; r < size; r++)
        if (r != mesh->rank) check_process(mesh, r);
    for (int k = 1; k <= 2 && k < size; k++)
        check_silence(mesh, (mesh->rank + size - k) % size, now_s, limit_s);
}

/* Passes the first failure on to everybody. */
static void report_failure(weft_mesh *mesh) {
    char text[1024];
    weft_status status;
    if (mesh->reported || !mesh->world.poisoned) return;
    mesh->reported = true;
    int rank = wefti_world_failure(&mesh->world, &status, text);
    for (int r = 0; r < mesh->world.size; r++)
        if (r != mesh->rank && !mesh->said_bye)
            post(mesh, r, WEFTI_ENVELOPE_FAILED, (int)status, rank, text);
    if (mesh->said_bye) atomic_store(&mesh->close_by_s, wefti_now_s() + WEFTI_FAREWELL_S);
}

/* --- the thread --- */

/* Takes what was submitted into the ranks' queues. */
static bool collect(weft_mesh *mesh) {
    pthread_mutex_lock(&mesh->lock);
    wefti_parcels new = mesh->submitted;
    mesh->submitted = (wefti_parcels){NULL, NULL};
    bool closing = mesh->closing;
    pthread_mutex_unlock(&mesh->lock);
    bool moved = new.first != NULL;
    while (new.first) {
        wefti_parcel *parcel = pop(&new);
        wefti_peer *peer = &mesh->peers[parcel->peer];
        bool is_long = parcel->envelope.kind == WEFTI_ENVELOPE_LONG;
        parcel->number = mesh->n_collected++;
        push(is_long ? &peer->bulk : &peer->quick, parcel);
    }
    if (!closing || mesh->said_bye) return moved;
    report_failure(mesh); /* before the farewell, after which nobody listens */
    for (int r = 0; r < mesh->world.size; r++)
        if (r != mesh->rank) post(mesh, r, WEFTI_ENVELOPE_BYE, 0, 0, "");
    mesh->said_bye = true;
    return true;
}

/* How many have not left, but for rank `except`. */
static int remaining(const weft_mesh *mesh, int except) {
    int n = 0;
    for (int r = 0; r < mesh->world.size; r++)
        n += r != mesh->rank && r != except && !mesh->peers[r].left;
    return n;
}

static bool is_sending(const weft_mesh *mesh) {
    for (int i = 0; i < mesh->n_flights; i++)
        if (mesh->flights[i].parcel) return true;
    for (int r = 0; r < mesh->world.size; r++)
        if (mesh->peers[r].quick.first) return true;
    return false;
}

static bool is_over(weft_mesh *mesh) {
    char text[1024];
    weft_status status;
    if (!mesh->said_bye) return false;
    if (mesh->broken) return true;
    if (is_sending(mesh) && wefti_now_s() < atomic_load(&mesh->close_by_s)) return false;
    mesh->all_left = remaining(mesh, -1) == 0;
    if (mesh->all_left || !mesh->world.poisoned) return mesh->all_left;
    int failed = wefti_world_failure(&mesh->world, &status, text);
    return remaining(mesh, failed) == 0 || wefti_now_s() > atomic_load(&mesh->close_by_s);
}

/* How long to sleep after nothing has moved for so long. */
static double nap_s(double quiet_s) {
    if (quiet_s < 0.0005) return 20e-6;
    if (quiet_s < 0.02) return 100e-6;
    return quiet_s < 1 ? 200e-6 : 1e-3;
}

/* Sleeps a little, or until something is submitted. */
static void rest(weft_mesh *mesh, bool moved) {
    double now_s = wefti_now_s();
    if (moved) {
        mesh->moved_s = now_s;
        return;
    }
    double until_s = now_s + (mesh->broken ? 1e-2 : nap_s(now_s - mesh->moved_s));
    struct timespec t = {.tv_sec = (time_t)until_s};
    t.tv_nsec = (long)((until_s - (double)t.tv_sec) * 1e9);
    pthread_mutex_lock(&mesh->lock);
    if (!mesh->submitted.first) pthread_cond_timedwait(&mesh->wake, &mesh->lock, &t);
    pthread_mutex_unlock(&mesh->lock);
}

static void *progress_main(void *argument) {
    weft_mesh *mesh = argument;
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL); /* naps are short */
    while (!is_over(mesh)) {
        bool moved = collect(mesh);
        report_failure(mesh);
        if (!mesh->broken) {
            moved |= depart(mesh);
            moved |= land(mesh);
            moved |= pick_up(mesh);
        }
        watch(mesh);
        rest(mesh, moved && !mesh->broken);
    }
    return NULL;
}

weft_status wefti_progress_start(weft_mesh *mesh) {
    double now_s = wefti_now_s();
    mesh->moved_s = mesh->watched_s = mesh->beat_s = now_s;
    for (int r = 0; r < mesh->world.size; r++) mesh->peers[r].heard_s = now_s;
    if (pthread_create(&mesh->progress_thread, NULL, progress_main, mesh) != 0)
        return weft_ctx_fail(mesh->ctx, WEFT_ERR_MEMORY,
                             "could not start the thread that moves messages");
    mesh->has_progress = true;
    return WEFT_OK;
}
