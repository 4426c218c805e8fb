/* SPDX-License-Identifier: MIT */
#pragma once

#include "tensor/kernels.h"

/* A kernel table that does what another one does, call for call, and notes the time, the
 * arithmetic and the memory traffic of each call. `weft bench kernels` runs a model's own
 * passes over it, so that what is measured are the calls of a real step, on the memory and
 * with the cache contents of a real step.
 *
 * A product has a line for each shape; any other kernel has one line.
 *
 *     flop    multiplications, additions and divisions of the definition in kernels.h, not
 *             those of the code (what is computed twice or masked is not counted); exp and
 *             tanh count as one
 *     bytes   every array read once, and every array written once, in f32: the least that
 *             can pass between the cache and memory when nothing of it is in the cache */
typedef struct wefti_record {
    const char *kernel; /* lives as long as the program */
    char shape[64];     /* of a product: "x[1024,768] w[768,2304]"; else empty */
    int64_t calls;
    double seconds, flop, bytes; /* of all calls */
} wefti_record;

enum { WEFTI_RECORDS = 96 };

typedef struct wefti_recorder {
    wefti_kernels table;        /* to be used where `under` would be */
    const wefti_kernels *under; /* borrowed: does the work */
    int n;
    wefti_record of[WEFTI_RECORDS]; /* in the order of their first calls */
} wefti_recorder;

/* Prepares r->table. Its kernels note their calls in r if they are called by this thread
 * before wefti_recorder_end; a thread has one recorder at a time. */
void wefti_recorder_begin(wefti_recorder *r, const wefti_kernels *under);
void wefti_recorder_end(void);
