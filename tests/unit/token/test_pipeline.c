/* SPDX-License-Identifier: MIT */
/* Tokenizers with steps give the ids that Hugging Face's library gives (golden files, made by
 * tests/golden/make_steps.py), however a text is cut into parts, chunks and threads. */
#include "unit/data/datatest.h"

#include <unistd.h>

#include <jansson.h>

#include "token/encode.h"
#include "token/vocab.h"

static const char *const names[] = {"gpt2-prefix", "qwen2",     "starcoder",
                                    "neox-spaces", "behaviors", "llama2",
                                    "mistral",     "gemma",     "metaspace-words"};

static weft_tokenizer *load(weft_ctx *ctx, const char *name) {
    char path[512];
    weft_tokenizer *t;
    snprintf(path, sizeof path, "%stokenizer-steps-%s.json", GOLDEN, name);
    assert_ok(ctx, weft_tokenizer_load(ctx, path, &t));
    return t;
}

static void assert_ids(const char *name, const json_t *probe, const int32_t *ids,
                       int64_t n) {
    const json_t *wanted = json_object_get(probe, "ids");
    bool same = n == (int64_t)json_array_size(wanted);
    for (int64_t k = 0; same && k < n; k++)
        same = ids[k] == json_integer_value(json_array_get(wanted, (size_t)k));
    if (!same)
        fail_msg("%s gives other ids for '%s'", name,
                 json_string_value(json_object_get(probe, "text")));
}

TEST_IN(with_ctx, without_leak, ids_are_those_of_the_golden_file) {
    weft_ctx *ctx = *state;
    FILE *file = fopen(GOLDEN "tokenizer-steps.jsonl", "r");
    weft_tokenizer *t = NULL;
    char line[20000], name[80] = "";
    int n_lines = 0;
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); n_lines++) {
        json_t *probe = json_loads(line, 0, NULL);
        const char *wanted = json_string_value(json_object_get(probe, "tokenizer"));
        const json_t *text = json_object_get(probe, "text");
        int32_t *ids;
        int64_t n;
        if (strcmp(wanted, name) != 0) {
            weft_tokenizer_destroy(ctx, t);
            snprintf(name, sizeof name, "%s", wanted);
            t = load(ctx, name);
        }
        assert_ok(ctx,
                  weft_tokenizer_encode(ctx, t, json_string_value(text),
                                        (int64_t)json_string_length(text), 1, &ids, &n));
        assert_ids(name, probe, ids, n);
        wefti_free(ctx, ids);
        json_decref(probe);
    }
    assert_true(n_lines > 300);
    fclose(file);
    weft_tokenizer_destroy(ctx, t);
}

/* Text with words, blanks in rows, tokens that are looked for, and bytes that are not UTF-8. */
static void text_of(uint64_t seed, char *out, int64_t n) {
    mixed_text(seed, out, n, true);
    static const char *const more[] = {"  ",   " warp ",    "<b> ",
                                       "\n\n", "e\xCC\x81", "\xE2\x96\x81",
                                       "</s>", "    ",      "x-y(z) 12"};
    for (int64_t k = 0; k < n / 30; k++) {
        const char *part = more[pick(seed + 1, 2 * k, COUNT(more))];
        int64_t at = pick(seed + 1, 2 * k + 1, n - 16);
        memcpy(out + at, part, strlen(part));
    }
}

TEST_IN(with_ctx, without_leak, parts_and_threads_change_nothing) {
    weft_ctx *ctx = *state;
    enum { N = 12000 };
    static char text[N];
    int cut = 0;
    for (int k = 0; k < COUNT(names); k++) {
        weft_tokenizer *t = load(ctx, names[k]);
        int32_t *whole, *ids;
        int64_t n_whole, n;
        text_of(40 + (uint64_t)k, text, N);
        assert_ok(ctx, wefti_encode(ctx, t, text, N, 1, N, &whole, &n_whole));
        for (int64_t bytes = 1; bytes < 4000; bytes = 3 * bytes + 1) {
            assert_ok(ctx, wefti_encode(ctx, t, text, N, 3, bytes, &ids, &n));
            if (n != n_whole || memcmp(ids, whole, (size_t)n * sizeof *ids) != 0)
                fail_msg("%s, parts of %lld bytes: other ids", names[k],
                         (long long)bytes);
            wefti_free(ctx, ids);
        }
        cut += wefti_encode_ready(t, text, N) > 0;
        wefti_free(ctx, whole);
        weft_tokenizer_destroy(ctx, t);
    }
    assert_true(cut >= 6); /* most kinds can be cut: the test is about something */
}

TEST_IN(with_ctx, without_leak, the_bytes_of_ids_are_the_text) {
    weft_ctx *ctx = *state;
    static const char text[] = "the warp  \n\xF0\x9F\xA7\xB5 \xFF\xC3\xA9 weft<0x0A>";
    static const char *const exact[] = {"qwen2", "gemma"};
    for (int k = 0; k < COUNT(exact); k++) {
        weft_tokenizer *t = load(ctx, exact[k]);
        int32_t *ids;
        int64_t n;
        assert_ok(ctx, weft_tokenizer_encode(ctx, t, text, sizeof text - 1, 1, &ids, &n));
        assert_decodes(ctx, t, text, sizeof text - 1, ids, n);
        wefti_free(ctx, ids);
        weft_tokenizer_destroy(ctx, t);
    }
}

