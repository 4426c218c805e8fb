/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include "data/textfile.h"
#include "token/encode.h"

enum { N_TOKENIZERS = 6 };

/* One of each kind: bytes, trained by both rules, loaded of both kinds. */
static weft_tokenizer *make(weft_ctx *ctx, int which) {
    weft_tokenizer *t = NULL;
    char text[20000];
    mixed_text(11, text, sizeof text, true);
    switch (which) {
    case 0: assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t)); break;
    case 1:
        assert_ok(ctx, weft_tokenizer_train(ctx, text, sizeof text, 400, "gpt2", &t));
        break;
    case 2:
        assert_ok(ctx, weft_tokenizer_train(ctx, text, sizeof text, 500, "llama3", &t));
        break;
    case 3:
        assert_ok(ctx, weft_tokenizer_load(ctx, GOLDEN "tokenizer-gpt2.json", &t));
        break;
    case 4:
        assert_ok(ctx, weft_tokenizer_load(ctx, GOLDEN "tokenizer-llama3.json", &t));
        break;
    default:
        assert_ok(ctx, weft_tokenizer_train(ctx, text, sizeof text, 256, "gpt2", &t));
    }
    return t;
}

TEST_IN(with_ctx, without_leak, any_bytes_come_back_from_their_ids) {
    weft_ctx *ctx = *state;
    char text[6000];
    for (int which = 0; which < N_TOKENIZERS; which++) {
        weft_tokenizer *t = make(ctx, which);
        for (uint64_t seed = 0; seed < 40; seed++) {
            int64_t n = seed == 0 ? 0 : (int64_t)(seed * seed * 3 + seed);
            int32_t *ids;
            int64_t n_ids;
            if (seed % 2)
                random_bytes(seed, text, n);
            else
                mixed_text(seed, text, n, true);
            assert_ok(ctx, weft_tokenizer_encode(ctx, t, text, n, 1, &ids, &n_ids));
            assert_decodes(ctx, t, text, n, ids, n_ids);
            wefti_free(ctx, ids);
        }
        weft_tokenizer_destroy(ctx, t);
    }
}

TEST_IN(with_ctx, without_leak, threads_and_parts_do_not_change_the_ids) {
    weft_ctx *ctx = *state;
    enum { N = 40000 };
    static char text[N];
    for (int which = 0; which < N_TOKENIZERS; which++) {
        weft_tokenizer *t = make(ctx, which);
        for (uint64_t seed = 0; seed < 4; seed++) {
            int32_t *expected, *ids;
            int64_t n_expected, n_ids;
            mixed_text(100 + seed, text, N, seed % 2);
            assert_ok(ctx, wefti_encode(ctx, t, text, N, 1, N, &expected, &n_expected));
            for (int threads = 1; threads <= 4; threads++) {
                int64_t part = (int64_t[]){7, 64, 999, 9000}[(threads + (int)seed) % 4];
                assert_ok(ctx,
                          wefti_encode(ctx, t, text, N, threads, part, &ids, &n_ids));
                assert_int_equal(n_ids, n_expected);
                assert_memory_equal(ids, expected, (size_t)n_ids * sizeof *ids);
                wefti_free(ctx, ids);
            }
            wefti_free(ctx, expected);
        }
        weft_tokenizer_destroy(ctx, t);
    }
}

typedef struct collected {
    int32_t *ids;
    int64_t n, calls;
} collected;

static weft_status collect(weft_ctx *ctx, void *user, const int32_t *ids, int64_t n) {
    collected *c = user;
    WEFT_TRY(wefti_grow(ctx, &c->ids, c->n, c->n + n, sizeof *ids, "ids"));
    memcpy(c->ids + c->n, ids, (size_t)n * sizeof *ids);
    c->n += n;
    c->calls++;
    return WEFT_OK;
}

TEST_IN(with_ctx, without_leak, a_file_in_chunks_gives_the_ids_of_the_whole) {
    weft_ctx *ctx = *state;
    enum { N = 30000 };
    static char text[N];
    static const int64_t chunks[] = {1, 5, 100, 4096, 0};
    for (int which = 0; which < N_TOKENIZERS; which++) {
        weft_tokenizer *t = make(ctx, which);
        int32_t *expected;
        int64_t n_expected;
        mixed_text(200 + (uint64_t)which, text, N, which % 2 == 0);
        write_file(ctx, "text.txt", text, N);
        assert_ok(ctx, wefti_encode(ctx, t, text, N, 1, N, &expected, &n_expected));
        for (int k = 0; k < COUNT(chunks); k++) {
            collected c = {0};
            wefti_encoding how = {
                .tokenizer = t, .threads = 1 + k % 3, .chunk_bytes = chunks[k]};
            assert_ok(ctx, wefti_encode_file(ctx, &how, "text.txt", collect, &c));
            assert_int_equal(c.n, n_expected);
            assert_memory_equal(c.ids, expected, (size_t)c.n * sizeof *c.ids);
            assert_true(chunks[k] == 0 ? c.calls == 1 : c.calls >= N / 4096);
            wefti_free(ctx, c.ids);
        }
        wefti_free(ctx, expected);
        weft_tokenizer_destroy(ctx, t);
    }
}

