/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "kernels/kernels.h"

/* Agreed direction -> parameters. Most optimizers update each element separately, using only
 * this rank's shard. An optimizer with matrix ops updates hidden matrices as wholes: their rows
 * are gathered (optim/matrices.h). All other tensors it updates element by element, too. */

/* Muon's (optim/orthogonal.h) */
typedef enum wefti_polynomial {
    WEFTI_POLYNOMIAL_QUINTIC, /* one quintic five times (Jordan et al. 2024) */
    WEFTI_POLYNOMIAL_POLAR /* five quintics, each optimal for its iteration (arXiv 2505.16932) */
} wefti_polynomial;

/* How a matrix's orthogonal step is scaled (lib/optim/muon.c). */
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
    double rows;         /* share of a matrix's rows that is updated in a step; 1: all */
    int64_t whole_every; /* steps between two that orthogonalize whole matrices; 1: every
                            step does */
} wefti_optimizer_config;

/* Upper bound on the state arrays of an optimizer. */
enum { WEFTI_OPTIMIZER_STATES = 4 };

/* A contiguous range of parameters; weight decay applies to all of them or to none. */
typedef struct wefti_span {
    int64_t begin, n;
    bool decays;
} wefti_span;

/* The numbers of one step. `count` counts the steps of these parameters from 1; an
 * optimizer has no other notion of time. */
typedef struct wefti_optimizer_step {
    int64_t count;
    float lr;
    float grad_scale; /* factor that is applied to the direction first (clipping); 1 =
                         unchanged */
} wefti_optimizer_step;

/* A matrix of which this rank holds some rows. */
typedef struct wefti_matrix {
    int64_t rows, cols; /* of the whole matrix */
    int64_t n_rows;     /* this rank's */
    int64_t offset; /* of the first of these rows, in parameters, direction and state */
    int parts;      /* equal matrices beside each other: queries, keys and values */
    bool cols_are_outputs; /* whether columns are the outputs of the matrix's product;
                              else rows are */
} wefti_matrix;

/* A matrix some of whose rows take part in a step. */
typedef struct wefti_turned {
    const wefti_matrix *matrix;
    int64_t n;     /* of this rank's rows */
    int32_t *rows; /* [n] which, ascending; room for matrix->n_rows */
    float *u;      /* [n, cols] input of the orthogonalization, then its result */
    int64_t
        n_all; /* rows that were orthogonalized together, including those of other ranks */
} wefti_turned;

/* Optimizers that need matrices as wholes. */
typedef struct wefti_matrix_ops {
    /* How many of a rank's n_rows rows take part in a step. */
    int64_t (*count)(const wefti_optimizer_config *config, int64_t n_rows);
    /* Whether step `count` orthogonalizes whole matrices; otherwise each rank only its
     * own rows. */
    bool (*is_whole)(const wefti_optimizer_config *config, int64_t count);
    /* Adds the direction to the state; fills rows and u. `sizes`: room for n_rows. */
    void (*take)(const wefti_optimizer_config *config, float grad_scale, const float *d,
                 float *state, double *sizes, wefti_turned *t);
    /* Orthogonalizes u [rows, cols] of one part, in place. */
    void (*turn)(const wefti_optimizer_config *config, const wefti_kernels *kernels,
                 int64_t rows, int64_t cols, float *u, float *scratch);
    /* p <- step along u. Adds the sum of squares of the change of p to *moved. */
    void (*apply)(const wefti_optimizer_config *config, float lr, const wefti_turned *t,
                  float *p, double *moved);
} wefti_matrix_ops;

typedef struct wefti_optimizer_ops {
    const char *name;
    const char *const
        *keys;    /* keys of its section that only this kind reads, NULL-terminated */
    int n_states; /* state arrays, each as long as the parameters and zero at first */
    const char *const *state_names; /* as in checkpoints */
    /* Bytes read and written per parameter and step, the mean over many steps: the cost
     * of a step that is limited by memory. */
    double (*traffic)(const wefti_optimizer_config *config);
    /* p[span] <- step along d[span]; state[i] are parallel to p. Adds the sum of squares
     * of the change of p to *moved. */
    void (*apply)(const wefti_optimizer_config *config, const wefti_kernels *kernels,
                  const wefti_optimizer_step *step, const wefti_span *span,
                  const float *d, float *p, float *const *state, double *moved);
    const wefti_matrix_ops *matrix; /* or NULL */
} wefti_optimizer_ops;

/* How a tensor is updated. */
typedef struct wefti_optimizer_rule {
    const wefti_optimizer_ops *ops;
    wefti_optimizer_config config;
    double lr; /* factor of the step's learning rate */
} wefti_optimizer_rule;

/* The matrices of one bucket; all borrowed. */
typedef struct wefti_matrix_list {
    int n;
    const wefti_matrix *matrices;
    const wefti_optimizer_rule *const *rules; /* [n], each with matrix ops */
} wefti_matrix_list;

/* Steps of a period of accum_adam(w): `accumulate` as configured, where 0 means half the
 * number of replicas, at least 1. */
int64_t wefti_optimizer_period(int64_t accumulate, int64_t replicas);

const wefti_optimizer_ops *wefti_optimizer_find(const char *kind);
extern const wefti_optimizer_ops *const wefti_optimizer_registry[]; /* NULL-terminated */

/* All optimizers, as tables of functions; each is defined at the end of its own file. */
#define WEFTI_KIND(name, summary) extern const wefti_optimizer_ops wefti_optimizer_##name;
#include "optim/optimizers.def"
#undef WEFTI_KIND
