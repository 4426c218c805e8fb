/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "unit/data/datatest.h"

#include <fcntl.h>
#include <unistd.h>

#include <weft/shard_file.h>

enum { N = 100 }; /* tokens of the golden shards */

static weft_tokenizer *bytes_tokenizer(weft_ctx *ctx) {
    weft_tokenizer *t;
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    return t;
}

TEST_IN(with_ctx, without_leak, golden_shards_of_each_format_are_read) {
    weft_ctx *ctx = *state;
    static const char *const names[][2] = {{"good", "weft"},
                                           {"wide", "weft"},
                                           {"nanogpt", "nanogpt"},
                                           {"llmc-16", "llm.c uint16"},
                                           {"llmc-32", "llm.c uint32"}};
    weft_tokenizer *t = bytes_tokenizer(ctx);
    for (int k = 0; k < COUNT(names); k++) {
        char path[512], text[N];
        int32_t ids[N], some[7];
        weft_shard *shard;
        snprintf(path, sizeof path, "%sshard-%s.bin", GOLDEN, names[k][0]);
        assert_ok(ctx, weft_shard_open(ctx, path, t, &shard));
        assert_int_equal(weft_shard_tokens(shard), N);
        assert_string_equal(weft_shard_format(shard), names[k][1]);
        assert_true(weft_shard_tokenizer_hash(shard) ==
                    (k < 2 ? weft_tokenizer_hash(t) : 0));
        weft_shard_read(shard, 0, N, ids);
        for (int i = 0; i < N; i++) text[i] = (char)ids[i];
        assert_memory_equal(text, "The weaver throws the weft across the warp, ", 44);
        weft_shard_read(shard, 93, 7, some);
        assert_memory_equal(some, ids + 93, sizeof some);
        weft_shard_close(ctx, shard);
    }
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, golden_broken_shards_are_refused) {
    weft_ctx *ctx = *state;
    static const char *const cases[][2] = {
        {"flip", "tokens of"},
        {"short", "100 tokens of 2 bytes, but 198 bytes"},
        {"long", "100 tokens of 2 bytes, but 202 bytes"},
        {"version", "version 2, expected 1"},
        {"other-tokenizer", "hash 0000000000001234 with 256 ids, expected "},
        {"id", "token 100 of"},
        {"nanogpt-odd", "199 bytes"},
        {"nanogpt-id", "the id 300, expected 0 to 255"},
        {"llmc-version", "version 2, expected 1"},
        {"llmc-count", "101 tokens of 2 bytes, but 200 bytes"},
    };
    weft_tokenizer *t = bytes_tokenizer(ctx);
    for (int k = 0; k < COUNT(cases); k++) {
        char path[512];
        weft_shard *shard;
        snprintf(path, sizeof path, "%sshard-broken-%s.bin", GOLDEN, cases[k][0]);
        assert_refused(ctx, weft_shard_open(ctx, path, t, &shard), WEFT_ERR_FORMAT,
                       cases[k][1]);
        assert_null(shard);
    }
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, both_hashes_are_in_the_sentence) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    weft_shard *shard;
    char hash[32];
    assert_ok(ctx, weft_tokenizer_load(ctx, GOLDEN "tokenizer-gpt2.json", &t));
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)weft_tokenizer_hash(t));
    assert_int_equal(weft_shard_open(ctx, GOLDEN "shard-good.bin", t, &shard),
                     WEFT_ERR_FORMAT);
    assert_non_null(strstr(weft_ctx_message(ctx), hash));
    assert_non_null(strstr(weft_ctx_message(ctx), "370755964277c82a")); /* of "bytes" */
    weft_ctx_clear(ctx);
    assert_ok(ctx, weft_shard_open(ctx, GOLDEN "shard-good.bin", NULL, &shard));
    weft_shard_close(ctx, shard);
    weft_tokenizer_destroy(ctx, t);
}

