/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include <math.h>

#include <weft/dataset.h>
#include <weft/shard_file.h>

#include "token/vocab.h"

enum { T = 16, VOCAB = 60000, MOST = 40000 };

/* A tokenizer with so many ids that each token of a test can be told from all others;
 * only good for shards. */
static weft_tokenizer *wide_tokenizer(weft_ctx *ctx) {
    weft_tokenizer *t;
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    for (int64_t id = 256; id < VOCAB; id++) {
        assert_ok(ctx, wefti_vocab_stage(ctx, t, "xyz", 3));
        assert_ok(ctx,
                  wefti_vocab_add_staged(ctx, t, id, id % 10 ? 0 : WEFTI_TOKEN_SPECIAL));
    }
    return t;
}

/* A shard of the ids first, first + 1, .. */
static void write_shard(weft_ctx *ctx, const weft_tokenizer *t, const char *path,
                        int32_t first, int n) {
    static int32_t ids[MOST];
    weft_shard_writer *writer;
    for (int i = 0; i < n; i++) ids[i] = first + i;
    assert_ok(ctx, weft_shard_writer_create(ctx, path, t, &writer));
    assert_ok(ctx, weft_shard_writer_append(ctx, writer, ids, n));
    assert_ok(ctx, weft_shard_writer_commit(ctx, writer));
    weft_shard_writer_destroy(ctx, writer);
}

typedef struct fixture {
    weft_ctx *ctx;
    weft_tokenizer *t;
    weft_dataset_config config;
} fixture;

static const char *const three_paths[] = {"one.bin", "two.bin", "three.bin"};

static fixture make_fixture(weft_ctx *ctx) {
    fixture f = {.ctx = ctx, .t = wide_tokenizer(ctx)};
    write_shard(ctx, f.t, "one.bin", 1000, 995); /* 896 to train on: a multiple of T */
    write_shard(ctx, f.t, "two.bin", 10000, 333);
    write_shard(ctx, f.t, "three.bin", 20000, 5000);
    f.config = (weft_dataset_config){.struct_size = sizeof(weft_dataset_config),
                                     .paths = three_paths,
                                     .n_paths = 3,
                                     .validation = 0.1,
                                     .T = T,
                                     .seed = 7,
                                     .threads = 2};
    return f;
}

static weft_dataset *open_set(const fixture *f) {
    weft_dataset *d;
    assert_ok(f->ctx, weft_dataset_open(f->ctx, &f->config, f->t, &d));
    return d;
}

/* The ids count up, so a row is right if it does, and its targets are one ahead. */
static void assert_row_is_a_window(const int32_t *tokens, const int32_t *targets) {
    for (int i = 0; i < T; i++) {
        assert_int_equal(tokens[i], tokens[0] + i);
        assert_int_equal(targets[i], tokens[i] + 1);
    }
}

