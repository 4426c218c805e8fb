/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/tune.h>

/* Asynchronous successive halving (Li et al., MLSys 2020): decides which job is next.
 * This part handles losses only, no files and no processes. */
enum { WEFTI_RUNGS = 12, WEFTI_SEEDS = 16 };

typedef struct wefti_trial {
    int rung;                   /* the current rung; -1: not begun */
    int issued, ended;          /* jobs of this rung */
    bool lost;                  /* a job of it failed: it is never promoted */
    double losses[WEFTI_SEEDS]; /* of the seeds at this rung */
    bool has[WEFTI_SEEDS];      /* which of them were reported */
    double score[WEFTI_RUNGS];  /* mean loss at the rungs that it ended; infinite: lost */
    double spread;              /* standard deviation at the last of these rungs */
    double trained_s;
} wefti_trial;

typedef struct wefti_halving {
    int n_trials, n_seeds, n_rungs, eta;
    int64_t steps[WEFTI_RUNGS];
    wefti_trial *trials; /* [n_trials] owned by the caller, zeroed */
} wefti_halving;

/* The number of rungs for n_trials trials: one trial reaches the last rung. No rung has
 * fewer than `shortest` steps, unless it is the only one. */
int wefti_halving_rungs(int n_trials, int eta, int64_t budget, int64_t shortest);

/* Sets the steps of the rungs and the initial state of the trials. The caller has set
 * trials, sizes and eta. */
void wefti_halving_init(wefti_halving *h, int64_t budget);

/* Number of jobs of a trial at a rung: one; at the last rung one for each seed. */
int wefti_halving_jobs(const wefti_halving *h, int rung);

/* The rung that a trial has ended last, or -1. */
int wefti_halving_ended(const wefti_halving *h, int trial);

bool wefti_halving_next(wefti_halving *h, weft_tune_job *job);
void wefti_halving_report(wefti_halving *h, const weft_tune_job *job, double loss,
                          double seconds);

/* Whether the job of a journal's line is plausible: it can have been issued, and has not
 * been reported. */
bool wefti_halving_takes(const wefti_halving *h, const weft_tune_job *job);

/* Restores the state of a trial from a journal's line. */
void wefti_halving_restore(wefti_halving *h, const weft_tune_job *job);
