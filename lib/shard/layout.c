/* SPDX-License-Identifier: MIT */
/* Row blocks: floor(rows s / S) is where rank s begins, so sizes differ by at most one
 * row and nothing is padded. */
#include "shard/layout.h"

#include <string.h>

#include "collectives/collectives.h"

static int64_t first_row(int64_t rows, int S, int s) { return rows * s / S; }

/* Floats in the shard of rank r, in the form that a split needs
 * (collectives/collectives.h). */
static int64_t shard_floats(const void *of, int r) {
    const wefti_layout *layout = of;
    int64_t n = 0;
    for (int t = 0; t < layout->n_tensors; t++) {
        const wefti_tensor *tensor = &layout->tensors[t];
        int64_t begin = first_row(tensor->rows, layout->S, r);
        n += (first_row(tensor->rows, layout->S, r + 1) - begin) * tensor->cols;
    }
    return n;
}

wefti_layout wefti_layout_make(int n_tensors, const wefti_tensor *tensors, int S, int s) {
    wefti_layout layout = {.n_tensors = n_tensors, .tensors = tensors, .S = S, .s = s};
    for (int t = 0; t < n_tensors; t++)
        layout.n_full += tensors[t].rows * tensors[t].cols;
    layout.n_shard = shard_floats(&layout, s);
    return layout;
}

wefti_block wefti_layout_block(const wefti_layout *layout, int r, int t) {
    wefti_block block = {0};
    int64_t offset = 0;
    for (int i = 0; i <= t; i++) {
        const wefti_tensor *tensor = &layout->tensors[i];
        offset += block.n_rows * block.cols;
        block.row_begin = first_row(tensor->rows, layout->S, r);
        block.n_rows = first_row(tensor->rows, layout->S, r + 1) - block.row_begin;
        block.cols = tensor->cols;
        block.full_offset = tensor->full_offset + block.row_begin * tensor->cols;
        block.decays = tensor->decays;
    }
    block.shard_offset = offset;
    return block;
}

void wefti_layout_pack(const wefti_layout *layout, int r, const float *full,
                       float *shard) {
    for (int t = 0; t < layout->n_tensors; t++) {
        wefti_block b = wefti_layout_block(layout, r, t);
        size_t n_bytes = (size_t)(b.n_rows * b.cols) * sizeof(float);
        memcpy(shard + b.shard_offset, full + b.full_offset, n_bytes);
    }
}

void wefti_layout_unpack(const wefti_layout *layout, int r, const float *shard,
                         float *full) {
    for (int t = 0; t < layout->n_tensors; t++) {
        wefti_block b = wefti_layout_block(layout, r, t);
        size_t n_bytes = (size_t)(b.n_rows * b.cols) * sizeof(float);
        memcpy(full + b.full_offset, shard + b.shard_offset, n_bytes);
    }
}

static void unpack(const void *layout, int r, const float *shard, float *full) {
    wefti_layout_unpack(layout, r, shard, full);
}

weft_status wefti_shard_gather(const wefti_layout *layout, wefti_comm *comm, int64_t tag,
                               const float *shard, float *full) {
    wefti_split split = {shard_floats, layout, unpack};
    return wefti_all_gather(comm, tag, &split, shard, full);
}

weft_status wefti_shard_reduce(const wefti_layout *layout, wefti_comm *comm, int64_t tag,
                               const wefti_kernels *kernels, const float *full,
                               bool accumulate, float *staging, float *shard) {
    wefti_split split = {shard_floats, layout, NULL};
    for (int r = 0; r < layout->S; r++)
        wefti_layout_pack(layout, r, full, staging + wefti_split_at(&split, r));
    if (!accumulate) memset(shard, 0, (size_t)layout->n_shard * sizeof(float));
    return wefti_reduce_scatter(comm, tag, kernels, &split, staging, shard);
}
