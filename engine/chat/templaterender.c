/* SPDX-License-Identifier: MIT */
/* A template's tree -> text. Names are looked up from the innermost scope outwards; a `for`
 * opens one, so what is set in it is gone behind it, and only a namespace carries values out
 * of a loop. Work, depth and text are bounded: a template comes from a file. */
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "chat/templatevalue.h"

enum { MAX_WORK = 2000000, TURN_WORK = 20, MAX_DEPTH = 1000 };

static json_t *evaluate(wefti_machine *m, int node);
static void run(wefti_machine *m, int node);

static const wefti_template_node *node_at(const wefti_machine *m, int node) {
    return &m->t->nodes[node];
}

/* Counts work. */
static void work(wefti_machine *m, int64_t n) {
    m->work += n;
    if (m->work > MAX_WORK) wefti_machine_fail(m, "the template does not end", "");
}

/* Whether the machine may go one deeper; the caller goes back up. */
static bool enter(wefti_machine *m, int node) {
    m->line = node_at(m, node)->line;
    m->depth++;
    if (m->depth > MAX_DEPTH) wefti_machine_fail(m, "nested too deeply", "");
    work(m, 1);
    return m->status == WEFT_OK;
}

/* ---- names ---- */

static json_t *look_up(const wefti_machine *m, const char *name) {
    for (int i = m->n_scopes - 1; i >= 0; i--) {
        json_t *value = json_object_get(m->scopes[i], name);
        if (value == m->undefined) return NULL;
        if (value) return json_incref(value);
    }
    return NULL;
}

/* Takes `value`; undefined becomes none. */
static void set(wefti_machine *m, json_t *object, const char *name, json_t *value) {
    if (m->status != WEFT_OK)
        json_decref(value);
    else if (json_object_set_new(object, name, value ? value : json_null()) != 0)
        wefti_machine_made(m, NULL);
}

static void set_here(wefti_machine *m, const char *name, json_t *value) {
    if (!value) value = json_incref(m->undefined);
    set(m, m->scopes[m->n_scopes - 1], name, value);
}

static bool open_scope(wefti_machine *m) {
    if (m->n_scopes == WEFTI_TEMPLATE_SCOPES)
        wefti_machine_fail(m, "nested too deeply", "");
    json_t *scope = m->status == WEFT_OK ? wefti_machine_made(m, json_object()) : NULL;
    if (!scope) return false;
    m->scopes[m->n_scopes++] = scope;
    return true;
}

static void close_scope(wefti_machine *m) { json_decref(m->scopes[--m->n_scopes]); }

/* ---- expressions ---- */

static void take_arguments(wefti_machine *m, int first, wefti_arguments *out) {
    *out = (wefti_arguments){.n = 0};
    for (int k = first; k && m->status == WEFT_OK; k = node_at(m, k)->next) {
        const wefti_template_node *node = node_at(m, k);
        bool named = node->kind == WEFTI_NODE_NAMED;
        if (out->n == WEFTI_TEMPLATE_ARGUMENTS) {
            wefti_machine_fail(m, "too many arguments", "");
            return;
        }
        out->names[out->n] = named ? json_string_value(node->value) : NULL;
        out->items[out->n++] = evaluate(m, named ? node->a : k);
    }
}

static void free_arguments(wefti_arguments *given) {
    for (int i = 0; i < given->n; i++) json_decref(given->items[i]);
}

/* How deep lists and objects lie in each other; looks no deeper than `most`. Freeing and
 * comparing them takes a call for each level. */
static int nesting(const json_t *value, int most) {
    int deepest = 0, here;
    const char *key;
    json_t *part;
    size_t i;
    if (most == 0) return 1;
    json_array_foreach((json_t *)(uintptr_t)value, i,
                       part) if ((here = 1 + nesting(part, most - 1)) > deepest)
        deepest = here;
    json_object_foreach((json_t *)(uintptr_t)value, key,
                        part) if ((here = 1 + nesting(part, most - 1)) > deepest)
        deepest = here;
    return deepest;
}

static json_t *shallow(wefti_machine *m, json_t *value) {
    enum { MOST = 50 };
    if (nesting(value, MOST) >= MOST)
        wefti_machine_fail(m, "values are nested too deeply", "");
    return value;
}

