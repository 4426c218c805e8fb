/* SPDX-License-Identifier: MIT */
#ifndef WEFT_TUNE_H
#define WEFT_TUNE_H

#include <weft/config.h>
#include <weft/ctx.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A search for the values of some keys, by asynchronous successive halving (Li et al.,
 * MLSys 2020). The search only decides what to train; the caller trains:
 *
 *     create -> next -> train up to job.steps -> report -> next -> ... -> best, write
 *
 * A trial is one point of the search space. Rung k is a number of steps, eta times that of
 * rung k - 1; the last rung is the whole budget. Of the trials that have ended at a rung,
 * the best 1/eta continue to the next rung, each as soon as it is known to be among the
 * best. At the last rung each trial is trained with several seeds, and its loss is their
 * mean.
 *
 * With one job at a time, the decisions are a function of the losses alone. With several
 * jobs, the order in which they end may decide which trials continue. Reported results are
 * kept in a file, the journal; a search that is created again with the same journal
 * continues from it. */
typedef struct weft_tune weft_tune;

/** The space of a search and its budget. */
typedef struct weft_tune_setup {
    size_t struct_size;
    const char *const
        *keys; /* "optimizer.lr=1e-4..1e-2" (uniform in the logarithm if both are above 0)
                  or "mixer.gamma=0.5,1" */
    int n_keys;
    int n_trials;       /* 0: the whole grid; only if no key has a range */
    int n_seeds;        /* of the last rung */
    int64_t budget;     /* steps of the last rung */
    int eta;            /* 2 or more */
    int n_rungs;        /* 0: as many as there are enough trials for */
    const char *folder; /* folder of the journal; created if it does not exist */
} weft_tune_setup;

/** A trial that is to be trained next. */
typedef struct weft_tune_job {
    size_t struct_size;
    int trial, rung, seed; /* seed: 0 to n_seeds - 1 */
    int64_t steps;         /* train up to this step, with the schedule of the whole
                              budget */
} weft_tune_job;

/** A trial and how far it has come. */
typedef struct weft_tune_look {
    int trial;
    int64_t steps;    /* of the highest rung that it has finished; 0: none */
    double loss;      /* at that rung, mean over the seeds; infinite: it failed */
    double spread;    /* standard deviation over the seeds; 0 with one */
    int n_seeds;      /* number of seeds in that mean */
    double trained_s; /* seconds of all its jobs */
} weft_tune_look;

/** Checks the keys against `base`, which gives all other keys of every trial. An existing
 * journal must belong to the same search. [out] *out owned by the caller
 * (weft_tune_destroy). Errors: CONFIG, FILE, FORMAT. */
WEFT_API weft_status weft_tune_create(weft_ctx *ctx, const weft_tune_setup *setup,
                                      weft_config *base, weft_tune **out) WEFT_CHECKED;
WEFT_API void weft_tune_destroy(weft_tune *tune);

/** The next job. [out] *any is false if there is none until another job is reported, or the
 * search is over. */
WEFT_API weft_status weft_tune_next(weft_tune *tune, weft_tune_job *job,
                                    bool *any) WEFT_CHECKED;

/** Reports the result of a job, and writes it to the journal before returning. A loss that
 * is not finite means that the trial failed. A job that was never reported is given again
 * by a search that is created later. Errors: FILE. */
WEFT_API weft_status weft_tune_report(weft_tune *tune, const weft_tune_job *job,
                                      double loss, double seconds) WEFT_CHECKED;

/** The number of trials, and of keys; "section.key" of a key; its value in a trial, as it
 * would be typed (borrowed). */
WEFT_API int weft_tune_trials(const weft_tune *tune);
WEFT_API int weft_tune_keys(const weft_tune *tune);
WEFT_API const char *weft_tune_key(const weft_tune *tune, int key);
WEFT_API const char *weft_tune_value(const weft_tune *tune, int trial, int key);

/** The trial at a place of the ranking: 0 is the best; ordered by rung, then by loss. Each
 * trial has a look of its own, valid until the next call about that trial; past the last
 * place, trial is -1. */
WEFT_API const weft_tune_look *weft_tune_place(weft_tune *tune, int place);

/** Sets the keys of a trial in a configuration. Errors: CONFIG. */
WEFT_API weft_status weft_tune_set(weft_tune *tune, int trial,
                                   weft_config *config) WEFT_CHECKED;

/** Writes the keys of the best trial as YAML, a layer for weft_config_load.
 * Errors: FILE, NUMERIC. */
WEFT_API weft_status weft_tune_write(weft_tune *tune, const char *path) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
