/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/bench.h>

#include "comm/comm.h"
#include "optim/optimizer.h"

/* Matrices whose rows are spread over the S ranks of a shard group, updated by an
 * optimizer that needs whole matrices. Each matrix has an owner among the ranks: it
 * receives all rows that take part in the step, orthogonalizes them, and sends every rank
 * its rows back. There are two messages between any two ranks per bucket; none with S =
 * 1. No other object may use the group. */

typedef struct wefti_matrices wefti_matrices;

/* Bytes of a rank's working memory. */
int64_t wefti_matrices_bytes(const wefti_matrix_list *buckets, int n_buckets, int S,
                             int s);

/* FLOP of rank s in a step that orthogonalizes whole matrices. */
double wefti_matrices_flop(const wefti_matrix_list *bucket, int S, int s);

/* Not collective. `comm` NULL: S = 1. */
weft_status wefti_matrices_create(weft_ctx *ctx, const wefti_kernels *kernels,
                                  wefti_comm *comm, const wefti_matrix_list *buckets,
                                  int n_buckets, wefti_matrices **out) WEFT_CHECKED;
void wefti_matrices_destroy(wefti_matrices *self);

/* The data of a step: whole flat buffers. */
typedef struct wefti_matrices_step {
    int64_t number; /* of the step, for tags */
    wefti_optimizer_step step;
    const float *d;
    float *p, *state; /* the optimizer's first */
} wefti_matrices_step;

/* Updates the matrices of a bucket. Collective over the group, buckets in the same order
 * on every rank. Adds the squares of the change of this rank's rows to *moved. */
weft_status wefti_matrices_apply(wefti_matrices *self, int bucket,
                                 const wefti_matrices_step *step,
                                 double *moved) WEFT_CHECKED;

/* The registry's first optimizer of whole matrices, with the threads that are set; o->width > 0.
 * `stream_Bps`: the memory's rate. */
weft_status wefti_measure_matrices(weft_ctx *ctx, const wefti_kernels *kernels,
                                   const weft_bench_optimizers_options *o,
                                   double stream_Bps,
                                   weft_matrix_speed *out) WEFT_CHECKED;
