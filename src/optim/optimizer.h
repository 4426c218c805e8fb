/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "optim/orthogonal.h"
#include "tensor/kernels.h"

/* Agreed direction -> parameters. Most optimizers move each element by itself, on this
 * rank's shard alone. One with matrix ops moves hidden matrices as wholes: their rows meet
 * (optim/matrices.h); what is no such matrix it moves element by element, too. */

/* How a matrix's orthogonal step is scaled (src/optim/muon.c). */
typedef enum wefti_adjust {
    WEFTI_ADJUST_MATCH_RMS,
    WEFTI_ADJUST_ORIGINAL,
    WEFTI_ADJUST_SPECTRAL
} wefti_adjust;

typedef struct wefti_optimizer_config {
    const char *kind;
    double beta1, beta2, eps, weight_decay;
    int64_t accumulate; /* accum_adam(w): steps of a period, at least 1 */
    /* muon */
    double momentum;
    bool nesterov;
    wefti_polynomial polynomial;
    wefti_adjust adjust;
    double rows;         /* share of a matrix's rows that moves in a step; 1: all */
    int64_t whole_every; /* steps between two that see whole matrices; 1: all do */
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

/* A matrix of which this rank holds some rows. */
typedef struct wefti_matrix {
    int64_t rows, cols; /* of all of it */
    int64_t n_rows;     /* this rank's */
    int64_t offset;     /* of the first of them in parameters, direction and state */
    int parts;          /* equal matrices beside each other: queries, keys and values */
    bool cols_are_outputs; /* of the product that the matrix is for; else rows are */
} wefti_matrix;

/* One that takes part in a step with some of its rows. */
typedef struct wefti_turned {
    const wefti_matrix *matrix;
    int64_t n;     /* of this rank's rows */
    int32_t *rows; /* [n] which, ascending; room for matrix->n_rows */
    float *u;      /* [n, cols] what is turned, then what it was turned into */
    int64_t n_all; /* rows that were turned together, those of other ranks included */
} wefti_turned;

/* Optimizers that need matrices as wholes. */
typedef struct wefti_matrix_ops {
    /* How many of a rank's n_rows rows take part in a step. */
    int64_t (*count)(const wefti_optimizer_config *config, int64_t n_rows);
    /* Whether step `count` sees whole matrices; else each rank its own rows alone. */
    bool (*is_whole)(const wefti_optimizer_config *config, int64_t count);
    /* The direction into the state; fills rows and u. `sizes`: room for n_rows. */
    void (*take)(const wefti_optimizer_config *config, float grad_scale, const float *d,
                 float *state, double *sizes, wefti_turned *t);
    /* u [rows, cols] of one part, in place. */
    void (*turn)(const wefti_optimizer_config *config, const wefti_kernels *kernels,
                 int64_t rows, int64_t cols, float *u, float *scratch);
    /* p <- step along u. Adds the sum of squares of the change of p to *moved. */
    void (*apply)(const wefti_optimizer_config *config, float lr, const wefti_turned *t,
                  float *p, double *moved);
} wefti_matrix_ops;

typedef struct wefti_optimizer_ops {
    const char *name;
    const char *const *keys; /* of its section that it alone reads, NULL-terminated */
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
    const wefti_matrix_ops *matrix; /* or NULL */
} wefti_optimizer_ops;

/* Steps of a period of accum_adam(w): `accumulate` as configured, where 0 stands for half
 * the replicas, at least 1. */
int64_t wefti_optimizer_period(int64_t accumulate, int64_t replicas);

const wefti_optimizer_ops *wefti_optimizer_find(const char *kind);
extern const wefti_optimizer_ops *const wefti_optimizer_registry[]; /* NULL-terminated */
