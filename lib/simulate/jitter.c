/* SPDX-License-Identifier: MIT */
/* Draws of jitter. A rank has four numbers of its own in a step:
 *
 *     index 4 rank + FACTOR    how slow it computes: one of the measured steps over their median
 *                              if enough were measured, else log-normal with the spread
 *                    STALL     whether it stops: with probability stall_share
 *                    LENGTH    for how long: exponential with mean stall
 *
 * Draws that belong to no step (the drift of a machine, its start time) use the step
 * INT64_MAX. The straggler belongs to the configuration, not to the cluster, so it is
 * drawn from run.seed as in the run itself. */
#include "simulate/timed.h"

#include <math.h>

#include "base/rng.h"

enum { FACTOR, STALL, LENGTH, ENOUGH_STEPS = 16 };

static double uniform(uint64_t seed, int64_t step, int rank, int what) {
    return wefti_rng_uniform(seed, WEFTI_STREAM_JITTER, (uint64_t)step,
                             4 * (uint64_t)rank + (uint64_t)what);
}

static double normal(uint64_t seed, int64_t step, int rank, int what) {
    return wefti_rng_normal(seed, WEFTI_STREAM_JITTER, (uint64_t)step,
                            4 * (uint64_t)rank + (uint64_t)what);
}

double wefti_jitter_factor(const wefti_timed *timed, uint64_t seed, int64_t step,
                           int rank) {
    const weft_cluster *c = timed->cluster;
    if (c->n_steps >= ENOUGH_STEPS && timed->mean_s > 0) {
        double at = uniform(seed, step, rank, FACTOR) * (double)c->n_steps;
        return c->step_s[(int64_t)at] / timed->mean_s;
    }
    if (c->jitter.spread == 0) return 1;
    return exp(c->jitter.spread * normal(seed, step, rank, FACTOR));
}

double wefti_jitter_halt(const wefti_timed *timed, uint64_t seed, int64_t step,
                         int rank) {
    const weft_jitter *jitter = &timed->cluster->jitter;
    if (jitter->stall_share <= 0 ||
        uniform(seed, step, rank, STALL) >= jitter->stall_share)
        return 0;
    return -jitter->stall_s * log(1 - uniform(seed, step, rank, LENGTH));
}

double wefti_jitter_drift(const wefti_timed *timed, uint64_t seed, int i) {
    double drift = timed->cluster->jitter.drift;
    return drift > 0 ? exp(drift * normal(seed, INT64_MAX, i, FACTOR)) : 1;
}

double wefti_jitter_begin(uint64_t seed, int rank) {
    return -log(1 - uniform(seed, INT64_MAX, rank, LENGTH));
}

int wefti_jitter_straggler(const wefti_job *job, int64_t step) {
    uint64_t chosen = wefti_rng_u64((uint64_t)job->config->run.seed, WEFTI_STREAM_STALL,
                                    (uint64_t)step, 0);
    return (int)(chosen % (uint64_t)job->W);
}
