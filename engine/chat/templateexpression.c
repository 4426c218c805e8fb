/* SPDX-License-Identifier: MIT */
/* Expressions of a template -> nodes, by recursive descent:
 *
 *     expression  or [if or [else expression]]
 *     or, and, not, comparison, + -, ~, * // %, - operand
 *     operand     primary then .name [key] [from:to] (arguments) |filter is test
 *
 * The first failure is kept in the parser, and everything after it does nothing. */
#include "chat/templateparser.h"

#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

enum { MAX_NODES = 1 << 16, SHOWN = 24 };

static void count_lines(wefti_parser *p) {
    for (; p->line_at < p->at; p->line_at++) p->line += p->text[p->line_at] == '\n';
}

int wefti_parser_fail(wefti_parser *p, const char *fault, const char *found,
                      int64_t n_found) {
    count_lines(p);
    if (p->status == WEFT_OK)
        p->status = weft_ctx_fail(p->ctx, WEFT_ERR_FORMAT, "%s, line %d: %s '%.*s'",
                                  p->t->where, p->line, fault,
                                  (int)(n_found < SHOWN ? n_found : SHOWN), found);
    return 0;
}

int wefti_parser_expected(wefti_parser *p, const char *expected) {
    char fault[96];
    snprintf(fault, sizeof fault, "expected %s, not", expected);
    bool ends = p->kind == TOKEN_END;
    return wefti_parser_fail(p, fault, ends ? "the end" : p->token,
                             ends ? 7 : p->n_token);
}

/* ---- nodes ---- */

int wefti_parser_add(wefti_parser *p, wefti_node_kind kind) {
    wefti_template *t = p->t;
    if (p->status == WEFT_OK && t->n >= MAX_NODES)
        return wefti_parser_fail(p, "the template is too long at",
                                 p->token ? p->token : "", p->n_token);
    if (p->status == WEFT_OK)
        p->status = wefti_reserve(p->ctx, &t->nodes, &t->room, t->n, 1, sizeof *t->nodes,
                                  "a template");
    if (p->status != WEFT_OK) return 0;
    count_lines(p);
    t->nodes[t->n] = (wefti_template_node){.kind = kind, .line = p->line};
    return (int)t->n++;
}

int wefti_parser_add_value(wefti_parser *p, wefti_node_kind kind, json_t *value) {
    int node = wefti_parser_add(p, kind);
    if (!value && p->status == WEFT_OK)
        p->status = weft_ctx_fail(p->ctx, WEFT_ERR_MEMORY, "no memory for a template");
    if (node == 0 || !value) {
        json_decref(value);
        return 0;
    }
    p->t->nodes[node].value = value;
    return node;
}

wefti_template_node *wefti_parser_at(wefti_parser *p, int node) {
    return &p->t->nodes[node];
}

/* Joins a node to the end of a chain. */
void wefti_parser_chain(wefti_parser *p, int *first, int *last, int node) {
    if (node == 0) return;
    if (*last) wefti_parser_at(p, *last)->next = node;
    if (!*first) *first = node;
    *last = node;
}

int wefti_parser_add_two(wefti_parser *p, wefti_node_kind kind, wefti_binary op, int a,
                         int b) {
    int node = wefti_parser_add(p, kind);
    if (node == 0) return 0;
    wefti_parser_at(p, node)->op = op;
    wefti_parser_at(p, node)->a = a;
    wefti_parser_at(p, node)->b = b;
    return node;
}

