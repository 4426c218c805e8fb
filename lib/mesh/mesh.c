/* SPDX-License-Identifier: MIT */
/* A mesh of processes from its creation to its end: which rank runs where, greetings,
 * locks, and what is reported when it fails. Sending and receiving are in remote.c, the
 * thread that moves the bytes is in progress.c. */
#define _GNU_SOURCE
#include "mesh/elastic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"
#include "base/sized.h"
#include "base/stop.h"
#include "start/tcp.h"

enum { GREETING_S = 60 };

/* --- birth and death --- */

static weft_status allocate(weft_mesh *mesh) {
    weft_ctx *ctx = mesh->ctx;
    int n = mesh->transport->size;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int), "ranks", &mesh->places.peer_of));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(int), "ranks", &mesh->places.rank_of));
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof(wefti_peer), "ranks", &mesh->peers));
    const size_t room = WEFTI_ENVELOPE_BYTES + WEFTI_SHORT_BYTES + 1;
    WEFT_TRY(wefti_alloc_n(ctx, n, room, "messages that come", &mesh->wire.landing));
    for (int r = 0; r < n; r++)
        mesh->peers[r].landing = mesh->wire.landing + (size_t)r * room;
    return WEFT_OK;
}

static weft_status init_locks(weft_mesh *mesh) {
    bool fine = pthread_mutex_init(&mesh->lock, NULL) == 0 &&
                wefti_cond_init(&mesh->changed) == 0 &&
                wefti_cond_init(&mesh->thread.wake) == 0;
    if (fine) return WEFT_OK;
    return weft_ctx_fail(mesh->ctx, WEFT_ERR_MEMORY, "could not create a lock");
}

/* Queues the greetings, before the progress thread starts, which sends them. */
static void greet_all(weft_mesh *mesh) {
    for (int r = 0; r < mesh->places.n_slots; r++)
        if (r != mesh->rank && !mesh->peers[r].lost) wefti_outbox_greet(mesh, r);
}

/* Lock held. A rank that has not greeted yet, or -1. */
static int missing(const weft_mesh *mesh) {
    WEFTI_ASSERT_HELD(&mesh->lock);
    for (int r = 0; r < mesh->places.n_slots; r++)
        if (r != mesh->rank && !mesh->peers[r].greeted) return r;
    return -1;
}

static weft_status wait_for_greetings(weft_mesh *mesh, const weft_ctx *ctx) {
    double until_s = wefti_now_s() + GREETING_S;
    pthread_mutex_lock(&mesh->lock);
    int r = missing(mesh);
    while (r >= 0 && !mesh->world.poisoned && wefti_now_s() < until_s &&
           !wefti_stop_asked(ctx)) {
        wefti_mesh_wait(mesh, fmin(until_s, wefti_now_s() + 0.2));
        r = missing(mesh);
    }
    pthread_mutex_unlock(&mesh->lock);
    /* A failure of another rank is reported by the first use of the mesh. */
    if (r < 0 || mesh->world.poisoned) return WEFT_OK;
    return weft_ctx_fail(mesh->ctx, WEFT_ERR_PEER,
                         "nothing came from rank %d (host %s) for %d s; is its interface "
                         "the one that %s uses?",
                         r, weft_mesh_host_of(mesh, r), (int)GREETING_S,
                         mesh->transport->version);
}

/* Begins with the ranks that found the run; in a process that joins, with all places. */
static weft_status build(weft_mesh *mesh, const weft_ctx *ctx) {
    const weft_transport *t = mesh->transport;
    wefti_world_shape shape = {.replicas = t->founders ? t->founders : t->size,
                               .shards = 1,
                               .replicas_per_node = 1,
                               .sites = 1};
    WEFT_TRY(init_locks(mesh));
    WEFT_TRY(wefti_world_init(mesh->ctx, &mesh->world, &wefti_remote_ops, &shape));
    mesh->places.n_slots = t->size;
    WEFT_TRY(allocate(mesh));
    wefti_mesh_number_ranks(mesh);
    mesh->world.first_here = mesh->rank;
    mesh->world.n_here = 1;
    atomic_store(&mesh->step, -1);
    for (int r = 0; r < mesh->places.n_slots; r++) mesh->peers[r].step = -1;
    greet_all(mesh);
    WEFT_TRY(wefti_progress_start(mesh));
    return wait_for_greetings(mesh, ctx);
}

static weft_status refuse_size(weft_ctx *ctx, weft_transport *transport) {
    int size = transport->size;
    (void)transport->ops->finish(transport, true);
    return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                         "%d processes were started, expected at most %d", size,
                         (int)WEFTI_MAX_RANKS);
}