TEST_IN(with_ctx, without_leak, each_token_is_a_target_once_per_epoch) {
    fixture f = make_fixture(*state);
    static int hits[VOCAB];
    static const int train[][2] = {{1000, 896}, {10000, 300}, {20000, 4500}};
    weft_dataset *d = open_set(&f);
    int64_t rows = weft_dataset_train_tokens(d) / T;
    assert_int_equal(rows, 895 / T + 299 / T + 4499 / T);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        memset(hits, 0, sizeof hits);
        for (int64_t r = 0; r < rows; r++) {
            int32_t tokens[T], targets[T];
            weft_dataset_train_rows(d, epoch * rows + r, 1, tokens, targets);
            assert_row_is_a_window(tokens, targets);
            for (int i = 0; i < T; i++) hits[targets[i]]++;
        }
        int64_t expected = 0, total = 0;
        for (int s = 0; s < 3; s++) {
            int used = (train[s][1] - 1) / T * T;
            for (int i = 1; i <= used; i++) assert_int_equal(hits[train[s][0] + i], 1);
            expected += used;
        }
        for (int id = 0; id < VOCAB; id++) total += hits[id];
        assert_int_equal(total, expected); /* and nothing else is: no validation token */
    }
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, epochs_and_seeds_have_orders_of_their_own) {
    fixture f = make_fixture(*state);
    weft_dataset *d = open_set(&f);
    f.config.seed = 8;
    weft_dataset *other = open_set(&f);
    int64_t rows = weft_dataset_train_tokens(d) / T;
    int same_epoch = 0, same_seed = 0, in_order = 0;
    int32_t before = 0;
    for (int64_t r = 0; r < rows; r++) {
        int32_t a[T], b[T], c[T], targets[T];
        weft_dataset_train_rows(d, r, 1, a, targets);
        weft_dataset_train_rows(d, rows + r, 1, b, targets);
        weft_dataset_train_rows(other, r, 1, c, targets);
        same_epoch += a[0] == b[0];
        same_seed += a[0] == c[0];
        in_order += a[0] == before + T;
        before = a[0];
    }
    /* each is expected once in all; ten would be a chance of one in 10^7 */
    assert_true(same_epoch < 10 && same_seed < 10 && in_order < 10);
    weft_dataset_close(f.ctx, d);
    weft_dataset_close(f.ctx, other);
    weft_tokenizer_destroy(f.ctx, f.t);
}