TEST_IN(with_ctx, without_leak, a_copy_is_the_same_file) {
    weft_ctx *ctx = *state;
    for (int k = 0; k < COUNT(names); k++) {
        weft_tokenizer *t = load(ctx, names[k]), *back;
        assert_ok(ctx, weft_tokenizer_save(ctx, t, "copy.json"));
        assert_ok(ctx, weft_tokenizer_load(ctx, "copy.json", &back));
        assert_true(weft_tokenizer_hash(t) == weft_tokenizer_hash(back));
        assert_int_equal(weft_tokenizer_end(t), weft_tokenizer_end(back));
        assert_string_equal(weft_tokenizer_kind(t), "bpe");
        weft_tokenizer_destroy(ctx, t);
        weft_tokenizer_destroy(ctx, back);
    }
}

TEST_IN(with_ctx, without_leak, special_tokens_in_text_are_text) {
    weft_ctx *ctx = *state;
    static const char text[] = "a</s>b<|endoftext|>c<unk>d<s>";
    for (int k = 0; k < COUNT(names); k++) {
        weft_tokenizer *t = load(ctx, names[k]);
        int32_t *ids;
        int64_t n;
        assert_true(weft_tokenizer_end(t) >= 0);
        assert_ok(ctx, weft_tokenizer_encode(ctx, t, text, sizeof text - 1, 1, &ids, &n));
        for (int64_t i = 0; i < n; i++)
            assert_true(ids[i] == (t->pipeline ? t->pipeline->unknown : -1) ||
                        !(t->tokens[ids[i]].flags & WEFTI_TOKEN_SPECIAL));
        wefti_free(ctx, ids);
        weft_tokenizer_destroy(ctx, t);
    }
}

TEST_IN(with_ctx, without_leak, a_folder_with_a_tokenizer_is_one) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t = load(ctx, "llama2"), *found;
    assert_ok(ctx, wefti_file_mkdirs(ctx, "model"));
    assert_ok(ctx, weft_tokenizer_save(ctx, t, "model/tokenizer.json"));
    assert_ok(ctx, weft_tokenizer_open(ctx, "model", &found));
    assert_true(weft_tokenizer_hash(t) == weft_tokenizer_hash(found));
    weft_tokenizer_destroy(ctx, found);
    assert_int_equal(unlink("model/tokenizer.json"), 0);
    assert_refused(ctx, weft_tokenizer_open(ctx, "model", &found), WEFT_ERR_FILE,
                   "model/tokenizer.json");
    weft_tokenizer_destroy(ctx, t);
}

/* Damage anywhere: either refused with a sentence, or a tokenizer that works. */
TEST_IN(with_ctx, without_leak, damaged_files_never_crash) {
    weft_ctx *ctx = *state;
    static const char probe[] = "the  warp<b> \xFF 12.5\n\n e\xCC\x81 \xEF\xBC\xA1";
    for (int which = 0; which < COUNT(names); which++) {
        char path[512], *text;
        int64_t n;
        snprintf(path, sizeof path, "%stokenizer-steps-%s.json", GOLDEN, names[which]);
        read_file(ctx, path, &text, &n);
        for (int64_t k = 0; k < 120; k++) { /* the steps stand at the file's beginning */
            int64_t most = k % 2 && n > 4000 ? 4000 : n, at = pick(31, 2 * k, most);
            char kept = text[at];
            weft_tokenizer *t;
            text[at] = (char)pick(31, 2 * k + 1, 128);
            write_file(ctx, "damaged.json", text, n);
            if (weft_tokenizer_load(ctx, "damaged.json", &t) == WEFT_OK) {
                int32_t *ids;
                int64_t n_ids;
                if (weft_tokenizer_encode(ctx, t, probe, sizeof probe - 1, 1, &ids,
                                          &n_ids) == WEFT_OK) {
                    for (int64_t i = 0; i < n_ids; i++)
                        assert_true(ids[i] >= 0 && ids[i] < weft_tokenizer_vocab(t));
                    wefti_free(ctx, ids);
                }
                weft_tokenizer_destroy(ctx, t);
            }
            weft_ctx_clear(ctx);
            text[at] = kept;
        }
        wefti_free(ctx, text);
    }
}

static weft_status load_and_encode(weft_ctx *ctx, const char *path) {
    static const char text[] = "the warp<b> \xFF 12.5\n\n e\xCC\x81 weft";
    weft_tokenizer *t;
    int32_t *ids;
    int64_t n;
    WEFT_TRY(weft_tokenizer_load(ctx, path, &t));
    weft_status status = weft_tokenizer_encode(ctx, t, text, sizeof text - 1, 1, &ids,
                                               &n);
    if (status == WEFT_OK) wefti_free(ctx, ids);
    weft_tokenizer_destroy(ctx, t);
    return status;
}

/* The first allocations one by one, then with strides: the vocabulary has many alike. */
TEST_IN(with_ctx, without_leak, allocations_that_fail_leave_nothing) {
    weft_ctx *ctx = *state;
    char path[512];
    snprintf(path, sizeof path, "%stokenizer-steps-%s.json", GOLDEN, "neox-spaces");
    int64_t held = weft_ctx_bytes_held(ctx), k = 0, failures = 0;
    weft_status status = WEFT_ERR_MEMORY;
    for (; status != WEFT_OK; k += k < 200 ? 1 : 17) {
        weft_ctx_fail_allocation(ctx, k);
        status = load_and_encode(ctx, path);
        weft_ctx_fail_allocation(ctx, -1);
        assert_int_equal(weft_ctx_bytes_held(ctx), held);
        if (status == WEFT_OK) break;
        assert_int_equal(status, WEFT_ERR_MEMORY);
        failures++;
        weft_ctx_clear(ctx);
    }
    assert_true(failures > 20);
}
