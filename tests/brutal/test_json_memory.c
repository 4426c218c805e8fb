/* SPDX-License-Identifier: MIT */
/* The JSON library has an allocator of its own: its allocation k fails, for k = 0, 1, 2,
 * ... */

#include "check.h"

#include <limits.h>

#include <jansson.h>

#include <weft/model.h>
#include <weft/tokenizer.h>

#include "base/file.h"
#include "base/memory.h"
#include "checkpoint/folder.h"
#include "checkpoint/safetensors.h"
#include "model/describe.h"
#include "record/metrics.h"

#define GOLDEN WEFT_SOURCE_DIR "/tests/golden/"

static weft_ctx *ctx;
static int64_t allocations_left = -1, blocks;

static void *count_and_allocate(size_t n) {
    if (allocations_left == 0) return NULL;
    if (allocations_left > 0) allocations_left--;
    blocks++;
    return malloc(n);
}

static void count_and_free(void *block) {
    if (!block) return;
    blocks--;
    free(block);
}

static int setup(void **state) {
    json_set_alloc_funcs(count_and_allocate, count_and_free);
    return weft_ctx_create(&ctx) != WEFT_OK;
}

static int teardown(void **state) {
    weft_ctx_destroy(ctx);
    return blocks != 0;
}

/* From the k-th allocation on, all fail: the work fails cleanly, until k is large enough.
 */
static void every_failure_is_clean(weft_status (*work)(void)) {
    int64_t k = 0, held = weft_ctx_bytes_held(ctx), held_blocks = blocks;
    for (;; k += k < 256 ? 1 : 7) { /* a tokenizer has thousands, all alike */
        allocations_left = k;
        weft_status status = work();
        allocations_left = -1;
        assert_int_equal(weft_ctx_bytes_held(ctx), held);
        assert_int_equal(blocks, held_blocks);
        if (status == WEFT_OK) break;
        if (status != WEFT_ERR_MEMORY)
            fail_msg("k = %lld: %s: %s", (long long)k, weft_status_name(status),
                     weft_ctx_message(ctx));
        assert_non_null(strstr(weft_ctx_message(ctx), "memory"));
        weft_ctx_clear(ctx);
    }
    assert_true(k > 5);
}

static weft_status create_and_open(void) {
    static const wefti_tensor_spec specs[] = {{"a", 2, 2, 2, {0}}, {"b", 1, 3, 1, {0}}};
    static const char *const metadata[] = {"k", "v", NULL};
    wefti_safetensors *file;
    WEFT_TRY(wefti_safetensors_create(ctx, "t.safetensors", specs, 2, metadata, &file));
    WEFT_TRY(wefti_safetensors_close(ctx, file));
    WEFT_TRY(wefti_safetensors_open(ctx, "t.safetensors", false, &file));
    return wefti_safetensors_close(ctx, file);
}

TEST_IN(setup, teardown, a_tensor_file) { every_failure_is_clean(create_and_open); }

static weft_status commit_and_verify(void) {
    char path[PATH_MAX], *layout;
    int64_t step;
    WEFT_TRY(wefti_checkpoint_begin(ctx, "checkpoints", 1, path));
    strcat(path, "/file");
    WEFT_TRY(wefti_file_write(ctx, path, "x", 1));
    WEFT_TRY(wefti_checkpoint_commit(ctx, "checkpoints", 1, "{\"a\":[1,2.5,\"b\"]}", 1));
    WEFT_TRY(wefti_checkpoint_latest(ctx, "checkpoints", &step, path));
    WEFT_TRY(wefti_checkpoint_verify(ctx, path, &layout));
    wefti_free(ctx, layout);
    return WEFT_OK;
}

TEST_IN(setup, teardown, a_checkpoint) { every_failure_is_clean(commit_and_verify); }

static weft_status read_metrics(void) {
    static const char *const names[] = {"step", "loss"};
    wefti_metrics *m;
    double *rows;
    int64_t n;
    WEFT_TRY(wefti_metrics_open(ctx, "metrics.jsonl", 2, &m));
    WEFT_TRY(wefti_metrics_close(ctx, m));
    WEFT_TRY(wefti_metrics_read(ctx, "metrics.jsonl", names, 2, &rows, &n));
    wefti_free(ctx, rows);
    return n == 2 ? WEFT_OK
                  : WEFT_ERR_INTERNAL; /* a line must not vanish for want of memory */
}

TEST_IN(setup, teardown, metrics) {
    static const char text[] = "{\"step\":0,\"loss\":1.5}\n{\"step\":1,\"loss\":[\"x\"]}";
    assert_int_equal(wefti_file_write(ctx, "metrics.jsonl", text, sizeof text - 1),
                     WEFT_OK);
    every_failure_is_clean(read_metrics);
}

static weft_status save_and_load_tokenizer(void) {
    weft_tokenizer *first, *second;
    WEFT_TRY(weft_tokenizer_load(ctx, GOLDEN "tokenizer-gpt2.json", &first));
    weft_status status = weft_tokenizer_save(ctx, first, "copy.json");
    weft_tokenizer_destroy(ctx, first);
    WEFT_TRY(status);
    WEFT_TRY(weft_tokenizer_load(ctx, "copy.json", &second));
    weft_tokenizer_destroy(ctx, second);
    return WEFT_OK;
}

TEST_IN(setup, teardown, a_tokenizer) { every_failure_is_clean(save_and_load_tokenizer); }

static weft_status describe_and_read_model(void) {
    const weft_model_config config = {.struct_size = sizeof config,
                                      .kind = "llama",
                                      .vocab = 8,
                                      .context = 4,
                                      .layers = 1,
                                      .width = 4,
                                      .heads = 2,
                                      .kv_heads = 1};
    weft_model_config back = {.struct_size = sizeof back};
    weft_model *model;
    char *json;
    WEFT_TRY(weft_model_create(ctx, &config, &model));
    weft_status status = wefti_describe_decoder(ctx, model, &json);
    weft_model_destroy(ctx, model);
    WEFT_TRY(status);
    size_t n = strlen(json);
    bool whole = n > 2 && strcmp(json + n - 2, "}\n") == 0;
    status = weft_model_config_from_json(ctx, json, (int64_t)n, "it", &back);
    wefti_free(ctx, json);
    if (!whole) return WEFT_ERR_INTERNAL; /* whatever reading says */
    return status;
}

TEST_IN(setup, teardown, a_model) { every_failure_is_clean(describe_and_read_model); }
