/* SPDX-License-Identifier: MIT */
/* Three counters tell everything: submitted >= begun >= ended. The thread begins whatever
 * is submitted, and ends the oldest begun job when nothing else is to begin. */
#include "comm/worker.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/memory.h"

struct wefti_worker {
    weft_ctx *ctx; /* borrowed */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    wefti_phase begin, end;
    void (*prepare)(void *user);
    void *user;
    int64_t *items; /* ring of `capacity` */
    int64_t capacity;
    int64_t submitted, begun, ended;
    double busy_s;
    weft_status status;
    bool quit;
};

/* Runs one phase of job `number` without the lock; afterwards its counter advances. */
static void run_phase(wefti_worker *worker, wefti_phase phase, int64_t *counter) {
    int64_t item = worker->items[*counter % worker->capacity];
    bool skip = worker->status != WEFT_OK;
    pthread_mutex_unlock(&worker->lock);
    double start = wefti_now_s();
    weft_status status = skip ? WEFT_OK : phase(worker->user, item);
    double spent = wefti_now_s() - start;
    pthread_mutex_lock(&worker->lock);
    worker->busy_s += spent;
    if (worker->status == WEFT_OK) worker->status = status;
    (*counter)++;
    pthread_cond_broadcast(&worker->changed);
}

static void *worker_main(void *argument) {
    wefti_worker *worker = argument;
    if (worker->prepare) worker->prepare(worker->user);
    pthread_mutex_lock(&worker->lock);
    while (!worker->quit) {
        if (worker->begun < worker->submitted)
            run_phase(worker, worker->begin, &worker->begun);
        else if (worker->ended < worker->begun)
            run_phase(worker, worker->end, &worker->ended);
        else
            pthread_cond_wait(&worker->changed, &worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

weft_status wefti_worker_create(weft_ctx *ctx, int capacity, wefti_phase begin,
                                wefti_phase end, void (*prepare)(void *user), void *user,
                                wefti_worker **out) {
    *out = NULL;
    wefti_worker *worker;
    WEFT_TRY(wefti_alloc(ctx, sizeof *worker, "the exchange thread", &worker));
    weft_status status = wefti_alloc_n(ctx, capacity, sizeof(int64_t),
                                       "the exchange queue", &worker->items);
    if (status != WEFT_OK) {
        wefti_free(ctx, worker);
        return status;
    }
    worker->ctx = ctx;
    worker->capacity = capacity;
    worker->begin = begin;
    worker->end = end;
    worker->prepare = prepare;
    worker->user = user;
    pthread_mutex_init(&worker->lock, NULL);
    pthread_cond_init(&worker->changed, NULL);
    if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
        wefti_free(ctx, worker->items);
        wefti_free(ctx, worker);
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "could not start an exchange thread");
    }
    *out = worker;
    return WEFT_OK;
}

int64_t wefti_worker_submit(wefti_worker *worker, int64_t item) {
    pthread_mutex_lock(&worker->lock);
    while (worker->submitted - worker->ended >= worker->capacity)
        pthread_cond_wait(&worker->changed, &worker->lock);
    worker->items[worker->submitted % worker->capacity] = item;
    int64_t ticket = ++worker->submitted;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    return ticket;
}

weft_status wefti_worker_wait(wefti_worker *worker, int64_t ticket, double *waited_s) {
    pthread_mutex_lock(&worker->lock);
    if (worker->ended < ticket) {
        double start = wefti_now_s();
        while (worker->ended < ticket) pthread_cond_wait(&worker->changed, &worker->lock);
        *waited_s += wefti_now_s() - start;
    }
    weft_status status = worker->status;
    pthread_mutex_unlock(&worker->lock);
    return status;
}

double wefti_worker_busy_s(wefti_worker *worker) {
    pthread_mutex_lock(&worker->lock);
    double busy_s = worker->busy_s;
    pthread_mutex_unlock(&worker->lock);
    return busy_s;
}

void wefti_worker_destroy(weft_ctx *ctx, wefti_worker *worker) {
    if (!worker) return;
    pthread_mutex_lock(&worker->lock);
    worker->quit = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->changed);
    wefti_free(ctx, worker->items);
    wefti_free(ctx, worker);
}
