/* SPDX-License-Identifier: MIT */
/* Runs a function on every rank of a small mesh, each rank a thread with its own context.
 */
#pragma once

#include <pthread.h>

#include "check.h"
#include "comm/local.h"

enum { MOST_RANKS = 130 };

typedef struct rank_env {
    weft_ctx *ctx;
    wefti_world *world;
    int rank;
    wefti_comm *shard, *replica, *control;
    void *user;
    weft_status (*body)(struct rank_env *env);
    weft_status status;
    pthread_t thread;
} rank_env;

static inline weft_status rank_env_join(rank_env *env) {
    WEFT_TRY(wefti_world_join(env->ctx, env->world, env->rank, WEFTI_GROUP_SHARD, 0,
                              &env->shard));
    WEFT_TRY(wefti_world_join(env->ctx, env->world, env->rank, WEFTI_GROUP_REPLICA, 0,
                              &env->replica));
    return wefti_world_join(env->ctx, env->world, env->rank, WEFTI_GROUP_WORLD, 0,
                            &env->control);
}

static inline void *rank_env_main(void *argument) {
    rank_env *env = argument;
    env->status = rank_env_join(env);
    if (env->status == WEFT_OK) env->status = env->body(env);
    if (env->status != WEFT_OK)
        wefti_world_poison(env->world, env->rank, env->status,
                           weft_ctx_message(env->ctx));
    return NULL;
}

/* Returns the status of each rank in statuses[replicas * shards] (may be NULL: then all must be
 * WEFT_OK). users[rank] is handed to the body. */
static inline void run_ranks_in(const wefti_world_shape *shape,
                                weft_status (*body)(rank_env *), void **users,
                                weft_status *statuses) {
    weft_ctx *ctx;
    wefti_world *world;
    rank_env envs[MOST_RANKS];
    int W = shape->replicas * shape->shards;
    assert_true(W <= MOST_RANKS);
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, wefti_local_create(ctx, shape, &world));
    for (int r = 0; r < W; r++) {
        envs[r] = (rank_env){
            .world = world, .rank = r, .user = users ? users[r] : NULL, .body = body};
        assert_int_equal(weft_ctx_create(&envs[r].ctx), WEFT_OK);
        assert_int_equal(pthread_create(&envs[r].thread, NULL, rank_env_main, &envs[r]),
                         0);
    }
    for (int r = 0; r < W; r++) pthread_join(envs[r].thread, NULL);
    for (int r = 0; r < W; r++) {
        if (statuses)
            statuses[r] = envs[r].status;
        else if (envs[r].status != WEFT_OK)
            fail_msg("rank %d: %s", r, weft_ctx_message(envs[r].ctx));
        wefti_comm_destroy(envs[r].shard);
        wefti_comm_destroy(envs[r].replica);
        wefti_comm_destroy(envs[r].control);
        assert_int_equal(weft_ctx_bytes_held(envs[r].ctx), 0);
        weft_ctx_destroy(envs[r].ctx);
    }
    wefti_world_destroy(ctx, world);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

/* The same in one site, with a copy of the model in each node. */
static inline void run_ranks(int nodes, int ranks_per_node, wefti_wire_model wire,
                             weft_status (*body)(rank_env *), void **users,
                             weft_status *statuses) {
    const wefti_world_shape shape = {.replicas = nodes,
                                     .shards = ranks_per_node,
                                     .replicas_per_node = 1,
                                     .sites = 1,
                                     .wire = wire};
    run_ranks_in(&shape, body, users, statuses);
}
