/* SPDX-License-Identifier: MIT */
#pragma once

#include "tensor/layer_kernels.h"

/* A kernel table that forwards every call to another table and records the time, the
 * arithmetic and the memory traffic of each call. `weft bench kernels` runs the passes of
 * a model with it. So the measured calls are those of a real step, with the memory and
 * the cache contents of a real step.
 *
 * A product has one record for each shape; any other kernel has one record.
 *
 *     flop    multiplications, additions and divisions of the definition of the kernel, not
 *             those of the code (recomputed or masked values are not counted); exp and tanh
 *             count as one
 *     bytes   every array read once, and every array written once, in f32: the minimum
 *             between the cache and memory when nothing of it is in the cache */
typedef struct wefti_record {
    const char *kernel; /* static */
    char shape[64];     /* of a product: "x[1024,768] w[768,2304]"; else empty */
    int64_t calls;
    double seconds, flop, bytes; /* of all calls */
} wefti_record;

enum { WEFTI_RECORDS = 96 };

typedef struct wefti_recorder {
    wefti_kernels table;        /* to be used in place of `under` */
    wefti_layers layers;        /* of that table */
    const wefti_kernels *under; /* borrowed: the table that does the work */
    int n;
    wefti_record of[WEFTI_RECORDS]; /* in the order of their first calls */
} wefti_recorder;

/* Prepares r->table. Its kernels record their calls in r if this thread calls them before
 * wefti_recorder_end. A thread has one recorder at a time. */
void wefti_recorder_begin(wefti_recorder *r, const wefti_kernels *under);
void wefti_recorder_end(void);
