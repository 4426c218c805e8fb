/* SPDX-License-Identifier: MIT */
/* What templates call by name: filters, tests, methods of texts and objects, functions. Each
 * is a row of a table; a name that no table has is refused. There is no clock here:
 * strftime_now is undefined, and templates that ask for it write the date that they carry. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "text/utf8.h"
#include "chat/templatevalue.h"

typedef json_t *(*function)(wefti_machine *m, json_t *of, const wefti_arguments *given);
typedef struct named_function {
    const char *name;
    function call;
} named_function;

/* The text of a value; a failure, and "", where it is none. */
static const char *text_of(wefti_machine *m, const json_t *value) {
    if (json_is_string(value)) return json_string_value(value);
    wefti_machine_fail(m, "a text was expected", "");
    return "";
}

static json_t *make_text(wefti_machine *m, const char *from, size_t n) {
    return m->status == WEFT_OK ? wefti_machine_made(m, json_stringn(from, n)) : NULL;
}

/* Appends to a list; on failure the list is gone and *list NULL. Takes `item`. */
static void append(wefti_machine *m, json_t **list, json_t *item) {
    if (*list && m->status == WEFT_OK && json_array_append_new(*list, item) == 0) return;
    if (m->status == WEFT_OK) wefti_machine_made(m, NULL);
    json_decref(*list);
    *list = NULL;
}

/* ---- of texts ---- */

/* Whether the character at `s` is one to strip: white space, or one of `chars`. */
static bool strips(const char *s, int64_t n, const char *chars) {
    uint32_t code;
    int length = wefti_utf8_decode(s, n, &code);
    if (!chars) return length > 0 && wefti_utf8_is_space(code);
    char one[5] = "";
    memcpy(one, s, (size_t)length);
    return length > 0 && strstr(chars, one) != NULL;
}

static json_t *strip(wefti_machine *m, const json_t *of, const json_t *chars, bool left,
                     bool right) {
    const char *s = text_of(m, of), *end = s + strlen(s), *last;
    const char *which = json_is_string(chars) ? json_string_value(chars) : NULL;
    while (left && s < end && strips(s, end - s, which)) do
            s++;
        while (s < end && ((unsigned char)*s & 0xC0) == 0x80);
    while (right && s < end) {
        for (last = end - 1; last > s && ((unsigned char)*last & 0xC0) == 0x80;) last--;
        if (!strips(last, end - last, which)) break;
        end = last;
    }
    return make_text(m, s, (size_t)(end - s));
}

static json_t *call_strip(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    return strip(m, of, wefti_argument(g, 0, "chars"), true, true);
}
static json_t *call_lstrip(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    return strip(m, of, wefti_argument(g, 0, "chars"), true, false);
}
static json_t *call_rstrip(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    return strip(m, of, wefti_argument(g, 0, "chars"), false, true);
}

static json_t *call_startswith(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    const char *s = text_of(m, of), *part = text_of(m, wefti_argument(g, 0, ""));
    return json_boolean(strncmp(s, part, strlen(part)) == 0);
}

static json_t *call_endswith(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    const char *s = text_of(m, of), *part = text_of(m, wefti_argument(g, 0, ""));
    size_t n = strlen(s), k = strlen(part);
    return json_boolean(k <= n && strcmp(s + n - k, part) == 0);
}

/* Upper or lower case of ASCII; other letters are refused, for Unicode's rules are long. */
static json_t *change_case(wefti_machine *m, const json_t *of, bool upper, size_t most) {
    const char *s = text_of(m, of);
    wefti_buffer out = {0};
    for (size_t i = 0; s[i]; i++) {
        char c = s[i];
        if ((unsigned char)c >= 0x80)
            wefti_machine_fail(m, "the case of a letter outside ASCII is changed", "");
        if ((i < most) == upper && c >= 'a' && c <= 'z')
            c = (char)(c - 32);
        else if ((i < most) != upper && c >= 'A' && c <= 'Z')
            c = (char)(c + 32);
        wefti_buffer_put(m->ctx, &out, &c, 1);
    }
    if (m->status == WEFT_OK) m->status = out.status;
    json_t *text = make_text(m, out.bytes ? out.bytes : "", (size_t)out.n);
    wefti_buffer_fini(m->ctx, &out);
    return text;
}

