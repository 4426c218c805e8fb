/* SPDX-License-Identifier: MIT */
/* One rank per process: communicators over a mesh. Messages that came in lie in a list
 * until they are received, in memory that their release gives back. */
#define _GNU_SOURCE
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "comm/mesh.h"

typedef struct remote_comm {
    wefti_comm head;
    weft_mesh *mesh;
    wefti_world_shape shape;
    wefti_members members;
    int channel;
} remote_comm;

static int world_rank_of(const remote_comm *comm, int rank) {
    return comm->members.first + rank * comm->members.stride;
}

static wefti_link_class link_to(const remote_comm *comm, int world_rank) {
    return wefti_world_link(&comm->shape, comm->mesh->rank, world_rank);
}

/* Lock held. */
static bool is_sending_long(const weft_mesh *mesh) {
    for (const wefti_parcel *p = mesh->sent; p; p = p->next_sent)
        if (p->envelope.kind == WEFTI_ENVELOPE_LONG) return true;
    return false;
}

/* Lock held. */
static void wait_changed(weft_mesh *mesh, double until_s) {
    if (isinf(until_s)) {
        pthread_cond_wait(&mesh->changed, &mesh->lock);
        return;
    }
    struct timespec t = {.tv_sec = (time_t)until_s};
    t.tv_nsec = (long)((until_s - (double)t.tv_sec) * 1e9);
    pthread_cond_timedwait(&mesh->changed, &mesh->lock, &t);
}

void wefti_mesh_settle(weft_mesh *mesh) {
    pthread_mutex_lock(&mesh->lock);
    while (is_sending_long(mesh)) {
        if (atomic_load(&mesh->world.poisoned) && !mesh->taking_back) {
            mesh->taking_back = true;
            wefti_outbox_wake(mesh);
        }
        wait_changed(mesh, (double)INFINITY);
    }
    pthread_mutex_unlock(&mesh->lock);
}

/* Whoever gets this may free what it was sending. */
static weft_status poisoned_error(remote_comm *comm) {
    wefti_mesh_settle(comm->mesh);
    return wefti_world_poisoned_error(comm->head.ctx, &comm->mesh->world);
}

static weft_status remote_send(wefti_comm *head, int peer, int64_t tag, const void *data,
                               int64_t n_bytes) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    int to = world_rank_of(comm, peer);
    bool is_long = n_bytes > WEFTI_SHORT_BYTES;
    wefti_envelope envelope = {is_long ? WEFTI_ENVELOPE_LONG : WEFTI_ENVELOPE_SHORT,
                               comm->channel, tag, n_bytes};
    wefti_parcel *parcel = wefti_outbox_parcel(mesh, to, &envelope, data);
    if (!parcel) return weft_ctx_fail(head->ctx, WEFT_ERR_MEMORY, "no memory to send");
    wefti_link_class link = link_to(comm, to);
    pthread_mutex_lock(&mesh->lock);
    parcel->next_sent = mesh->sent;
    mesh->sent = parcel;
    mesh->traffic.bytes_out[link] += n_bytes;
    mesh->traffic.messages_out[link]++;
    pthread_mutex_unlock(&mesh->lock);
    wefti_outbox_submit(mesh, parcel);
    return WEFT_OK;
}

static wefti_arrival *find(const remote_comm *comm, int sender, int64_t tag, bool taken) {
    for (wefti_arrival *a = comm->mesh->posted; a; a = a->next)
        if (a->tag == tag && a->sender == sender && a->channel == comm->channel &&
            a->taken == taken)
            return a;
    return NULL;
}

/* It has said its farewell, and a message of it is waited for. */
static weft_status gone_error(remote_comm *comm, int sender) {
    return weft_ctx_fail(comm->head.ctx, WEFT_ERR_PEER,
                         "rank %d (host %s) has left, but rank %d still waits for a "
                         "message from it",
                         sender, weft_mesh_host_of(comm->mesh, sender), comm->mesh->rank);
}

