/* SPDX-License-Identifier: MIT */
/* Conversations are written as transformers writes them: tests/golden/chat-formats.jsonl, made by
 * make_chats.py. A model's own template is kept, but not run. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat/format.h"

static const wefti_format *format_of(const json_t *row) {
    const char *name = json_string_value(json_object_get(row, "name"));
    const wefti_format *f = wefti_formats;
    while (f->name && strcmp(f->name, name) != 0) f++;
    assert_non_null(f->name);
    return f;
}

static void check_row(weft_ctx *ctx, const json_t *row) {
    const wefti_format *f = format_of(row);
    const char *jinja = json_string_value(json_object_get(row, "template"));
    const json_t *messages = json_object_get(row, "messages");
    wefti_rendered out = {0};
    if (jinja) {
        assert_string_equal(f->jinja, jinja);
        assert_true(f->lead || strstr(jinja, f->mark));
        assert_int_equal(strncmp(f->answer, f->asks, strlen(f->asks)), 0);
        return;
    }
    json_t *tokens = json_pack("{s:s, s:s}", "bos_token", "<B>", "eos_token", "<E>");
    assert_ok(ctx, wefti_format_write(ctx, f, tokens, messages,
                                      json_is_true(json_object_get(row, "asks")), &out));
    assert_string_equal(out.text.bytes, json_string_value(json_object_get(row, "text")));
    assert_int_equal(out.n_spans, json_array_size(messages));
    wefti_rendered_fini(ctx, &out);
    json_decref(tokens);
}

static void texts_are_those_of_transformers(void **state) {
    static char line[1 << 16];
    int rows = 0;
    FILE *file = fopen(WEFT_SOURCE_DIR "/tests/golden/chat-formats.jsonl", "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file); rows++) {
        json_t *row = json_loads(line, 0, NULL);
        check_row(*state, row);
        json_decref(row);
    }
    assert_int_equal(rows, 7 * (1 + 2 * 9));
    fclose(file);
    assert_int_equal(weft_ctx_bytes_held(*state), 0);
}

/* What is saved is known again; another template is not rendered, but saved as it came. */
static void own_templates_are_kept(void **state) {
    static const char asked[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";
    static const char own[] = "{{ '<|im_start|>' }}{% for m in %}";
    weft_ctx *ctx = *state;
    weft_chat *chat;
    char folder[] = "/tmp/weft-chat-XXXXXX", path[64], kept[64], *text;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/chat_template.jinja", folder);
    assert_ok(ctx, weft_chat_open(ctx, "phi3", NULL, &chat));
    assert_ok(ctx, weft_chat_save(ctx, chat, folder));
    weft_chat_destroy(ctx, chat);
    assert_ok(ctx, weft_chat_open(ctx, "auto", folder, &chat));
    assert_ok(ctx, weft_chat_render(ctx, chat, asked, true, &text));
    assert_string_equal(text, "<|user|>\nhi<|end|>\n<|assistant|>\n");
    weft_free(ctx, text);
    weft_chat_destroy(ctx, chat);
    FILE *file = fopen(path, "w");
    fputs(own, file);
    fclose(file);
    assert_ok(ctx, weft_chat_open(ctx, "auto", folder, &chat));
    assert_int_equal(weft_chat_render(ctx, chat, asked, true, &text), WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_ctx_message(ctx), "it looks like chatml: name that"));
    weft_ctx_clear(ctx);
    unlink(path);
    assert_ok(ctx, weft_chat_save(ctx, chat, folder));
    weft_chat_destroy(ctx, chat);
    file = fopen(path, "r");
    assert_non_null(fgets(kept, sizeof kept, file));
    fclose(file);
    assert_string_equal(kept, own);
    assert_ok(ctx, weft_chat_open(ctx, "text", NULL, &chat));
    assert_true(wefti_chat_is_written(chat));
    assert_int_equal(weft_chat_render(ctx, chat, asked, true, &text), WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_ctx_message(ctx), "is text, which has no messages"));
    weft_ctx_clear(ctx);
    weft_chat_destroy(ctx, chat);
    assert_int_equal(weft_chat_open(ctx, "./x.jinja", NULL, &chat), WEFT_ERR_CONFIG);
    assert_non_null(strstr(weft_ctx_message(ctx), "expected chatml, llama2, llama3"));
    for (int i = 0; weft_chat_name(i, NULL); i++)
        assert_non_null(strstr(weft_ctx_message(ctx), weft_chat_name(i, NULL)));
    weft_ctx_clear(ctx);
    assert_int_equal(system("rm -r /tmp/weft-chat-??????"), 0);
}

static int make(void **state) { return weft_ctx_create((weft_ctx **)state) != WEFT_OK; }

static int drop(void **state) {
    weft_ctx_destroy(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(texts_are_those_of_transformers, make, drop),
        cmocka_unit_test_setup_teardown(own_templates_are_kept, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