/* Changes one byte of a file in place. */
static void put_byte(const char *path, int64_t at, char byte) {
    int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

TEST_IN(with_ctx, without_leak, every_flipped_bit_is_found) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t = bytes_tokenizer(ctx);
    static const char *const names[] = {GOLDEN "shard-good.bin", GOLDEN "shard-wide.bin"};
    for (int k = 0; k < COUNT(names); k++) {
        char *data;
        int64_t n;
        weft_shard *shard;
        read_file(ctx, names[k], &data, &n);
        write_file(ctx, "flipped.bin", data, n);
        for (int64_t bit = 0; bit < 8 * n; bit++) {
            put_byte("flipped.bin", bit / 8, (char)(data[bit / 8] ^ (1 << bit % 8)));
            assert_refused(ctx, weft_shard_open(ctx, "flipped.bin", t, &shard),
                           WEFT_ERR_FORMAT, "flipped.bin");
            assert_null(shard);
            put_byte("flipped.bin", bit / 8, data[bit / 8]);
        }
        assert_ok(ctx, weft_shard_open(ctx, "flipped.bin", t, &shard));
        weft_shard_close(ctx, shard);
        wefti_free(ctx, data);
    }
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, every_changed_byte_of_the_magic_is_found) {
    weft_ctx *ctx = *state;
    char *data;
    int64_t n;
    weft_shard *shard;
    read_file(ctx, GOLDEN "shard-good.bin", &data, &n);
    write_file(ctx, "magic.bin", data, n);
    for (int at = 0; at < 8; at++) {
        for (int value = 0; value < 256; value++) {
            if ((char)value == data[at]) continue;
            put_byte("magic.bin", at, (char)value);
            /* without a tokenizer even a raw uint16 file of any ids would pass */
            assert_refused(ctx, weft_shard_open(ctx, "magic.bin", NULL, &shard),
                           WEFT_ERR_FORMAT, "damaged");
        }
        put_byte("magic.bin", at, data[at]);
    }
    wefti_free(ctx, data);
}

TEST_IN(with_ctx, without_leak, every_truncation_and_extension_is_found) {
    weft_ctx *ctx = *state;
    char *data;
    int64_t n;
    weft_shard *shard;
    read_file(ctx, GOLDEN "shard-good.bin", &data, &n);
    write_file(ctx, "cut.bin", data, n);
    for (int64_t length = n + 300; length >= 0; length--) {
        assert_int_equal(truncate("cut.bin", length), 0);
        if (length == n) {
            assert_ok(ctx, weft_shard_open(ctx, "cut.bin", NULL, &shard));
            weft_shard_close(ctx, shard);
            continue;
        }
        assert_refused(ctx, weft_shard_open(ctx, "cut.bin", NULL, &shard),
                       WEFT_ERR_FORMAT, "cut.bin");
    }
    wefti_free(ctx, data);
}

TEST_IN(with_ctx, without_leak, headers_that_lie_under_a_good_checksum_are_refused) {
    weft_ctx *ctx = *state;
    static const char *const names[] = {GOLDEN "shard-llmc-16.bin",
                                        GOLDEN "shard-llmc-32.bin"};
    for (int k = 0; k < COUNT(names); k++) {
        char *data;
        int64_t n;
        weft_shard *shard;
        read_file(ctx, names[k], &data, &n);
        memset(data + 8, 0xff, 4); /* a count of 2^32 - 1 */
        write_file(ctx, "lie.bin", data, n);
        assert_refused(ctx, weft_shard_open(ctx, "lie.bin", NULL, &shard),
                       WEFT_ERR_FORMAT, "4294967295 tokens");
        memset(data + 8, 0, 4);
        write_file(ctx, "lie.bin", data, n);
        assert_refused(ctx, weft_shard_open(ctx, "lie.bin", NULL, &shard),
                       WEFT_ERR_FORMAT, "0 tokens");
        write_file(ctx, "lie.bin", data, 1023);
        assert_refused(ctx, weft_shard_open(ctx, "lie.bin", NULL, &shard),
                       WEFT_ERR_FORMAT, "cut off");
        memset(data + 1024, 0xff, 4); /* an id over 2^31 where there is room for one */
        data[8] = 100;
        write_file(ctx, "lie.bin", data, n);
        weft_status status = weft_shard_open(ctx, "lie.bin", NULL, &shard);
        assert_int_equal(status, k == 0 ? WEFT_OK : WEFT_ERR_FORMAT);
        weft_shard_close(ctx, shard);
        weft_ctx_clear(ctx);
        wefti_free(ctx, data);
    }
}

TEST_IN(with_ctx, without_leak, files_that_are_not_there_are_refused) {
    weft_ctx *ctx = *state;
    weft_shard *shard;
    assert_refused(ctx, weft_shard_open(ctx, "none.bin", NULL, &shard), WEFT_ERR_FILE,
                   "none.bin: No such file");
    assert_refused(ctx, weft_shard_open(ctx, ".", NULL, &shard), WEFT_ERR_FILE,
                   "regular file");
}
