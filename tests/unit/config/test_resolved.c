/* SPDX-License-Identifier: MIT */
#include "config_helpers.h"

#include <stdbool.h>

/* The bare text of a configuration names every key, so equal texts are equal
 * configurations. */
static void assert_survives_the_file(fixture *f) {
    const char *before, *after;
    weft_config *again;
    assert_ok(f->ctx, weft_config_write(f->ctx, f->c, "resolved.yaml"));
    assert_ok(f->ctx, weft_config_text(f->ctx, f->c, WEFT_CONFIG_BARE, &before));
    assert_ok(f->ctx, weft_config_create(f->ctx, &again));
    assert_ok(f->ctx, weft_config_load(f->ctx, again, "resolved.yaml"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, again));
    assert_ok(f->ctx, weft_config_text(f->ctx, again, WEFT_CONFIG_BARE, &after));
    assert_string_equal(before, after);
    assert_true(f->c->optimizer.lr == again->optimizer.lr);
    assert_true(f->c->mesh.latency_s == again->mesh.latency_s);
    assert_string_equal(f->c->run.folder, again->run.folder);
    weft_config_destroy(f->ctx, again);
}

TEST_IN(setup, teardown, every_preset_survives_the_file) {
    fixture *f = *state;
    static const char *const methods[] = {"none", "ddp", "fsdp", "hsdp", "flexdemo"};
    char text[40];
    for (int i = 0; i < 5; i++) {
        snprintf(text, sizeof text, "method=%s", methods[i]);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, text));
        assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
        assert_survives_the_file(f);
    }
}

TEST_IN(setup, teardown, every_type_survives_the_file) {
    fixture *f = *state;
    static const char *const settings[] = {"optimizer.lr=0.1234567890123456789",
                                           "optimizer.eps=1e-30",
                                           "data.weights=0.1,3e-5",
                                           "data.path=a.txt,b: c#.txt",
                                           "data.validation_path=-,~",
                                           "run.folder=true",
                                           "mesh.link=2.5Gbit,75us",
                                           "mesh.min_message=123456789",
                                           "mesh.memory_limit=3GB",
                                           "model.tied=false",
                                           "model.init=1e5",
                                           "model.recompute=on"};
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, settings[i]));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_survives_the_file(f);
}

TEST_IN(setup, teardown, any_text_survives_the_file) {
    fixture *f = *state;
    static const char *const texts[] = {" lead",
                                        "trail ",
                                        "a\nb",
                                        "tab\there",
                                        "\"q\" \\ 'p'",
                                        "# no",
                                        "k: v",
                                        "[a",
                                        "{b",
                                        "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
                                        "\xc2\x85\xe2\x80\xa8\xef\xbb\xbf",
                                        "\x01\x7f\x1b",
                                        "...",
                                        "---",
                                        "&x",
                                        "*x",
                                        "!x",
                                        "%x",
                                        "null",
                                        "007",
                                        "a, b",
                                        "\xef\xbf\xbf",
                                        "x\r\ny"};
    char text[80];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(text, sizeof text, "run.folder=%s", texts[i]);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, text));
        assert_string_equal(f->c->run.folder, texts[i]);
        assert_survives_the_file(f);
    }
}

TEST_IN(setup, teardown, notes_do_not_change_the_values) {
    fixture *f = *state;
    const char *text;
    assert_ok(f->ctx, load_text(f, "method: flexdemo\noptimizer: {lr: 3e-3}\n"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.steps=3"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    for (int notes = WEFT_CONFIG_DOCS; notes <= WEFT_CONFIG_ORIGINS; notes++) {
        weft_config *again;
        assert_ok(f->ctx,
                  weft_config_text(f->ctx, f->c, (weft_config_notes)notes, &text));
        assert_ok(f->ctx, weft_config_create(f->ctx, &again));
        write_file("noted.yaml", text, strlen(text));
        assert_ok(f->ctx, weft_config_load(f->ctx, again, "noted.yaml"));
        assert_int_equal(again->run.steps, 3);
        assert_true(again->optimizer.lr == 3e-3);
        weft_config_destroy(f->ctx, again);
    }
    assert_non_null(strstr(text, "lr: 0.003                       # run.yaml:2\n"));
    assert_non_null(strstr(text, "steps: 3                        # override\n"));
    assert_non_null(strstr(text, "clip: 0                         # method flexdemo\n"));
    assert_non_null(strstr(text, "beta1: 0.9                      # default\n"));
}

static weft_config_origin origin_of(const fixture *f, const char *name) {
    const weft_config_key *key = weft_config_key_at(0);
    for (int i = 0; strcmp(key->name, name) != 0;) key = weft_config_key_at(++i);
    return weft_config_origin_of(f->c, key);
}

TEST_IN(setup, teardown, each_layer_is_told_apart) {
    fixture *f = *state;
    assert_ok(f->ctx, load_text(f, "method: flexdemo\noptimizer: {lr: 3e-3}\n"));
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.steps=3"));
    assert_ok(f->ctx, wefti_config_settle(f->ctx, f->c));
    assert_int_equal(origin_of(f, "optimizer.beta1"), WEFT_ORIGIN_DEFAULT);
    assert_int_equal(origin_of(f, "optimizer.clip"), WEFT_ORIGIN_METHOD);
    assert_int_equal(origin_of(f, "optimizer.lr"), WEFT_ORIGIN_FILE);
    assert_int_equal(origin_of(f, "run.steps"), WEFT_ORIGIN_COMMAND);
    assert_ok(f->ctx, wefti_config_suggest(f->ctx, f->c, "model.width", "64"));
    assert_int_equal(origin_of(f, "model.width"), WEFT_ORIGIN_MODEL);
    assert_ok(f->ctx, weft_config_reset(f->ctx, f->c, "run.steps"));
    assert_int_equal(origin_of(f, "run.steps"), WEFT_ORIGIN_DEFAULT);
}

TEST_IN(setup, teardown, words_with_a_meaning_in_yaml_are_quoted) {
    fixture *f = *state;
    const char *text;
    static const char *const texts[] = {"true", "No", "null", "007", "1e5", "-", "a b"};
    char line[40];
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(line, sizeof line, "run.folder=%s", texts[i]);
        assert_ok(f->ctx, weft_config_set(f->ctx, f->c, line));
        assert_ok(f->ctx, weft_config_text(f->ctx, f->c, WEFT_CONFIG_BARE, &text));
        snprintf(line, sizeof line, "\n  folder: \"%s\"\n", texts[i]);
        assert_non_null(strstr(text, line));
    }
    assert_ok(f->ctx, weft_config_set(f->ctx, f->c, "run.folder=../runs/a-1.x"));
    assert_ok(f->ctx, weft_config_text(f->ctx, f->c, WEFT_CONFIG_BARE, &text));
    assert_non_null(strstr(text, "\n  folder: ../runs/a-1.x\n"));
}

TEST_IN(setup, teardown, failed_write_says_where) {
    fixture *f = *state;
    assert_int_equal(weft_config_write(f->ctx, f->c, "no/such/folder/x.yaml"),
                     WEFT_ERR_FILE);
    assert_non_null(strstr(weft_ctx_message(f->ctx), "no/such/folder/x.yaml"));
}
