/* SPDX-License-Identifier: MIT */
#include "unit/data/datatest.h"

#include "token/vocab.h"

TEST_IN(with_ctx, without_leak, golden_files_load) {
    weft_ctx *ctx = *state;
    weft_tokenizer *new_file, *old_file, *llama;
    int64_t n;
    assert_ok(ctx, weft_tokenizer_load(ctx, GOLDEN "tokenizer-gpt2.json", &new_file));
    assert_ok(ctx, weft_tokenizer_load(ctx, GOLDEN "tokenizer-gpt2-old.json", &old_file));
    assert_ok(ctx, weft_tokenizer_load(ctx, GOLDEN "tokenizer-llama3.json", &llama));
    assert_int_equal(new_file->rule, WEFTI_RULE_GPT2);
    assert_true(weft_tokenizer_hash(new_file) == weft_tokenizer_hash(old_file));
    assert_int_equal(weft_tokenizer_end(new_file), 320);
    assert_int_equal(weft_tokenizer_vocab(new_file), 321);
    assert_int_equal(llama->rule, WEFTI_RULE_LLAMA3);
    assert_true(llama->ignore_merges);
    assert_int_equal(weft_tokenizer_vocab(llama), 325);
    assert_int_equal(weft_tokenizer_end(llama), 323);
    assert_memory_equal(weft_tokenizer_bytes(llama, 324, &n), "<|reserved 0|>", 14);
    weft_tokenizer_destroy(ctx, new_file);
    weft_tokenizer_destroy(ctx, old_file);
    weft_tokenizer_destroy(ctx, llama);
}

static void assert_comes_back(weft_ctx *ctx, weft_tokenizer *t) {
    weft_tokenizer *back;
    char text[4000];
    int32_t *ids, *ids_back;
    int64_t n, n_back;
    mixed_text(21, text, sizeof text, true);
    assert_ok(ctx, weft_tokenizer_save(ctx, t, "saved.json"));
    assert_ok(ctx, weft_tokenizer_load(ctx, "saved.json", &back));
    assert_true(weft_tokenizer_hash(t) == weft_tokenizer_hash(back));
    assert_int_equal(weft_tokenizer_vocab(t), weft_tokenizer_vocab(back));
    assert_int_equal(weft_tokenizer_end(t), weft_tokenizer_end(back));
    assert_string_equal(weft_tokenizer_kind(t), weft_tokenizer_kind(back));
    assert_ok(ctx, weft_tokenizer_encode(ctx, t, text, sizeof text, 1, &ids, &n));
    assert_ok(ctx,
              weft_tokenizer_encode(ctx, back, text, sizeof text, 1, &ids_back, &n_back));
    assert_int_equal(n, n_back);
    assert_memory_equal(ids, ids_back, (size_t)n * sizeof *ids);
    wefti_free(ctx, ids);
    wefti_free(ctx, ids_back);
    weft_tokenizer_destroy(ctx, t);
    weft_tokenizer_destroy(ctx, back);
}

TEST_IN(with_ctx, without_leak, saved_tokenizers_come_back) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    char text[5000];
    mixed_text(20, text, sizeof text, true);
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &t));
    assert_comes_back(ctx, t);
    assert_ok(ctx, weft_tokenizer_train(ctx, text, sizeof text, 400, "gpt2", &t));
    assert_comes_back(ctx, t);
    assert_ok(ctx, weft_tokenizer_train(ctx, text, sizeof text, 400, "llama3", &t));
    assert_comes_back(ctx, t);
    assert_ok(ctx, weft_tokenizer_train(ctx, text, sizeof text, 256, "gpt2", &t));
    assert_comes_back(ctx, t);
    assert_ok(ctx, weft_tokenizer_load(ctx, GOLDEN "tokenizer-llama3.json", &t));
    assert_comes_back(ctx, t);
}

/* Parts that weft does not use are still there for whoever reads the copy. */
TEST_IN(with_ctx, without_leak, a_copy_keeps_added_tokens_and_post_processor) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    char *saved;
    int64_t n;
    assert_ok(ctx, weft_tokenizer_load(ctx, GOLDEN "tokenizer-llama3.json", &t));
    assert_ok(ctx, weft_tokenizer_save(ctx, t, "copy.json"));
    read_file(ctx, "copy.json", &saved, &n);
    assert_non_null(strstr(saved, "\"TemplateProcessing\""));
    assert_non_null(strstr(saved, "\"<|reserved 0|>\""));
    assert_non_null(strstr(saved, "\"ignore_merges\": true"));
    wefti_free(ctx, saved);
    weft_tokenizer_destroy(ctx, t);
}

