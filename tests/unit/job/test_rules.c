/* SPDX-License-Identifier: MIT */
/* How tensors are moved: the optimizer's keys and groups, and which matrices are wholes. */
#include "check.h"
#include "job/job.h"

static weft_ctx *ctx;
static weft_config *config;
static wefti_job *job;

static weft_status make(const char *kind, const char *const *more) {
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_config_create(ctx, &config));
    static const char *const keys[] = {"model.layers=1",     "model.width=16",
                                       "model.heads=2",      "model.vocab=64",
                                       "data.length=8",      "batch.tokens_per_step=64",
                                       "optimizer.kind=muon"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        assert_ok(ctx, weft_config_set(ctx, config, keys[i]));
    char model[64];
    snprintf(model, sizeof model, "model.kind=%s", kind);
    assert_ok(ctx, weft_config_set(ctx, config, model));
    for (; more && *more; more++) assert_ok(ctx, weft_config_set(ctx, config, *more));
    assert_ok(ctx, weft_config_finish(ctx, config));
    return wefti_job_create(ctx, config, NULL, 64, &job);
}

static void end(void) {
    wefti_job_destroy(ctx, job);
    weft_config_destroy(ctx, config);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

static int number_of(const char *name) {
    for (int i = 0; i < job->model->n_params; i++)
        if (strcmp(job->model->params[i].name, name) == 0) return i;
    fail_msg("there is no %s", name);
    return -1;
}

TEST(the_matrices_of_blocks_are_wholes) {
    assert_ok(ctx, make("gpt2", NULL));
    assert_int_equal(job->optimizer.n_whole, 4);
    assert_false(wefti_job_moves_whole(job, number_of("transformer.wte.weight")));
    assert_false(wefti_job_moves_whole(job, number_of("transformer.wpe.weight")));
    assert_false(wefti_job_moves_whole(job, number_of("transformer.h.0.ln_1.weight")));
    int qkv = number_of("transformer.h.0.attn.c_attn.weight");
    assert_true(wefti_job_moves_whole(job, qkv));
    assert_int_equal(job->model->params[qkv].parts, 3);
    assert_true(job->model->params[qkv].cols_are_outputs);
    int out = number_of("transformer.h.0.mlp.c_proj.weight");
    assert_int_equal(job->model->params[out].parts, 1);
    end();
    assert_ok(ctx, make("llama", NULL));
    assert_int_equal(job->optimizer.n_whole, 7);
    int q = number_of("model.layers.0.self_attn.q_proj.weight");
    assert_false(job->model->params[q].cols_are_outputs);
    assert_false(wefti_job_moves_whole(job, number_of("lm_head.weight")));
    end();
}

TEST(the_first_group_that_has_a_tensor_counts) {
    const char *const keys[] = {
        "optimizer.groups=*.mlp.c_fc.weight lr=0.5 optimizer=accum_adamw, "
        "@matrices decay=0.25,@vectors lr=2 decay=0.125,@tables lr=0.1",
        NULL};
    assert_ok(ctx, make("gpt2", keys));
    const wefti_optimizer_rule *fc =
        &job->optimizer.rules[number_of("transformer.h.0.mlp.c_fc.weight")];
    assert_true(fc->lr == 0.5 && fc->config.weight_decay == 0.1);
    assert_string_equal(fc->ops->name, "accum_adamw");
    assert_int_equal(job->optimizer.most_states->n_states, 3);
    assert_int_equal(job->optimizer.n_whole, 3);
    const wefti_optimizer_rule *proj =
        &job->optimizer.rules[number_of("transformer.h.0.attn.c_proj.weight")];
    assert_true(proj->lr == 1 && proj->config.weight_decay == 0.25);
    assert_string_equal(proj->ops->name, "muon");
    const wefti_optimizer_rule *gain =
        &job->optimizer.rules[number_of("transformer.h.0.ln_1.weight")];
    assert_true(gain->lr == 2 && gain->config.weight_decay == 0.125);
    assert_true(job->optimizer.rules[number_of("transformer.wte.weight")].lr == 0.1);
    end();
}

TEST(groups_that_make_no_sense_are_refused) {
    static const char *const bad[][2] = {
        {"optimizer.groups=@matrices lr=fast", "'lr=fast'"},
        {"optimizer.groups=@matrices lr=", "'lr='"},
        {"optimizer.groups=@matrices lr=-1", "'lr=-1'"},
        {"optimizer.groups=@matrices rate=1", "'rate=1'"},
        {"optimizer.groups=@matrices optimizer=adamm", "'optimizer=adamm'"},
        {"optimizer.groups=@matrices", "settings"},
        {"optimizer.groups=no.such.* lr=1", "no tensor"},
        {"replicator.kind=random", "whole matrices"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const keys[] = {bad[i][0], NULL};
        assert_int_equal(make("gpt2", keys), WEFT_ERR_CONFIG);
        if (!strstr(weft_ctx_message(ctx), bad[i][1]))
            fail_msg("'%s' says: %s", bad[i][0], weft_ctx_message(ctx));
        assert_null(job);
        end();
    }
}

TEST(creation_fails_whole) {
    const char *const keys[] = {"optimizer.groups=@vectors lr=2", NULL};
    assert_ok(ctx, make("gpt2", keys));
    wefti_job_destroy(ctx, job);
    for (int64_t k = 0;; k++) {
        weft_ctx_fail_allocation(ctx, k);
        weft_status status = wefti_job_create(ctx, config, NULL, 64, &job);
        if (status == WEFT_OK) break;
        assert_int_equal(status, WEFT_ERR_MEMORY);
        assert_null(job);
        weft_ctx_clear(ctx);
    }
    weft_ctx_fail_allocation(ctx, -1);
    end();
}
