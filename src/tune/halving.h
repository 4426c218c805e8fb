/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/tune.h>

/* Asynchronous successive halving (Li et al., MLSys 2020): which job is next. It knows
 * losses, and neither files nor processes. */
enum { WEFTI_RUNGS = 12, WEFTI_SEEDS = 16 };

typedef struct wefti_trial {
    int rung;                   /* that it is at; -1: not begun */
    int issued, ended;          /* jobs of this rung */
    bool lost;                  /* a job of it failed: it goes nowhere */
    double losses[WEFTI_SEEDS]; /* of the seeds at this rung */
    bool has[WEFTI_SEEDS];      /* which of them are there */
    double score[WEFTI_RUNGS];  /* mean loss at the rungs that it ended; infinite: lost */
    double spread;              /* at the last of them */
    double trained_s;
} wefti_trial;

typedef struct wefti_halving {
    int n_trials, n_seeds, n_rungs, eta;
    int64_t steps[WEFTI_RUNGS];
    wefti_trial *trials; /* [n_trials] owned by the caller, zeroed */
} wefti_halving;

/* Rungs that so many trials suffice for: one of them reaches the last; none of them is of fewer
 * than `shortest` steps, unless it is the only one. */
int wefti_halving_rungs(int n_trials, int eta, int64_t budget, int64_t shortest);

/* Sets the steps of the rungs and the trials' beginning; trials, sizes and eta are there. */
void wefti_halving_init(wefti_halving *h, int64_t budget);

/* Jobs of a trial at a rung: one, at the last rung one for each seed. */
int wefti_halving_jobs(const wefti_halving *h, int rung);

/* The rung that a trial has ended last, or -1. */
int wefti_halving_ended(const wefti_halving *h, int trial);

bool wefti_halving_next(wefti_halving *h, weft_tune_job *job);
void wefti_halving_report(wefti_halving *h, const weft_tune_job *job, double loss,
                          double seconds);

/* Whether a job can have been given before, and is not reported: of a journal's line. */
bool wefti_halving_takes(const wefti_halving *h, const weft_tune_job *job);

/* Puts a trial where a journal's line says that it was. */
void wefti_halving_restore(wefti_halving *h, const weft_tune_job *job);
