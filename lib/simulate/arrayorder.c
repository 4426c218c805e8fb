/* SPDX-License-Identifier: MIT */
/* The order in which the exchange threads of the array player run the phases of a step's
 * buckets. The program's thread asks what has been submitted so far (wefti_order_next),
 * so its order depends on times: an exchange that is faster may begin to wait for bucket
 * 0 just before bucket 1 is submitted, and everything after it comes later (Graham,
 * "Bounds on multiprocessing timing anomalies", 1969). Here the orders are fixed in
 * advance. `ahead` = k is the number of further buckets that begin before the thread
 * waits for one. For three buckets that begin (B0 B1 B2), are answered (C) and end (E):
 *
 *     k = 0    B0 C0 E0      B1 C1 E1      B2 C2 E2        a step that mostly computes
 *     k = 1    B0 C0 B1      B2 C1 E0      C2 E1 E2
 *     k = 3    B0 C0 B1 B2   C1 C2         E0 E1 E2        a step that mostly sends
 *
 * In all of them the thread waits for the first bucket at once, as in the program, whose
 * thread has nothing else to do. In a fixed order every time is a maximum of sums of the
 * cluster's times, and so is the time of a run: no time of a cluster can get shorter and
 * make the run longer. That also holds for the minimum over the orders, which is the
 * prediction. The program's own order takes the same time to within 1 % in nineteen of
 * twenty random clusters, and is up to a quarter slower where a step consists only of
 * latencies (docs/prediction.md). */
#include "simulate/arraystate.h"

int wefti_array_orders(int n_buckets, int out[WEFTI_ARRAY_ORDERS]) {
    int n = 0;
    out[n++] = 0;
    if (n_buckets > 1) out[n++] = 1;
    if (n_buckets > 2) out[n++] = n_buckets;
    return n;
}

/* The first phase of a step that can wait for others: the answer, or without one the end. */
static int first_wait(const wefti_array_player *e) {
    enum { ANSWER = 1, END = 2 };
    bool answers = wefti_schedule_is_answer(e->shard->schedule, e->jobs[0]) ||
                   e->shard->buckets[0].near.n_rounds == 2;
    return answers ? ANSWER : END;
}

/* Whether phase p > 0 of its next job comes before the next job begins. */
static bool comes_first(const wefti_array_player *e, int p) {
    if (e->done[p] == 0 && p <= first_wait(e)) return true;
    return e->done[p] + (int64_t)p * e->weather.ahead < e->done[0];
}

int wefti_array_next_phase(const wefti_array_player *e) {
    const wefti_schedule *s = e->shard->schedule;
    bool all_begun = e->done[0] == e->n_jobs;
    for (int p = 1; p < s->n_phases; p++) {
        bool has_job = e->done[p] < e->done[p - 1];
        bool oldest = e->done[p] == e->done[s->n_phases - 1];
        if (!has_job || (s->order == WEFTI_ORDER_BY_JOB && !oldest)) continue;
        if (all_begun || comes_first(e, p)) return p;
    }
    return all_begun ? -1 : 0;
}