static json_t *call_upper(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    return change_case(m, of, true, SIZE_MAX);
}
static json_t *call_lower(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    return change_case(m, of, false, SIZE_MAX);
}
static json_t *call_capitalize(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    return change_case(m, of, true, 1);
}

static json_t *call_replace(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    const char *s = text_of(m, of), *old = text_of(m, wefti_argument(g, 0, "old")), *next;
    const char *new = text_of(m, wefti_argument(g, 1, "new"));
    wefti_buffer out = {0};
    if (!*old) return wefti_machine_fail(m, "an empty text is replaced", "");
    for (; (next = strstr(s, old)); s = next + strlen(old)) {
        wefti_buffer_put(m->ctx, &out, s, next - s);
        wefti_buffer_text(m->ctx, &out, new);
    }
    wefti_buffer_text(m->ctx, &out, s);
    if (m->status == WEFT_OK) m->status = out.status;
    json_t *text = make_text(m, out.bytes, (size_t)out.n);
    wefti_buffer_fini(m->ctx, &out);
    return text;
}

static json_t *call_split(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    const json_t *limit = wefti_argument(g, 1, "maxsplit");
    const char *s = text_of(m, of), *by = text_of(m, wefti_argument(g, 0, "sep")), *next;
    json_int_t left = json_is_integer(limit) ? json_integer_value(limit) : -1;
    if (!*by) return wefti_machine_fail(m, "a text is split by an empty one", "");
    json_t *out = wefti_machine_made(m, json_array());
    for (; out && left != 0 && (next = strstr(s, by)); s = next + strlen(by), left--)
        append(m, &out, make_text(m, s, (size_t)(next - s)));
    if (out) append(m, &out, make_text(m, s, strlen(s)));
    return out;
}

/* ---- of objects ---- */

static json_t *call_items(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    const char *key;
    json_t *value, *out = wefti_machine_made(m, json_array());
    if (!json_is_object(of)) wefti_machine_fail(m, "items of what is no object", "");
    json_object_foreach(of, key, value) append(m, &out, json_pack("[s, O]", key, value));
    return out;
}

static json_t *call_keys(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    if (!json_is_object(of))
        return wefti_machine_fail(m, "keys of what is no object", "");
    return wefti_value_items(m, of);
}

static json_t *call_values(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    const char *key;
    json_t *value, *out = wefti_machine_made(m, json_array());
    json_object_foreach(of, key, value) append(m, &out, json_incref(value));
    return out;
}

static json_t *call_get(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    json_t *there = json_object_get(of, text_of(m, wefti_argument(g, 0, "key")));
    if (!there) there = wefti_argument(g, 1, "default");
    return there ? json_incref(there) : json_null();
}

/* ---- filters ---- */

static json_t *call_length(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    json_t *items = wefti_value_items(m, of);
    json_int_t n = (json_int_t)json_array_size(items);
    json_decref(items);
    return m->status == WEFT_OK ? wefti_machine_made(m, json_integer(n)) : NULL;
}

static json_t *call_list(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    return wefti_value_items(m, of);
}

static json_t *end_item(wefti_machine *m, json_t *of, bool last) {
    json_t *items = wefti_value_items(m, of);
    size_t n = json_array_size(items);
    json_t *out = n > 0 ? json_incref(json_array_get(items, last ? n - 1 : 0)) : NULL;
    json_decref(items);
    return out;
}

static json_t *call_first(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    return end_item(m, of, false);
}
static json_t *call_last(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    return end_item(m, of, true);
}

static json_t *call_default(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    json_t *other = wefti_argument(g, 0, "default_value");
    bool falsy = wefti_value_is_true(wefti_argument(g, 1, "boolean"));
    bool there = falsy ? wefti_value_is_true(of) : of != NULL;
    if (there) return json_incref(of);
    return other ? json_incref(other) : make_text(m, "", 0);
}

static json_t *call_join(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    const json_t *given = wefti_argument(g, 0, "d");
    const char *between = given ? text_of(m, given) : "";
    json_t *items = wefti_value_items(m, of);
    wefti_buffer out = {0};
    for (size_t i = 0; i < json_array_size(items); i++) {
        if (i > 0) wefti_buffer_text(m->ctx, &out, between);
        wefti_value_print(m, json_array_get(items, i), &out);
    }
    json_decref(items);
    if (m->status == WEFT_OK) m->status = out.status;
    json_t *text = make_text(m, out.bytes ? out.bytes : "", (size_t)out.n);
    wefti_buffer_fini(m->ctx, &out);
    return text;
}

