/* SPDX-License-Identifier: MIT */
/* Runs that train a part of a model: adapters of a model that another run saved, and models
 * of which some tensors are frozen; on meshes, resumed, with every kind of method. */
#define _GNU_SOURCE
#include <stdio.h>

#include <weft/inference.h>

#include "training.h"

static outcome base, one, other;

#define LAST "/checkpoints/step-00000012"
#define ADAPTED "model.init=base", "adapter.rank=2", "optimizer.lr=0.01"

static int make_base(void **state) {
    train(&base, "base", false,
          KEYS("method=fsdp", "model.kind=llama", "model.tied=true", "run.seed=4",
               "optimizer.lr=0.01"));
    assert_trained(&base);
    return 0;
}

/* The loss that `weft eval` finds on the run's validation text. */
static double loss_of(const char *folder) {
    weft_ctx *ctx;
    weft_inference *inference;
    weft_dataset *dataset;
    const char *path = "text.txt";
    int64_t n_tokens;
    double loss;
    weft_dataset_config wanted = {.struct_size = sizeof wanted,
                                  .paths = &path,
                                  .n_paths = 1,
                                  .validation = 0.05,
                                  .T = 32,
                                  .seed = 1,
                                  .threads = 1};
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_inference_open(ctx, folder, &inference));
    assert_ok(ctx, weft_dataset_open(ctx, &wanted, weft_inference_tokenizer(inference),
                                     &dataset));
    assert_ok(ctx, weft_inference_evaluate(ctx, inference, dataset, 32, 2048, &loss,
                                           &n_tokens));
    weft_dataset_close(ctx, dataset);
    weft_inference_close(ctx, inference);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
    return loss;
}

static void merge(const char *folder, const char *into) {
    weft_ctx *ctx;
    weft_inference *inference;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, wefti_file_remove_tree(ctx, into));
    assert_ok(ctx, weft_inference_open(ctx, folder, &inference));
    assert_ok(ctx, weft_inference_save(ctx, inference, into));
    assert_int_equal(weft_inference_save(ctx, inference, into), WEFT_ERR_CONFIG);
    weft_inference_close(ctx, inference);
    weft_ctx_destroy(ctx);
}

static void assert_near(double a, double b, double most) {
    if (!(fabs(a - b) <= most)) fail_msg("%.9g and %.9g differ", a, b);
}

/* r (inputs + outputs) for q k v o (32 each) and gate up (32, 128) down: 2 layers, rank 2. */
TEST(adapters_learn_and_are_few) {
    train(&one, "one", false, KEYS("method=fsdp", ADAPTED));
    assert_trained(&one);
    int64_t ffn = one.parameters / 2 / 2 - 4 * 64; /* (32 + F) * 3 */
    assert_true(ffn > 0 && ffn % 3 == 0 && one.parameters * 4 < base.parameters);
    assert_true(one.loss[0] < base.loss[0] - 0.1);
    assert_near(loss_of("one"), one.result.validation_loss, 1e-5);
    merge("one", "merged");
    assert_near(loss_of("merged"), loss_of("one"), 0);
    assert_true(loss_of("merged") < loss_of("base"));
}

TEST(adapters_learn_the_same_on_every_mesh) {
    train(&one, "one", false, KEYS("method=fsdp", ADAPTED, "mesh.overlap=true"));
    static const char *const meshes[][2] = {{"mesh.nodes=2", "mesh.ranks_per_node=1"},
                                            {"mesh.nodes=1", "mesh.ranks_per_node=4"}};
    assert_trained(&one);
    for (int m = 0; m < 2; m++) {
        train(&other, "other", false,
              KEYS("method=hsdp", ADAPTED, meshes[m][0], meshes[m][1],
                   m == 1 ? "mesh.keep_whole=true" : "mesh.min_message=0"));
        assert_trained(&other);
        for (int i = 0; i < 12; i++) assert_near(other.loss[i], one.loss[i], 2e-4);
        for (int i = 0; i < 12; i++)
            assert_int_equal(other.wire[i], other.wire_predicted);
    }
    train(&one, "one", false, KEYS("method=hsdp", ADAPTED, "mesh.nodes=2"));
    train(&other, "other", false, KEYS("method=hsdp", "model.init=base", "mesh.nodes=2"));
    assert_trained(&other);
    assert_true(one.wire[0] * 4 < other.wire[0]);
}

static void check_resume(const char *const *keys, const char *file) {
    char a[128], b[128];
    train(&one, "whole", false, keys);
    assert_trained(&one);
    other.stop_after = 5;
    train(&other, "part", false, keys);
    assert_trained(&other);
    assert_true(other.result.stopped);
    other.stop_after = 0;
    train(&other, "part", true, keys);
    assert_trained(&other);
    snprintf(a, sizeof a, "whole" LAST "/%s", file);
    snprintf(b, sizeof b, "part" LAST "/%s", file);
    assert_same_file(a, b);
}

