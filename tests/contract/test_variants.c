/* SPDX-License-Identifier: MIT */
/* The keys that a benchmark prints beside a replicator make that replicator. */
#include "configs.h"
#include "replicate/variants.h"
#include "job/job.h"

static void assert_same(const wefti_replicator_config *found,
                        const wefti_replicator_config *wanted) {
    bool full = strcmp(wanted->kind, "full") == 0;
    assert_string_equal(found->kind, wanted->kind);
    assert_true(found->compression_topk == wanted->compression_topk);
    assert_true(found->compression_chunk == wanted->compression_chunk);
    assert_true(found->compression_rate == wanted->compression_rate);
    assert_true(found->compression_decay == wanted->compression_decay);
    assert_int_equal(found->compression_dims, wanted->compression_dims);
    assert_true(full || found->sign == wanted->sign);
    assert_true(found->ema == wanted->ema && found->alpha == wanted->alpha);
    assert_int_equal(found->route, wanted->route);
    assert_int_equal(found->values, wanted->values);
    assert_int_equal(found->indices, wanted->indices);
    assert_true(found->stochastic == wanted->stochastic);
    assert_true(found->dense_below == wanted->dense_below);
    assert_true(found->every == wanted->every && found->seed == wanted->seed);
}

TEST(the_keys_of_a_variant_make_the_variant) {
    weft_ctx *ctx;
    wefti_replicator_config wanted;
    char keys[320];
    assert_int_equal(ctx_begin(&ctx), 0);
    for (int i = 0; wefti_variant_at(i, &wanted); i++) {
        wefti_job *job;
        weft_config *config = config_with(
            ctx, "mesh.nodes=2 batch.tokens_per_step=512 model.layers=1",
            wefti_variant_keys(&wanted, keys, sizeof keys));
        assert_ok(ctx, wefti_job_create(ctx, config, NULL, 256, &job));
        assert_same(&job->replicator_config, &wanted);
        wefti_job_destroy(ctx, job);
        weft_config_destroy(ctx, config);
    }
    assert_int_equal(ctx_end(ctx), 0);
}
