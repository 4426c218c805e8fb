/* SPDX-License-Identifier: MIT */
/* The shape of a world of ranks and its arithmetic: rank = replica * S + shard, replicas on
 * nodes, nodes in sites; the members of each group; between which ranks which link lies. The
 * front of both backends (local.c, remote.c): groups, the first failure, poison. */
#include "comm/world.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

static weft_status check_shape(weft_ctx *ctx, const wefti_world_shape *s) {
    if (s->replicas < 1 || s->shards < 1 || s->replicas > WEFTI_MAX_RANKS / s->shards)
        return weft_ctx_fail(ctx, WEFT_ERR_ARGUMENT,
                             "%d replicas x %d shards, expected 1 to %d ranks in all",
                             s->replicas, s->shards, (int)WEFTI_MAX_RANKS);
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

weft_status wefti_world_init(weft_ctx *ctx, wefti_world *world,
                             const wefti_world_ops *ops, const wefti_world_shape *shape) {
    WEFT_TRY(check_shape(ctx, shape));
    world->ops = ops;
    world->shape = *shape;
    world->size = shape->replicas * shape->shards;
    world->first_here = 0;
    world->n_here = world->size;
    world->failed_rank = -1;
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
    return rank / (size_of(shape) / shape->sites);
}

wefti_link_class wefti_world_link(const wefti_world_shape *shape, int a, int b) {
    if (wefti_world_node_of(shape, a) == wefti_world_node_of(shape, b))
        return WEFTI_LINK_LOCAL;
    bool near = wefti_world_site_of(shape, a) == wefti_world_site_of(shape, b);
    return near ? WEFTI_LINK_WIRE : WEFTI_LINK_SITE;
}

wefti_members wefti_world_members(const wefti_world_shape *shape, int rank,
                                  wefti_group group) {
    int S = shape->shards, per_site = size_of(shape) / shape->sites;
    wefti_members m = {.first = 0, .stride = 1, .size = size_of(shape)};
    if (group == WEFTI_GROUP_SITES && shape->sites == 1) group = WEFTI_GROUP_REPLICA;
    if (group == WEFTI_GROUP_SHARD) {
        m.first = rank / S * S;
        m.size = S;
    } else if (group == WEFTI_GROUP_REPLICA) {
        m.first = rank / per_site * per_site + rank % S;
        m.stride = S;
        m.size = per_site / S;
    } else if (group == WEFTI_GROUP_SITES) {
        m.first = rank % per_site;
        m.stride = per_site;
        m.size = shape->sites;
    }
    m.rank = (rank - m.first) / m.stride;
    return m;
}
