/* SPDX-License-Identifier: MIT */
/* Rows that are prompts with an answer: tokens are the text's, targets the same one place on
 * where they are part of an answer, and -1 elsewhere. Expected texts are written out by hand
 * from the formats' descriptions. */
#include "datatest.h"

#include <zlib.h>

#include <weft/chat.h>
#include <weft/dataset.h>

enum { T = 96 };

static weft_status open_rows(weft_ctx *ctx, const char *path, const char *chat_name,
                             int64_t length, weft_dataset **out) {
    weft_tokenizer *tokenizer;
    weft_chat *chat = NULL;
    assert_ok(ctx, weft_tokenizer_create_bytes(ctx, &tokenizer));
    if (chat_name) assert_ok(ctx, weft_chat_open(ctx, chat_name, NULL, &chat));
    weft_dataset_config config = {.struct_size = sizeof config,
                                  .paths = &path,
                                  .n_paths = 1,
                                  .validation_paths = &path,
                                  .n_validation_paths = 1,
                                  .rows = WEFT_ROWS_PROMPTS,
                                  .chat = chat,
                                  .T = length};
    weft_status status = weft_dataset_open(ctx, &config, tokenizer, out);
    weft_chat_destroy(ctx, chat);
    weft_tokenizer_destroy(ctx, tokenizer);
    return status;
}

/* The row's text is `text`, and what `counts` has a '^' under is a target. */
static void assert_row(weft_ctx *ctx, const char *path, const char *chat,
                       const char *text, const char *counts) {
    weft_dataset *d;
    int32_t tokens[T], targets[T];
    int64_t n = (int64_t)strlen(text), counted = 0;
    assert_int_equal(strlen(counts), n);
    assert_ok(ctx, open_rows(ctx, path, chat, T, &d));
    assert_int_equal(weft_dataset_validation_rows(d), 1);
    weft_dataset_validation_batch(d, 0, 1, tokens, targets);
    for (int64_t i = 0; i < T; i++) {
        if (i < n) assert_int_equal(tokens[i], (unsigned char)text[i]);
        bool is = i + 1 < n && counts[i + 1] == '^';
        assert_int_equal(targets[i], is ? (unsigned char)text[i + 1] : -1);
        counted += is;
    }
    assert_int_equal(weft_dataset_validation_targets(d, 0, 1), counted);
    weft_dataset_close(ctx, d);
}

static const char conversation[] = "{\"messages\": [{\"role\": \"user\", \"content\": "
                                   "\"hi\"}, {\"role\": \"assistant\", "
                                   "\"content\": \"yo\"}, {\"role\": \"user\", "
                                   "\"content\": \"so\"}, {\"role\": \"assistant\", "
                                   "\"content\": \"ok\"}]}\n";

TEST_IN(with_ctx, without_leak, what_completes_a_prompt_counts) {
    static const char line[] = "{\"prompt\": \"2+2=\", \"completion\": \" 4\"}\n";
    weft_ctx *ctx = *state;
    write_file(ctx, "a.jsonl", line, sizeof line - 1);
    assert_row(ctx, "a.jsonl", NULL, "2+2= 4\n", "    ^^^");
    assert_row(ctx, "a.jsonl", "text", "2+2= 4",
               "    ^^"); /* of a template, end and all */
    gzFile packed = gzopen("a.jsonl.gz", "wb");
    gzputs(packed, "\r\n{\"completion\": \"\", \"prompt\": \"2+2=\", \"id\": 3}\r\n\n");
    assert_int_equal(gzclose(packed), Z_OK);
    assert_row(ctx, "a.jsonl.gz", NULL, "2+2=\n", "    ^");
}

TEST_IN(with_ctx, without_leak, what_an_assistant_says_counts) {
    weft_ctx *ctx = *state;
    write_file(ctx, "c.jsonl", conversation, (int64_t)strlen(conversation));
    assert_row(ctx, "c.jsonl", "llama2",
               "<s>[INST] hi [/INST] yo </s><s>[INST] so [/INST] ok </s>",
               "                    ^^^^^^^^                    ^^^^^^^^");
    assert_row(ctx, "c.jsonl", "mistral",
               "<s> [INST] hi [/INST] yo</s> [INST] so [/INST] ok</s>",
               "                     ^^^^^^^                  ^^^^^^^");
}

/* Messages that are split in two: what is asked does not count, whoever says it. */
TEST_IN(with_ctx, without_leak, a_prompt_may_hold_answers) {
    static const char line[] =
        "{\"prompt\": [{\"role\": \"assistant\", \"content\": \"yo\"}, {\"role\": "
        "\"user\", "
        "\"content\": \"so\"}], \"completion\": [{\"role\": \"assistant\", \"content\": "
        "\"ok\"}]}\n";
    weft_ctx *ctx = *state;
    write_file(ctx, "b.jsonl", line, (int64_t)strlen(line));
    assert_row(
        ctx, "b.jsonl", "phi3",
        "<|assistant|>\nyo<|end|>\n<|user|>\nso<|end|>\n<|assistant|>\nok<|end|>\n",
        "                                                         ^^^^^^^^^^");
}

