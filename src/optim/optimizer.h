/* SPDX-License-Identifier: MIT */
#ifndef WEFTI_OPTIMIZER_H
#define WEFTI_OPTIMIZER_H

#include <weft/ctx.h>

#include "tensor/kernels.h"

/* Agreed direction -> parameters, on this rank's shard alone. */

typedef struct wefti_optimizer_config {
    const char *kind;
    double beta1, beta2, eps, weight_decay;
    int64_t accumulate; /* accum_adam(w): steps of a period, at least 1 */
} wefti_optimizer_config;

/* No optimizer has more state arrays than these. */
enum { WEFTI_OPTIMIZER_STATES = 4 };

/* A contiguous run of parameters that all decay or all do not. */
typedef struct wefti_span {
    int64_t begin, n;
    bool decays;
} wefti_span;

/* One step's numbers. `count` counts the steps of these parameters from 1, and is all
 * that an optimizer knows of time. */
typedef struct wefti_optimizer_step {
    int64_t count;
    float lr;
    float grad_scale; /* multiplies the direction first (clipping); 1 = as it is */
} wefti_optimizer_step;

typedef struct wefti_optimizer_ops {
    const char *name;
    const char *summary;
    int n_states; /* state arrays, each as long as the parameters and zero at first */
    const char *const *state_names; /* as in checkpoints */
    /* Bytes read and written per parameter and step, the mean over many steps: what the
     * memory alone makes a step cost. */
    double (*traffic)(const wefti_optimizer_config *config);
    /* p[span] <- step along d[span]; state[i] are parallel to p. Adds the sum of squares
     * of the change of p to *moved. */
    void (*apply)(const wefti_optimizer_config *config, const wefti_kernels *kernels,
                  const wefti_optimizer_step *step, const wefti_span *span,
                  const float *d, float *p, float *const *state, double *moved);
} wefti_optimizer_ops;

/* Steps of a period of accum_adam(w): `accumulate` as configured, where 0 stands for half
 * the replicas, at least 1. */
int64_t wefti_optimizer_period(int64_t accumulate, int64_t replicas);

const wefti_optimizer_ops *wefti_optimizer_find(const char *kind);
extern const wefti_optimizer_ops *const wefti_optimizer_registry[]; /* NULL-terminated */

#endif
