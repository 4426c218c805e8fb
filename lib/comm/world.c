/* SPDX-License-Identifier: MIT */
/* The shape of a world of ranks and its arithmetic: rank = replica * S + shard, replicas on
 * nodes, nodes in sites; the members of each group; the class of the link between two
 * ranks. Also the common part of both backends (local.c, remote.c): groups, the first
 * failure, poison. */
#include "comm/world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static weft_status check_sites(weft_ctx *ctx, const wefti_world_shape *s) {
    bool right = s->sites > 0 && s->site_first[0] == 0 && s->replicas_per_node == 1 &&
                 s->site_first[s->sites] == s->replicas;
    for (int i = 0; i < s->sites && right; i++)
        right = s->site_first[i] < s->site_first[i + 1];
    if (right) return WEFT_OK;
    return weft_ctx_fail(
        ctx, WEFT_ERR_ARGUMENT,
        "%d replicas in %d sites: expected at least one in each, and all of them in one",
        s->replicas, s->sites);
}

static weft_status check_shape(weft_ctx *ctx, const wefti_world_shape *s) {
    if (s->replicas < 1 || s->shards < 1 || s->replicas > WEFTI_MAX_RANKS / s->shards)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%d replicas x %d shards, expected 1 to %d ranks in all",
                             s->replicas, s->shards, (int)WEFTI_MAX_RANKS);
    if (s->site_first) return check_sites(ctx, s);
    bool even = s->replicas_per_node > 0 && s->sites > 0 &&
                s->replicas % s->replicas_per_node == 0 &&
                s->replicas / s->replicas_per_node % s->sites == 0;
    if (!even)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%d replicas, %d per node, in %d sites: expected as many "
                             "nodes in each site and replicas in each node",
                             s->replicas, s->replicas_per_node, s->sites);
    return WEFT_OK;
}

double wefti_wait_due_s(double first_s, double longest_s, double told_s) {
    return fmax(fmax(first_s, 1.5 * longest_s), 2 * told_s);
}

weft_status wefti_world_init(weft_ctx *ctx, wefti_world *world,
                             const wefti_world_ops *ops, const wefti_world_shape *shape) {
    WEFT_TRY(check_shape(ctx, shape));
    world->ops = ops;
    world->shape = *shape;
    world->size = shape->replicas * shape->shards;
    world->first_here = 0;
    world->n_here = world->size;
    world->failed_rank = -1;
    atomic_store(&world->say_after_s, WEFTI_SAY_AFTER_S);
    if (pthread_mutex_init(&world->failure_lock, NULL))
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "could not create a lock");
    return WEFT_OK;
}

void wefti_world_destroy(weft_ctx *ctx, wefti_world *world) {
    if (world) world->ops->destroy(ctx, world);
}

weft_status wefti_world_join(weft_ctx *ctx, wefti_world *world, int rank,
                             wefti_group group, int channel, wefti_comm **out) {
    return world->ops->join(ctx, world, rank, group, channel, out);
}

void wefti_world_poison(wefti_world *world, int rank, weft_status status,
                        const char *text) {
    pthread_mutex_lock(&world->failure_lock);
    if (world->failed_rank < 0) {
        world->failed_rank = rank;
        world->failed_status = status;
        snprintf(world->failed_message, sizeof world->failed_message, "%s", text);
    }
    pthread_mutex_unlock(&world->failure_lock);
    atomic_store(&world->poisoned, 1);
    world->ops->wake(world);
}

int wefti_world_failure(wefti_world *world, weft_status *status, char *text) {
    pthread_mutex_lock(&world->failure_lock);
    int rank = world->failed_rank;
    *status = world->failed_status;
    memcpy(text, world->failed_message, sizeof world->failed_message);
    pthread_mutex_unlock(&world->failure_lock);
    return rank;
}

weft_status wefti_world_poisoned_error(weft_ctx *ctx, wefti_world *world) {
    char text[1024];
    weft_status status;
    int rank = wefti_world_failure(world, &status, text);
    return weft_ctx_fail(ctx, WEFT_ERR_PEER, "rank %d failed: %.900s", rank, text);
}

static int size_of(const wefti_world_shape *shape) {
    return shape->replicas * shape->shards;
}

int wefti_world_node_of(const wefti_world_shape *shape, int rank) {
    return rank / (shape->shards * shape->replicas_per_node);
}

int wefti_world_site_of(const wefti_world_shape *shape, int rank) {
    int i = 0;
    if (!shape->site_first) return rank / (size_of(shape) / shape->sites);
    while (rank / shape->shards >= shape->site_first[i + 1]) i++;
    return i;
}

wefti_link_class wefti_world_link(const wefti_world_shape *shape, int a, int b) {
    if (wefti_world_node_of(shape, a) == wefti_world_node_of(shape, b))
        return WEFTI_LINK_LOCAL;
    bool near = wefti_world_site_of(shape, a) == wefti_world_site_of(shape, b);
    return near ? WEFTI_LINK_WIRE : WEFTI_LINK_SITE;
}

bool wefti_world_has_sites(const wefti_world_shape *shape) {
    return shape->sites > 1 || shape->site_first;
}

/* The first replica of site i; for i = the number of sites: the number of replicas. */
static int site_begin(const wefti_members *m, int i) {
    return m->site_first ? m->site_first[i] : i * m->per_site;
}

int wefti_members_replicas(const wefti_members *m, int i) {
    return site_begin(m, i + 1) - site_begin(m, i);
}

int wefti_members_speaker(const wefti_members *m, int of, int place, int k) {
    int at = (place + k) % wefti_members_replicas(m, of);
    return (site_begin(m, of) + at) * m->shards + m->shard;
}

int wefti_members_at(const wefti_members *m, int i) {
    if (m->per_site > 0) return wefti_members_speaker(m, i, m->place, 0);
    return m->first + i * m->stride;
}

static wefti_members members_of_sites(const wefti_world_shape *shape, int rank) {
    wefti_members m = {.size = shape->sites,
                       .rank = wefti_world_site_of(shape, rank),
                       .per_site = shape->replicas / shape->sites,
                       .site_first = shape->site_first,
                       .shards = shape->shards,
                       .shard = rank % shape->shards};
    if (m.per_site < 1) m.per_site = 1; /* > 0 marks a group between sites */
    m.place = rank / shape->shards - site_begin(&m, m.rank);
    return m;
}

wefti_members wefti_world_members(const wefti_world_shape *shape, int rank,
                                  wefti_group group) {
    int S = shape->shards;
    wefti_members m = {.first = 0, .stride = 1, .size = size_of(shape)};
    if (group == WEFTI_GROUP_SITES) {
        if (wefti_world_has_sites(shape)) return members_of_sites(shape, rank);
        group = WEFTI_GROUP_REPLICA;
    }
    if (group == WEFTI_GROUP_SHARD) {
        m.first = rank / S * S;
        m.size = S;
    } else if (group == WEFTI_GROUP_REPLICA) {
        wefti_members sites = members_of_sites(shape, rank);
        m.first = site_begin(&sites, sites.rank) * S + rank % S;
        m.stride = S;
        m.size = wefti_members_replicas(&sites, sites.rank);
    }
    m.rank = (rank - m.first) / m.stride;
    return m;
}