/* Masks are of the step, the global row and the place: ranks draw what one rank does; and of no
 * other step. Evaluation drops nothing. */
TEST(dropout_of_adapters_is_the_same_on_every_mesh) {
    train(&one, "one", false, KEYS("method=fsdp", ADAPTED));
    assert_trained(&one);
    double loss = one.loss[11];
    train(&one, "one", false, KEYS("method=fsdp", ADAPTED, "adapter.dropout=0.25"));
    assert_trained(&one);
    assert_true(fabs(one.loss[11] - loss) > 1e-4);
    assert_near(loss_of("one"), one.result.validation_loss, 1e-5);
    train(&other, "other", false,
          KEYS("method=hsdp", ADAPTED, "adapter.dropout=0.25", "mesh.nodes=2",
               "mesh.ranks_per_node=2", "model.recompute=true"));
    assert_trained(&other);
    for (int i = 0; i < 12; i++) assert_near(other.loss[i], one.loss[i], 2e-4);
    assert_near(other.loss[11], one.loss[11], fabs(one.loss[11] - loss) / 4);
    check_resume(KEYS("method=fsdp", ADAPTED, "adapter.dropout=0.25"),
                 "adapter_model.safetensors");
}

/* As PEFT does: the rate is the adapter's, and who goes on from it drops as much. */
TEST(dropout_comes_with_an_adapter) {
    static const char rate[] = "\"lora_dropout\": 0.25";
    int64_t n;
    char *json = slurp("whole" LAST "/adapter_config.json", &n); /* of the test before */
    assert_non_null(strstr(json, rate));
    free(json);
    train(&one, "on", false,
          KEYS("method=fsdp", "model.init=base", "adapter.init=whole" LAST));
    assert_trained(&one);
    train(&other, "other", false,
          KEYS("method=fsdp", "model.init=base", "adapter.init=whole" LAST,
               "adapter.dropout=0"));
    assert_trained(&other);
    assert_true(one.loss[0] != other.loss[0]);
    json = slurp("on" LAST "/adapter_config.json", &n);
    assert_non_null(strstr(json, rate));
    free(json);
}

TEST(every_method_moves_adapters) {
    static const char *const methods[] = {"topk",   "powersgd",   "dadam",
                                          "diloco", "sparseloco", "muloco"};
    char method[64];
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        snprintf(method, sizeof method, "method=%s", methods[i]);
        train(&one, "one", false,
              KEYS(method, "model.init=base", "adapter.rank=2", "mesh.nodes=2",
                   "mesh.ranks_per_node=2", "run.eval_tokens=256"));
        if (one.status != WEFT_OK) fail_msg("%s: %s", methods[i], one.message);
        assert_true(isfinite(one.loss[11]) && one.loss[11] != one.loss[0]);
    }
}

TEST(a_stopped_run_resumes_to_the_same_bits) {
    check_resume(
        KEYS("method=flexdemo", ADAPTED, "mesh.nodes=2", "mesh.ranks_per_node=2"),
        "adapter_model.safetensors");
    check_resume(KEYS("method=hsdp", "model.init=base", "model.frozen=@tables",
                      "mesh.nodes=2", "mesh.ranks_per_node=2"),
                 "model.safetensors");
    check_resume(KEYS("method=fsdp", "model.kind=phi3", "model.frozen=*.k_proj.*"),
                 "model.safetensors");
}

TEST(another_base_is_refused) {
    train(&other, "second", false,
          KEYS("method=fsdp", "model.kind=llama", "model.tied=true", "run.seed=9"));
    one.stop_after = 5;
    train(&one, "part", false, KEYS("method=fsdp", ADAPTED));
    one.stop_after = 0;
    train(&one, "part", true, KEYS("method=fsdp", ADAPTED, "model.init=second"));
    assert_int_equal(one.status, WEFT_ERR_CONFIG);
    assert_non_null(strstr(one.message, "were trained on a model with checksum"));
}

/* Every tensor of a frozen name has the base's bytes, every other one has moved. */
TEST(what_is_frozen_stays) {
    train(&one, "one", false,
          KEYS("method=hsdp", "model.init=base", "model.frozen=[\"@tables\", \"*.0.*\"]",
               "mesh.nodes=2", "mesh.ranks_per_node=2"));
    assert_trained(&one);
    assert_near(loss_of("one"), one.result.validation_loss, 1e-5);
    int64_t n_a, n_b, equal = 0;
    char *a = slurp("base" LAST "/model.safetensors", &n_a);
    char *b = slurp("one" LAST "/model.safetensors", &n_b);
    assert_int_equal(n_a, n_b);
    for (int64_t i = 0; i + 4 <= n_a; i += 4) equal += memcmp(a + i, b + i, 4) == 0;
    int64_t frozen = base.parameters - one.parameters;
    assert_true(frozen > 0 && equal >= frozen && equal < frozen + n_a / 4 / 20);
    free(a);
    free(b);
}