static json_t *call_string(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    return wefti_value_binary(m, WEFTI_JOIN, of, NULL);
}

static json_t *call_int(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)g;
    int64_t value = 0;
    if (json_is_integer(of)) return json_incref(of);
    if (!wefti_parse_int(text_of(m, of), &value)) value = 0;
    return m->status == WEFT_OK ? wefti_machine_made(m, json_integer(value)) : NULL;
}

/* As json.dumps(ensure_ascii=False): ", " and ": " between, or in lines. */
static json_t *call_tojson(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    const json_t *indent = wefti_argument(g, 0, "indent");
    json_int_t n = json_is_integer(indent) ? json_integer_value(indent) : 0;
    if (!of || json_is_real(of) || n < 0 || n > 31)
        return wefti_machine_fail(m, "tojson of what is undefined or a fraction", "");
    char *dumped;
    int64_t n_bytes;
    weft_status status = wefti_json_text(
        m->ctx, of, JSON_ENCODE_ANY | JSON_INDENT((size_t)n), &dumped, &n_bytes);
    json_t *text = status == WEFT_OK ? make_text(m, dumped, (size_t)n_bytes)
                                     : wefti_machine_made(m, NULL);
    wefti_free(m->ctx, dumped);
    return text;
}

/* Items whose attribute passes a test, or does not. */
static json_t *select_by(wefti_machine *m, json_t *of, const wefti_arguments *g,
                         bool passing) {
    const json_t *name = wefti_argument(g, 0, ""), *test = wefti_argument(g, 1, "");
    const wefti_arguments rest = {.items = {wefti_argument(g, 2, "")}, .n = g->n > 2};
    json_t *items = wefti_value_items(m, of), *out = wefti_machine_made(m, json_array());
    const char *key = text_of(m, name);
    for (size_t i = 0; i < json_array_size(items) && m->status == WEFT_OK; i++) {
        json_t *one = json_array_get(items, i);
        const json_t *value = json_object_get(one, key);
        bool passes = test ? wefti_value_test(m, text_of(m, test), value, &rest)
                           : wefti_value_is_true(value);
        if (passes == passing) append(m, &out, json_incref(one));
    }
    json_decref(items);
    return out;
}

static json_t *call_selectattr(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    return select_by(m, of, g, true);
}
static json_t *call_rejectattr(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    return select_by(m, of, g, false);
}

static json_t *call_map(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    const char *key = text_of(m, wefti_argument(g, 1, "attribute"));
    json_t *items = wefti_value_items(m, of), *out = wefti_machine_made(m, json_array());
    for (size_t i = 0; i < json_array_size(items) && m->status == WEFT_OK; i++) {
        json_t *value = json_object_get(json_array_get(items, i), key);
        append(m, &out, value ? json_incref(value) : json_null());
    }
    json_decref(items);
    return out;
}

static json_t *call_safe(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)m, (void)g;
    return json_incref(of);
}

/* ---- functions ---- */

static json_t *call_namespace(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)of;
    json_t *out = wefti_machine_made(m, json_object());
    for (int i = 0; out && i < g->n; i++) {
        json_t *value = g->items[i] ? g->items[i]
                                    : json_null(); /* which is not counted */
        if (!g->names[i] || json_object_set(out, g->names[i], value) != 0) {
            json_decref(out);
            return wefti_machine_fail(m, "namespace has an argument without a name", "");
        }
    }
    return out;
}

static json_t *call_raise(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    (void)of;
    return wefti_machine_fail(
        m, "the template says: ", text_of(m, wefti_argument(g, 0, "")));
}

static json_t *call_range(wefti_machine *m, json_t *of, const wefti_arguments *g) {
    enum { MOST = 10000 };
    (void)of;
    const json_t *a = wefti_argument(g, 0, ""), *b = wefti_argument(g, 1, "");
    json_int_t from = b ? json_integer_value(a) : 0;
    json_int_t to = json_integer_value(b ? b : a);
    if (g->n > 2 || !json_is_integer(a) || to > MOST || from < -MOST)
        return wefti_machine_fail(m, "range of something but one or two small numbers",
                                  "");
    json_t *out = wefti_machine_made(m, json_array());
    for (; out && from < to; from++) append(m, &out, json_integer(from));
    return out;
}

