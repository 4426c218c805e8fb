/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_WORKER_H
#define WEFTI_WORKER_H

#include <weft/ctx.h>

/* The exchange thread of a rank: runs jobs of two phases behind the compute thread's
 * back. Jobs begin in the order they were submitted and end in that order; while a job
 * waits to end, later jobs may begin, so that the latency of many small messages is paid
 * once. The results do not depend on how the phases interleave. */
typedef struct wefti_worker wefti_worker;

typedef weft_status (*wefti_phase)(void *user, int64_t item);

/* Jobs are (user, item); at most `capacity` are submitted and not yet ended. `threads` is
 * the kernels' thread count on the exchange thread, set through `prepare` (may be NULL),
 * which runs on the new thread first. */
weft_status wefti_worker_create(weft_ctx *ctx, int capacity, wefti_phase begin,
                                wefti_phase end, void (*prepare)(void *user), void *user,
                                wefti_worker **out) WEFT_CHECKED;

/* Hands a job over; returns its ticket. Never blocks unless `capacity` is exceeded. */
int64_t wefti_worker_submit(wefti_worker *worker, int64_t item);

/* Waits until the job with this ticket (and all before it) has ended; 0: nothing to wait
 * for. Returns the first failure of any job; after one, later jobs are skipped. Adds the
 * seconds spent waiting to *waited_s. */
weft_status wefti_worker_wait(wefti_worker *worker, int64_t ticket,
                              double *waited_s) WEFT_CHECKED;

/* Seconds that the thread has spent inside phases so far. */
double wefti_worker_busy_s(wefti_worker *worker);

/* Waits for the running phase, skips what is queued, joins the thread; NULL is accepted.
 */
void wefti_worker_destroy(weft_ctx *ctx, wefti_worker *worker);

#endif
