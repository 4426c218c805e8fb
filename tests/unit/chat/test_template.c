/* SPDX-License-Identifier: MIT */
/* Templates write what transformers writes: tests/golden/chat-templates.jsonl, made by
 * make_templates.py; what it refuses is refused. And whatever a template is, it ends, frees
 * what it took, and fails in a sentence. */
#include "check.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "chat/template.h"

static weft_status render(weft_ctx *ctx, const char *text, int64_t n, const json_t *names,
                          wefti_rendered *out) {
    wefti_template *t;
    WEFT_TRY(wefti_template_parse(ctx, text, n, "a test", &t));
    weft_status status = wefti_template_render(ctx, t, names, out);
    wefti_template_destroy(ctx, t);
    return status;
}

static json_t *read_line(FILE *file, char *line, size_t size) {
    if (!fgets(line, (int)size, file)) return NULL;
    json_t *row = json_loads(line, 0, NULL);
    assert_non_null(row);
    return row;
}

static void check_row(weft_ctx *ctx, const json_t *row) {
    const char *text = json_string_value(json_object_get(row, "template"));
    const char *expected = json_string_value(json_object_get(row, "text"));
    wefti_rendered out = {0};
    weft_status status = render(ctx, text, (int64_t)strlen(text),
                                json_object_get(row, "names"), &out);
    if (status != WEFT_OK && expected) printf("%s\n%s\n", text, weft_ctx_message(ctx));
    if (expected) {
        assert_int_equal(status, WEFT_OK);
        assert_string_equal(out.text.bytes, expected);
    } else {
        assert_int_equal(status, WEFT_ERR_FORMAT);
        assert_non_null(strstr(weft_ctx_message(ctx), "a test, line 1: "));
    }
    wefti_rendered_fini(ctx, &out);
    weft_ctx_clear(ctx);
}

static void texts_are_those_of_transformers(void **state) {
    static char line[1 << 16];
    weft_ctx *ctx;
    int rows = 0;
    FILE *file = fopen(WEFT_SOURCE_DIR "/tests/golden/chat-templates.jsonl", "r");
    assert_non_null(file);
    assert_ok(NULL, weft_ctx_create(&ctx));
    for (json_t *row; (row = read_line(file, line, sizeof line));
         json_decref(row), rows++)
        check_row(ctx, row);
    assert_true(rows > 250);
    fclose(file);
    assert_int_equal(weft_ctx_bytes_held(ctx), 0);
    weft_ctx_destroy(ctx);
}

/* What stands between {% generation %} and its end is told by its bytes. */
static void answers_are_marked(void **state) {
    static const char text[] = "ab{% generation %}c{{ 'de' }}{% endgeneration %}f"
                               "{% generation %}{% endgeneration %}";
    weft_ctx *ctx;
    wefti_rendered out = {0};
    json_t *names = json_object();
    assert_ok(NULL, weft_ctx_create(&ctx));
    assert_ok(ctx, render(ctx, text, sizeof text - 1, names, &out));
    assert_string_equal(out.text.bytes, "abcdef");
    assert_int_equal(out.n_spans, 2);
    const int64_t spans[] = {2, 5, 6, 6};
    assert_memory_equal(out.spans, spans, sizeof spans);
    wefti_rendered_fini(ctx, &out);
    json_decref(names);
    weft_ctx_destroy(ctx);
}

static void refuses(weft_ctx *ctx, const char *text, const char *part) {
    wefti_rendered out = {0};
    json_t *names = json_object();
    assert_int_equal(render(ctx, text, (int64_t)strlen(text), names, &out),
                     WEFT_ERR_FORMAT);
    if (!strstr(weft_ctx_message(ctx), part)) printf("%s\n", weft_ctx_message(ctx));
    assert_non_null(strstr(weft_ctx_message(ctx), part));
    weft_ctx_clear(ctx);
    wefti_rendered_fini(ctx, &out);
    json_decref(names);
}

static void what_is_not_known_is_named(void **state) {
    weft_ctx *ctx;
    assert_ok(NULL, weft_ctx_create(&ctx));
    refuses(ctx, "\n\n{% macro x() %}{% endmacro %}", "line 3: expected for, if");
    refuses(ctx, "{{ a | wordwrap }}", "not known: wordwrap");
    refuses(ctx, "{{ 1.5 }}", "expected a whole number, not '.'");
    refuses(ctx, "{% if 1 %}\n", "the template ends before 'endif'");
    refuses(ctx, "{{ 1 < 2 < 3 }}", "no chain of comparisons");
    refuses(ctx, "{{ [1] }}", "a list, an object or a fraction is printed");
    refuses(ctx, "{{ raise_exception('no\nmore') }}", "the template says: no");
    weft_ctx_destroy(ctx);
}

/* Templates that go on for ever, or deeper and deeper. */
static void every_template_ends(void **state) {
    static char deep[1 << 15];
    weft_ctx *ctx;
    assert_ok(NULL, weft_ctx_create(&ctx));
    refuses(
        ctx,
        "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
        "does not end");
    refuses(ctx,
            "{% set ns = namespace(x=1) %}{% for a in range(99) %}{% set ns.x = [ns.x] %}"
            "{% endfor %}",
            "nested too deeply");
    memset(deep, '(', sizeof deep - 1);
    deep[0] = deep[1] = '{';
    refuses(ctx, deep, "less nesting");
    memset(deep + 2, '-', sizeof deep - 3);
    refuses(ctx, deep, "less nesting");
    for (size_t i = 2; i + 12 < sizeof deep; i += 10) memcpy(deep + i, "1 + 1 +   ", 10);
    memcpy(deep + sizeof deep - 16, "         1 }}", 14);
    refuses(ctx, deep, "nested too deeply");
    refuses(ctx,
            "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for a in range(99) %}"
            "{% set ns.x = ns.x + ns.x %}{% endfor %}",
            "beyond 16 MiB");
    weft_ctx_destroy(ctx);
}

/* Every allocation of weft's own that fails is a clean error. */
static void every_allocation_may_fail(void **state) {
    static const char text[] = "{% set ns = namespace(n=0) %}{% for m in messages %}"
                               "{% generation %}{{ m.content | trim ~ ns.n }}"
                               "{% endgeneration %}{% endfor %}";
    weft_ctx *ctx;
    json_t *names = json_pack("{s:[{s:s}, {s:s}]}", "messages", "content", "a ",
                              "content", "b");
    weft_status status = WEFT_ERR_MEMORY;
    assert_ok(NULL, weft_ctx_create(&ctx));
    for (int64_t k = 0; status != WEFT_OK; k++) {
        wefti_rendered out = {0};
        weft_ctx_fail_allocation(ctx, k);
        status = render(ctx, text, sizeof text - 1, names, &out);
        if (status != WEFT_OK) assert_int_equal(status, WEFT_ERR_MEMORY);
        wefti_rendered_fini(ctx, &out);
        assert_int_equal(weft_ctx_bytes_held(ctx), 0);
        weft_ctx_clear(ctx);
        assert_true(k < 1000);
    }
    json_decref(names);
    weft_ctx_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_transformers),
        cmocka_unit_test(answers_are_marked),
        cmocka_unit_test(what_is_not_known_is_named),
        cmocka_unit_test(every_template_ends),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