/* ---- tables ---- */

static const named_function methods[] = {
    {"strip", call_strip},   {"lstrip", call_lstrip},   {"rstrip", call_rstrip},
    {"split", call_split},   {"replace", call_replace}, {"startswith", call_startswith},
    {"upper", call_upper},   {"lower", call_lower},     {"endswith", call_endswith},
    {"items", call_items},   {"keys", call_keys},       {"capitalize", call_capitalize},
    {"values", call_values}, {"get", call_get},         {NULL, NULL}};

static const named_function filters[] = {{"trim", call_strip},
                                         {"length", call_length},
                                         {"count", call_length},
                                         {"upper", call_upper},
                                         {"lower", call_lower},
                                         {"capitalize", call_capitalize},
                                         {"replace", call_replace},
                                         {"tojson", call_tojson},
                                         {"join", call_join},
                                         {"first", call_first},
                                         {"last", call_last},
                                         {"list", call_list},
                                         {"string", call_string},
                                         {"default", call_default},
                                         {"d", call_default},
                                         {"int", call_int},
                                         {"safe", call_safe},
                                         {"items", call_items},
                                         {"map", call_map},
                                         {"selectattr", call_selectattr},
                                         {"rejectattr", call_rejectattr},
                                         {NULL, NULL}};

static const named_function functions[] = {{"namespace", call_namespace},
                                           {"raise_exception", call_raise},
                                           {"range", call_range},
                                           {NULL, NULL}};

static json_t *call(wefti_machine *m, const named_function *table, const char *name,
                    json_t *of, const wefti_arguments *given) {
    if (m->status != WEFT_OK) return NULL;
    for (; table->name; table++)
        if (wefti_is(table->name, name)) {
            json_t *out = table->call(m, of, given);
            if (m->status == WEFT_OK) return out;
            json_decref(out);
            return NULL;
        }
    return wefti_machine_fail(m,
                              "a filter, method or function that is not known: ", name);
}

json_t *wefti_value_filter(wefti_machine *m, const char *name, json_t *value,
                           const wefti_arguments *given) {
    return call(m, filters, name, value, given);
}

json_t *wefti_value_method(wefti_machine *m, const char *name, json_t *of,
                           const wefti_arguments *given) {
    return call(m, methods, name, of, given);
}

json_t *wefti_value_function(wefti_machine *m, const char *name,
                             const wefti_arguments *given) {
    return call(m, functions, name, NULL, given);
}

/* ---- tests ---- */

static bool test_equal(wefti_machine *m, const json_t *value,
                       const wefti_arguments *given) {
    json_t *other = wefti_argument(given, 0, "");
    json_t *same = wefti_value_binary(m, WEFTI_EQUAL, (json_t *)(uintptr_t)value, other);
    return json_is_true(same);
}

bool wefti_value_test(wefti_machine *m, const char *name, const json_t *value,
                      const wefti_arguments *given) {
    if (wefti_is(name, "defined")) return value != NULL;
    if (wefti_is(name, "undefined")) return value == NULL;
    if (wefti_is(name, "none")) return json_is_null(value);
    if (wefti_is(name, "string")) return json_is_string(value);
    if (wefti_is(name, "mapping")) return json_is_object(value);
    if (wefti_is(name, "sequence") || wefti_is(name, "iterable"))
        return json_is_array(value) || json_is_string(value) || json_is_object(value);
    if (wefti_is(name, "number")) return json_is_number(value) || json_is_boolean(value);
    if (wefti_is(name, "integer")) return json_is_integer(value);
    if (wefti_is(name, "boolean")) return json_is_boolean(value);
    if (wefti_is(name, "true")) return json_is_true(value);
    if (wefti_is(name, "false")) return json_is_false(value);
    if (wefti_is(name, "odd") || wefti_is(name, "even"))
        return (json_integer_value(value) % 2 != 0) == wefti_is(name, "odd");
    if (wefti_is(name, "equalto") || wefti_is(name, "eq"))
        return test_equal(m, value, given);
    wefti_machine_fail(m, "a test that is not known: ", name);
    return false;
}
