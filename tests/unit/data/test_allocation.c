/* SPDX-License-Identifier: MIT */
/* Every allocation fails once: each time a clean error, and nothing is left behind. */
#include "unit/data/datatest.h"

#include <unistd.h>

#include <weft/dataset.h>
#include <weft/shard_file.h>

#include "token/encode.h"

enum { N = 3000 };

typedef struct scene {
    weft_ctx *ctx;
    char text[N];
    weft_tokenizer *t;
} scene;

typedef weft_status (*action)(scene *s);

/* Runs an action with allocation k failing, for k = 0, 1, .. until none fails any
 * more. */
static void exhaust(weft_ctx *ctx, action act, int64_t at_least) {
    scene s = {.ctx = ctx};
    mixed_text(17, s.text, N, true);
    write_file(ctx, "scene.txt", s.text, N);
    assert_ok(ctx, weft_tokenizer_load(ctx, GOLDEN "tokenizer-llama3.json", &s.t));
    assert_ok(ctx, weft_shard_encode_text(ctx, s.t, "scene.txt", "scene.bin", 1, NULL));
    int64_t held = weft_ctx_bytes_held(ctx), k = 0;
    for (;; k++) {
        weft_ctx_fail_allocation(ctx, k);
        weft_status status = act(&s);
        weft_ctx_fail_allocation(ctx, -1);
        assert_int_equal(weft_ctx_bytes_held(ctx), held);
        if (status == WEFT_OK) break;
        assert_refused(ctx, status, WEFT_ERR_MEMORY, "could not allocate");
        assert_true(k < 100000);
    }
    assert_true(k >= at_least); /* it did fail that often */
    weft_tokenizer_destroy(ctx, s.t);
}

static weft_status train_gpt2(scene *s) {
    weft_tokenizer *t;
    WEFT_TRY(weft_tokenizer_train(s->ctx, s->text, N, 350, "gpt2", &t));
    weft_tokenizer_destroy(s->ctx, t);
    return WEFT_OK;
}

static weft_status create_bytes(scene *s) {
    weft_tokenizer *t;
    WEFT_TRY(weft_tokenizer_create_bytes(s->ctx, &t));
    weft_tokenizer_destroy(s->ctx, t);
    return WEFT_OK;
}

static weft_status load_gpt2(scene *s) {
    weft_tokenizer *t;
    WEFT_TRY(weft_tokenizer_load(s->ctx, GOLDEN "tokenizer-gpt2.json", &t));
    weft_tokenizer_destroy(s->ctx, t);
    return WEFT_OK;
}

static weft_status save(scene *s) {
    unlink("scene.json");
    weft_status status = weft_tokenizer_save(s->ctx, s->t, "scene.json");
    assert_int_equal(access("scene.json", F_OK) == 0, status == WEFT_OK);
    return status;
}

static weft_status encode_parts(scene *s, int threads) {
    int32_t *ids;
    int64_t n;
    weft_status status = wefti_encode(s->ctx, s->t, s->text, N, threads, 200, &ids, &n);
    assert_int_equal(ids != NULL, status == WEFT_OK);
    wefti_free(s->ctx, ids);
    return status;
}

static weft_status encode_one(scene *s) { return encode_parts(s, 1); }
static weft_status encode_two(scene *s) { return encode_parts(s, 2); }

static weft_status encode_long(scene *s) {
    char text[N];
    int32_t *ids;
    int64_t n;
    memset(text, 'a', N);
    WEFT_TRY(weft_tokenizer_encode(s->ctx, s->t, text, N, 1, &ids, &n));
    wefti_free(s->ctx, ids);
    return WEFT_OK;
}

static weft_status encode_file(scene *s) {
    unlink("out.bin");
    weft_status status = weft_shard_encode_text(s->ctx, s->t, "scene.txt", "out.bin", 1,
                                                NULL);
    assert_int_equal(access("out.bin", F_OK) == 0, status == WEFT_OK);
    return status;
}

static weft_status open_shard(scene *s) {
    weft_shard *shard;
    WEFT_TRY(weft_shard_open(s->ctx, "scene.bin", s->t, &shard));
    weft_shard_close(s->ctx, shard);
    return WEFT_OK;
}

static weft_status open_and_count(scene *s) {
    static const char *const paths[] = {"scene.txt", "scene.bin", "scene-folder"};
    static const double weights[] = {1, 2, 3};
    weft_dataset_config config = {.struct_size = sizeof config,
                                  .paths = paths,
                                  .weights = weights,
                                  .n_paths = 3,
                                  .validation = 0.2,
                                  .T = 8};
    weft_dataset *d;
    double nats;
    WEFT_TRY(weft_dataset_open(s->ctx, &config, s->t, &d));
    weft_status status = weft_dataset_bigram_loss(s->ctx, d, 325, &nats);
    weft_dataset_close(s->ctx, d);
    return status;
}

TEST_IN(with_ctx, without_leak, training_fails_cleanly) {
    exhaust(*state, train_gpt2, 30);
}
TEST_IN(with_ctx, without_leak, the_bytes_tokenizer_fails_cleanly) {
    exhaust(*state, create_bytes, 4);
}
TEST_IN(with_ctx, without_leak, loading_fails_cleanly) { exhaust(*state, load_gpt2, 30); }
TEST_IN(with_ctx, without_leak, saving_fails_cleanly) { exhaust(*state, save, 3); }
TEST_IN(with_ctx, without_leak, encoding_fails_cleanly) {
    exhaust(*state, encode_one, 10);
}
TEST_IN(with_ctx, without_leak, encoding_in_threads_fails_cleanly) {
    exhaust(*state, encode_two, 10);
}
TEST_IN(with_ctx, without_leak, a_long_piece_fails_cleanly) {
    exhaust(*state, encode_long, 8);
}
TEST_IN(with_ctx, without_leak, encoding_a_file_fails_cleanly) {
    exhaust(*state, encode_file, 5);
}
TEST_IN(with_ctx, without_leak, opening_a_shard_fails_cleanly) {
    exhaust(*state, open_shard, 1);
}

TEST_IN(with_ctx, without_leak, opening_a_dataset_fails_cleanly) {
    weft_ctx *ctx = *state;
    assert_ok(ctx, wefti_file_mkdirs(ctx, "scene-folder"));
    char text[300];
    mixed_text(18, text, sizeof text, false);
    write_file(ctx, "scene-folder/a.txt", text, sizeof text);
    write_file(ctx, "scene-folder/b.txt", text, 100);
    exhaust(ctx, open_and_count, 50);
}
