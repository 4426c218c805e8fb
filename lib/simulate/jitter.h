/* SPDX-License-Identifier: MIT */
#pragma once

#include "simulate/timed.h"

/* The random delays of a rank, for both players. Each draw depends only on (seed, step,
 * rank), so a seed has the same slow steps in both players. */

/* How much slower than usual the rank computes this step; 1: as usual. */
double wefti_jitter_factor(const wefti_timed *timed, uint64_t seed, int64_t step,
                           int rank);

/* Seconds that the rank stops at the beginning of the step; mostly 0. */
double wefti_jitter_halt(const wefti_timed *timed, uint64_t seed, int64_t step, int rank);

/* The constant factor by which machine number i is slower than others. */
double wefti_jitter_drift(const wefti_timed *timed, uint64_t seed, int i);

/* How much later than others rank r begins its first step, in steps: exponential, mean 1. */
double wefti_jitter_begin(uint64_t seed, int rank);

/* The rank that mesh.straggler_time strikes in the step. */
int wefti_jitter_straggler(const wefti_job *job, int64_t step);
