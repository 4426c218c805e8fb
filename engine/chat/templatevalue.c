/* SPDX-License-Identifier: MIT */
/* Operators of templates, as Python has them:
 *
 *     + joins texts and lists, adds numbers; two of other kinds are refused
 *     in looks into texts, lists and the keys of objects
 *     [i] and [a:b:c] count from the end if negative; a text counts its characters
 *
 * What does not exist is undefined: it prints as nothing, is false, has no items, and asking
 * it for a part is refused. */
#include "chat/templatevalue.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"

json_t *wefti_machine_fail(wefti_machine *m, const char *fault, const char *name) {
    if (m->status == WEFT_OK)
        m->status = weft_ctx_fail(m->ctx, WEFT_ERR_FORMAT, "%s, line %d: %s%.200s",
                                  m->t->where, m->line, fault, name);
    return NULL;
}

json_t *wefti_machine_made(wefti_machine *m, json_t *value) {
    if (!value && m->status == WEFT_OK)
        m->status = weft_ctx_fail(m->ctx, WEFT_ERR_MEMORY, "no memory for a template");
    return value;
}

json_t *wefti_argument(const wefti_arguments *given, int place, const char *name) {
    for (int i = 0; i < given->n; i++)
        if (given->names[i] && strcmp(given->names[i], name) == 0) return given->items[i];
    return place < given->n && !given->names[place] ? given->items[place] : NULL;
}

bool wefti_value_is_true(const json_t *value) {
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_NULL:
    case JSON_FALSE: return false;
    case JSON_TRUE: return true;
    case JSON_STRING: return json_string_length(value) > 0;
    case JSON_ARRAY: return json_array_size(value) > 0;
    case JSON_OBJECT: return json_object_size(value) > 0;
    case JSON_INTEGER: return json_integer_value(value) != 0;
    case JSON_REAL: return json_real_value(value) != 0;
    }
    return false;
}

void wefti_value_print(wefti_machine *m, const json_t *value, wefti_buffer *out) {
    enum { OUT_BYTES = 1 << 24 };
    if (!value || m->status != WEFT_OK) return;
    switch (json_typeof(value)) {
    case JSON_NULL: wefti_buffer_text(m->ctx, out, "None"); break;
    case JSON_FALSE: wefti_buffer_text(m->ctx, out, "False"); break;
    case JSON_TRUE: wefti_buffer_text(m->ctx, out, "True"); break;
    case JSON_STRING:
        wefti_buffer_put(m->ctx, out, json_string_value(value),
                         (int64_t)json_string_length(value));
        break;
    case JSON_INTEGER:
        wefti_buffer_print(m->ctx, out, "%" JSON_INTEGER_FORMAT,
                           json_integer_value(value));
        break;
    case JSON_ARRAY:
    case JSON_OBJECT:
    case JSON_REAL:
        wefti_machine_fail(m, "a list, an object or a fraction is printed", "");
        break;
    }
    if (m->status == WEFT_OK) m->status = out->status;
    if (out->n > OUT_BYTES) wefti_machine_fail(m, "the text grows beyond 16 MiB", "");
}

/* ---- operators ---- */

static json_t *join(wefti_machine *m, const json_t *a, const json_t *b) {
    wefti_buffer text = {0};
    wefti_value_print(m, a, &text);
    wefti_value_print(m, b, &text);
    json_t *out = NULL;
    if (m->status == WEFT_OK)
        out = wefti_machine_made(
            m, json_stringn(text.bytes ? text.bytes : "", (size_t)text.n));
    wefti_buffer_fini(m->ctx, &text);
    return out;
}

static json_t *join_lists(wefti_machine *m, const json_t *a, json_t *b) {
    json_t *out = wefti_machine_made(m, json_copy((json_t *)(uintptr_t)a));
    if (!out || json_array_extend(out, b) == 0) return out;
    json_decref(out);
    return wefti_machine_made(m, NULL);
}

/* Python rounds quotients down, and a remainder has the divisor's sign. */
static json_int_t divide(json_int_t a, json_int_t b, bool rest) {
    json_int_t r = a % b;
    bool adjusts = r != 0 && (r < 0) != (b < 0);
    if (rest) return adjusts ? r + b : r;
    return a / b - adjusts;
}