static weft_status remote_receive_by(wefti_comm *head, int peer, int64_t tag,
                                     int64_t n_bytes, double moment_s,
                                     const void **view) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    int sender = world_rank_of(comm, peer);
    *view = NULL;
    pthread_mutex_lock(&mesh->lock);
    wefti_arrival *arrival = find(comm, sender, tag, false);
    const bool *gone = &mesh->peers[sender].gone;
    while (!arrival && !*gone && !atomic_load(&mesh->world.poisoned) &&
           wefti_now_s() < moment_s) {
        wait_changed(mesh, moment_s);
        arrival = find(comm, sender, tag, false);
    }
    int64_t got = arrival ? arrival->n_bytes : n_bytes;
    if (arrival) {
        arrival->taken = true;
        *view = arrival->data;
        head->arrival_s = arrival->arrival_s;
        mesh->traffic.bytes_in[link_to(comm, sender)] += got;
    }
    bool left = !arrival && *gone;
    pthread_mutex_unlock(&mesh->lock);
    if (!arrival && atomic_load(&mesh->world.poisoned)) return poisoned_error(comm);
    if (left && isinf(moment_s)) return gone_error(comm, sender);
    if (got == n_bytes) return WEFT_OK;
    wefti_comm_release(head, peer, tag);
    *view = NULL;
    return weft_ctx_fail(head->ctx, WEFT_ERR_WIRE,
                         "a message of %lld bytes from rank %d, expected %lld",
                         (long long)got, sender, (long long)n_bytes);
}

static weft_status remote_receive(wefti_comm *head, int peer, int64_t tag,
                                  int64_t n_bytes, const void **view) {
    return remote_receive_by(head, peer, tag, n_bytes, (double)INFINITY, view);
}

static void remote_release(wefti_comm *head, int peer, int64_t tag) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    pthread_mutex_lock(&mesh->lock);
    wefti_arrival *arrival = find(comm, world_rank_of(comm, peer), tag, true);
    if (arrival) {
        wefti_arrival **link = &mesh->posted;
        while (*link != arrival) link = &(*link)->next;
        *link = arrival->next;
        arrival->next = mesh->spare_arrivals;
        mesh->spare_arrivals = arrival;
    }
    pthread_mutex_unlock(&mesh->lock);
}

static bool is_under_way(const remote_comm *comm, int64_t tag) {
    for (const wefti_parcel *p = comm->mesh->sent; p; p = p->next_sent)
        if (p->envelope.tag == tag && p->envelope.channel == comm->channel) return true;
    return false;
}

static weft_status remote_await(wefti_comm *head, int64_t tag) {
    remote_comm *comm = (remote_comm *)head;
    weft_mesh *mesh = comm->mesh;
    pthread_mutex_lock(&mesh->lock);
    while (is_under_way(comm, tag) && !atomic_load(&mesh->world.poisoned))
        wait_changed(mesh, (double)INFINITY);
    bool done = !is_under_way(comm, tag);
    pthread_mutex_unlock(&mesh->lock);
    return done ? WEFT_OK : poisoned_error(comm);
}

static bool remote_holds(wefti_comm *head, const void *data) {
    weft_mesh *mesh = ((remote_comm *)head)->mesh;
    bool holds = false;
    pthread_mutex_lock(&mesh->lock);
    for (const wefti_parcel *p = mesh->sent; p && !holds; p = p->next_sent)
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
}

static void remote_note(wefti_comm *head, int64_t step, const char *at) {
    weft_mesh *mesh = ((remote_comm *)head)->mesh;
    atomic_store(&mesh->step, step);
    atomic_store(&mesh->at, at);
}

static void remote_destroy(wefti_comm *head) {
    atomic_store(&((remote_comm *)head)->mesh->at, "");
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
    .destroy = remote_destroy,
};

static weft_status remote_join(weft_ctx *ctx, wefti_world *world, int rank,
                               wefti_group group, int channel, wefti_comm **out) {
    *out = NULL;
    remote_comm *comm;
    if (rank != world->first_here)
        return weft_ctx_fail(ctx, WEFT_ERR_INTERNAL, "rank %d is not of this process",
                             rank);
    WEFT_TRY(wefti_alloc(ctx, sizeof *comm, "a communicator", &comm));
    comm->mesh = (weft_mesh *)world;
    comm->shape = world->shape;
    comm->members = wefti_world_members(&world->shape, rank, group);
    comm->channel = (int)group * 8 + channel;
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
    (void)ctx;
    (void)world;
}

const wefti_world_ops wefti_remote_ops = {
    .name = "remote",
    .join = remote_join,
    .wake = remote_wake,
    .destroy = remote_world_destroy,
};
