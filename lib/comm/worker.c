/* SPDX-License-Identifier: MIT */
/* A queue of jobs that pass phases in order, and the one thread that runs them. The whole
 * state is in counters:
 *
 *     submitted >= done[0] >= done[1] >= ... >= done[n - 1]      jobs that have passed a phase
 *
 *     ring     items[job % capacity]; a job's place is free once it has passed the last phase
 *     ticket   the number of jobs submitted so far; its job has ended when done[n - 1] >= ticket
 *     failure  the first one is kept; later phases are counted but not run, so no wait hangs
 *
 * One lock guards all of it; phases run without the lock. */
#include "comm/worker.h"

#include <pthread.h>

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory.h"

/* Another thread than the exchange thread, which would wait for itself. */
#define ASSERT_OUTSIDE(worker)                                                           \
    WEFTI_ASSERT(!pthread_equal(pthread_self(), (worker)->thread))

struct wefti_worker {
    weft_ctx *ctx; /* borrowed */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    wefti_worker_config config;
    int64_t *items;                            /* ring of config.capacity */
    int64_t submitted, done[WEFTI_MAX_PHASES]; /* jobs that have passed phase p */
    double busy_s;
    weft_status status;
    bool quit;
};

/* Runs phase p of its next job without the lock; afterwards its counter advances. */
static void run_phase(wefti_worker *worker, int p) {
    WEFTI_ASSERT_HELD(&worker->lock);
    const wefti_worker_config *config = &worker->config;
    int64_t item = worker->items[worker->done[p] % config->capacity];
    bool skip = worker->status != WEFT_OK;
    pthread_mutex_unlock(&worker->lock);
    double start = wefti_now_s();
    weft_status status = skip ? WEFT_OK : config->run(config->user, p, item);
    double spent = wefti_now_s() - start;
    pthread_mutex_lock(&worker->lock);
    worker->busy_s += spent;
    if (worker->status == WEFT_OK) worker->status = status;
    WEFTI_ASSERT(worker->done[p] < (p > 0 ? worker->done[p - 1] : worker->submitted));
    worker->done[p]++;
    pthread_cond_broadcast(&worker->changed);
}

static int64_t ended(const wefti_worker *worker) {
    WEFTI_ASSERT_HELD(&worker->lock);
    return worker->done[worker->config.n_phases - 1];
}

int wefti_order_next(wefti_order order, int n_phases, int64_t submitted,
                     const int64_t *done) {
    WEFTI_ASSERT(n_phases >= 1 && n_phases <= WEFTI_MAX_PHASES);
    WEFTI_ASSERT(done[0] <= submitted);
    if (done[0] < submitted) return 0;
    for (int p = 1; p < n_phases; p++) {
        WEFTI_ASSERT(done[p] <= done[p - 1]);
        bool has_job = done[p] < done[p - 1], oldest = done[p] == done[n_phases - 1];
        if (has_job && (oldest || order == WEFTI_ORDER_BY_PHASE)) return p;
    }
    return -1;
}

static void *worker_main(void *argument) {
    wefti_worker *worker = argument;
    const wefti_worker_config *config = &worker->config;
    if (config->prepare) config->prepare(config->user);
    pthread_mutex_lock(&worker->lock);
    while (!worker->quit) {
        int p = wefti_order_next(config->order, config->n_phases, worker->submitted,
                                 worker->done);
        if (p >= 0)
            run_phase(worker, p);
        else
            pthread_cond_wait(&worker->changed, &worker->lock);
    }
    pthread_mutex_unlock(&worker->lock);
    return NULL;
}

weft_status wefti_worker_create(weft_ctx *ctx, const wefti_worker_config *config,
                                wefti_worker **out) {
    *out = NULL;
    WEFTI_ASSERT(config->capacity >= 1 && config->n_phases >= 1);
    wefti_worker *worker;
    WEFT_TRY(wefti_alloc(ctx, sizeof *worker, "the exchange thread", &worker));
    WEFTI_TRY_OR(wefti_alloc_n(ctx, config->capacity, sizeof(int64_t),
                               "the exchange queue", &worker->items),
                 wefti_free(ctx, worker));
    worker->ctx = ctx;
    worker->config = *config;
    pthread_mutex_init(&worker->lock, NULL);
    wefti_cond_init(&worker->changed);
    if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
        pthread_cond_destroy(&worker->changed);
        pthread_mutex_destroy(&worker->lock);
        WEFTI_FREE(ctx, worker->items, worker);
        return weft_ctx_fail(ctx, WEFT_ERR_MEMORY, "could not start an exchange thread");
    }
    *out = worker;
    return WEFT_OK;
}

int64_t wefti_worker_submit(wefti_worker *worker, int64_t item) {
    ASSERT_OUTSIDE(worker);
    pthread_mutex_lock(&worker->lock);
    while (worker->submitted - ended(worker) >= worker->config.capacity)
        pthread_cond_wait(&worker->changed, &worker->lock);
    worker->items[worker->submitted % worker->config.capacity] = item;
    int64_t ticket = ++worker->submitted;
    WEFTI_ASSERT(ticket - ended(worker) <= worker->config.capacity);
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    return ticket;
}

weft_status wefti_worker_wait(wefti_worker *worker, int64_t ticket, double *waited_s) {
    ASSERT_OUTSIDE(worker);
    pthread_mutex_lock(&worker->lock);
    WEFTI_ASSERT(ticket <= worker->submitted);
    if (ended(worker) < ticket) {
        double start = wefti_now_s();
        while (ended(worker) < ticket) pthread_cond_wait(&worker->changed, &worker->lock);
        *waited_s += wefti_now_s() - start;
    }
    weft_status status = worker->status;
    pthread_mutex_unlock(&worker->lock);
    return status;
}

weft_status wefti_worker_wait_for(wefti_worker *worker, int64_t ticket, double timeout_s,
                                  bool *has_ended, double *waited_s) {
    ASSERT_OUTSIDE(worker);
    pthread_mutex_lock(&worker->lock);
    WEFTI_ASSERT(ticket <= worker->submitted);
    double start = wefti_now_s();
    while (ended(worker) < ticket && wefti_now_s() - start < timeout_s)
        wefti_cond_wait(&worker->changed, &worker->lock, start + timeout_s);
    *has_ended = ended(worker) >= ticket;
    *waited_s += wefti_now_s() - start;
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
    WEFTI_ASSERT(!worker->quit);
    worker->quit = true;
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
    pthread_join(worker->thread, NULL);
    pthread_mutex_destroy(&worker->lock);
    pthread_cond_destroy(&worker->changed);
    WEFTI_FREE(ctx, worker->items, worker);
}