/* Two sources of one size must not be read in the same order. */
TEST_IN(with_ctx, without_leak, equal_sources_have_orders_of_their_own) {
    fixture f = make_fixture(*state);
    static const double weights[] = {1, 1};
    int32_t order[2][300];
    int64_t n[2] = {0};
    write_shard(f.ctx, f.t, "one.bin", 30000, 5000);
    write_shard(f.ctx, f.t, "two.bin", 20000, 5000);
    f.config.n_paths = 2;
    f.config.weights = weights;
    weft_dataset *d = open_set(&f);
    for (int64_t r = 0; n[0] < 281 || n[1] < 281; r++) {
        int32_t tokens[T], targets[T];
        weft_dataset_train_rows(d, r, 1, tokens, targets);
        int s = tokens[0] < 30000;
        if (n[s] < 281) order[s][n[s]++] = (tokens[0] - (s ? 20000 : 30000)) / T;
    }
    int same = 0;
    for (int k = 0; k < 281; k++) same += order[0][k] == order[1][k];
    assert_true(same < 10); /* expected: once in all */
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, a_row_depends_on_seed_and_number_alone) {
    fixture f = make_fixture(*state);
    static const double weights[] = {1, 2, 3};
    enum { ROWS = 64 };
    for (int mixed = 0; mixed < 2; mixed++) {
        static int32_t tokens[ROWS * T], targets[ROWS * T], some[ROWS * T],
            more[ROWS * T];
        f.config.weights = mixed ? weights : NULL;
        weft_dataset *d = open_set(&f), *again = open_set(&f);
        weft_dataset_train_rows(d, 1000000000, ROWS, tokens, targets);
        for (int64_t r = ROWS - 1; r >= 0; r--) /* backwards, one by one */
            weft_dataset_train_rows(again, 1000000000 + r, 1, some + r * T, more + r * T);
        assert_memory_equal(some, tokens, sizeof tokens);
        assert_memory_equal(more, targets, sizeof targets);
        weft_dataset_train_rows(again, 1000000000 + 10, 7, some, more);
        assert_memory_equal(some, tokens + 10 * T, 7 * T * sizeof *tokens);
        weft_dataset_close(f.ctx, d);
        weft_dataset_close(f.ctx, again);
    }
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, weights_mix_and_each_source_keeps_its_epochs) {
    fixture f = make_fixture(*state);
    static const double weights[] = {0.5, 0.3, 0.2};
    static const int64_t windows[] = {895 / T, 299 / T, 4499 / T};
    static int seen[3][5000];
    int64_t rows[3] = {0};
    f.config.weights = weights;
    weft_dataset *d = open_set(&f);
    for (int64_t r = 0; r < 20000; r++) {
        int32_t tokens[T], targets[T];
        weft_dataset_train_rows(d, r, 1, tokens, targets);
        assert_row_is_a_window(tokens, targets);
        int s = tokens[0] >= 20000 ? 2 : tokens[0] >= 10000 ? 1 : 0;
        int64_t window = (tokens[0] - (s == 2 ? 20000 : s == 1 ? 10000 : 1000)) / T;
        assert_true(window < windows[s]);
        /* the k-th row of a source is of its epoch k / windows: no window has been
         * seen more often than the epochs begun, or less often than those ended */
        assert_int_equal(seen[s][window]++, rows[s] / windows[s]);
        rows[s]++;
    }
    assert_int_equal(rows[0], 10000);
    assert_int_equal(rows[1], 6000);
    assert_int_equal(rows[2], 4000);
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, validation_is_the_end_of_each_source_in_order) {
    fixture f = make_fixture(*state);
    static int32_t tokens[64 * T], targets[64 * T];
    static const int starts[] = {1896, 10300, 24500}, lengths[] = {99, 33, 500};
    weft_dataset *d = open_set(&f);
    int64_t rows = weft_dataset_validation_rows(d), row = 0;
    assert_int_equal(rows, 98 / T + 32 / T + 499 / T);
    weft_dataset_validation_batch(d, 0, rows, tokens, targets);
    for (int s = 0; s < 3; s++) {
        for (int w = 0; w < (lengths[s] - 1) / T; w++, row++) {
            assert_row_is_a_window(tokens + row * T, targets + row * T);
            assert_int_equal(tokens[row * T], starts[s] + w * T);
        }
    }
    weft_dataset_validation_batch(d, rows - 1, 2, tokens, targets);
    assert_int_equal(tokens[T], 1896); /* after the last row comes the first */
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, validation_files_are_used_whole) {
    fixture f = make_fixture(*state);
    static const char *const paths[] = {"three.bin"};
    static const char *const held_out[] = {"two.bin", "one.bin"};
    int32_t tokens[T], targets[T];
    f.config.paths = paths;
    f.config.n_paths = 1;
    f.config.validation_paths = held_out;
    f.config.n_validation_paths = 2;
    weft_dataset *d = open_set(&f);
    assert_int_equal(weft_dataset_train_tokens(d), 4999 / T * T);
    assert_int_equal(weft_dataset_validation_rows(d), 332 / T + 994 / T);
    weft_dataset_validation_batch(d, 0, 1, tokens, targets);
    assert_int_equal(tokens[0], 10000);
    weft_dataset_validation_batch(d, 332 / T, 1, tokens, targets);
    assert_int_equal(tokens[0], 1000);
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, without_validation_there_are_no_rows_of_it) {
    fixture f = make_fixture(*state);
    int32_t tokens[T] = {5}, targets[T] = {6};
    double nats;
    f.config.validation = 0;
    weft_dataset *d = open_set(&f);
    assert_int_equal(weft_dataset_validation_rows(d), 0);
    weft_dataset_validation_batch(d, 0, 1, tokens, targets);
    assert_int_equal(tokens[0], 5);
    assert_int_equal(targets[0], 6);
    assert_refused(f.ctx, weft_dataset_bigram_loss(f.ctx, d, VOCAB, &nats),
                   WEFT_ERR_ARGUMENT, "no validation part");
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, a_folder_is_one_stream_in_the_order_of_names) {
    fixture f = make_fixture(*state);
    static const char *const paths[] = {"folder"};
    static int32_t tokens[100 * T], targets[100 * T];
    assert_ok(f.ctx, wefti_file_remove_tree(f.ctx, "folder"));
    assert_ok(f.ctx, wefti_file_mkdirs(f.ctx, "folder"));
    for (int k = 0; k < 26; k++) { /* made in another order than that of their names */
        int letter = k * 7 % 26;
        char path[] = "folder/?.bin";
        path[7] = (char)('a' + letter);
        write_shard(f.ctx, f.t, path, 1000 + 65 * letter, 65);
    }
    write_file(f.ctx, "folder/notes.rst", "not data", 8);
    write_file(f.ctx, "folder/.hidden.txt", "not data", 8);
    f.config.paths = paths;
    f.config.n_paths = 1;
    f.config.validation = 0;
    weft_dataset *d = open_set(&f);
    int64_t rows = weft_dataset_train_tokens(d) / T;
    assert_int_equal(rows, (26 * 65 - 1) / T);
    for (int64_t r = 0; r < rows; r++) {
        weft_dataset_train_rows(d, r, 1, tokens, targets);
        assert_row_is_a_window(tokens, targets); /* windows run on across files */
    }
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, text_and_shards_give_the_same_rows) {
    weft_ctx *ctx = *state;
    enum { N = 50000 };
    static char text[N];
    static const char *const as_text[] = {"same.txt"}, *const as_shard[] = {
                                                           "same.tokens"};
    weft_tokenizer *t;
    weft_dataset *a, *b;
    weft_dataset_config config = {.struct_size = sizeof config,
                                  .n_paths = 1,
                                  .validation = 0.2,
                                  .T = T,
                                  .seed = 3,
                                  .threads = 2};
    mixed_text(8, text, N, true);
    write_file(ctx, "same.txt", text, N);
    assert_ok(ctx, weft_tokenizer_train(ctx, text, N, 500, "llama3", &t));
    assert_ok(ctx, weft_shard_encode_text(ctx, t, "same.txt", "same.tokens", 1, NULL));
    config.paths = as_text;
    assert_ok(ctx, weft_dataset_open(ctx, &config, t, &a));
    config.paths = as_shard; /* no .bin: known by its first bytes */
    assert_ok(ctx, weft_dataset_open(ctx, &config, t, &b));
    assert_int_equal(weft_dataset_train_tokens(a), weft_dataset_train_tokens(b));
    for (int64_t r = 0; r < 300; r++) {
        int32_t x[2 * T], y[2 * T];
        weft_dataset_train_rows(a, r, 1, x, x + T);
        weft_dataset_train_rows(b, r, 1, y, y + T);
        assert_memory_equal(x, y, sizeof x);
    }
    double bytes = weft_dataset_bytes_per_token(a);
    assert_true(bytes > 1 && bytes == weft_dataset_bytes_per_token(b));
    weft_dataset_close(ctx, a);
    weft_dataset_close(ctx, b);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, bytes_per_token_leaves_special_tokens_out) {
    fixture f = make_fixture(*state);
    static const char *const paths[] = {"three.bin"};
    f.config.paths = paths;
    f.config.n_paths = 1;
    f.config.validation = 0.2; /* tokens 24000.., windows of 16: targets 24001..24992 */
    weft_dataset *d = open_set(&f);
    double special = 99, all = 992; /* of three bytes each but the special ones */
    assert_true(weft_dataset_bytes_per_token(d) == 3 * (all - special) / all);
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, rows_allocate_nothing) {
    fixture f = make_fixture(*state);
    weft_dataset *d = open_set(&f);
    static int32_t tokens[100 * T], targets[100 * T];
    int64_t before = weft_ctx_allocations(f.ctx);
    weft_dataset_train_rows(d, 5, 100, tokens, targets);
    weft_dataset_validation_batch(d, 0, 20, tokens, targets);
    assert_int_equal(weft_ctx_allocations(f.ctx), before);
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, the_description_is_one_line_that_fits) {
    fixture f = make_fixture(*state);
    static const char *const four[] = {"one.bin", "two.bin", "three.bin", "one.bin"};
    char line[512], cut[20];
    weft_dataset *d = open_set(&f);
    assert_string_equal(
        weft_dataset_describe(d, line, sizeof line),
        "one.bin (weft), two.bin (weft), three.bin (weft): 5664 training and "
        "624 validation tokens, 2.70 bytes each");
    for (size_t size = 1; size <= sizeof cut; size++) {
        memset(cut, 'x', sizeof cut);
        weft_dataset_describe(d, cut, size);
        assert_int_equal(strlen(cut), size - 1);
        assert_memory_equal(cut, line, size - 1);
    }
    weft_dataset_close(f.ctx, d);
    f.config.paths = four;
    f.config.n_paths = 4;
    d = open_set(&f);
    assert_non_null(strstr(weft_dataset_describe(d, line, sizeof line), " and 1 more: "));
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, too_little_text_is_named) {
    fixture f = make_fixture(*state);
    weft_dataset *d;
    write_shard(f.ctx, f.t, "two.bin", 10000, 100);
    f.config.T = 256;
    f.config.validation = 0;
    assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d), WEFT_ERR_CONFIG,
                   "data.length is 256 but two.bin has only 100 training tokens");
    f.config.T = 95;
    f.config.validation = 0.1;
    assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d), WEFT_ERR_CONFIG,
                   "data.length is 95 but two.bin has only 90 training tokens");
    f.config.T = 10;
    assert_refused(
        f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d), WEFT_ERR_CONFIG,
        "data.length is 10 but two.bin has only 10 validation tokens, expected at "
        "least 11");
    f.config.T = 9;
    assert_ok(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d));
    weft_dataset_close(f.ctx, d);
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, senseless_configs_are_refused) {
    fixture f = make_fixture(*state);
    const weft_dataset_config good = f.config;
    weft_dataset *d;
    static const double bad[] = {0, -1, (double)INFINITY, (double)NAN};
    f.config.n_paths = 0;
    assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d), WEFT_ERR_CONFIG,
                   "data.path");
    f.config = good;
    f.config.T = 0;
    assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d), WEFT_ERR_CONFIG,
                   "data.length is 0");
    for (int k = 0; k < 4; k++) {
        double weights[] = {1, bad[k], 1};
        f.config = good;
        f.config.validation = k == 0 ? 1 : k == 1 ? -0.1 : (double)NAN;
        assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d),
                       WEFT_ERR_CONFIG, "data.validation");
        f.config = good;
        f.config.weights = weights;
        assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d),
                       WEFT_ERR_CONFIG, "the weight of two.bin");
    }
    weft_tokenizer_destroy(f.ctx, f.t);
}