TEST_IN(with_ctx, without_leak, text_without_a_safe_cut_is_encoded_whole) {
    weft_ctx *ctx = *state;
    enum { N = 5000 };
    char text[N];
    weft_tokenizer *t = make(ctx, 1);
    collected c = {0};
    memset(text, '-', N);
    write_file(ctx, "dashes.txt", text, N);
    wefti_encoding how = {.tokenizer = t, .threads = 2, .chunk_bytes = 16};
    assert_ok(ctx, wefti_encode_file(ctx, &how, "dashes.txt", collect, &c));
    assert_int_equal(c.calls, 1);
    assert_decodes(ctx, t, text, N, c.ids, c.n);
    wefti_free(ctx, c.ids);
    weft_tokenizer_destroy(ctx, t);
}

static int32_t next_number(const char **at) {
    int32_t x = (int32_t)strtol(*at, NULL, 10);
    *at += strcspn(*at, ",");
    if (**at == ',') (*at)++;
    return x;
}

/* Lines of "file hex ids", made by another program (tests/golden/make_tokens.py). */
TEST_IN(with_ctx, without_leak, golden_texts_have_the_ids_of_another_program) {
    weft_ctx *ctx = *state;
    char *lines, loaded[64] = "";
    int64_t n_bytes, checked = 0;
    weft_tokenizer *t = NULL;
    read_file(ctx, GOLDEN "tokenizer-encodings.txt", &lines, &n_bytes);
    for (char *line = strtok(lines, "\n"); line; line = strtok(NULL, "\n"), checked++) {
        char file[64], path[512], hex[1200], list[3000], text[600];
        int32_t *ids;
        int64_t n_ids;
        assert_int_equal(sscanf(line, "%63s %1199s %2999s", file, hex, list), 3);
        if (strcmp(file, loaded) != 0) {
            weft_tokenizer_destroy(ctx, t);
            snprintf(path, sizeof path, "%s%s", GOLDEN, file);
            assert_ok(ctx, weft_tokenizer_load(ctx, path, &t));
            strcpy(loaded, file);
        }
        int64_t n = hex[0] == '-' ? 0 : (int64_t)strlen(hex) / 2;
        for (int64_t i = 0; i < n; i++) {
            char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
            text[i] = (char)strtol(two, NULL, 16);
        }
        assert_ok(ctx, weft_tokenizer_encode(ctx, t, text, n, 1, &ids, &n_ids));
        const char *at = list[0] == '-' ? "" : list;
        for (int64_t k = 0; k < n_ids; k++) {
            assert_true(*at != '\0');
            assert_int_equal(ids[k], next_number(&at));
        }
        assert_int_equal(*at, '\0');
        wefti_free(ctx, ids);
    }
    assert_int_equal(checked, 36);
    weft_tokenizer_destroy(ctx, t);
    wefti_free(ctx, lines);
}

TEST_IN(with_ctx, without_leak, special_tokens_in_text_are_plain_text) {
    weft_ctx *ctx = *state;
    static const char text[] = "<|endoftext|><|begin_of_text|><|end_of_text|>";
    for (int which = 1; which < 5; which++) {
        weft_tokenizer *t = make(ctx, which);
        int32_t *ids;
        int64_t n_ids;
        assert_ok(ctx,
                  weft_tokenizer_encode(ctx, t, text, sizeof text - 1, 1, &ids, &n_ids));
        assert_decodes(ctx, t, text, sizeof text - 1, ids, n_ids);
        assert_true(weft_tokenizer_end(t) >= 0);
        for (int64_t k = 0; k < n_ids; k++) assert_true(ids[k] != weft_tokenizer_end(t));
        wefti_free(ctx, ids);
        weft_tokenizer_destroy(ctx, t);
    }
}

TEST_IN(with_ctx, without_leak, unusable_files_are_refused) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t = make(ctx, 0);
    collected c = {0};
    wefti_encoding how = {.tokenizer = t};
    write_file(ctx, "empty.txt", "", 0);
    assert_refused(ctx, wefti_encode_file(ctx, &how, "empty.txt", collect, &c),
                   WEFT_ERR_FORMAT, "empty.txt is empty");
    assert_refused(ctx, wefti_encode_file(ctx, &how, "none.txt", collect, &c),
                   WEFT_ERR_FILE, "none.txt");
    assert_refused(ctx, wefti_encode_file(ctx, &how, ".", collect, &c), WEFT_ERR_FILE,
                   "not a regular file");
    int32_t *ids;
    int64_t n_ids;
    assert_refused(ctx, weft_tokenizer_encode(ctx, t, "", -1, 1, &ids, &n_ids),
                   WEFT_ERR_ARGUMENT, "-1 bytes");
    assert_int_equal(c.n, 0);
    weft_tokenizer_destroy(ctx, t);
}
