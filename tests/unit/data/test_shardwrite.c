/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "unit/data/datatest.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#include <weft/shard_file.h>

#include "token/vocab.h"

static int files_here(const char *path) {
    int n = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    for (const struct dirent *e; (e = readdir(folder)) != NULL;) n += e->d_name[0] != '.';
    closedir(folder);
    return n;
}

static void empty_folder(weft_ctx *ctx, const char *path) {
    assert_ok(ctx, wefti_file_remove_tree(ctx, path));
    assert_ok(ctx, wefti_file_mkdirs(ctx, path));
}

TEST_IN(with_ctx, without_leak, what_was_appended_is_read) {
    weft_ctx *ctx = *state;
    enum { N = 70000 }; /* more than one buffer */
    static int32_t ids[N], back[N];
    weft_tokenizer *t;
    weft_shard_writer *writer;
    weft_shard *shard;
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    for (int k = 0; k < 2; k++) {
        int64_t vocab = k ? 100000 : 256; /* two and four bytes per token */
        t->vocab = vocab;
        for (int64_t i = 0; i < N; i++) ids[i] = (int32_t)pick(1, i, vocab);
        assert_ok(ctx, weft_shard_writer_create(ctx, "a.bin", t, &writer));
        for (int64_t at = 0, n = 0; at < N; at += n) {
            n = 1 + at / 3 < N - at ? 1 + at / 3 : N - at;
            assert_ok(ctx, weft_shard_writer_append(ctx, writer, ids + at, n));
        }
        assert_ok(ctx, weft_shard_writer_commit(ctx, writer));
        weft_shard_writer_destroy(ctx, writer);
        assert_ok(ctx, weft_shard_open(ctx, "a.bin", t, &shard));
        assert_int_equal(weft_shard_tokens(shard), N);
        weft_shard_read(shard, 0, N, back);
        assert_memory_equal(back, ids, sizeof ids);
        weft_shard_close(ctx, shard);
    }
    t->vocab = 256;
    weft_tokenizer_destroy(ctx, t);
}

/* The golden file was put together by another program from the document. */
TEST_IN(with_ctx, without_leak, the_bytes_are_the_documented_ones) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    weft_shard_writer *writer;
    int32_t ids[100];
    char *expected, *written;
    int64_t n_expected, n_written;
    read_file(ctx, GOLDEN "shard-good.bin", &expected, &n_expected);
    for (int i = 0; i < 100; i++) ids[i] = (unsigned char)expected[64 + 2 * i];
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    assert_ok(ctx, weft_shard_writer_create(ctx, "golden.bin", t, &writer));
    assert_ok(ctx, weft_shard_writer_append(ctx, writer, ids, 100));
    assert_ok(ctx, weft_shard_writer_commit(ctx, writer));
    weft_shard_writer_destroy(ctx, writer);
    read_file(ctx, "golden.bin", &written, &n_written);
    assert_int_equal(n_written, n_expected);
    assert_memory_equal(written, expected, (size_t)n_expected);
    wefti_free(ctx, written);
    wefti_free(ctx, expected);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, without_a_commit_there_is_no_file) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    weft_shard_writer *writer;
    int32_t ids[] = {1, 2, 3}, bad[] = {4, 256}, negative[] = {-1};
    empty_folder(ctx, "aside");
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    assert_ok(ctx, weft_shard_writer_create(ctx, "aside/x.bin", t, &writer));
    assert_ok(ctx, weft_shard_writer_append(ctx, writer, ids, 3));
    weft_shard_writer_destroy(ctx, writer);
    assert_int_equal(files_here("aside"), 0);

    assert_ok(ctx, weft_shard_writer_create(ctx, "aside/x.bin", t, &writer));
    assert_refused(ctx, weft_shard_writer_commit(ctx, writer), WEFT_ERR_ARGUMENT,
                   "no tokens");
    assert_refused(ctx, weft_shard_writer_append(ctx, writer, bad, 2), WEFT_ERR_ARGUMENT,
                   "token 1 of aside/x.bin has the id 256, expected 0 to 255");
    assert_refused(ctx, weft_shard_writer_append(ctx, writer, negative, 1),
                   WEFT_ERR_ARGUMENT, "the id -1");
    weft_shard_writer_destroy(ctx, writer);
    assert_int_equal(files_here("aside"), 0);
    weft_shard_writer_destroy(ctx, NULL);

    assert_refused(ctx, weft_shard_writer_create(ctx, "no/such/x.bin", t, &writer),
                   WEFT_ERR_FILE, "no/such/x.bin");
    assert_null(writer);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, an_old_shard_stays_until_the_commit) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    weft_shard_writer *writer;
    weft_shard *shard;
    int32_t ids[] = {1, 2, 3};
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    for (int64_t n = 2; n <= 3; n++) {
        assert_ok(ctx, weft_shard_writer_create(ctx, "old.bin", t, &writer));
        assert_ok(ctx, weft_shard_writer_append(ctx, writer, ids, n));
        if (n == 3) {
            assert_ok(ctx, weft_shard_open(ctx, "old.bin", t, &shard));
            assert_int_equal(weft_shard_tokens(shard), 2);
            weft_shard_close(ctx, shard);
        }
        assert_ok(ctx, weft_shard_writer_commit(ctx, writer));
        weft_shard_writer_destroy(ctx, writer);
    }
    assert_ok(ctx, weft_shard_open(ctx, "old.bin", t, &shard));
    assert_int_equal(weft_shard_tokens(shard), 3);
    weft_shard_close(ctx, shard);
    weft_tokenizer_destroy(ctx, t);
}

