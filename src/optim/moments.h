/* SPDX-License-Identifier: MIT */
#pragma once

#include "optim/optimizer.h"

/* What the optimizers with moments share. */

/* How weight decay acts: as a part of the gradient, or beside it. */
typedef enum wefti_decay { WEFTI_DECAY_COUPLED, WEFTI_DECAY_DECOUPLED } wefti_decay;

/* A step whose moments take a gradient in for the t-th time, t from 1. */
wefti_adam_step wefti_moments_step(const wefti_optimizer_config *config,
                                   const wefti_optimizer_step *step,
                                   const wefti_span *span, wefti_decay decay, int64_t t);

/* Step step->count of AccumAdam with periods of config->accumulate steps. */
wefti_accum_step wefti_moments_accum_step(const wefti_optimizer_config *config,
                                          const wefti_optimizer_step *step,
                                          const wefti_span *span, wefti_decay decay);

/* The keys that they read; the second: accum_adam(w). */
extern const char *const wefti_moments_keys[], *const wefti_moments_accum_keys[];

/* Their traffic: a gradient is read, parameters and moments are read and written. */
double wefti_moments_traffic(const wefti_optimizer_config *config);
/* The same, and beside the moments what is described at the head of accumadam.c. */
double wefti_moments_accum_traffic(const wefti_optimizer_config *config);
