/* SPDX-License-Identifier: MIT */
/* Asynchronous successive halving. steps_k of rung k = ceil(budget / eta^(last - k)).
 *
 * The next job is the first of these that exists:
 *
 *     1  another seed of a trial that is at the last rung
 *     2  from the highest rung down: the best trial among the best floor(n / eta) of the n
 *        that have ended there, if it has not been promoted yet
 *     3  a trial that has not begun
 *     4  no job runs, and no trial is at the last rung: the best trial of the highest rung
 *        that has ended is promoted, so that a search always ends with a whole run
 *
 * A failed trial counts among the n and is never promoted. Ties go to the lower trial. */
#include "tune/halving.h"

#include <math.h>
#include <string.h>

int wefti_halving_rungs(int n_trials, int eta, int64_t budget, int64_t shortest) {
    int rungs = 1;
    for (int64_t trials = n_trials; trials >= eta && rungs < WEFTI_RUNGS; trials /= eta) {
        budget /= eta;
        if (budget < 1 || budget < shortest) break;
        rungs++;
    }
    return rungs;
}

void wefti_halving_init(wefti_halving *h, int64_t budget) {
    int64_t divisor = 1;
    for (int k = h->n_rungs - 1; k >= 0; k--) {
        h->steps[k] = (budget + divisor - 1) / divisor;
        if (divisor <= budget) divisor *= h->eta;
    }
    for (int i = 0; i < h->n_trials; i++) h->trials[i].rung = -1;
}

int wefti_halving_jobs(const wefti_halving *h, int rung) {
    return rung == h->n_rungs - 1 ? h->n_seeds : 1;
}

int wefti_halving_ended(const wefti_halving *h, int trial) {
    const wefti_trial *t = &h->trials[trial];
    bool all = t->rung >= 0 && t->ended == wefti_halving_jobs(h, t->rung);
    return all ? t->rung : t->rung - (t->rung >= 0);
}

/* --- promotion --- */

static bool has_ended(const wefti_halving *h, int trial, int rung) {
    return wefti_halving_ended(h, trial) >= rung;
}

/* Whether a is better than b at a rung that both have ended. */
static bool is_better(const wefti_halving *h, int a, int b, int rung) {
    double x = h->trials[a].score[rung], y = h->trials[b].score[rung];
    return x < y || (x == y && a < b);
}

/* The number of trials that have ended a rung with a better score. */
static int place_of(const wefti_halving *h, int trial, int rung) {
    int place = 0;
    for (int i = 0; i < h->n_trials; i++)
        place += i != trial && has_ended(h, i, rung) && is_better(h, i, trial, rung);
    return place;
}

/* The best trial that waits at the end of a rung and is among the `quota` best there; or -1. */
static int candidate(const wefti_halving *h, int rung, int quota) {
    for (int i = 0, best = -1;; i++) {
        if (i == h->n_trials) return best;
        const wefti_trial *t = &h->trials[i];
        bool stands = t->rung == rung && has_ended(h, i, rung) && !t->lost;
        if (stands && place_of(h, i, rung) < quota &&
            (best < 0 || is_better(h, i, best, rung)))
            best = i;
    }
}

static int n_ended(const wefti_halving *h, int rung) {
    int n = 0;
    for (int i = 0; i < h->n_trials; i++) n += has_ended(h, i, rung);
    return n;
}

static void enter(wefti_halving *h, int trial, int rung) {
    wefti_trial *t = &h->trials[trial];
    t->rung = rung;
    t->issued = t->ended = 0;
    memset(t->has, 0, sizeof t->has);
}

/* Whether any job was issued and has not been reported. */
static bool runs(const wefti_halving *h) {
    for (int i = 0; i < h->n_trials; i++)
        if (h->trials[i].issued > h->trials[i].ended) return true;
    return false;
}

static bool reached_last(const wefti_halving *h) {
    for (int i = 0; i < h->n_trials; i++)
        if (h->trials[i].rung == h->n_rungs - 1 && !h->trials[i].lost) return true;
    return false;
}