TEST_IN(with_ctx, without_leak, a_file_without_merges_is_refused) {
    weft_ctx *ctx = *state;
    weft_tokenizer *t;
    char *text;
    int64_t n;
    read_file(ctx, GOLDEN "tokenizer-gpt2.json", &text, &n);
    char *merges = strstr(text, ",\n\"merges\"");
    assert_non_null(merges);
    strcpy(merges, "}}");
    write_file(ctx, "no-merges.json", text, (int64_t)strlen(text));
    wefti_free(ctx, text);
    assert_refused(ctx, weft_tokenizer_load(ctx, "no-merges.json", &t), WEFT_ERR_FORMAT,
                   "no merges");
    assert_null(t);
}

/* Replaces the first `from` of a golden file by `to`, and loads the result. */
static weft_status load_changed(weft_ctx *ctx, const char *golden, const char *from,
                                const char *to) {
    char *text, *changed;
    int64_t n;
    weft_tokenizer *t;
    read_file(ctx, golden, &text, &n);
    const char *at = strstr(text, from);
    if (!at) fail_msg("%s has no %s", golden, from);
    assert_ok(ctx, wefti_alloc(ctx, (size_t)n + strlen(to) + 1, "text", &changed));
    int length = sprintf(changed, "%.*s%s%s", (int)(at - text), text, to,
                         at + strlen(from));
    write_file(ctx, "changed.json", changed, length);
    wefti_free(ctx, text);
    wefti_free(ctx, changed);
    weft_status status = weft_tokenizer_load(ctx, "changed.json", &t);
    assert_true((status == WEFT_OK) == (t != NULL));
    weft_tokenizer_destroy(ctx, t);
    return status;
}

typedef struct change {
    const char *from, *to, *part;
} change;

TEST_IN(with_ctx, without_leak, unknown_parts_are_refused_by_name) {
    weft_ctx *ctx = *state;
    static const change gpt2[] = {
        {"{", "", "line"},
        {"\"version\"", "\"sauce\"", "unknown part 'sauce'"},
        {"\"normalizer\": null", "\"normalizer\": {\"type\": \"Lowercase\"}",
         "'Lowercase'"},
        {"\"pre_tokenizer\": {\n\"type\": \"ByteLevel\"",
         "\"pre_tokenizer\": {\n\"type\": \"Whitespace\"", "'Whitespace'"},
        {"\"post_processor\": {\n\"type\": \"ByteLevel\"",
         "\"post_processor\": {\n\"type\": \"BertProcessing\"", "'BertProcessing'"},
        {"\"decoder\": {\n\"type\": \"ByteLevel\"",
         "\"decoder\": {\n\"type\": \"WordPiece\"", "'WordPiece'"},
        {"\"type\": \"BPE\"", "\"type\": \"Unigram\"", "'Unigram'"},
        {"\"dropout\": null", "\"dropout\": 0.1", "dropout"},
        {"\"byte_fallback\": false", "\"byte_fallback\": 3", "not true or false"},
        {"\"end_of_word_suffix\": null", "\"end_of_word_suffix\": \"</w>\"", "'</w>'"},
        {"\"fuse_unk\"", "\"fuse\"", "unknown part 'fuse'"},
        {"\"vocab\": {", "\"vocab\": {\"!\": 0,", "duplicate"},
        {"\"!\": 0", "\"!\": 1", "two tokens have the id 1"},
        {"\"!\": 0", "\"!\": -1", "the id -1"},
        {"\"!\": 0", "\"!\": 2000000000", "the id 2000000000"},
        {"\"!\": 0", "\"!\": \"0\"", "no number"},
        {"\"!\": 0", "\"!\": 0, \"\": 700", "is empty"},
        {"\"content\": \"<|endoftext|>\"", "\"content\": \"!\"", "not its id"},
        {"\"content\": \"<|endoftext|>\"", "\"content\": 5", "no content"},
        {"\"id\": 320", "\"id\": 3", "not its id"},
        {"\"merges\": [", "\"merges\": [[\"a\"],", "merge 0 is not"},
        {"\"merges\": [", "\"merges\": [\"a b c\",", "merge 0 is not"},
        {"\"merges\": [", "\"merges\": [[\"q\", \"zz\"],",
         "'zz' is not in the vocabulary"},
        {"\"merges\": [", "\"merges\": [7,", "merge 0 is not"},
        {"\"merges\": [", "\"merges\": [[\"q\", \"q\"],", "joined with its partner"},
        {"\"merges\": [", "\"merges\": [[\"t\", \"h\"],", "were merged before"},
        {"\"id\": 320,\n\"content\": \"<|endoftext|>\"",
         "\"id\": 256, \"content\": \"th\"",
         "merge 0: 't' joined with its partner is a special token"},
        {"\"added_tokens\": [", "\"added_tokens\": 5, \"padding\": [", "line"},
    };
    static const change llama3[] = {
        {"\"type\": \"Split\"", "\"type\": \"Punctuation\"", "'Punctuation'"},
        {"(?i:'s|", "(?i:'s|\\\\h|", "'\\h'"},
        {"(?i:'s|", "(?i:'s|[[a]]|", "'[a' in a class"},
        {"(?i:'s|", "(?i:'s|(", "could not compile"},
        {"\"behavior\": \"Isolated\"", "\"behavior\": \"Merged\"", "'Merged'"},
        {"\"invert\": false", "\"invert\": 1", "not true or false"},
        {"\"Regex\"", "\"Rege\"", "neither a String nor a Regex"},
        {"\"type\": \"TemplateProcessing\"", "\"type\": \"Sequence\"", "no nesting"},
    };
    for (int k = 0; k < COUNT(gpt2); k++)
        assert_refused(
            ctx,
            load_changed(ctx, GOLDEN "tokenizer-gpt2.json", gpt2[k].from, gpt2[k].to),
            WEFT_ERR_FORMAT, gpt2[k].part);
    for (int k = 0; k < COUNT(llama3); k++)
        assert_refused(ctx,
                       load_changed(ctx, GOLDEN "tokenizer-llama3.json", llama3[k].from,
                                    llama3[k].to),
                       WEFT_ERR_FORMAT, llama3[k].part);
    assert_ok(ctx, load_changed(ctx, GOLDEN "tokenizer-gpt2.json", "\"decoder\"",
                                "\"decoder\""));
}

