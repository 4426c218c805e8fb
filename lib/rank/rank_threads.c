/* SPDX-License-Identifier: MIT */
/* One thread for each rank of this process. The first failure, also one to start a
 * thread, poisons the world, so that every other rank leaves its waits. */
#include "rank/rank_threads.h"

#include <pthread.h>

#include "base/memory.h"

typedef struct rank_thread {
    wefti_slot slot;
    wefti_world *world;
    int threads;
    weft_status (*body)(wefti_slot *slot);
    pthread_t thread;
    bool started;
} rank_thread;

static void *rank_main(void *argument) {
    rank_thread *t = argument;
    wefti_kernels_set_threads(t->threads);
    weft_status status = t->body(&t->slot);
    if (status != WEFT_OK)
        wefti_world_poison(t->world, t->slot.rank, status, weft_ctx_message(t->slot.ctx));
    return NULL;
}

static void pass_on(void *caller, weft_log_level level, const char *line) {
    weft_ctx_log(caller, level, "%s", line);
}

static void pass_on_waits(void *caller, weft_log_level level, const char *line) {
    if (level == WEFT_LOG_WAIT) pass_on(caller, level, line);
}

static weft_status start(weft_ctx *ctx, rank_thread *t) {
    WEFT_TRY(weft_ctx_create(&t->slot.ctx));
    weft_ctx_set_sink(t->slot.ctx, t->slot.first_here ? pass_on : pass_on_waits, ctx);
    if (pthread_create(&t->thread, NULL, rank_main, t) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "could not start a thread for rank %d",
                             t->slot.rank);
    t->started = true;
    return WEFT_OK;
}

weft_status wefti_rank_threads_run(weft_ctx *ctx, wefti_world *world, int threads,
                                   weft_status (*body)(wefti_slot *slot), void *user) {
    int n = world->n_here;
    rank_thread *all;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *all, "rank threads", &all));
    weft_status status = WEFT_OK;
    wefti_kernels_end_threads(); /* this thread only waits from here on */
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        wefti_slot slot = {
            .rank = world->first_here + i, .first_here = i == 0, .user = user};
        all[i] = (rank_thread){
            .slot = slot, .world = world, .threads = threads, .body = body};
        status = start(ctx, &all[i]);
    }
    if (status != WEFT_OK)
        wefti_world_poison(world, world->first_here, status, weft_ctx_message(ctx));
    for (int i = 0; i < n; i++)
        if (all[i].started) pthread_join(all[i].thread, NULL);
    if (status == WEFT_OK) status = wefti_mesh_verdict(ctx, world);
    for (int i = 0; i < n; i++) {
        wefti_rank_destroy(all[i].slot.state);
        weft_ctx_destroy(all[i].slot.ctx);
    }
    wefti_free(ctx, all);
    return status;
}