weft_status weft_mesh_create(weft_ctx *ctx, weft_transport *transport, weft_mesh **out) {
    *out = NULL;
    const weft_transport_ops *ops = transport->ops;
    const weft_transport_entry *entry = transport->entry;
    WEFTI_SIZED_IN(ctx, weft_transport_ops, ops);
    WEFTI_SIZED_IN(ctx, weft_transport_entry, entry);
    if (transport->size > WEFTI_MAX_RANKS) return refuse_size(ctx, transport);
    weft_ctx *own;
    weft_mesh *mesh = NULL;
    weft_status status = weft_ctx_create(&own);
    if (status == WEFT_OK) status = wefti_alloc(own, sizeof *mesh, "the mesh", &mesh);
    if (status != WEFT_OK) {
        if (own) weft_ctx_destroy(own);
        (void)transport->ops->finish(transport, true);
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "no memory for the mesh");
    }
    mesh->ctx = own;
    mesh->transport = transport;
    mesh->ops = ops_own;
    mesh->entry = entry_own;
    transport->ops = &mesh->ops;
    if (transport->entry) transport->entry = &mesh->entry;
    mesh->process = (int64_t)getpid();
    mesh->orders.moot_from = -1;
    status = build(mesh, ctx);
    if (status == WEFT_OK) {
        *out = mesh;
        return WEFT_OK;
    }
    weft_ctx_fail(ctx, status, "%s", weft_ctx_message(own));
    wefti_world_poison(&mesh->world, mesh->rank, status, weft_ctx_message(own));
    weft_mesh_close(mesh);
    return status;
}

static void free_arrivals(weft_mesh *mesh, wefti_arrival *list) {
    while (list) {
        wefti_arrival *next = list->next_all;
        wefti_free(mesh->ctx, list->data);
        wefti_free(mesh->ctx, list);
        list = next;
    }
}

static void free_parcels(weft_mesh *mesh, wefti_parcel *list) {
    while (list) {
        wefti_parcel *next = list->next_all;
        wefti_free(mesh->ctx, list->own);
        wefti_free(mesh->ctx, list);
        list = next;
    }
}

static void free_mesh(weft_mesh *mesh) {
    weft_ctx *ctx = mesh->ctx;
    wefti_elastic_destroy(mesh);
    free_arrivals(mesh, mesh->incoming.all);
    free_parcels(mesh, mesh->outgoing.all);
    pthread_mutex_destroy(&mesh->lock);
    pthread_cond_destroy(&mesh->changed);
    pthread_cond_destroy(&mesh->thread.wake);
    pthread_mutex_destroy(&mesh->world.failure_lock);
    WEFTI_FREE(ctx, mesh->places.peer_of, mesh->places.rank_of, mesh->peers,
               mesh->wire.landing, mesh->wire.flights, mesh->notice.data, mesh);
    weft_ctx_destroy(ctx);
}

/* --- forks --- */

weft_status wefti_process_check(weft_ctx *ctx, int64_t process, const char *what) {
    if (process == (int64_t)getpid()) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_ARGUMENT,
        "%s belongs to process %lld, and this is process %lld, a fork of "
        "it (a worker that loads data?): only the process that joined "
        "can use it",
        what, (long long)process, (long long)getpid());
}

/* A child has no copy of the thread, and locks may be held for ever: it only closes
 * descriptors. */
static void forget(weft_mesh *mesh) {
    if (mesh->transport->ops->forget) mesh->transport->ops->forget(mesh->transport);
}

weft_status weft_mesh_forget(weft_ctx *ctx, weft_mesh *mesh) {
    if (!mesh) return WEFT_OK;
    if (mesh->process == (int64_t)getpid())
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "weft_mesh_forget in process %lld, which joined the mesh, "
                             "expected a fork of it; weft_mesh_close leaves it",
                             (long long)getpid());
    forget(mesh);
    return WEFT_OK;
}

bool weft_mesh_close(weft_mesh *mesh) {
    if (!mesh) return true;
    if (mesh->process != (int64_t)getpid()) {
        forget(mesh);
        return true;
    }
    atomic_store(&mesh->asked.call, NULL);
    atomic_store(&mesh->close_by_s, wefti_now_s() + WEFTI_FAREWELL_S);
    if (mesh->thread.runs) {
        pthread_mutex_lock(&mesh->lock);
        mesh->orders.closing = true;
        wefti_outbox_wake(mesh);
        pthread_mutex_unlock(&mesh->lock);
        pthread_join(mesh->thread.id, NULL);
        atomic_store(&mesh->thread.works, false);
    }
    wefti_elastic_leave_witness(mesh);
    bool clean = mesh->end.all_left;
    if (clean && mesh->elastic) wefti_elastic_tell_over(mesh);
    clean = mesh->transport->ops->finish(mesh->transport, !clean) && clean;
    free_mesh(mesh);
    return clean;
}

/* --- failures --- */

