/* SPDX-License-Identifier: MIT */
#include "train/ranks.h"

#include <pthread.h>

#include "base/memory.h"

typedef struct rank_thread {
    wefti_seat seat;
    wefti_world *world;
    int threads;
    weft_status (*body)(wefti_seat *seat);
    pthread_t thread;
    bool started;
} rank_thread;

static void *rank_main(void *argument) {
    rank_thread *t = argument;
    wefti_kernels_set_threads(t->threads);
    weft_status status = t->body(&t->seat);
    if (status != WEFT_OK)
        wefti_world_poison(t->world, t->seat.rank, status, weft_ctx_message(t->seat.ctx));
    return NULL;
}

static void pass_on(void *caller, weft_log_level level, const char *line) {
    weft_ctx_log(caller, level, "%s", line);
}

static weft_status start(weft_ctx *ctx, rank_thread *t) {
    WEFT_TRY(weft_ctx_create(&t->seat.ctx));
    if (t->seat.rank == 0) weft_ctx_set_sink(t->seat.ctx, pass_on, ctx);
    if (pthread_create(&t->thread, NULL, rank_main, t) != 0)
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "could not start a thread for rank %d",
                             t->seat.rank);
    t->started = true;
    return WEFT_OK;
}

weft_status wefti_ranks_run(weft_ctx *ctx, wefti_world *world, int threads,
                            weft_status (*body)(wefti_seat *seat), void *user) {
    int n = world->n_here;
    rank_thread *all;
    WEFT_TRY(wefti_alloc_n(ctx, n, sizeof *all, "rank threads", &all));
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        wefti_seat seat = {
            .rank = world->first_here + i, .first_here = i == 0, .user = user};
        all[i] = (rank_thread){
            .seat = seat, .world = world, .threads = threads, .body = body};
        status = start(ctx, &all[i]);
    }
    if (status != WEFT_OK)
        wefti_world_poison(world, world->first_here, status, weft_ctx_message(ctx));
    for (int i = 0; i < n; i++)
        if (all[i].started) pthread_join(all[i].thread, NULL);
    if (status == WEFT_OK) status = wefti_mesh_verdict(ctx, world);
    for (int i = 0; i < n; i++) {
        wefti_rank_destroy(all[i].seat.state);
        weft_ctx_destroy(all[i].seat.ctx);
    }
    wefti_free(ctx, all);
    return status;
}
