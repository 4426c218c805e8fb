/* SPDX-License-Identifier: MIT */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/config.h>
#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/* For a training loop of your own: you compute gradients, weft exchanges them, optimizes
 * and mixes with whatever method the configuration names. Every process holds a whole
 * copy of the parameters.
 *
 *     create -> fill in parameters -> begin
 *     each step: read parameters, write gradients; step
 *     average -> read parameters -> destroy
 *
 * Calls are made by one thread; all but create, ready and destroy are collective over the
 * mesh. After a failure only destroy makes sense (and weft_mesh_fail, so that the others
 * hear of it). */
typedef struct weft_sync weft_sync;

typedef struct weft_sync_tensor {
    const char *name; /* for messages; at most 95 bytes */
    int64_t rows, cols;
    bool decays; /* optimizer.weight_decay acts on it */
} weft_sync_tensor;

/* What a step did. */
typedef struct weft_sync_report {
    int64_t step;           /* steps done */
    double lr;              /* that it was done with */
    double loss;            /* mean of all ranks' in step loss_step; NAN: none known yet.
                               Gossip, which waits for neighbours only, knows eight steps
                               later */
    int64_t loss_step;      /* steps done then */
    int64_t wire_bytes_out; /* payload that this rank sent to other nodes */
    double wait_s;          /* that the exchange held this thread up */
} weft_sync_report;

/* `config` (finished) gives method, mesh (with mesh.shards = 1), optimizer, schedule and
 * run.steps, and is borrowed, like the mesh (NULL: this process alone); data, model and
 * batch do not count. Tensors are exchanged in the order from the last to the first, as
 * backward passes finish them; names are copied. [out] *out owned by the caller; NULL on
 * failure. */
WEFT_API weft_status weft_sync_create(weft_ctx *ctx, weft_mesh *mesh,
                                      const weft_config *config,
                                      const weft_sync_tensor *tensors, int n_tensors,
                                      weft_sync **out) WEFT_CHECKED;
WEFT_API void weft_sync_destroy(weft_sync *sync);

/* [rows,cols] of tensor i, row by row. Parameters may be written before begin; gradients
 * are zero after begin and after each step, and are of the mean over this rank's own
 * examples. NULL if there is no such tensor. */
WEFT_API float *weft_sync_parameters(weft_sync *sync, int i);
WEFT_API float *weft_sync_gradients(weft_sync *sync, int i);

/* Rank 0's parameters become everybody's, and the first step begins. */
WEFT_API weft_status weft_sync_begin(weft_sync *sync) WEFT_CHECKED;

/* Tensor i's gradient is complete for this step: its exchange may begin while others are
 * computed. May be left out. */
WEFT_API weft_status weft_sync_ready(weft_sync *sync, int i) WEFT_CHECKED;

/* All gradients are complete: exchanges, optimizes, mixes. `loss` is this rank's. */
WEFT_API weft_status weft_sync_step(weft_sync *sync, double loss,
                                    weft_sync_report *report) WEFT_CHECKED;

/* After the last step: everybody's parameters become their mean, where methods let them
 * differ. */
WEFT_API weft_status weft_sync_average(weft_sync *sync) WEFT_CHECKED;

#ifdef __cplusplus
}
#endif
#endif