weft_status weft_mesh_fail(weft_ctx *ctx, weft_mesh *mesh, weft_status status) {
    char text[1024], own[900];
    if (mesh->process != (int64_t)getpid()) return status; /* a fork reports to nobody */
    snprintf(own, sizeof own, "%s", weft_ctx_message(ctx));
    if (status != WEFT_ERR_PEER || !atomic_load(&mesh->world.poisoned))
        wefti_world_poison(&mesh->world, mesh->rank, status, own);
    int rank = wefti_world_failure(&mesh->world, &status, text);
    weft_ctx_clear(ctx);
    if (status == WEFT_ERR_PEER) return weft_ctx_fail(ctx, status, "%s", text);
    return weft_ctx_fail(ctx, status, "rank %d (host %s): %s", rank,
                         weft_mesh_host_of(mesh, rank), text);
}

/* The mesh of a world, or NULL if its ranks are threads. */
static weft_mesh *mesh_of(wefti_world *world) {
    return world->ops == &wefti_remote_ops ? (weft_mesh *)world : NULL;
}

weft_status wefti_mesh_verdict(weft_ctx *ctx, wefti_world *world) {
    char text[1024];
    weft_status status;
    int rank = wefti_world_failure(world, &status, text);
    weft_mesh *mesh = mesh_of(world);
    if (rank < 0) return WEFT_OK;
    if (mesh) return weft_mesh_fail(ctx, mesh, WEFT_ERR_PEER);
    if (world->size == 1) return weft_ctx_fail(ctx, status, "%s", text);
    return weft_ctx_fail(ctx, status, "rank %d: %s", rank, text);
}

bool weft_mesh_speaks(weft_mesh *mesh) {
    char text[1024];
    weft_status status;
    const weft_transport *t = mesh->transport;
    if (mesh->rank == 0 || t->entry) return true;
    if (t->streams && !wefti_mesh_same_host(mesh, mesh->rank, mesh->places.rank_of[0]))
        return true;
    int failed = wefti_world_failure(&mesh->world, &status, text);
    if (mesh->elastic && failed == mesh->rank) return true;
    return mesh->rank == 1 && failed == 0 && status == WEFT_ERR_PEER;
}

/* --- the world of a run --- */

weft_status wefti_mesh_shape(weft_ctx *ctx, weft_mesh *mesh,
                             const wefti_world_shape *shape, wefti_world **out) {
    *out = NULL;
    WEFT_TRY(wefti_process_check(ctx, mesh->process, "the mesh"));
    int wanted = shape->replicas * shape->shards;
    const wefti_elastic *e = mesh->elastic;
    if (wanted != (e ? e->world.n_ranks : mesh->world.size))
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mesh.nodes x mesh.ranks_per_node is %d, but %d ranks run",
                             wanted, mesh->world.size);
    mesh->world.shape = *shape;
    *out = &mesh->world;
    return WEFT_OK;
}

void wefti_mesh_watch(weft_mesh *mesh, double silence_s, bool (*asked)(void *user),
                      void *user) {
    mesh->asked.user = user;
    atomic_store(&mesh->silence_s, silence_s);
    atomic_store(&mesh->asked.call, asked);
}

static weft_status set_count(weft_ctx *ctx, weft_config *config, const char *key, int n) {
    char text[64];
    snprintf(text, sizeof text, "mesh.%s=%d", key, n);
    return weft_config_set(ctx, config, text);
}

weft_status weft_mesh_fit(weft_ctx *ctx, const weft_mesh *mesh, weft_config *config) {
    int64_t nodes = config->mesh.nodes, ranks = config->mesh.ranks_per_node;
    int size = mesh->world.size;
    const weft_transport *t = mesh->transport;
    if (t->entry) { /* as a member it learns how many there are */
        bool sites = config->mesh.sites > 1; /* with the places that the run began with */
        int founders = sites ? (t->size - WEFTI_SPARE_PLACES) / t->entry->group : 1;
        WEFT_TRY(set_count(ctx, config, "nodes", founders > 1 ? founders : 1));
        return set_count(ctx, config, "ranks_per_node", t->entry->group);
    }
    if (strcmp(config->mesh.link, "none") != 0 ||
        strcmp(config->mesh.site_link, "none") != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mesh.link is %s: a wire is emulated inside one process "
                             "only; leave it out when %s carries the messages",
                             config->mesh.link, mesh->transport->version);
    if (nodes * ranks == size) return WEFT_OK;
    if (nodes * ranks > 1)
        return weft_ctx_fail(ctx, WEFT_ERR_CONFIG,
                             "mesh.nodes x mesh.ranks_per_node is %lld x %lld, but %d "
                             "ranks on %d hosts were started; leave both out to take "
                             "them from where the ranks run",
                             (long long)nodes, (long long)ranks, size,
                             mesh->places.hosts);
    if (!mesh->places.even)
        return weft_ctx_fail(
            ctx, WEFT_ERR_CONFIG,
            "%d ranks on %d hosts, %d of them on %s: expected as many on "
            "each",
            size, mesh->places.hosts, mesh->places.ranks_here,
            weft_mesh_host_of(mesh, mesh->rank));
    WEFT_TRY(set_count(ctx, config, "nodes", mesh->places.hosts));
    return set_count(ctx, config, "ranks_per_node", size / mesh->places.hosts);
}