static json_t *make_list(wefti_machine *m, const wefti_template_node *node) {
    json_t *out = wefti_machine_made(m, json_array());
    for (int k = node->a; k && m->status == WEFT_OK; k = node_at(m, k)->next) {
        json_t *item = evaluate(m, k);
        if (json_array_append_new(out, item ? item : json_null()) != 0)
            wefti_machine_made(m, NULL);
    }
    return shallow(m, out);
}

static json_t *make_dict(wefti_machine *m, const wefti_template_node *node) {
    json_t *out = wefti_machine_made(m, json_object());
    for (int k = node->a; k && m->status == WEFT_OK;) {
        int behind = node_at(m, k)->next;
        json_t *key = evaluate(m, k), *value = evaluate(m, behind);
        if (!json_is_string(key)) wefti_machine_fail(m, "a key is no text", "");
        set(m, out, json_is_string(key) ? json_string_value(key) : "", value);
        json_decref(key);
        k = node_at(m, behind)->next;
    }
    return shallow(m, out);
}

static json_t *call(wefti_machine *m, const wefti_template_node *node) {
    const wefti_template_node *callee = node_at(m, node->a);
    wefti_arguments given;
    json_t *out = NULL;
    if (callee->kind == WEFTI_NODE_NAME) {
        take_arguments(m, node->b, &given);
        out = shallow(m,
                      wefti_value_function(m, json_string_value(callee->value), &given));
    } else {
        json_t *of = evaluate(m, callee->a), *name = evaluate(m, callee->b);
        take_arguments(m, node->b, &given);
        if (!of || !json_is_string(name))
            wefti_machine_fail(m, "a method of what is undefined: ",
                               json_is_string(name) ? json_string_value(name) : "");
        else
            out = wefti_value_method(m, json_string_value(name), of, &given);
        json_decref(of);
        json_decref(name);
    }
    free_arguments(&given);
    return out;
}

static json_t *filter_or_test(wefti_machine *m, const wefti_template_node *node) {
    wefti_arguments given;
    json_t *value = evaluate(m, node->a), *out = NULL;
    take_arguments(m, node->b, &given);
    const char *name = json_string_value(node->value);
    if (m->status == WEFT_OK && node->kind == WEFTI_NODE_FILTER)
        out = wefti_value_filter(m, name, value, &given);
    else if (m->status == WEFT_OK)
        out = json_boolean(wefti_value_test(m, name, value, &given));
    json_decref(value);
    free_arguments(&given);
    return out;
}

static json_t *part(wefti_machine *m, const wefti_template_node *node) {
    json_t *of = evaluate(m, node->a), *out;
    if (node->kind == WEFTI_NODE_GET) {
        json_t *key = evaluate(m, node->b);
        out = wefti_value_get(m, of, key);
        json_decref(key);
    } else {
        json_t *bounds[3] = {evaluate(m, node->b), evaluate(m, node->c),
                             evaluate(m, node->d)};
        out = wefti_value_slice(m, of, bounds);
        for (int i = 0; i < 3; i++) json_decref(bounds[i]);
    }
    json_decref(of);
    return out;
}

/* and, or: the operand that decides, as in Python. */
static json_t *either(wefti_machine *m, const wefti_template_node *node) {
    json_t *value = evaluate(m, node->a);
    bool stays = wefti_value_is_true(value) == (node->kind == WEFTI_NODE_OR);
    if (stays) return value;
    json_decref(value);
    return evaluate(m, node->b);
}

static bool is_true(wefti_machine *m, int node) {
    json_t *value = evaluate(m, node);
    bool out = wefti_value_is_true(value);
    json_decref(value);
    return out;
}

static json_t *operate(wefti_machine *m, const wefti_template_node *node) {
    json_t *a = evaluate(m, node->a);
    json_t *b = node->kind == WEFTI_NODE_BINARY ? evaluate(m, node->b) : NULL;
    json_t *out = node->kind == WEFTI_NODE_BINARY ? wefti_value_binary(m, node->op, a, b)
                                                  : wefti_value_minus(m, a);
    json_decref(a);
    json_decref(b);
    return out;
}

