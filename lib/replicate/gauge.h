/* SPDX-License-Identifier: MIT */
#pragma once

#include "replicate/replicator.h"

/* What demo does to one node's own gradient, without coding and without messages: decay,
 * accumulate, DCT, the k largest, subtract; then inverse and sign. Nothing is trained
 * with it: the gauge times it, beside demo itself. */

typedef struct wefti_transform wefti_transform;

typedef struct wefti_transform_config {
    const wefti_kernels *kernels;
    int dims, threads;
    int64_t c, k;
} wefti_transform_config;

/* Row i of the gauge's list; false past the last. threads and kernels are not set. */
bool wefti_transform_at(int i, wefti_transform_config *out);

/* "transform 4/64". Returns out. */
char *wefti_transform_name(const wefti_transform_config *config, char *out, size_t size);

/* `buckets` are borrowed. Takes 4 bytes per element and 8 per coefficient. [out] *out
 * owned by the caller (wefti_transform_destroy); NULL on failure. */
weft_status wefti_transform_create(weft_ctx *ctx, const wefti_transform_config *config,
                                   const wefti_bucket *buckets, int n_buckets,
                                   wefti_transform **out) WEFT_CHECKED;
void wefti_transform_destroy(wefti_transform *t);

/* Number of coefficients that are kept, over all elements. */
int64_t wefti_transform_values(const wefti_transform *t);

/* x: all buckets, one after another. begin takes the gradient in, end writes the
 * direction. */
void wefti_transform_begin(wefti_transform *t, int bucket, const float *x);
void wefti_transform_end(wefti_transform *t, int bucket, float *x);

/* Times a replicator's phases on one of R nodes that take turns on one thread, so that no
 * node ever waits: the figures that weft bench replicators prints and weft probe writes
 * down. */
typedef struct wefti_gauge wefti_gauge;

typedef struct wefti_gauge_config {
    const wefti_kernels *kernels;
    int R, threads;   /* nodes; threads of a node, as in OpenMP: of the calling thread */
    int64_t n;        /* parameters */
    int64_t n_rounds; /* that count, at least 1 */
    int64_t n_warmup; /* before them */
} wefti_gauge_config;

/* Medians over the rounds, in seconds per parameter. */
typedef struct wefti_gauge_seconds {
    double begin_s, combine_s, end_s;
} wefti_gauge_seconds;

/* Takes about 12 n bytes for each node. [out] *out owned by the caller
 * (wefti_gauge_destroy); NULL on failure. */
weft_status wefti_gauge_create(weft_ctx *ctx, const wefti_gauge_config *config,
                               wefti_gauge **out) WEFT_CHECKED;
void wefti_gauge_destroy(wefti_gauge *g);

/* Measures one replicator; config->threads is the gauge's. */
weft_status wefti_gauge_measure(wefti_gauge *g, const wefti_replicator_config *config,
                                wefti_gauge_seconds *out) WEFT_CHECKED;
