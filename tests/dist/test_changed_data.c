/* SPDX-License-Identifier: MIT */
/* A shard is changed in place by somebody else after a run has opened and checked it: whatever
 * reads it next, a step, an evaluation or the baseline, ends with one sentence, and no id reaches
 * the model that the model has no row for. */
#define _DEFAULT_SOURCE
#include <unistd.h>

#include <weft/dataset.h>
#include <weft/inference.h>
#include <weft/shard_file.h>

#include "training.h"

enum { HEADER = 64 }; /* bytes of a shard before its ids */

static outcome run;

static void write_shard(weft_ctx *ctx, const char *path, int n_words) {
    weft_tokenizer *bytes;
    write_text("words.txt", n_words);
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &bytes));
    assert_ok(ctx, weft_shard_encode_text(ctx, bytes, "words.txt", path, 1, NULL));
    weft_tokenizer_destroy(ctx, bytes);
}

static void write_shards(void) {
    weft_ctx *ctx;
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    write_shard(ctx, "train.bin", 20000);
    write_shard(ctx, "held.bin", 2000);
    weft_ctx_destroy(ctx);
}

/* All ids of a shard become 65535: as many bytes as before. */
static void raise_ids(const char *path) {
    struct stat info;
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(fseek(file, HEADER, SEEK_SET), 0);
    for (off_t i = HEADER; i < info.st_size; i++)
        assert_int_equal(fputc(0xFF, file), 0xFF);
    assert_int_equal(fclose(file), 0);
}

static void shorten_training(int64_t step) {
    if (step == 3) assert_int_equal(truncate("train.bin", HEADER + 2), 0);
}
static void raise_training(int64_t step) {
    if (step == 3) raise_ids("train.bin");
}
static void shorten_validation(int64_t step) {
    if (step == 3) assert_int_equal(truncate("held.bin", HEADER + 2), 0);
}
static void raise_validation(int64_t step) {
    if (step == 3) raise_ids("held.bin");
}

static void assert_ends(void (*after_step)(int64_t), const char *keys,
                        const char *sentence) {
    write_shards();
    run.after_step = after_step;
    train(&run, "changed", false,
          KEYS("data.path=train.bin", "data.validation_path=held.bin", "mesh.nodes=2",
               "method=flexdemo", keys));
    run.after_step = NULL;
    assert_int_equal(run.status, WEFT_ERR_FORMAT);
    if (!strstr(run.message, sentence))
        fail_msg("'%s' without '%s'", run.message, sentence);
    assert_true(run.n_steps < 12);
}

TEST(a_step_ends_the_run_in_one_sentence) {
    assert_ends(shorten_training, "run.eval_every=0",
                "has the token -1, expected 0 to 255");
    assert_ends(raise_training, "run.eval_every=0",
                "has the token 65535, expected 0 to 255");
}

TEST(an_evaluation_ends_the_run_in_one_sentence) {
    assert_ends(shorten_validation, "run.eval_every=4",
                "has the token -1, expected 0 to 255");
    assert_ends(raise_validation, "run.eval_every=4",
                "has the token 65535, expected 0 to 255");
}

static void assert_refused(weft_ctx *ctx, weft_status found, weft_status expected,
                           const char *sentence) {
    assert_int_equal(found, expected);
    assert_non_null(strstr(weft_ctx_message(ctx), sentence));
    weft_ctx_clear(ctx);
}

static void open_held(weft_ctx *ctx, weft_tokenizer *bytes, weft_dataset **dataset) {
    const char *path = "train.bin", *held = "held.bin";
    weft_dataset_config config = {.struct_size = sizeof config,
                                  .paths = &path,
                                  .n_paths = 1,
                                  .validation_paths = &held,
                                  .n_validation_paths = 1,
                                  .T = 32};
    assert_ok(ctx, weft_dataset_open(ctx, &config, bytes, dataset));
}

TEST(a_saved_model_is_not_evaluated_on_it) {
    weft_ctx *ctx;
    weft_inference *inference;
    weft_tokenizer *bytes;
    weft_dataset *dataset;
    double loss;
    int64_t n;
    write_shards();
    train(&run, "whole", false,
          KEYS("data.path=train.bin", "run.steps=1", "schedule.warmup=0"));
    assert_trained(&run);
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &bytes));
    assert_ok(ctx, weft_inference_open(ctx, "whole", &inference));
    open_held(ctx, bytes, &dataset);
    assert_ok(ctx, weft_inference_evaluate(ctx, inference, dataset, 32, 0, &loss, &n));
    raise_ids("held.bin");
    assert_refused(ctx,
                   weft_inference_evaluate(ctx, inference, dataset, 32, 0, &loss, &n),
                   WEFT_ERR_FORMAT, "has the token 65535");
    assert_int_equal(truncate("held.bin", HEADER), 0);
    assert_refused(ctx,
                   weft_inference_evaluate(ctx, inference, dataset, 32, 0, &loss, &n),
                   WEFT_ERR_FORMAT, "has the token -1");
    weft_dataset_close(ctx, dataset);
    weft_inference_close(ctx, inference);
    weft_tokenizer_destroy(ctx, bytes);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

TEST(the_baseline_is_not_measured_on_it) {
    weft_ctx *ctx;
    weft_tokenizer *bytes;
    weft_dataset *dataset;
    double nats;
    write_shards();
    assert_int_equal(weft_ctx_create(&ctx), WEFT_OK);
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &bytes));
    open_held(ctx, bytes, &dataset);
    assert_ok(ctx, weft_dataset_bigram_loss(ctx, dataset, 256, &nats));
    assert_int_equal(truncate("train.bin", HEADER + 100), 0);
    assert_refused(ctx, weft_dataset_bigram_loss(ctx, dataset, 256, &nats),
                   WEFT_ERR_ARGUMENT, "the data has the id -1");
    weft_dataset_close(ctx, dataset);
    weft_tokenizer_destroy(ctx, bytes);
    weft_ctx_destroy(ctx);
}
