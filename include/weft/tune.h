/* SPDX-License-Identifier: MIT */
#ifndef WEFT_TUNE_H
#define WEFT_TUNE_H

#include <weft/config.h>
#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A search for the values of some keys, by asynchronous successive halving (Li et al.,
 * MLSys 2020). It only decides; the caller trains:
 *
 *     create -> next -> train up to job.steps -> report -> next -> ... -> best, write
 *
 * A trial is one point of the space. Rung k is a number of steps, eta times that of rung
 * k - 1; the last one is the whole budget. Of the trials that have ended at a rung the best
 * 1/eta go on to the next one, as soon as they are known to be among them. At the last rung
 * each trial is trained with several seeds, and its loss is their mean.
 *
 * With one job at a time the decisions are a function of the losses alone; with several,
 * which trials go on may depend on the order in which they end. What was reported is kept
 * in the journal, a file; a search that is created again over the same journal goes on. */
typedef struct weft_tune weft_tune;

typedef struct weft_tune_setup {
    const char *const
        *keys; /* "optimizer.lr=1e-4..1e-2" (even in the logarithm if both are
                                above 0) or "mixer.gamma=0.5,1" */
    int n_keys;
    int n_trials;       /* 0: the whole grid, where no key has a range */
    int n_seeds;        /* of the last rung */
    int64_t budget;     /* steps of the last rung */
    int eta;            /* 2 or more */
    int n_rungs;        /* 0: as many as the trials suffice for */
    const char *folder; /* where the journal lies; made if it is not there */
} weft_tune_setup;

typedef struct weft_tune_job {
    int trial, rung, seed; /* seed: 0 to n_seeds - 1 */
    int64_t steps;         /* train up to here; the budget decides the schedule */
} weft_tune_job;

typedef struct weft_tune_look {
    int trial;
    int64_t steps;    /* of the highest rung at which it ended; 0: of none */
    double loss;      /* there, mean over the seeds; infinite: it failed */
    double spread;    /* standard deviation over the seeds; 0 with one */
    int n_seeds;      /* that loss is a mean of */
    double trained_s; /* seconds of all its jobs */
} weft_tune_look;

/* Checks the keys against `base`, whose keys are those of every trial. An existing journal
 * must be of the same search. [out] *out owned by the caller (weft_tune_destroy). */
WEFT_API weft_status weft_tune_create(weft_ctx *ctx, const weft_tune_setup *setup,
                                      weft_config *base, weft_tune **out) WEFT_CHECKED;
WEFT_API void weft_tune_destroy(weft_tune *tune);

/* The next job; false: there is none before another one is reported, or none at all. */
WEFT_API bool weft_tune_next(weft_tune *tune, weft_tune_job *job);

/* What a job came to, written down before this returns; a loss that is not finite is a
 * failed trial. A job that is not reported is given again by a search created anew. */
WEFT_API weft_status weft_tune_report(weft_tune *tune, const weft_tune_job *job,
                                      double loss, double seconds) WEFT_CHECKED;

/* How many trials and keys there are; "section.key" of a key; its value in a trial, as it
 * is typed (borrowed). */
WEFT_API int weft_tune_trials(const weft_tune *tune);
WEFT_API int weft_tune_keys(const weft_tune *tune);
WEFT_API const char *weft_tune_key(const weft_tune *tune, int key);
WEFT_API const char *weft_tune_value(const weft_tune *tune, int trial, int key);

/* How the trial of a place stands: 0 is the best, by rung, then by loss. */
WEFT_API weft_tune_look weft_tune_place(const weft_tune *tune, int place);

/* Sets the keys of a trial in a configuration. */
WEFT_API weft_status weft_tune_set(weft_tune *tune, int trial,
                                   weft_config *config) WEFT_CHECKED;

/* Writes the keys of the best trial as YAML, a layer for weft_config_load. */
WEFT_API weft_status weft_tune_write(weft_tune *tune, const char *path) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
