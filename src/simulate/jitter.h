/* SPDX-License-Identifier: MIT */
#pragma once

#include "simulate/timed.h"

/* What chance does to a rank: the draws of both players, each a function of (seed, step, rank)
 * alone. So a seed has the same slow steps however they are played. */

/* How much slower than usual the rank computes this step; 1: as usual. */
double wefti_jitter_factor(const wefti_timed *timed, uint64_t seed, int64_t step,
                           int rank);

/* Seconds that the rank stops at the beginning of the step; mostly 0. */
double wefti_jitter_halt(const wefti_timed *timed, uint64_t seed, int64_t step, int rank);

/* How much slower than others machine number i is throughout. */
double wefti_jitter_drift(const wefti_timed *timed, uint64_t seed, int i);

/* How much later than others rank r begins its first step, in steps: exponential, mean 1. */
double wefti_jitter_begin(uint64_t seed, int rank);

/* The rank that mesh.straggler_time strikes in the step. */
int wefti_jitter_straggler(const wefti_job *job, int64_t step);
