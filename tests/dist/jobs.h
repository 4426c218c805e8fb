/* SPDX-License-Identifier: MIT */
/* Jobs of small_run, and one step of their ranks without a pass. */
#pragma once

#include "ranks.h"
#include "comm/worker.h"
#include "passes/passes.h"
#include "training.h"
#include "step/schedule.h"

/* small_run with more keys over it. The job borrows *config; both are the caller's. */
static inline wefti_job *small_job(weft_ctx *ctx, const char *const *keys,
                                   weft_config **config) {
    wefti_job *job;
    assert_ok(ctx, weft_config_create(ctx, config));
    for (int i = 0; small_run[i]; i++)
        assert_ok(ctx, weft_config_set(ctx, *config, small_run[i]));
    for (int i = 0; keys[i]; i++) assert_ok(ctx, weft_config_set(ctx, *config, keys[i]));
    assert_ok(ctx, weft_config_finish(ctx, *config));
    assert_ok(ctx, wefti_job_create(ctx, *config, NULL, 256, &job));
    return job;
}

/* The communicators of env, which are no longer its own, and those between sites. */
static inline weft_status take_comms(rank_env *env, wefti_comms *out) {
    *out = (wefti_comms){
        .shard = env->shard, .replica = env->replica, .control = env->control};
    env->shard = env->replica = env->control = NULL;
    return wefti_world_join(env->ctx, env->world, env->rank, WEFTI_GROUP_SITES, 0,
                            &out->sites);
}

/* Exchange and update of one step from initial parameters. */
static inline weft_status exchange_once(wefti_rank *r) {
    double waited_s;
    wefti_rank_init_params(r);
    r->now.lr = r->now.grad_scale = 1;
    for (int b = 0; b < r->schedule->n_buckets; b++)
        r->exchange.last_ticket = wefti_worker_submit(r->exchange.worker, b);
    return wefti_worker_wait(r->exchange.worker, r->exchange.last_ticket, &waited_s);
}