static json_t *count(wefti_machine *m, wefti_binary op, json_int_t a, json_int_t b) {
    enum { MOST = 1 << 30 }; /* no product overflows, no quotient traps */
    if (a > MOST || a < -MOST || b > MOST || b < -MOST)
        return wefti_machine_fail(m, "a number is larger than 2^30", "");
    if (b == 0 && (op == WEFTI_WHOLE || op == WEFTI_REST))
        return wefti_machine_fail(m, "a division by 0", "");
    json_int_t out = op == WEFTI_PLUS      ? a + b
                     : op == WEFTI_LESS_BY ? a - b
                     : op == WEFTI_TIMES   ? a * b
                                           : divide(a, b, op == WEFTI_REST);
    return wefti_machine_made(m, json_integer(out));
}

static json_t *compute(wefti_machine *m, wefti_binary op, const json_t *a, json_t *b) {
    if (json_is_integer(a) && json_is_integer(b))
        return count(m, op, json_integer_value(a), json_integer_value(b));
    if (op == WEFTI_PLUS && json_is_string(a) && json_is_string(b)) return join(m, a, b);
    if (op == WEFTI_PLUS && json_is_array(a) && json_is_array(b))
        return join_lists(m, a, b);
    return wefti_machine_fail(m, "an operator between kinds of values that have none",
                              "");
}

static bool equal(const json_t *a, const json_t *b) {
    if (!a || !b) return a == b;
    return json_equal(a, b);
}

static bool holds(wefti_machine *m, const json_t *in, const json_t *item) {
    if (json_is_string(in) && json_is_string(item))
        return strstr(json_string_value(in), json_string_value(item)) != NULL;
    if (json_is_object(in) && json_is_string(item))
        return json_object_get(in, json_string_value(item)) != NULL;
    for (size_t i = 0; json_is_array(in) && i < json_array_size(in); i++)
        if (equal(json_array_get(in, i), item)) return true;
    if (in && !json_is_array(in) && !json_is_object(in))
        wefti_machine_fail(m, "'in' is asked of what has no items", "");
    return false;
}

static int compare(wefti_machine *m, const json_t *a, const json_t *b) {
    if (json_is_string(a) && json_is_string(b)) {
        int sign = strcmp(json_string_value(a), json_string_value(b));
        return (sign > 0) - (sign < 0);
    }
    if (!json_is_number(a) || !json_is_number(b)) {
        wefti_machine_fail(m, "a comparison of kinds of values that have no order", "");
        return 0;
    }
    double x = json_number_value(a), y = json_number_value(b);
    return (x > y) - (x < y);
}

static json_t *decide(wefti_machine *m, wefti_binary op, const json_t *a,
                      const json_t *b) {
    bool out = false;
    switch (op) {
    case WEFTI_EQUAL: out = equal(a, b); break;
    case WEFTI_UNEQUAL: out = !equal(a, b); break;
    case WEFTI_IN: out = holds(m, b, a); break;
    case WEFTI_NOT_IN: out = !holds(m, b, a); break;
    case WEFTI_LESS: out = compare(m, a, b) < 0; break;
    case WEFTI_MORE: out = compare(m, a, b) > 0; break;
    case WEFTI_AT_MOST: out = compare(m, a, b) <= 0; break;
    case WEFTI_AT_LEAST: out = compare(m, a, b) >= 0; break;
    case WEFTI_PLUS:
    case WEFTI_LESS_BY:
    case WEFTI_TIMES:
    case WEFTI_WHOLE:
    case WEFTI_REST:
    case WEFTI_JOIN: break;
    }
    return m->status == WEFT_OK ? json_boolean(out) : NULL;
}

json_t *wefti_value_binary(wefti_machine *m, wefti_binary op, json_t *a, json_t *b) {
    if (m->status != WEFT_OK) return NULL;
    switch (op) {
    case WEFTI_PLUS:
    case WEFTI_LESS_BY:
    case WEFTI_TIMES:
    case WEFTI_WHOLE:
    case WEFTI_REST: return compute(m, op, a, b);
    case WEFTI_JOIN: return join(m, a, b);
    case WEFTI_EQUAL:
    case WEFTI_UNEQUAL:
    case WEFTI_LESS:
    case WEFTI_MORE:
    case WEFTI_AT_MOST:
    case WEFTI_AT_LEAST:
    case WEFTI_IN:
    case WEFTI_NOT_IN: break;
    }
    return decide(m, op, a, b);
}

json_t *wefti_value_minus(wefti_machine *m, const json_t *value) {
    if (m->status != WEFT_OK) return NULL;
    if (!json_is_integer(value))
        return wefti_machine_fail(m, "a minus before no number", "");
    return count(m, WEFTI_LESS_BY, 0, json_integer_value(value));
}

/* ---- parts ---- */