TEST_IN(with_ctx, without_leak, unusable_sources_are_refused) {
    fixture f = make_fixture(*state);
    static const char *paths[] = {"one.bin", ""};
    weft_tokenizer *narrow;
    weft_dataset *d;
    f.config.paths = paths;
    f.config.n_paths = 2;
    paths[1] = "nowhere.txt";
    assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d), WEFT_ERR_FILE,
                   "nowhere.txt: No such file");
    paths[1] = "void.txt";
    write_file(f.ctx, "void.txt", "", 0);
    assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d), WEFT_ERR_FORMAT,
                   "void.txt is empty");
    paths[1] = "bare";
    assert_ok(f.ctx, wefti_file_mkdirs(f.ctx, "bare"));
    assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d), WEFT_ERR_FILE,
                   "the folder bare has no *.txt, *.md, *.jsonl, *.csv");
    paths[1] = "/dev/null";
    assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, f.t, &d), WEFT_ERR_FILE,
                   "not a regular file");
    f.config.n_paths = 1;
    assert_ok(f.ctx, weft_tokenizer_create_bytes(f.ctx, &narrow));
    assert_refused(f.ctx, weft_dataset_open(f.ctx, &f.config, narrow, &d),
                   WEFT_ERR_FORMAT, "one.bin was written with another tokenizer");
    assert_null(d);
    weft_tokenizer_destroy(f.ctx, narrow);
    weft_tokenizer_destroy(f.ctx, f.t);
}