/* Rules 2 to 4: the trial that moves to its next rung, or -1. */
static int who_moves(const wefti_halving *h) {
    for (int rung = h->n_rungs - 2; rung >= 0; rung--) {
        int trial = candidate(h, rung, n_ended(h, rung) / h->eta);
        if (trial >= 0) return trial;
    }
    for (int i = 0; i < h->n_trials; i++)
        if (h->trials[i].rung < 0) return i;
    if (runs(h) || reached_last(h)) return -1;
    for (int rung = h->n_rungs - 2; rung >= 0; rung--) {
        int trial = candidate(h, rung, h->n_trials);
        if (trial >= 0) return trial;
    }
    return -1;
}

/* --- jobs --- */

/* A seed of the trial's rung that was neither issued nor reported. Seeds are issued in order. */
static int open_seed(const wefti_trial *t, int n_jobs) {
    int given = t->issued - t->ended; /* the first seeds without a result were issued */
    for (int s = 0; s < n_jobs; s++) {
        if (t->has[s]) continue;
        if (given-- <= 0) return s;
    }
    return -1;
}

static bool give(wefti_halving *h, int trial, weft_tune_job *job) {
    wefti_trial *t = &h->trials[trial];
    int seed = open_seed(t, wefti_halving_jobs(h, t->rung));
    *job = (weft_tune_job){.struct_size = sizeof(weft_tune_job),
                           .trial = trial,
                           .rung = t->rung,
                           .seed = seed,
                           .steps = h->steps[t->rung]};
    t->issued++;
    return true;
}

bool wefti_halving_next(wefti_halving *h, weft_tune_job *job) {
    for (int i = 0; i < h->n_trials; i++) {
        const wefti_trial *t = &h->trials[i];
        bool open = t->rung >= 0 && !t->lost &&
                    t->issued < wefti_halving_jobs(h, t->rung);
        if (open) return give(h, i, job);
    }
    int trial = who_moves(h);
    if (trial < 0) return false;
    enter(h, trial, h->trials[trial].rung + 1);
    return give(h, trial, job);
}

/* Computes the mean and standard deviation of the losses that were reported. */
static void score(wefti_trial *t, int n_jobs) {
    double sum = 0, squares = 0;
    int n = 0;
    for (int s = 0; s < n_jobs; s++)
        if (t->has[s]) sum += t->losses[s], n++;
    double mean = sum / n;
    for (int s = 0; s < n_jobs; s++)
        if (t->has[s]) squares += (t->losses[s] - mean) * (t->losses[s] - mean);
    t->score[t->rung] = t->lost ? (double)INFINITY : mean;
    t->spread = t->lost || n < 2 ? 0 : sqrt(squares / (n - 1));
}

void wefti_halving_report(wefti_halving *h, const weft_tune_job *job, double loss,
                          double seconds) {
    wefti_trial *t = &h->trials[job->trial];
    int n_jobs = wefti_halving_jobs(h, job->rung);
    t->losses[job->seed] = loss;
    t->has[job->seed] = true;
    t->ended++;
    t->trained_s += seconds;
    if (!isfinite(loss)) t->lost = true;
    if (t->lost) t->issued = t->ended = n_jobs; /* its other seeds are not needed */
    score(t, n_jobs);
}

bool wefti_halving_takes(const wefti_halving *h, const weft_tune_job *job) {
    if (job->trial < 0 || job->trial >= h->n_trials || job->rung < 0 ||
        job->rung >= h->n_rungs)
        return false;
    const wefti_trial *t = &h->trials[job->trial];
    int n_jobs = wefti_halving_jobs(h, job->rung);
    if (job->seed < 0 || job->seed >= n_jobs) return false;
    if (job->rung == t->rung) return !t->has[job->seed];
    return job->rung == t->rung + 1 && has_ended(h, job->trial, t->rung) && !t->lost;
}

void wefti_halving_restore(wefti_halving *h, const weft_tune_job *job) {
    if (h->trials[job->trial].rung != job->rung) enter(h, job->trial, job->rung);
    h->trials[job->trial].issued = h->trials[job->trial].ended + 1;
}