static json_t *evaluate_kind(wefti_machine *m, const wefti_template_node *node) {
    switch (node->kind) {
    case WEFTI_NODE_LITERAL: return json_incref(node->value);
    case WEFTI_NODE_NAME: return look_up(m, json_string_value(node->value));
    case WEFTI_NODE_LIST: return make_list(m, node);
    case WEFTI_NODE_DICT: return make_dict(m, node);
    case WEFTI_NODE_GET:
    case WEFTI_NODE_SLICE: return part(m, node);
    case WEFTI_NODE_CALL: return call(m, node);
    case WEFTI_NODE_FILTER:
    case WEFTI_NODE_TEST: return filter_or_test(m, node);
    case WEFTI_NODE_NOT: return json_boolean(!is_true(m, node->a));
    case WEFTI_NODE_AND:
    case WEFTI_NODE_OR: return either(m, node);
    case WEFTI_NODE_CHOICE: return evaluate(m, is_true(m, node->a) ? node->b : node->c);
    case WEFTI_NODE_MINUS:
    case WEFTI_NODE_BINARY: return operate(m, node);
    case WEFTI_NODE_NAMED:
        return wefti_machine_fail(m, "a named argument is no value", "");
    case WEFTI_NODE_TEXT:
    case WEFTI_NODE_PRINT:
    case WEFTI_NODE_FOR:
    case WEFTI_NODE_IF:
    case WEFTI_NODE_SET:
    case WEFTI_NODE_GENERATION:
    case WEFTI_NODE_BREAK:
    case WEFTI_NODE_CONTINUE: break;
    }
    return NULL; /* node 0 and statements: nothing */
}

/* The value of an expression; 0 and failures give NULL. */
static json_t *evaluate(wefti_machine *m, int node) {
    json_t *out = NULL;
    if (node == 0 || m->status != WEFT_OK) return NULL;
    if (enter(m, node)) out = evaluate_kind(m, node_at(m, node));
    m->depth--;
    if (m->status == WEFT_OK) return out;
    json_decref(out);
    return NULL;
}

/* ---- statements ---- */

/* The names of a `for` for one item: one, or as many as the item has parts. */
static void bind(wefti_machine *m, const json_t *names, json_t *item) {
    size_t n = json_array_size(names);
    if (n == 1) {
        set_here(m, json_string_value(json_array_get(names, 0)), json_incref(item));
        return;
    }
    if (json_array_size(item) != n)
        wefti_machine_fail(m, "an item has not as many parts as names", "");
    for (size_t i = 0; i < n && m->status == WEFT_OK; i++)
        set_here(m, json_string_value(json_array_get(names, i)),
                 json_incref(json_array_get(item, i)));
}

/* `loop` for item k of n. */
static void bind_loop(wefti_machine *m, json_t *items, size_t k) {
    size_t n = json_array_size(items);
    json_int_t i = (json_int_t)k, left = (json_int_t)(n - k);
    json_t *loop = wefti_machine_made(
        m, json_pack("{s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "index0", i, "index", i + 1,
                     "length", (json_int_t)n, "revindex", left, "revindex0", left - 1,
                     "first", (int)(k == 0), "last", (int)(k + 1 == n)));
    if (loop && k > 0)
        set(m, loop, "previtem", json_incref(json_array_get(items, k - 1)));
    if (loop && k + 1 < n)
        set(m, loop, "nextitem", json_incref(json_array_get(items, k + 1)));
    set_here(m, "loop", loop);
}

/* The items that pass the loop's condition. */
static json_t *chosen(wefti_machine *m, const wefti_template_node *node) {
    json_t *over = evaluate(m, node->a), *all = wefti_value_items(m, over);
    json_decref(over);
    if (node->b == 0 || m->status != WEFT_OK) return all;
    json_t *out = wefti_machine_made(m, json_array());
    for (size_t i = 0; out && i < json_array_size(all) && open_scope(m); i++) {
        json_t *item = json_array_get(all, i);
        bind(m, node->value, item);
        if (is_true(m, node->b) && json_array_append(out, item) != 0)
            wefti_machine_made(m, NULL);
        close_scope(m);
    }
    json_decref(all);
    return out;
}

static void run_for(wefti_machine *m, const wefti_template_node *node) {
    json_t *items = chosen(m, node);
    for (size_t i = 0; i < json_array_size(items) && m->status == WEFT_OK; i++) {
        if (!open_scope(m)) break;
        work(m, TURN_WORK);
        bind(m, node->value, json_array_get(items, i));
        bind_loop(m, items, i);
        run(m, node->c);
        close_scope(m);
        bool ends = m->flow == WEFTI_NODE_BREAK;
        m->flow = WEFTI_NODE_TEXT;
        if (ends) break;
    }
    if (json_array_size(items) == 0) run(m, node->d);
    json_decref(items);
}

