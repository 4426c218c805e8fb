/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_OPTIMIZER_H
#define WEFTI_OPTIMIZER_H

#include <weft/ctx.h>

#include "tensor/kernels.h"

/* Agreed direction -> parameters, on this rank's shard alone. */

typedef struct wefti_optimizer_config {
    const char *kind;
    double beta1, beta2, eps, weight_decay;
} wefti_optimizer_config;

/* A contiguous run of parameters that all decay or all do not. */
typedef struct wefti_span {
    int64_t begin, n;
    bool decays;
} wefti_span;

/* One step's numbers. `count` counts this optimizer's steps from 1. */
typedef struct wefti_optimizer_step {
    int64_t count;
    float lr;
    float grad_scale; /* multiplies the direction first (clipping); 1 = as it is */
} wefti_optimizer_step;

typedef struct wefti_optimizer_ops {
    const char *name;
    const char *summary;
    int n_states;                   /* state arrays, each as long as the parameters */
    const char *const *state_names; /* as in checkpoints */
    /* p[span] <- step along d[span]; state[i] are parallel to p. Adds the sum of squares
     * of the change of p to *moved. */
    void (*apply)(const wefti_optimizer_config *config, const wefti_kernels *kernels,
                  const wefti_optimizer_step *step, const wefti_span *span,
                  const float *d, float *p, float *const *state, double *moved);
} wefti_optimizer_ops;

const wefti_optimizer_ops *wefti_optimizer_find(const char *kind);
extern const wefti_optimizer_ops *const wefti_optimizer_registry[]; /* NULL-terminated */

#endif