static void assert_refused(const char *const *keys, const char *words) {
    train(&one, "one", false, keys);
    assert_int_equal(one.status, WEFT_ERR_CONFIG);
    if (!strstr(one.message, words)) fail_msg("%s", one.message);
}

TEST(keys_that_contradict_are_refused) {
    assert_refused(KEYS("adapter.rank=2"), "names no model");
    assert_refused(KEYS("adapter.alpha=4"), "adapter.rank is 0");
    assert_refused(KEYS("adapter.dropout=0.1"), "adapter.rank is 0");
    assert_refused(KEYS(ADAPTED, "model.frozen=@tables"), "model.frozen is set");
    assert_refused(KEYS(ADAPTED, "adapter.targets=wq"), "'wq'");
}

#define LOOSE "model.init=loose", "adapter.rank=2", "optimizer.lr=0.01"
#define SAVED "adapter.save=[lm_head, model.norm]"

/* Modules that are trained whole beside adapters begin as the base is, move, and are found again
 * by whoever loads the adapter. */
TEST(what_is_saved_whole_is_trained_too) {
    train(&base, "loose", false,
          KEYS("method=fsdp", "model.kind=llama", "model.tied=false"));
    assert_trained(&base);
    train(&other, "other", false, KEYS("method=fsdp", LOOSE));
    assert_trained(&other);
    train(&one, "one", false,
          KEYS("method=hsdp", LOOSE, SAVED, "mesh.nodes=2", "mesh.ranks_per_node=2"));
    assert_trained(&one);
    assert_near(one.loss[0], other.loss[0], 1e-5);
    assert_int_equal(one.parameters, other.parameters + 256 * 32 + 32);
    assert_true(one.loss[11] < other.loss[11]); /* it can do more */
    assert_near(loss_of("one"), one.result.validation_loss, 1e-5);
    merge("one", "merged");
    assert_near(loss_of("merged"), loss_of("one"), 0);
    train(&other, "other", false,
          KEYS("method=fsdp", "model.init=loose", "adapter.init=one" LAST));
    assert_trained(&other);
    assert_int_equal(other.parameters, one.parameters);
    check_resume(KEYS("method=flexdemo", LOOSE, SAVED, "mesh.nodes=2"),
                 "adapter_model.safetensors");
    assert_refused(KEYS(LOOSE, "adapter.save=lm_haed"), "'lm_haed', which no module is");
    assert_refused(KEYS("adapter.save=lm_head"), "adapter.rank is 0");
    assert_refused(KEYS(ADAPTED, "adapter.save=embed_tokens"), "which the head shares");
}

TEST(an_adapter_is_gone_on_from) {
    train(&one, "one", false, KEYS("method=fsdp", ADAPTED, "adapter.alpha=6"));
    assert_trained(&one);
    train(&other, "other", false,
          KEYS("method=fsdp", "model.init=base", "adapter.init=one" LAST));
    assert_trained(&other);
    assert_int_equal(other.parameters, one.parameters);
    train(&one, "merged_on", false, KEYS("method=fsdp", "model.init=one"));
    assert_true(one.status != WEFT_OK && strstr(one.message, "weft merge"));
    merge("one", "merged");
    train(&one, "merged_on", false, KEYS("method=fsdp", "model.init=merged"));
    assert_trained(&one);
    assert_near(one.loss[0], other.loss[0], 1e-5);
}

/* GPT-NeoX's head is embed_out in files of models and lm_head in adapters, as PEFT has it since
 * transformers 5; both are understood. */
TEST(a_head_is_found_by_both_of_its_names) {
    int64_t n;
    train(&base, "neox", false,
          KEYS("method=fsdp", "model.kind=gpt_neox", "model.tied=false"));
    assert_trained(&base);
    train(&one, "one", false,
          KEYS("method=fsdp", "model.init=neox", "adapter.rank=2",
               "adapter.save=embed_out"));
    assert_trained(&one);
    char *json = slurp("one" LAST "/adapter_config.json", &n);
    assert_true(strstr(json, "\"lm_head\"") && !strstr(json, "embed_out"));
    free(json);
    train(&other, "other", false,
          KEYS("method=fsdp", "model.init=neox", "adapter.init=one" LAST));
    assert_trained(&other);
    assert_int_equal(other.parameters, one.parameters);
}

int main(void) { return check_run(make_base, NULL); }
