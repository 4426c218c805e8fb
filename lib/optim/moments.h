/* SPDX-License-Identifier: MIT */
#pragma once

#include "optim/optimizer.h"

/* Shared by the optimizers with moments. */

/* How weight decay acts: added to the gradient, or separately from it. */
typedef enum wefti_decay { WEFTI_DECAY_COUPLED, WEFTI_DECAY_DECOUPLED } wefti_decay;

/* A step in which the moments are updated for the t-th time, t from 1. */
wefti_adam_step wefti_moments_step(const wefti_optimizer_config *config,
                                   const wefti_optimizer_step *step,
                                   const wefti_span *span, wefti_decay decay, int64_t t);

/* The step number step->count of AccumAdam, with periods of config->accumulate steps. */
wefti_accum_step wefti_moments_accum_step(const wefti_optimizer_config *config,
                                          const wefti_optimizer_step *step,
                                          const wefti_span *span, wefti_decay decay);

/* Their traffic: a gradient is read, parameters and moments are read and written. */
double wefti_moments_traffic(const wefti_optimizer_config *config);