/* Characters of a text. */
static int64_t characters(const char *text) {
    int64_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* The byte where character k begins, or the text ends. */
static const char *character(const char *text, int64_t k) {
    for (; *text; text++)
        if (((unsigned char)*text & 0xC0) != 0x80 && k-- == 0) return text;
    return text;
}

static int64_t length_of(const json_t *value) {
    if (json_is_string(value)) return characters(json_string_value(value));
    return json_is_array(value) ? (int64_t)json_array_size(value) : -1;
}

/* Item k of a list, or character k of a text; 0 <= k < its length. */
static json_t *item(wefti_machine *m, const json_t *of, int64_t k) {
    if (json_is_array(of)) return json_incref(json_array_get(of, (size_t)k));
    const char *from = character(json_string_value(of), k), *to = character(from, 1);
    return wefti_machine_made(m, json_stringn(from, (size_t)(to - from)));
}

json_t *wefti_value_get(wefti_machine *m, json_t *of, const json_t *key) {
    if (m->status != WEFT_OK) return NULL;
    if (!of)
        return wefti_machine_fail(m, "a part of what is undefined: ",
                                  json_is_string(key) ? json_string_value(key) : "");
    if (json_is_object(of) && json_is_string(key))
        return json_incref(json_object_get(of, json_string_value(key)));
    int64_t n = length_of(of), k = json_integer_value(key);
    if (n < 0 || !json_is_integer(key)) return NULL; /* undefined */
    if (k < 0) k += n;
    return k >= 0 && k < n ? item(m, of, k) : NULL;
}

/* A bound of a slice of n items, as Python takes it: -1 for before the first, up to n. */
static int64_t bound(const json_t *given, int64_t n, bool back, int64_t otherwise) {
    if (!given || json_is_null(given)) return otherwise;
    int64_t k = json_integer_value(given), low = back ? -1 : 0, high = back ? n - 1 : n;
    if (k < 0) k += n;
    return k < low ? low : k > high ? high : k;
}

/* The items of a slice, one by one. */
static json_t *pick(wefti_machine *m, const json_t *of, int64_t from, int64_t to,
                    int64_t by) {
    json_t *out = wefti_machine_made(m, json_array());
    for (int64_t k = from; out && (by > 0 ? k < to : k > to); k += by)
        if (json_array_append_new(out, item(m, of, k)) != 0) {
            json_decref(out);
            return wefti_machine_made(m, NULL);
        }
    return out;
}

json_t *wefti_value_slice(wefti_machine *m, const json_t *of, json_t *const bounds[3]) {
    if (m->status != WEFT_OK) return NULL;
    int64_t n = length_of(of), by = bounds[2] ? json_integer_value(bounds[2]) : 1;
    if (n < 0) return wefti_machine_fail(m, "a slice of no list and no text", "");
    for (int i = 0; i < 3; i++)
        if (bounds[i] && !json_is_integer(bounds[i]) && !json_is_null(bounds[i]))
            return wefti_machine_fail(m, "a bound of a slice is no number", "");
    if (by == 0 || by > n + 1 || by < -n - 1) by = by < 0 ? -n - 1 : n + 1;
    bool back = by < 0;
    int64_t from = bound(bounds[0], n, back, back ? n - 1 : 0);
    int64_t to = bound(bounds[1], n, back, back ? -1 : n);
    if (json_is_array(of)) return pick(m, of, from, to, by);
    if (by != 1) return wefti_machine_fail(m, "a slice of a text has steps", "");
    const char *text = json_string_value(of), *begin = character(text, from);
    const char *end = character(text, to > from ? to : from);
    return wefti_machine_made(m, json_stringn(begin, (size_t)(end - begin)));
}

static json_t *keys_of(wefti_machine *m, json_t *object) {
    json_t *out = wefti_machine_made(m, json_array()), *value;
    const char *key;
    json_object_foreach(object, key, value) {
        if (out && json_array_append_new(out, json_string(key)) != 0) {
            json_decref(out);
            return wefti_machine_made(m, NULL);
        }
    }
    return out;
}

json_t *wefti_value_items(wefti_machine *m, json_t *value) {
    if (m->status != WEFT_OK) return NULL;
    if (!value) return wefti_machine_made(m, json_array());
    if (json_is_array(value)) return json_incref(value);
    if (json_is_object(value)) return keys_of(m, value);
    if (json_is_string(value)) return pick(m, value, 0, length_of(value), 1);
    return wefti_machine_fail(m, "what has no items is gone through", "");
}
