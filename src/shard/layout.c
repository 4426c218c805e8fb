/* SPDX-License-Identifier: MIT */
/* Row blocks: floor(rows s / S) is where rank s begins, so sizes differ by at most one
 * row and nothing is padded. */
#include "shard/layout.h"

#include <string.h>

static int64_t first_row(int64_t rows, int S, int s) { return rows * s / S; }

wefti_layout wefti_layout_make(int n_tensors, const wefti_tensor *tensors, int S, int s) {
    wefti_layout layout = {.n_tensors = n_tensors, .tensors = tensors, .S = S, .s = s};
    for (int t = 0; t < n_tensors; t++)
        layout.n_full += tensors[t].rows * tensors[t].cols;
    layout.n_shard = wefti_layout_shard_floats(&layout, s);
    return layout;
}

int64_t wefti_layout_shard_floats(const wefti_layout *layout, int r) {
    int64_t n = 0;
    for (int t = 0; t < layout->n_tensors; t++) {
        const wefti_tensor *tensor = &layout->tensors[t];
        int64_t begin = first_row(tensor->rows, layout->S, r);
        n += (first_row(tensor->rows, layout->S, r + 1) - begin) * tensor->cols;
    }
    return n;
}

int64_t wefti_layout_largest_shard(const wefti_layout *layout) {
    int64_t largest = 0;
    for (int r = 0; r < layout->S; r++) {
        int64_t n = wefti_layout_shard_floats(layout, r);
        if (n > largest) largest = n;
    }
    return largest;
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

static int64_t shard_bytes(const wefti_layout *layout, int r) {
    return wefti_layout_shard_floats(layout, r) * (int64_t)sizeof(float);
}

weft_status wefti_shard_gather(const wefti_layout *layout, wefti_comm *comm, int64_t tag,
                               const float *shard, float *full) {
    int me = layout->s;
    WEFT_TRY(wefti_comm_send_all(comm, tag, shard, shard_bytes(layout, me)));
    wefti_layout_unpack(layout, me, shard, full);
    for (int k = 1; k < layout->S; k++) {
        int r = (me + k) % layout->S;
        const void *view;
        WEFT_TRY(wefti_comm_receive(comm, r, tag, shard_bytes(layout, r), &view));
        wefti_layout_unpack(layout, r, view, full);
        wefti_comm_release(comm, r, tag);
    }
    return wefti_comm_await(comm, tag);
}

/* staging <- the shards that each rank owns, one after another. */
static weft_status send_blocks(const wefti_layout *layout, wefti_comm *comm, int64_t tag,
                               const float *full, float *staging, const float **mine) {
    for (int r = 0; r < layout->S; r++) {
        wefti_layout_pack(layout, r, full, staging);
        if (r == layout->s)
            *mine = staging;
        else
            WEFT_TRY(wefti_comm_send(comm, r, tag, staging, shard_bytes(layout, r)));
        staging += wefti_layout_shard_floats(layout, r);
    }
    return WEFT_OK;
}

weft_status wefti_shard_reduce(const wefti_layout *layout, wefti_comm *comm, int64_t tag,
                               const wefti_kernels *kernels, const float *full,
                               bool accumulate, float *staging, float *shard) {
    const float *mine = NULL;
    int64_t n = layout->n_shard;
    WEFT_TRY(send_blocks(layout, comm, tag, full, staging, &mine));
    if (!accumulate) memset(shard, 0, (size_t)n * sizeof(float));
    for (int r = 0; r < layout->S; r++) {
        const void *view = mine;
        if (r != layout->s)
            WEFT_TRY(
                wefti_comm_receive(comm, r, tag, shard_bytes(layout, layout->s), &view));
        kernels->accumulate(n, view, shard);
        if (r != layout->s) wefti_comm_release(comm, r, tag);
    }
    return wefti_comm_await(comm, tag);
}