/* {% set x %} text {% endset %}: what its body writes, taken off the end of the text. */
static json_t *captured(wefti_machine *m, int body) {
    int64_t from = m->out->text.n;
    run(m, body);
    wefti_buffer *text = &m->out->text;
    json_t *out = NULL;
    if (m->status == WEFT_OK)
        out = wefti_machine_made(m, json_stringn(text->bytes ? text->bytes + from : "",
                                                 (size_t)(text->n - from)));
    text->n = from;
    return out;
}

static void run_set(wefti_machine *m, const wefti_template_node *node) {
    json_t *value = node->a ? evaluate(m, node->a) : captured(m, node->c);
    const char *name = json_string_value(json_array_get(node->value, 0));
    if (json_array_size(node->value) == 1) {
        set_here(m, name, value);
        return;
    }
    json_t *space = look_up(m, name);
    if (!json_is_object(space)) wefti_machine_fail(m, "this is no namespace: ", name);
    /* a copy: what holds itself would never be freed */
    json_t *copy = value && m->status == WEFT_OK
                       ? wefti_machine_made(m, json_deep_copy(value))
                       : NULL;
    set(m, space, json_string_value(json_array_get(node->value, 1)), copy);
    json_decref(value);
    shallow(m, space);
    json_decref(space);
}

static void run_generation(wefti_machine *m, const wefti_template_node *node) {
    wefti_rendered *out = m->out;
    int64_t from = out->text.n;
    run(m, node->c);
    if (m->status == WEFT_OK)
        m->status = wefti_reserve(m->ctx, &out->spans, &out->room, 2 * out->n_spans, 2,
                                  sizeof *out->spans, "the marks of a template");
    if (m->status != WEFT_OK) return;
    out->spans[2 * out->n_spans] = from;
    out->spans[2 * out->n_spans + 1] = out->text.n;
    out->n_spans++;
}

static void run_one(wefti_machine *m, const wefti_template_node *node) {
    json_t *value;
    switch (node->kind) {
    case WEFTI_NODE_TEXT: wefti_value_print(m, node->value, &m->out->text); return;
    case WEFTI_NODE_PRINT:
        value = evaluate(m, node->a);
        wefti_value_print(m, value, &m->out->text);
        json_decref(value);
        return;
    case WEFTI_NODE_FOR: run_for(m, node); return;
    case WEFTI_NODE_IF: run(m, is_true(m, node->a) ? node->b : node->c); return;
    case WEFTI_NODE_SET: run_set(m, node); return;
    case WEFTI_NODE_GENERATION: run_generation(m, node); return;
    case WEFTI_NODE_BREAK:
    case WEFTI_NODE_CONTINUE: m->flow = node->kind; return;
    default: return; /* expressions are no statements */
    }
}

/* A chain of statements. */
static void run(wefti_machine *m, int node) {
    for (; node && m->status == WEFT_OK && m->flow == WEFTI_NODE_TEXT;
         node = node_at(m, node)->next) {
        if (enter(m, node)) run_one(m, node_at(m, node));
        m->depth--;
    }
}

void wefti_rendered_fini(weft_ctx *ctx, wefti_rendered *rendered) {
    wefti_buffer_fini(ctx, &rendered->text);
    wefti_free(ctx, rendered->spans);
    *rendered = (wefti_rendered){0};
}

weft_status wefti_template_render(weft_ctx *ctx, const wefti_template *t,
                                  const json_t *names, wefti_rendered *out) {
    wefti_machine m = {.ctx = ctx, .t = t, .out = out, .flow = WEFTI_NODE_TEXT};
    out->text.n = 0;
    out->n_spans = 0;
    wefti_buffer_put(ctx, &out->text, "", 0); /* a NUL, also where nothing is written */
    m.status = out->text.status;
    m.scopes[m.n_scopes++] = (json_t *)(uintptr_t)names;
    m.undefined = m.status == WEFT_OK ? wefti_machine_made(&m, json_array()) : NULL;
    if (m.undefined && open_scope(&m)) {
        run(&m, t->body);
        close_scope(&m);
    }
    json_decref(m.undefined);
    if (m.status == WEFT_OK) m.status = out->text.status;
    return m.status;
}