/* A row is cut at its end; where nothing that counts would be left there is none. */
TEST_IN(with_ctx, without_leak, long_prompts_are_left_out) {
    static const char lines[] = "{\"prompt\": \"0123456789\", \"completion\": \"a\"}\n"
                                "{\"prompt\": \"0123456\", \"completion\": \"abc\"}\n"
                                "{\"prompt\": \"\", \"completion\": \"abc\"}\n";
    weft_ctx *ctx = *state;
    weft_dataset *d;
    char line[600];
    int32_t tokens[16], targets[16];
    write_file(ctx, "d.jsonl", lines, (int64_t)strlen(lines));
    assert_ok(ctx, open_rows(ctx, "d.jsonl", NULL, 8, &d));
    assert_int_equal(weft_dataset_validation_rows(d), 2);
    weft_dataset_validation_batch(d, 0, 2, tokens, targets);
    assert_int_equal(targets[6], 'a');
    assert_int_equal(targets[7], 'b');
    assert_int_equal(tokens[8], 'a'); /* its first token is nobody's target */
    assert_int_equal(targets[8], 'b');
    assert_int_equal(weft_dataset_validation_targets(d, 0, 2), 2 + 3);
    weft_dataset_describe(d, line, sizeof line);
    assert_non_null(strstr(line, "1 cut to 8, 1 left out"));
    weft_dataset_close(ctx, d);
    assert_int_equal(open_rows(ctx, "d.jsonl", NULL, 1, &d), WEFT_OK);
    weft_dataset_close(ctx, d);
}

static void refuses(weft_ctx *ctx, const char *path, const char *lines,
                    const char *part) {
    weft_dataset *d;
    write_file(ctx, path, lines, (int64_t)strlen(lines));
    assert_true(open_rows(ctx, path, "chatml", 8, &d) != WEFT_OK);
    if (!strstr(weft_ctx_message(ctx), part)) printf("%s\n", weft_ctx_message(ctx));
    assert_non_null(strstr(weft_ctx_message(ctx), part));
    weft_ctx_clear(ctx);
}

TEST_IN(with_ctx, without_leak, other_files_are_refused) {
    weft_ctx *ctx = *state;
    weft_dataset *d;
    refuses(ctx, "e.txt", "{}", "e.txt is not named *.jsonl");
    refuses(ctx, "e.jsonl", "\n{\"prompt\": \"a\"}", "line 2 of e.jsonl has neither");
    refuses(ctx, "e.jsonl", "{\"prompt\": \"a\", \"completion\": []}",
            "line 1 of e.jsonl");
    refuses(ctx, "e.jsonl", "{\"prompt\": \"a\",}", "e.jsonl, line 1: not a JSON object");
    refuses(ctx, "e.jsonl", "{\"messages\": [{\"role\": \"user\"}]}",
            "line 1 of e.jsonl: chatml");
    refuses(ctx, "e.jsonl", "{\"messages\": [1]}", "line 1 of e.jsonl: chatml");
    refuses(ctx, "e.jsonl", "{\"messages\": [], \"tools\": [1]}",
            "has \"tools\", which no");
    refuses(ctx, "e.jsonl", "{\"prompt\": \"0123456789\", \"completion\": \"a\"}",
            "nothing of their answers is left");
    refuses(ctx, "e.jsonl", "\n\n", "has no examples");
    assert_int_equal(open_rows(ctx, "c.jsonl", NULL, 8, &d), WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_ctx_message(ctx), "need a chat template"));
}

TEST_IN(with_ctx, without_leak, every_allocation_may_fail) {
    weft_ctx *ctx = *state;
    weft_dataset *d = NULL;
    weft_status status = WEFT_ERR_MEMORY;
    write_file(ctx, "c.jsonl", conversation, (int64_t)strlen(conversation));
    int64_t before = weft_ctx_bytes_held(ctx);
    for (int64_t k = 0; status != WEFT_OK && k < 3000; k++) {
        weft_tokenizer *tokenizer = NULL;
        weft_chat *chat = NULL;
        const char *path = "c.jsonl";
        weft_ctx_fail_allocation(ctx, k);
        status = weft_tokenizer_create_bytes(ctx, &tokenizer);
        if (status == WEFT_OK) status = weft_chat_open(ctx, "gemma", NULL, &chat);
        weft_dataset_config config = {.struct_size = sizeof config,
                                      .paths = &path,
                                      .n_paths = 1,
                                      .rows = WEFT_ROWS_PROMPTS,
                                      .chat = chat,
                                      .T = T};
        if (status == WEFT_OK) status = weft_dataset_open(ctx, &config, tokenizer, &d);
        if (status != WEFT_OK) assert_int_equal(status, WEFT_ERR_MEMORY);
        if (status == WEFT_OK) weft_dataset_close(ctx, d);
        weft_chat_destroy(ctx, chat);
        weft_tokenizer_destroy(ctx, tokenizer);
        assert_int_equal(weft_ctx_bytes_held(ctx), before);
        weft_ctx_clear(ctx);
    }
    assert_int_equal(status, WEFT_OK);
}
