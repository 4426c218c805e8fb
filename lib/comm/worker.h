/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

/* The exchange thread of a rank: runs jobs of several phases concurrently with the compute
 * thread. Each phase takes the jobs in the order in which they were submitted; how the
 * phases of different jobs interleave does not change any result. The first phase never
 * blocks and has priority. A later phase may block until the other ranks have passed the
 * phase before it for the same job. */
typedef struct wefti_worker wefti_worker;

/* Which of the begun jobs runs next. */
typedef enum wefti_order {
    /* The earliest phase of any job: the latency of many small messages is paid once per
     * phase. No cycle of waiting ranks can form as long as only two consecutive phases
     * block (a rank that waits in one of them waits for an older job, or for a phase that
     * the other rank passes first), so this order is for one exchange. */
    WEFTI_ORDER_BY_PHASE,
    /* The oldest job: safe for any number of blocking phases, because every rank waits for
     * an older job, or for an earlier phase of the same job. */
    WEFTI_ORDER_BY_JOB
} wefti_order;

/* The rule: returns the phase that runs next when `submitted` jobs were submitted and
 * done[p] of them have passed phase p; -1: none. */
int wefti_order_next(wefti_order order, int n_phases, int64_t submitted,
                     const int64_t *done);

enum { WEFTI_MAX_PHASES = 8 };

/* A job is an item; at most `capacity` are submitted and not yet ended. `prepare` (may be
 * NULL) runs on the new thread first; run() is one phase of one job. n_phases: 1 to
 * WEFTI_MAX_PHASES. */
typedef struct wefti_worker_config {
    int capacity, n_phases;
    wefti_order order;
    void (*prepare)(void *user);
    weft_status (*run)(void *user, int phase, int64_t item);
    void *user;
} wefti_worker_config;

weft_status wefti_worker_create(weft_ctx *ctx, const wefti_worker_config *config,
                                wefti_worker **out) WEFT_CHECKED;

/* Hands a job over; returns its ticket. Never blocks unless `capacity` is exceeded. */
int64_t wefti_worker_submit(wefti_worker *worker, int64_t item);

/* Waits until the job with this ticket (and all before it) has ended; 0: nothing to wait
 * for. Returns the first failure of any job; after one, later jobs are skipped. Adds the
 * seconds spent waiting to *waited_s. */
weft_status wefti_worker_wait(wefti_worker *worker, int64_t ticket,
                              double *waited_s) WEFT_CHECKED;

/* The same for at most timeout_s seconds (0: only looks); *has_ended says whether it has, also
 * of a job that was skipped after a failure. */
weft_status wefti_worker_wait_for(wefti_worker *worker, int64_t ticket, double timeout_s,
                                  bool *has_ended, double *waited_s) WEFT_CHECKED;

/* Seconds that the thread has spent inside phases so far. */
double wefti_worker_busy_s(wefti_worker *worker);

/* Waits for the running phase, skips what is queued, joins the thread; NULL is accepted.
 */
void wefti_worker_destroy(weft_ctx *ctx, wefti_worker *worker);