/* A limit on the size of files stands for a disk that is full. */
TEST_IN(with_ctx, without_leak, a_full_disk_leaves_nothing) {
    weft_ctx *ctx = *state;
    enum { N = 300000 };
    static char text[N];
    weft_tokenizer *t;
    struct rlimit before, small;
    int64_t n;
    empty_folder(ctx, "full");
    mixed_text(3, text, N, false);
    write_file(ctx, "full.txt", text, N);
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < 2 * N; limit += N / 4) {
        small = before;
        small.rlim_cur = limit;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        weft_status status = weft_shard_encode_text(ctx, t, "full.txt", "full/x.bin", 2,
                                                    &n);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_refused(ctx, status, WEFT_ERR_FILE, "could not write full/x.bin");
        assert_int_equal(files_here("full"), 0);
    }
    signal(SIGXFSZ, handler);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, a_text_file_becomes_the_shard_of_its_ids) {
    weft_ctx *ctx = *state;
    enum { N = 200000 };
    static char text[N];
    weft_tokenizer *t;
    int32_t *ids, *back;
    char *first = NULL, *second;
    int64_t n_ids, n_tokens, n_first = 0, n_second;
    weft_shard *shard;
    mixed_text(5, text, N, true);
    write_file(ctx, "some.txt", text, N);
    assert_ok(ctx, weft_tokenizer_load(ctx, GOLDEN "tokenizer-llama3.json", &t));
    assert_ok(ctx, weft_tokenizer_encode(ctx, t, text, N, 1, &ids, &n_ids));
    assert_ok(ctx, wefti_alloc_n(ctx, n_ids, sizeof *back, "ids", &back));
    for (int threads = 1; threads <= 3; threads++) {
        n_tokens = 0;
        assert_ok(ctx, weft_shard_encode_text(ctx, t, "some.txt", "some.bin", threads,
                                              &n_tokens));
        assert_int_equal(n_tokens, n_ids);
        assert_ok(ctx, weft_shard_open(ctx, "some.bin", t, &shard));
        assert_int_equal(weft_shard_tokens(shard), n_ids);
        weft_shard_read(shard, 0, n_ids, back);
        assert_memory_equal(back, ids, (size_t)n_ids * sizeof *ids);
        weft_shard_close(ctx, shard);
        read_file(ctx, "some.bin", &second, &n_second);
        if (first) {
            assert_int_equal(n_second, n_first);
            assert_memory_equal(second, first, (size_t)n_first);
            wefti_free(ctx, second);
        } else {
            first = second;
            n_first = n_second;
        }
    }
    wefti_free(ctx, first);
    wefti_free(ctx, ids);
    wefti_free(ctx, back);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, unusable_text_makes_no_shard) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    empty_folder(ctx, "none");
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    write_file(ctx, "nothing.txt", "", 0);
    assert_refused(ctx,
                   weft_shard_encode_text(ctx, t, "nothing.txt", "none/x.bin", 1, NULL),
                   WEFT_ERR_FORMAT, "nothing.txt is empty");
    assert_refused(ctx,
                   weft_shard_encode_text(ctx, t, "absent.txt", "none/x.bin", 1, NULL),
                   WEFT_ERR_FILE, "absent.txt");
    assert_int_equal(files_here("none"), 0);
    weft_tokenizer_destroy(ctx, t);
}
