/* SPDX-License-Identifier: MIT */
#include "config_helpers.h"

#include <stdbool.h>

#include "base/text.h"
#include "text/utf8.h"
#include "config/schema.h"
#include "config/value.h"

static bool knows_section(const char *key) {
    const char *name, *dot = strchr(key, '.');
    if (!dot) return strcmp(key, "method") == 0;
    for (int i = 0; (name = weft_config_section(i, NULL)); i++)
        if (strlen(name) == (size_t)(dot - key) && strncmp(name, key, strlen(name)) == 0)
            return true;
    return false;
}

TEST(every_key_is_whole_and_unique) {
    const weft_config_key *key, *other;
    int n = 0;
    for (; (key = weft_config_key_at(n)); n++) {
        assert_true(knows_section(key->name));
        assert_true(strlen(key->doc) > 10 && strlen(key->doc) < 80);
        assert_true(key->doc[strlen(key->doc) - 1] != '.');
        assert_true(key->type != WEFT_KEY_CHOICE || key->choices);
        assert_true(key->offset < sizeof(weft_config));
        for (int j = 0; j < n; j++) {
            other = weft_config_key_at(j);
            assert_string_not_equal(key->name, other->name);
            assert_int_not_equal(key->offset, other->offset);
        }
    }
    assert_true(n > 50);
    assert_null(weft_config_key_at(n));
    assert_null(weft_config_key_at(-1));
}

/* The least value is one; the greatest unless it is excluded; a share is of numbers up to 1, and of
 * those whose unit says so. */
TEST(bounds_and_shares_are_those_of_the_table) {
    const weft_config_key *key;
    for (int n = 0; (key = weft_config_key_at(n)); n++) {
        char low[40], high[40];
        wefti_value v;
        if (key->type != WEFT_KEY_NUMBER && key->type != WEFT_KEY_INT) continue;
        snprintf(low, sizeof low, "%.17g", key->min);
        snprintf(high, sizeof high, "%.17g", key->max);
        if (!wefti_value_parse(key, low, &v) ||
            wefti_value_parse(key, high, &v) == key->max_excluded)
            fail_msg("%s: %s, %s", key->name, low, high);
        bool share = key->type == WEFT_KEY_NUMBER &&
                     (key->max == 1 || strcmp(key->unit, "share") == 0);
        if (wefti_value_parse(key, "50%", &v) != share) fail_msg("%s: 50%%", key->name);
    }
}

/* The mark decides what a foreign config.yaml may not name and what a moved one is read from: a new
 * key of texts names files, or stands here. */
TEST(every_key_of_texts_is_a_path_or_known_to_be_none) {
    static const char *const others[] = {"run.upload",
                                         "data.field",
                                         "data.column",
                                         "model.rope_scaling",
                                         "model.frozen",
                                         "adapter.targets",
                                         "adapter.save",
                                         "batch.shares",
                                         "mesh.run",
                                         "elastic.witness",
                                         "optimizer.groups",
                                         "decide.busy",
                                         "replicator.node_values",
                                         NULL};
    const weft_config_key *key;
    for (int n = 0; (key = weft_config_key_at(n)); n++) {
        bool texts = key->type == WEFT_KEY_TEXT || key->type == WEFT_KEY_TEXTS;
        if (key->is_path != (texts && !wefti_named(others, key->name)))
            fail_msg("%s: a path?", key->name);
    }
}

TEST(every_default_is_a_value_of_its_key) {
    const weft_config_key *key;
    wefti_value value;
    for (int i = 0; (key = weft_config_key_at(i)); i++)
        if (!wefti_key_is_list(key) && !wefti_value_parse(key, key->fallback, &value))
            fail_msg("%s cannot be '%s'", key->name, key->fallback);
}

TEST(every_preset_sets_values_of_known_keys) {
    const char *name, *text;
    wefti_value value;
    int n = 0;
    for (const weft_choice *m = wefti_methods; m->name; m++) {
        for (int j = 0; (name = weft_config_method_key(m->name, j, &text)); j++, n++) {
            const weft_config_key *key = wefti_config_key_find(name);
            assert_non_null(key);
            assert_true(wefti_value_parse(key, text, &value));
        }
    }
    assert_true(n >= 10);
    assert_null(weft_config_method_key("none", 0, &text));
    assert_null(weft_config_method_key("nonsense", 0, &text));
}

TEST(every_need_is_of_a_known_method_and_an_integer_key) {
    for (const wefti_method_need *need = wefti_method_needs; need->method; need++) {
        assert_non_null(wefti_choice_find(wefti_methods, need->method));
        const weft_config_key *key = wefti_config_key_find(need->key);
        assert_non_null(key);
        assert_int_equal(key->type, WEFT_KEY_INT);
    }
}

TEST(numbers_are_written_shortest_and_exact) {
    static const double numbers[] = {0,    6e-4,  0.1,     1e-8,  1.0 / 3,
                                     0.95, 64000, 1048576, 5e-324};
    static const char *const texts[] = {
        "0", "0.0006", "0.1", "1e-08", "0.3333333333333333", "0.95", "64000", "1048576"};
    char text[40];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        wefti_number_text(numbers[i], text, sizeof text);
        assert_true(strtod(text, NULL) == numbers[i]);
        if (i < sizeof texts / sizeof texts[0]) assert_string_equal(text, texts[i]);
    }
}

TEST(malformed_utf8_is_recognised) {
    static const char *const bad[] = {
        "\x80",         "\xc0\x80",         "\xe0\x80\x80",
        "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xf8\x88\x80\x80\x80",
        "a\xc3"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(wefti_is_utf8(bad[i]));
    assert_true(wefti_is_utf8(""));
    assert_true(wefti_is_utf8("a\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf"));
}

TEST(shown_text_is_short_and_whole_letters) {
    char out[12];
    assert_string_equal(wefti_shown("a\tb\x1b", out, sizeof out), "a?b?");
    assert_string_equal(wefti_shown("12345678", out, sizeof out), "12345678");
    assert_string_equal(wefti_shown("123456789", out, sizeof out), "12345678...");
    assert_string_equal(wefti_shown("1234567\xc3\xa4xxx", out, sizeof out), "1234567...");
}
