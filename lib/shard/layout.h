/* SPDX-License-Identifier: MIT */
#pragma once

#include <weft/ctx.h>

#include "comm/comm.h"
#include "kernels/kernels.h"

/* How one unit's parameters are split over the S ranks of a node: each tensor along its
 * first dimension in row blocks, rank s holding rows [rows*s/S, rows*(s+1)/S). A shard is
 * those blocks one after another, in the order of the tensors; a shard of a matrix is a
 * matrix. */

typedef struct wefti_tensor {
    int64_t rows, cols;
    int64_t full_offset; /* in the unit's full buffer */
    bool decays;
} wefti_tensor;

/* The block of one tensor that one rank holds. */
typedef struct wefti_block {
    int64_t row_begin, n_rows, cols;
    int64_t full_offset;  /* of the block's first element in the full buffer */
    int64_t shard_offset; /* in the shard */
    bool decays;
} wefti_block;

typedef struct wefti_layout {
    int n_tensors;
    const wefti_tensor *tensors; /* borrowed */
    int S, s;
    int64_t n_full, n_shard; /* floats of the unit, and of this rank's shard */
} wefti_layout;

wefti_layout wefti_layout_make(int n_tensors, const wefti_tensor *tensors, int S, int s);

/* Rank r's block of tensor t. */
wefti_block wefti_layout_block(const wefti_layout *layout, int r, int t);

/* Copies rank r's blocks out of, or into, a full buffer. */
void wefti_layout_pack(const wefti_layout *layout, int r, const float *full,
                       float *shard);
void wefti_layout_unpack(const wefti_layout *layout, int r, const float *shard,
                         float *full);

/* full <- every rank's shard. Collective over the shard group; sends (S-1) shards. */
weft_status wefti_shard_gather(const wefti_layout *layout, wefti_comm *comm, int64_t tag,
                               const float *shard, float *full) WEFT_CHECKED;

/* shard <- (accumulate ? shard : 0) + the sum over ranks, in rank order, of their full
 * buffers' blocks. `staging`: n_full floats. Collective over the shard group; sends about
 * (S-1)/S of the unit. */
weft_status wefti_shard_reduce(const wefti_layout *layout, wefti_comm *comm, int64_t tag,
                               const wefti_kernels *kernels, const float *full,
                               bool accumulate, float *staging,
                               float *shard) WEFT_CHECKED;