TEST_IN(with_ctx, without_leak, files_that_are_no_tokenizer_are_refused) {
    weft_ctx *ctx = *state;
    static const char *const texts[] = {"",     "{",
                                        "[]",   "{}",
                                        "null", "{\"model\": {}}",
                                        "\xff", "{\"pre_tokenizer\": {\"type\": 3}}"};
    weft_tokenizer *t;
    for (int k = 0; k < COUNT(texts); k++) {
        write_file(ctx, "wrong.json", texts[k], (int64_t)strlen(texts[k]));
        assert_refused(ctx, weft_tokenizer_load(ctx, "wrong.json", &t), WEFT_ERR_FORMAT,
                       "wrong.json: ");
    }
    assert_refused(ctx, weft_tokenizer_load(ctx, "no.json", &t), WEFT_ERR_FILE,
                   "no.json");
    assert_refused(ctx, weft_tokenizer_load(ctx, ".", &t), WEFT_ERR_FILE, "regular file");
}

/* Damage anywhere: either refused with a sentence, or a tokenizer that works. */
TEST_IN(with_ctx, without_leak, damaged_files_never_crash) {
    weft_ctx *ctx = *state;
    char *text;
    int64_t n;
    read_file(ctx, GOLDEN "tokenizer-llama3.json", &text, &n);
    for (int64_t k = 0; k < 1500; k++) {
        int64_t at = pick(31, 2 * k, n);
        char kept = text[at];
        weft_tokenizer *t;
        text[at] = (char)(kept ^ (1 + pick(31, 2 * k + 1, 255)));
        write_file(ctx, "damaged.json", text, k % 3 ? n : at);
        weft_status status = weft_tokenizer_load(ctx, "damaged.json", &t);
        if (status == WEFT_OK) {
            int32_t *ids;
            int64_t n_ids;
            assert_ok(ctx,
                      weft_tokenizer_encode(ctx, t, "the weft 12", 11, 1, &ids, &n_ids));
            assert_decodes(ctx, t, "the weft 12", 11, ids, n_ids);
            wefti_free(ctx, ids);
            weft_tokenizer_destroy(ctx, t);
        } else {
            assert_int_equal(status, WEFT_ERR_FORMAT);
            assert_true(strlen(weft_ctx_message(ctx)) > 20);
        }
        weft_ctx_clear(ctx);
        text[at] = kept;
    }
    wefti_free(ctx, text);
}