/* ---- tokens of an expression ---- */

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool wefti_parser_blank(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Bytes of the tag's end at `at`, with its sign; 0: there is none. */
int64_t wefti_parser_end_length(const wefti_parser *p, int64_t from) {
    const char *s = p->text + from;
    int64_t signs = *s == '-' || (*s == '+' && p->closer == '%');
    return s[signs] == p->closer && s[signs + 1] == '}' ? signs + 2 : 0;
}

static int64_t sign_length(const char *s) {
    static const char *const two[] = {"==", "!=", "<=", ">=", "//"};
    for (size_t i = 0; i < sizeof two / sizeof two[0]; i++)
        if (strncmp(s, two[i], 2) == 0) return 2;
    return strchr("+-*/%~<>=|.,:()[]{}", *s) && *s ? 1 : 0;
}

static void read_quoted(wefti_parser *p) {
    char quote = p->text[p->at];
    int64_t end = p->at + 1;
    while (end < p->n && p->text[end] != quote) end += p->text[end] == '\\' ? 2 : 1;
    if (end >= p->n) {
        wefti_parser_fail(p, "a text in quotes does not end:", p->text + p->at,
                          p->n - p->at);
        return;
    }
    p->kind = TOKEN_TEXT;
    p->n_token = end + 1 - p->at;
}

void wefti_parser_advance(wefti_parser *p) {
    p->at += p->n_token;
    p->n_token = 0;
    while (p->at < p->n && wefti_parser_blank(p->text[p->at])) p->at++;
    const char *s = p->token = p->text + p->at;
    int64_t n = 0;
    p->kind = TOKEN_END;
    if (p->status != WEFT_OK ||
        (p->brackets == 0 && wefti_parser_end_length(p, p->at) > 0))
        return;
    if (is_letter(*s)) {
        while (is_letter(s[n]) || is_digit(s[n])) n++;
        p->kind = TOKEN_NAME;
    } else if (is_digit(*s)) {
        while (is_digit(s[n])) n++;
        p->kind = TOKEN_INT;
    } else if (*s == '\'' || *s == '"') {
        read_quoted(p);
        return;
    } else if ((n = sign_length(s)) > 0) {
        p->kind = TOKEN_SIGN;
        p->brackets += strchr("([{", *s) != NULL;
        p->brackets -= strchr(")]}", *s) != NULL;
    } else {
        wefti_parser_fail(p, p->at < p->n ? "what is" : "a tag does not end", s,
                          p->at < p->n ? 1 : 0);
    }
    p->n_token = n;
}

static bool is_token(const wefti_parser *p, wefti_token_kind kind, const char *text) {
    return p->kind == kind && (int64_t)strlen(text) == p->n_token &&
           memcmp(p->token, text, (size_t)p->n_token) == 0;
}

static bool is_sign(const wefti_parser *p, const char *text) {
    return is_token(p, TOKEN_SIGN, text);
}

static bool take(wefti_parser *p, wefti_token_kind kind, const char *text) {
    if (!is_token(p, kind, text)) return false;
    wefti_parser_advance(p);
    return true;
}

bool wefti_parser_take_sign(wefti_parser *p, const char *text) {
    return take(p, TOKEN_SIGN, text);
}
bool wefti_parser_take_word(wefti_parser *p, const char *text) {
    return take(p, TOKEN_NAME, text);
}

void wefti_parser_expect(wefti_parser *p, const char *sign) {
    char expected[16];
    snprintf(expected, sizeof expected, "'%s'", sign);
    if (p->status == WEFT_OK && !wefti_parser_take_sign(p, sign))
        wefti_parser_expected(p, expected);
}

/* The name at hand as a value; NULL with a failure. */
json_t *wefti_parser_take_name(wefti_parser *p) {
    if (p->status != WEFT_OK) return NULL;
    if (p->kind != TOKEN_NAME) {
        wefti_parser_expected(p, "a name");
        return NULL;
    }
    json_t *name = json_stringn(p->token, (size_t)p->n_token);
    wefti_parser_advance(p);
    return name;
}

/* ---- expressions ---- */

static int parse_operand(wefti_parser *p, bool with_filters);

/* What a letter behind a backslash stands for; 0: nothing that is known. */
static char escaped(char c) {
    switch (c) {
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case '\\':
    case '\'':
    case '"': return c;
    default: return 0;
    }
}

/* What stands between the quotes, its escapes undone. */
static void put_quoted(wefti_parser *p, wefti_buffer *out) {
    const char *s = p->token + 1, *end = p->token + p->n_token - 1;
    for (; s < end && p->status == WEFT_OK; s++) {
        char c = *s == '\\' ? escaped(*++s) : *s;
        if (c == 0)
            wefti_parser_fail(p, "an escape that is not known:", s - 1, 2);
        else
            wefti_buffer_put(p->ctx, out, &c, 1);
    }
}

static int parse_text(wefti_parser *p) {
    wefti_buffer text = {0};
    while (p->kind == TOKEN_TEXT && p->status == WEFT_OK) {
        put_quoted(p, &text);
        wefti_parser_advance(p);
    }
    if (p->status == WEFT_OK) p->status = text.status;
    int node = p->status == WEFT_OK
                   ? wefti_parser_add_value(
                         p, WEFTI_NODE_LITERAL,
                         json_stringn(text.bytes ? text.bytes : "", (size_t)text.n))
                   : 0;
    wefti_buffer_fini(p->ctx, &text);
    return node;
}

static int parse_int(wefti_parser *p) {
    int64_t value = 0;
    char digits[20];
    if (p->n_token >= (int64_t)sizeof digits)
        return wefti_parser_expected(p, "a smaller number");
    snprintf(digits, sizeof digits, "%.*s", (int)p->n_token, p->token);
    if (!wefti_parse_int(digits, &value))
        return wefti_parser_expected(p, "a whole number");
    wefti_parser_advance(p);
    if (is_sign(p, ".")) return wefti_parser_expected(p, "a whole number");
    return wefti_parser_add_value(p, WEFTI_NODE_LITERAL, json_integer(value));
}

static int parse_name(wefti_parser *p) {
    static const struct {
        const char *name;
        char value;
    } words[] = {{"true", 't'},  {"True", 't'}, {"false", 'f'},
                 {"False", 'f'}, {"none", 'n'}, {"None", 'n'}};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (wefti_parser_take_word(p, words[i].name)) {
            char v = words[i].value;
            return wefti_parser_add_value(
                p, WEFTI_NODE_LITERAL, v == 'n' ? json_null() : json_boolean(v == 't'));
        }
    return wefti_parser_add_value(p, WEFTI_NODE_NAME, wefti_parser_take_name(p));
}

/* Items up to the bracket that closes; of a dict, keys and values in turns. */
static int parse_items(wefti_parser *p, const char *closing, bool pairs) {
    int first = 0, last = 0;
    while (p->status == WEFT_OK && !is_sign(p, closing)) {
        wefti_parser_chain(p, &first, &last, wefti_parse_expression(p));
        if (pairs) {
            wefti_parser_expect(p, ":");
            wefti_parser_chain(p, &first, &last, wefti_parse_expression(p));
        }
        if (!wefti_parser_take_sign(p, ",")) break;
    }
    wefti_parser_expect(p, closing);
    return first;
}

static int parse_group(wefti_parser *p) {
    const char *closing = is_sign(p, "(") ? ")" : is_sign(p, "[") ? "]" : "}";
    bool dict = *closing == '}', tuple = *closing == ')';
    wefti_parser_advance(p);
    if (tuple) {
        int first = wefti_parse_expression(p), last = first;
        if (!is_sign(p, ",")) {
            wefti_parser_expect(p, ")");
            return first;
        }
        wefti_parser_advance(p);
        wefti_parser_chain(p, &first, &last, parse_items(p, ")", false));
        return wefti_parser_add_two(p, WEFTI_NODE_LIST, 0, first, 0);
    }
    int items = parse_items(p, closing, dict);
    return wefti_parser_add_two(p, dict ? WEFTI_NODE_DICT : WEFTI_NODE_LIST, 0, items, 0);
}

static int parse_primary(wefti_parser *p) {
    if (p->status != WEFT_OK) return 0;
    if (p->kind == TOKEN_TEXT) return parse_text(p);
    if (p->kind == TOKEN_INT) return parse_int(p);
    if (p->kind == TOKEN_NAME) return parse_name(p);
    if (is_sign(p, "(") || is_sign(p, "[") || is_sign(p, "{")) return parse_group(p);
    return wefti_parser_expected(p, "a value");
}

/* Arguments up to the parenthesis that closes. */
static int parse_arguments(wefti_parser *p) {
    int first = 0, last = 0;
    while (p->status == WEFT_OK && !is_sign(p, ")")) {
        int argument = wefti_parse_expression(p);
        bool named = argument && wefti_parser_at(p, argument)->kind == WEFTI_NODE_NAME &&
                     is_sign(p, "=");
        if (named) {
            wefti_parser_advance(p);
            int value = wefti_parse_expression(p);
            if (p->status != WEFT_OK) return 0;
            wefti_parser_at(p, argument)->kind = WEFTI_NODE_NAMED;
            wefti_parser_at(p, argument)->a = value;
        }
        wefti_parser_chain(p, &first, &last, argument);
        if (!wefti_parser_take_sign(p, ",")) break;
    }
    wefti_parser_expect(p, ")");
    return first;
}

static int parse_bound(wefti_parser *p) {
    return is_sign(p, ":") || is_sign(p, "]") ? 0 : wefti_parse_expression(p);
}

/* [key] or [from:to:by]; the bracket is taken. */
static int parse_subscript(wefti_parser *p, int of) {
    int from = parse_bound(p), to = 0, by = 0;
    bool slice = wefti_parser_take_sign(p, ":");
    if (slice) to = parse_bound(p);
    if (slice && wefti_parser_take_sign(p, ":")) by = parse_bound(p);
    wefti_parser_expect(p, "]");
    int node = wefti_parser_add_two(p, slice ? WEFTI_NODE_SLICE : WEFTI_NODE_GET, 0, of,
                                    from);
    if (node == 0) return 0;
    wefti_parser_at(p, node)->c = to;
    wefti_parser_at(p, node)->d = by;
    return node;
}

static int parse_attribute(wefti_parser *p, int of) {
    int name = p->kind == TOKEN_INT ? parse_int(p)
                                    : wefti_parser_add_value(p, WEFTI_NODE_LITERAL,
                                                             wefti_parser_take_name(p));
    return wefti_parser_add_two(p, WEFTI_NODE_GET, 0, of, name);
}

static int parse_filter(wefti_parser *p, int of) {
    int node = wefti_parser_add_value(p, WEFTI_NODE_FILTER, wefti_parser_take_name(p));
    int arguments = wefti_parser_take_sign(p, "(") ? parse_arguments(p) : 0;
    if (p->status != WEFT_OK) return 0;
    wefti_parser_at(p, node)->a = of;
    wefti_parser_at(p, node)->b = arguments;
    return node;
}

/* Whether an argument without parentheses may follow a test: x is divisibleby 3. */
static bool begins_operand(const wefti_parser *p) {
    static const char *const words[] = {"else", "or", "and", "is", "in", "if", "not"};
    if (p->kind == TOKEN_TEXT || p->kind == TOKEN_INT) return true;
    if (p->kind != TOKEN_NAME) return is_sign(p, "[") || is_sign(p, "{");
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (is_token(p, TOKEN_NAME, words[i])) return false;
    return true;
}

static int parse_test(wefti_parser *p, int of) {
    bool negated = wefti_parser_take_word(p, "not");
    int node = wefti_parser_add_value(p, WEFTI_NODE_TEST, wefti_parser_take_name(p)),
        arguments = 0;
    if (wefti_parser_take_sign(p, "("))
        arguments = parse_arguments(p);
    else if (begins_operand(p))
        arguments = parse_operand(p, false);
    if (p->status != WEFT_OK) return 0;
    wefti_parser_at(p, node)->a = of;
    wefti_parser_at(p, node)->b = arguments;
    return negated ? wefti_parser_add_two(p, WEFTI_NODE_NOT, 0, node, 0) : node;
}

static int parse_call(wefti_parser *p, int of) {
    int arguments = parse_arguments(p);
    if (p->status != WEFT_OK) return 0;
    wefti_node_kind kind = wefti_parser_at(p, of)->kind;
    if (kind != WEFTI_NODE_NAME && kind != WEFTI_NODE_GET)
        return wefti_parser_expected(p, "a call of a name or a method before");
    return wefti_parser_add_two(p, WEFTI_NODE_CALL, 0, of, arguments);
}

static int parse_operand(wefti_parser *p, bool with_filters) {
    bool minus = wefti_parser_take_sign(p, "-");
    if ((p->depth += minus) > WEFTI_TEMPLATE_DEPTH)
        return wefti_parser_expected(p, "less nesting");
    int node = minus ? parse_operand(p, false) : parse_primary(p);
    p->depth -= minus;
    if (minus) node = wefti_parser_add_two(p, WEFTI_NODE_MINUS, 0, node, 0);
    while (p->status == WEFT_OK) {
        if (wefti_parser_take_sign(p, "."))
            node = parse_attribute(p, node);
        else if (wefti_parser_take_sign(p, "["))
            node = parse_subscript(p, node);
        else if (wefti_parser_take_sign(p, "("))
            node = parse_call(p, node);
        else if (with_filters && wefti_parser_take_sign(p, "|"))
            node = parse_filter(p, node);
        else if (with_filters && wefti_parser_take_word(p, "is"))
            node = parse_test(p, node);
        else
            return node;
    }
    return 0;
}

/* Operators of one level, from left to right. */
typedef struct level {
    const char *sign;
    wefti_binary op;
} level;

static bool take_level(wefti_parser *p, const level *levels, size_t n, wefti_binary *op) {
    for (size_t i = 0; i < n; i++)
        if (wefti_parser_take_sign(p, levels[i].sign)) {
            *op = levels[i].op;
            return true;
        }
    return false;
}

static int parse_product(wefti_parser *p) {
    static const level levels[] = {
        {"*", WEFTI_TIMES}, {"//", WEFTI_WHOLE}, {"%", WEFTI_REST}};
    wefti_binary op;
    int node = parse_operand(p, true);
    while (p->status == WEFT_OK && take_level(p, levels, 3, &op))
        node = wefti_parser_add_two(p, WEFTI_NODE_BINARY, op, node,
                                    parse_operand(p, true));
    return node;
}

static int parse_joined(wefti_parser *p) {
    int node = parse_product(p);
    while (p->status == WEFT_OK && wefti_parser_take_sign(p, "~"))
        node = wefti_parser_add_two(p, WEFTI_NODE_BINARY, WEFTI_JOIN, node,
                                    parse_product(p));
    return node;
}

static int parse_sum(wefti_parser *p) {
    static const level levels[] = {{"+", WEFTI_PLUS}, {"-", WEFTI_LESS_BY}};
    wefti_binary op;
    int node = parse_joined(p);
    while (p->status == WEFT_OK && take_level(p, levels, 2, &op))
        node = wefti_parser_add_two(p, WEFTI_NODE_BINARY, op, node, parse_joined(p));
    return node;
}

/* "not in" is one operator: whether `not` is followed by it. */
static bool take_not_in(wefti_parser *p) {
    const wefti_parser before = *p;
    if (wefti_parser_take_word(p, "not") && wefti_parser_take_word(p, "in")) return true;
    p->at = before.at;
    p->kind = before.kind;
    p->token = before.token;
    p->n_token = before.n_token;
    return false;
}

static bool take_comparison(wefti_parser *p, wefti_binary *op) {
    static const level levels[] = {{"==", WEFTI_EQUAL},   {"!=", WEFTI_UNEQUAL},
                                   {"<=", WEFTI_AT_MOST}, {">=", WEFTI_AT_LEAST},
                                   {"<", WEFTI_LESS},     {">", WEFTI_MORE}};
    if (take_level(p, levels, 6, op)) return true;
    *op = WEFTI_IN;
    if (wefti_parser_take_word(p, "in")) return true;
    *op = WEFTI_NOT_IN;
    return take_not_in(p);
}

static int parse_comparison(wefti_parser *p) {
    wefti_binary op;
    int node = parse_sum(p);
    if (p->status != WEFT_OK || !take_comparison(p, &op)) return node;
    node = wefti_parser_add_two(p, WEFTI_NODE_BINARY, op, node, parse_sum(p));
    if (p->status == WEFT_OK && take_comparison(p, &op))
        return wefti_parser_expected(p, "no chain of comparisons");
    return node;
}

static int parse_not(wefti_parser *p) {
    if (!wefti_parser_take_word(p, "not")) return parse_comparison(p);
    if (++p->depth > WEFTI_TEMPLATE_DEPTH)
        return wefti_parser_expected(p, "less nesting");
    int node = wefti_parser_add_two(p, WEFTI_NODE_NOT, 0, parse_not(p), 0);
    p->depth--;
    return node;
}

static int parse_and(wefti_parser *p) {
    int node = parse_not(p);
    while (p->status == WEFT_OK && wefti_parser_take_word(p, "and"))
        node = wefti_parser_add_two(p, WEFTI_NODE_AND, 0, node, parse_not(p));
    return node;
}

int wefti_parse_or(wefti_parser *p) {
    int node = parse_and(p);
    while (p->status == WEFT_OK && wefti_parser_take_word(p, "or"))
        node = wefti_parser_add_two(p, WEFTI_NODE_OR, 0, node, parse_and(p));
    return node;
}

int wefti_parse_expression(wefti_parser *p) {
    if (p->status != WEFT_OK) return 0;
    if (++p->depth > WEFTI_TEMPLATE_DEPTH)
        return wefti_parser_expected(p, "less nesting");
    int node = wefti_parse_or(p);
    while (p->status == WEFT_OK && wefti_parser_take_word(p, "if")) {
        int condition = wefti_parse_or(p);
        int other = wefti_parser_take_word(p, "else") ? wefti_parse_expression(p) : 0;
        node = wefti_parser_add_two(p, WEFTI_NODE_CHOICE, 0, condition, node);
        if (node) wefti_parser_at(p, node)->c = other;
    }
    p->depth--;
    return node;
}
