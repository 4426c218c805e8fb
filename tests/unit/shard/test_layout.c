/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "ranks.h"
#include "shard/layout.h"
#include "reference/reference.h"

static const wefti_tensor tensors[] = {
    {7, 3, 0, true}, {5, 1, 21, false}, {1, 4, 26, true}, {16, 2, 30, true}};
enum { N_TENSORS = 4, FULL = 62 };

TEST(shards_are_disjoint_row_blocks_that_cover_everything) {
    for (int S = 1; S <= 9; S++) {
        float full[FULL], back[FULL], shard[FULL];
        int64_t n = 0;
        for (int i = 0; i < FULL; i++) full[i] = (float)i, back[i] = -1;
        for (int s = 0; s < S; s++) {
            wefti_layout layout = wefti_layout_make(N_TENSORS, tensors, S, s);
            assert_int_equal(layout.n_full, FULL);
            for (int t = 0; t < N_TENSORS; t++) {
                wefti_block block = wefti_layout_block(&layout, s, t);
                assert_true(block.n_rows >= tensors[t].rows / S);
                assert_true(block.n_rows <= tensors[t].rows / S + 1);
            }
            wefti_layout_pack(&layout, s, full, shard);
            wefti_layout_unpack(&layout, s, shard, back);
            n += layout.n_shard;
        }
        assert_int_equal(n, FULL);
        assert_memory_equal(full, back, sizeof full);
    }
}

static weft_status gather_and_reduce(rank_env *env) {
    int S = env->shard->size, s = env->shard->rank;
    wefti_layout layout = wefti_layout_make(N_TENSORS, tensors, S, s);
    float full[FULL], shard[FULL], gathered[FULL], staging[FULL], sum[FULL];
    for (int i = 0; i < FULL; i++) full[i] = (float)i, sum[i] = 100;
    wefti_layout_pack(&layout, s, full, shard);
    WEFT_TRY(wefti_shard_gather(&layout, env->shard, 1, shard, gathered));
    if (memcmp(gathered, full, sizeof full) != 0) return WEFT_ERR_INTERNAL;
    for (int i = 0; i < FULL; i++) full[i] = (float)(i * (s + 1));
    for (int round = 0; round < 2; round++) {
        WEFT_TRY(wefti_shard_reduce(&layout, env->shard, 2 + round,
                                    &wefti_kernels_reference, full, round > 0, staging,
                                    sum));
        for (int64_t i = 0; i < layout.n_shard; i++) {
            float wanted = shard[i] * (float)(S * (S + 1) / 2 * (round + 1));
            if (sum[i] != wanted)
                return weft_ctx_fail(env->ctx, WEFT_ERR_INTERNAL, "sum");
        }
    }
    return WEFT_OK;
}

TEST(gather_and_reduce_are_inverse_to_splitting) {
    for (int S = 1; S <= 8; S++)
        run_ranks(2, S, (wefti_wire_model){0, 0}, gather_and_reduce, NULL, NULL);
}
